"""Splits for a corpus that has none: its documents drawn by a seed."""

from collections.abc import Iterator, Mapping
from functools import cached_property

from depgen.data.corpus import Corpus, Split, SplitStatistics, form_of
from depgen.data.files import seeded_names
from depgen.data.overlap import Overlap, SplitReader
from depgen.locations import lines_sha256
from depgen.trees.sentence import Document


class SeededSplits(SplitReader):
    """All documents of one split of a corpus, drawn into three by their identifiers; see `depgen.data.files`.

    Args:
        corpus: any; such as JSON lines in a single file.
        of: the split of it that is read; its others are not.
        valid_documents: size of the validation split.
        test_documents: size of the test split.
        seed: of the draw.
        name: what results call it; the corpus's name if not given.
        overlap: what becomes of training documents that equal one of validation or test: see `depgen.data.overlap`.
    """

    published: Mapping[Split, SplitStatistics] = {}

    def __init__(
        self,
        corpus: Corpus,
        *,
        of: Split = "train",
        valid_documents: int = 50,
        test_documents: int = 50,
        seed: int = 0,
        name: str | None = None,
        overlap: Overlap = "drop",
    ) -> None:
        self.corpus, self.of = corpus, of
        self.valid_documents, self.test_documents, self.seed = valid_documents, test_documents, seed
        self.name, self.overlap = name or corpus.name, overlap
        self.form = form_of(corpus)

    def read_split(self, split: Split) -> Iterator[Document]:
        """All documents of a split, in the corpus's order."""
        wanted = frozenset(self._parts[split])
        return (document for document in self.corpus.documents(self.of) if document.identifier in wanted)

    def content(self, split: Split) -> str:
        """A digest of the corpus and of the draw."""
        draw = f"{self.valid_documents} {self.test_documents} {self.seed}"
        parts = ["SeededSplits", split, draw, self.corpus.fingerprint(self.of)]
        return lines_sha256(parts)

    def drawn(self) -> Mapping[Split, list[str]]:
        """Identifiers of each split's documents."""
        return self._parts

    @cached_property
    def _parts(self) -> Mapping[Split, list[str]]:
        return seeded_names(
            [document.identifier for document in self.corpus.documents(self.of)],
            valid=self.valid_documents,
            test=self.test_documents,
            seed=self.seed,
            where=self.corpus.name,
        )
