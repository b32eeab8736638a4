"""Documents in text files, one sentence a line: the form that the authors of document-context models read theirs in."""

from collections.abc import Iterator
from pathlib import Path

from depgen.data.corpus import Split
from depgen.data.files import SplitFiles, read_plain_lines
from depgen.data.overlap import Overlap
from depgen.errors import UserError
from depgen.trees.sentence import Document, Sentence

RULES = "2"
"""Raised when the rules change by which lines part documents."""


def read_document_lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The first line's number and the sentences of each document: a line each.

    Documents end where a line is blank, or begins and ends with `=` (`=`, `====`, `= Title =`). Such lines belong to no
    document.

    Raises:
        UserError: the file is missing, holds no sentence, or has the ending of another format.
    """
    first, sentences, found = 0, list[str](), False
    for number, line in read_plain_lines(path):
        text = line.strip()
        if text and not (text.startswith("=") and text.endswith("=")):
            first, found = first or number, True
            sentences.append(text)
        elif sentences:
            yield first, sentences
            first, sentences = 0, []
    if sentences:
        yield first, sentences
    if not found:
        raise UserError(f"{path}: expected documents, a sentence a line and blank lines between, found no sentence.")


class DocumentLines(SplitFiles):
    """Documents of tokenised sentences, a sentence a line, parted by blank lines or lines that begin and end with `=`.

    The latter are headings, such as `= Title =`, and lone equality signs: the form of Ji et al. (2015), into which a
    user of their North American News Text (LDC2008T13) writes it: `folder: nant`. Their code ends a document at any
    line that begins with `=`; here it must also end with it, so that a sentence such as `= 12 minutes .` is kept.

    Args:
        folder: where the files lie, under `$DEPGEN_DATA` unless absolute.
        train: the training split's file; `.gz` is unpacked.
        valid: the validation split's file.
        test: the test split's file.
        lowercase: whether words are lower-cased.
        name: what results call the corpus; the folder's name if not given.
        overlap: what becomes of training documents that equal one of validation or test: see `depgen.data.overlap`.
    """

    how_to_get = "Put one tokenised sentence on each line of a UTF-8 file and a blank line between documents."

    def __init__(
        self,
        folder: str,
        *,
        train: str = "train.txt",
        valid: str = "valid.txt",
        test: str = "test.txt",
        lowercase: bool = False,
        name: str | None = None,
        overlap: Overlap | None = None,
    ) -> None:
        files: dict[Split, str] = {"train": train, "valid": valid, "test": test}
        super().__init__(folder, files, lowercase=lowercase, name=name, overlap=overlap)

    def read(self, path: Path, split: Split) -> Iterator[Document]:
        """The documents of a file; identifiers are file and first line."""
        for number, lines in read_document_lines(path):
            yield Document(tuple(Sentence(tuple(line.split())) for line in lines), f"{path.name}:{number}")

    def options(self) -> dict[str, object]:
        """See `SplitFiles`; RULES says what parts documents."""
        return {**super().options(), "rules": RULES}
