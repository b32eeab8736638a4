"""A vocabulary with a table of the labels of constituents, for systems that write trees with their texts."""

from collections.abc import Iterable, Iterator

from depgen.data.vocabulary import Vocabulary, VocabularyBuilder, WordVocabulary
from depgen.trees.constituency import UNNAMED
from depgen.trees.sentence import Document

LABELS = "labels"
"""The name of the table."""

NO_CONSTITUENTS = (
    "and these data have none: set data.init_args.annotator to depgen.annotation.trivial.GoldTrees with structure: "
    "constituency, of a corpus that has them (depgen.data.formats.Brackets), or to "
    "depgen.annotation.supar_structures.SuparConstituencyAnnotator; and trees_for so that the training split gets them."
)
"""What a system of constituents says where it is given none."""


class ConstituentLabels:
    """Builds another builder's vocabulary, with a table of the labels of its documents' constituents.

    The first label is `TOP`: of constituents that have none, and of those whose label the documents do not have.

    Args:
        builder: builds the vocabulary; every word by default.
    """

    reads_trees = True

    def __init__(self, builder: VocabularyBuilder | None = None) -> None:
        self.builder = builder or WordVocabulary()

    def build(self, documents: Iterable[Document]) -> Vocabulary:
        """The builder's vocabulary and the labels, sorted."""
        labels = set[str]()

        def noted() -> Iterator[Document]:
            for document in documents:
                labels.update(label for sentence in document.sentences for *_, label in sentence.spans or ())
                yield document

        passing = noted()
        vocabulary = self.builder.build(passing)
        for _ in passing:  # what the builder has not read
            pass
        return vocabulary.with_tables({LABELS: [UNNAMED, *sorted(labels - {UNNAMED})]})

    def fingerprint(self) -> str:
        """Of the builder."""
        return f"constituent labels 1, {self.builder.fingerprint()}"
