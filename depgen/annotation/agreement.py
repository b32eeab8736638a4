"""How far two annotators agree on the same text."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from depgen.data.corpus import Corpus, Split
from depgen.errors import UserError, check_at_least
from depgen.trees.annotator import Annotator, structure_of
from depgen.trees.punctuation import Punctuation, is_punctuation


@dataclass(frozen=True)
class Agreement:
    """Shares of words, in per cent, that two annotators give the same head, or the same head and relation.

    Attributes:
        first: scheme of the one.
        second: scheme of the other.
        heads: all words, punctuation included.
        heads_and_relations: the same.
        heads_without_punctuation: words that are no punctuation.
        heads_and_relations_without_punctuation: the same.
        arcs: arcs of the one that the other has, in either direction: what dependency modelling sees of a tree.
        trees: sentences whose heads are all the same.
        words: words compared.
        sentences: sentences compared.
        documents: documents compared.
    """

    first: str
    second: str
    heads: float
    heads_and_relations: float
    heads_without_punctuation: float
    heads_and_relations_without_punctuation: float
    arcs: float
    trees: float
    words: int
    sentences: int
    documents: int

    def summary(self) -> str:
        """Two lines for the terminal."""
        return (
            f"{self.first} / {self.second} on {self.documents} documents, {self.sentences} sentences, "
            f"{self.words} words:\nsame head {self.heads:.2f} %, same head and relation "
            f"{self.heads_and_relations:.2f} %; without punctuation {self.heads_without_punctuation:.2f} %, "
            f"{self.heads_and_relations_without_punctuation:.2f} %; same arc in either direction {self.arcs:.2f} %; "
            f"same tree {self.trees:.2f} % of sentences"
        )


def agreement(
    corpus: Corpus,
    split: Split,
    first: Annotator,
    second: Annotator,
    *,
    documents: int | None = None,
    punctuation: Punctuation = "relation",
) -> Agreement:
    """The agreement of two annotators on the first `documents` of a split (all of them if None).

    Symmetric in the annotators: the unlabelled attachment score of either when the other counts as gold. What is
    punctuation by its relation depends on the first annotator, or on the second where the first gives no relations.

    Raises:
        UserError: an annotator gives graphs; punctuation is left out by relations, and neither annotator gives any.
    """
    for annotator in (first, second):
        if structure_of(annotator) != "tree":
            raise UserError(
                f"{annotator.scheme}: expected an annotator that gives trees, found one that gives another structure "
                f"({structure_of(annotator)})."
            )
    chosen = list(islice(corpus.documents(split), documents))
    sentences = [sentence for document in chosen for sentence in document.sentences]
    counts = dict.fromkeys(("words", "heads", "both", "content", "content_heads", "content_both", "arcs", "trees"), 0)
    for one, other in zip(first.annotate(sentences), second.annotate(sentences), strict=True):
        assert one.heads is not None
        assert other.heads is not None
        labels = zip(one.relations or one.words, other.relations or one.words, strict=True)
        left_out = is_punctuation(other if one.relations is None else one, punctuation)
        for is_left_out, head, its, (label, its_label) in zip(left_out, one.heads, other.heads, labels, strict=True):
            content = not is_left_out
            counts["words"] += 1
            counts["heads"] += head == its
            counts["both"] += head == its and label == its_label
            counts["content"] += content
            counts["content_heads"] += content and head == its
            counts["content_both"] += content and head == its and label == its_label
        counts["arcs"] += len(_arcs(one.heads) & _arcs(other.heads))
        counts["trees"] += one.heads == other.heads

    def share(count: str, total: int) -> float:
        return 100 * counts[count] / max(1, total)

    return Agreement(
        first=first.scheme,
        second=second.scheme,
        heads=share("heads", counts["words"]),
        heads_and_relations=share("both", counts["words"]),
        heads_without_punctuation=share("content_heads", counts["content"]),
        heads_and_relations_without_punctuation=share("content_both", counts["content"]),
        arcs=share("arcs", counts["words"]),
        trees=share("trees", len(sentences)),
        words=counts["words"],
        sentences=len(sentences),
        documents=len(chosen),
    )


def _arcs(heads: Sequence[int]) -> set[tuple[int, int]]:
    return {(min(word, head), max(word, head)) for word, head in enumerate(heads, start=1)}


def parser_agreement(
    corpus: Corpus,
    first: Annotator,
    second: Annotator,
    split: Split = "valid",
    documents: int = 500,
    punctuation: Punctuation = "relation",
) -> str:
    """The agreement of two annotators on the first documents of a split, ready to print.

    Args:
        corpus: whose words.
        first: the one annotator.
        second: the other.
        split: of the corpus.
        documents: how many of them, from the first on.
        punctuation: what is left out of the figures without punctuation: words of the first annotator's `relation`
            punct, as `train-parser` and spaCy's scorer do, or by their `form`, as SuPar's scorer does.

    Raises:
        UserError: fewer than one document; punctuation by relation, and neither annotator gives relations.
    """
    check_at_least(1, documents=documents)
    return agreement(corpus, split, first, second, documents=documents, punctuation=punctuation).summary()
