"""Steps: what is done to the documents of a corpus, such as cutting them into sentences or leaving some out.

A model is evaluated on text that is written as the text it has learnt from:

    learnt from                                      evaluated on
    a corpus with the step `BareWords`               the treebank or text with the step `BareWords`
    the language-modelling Penn Treebank (`Ptb`)     the treebank with the step `Normalized`, or `Ptb` itself

The Penn Treebank's text never passes `BareWords`: it is without punctuation already, and its `N` would become a letter.
Treebanks with tags lose their punctuation by these; tokenised text (Wikinews, WikiText, news) by form.
"""

import json
import logging
import random
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import ClassVar, Literal

from depgen.data.corpus import (
    SPLITS,
    Corpus,
    Digest,
    Read,
    Split,
    Step,
    form_of,
    log_left_out,
)
from depgen.data.names import (
    CapitalizedNames,
    delexicalize,
    everywhere,
    genders_in_story,
    library_name_genders,
    library_version,
    read_name_genders,
    tokens_of_story,
)
from depgen.data.tokenization import Tokens, detokenize, rejoined, tokenize
from depgen.errors import MissingDataError, UserError
from depgen.locations import file_sha256, lines_sha256
from depgen.trees.graph import without_relations
from depgen.trees.sentence import Document, Sentence
from depgen.trees.text_form import FORMS, FormName, bare_words, normalize

logger = logging.getLogger(__name__)

HELD_OUT: tuple[Split, ...] = ("valid", "test")
LEAVE_OUT = "If some sentences have no tree, leave them out by the treebank's step depgen.data.steps.WithTreesOnly"
"""What messages advise where a sentence of a treebank lacks what a verb needs."""


# -- steps that rewrite sentences -------------------------------------------------------------------------------------


class Rewrite(Step):
    """Rewrites sentences; those left without words go and are counted, and documents left without sentences go too."""

    @property
    def left_out(self) -> str:
        """What the log calls the sentences that go."""
        return "sentences without words"

    @abstractmethod
    def sentence(self, sentence: Sentence) -> Sentence:
        """What a sentence becomes, maybe without words."""

    def documents(self, read: Read, split: Split) -> Iterator[Document]:
        """The documents of a split with every sentence rewritten."""
        where, left_out, any_document = f"{type(self).__name__}, {split}", 0, False
        for document in read(split):
            sentences = [self.sentence(sentence) for sentence in document.sentences]
            with_words = tuple(sentence for sentence in sentences if sentence.words)
            left_out += len(sentences) - len(with_words)
            if with_words:
                any_document = True
                yield Document(with_words, document.identifier)
        if left_out and not any_document:
            raise UserError(f"{where}: expected other sentences too, found nothing but {left_out} {self.left_out}.")
        log_left_out(left_out, self.left_out, where)


@dataclass(frozen=True)
class Lowercase(Rewrite):
    """Words in lower case.

    Args:
        but_placeholders: whether placeholders in square brackets, such as `[MALE]`, stay capitals, as in ROCStories.
    """

    but_placeholders: bool = False

    def sentence(self, sentence: Sentence) -> Sentence:
        """The sentence with its words in lower case, all else as it was."""
        return replace(sentence, words=tuple(map(FORMS[self._form].spelt, sentence.words)))

    def form(self, form: FormName | None) -> FormName | None:
        """That of lower-cased text, where the text has none yet."""
        return form or self._form

    @property
    def _form(self) -> FormName:
        return "stories" if self.but_placeholders else "lower"


@dataclass(frozen=True)
class BareWords(Rewrite):
    """Words alone, as UDGN reads them: without punctuation, in lower case, with `N` for digits.

    The rules are those of `depgen.trees.text_form`. UDGN reads sentences by themselves: `SingleSentences` comes first.
    Each word whose tree loses its root becomes a root, as in the authors' code.
    """

    def sentence(self, sentence: Sentence) -> Sentence:
        """The sentence without punctuation, its words spelt by the rules."""
        return bare_words(sentence)

    def form(self, form: FormName | None) -> FormName | None:
        """`bare`."""
        return "bare"

    def name(self, name: str) -> str:
        """What results call such a corpus."""
        return f"{name} (bare words)"


@dataclass(frozen=True)
class Normalized(Rewrite):
    """A treebank as the language-modelling Penn Treebank is written (`depgen.trees.text_form`).

    Lower case, no punctuation, `N` for numbers and `<unk>` for words that a corpus lacks.

    Args:
        words_of: the corpus whose training words are known.
    """

    words_of: Corpus

    def sentence(self, sentence: Sentence) -> Sentence:
        """The sentence, normalised."""
        if sentence.tags is None:
            raise UserError(
                f"{' '.join(sentence.words[:8])!r} …: expected tags, which tell punctuation from words, found none. "
                "Name a treebank that is tagged, or the column that has its tags."
            )
        return normalize(sentence, self._known)

    def digests(self, digest: Digest, split: Split) -> list[str]:
        """The training words of the other corpus among them."""
        return [digest(split), self.words_of.fingerprint("train")]

    def form(self, form: FormName | None) -> FormName | None:
        """That of the Penn Treebank."""
        return "ptb"

    def name(self, name: str) -> str:
        """What results call such a treebank."""
        return f"{name} (normalised as {self.words_of.name})"

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(word for document in self.words_of.documents("train") for word in document.words())


@dataclass(frozen=True)
class Retokenized(Rewrite):
    """Tokens of `depgen.data.tokenization`: tokens are joined to text, which is cut again. Sentences lose their trees.

    Args:
        apart: whether clitics and numbers are cut apart as in the EMNLP 2017 news (`don ' t`, `50 , 000`).
    """

    apart: bool = False

    tokens: ClassVar[Tokens] = "rules"

    def sentence(self, sentence: Sentence) -> Sentence:
        """The sentence with other tokens."""
        text = " ".join(sentence.words)
        return Sentence(tuple(tokenize(detokenize(rejoined(text) if self.apart else text))))

    def form(self, form: FormName | None) -> FormName | None:
        """Lower case stays; other forms are of single tokens."""
        return form if form in ("stories", "lower") else None


@dataclass(frozen=True)
class WithoutRelations(Rewrite):
    """Graphs lose the edges of some relations, such as `punct`; a relation includes its subtypes.

    Args:
        relations: those that go (`depgen.trees.graph.without_relations`).
    """

    relations: Sequence[str]

    def sentence(self, sentence: Sentence) -> Sentence:
        """The sentence, its graph without the relations."""
        if sentence.edges is None:
            return sentence
        return replace(sentence, edges=without_relations(sentence.edges, self.relations))


# -- steps that choose documents and sentences ------------------------------------------------------------------------


@dataclass(frozen=True)
class SingleSentences(Step):
    """Every sentence becomes a document of its own; those of other lengths are left out and counted.

    Args:
        min_words: shorter ones are left out, as headlines and credits often are.
        max_words: longer ones are left out; None for any length.
    """

    min_words: int = 1
    max_words: int | None = None

    def documents(self, read: Read, split: Split) -> Iterator[Document]:
        """The sentences of a split; identifiers are the document's and the sentence's number in it, from 1."""
        left_out = 0
        for document in read(split):
            for number, sentence in enumerate(document.sentences, start=1):
                if len(sentence) < self.min_words or (self.max_words is not None and len(sentence) > self.max_words):
                    left_out += 1
                else:
                    yield Document((sentence,), f"{document.identifier}:{number}")
        log_left_out(left_out, "sentences of other lengths", f"SingleSentences, {split}")


def has_single_sentences(corpus: object) -> bool:
    """Whether a corpus's documents are sentences by the step `SingleSentences`."""
    steps: Sequence[Step] = getattr(corpus, "steps", None) or ()
    inner = getattr(corpus, "corpus", None)
    return any(isinstance(step, SingleSentences) for step in steps) or (
        inner is not None and has_single_sentences(inner)
    )


@dataclass(frozen=True)
class FirstDocuments(Step):
    """The first documents of a split; the other splits stay as they are.

    Args:
        most: how many there are at most; None for all.
        skip: how many are left out before these, such as those that others learn from.
        split: which split.
    """

    most: int | None = None
    skip: int = 0
    split: Split = "train"

    def changes(self, split: Split) -> bool:
        """Whether documents go from it."""
        return split == self.split and (self.skip > 0 or self.most is not None)

    def documents(self, read: Read, split: Split) -> Iterator[Document]:
        """The documents of the split."""
        return islice(read(split), self.skip, None if self.most is None else self.skip + self.most)


@dataclass(frozen=True)
class WithTreesOnly(Rewrite):
    """Leaves out sentences without a tree or a graph, and counts them.

    Args:
        of: what a sentence must have.
    """

    of: Literal["heads", "edges", "spans"] = "heads"

    @property
    def left_out(self) -> str:
        """They are those that lack it."""
        return f"sentences without {self.of}"

    def sentence(self, sentence: Sentence) -> Sentence:
        """The sentence, or one without words in place of one that lacks it."""
        return Sentence(()) if getattr(sentence, self.of) is None else sentence


@dataclass(frozen=True)
class WithPartners(Step):
    """Training sentences that can be given another sentence's tree: see `partners`; others are left out and counted.

    A system and its control with `depgen.annotation.controls.TreesOfOtherSentences` then learn from the same text.
    The step is for corpora of single sentences with trees.
    """

    def changes(self, split: Split) -> bool:
        """Training alone."""
        return split == "train"

    def documents(self, read: Read, split: Split) -> Iterator[Document]:
        """The documents that have a partner."""
        documents = list(read(split))
        alone = 0
        for document, partner in zip(documents, partners([each.sentences[0] for each in documents]), strict=True):
            if partner is None:
                alone += 1
            else:
                yield document
        log_left_out(alone, "sentences without a partner of their length and another tree", f"WithPartners, {split}")


def partners(sentences: Sequence[Sentence], seed: int = 0) -> list[int | None]:
    """The place of another sentence of each one's length with another tree, each used once; None where none is left.

    Of a length in which more than half of the sentences have one tree, as many as possible have a partner.

    >>> tree, other = (2, 0), (0, 1)
    >>> partners([Sentence(("a", "b"), heads) for heads in (tree, tree, other, tree)])
    [2, None, 0, None]
    """
    generator, found = random.Random(seed), list[int | None]([None] * len(sentences))
    lengths = defaultdict(list)
    for place, sentence in enumerate(sentences):
        lengths[len(sentence)].append(place)
    for places in lengths.values():
        generator.shuffle(places)
        trees = defaultdict(list)
        for place in places:
            trees[sentences[place].heads].append(place)
        most, *others = sorted(trees.values(), key=len, reverse=True)
        kept = most[: sum(map(len, others))]  # more of them would have partners of their own tree
        ring = [*kept, *chain.from_iterable(others)]
        # Sentences of one tree lie next to each other: a turn by the largest number of them leads to another tree.
        for place, partner in zip(ring, [*ring[len(kept) :], *ring[: len(kept)]], strict=True):
            found[place] = partner
    return found


@dataclass(frozen=True)
class ContextsOfOtherDocuments(Step):
    """Each sentence of a training document but the first is replaced by the sentence at its place in another document.

    The sentences of the corpus and their places stay, but the sentences before one say nothing about it. A system that
    gains from such contexts does not gain from what they say.

    Args:
        seed: another seed draws other documents.
    """

    seed: int = 0

    def changes(self, split: Split) -> bool:
        """Training alone."""
        return split == "train"

    def documents(self, read: Read, split: Split) -> Iterator[Document]:
        """The documents, each as long as it was."""
        documents, generator = list(read(split)), random.Random(self.seed)
        sentences = [list(document.sentences) for document in documents]
        for number in range(1, max(map(len, sentences), default=0)):
            long = [place for place, own in enumerate(sentences) if len(own) > number]
            generator.shuffle(long)
            for place, giver in zip(long, [*long[1:], long[0]], strict=True):
                sentences[place][number] = documents[giver].sentences[number]
        for document, own in zip(documents, sentences, strict=True):
            yield replace(document, sentences=tuple(own))


@dataclass(frozen=True)
class WithoutHeldOut(Step):
    """Leaves out documents that are held out to be tested on: what is tested must not have been learnt.

    Two documents are equal if their words are, once all blanks are removed; a document is a corpus's line, story or
    article, or by `SingleSentences` a sentence. A split that is not at hand takes nothing away. Treebanks and the Penn
    Treebank's lines are read without this step: their splits are official, and short sentences recur in them.

    Args:
        of: a corpus whose documents are held out, those of all its splits; None: validation and test of this one.
        splits: the splits that lose documents; all others stay as they are.
    """

    of: Corpus | None = None
    splits: Sequence[Split] = ("train",)

    def changes(self, split: Split) -> bool:
        """Whether documents go from it."""
        return split in self.splits

    def _held_out(self, split: Split) -> Sequence[Split]:
        """The splits that documents of `split` must not be in, of this corpus or of the other."""
        return SPLITS if self.of is not None else [other for other in HELD_OUT if other != split]

    def documents(self, read: Read, split: Split) -> Iterator[Document]:
        """The documents of the split that equal none held out."""
        held_out, read_held_out = set[str](), read if self.of is None else self.of.documents
        for other in self._held_out(split):
            with suppress(MissingDataError):
                held_out.update(map(text_of, read_held_out(other)))
        count = left_out = 0
        for count, document in enumerate(read(split), start=1):  # noqa: B007
            if text_of(document) in held_out:
                left_out += 1
            else:
                yield document
        if left_out and left_out == count:
            raise UserError(f"All {split} documents are held out: leave the step WithoutHeldOut out.")
        if left_out:
            logger.warning(
                "WithoutHeldOut, %s: left out %d of %d documents, which equal one of %s but for blanks.",
                split, left_out, count, "validation or test" if self.of is None else self.of.name,
            )  # fmt: skip

    def digests(self, digest: Digest, split: Split) -> list[str]:
        """Those of what is held out among them, as far as it is at hand."""
        digests = [digest(split)]
        for other in self._held_out(split):
            with suppress(MissingDataError):
                digests.append(digest(other) if self.of is None else self.of.fingerprint(other))
        return digests

    def form(self, form: FormName | None) -> FormName | None:
        """The text's own, or that of the other corpus: text of another form would be nowhere in it."""
        return form or form_of(self.of)

    def name(self, name: str) -> str:
        """What results call such a corpus."""
        return name if self.of is None else f"{name} without {self.of.name}"


def text_of(document: Document) -> str:
    """Its words without blanks, which words of JSON lines and of a hub may have within them."""
    return "".join("".join("".join(sentence.words) for sentence in document.sentences).split())


@dataclass(frozen=True)
class PlaceholdersForNames(Step):
    """Raw stories in the form of the published ROCStories: lower case, Penn tokens, placeholders for people's names.

    Names go by capitals and by evidence of the whole split (`depgen.data.names`).

    Args:
        names: a file of name, tab and male, female or neutral; None: the English names of the library Faker.
    """

    names: str | None = None

    tokens: ClassVar[Tokens] = "rules"

    def documents(self, read: Read, split: Split) -> Iterator[Document]:
        """The stories of a split."""
        genders = library_name_genders() if self.names is None else read_name_genders(Path(self.names))
        documents = list(read(split))
        stories = [tokens_of_story([" ".join(s.words) for s in document.sentences]) for document in documents]
        finder = CapitalizedNames(stories, genders)
        for document, story in zip(documents, stories, strict=True):
            texts = delexicalize(story, genders_in_story(story, everywhere(story, finder.find(story)), genders))
            yield Document(tuple(Sentence(tuple(text.split())) for text in texts), document.identifier)

    @property
    def versions(self) -> dict[str, int | str]:
        """That of the list of names among them."""
        return {**super().versions, "list": library_version() if self.names is None else file_sha256(Path(self.names))}

    def fingerprint(self, digest: Digest, split: Split) -> str:
        """That before the step, and of the list of names, wherever it lies."""
        return lines_sha256(["PlaceholdersForNames", json.dumps(self.versions), digest(split)])

    def form(self, form: FormName | None) -> FormName | None:
        """That of the published stories."""
        return "stories"


@dataclass(frozen=True)
class MoreTraining(Step):
    """Training documents of other corpora come after a corpus's own; its other splits stay as they are.

    Args:
        corpora: the others.
        most: how many of their documents are taken, in all; None: all.
    """

    corpora: Sequence[Corpus] = field(default_factory=tuple)
    most: int | None = None

    def changes(self, split: Split) -> bool:
        """Training alone."""
        return split == "train"

    def documents(self, read: Read, split: Split) -> Iterator[Document]:
        """The documents of training, the corpus's own first."""
        yield from read(split)
        yield from islice((each for corpus in self.corpora for each in corpus.documents("train")), self.most)

    def digests(self, digest: Digest, split: Split) -> list[str]:
        """Those of the others' training splits among them."""
        return [digest(split), *(corpus.fingerprint("train") for corpus in self.corpora)]

    def name(self, name: str) -> str:
        """The names joined."""
        return " and ".join([name, *(corpus.name for corpus in self.corpora)])
