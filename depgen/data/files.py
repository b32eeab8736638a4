"""What corpora in files share: their splits, fingerprints of content, lower case, a log of what is left out."""

import hashlib
import json
import logging
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from depgen.data.corpus import SPLITS, Split, SplitStatistics
from depgen.data.overlap import Overlap, SplitReader, overlap_of
from depgen.errors import UserError
from depgen.locations import file_sha256, find_file
from depgen.trees.file_formats import FileFormat, format_of
from depgen.trees.lines import read_lines
from depgen.trees.sentence import Document

logger = logging.getLogger(__name__)


class SplitFiles(SplitReader):
    """A corpus in files that a folder holds for each split; a subclass reads a file.

    Args:
        folder: where the files lie, under `$DEPGEN_DATA` unless absolute.
        files: the names of each split's file or files.
        lowercase: whether words are lower-cased.
        name: what results call the corpus; the folder's name if not given.
        overlap: what becomes of training documents that equal one of validation or test (`depgen.data.overlap`); None
            for what that module says of the folder.
    """

    published: Mapping[Split, SplitStatistics] = {}
    how_to_get: str
    """Where a user finds the files, for messages."""

    def __init__(
        self,
        folder: str,
        files: Mapping[Split, str | Sequence[str]],
        *,
        lowercase: bool,
        name: str | None,
        overlap: Overlap | None = None,
    ) -> None:
        self.folder, self.files, self.lowercase = folder, files, lowercase
        self.name = name or Path(folder).name
        self.overlap = overlap or overlap_of(folder)

    @abstractmethod
    def read(self, path: Path, split: Split) -> Iterator[Document]:
        """The documents of one of a split's files, with the identifiers that they have in results."""

    def read_split(self, split: Split) -> Iterator[Document]:
        """All documents of a split's files, in file order."""
        for path in self.paths(split):
            for document in self.read(path, split):
                yield lowercased(document) if self.lowercase else document

    def options(self) -> dict[str, object]:
        """The reading options that the fingerprint covers."""
        return {"lowercase": self.lowercase}

    def content(self, split: Split) -> str:
        """A digest of the split's files and of the reading options."""
        return content_fingerprint(self.paths(split), reader=type(self).__name__, **self.options())

    def paths(self, split: Split) -> list[Path]:
        """The files of a split.

        Raises:
            UserError: one is missing.
        """
        names = self.files[split]
        return [
            find_file(Path(self.folder) / name, how_to_get=self.how_to_get)
            for name in ([names] if isinstance(names, str) else names)
        ]


def content_fingerprint(paths: Iterable[Path], **options: object) -> str:
    """A SHA-256 hex digest of the files' bytes, in order, and of the reading options; names and dates do not count.

    Raises:
        UserError: a file can't be read.
    """
    digest = hashlib.sha256(json.dumps(options, sort_keys=True).encode())
    for path in paths:
        try:
            digest.update(bytes.fromhex(file_sha256(path)))
        except OSError as error:
            raise UserError(f"{path} can't be read ({error.strerror or error}); change its rights.") from error
    return digest.hexdigest()


def lowercased(document: Document) -> Document:
    """The document with its words in lower case, all else as it was."""
    sentences = tuple(replace(s, words=tuple(word.lower() for word in s.words)) for s in document.sentences)
    return Document(sentences, document.identifier)


_READERS: Mapping[FileFormat, str] = {
    "conllu": "depgen.data.treebank.ConlluTreebank",
    "sdp": "depgen.data.treebank.SdpTreebank",
    "jsonl": "depgen.data.json_documents.JsonDocuments",
    **dict.fromkeys(("csv", "tsv"), "depgen.data.hub_corpus.HubCorpus"),
}
"""The corpora that read files of a format; the last reads a folder of tables."""


def read_plain_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file of plain text, as `depgen.trees.lines.read_lines` gives them.

    Raises:
        UserError: the file can't be read, or the ending of its name says that it holds something else.
    """
    found = format_of(path)
    if found != "text":
        raise UserError(
            f"{path}: expected plain text, found the ending .{found}: take the corpus {_READERS[found]}, or rename the "
            "file if it holds plain text (.txt)."
        )
    yield from read_lines(path)


LEAVE_OUT = (
    "If some sentences have no tree, leave them out by with_trees_only: true of the treebank's reader "
    "(depgen.data.treebank.ConlluTreebank, depgen.data.hub_corpus.HubCorpus)"
)
"""What messages advise where a sentence of a treebank lacks what a verb needs."""


def with_trees_alone(documents: Iterable[Document], field: str, *, corpus: str, split: Split) -> Iterator[Document]:
    """The documents without the sentences that lack a field; these are counted in the log.

    Args:
        documents: of a split.
        field: of `depgen.trees.sentence.Sentence`, such as `heads`.
        corpus: what the log calls them.
        split: which one it is.

    Raises:
        UserError: no sentence is left.
    """
    left_out, found = 0, False
    for document in documents:
        kept = tuple(each for each in document.sentences if getattr(each, field) is not None)
        left_out += len(document.sentences) - len(kept)
        if kept:
            found = True
            yield replace(document, sentences=kept)
    if left_out and not found:
        raise UserError(f"{corpus} {split}: with_trees_only: expected sentences with a tree, found none of {left_out}.")
    log_left_out(left_out, "sentences without a tree", corpus=corpus, split=split)


def seeded_split(paths: Sequence[Path], *, valid: int, test: int, seed: int, where: str) -> dict[Split, list[Path]]:
    """Documents, one a file, in splits that depend on the seed and the files' names alone; see `seeded_names`.

    Raises:
        UserError: nothing is left to train on, or two files have one name.
    """
    by_name = {path.name: path for path in paths}
    parts = seeded_names([path.name for path in paths], valid=valid, test=test, seed=seed, where=where)
    return {split: sorted(by_name[name] for name in part) for split, part in parts.items()}


def seeded_names(names: Sequence[str], *, valid: int, test: int, seed: int, where: str) -> dict[Split, list[str]]:
    """Documents in splits that depend on the seed and their names alone, each split in the order given.

    By the SHA-256 of "{seed}:{name}", the first are test, the next validation, the rest training.

    Raises:
        UserError: nothing is left to train on, a split of fewer than no documents, or two documents of one name.
    """
    if valid < 0 or test < 0:
        raise UserError(f"{where}: expected 0 or more documents to validate and to test on, found {valid} and {test}.")
    if len(names) <= valid + test:
        raise UserError(f"{where}: expected more than {valid + test} documents to split, found {len(names)}.")
    if len(set(names)) < len(names):
        twice, _ = Counter(names).most_common(1)[0]
        raise UserError(f"{where}: two documents are called {twice}; a draw by name needs a name for each.")
    ranked = sorted(names, key=lambda name: hashlib.sha256(f"{seed}:{name}".encode()).digest())
    chosen = {name: "test" if rank < test else "valid" for rank, name in enumerate(ranked[: valid + test])}
    return {split: [name for name in names if chosen.get(name, "train") == split] for split in SPLITS}


def log_left_out(count: int, what: str, *, corpus: str, split: str) -> None:
    """Say once how much a reader left out; nothing if it was nothing."""
    if count:
        logger.warning("%s, %s: left out %d %s.", corpus, split, count, what)
