"""Treebanks of bracketed constituents, as the Linguistic Data Consortium hands them out.

Penn Treebank-3 (LDC99T42)   the defaults: `parsed/mrg/wsj` of the disc as `wsj/`, its sections as UDGN splits them
BLLIP (LDC2000T43)           `folder: bllip`, with patterns such as `1987/w7_00*/*` for each split
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from depgen.data.corpus import Split
from depgen.data.files import SplitFiles
from depgen.data.sentences import rewritten_documents
from depgen.errors import UserError
from depgen.locations import find_data, matching
from depgen.trees.constituency import TRACE_TAGS, read_bracketed
from depgen.trees.sentence import Document, Sentence

WSJ = "wsj"


class BracketedTreebank(SplitFiles):
    """Words, tags and constituents of trees such as those of the Penn Treebank's `.mrg` files; a document a file.

    Traces are left out, and labels are categories alone (`NP` of `NP-SBJ-1`). Sentences of nothing but traces are left
    out and counted. There are no heads: constituents have none.

    Args:
        folder: where the files lie, under `$DEPGEN_DATA` unless absolute.
        train: patterns of the training split's files, below the folder; those of one pattern are read by name.
        valid: patterns of the validation split's files.
        test: patterns of the test split's files.
        lowercase: whether words are lower-cased.
        name: what results call the corpus; by default `Penn Treebank` of the folder `wsj`, else the folder's name.
    """

    how_to_get = (
        "Bracketed treebanks come from the Linguistic Data Consortium, https://catalog.ldc.upenn.edu: LDC99T42 and "
        "LDC2000T43; a sample of the first is NLTK's: nltk.download('treebank')."
    )

    def __init__(
        self,
        folder: str = WSJ,
        *,
        train: Sequence[str] = ("0?/*.mrg", "1?/*.mrg", "20/*.mrg"),
        valid: Sequence[str] = ("21/*.mrg", "22/*.mrg"),
        test: Sequence[str] = ("23/*.mrg", "24/*.mrg"),
        lowercase: bool = False,
        name: str | None = None,
    ) -> None:
        files: dict[Split, Sequence[str]] = {"train": train, "valid": valid, "test": test}
        name = name or ("Penn Treebank" if folder == WSJ else None)
        super().__init__(folder, files, lowercase=lowercase, name=name, overlap="keep")

    def read_split(self, split: Split) -> Iterator[Document]:
        """All documents of a split's files, without the sentences of nothing but traces."""
        documents = super().read_split(split)
        return rewritten_documents(documents, lambda each: each, corpus=self.name, split=split)

    def read(self, path: Path, split: Split) -> Iterator[Document]:
        """The document of a file; its identifier is the file's path below the folder."""
        trees = [tree.without(TRACE_TAGS) for tree in read_bracketed(path)]
        sentences = tuple(Sentence(tree.words, tags=tree.tags, spans=tree.constituents) for tree in trees)
        yield Document(sentences, path.relative_to(self._folder()).as_posix())

    def paths(self, split: Split) -> list[Path]:
        """Each file of a split once.

        Raises:
            UserError: there is no such folder, or no file of a pattern.
        """
        folder, found = self._folder(), list[Path]()
        for pattern in self.files[split]:
            paths = matching(folder, pattern)
            if not paths:
                raise UserError(f"{folder}: expected files {pattern} of bracketed trees ({split}), found none.")
            found += paths
        return list(dict.fromkeys(found))

    def _folder(self) -> Path:
        return find_data(self.folder, how_to_get=self.how_to_get)
