"""Treebanks of bracketed constituents, as the Linguistic Data Consortium hands them out.

Penn Treebank-3 (LDC99T42)   the defaults: `parsed/mrg/wsj` of the disc as `wsj/`, its sections as UDGN splits them
BLLIP (LDC2000T43)           `folder: bllip`, with patterns such as `1987/w7_00*/*` for each split
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from depgen.data.corpus import Split, SplitStatistics
from depgen.data.files import content_fingerprint, log_left_out, lowercased
from depgen.errors import UserError
from depgen.locations import find_data, matching
from depgen.trees.constituency import TRACE_TAGS, read_bracketed
from depgen.trees.sentence import Document, Sentence

WSJ = "wsj"
_HOW_TO_GET = (
    "Bracketed treebanks come from the Linguistic Data Consortium, https://catalog.ldc.upenn.edu: LDC99T42 and "
    "LDC2000T43; a sample of the first is NLTK's: nltk.download('treebank')."
)


class BracketedTreebank:
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

    published: Mapping[Split, SplitStatistics] = {}

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
        self.folder = folder
        self.files: Mapping[Split, Sequence[str]] = {"train": train, "valid": valid, "test": test}
        self.lowercase, self.name = lowercase, name or ("Penn Treebank" if folder == WSJ else Path(folder).name)

    def documents(self, split: Split) -> Iterator[Document]:
        """The documents of a split; identifiers are the files' paths below the folder."""
        left_out = 0
        for identifier, path in self._paths(split).items():
            trees = [tree.without(TRACE_TAGS) for tree in read_bracketed(path)]
            sentences = tuple(
                Sentence(tree.words, tags=tree.tags, spans=tree.constituents) for tree in trees if tree.words
            )
            left_out += len(trees) - len(sentences)
            if sentences:
                document = Document(sentences, identifier)
                yield lowercased(document) if self.lowercase else document
        log_left_out(left_out, "sentences without words", corpus=self.name, split=split)

    def fingerprint(self, split: Split) -> str:
        """A digest of the split's files and of whether they are lower-cased."""
        return content_fingerprint(self._paths(split).values(), reader="BracketedTreebank", lowercase=self.lowercase)

    def _paths(self, split: Split) -> dict[str, Path]:
        """Each file of a split once, by its path below the folder.

        Raises:
            UserError: there is no such folder, or no file of a pattern.
        """
        folder = find_data(self.folder, how_to_get=_HOW_TO_GET)
        found: dict[str, Path] = {}
        for pattern in self.files[split]:
            paths = matching(folder, pattern)
            if not paths:
                raise UserError(f"{folder}: expected files {pattern} of bracketed trees ({split}), found none.")
            found |= {path.relative_to(folder).as_posix(): path for path in paths}
        return found
