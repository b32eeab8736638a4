"""Documents in text files, one sentence a line: the form that the authors of document-context models read theirs in."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from depgen.data.corpus import Split, SplitStatistics
from depgen.data.files import content_fingerprint, lowercased
from depgen.errors import UserError
from depgen.locations import find_file
from depgen.trees.lines import read_lines
from depgen.trees.sentence import Document, Sentence


def read_document_lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The first line's number and the sentences of each document: a line each.

    Documents end where a line is blank or begins with `=`, of which none belongs to a document.

    Raises:
        UserError: the file is missing, or holds no sentence.
    """
    first, sentences, found = 0, list[str](), False
    for number, line in read_lines(path):
        if line.strip() and not line.startswith("="):
            first, found = first or number, True
            sentences.append(line.strip())
        elif sentences:
            yield first, sentences
            first, sentences = 0, []
    if sentences:
        yield first, sentences
    if not found:
        raise UserError(f"{path}: expected documents, a sentence a line and blank lines between, found no sentence.")


class DocumentLines:
    """Documents of tokenised sentences, a sentence a line, parted by blank lines or lines that begin with `=`.

    The latter is the form of Ji et al. (2015), into which a user of their North American News Text (LDC2008T13)
    writes it: `folder: nant`.

    Args:
        folder: where the files lie, under `$DEPGEN_DATA` unless absolute.
        train: the training split's file; `.gz` is unpacked.
        valid: the validation split's file.
        test: the test split's file.
        lowercase: whether words are lower-cased.
        name: what results call the corpus; the folder's name if not given.
    """

    published: Mapping[Split, SplitStatistics] = {}

    def __init__(
        self,
        folder: str,
        *,
        train: str = "train.txt",
        valid: str = "valid.txt",
        test: str = "test.txt",
        lowercase: bool = False,
        name: str | None = None,
    ) -> None:
        self.folder, self.lowercase = folder, lowercase
        self.files: Mapping[Split, str] = {"train": train, "valid": valid, "test": test}
        self.name = name or Path(folder).name

    def documents(self, split: Split) -> Iterator[Document]:
        """The documents of a split; identifiers are file and first line."""
        path = self._path(split)
        for number, lines in read_document_lines(path):
            document = Document(tuple(Sentence(tuple(line.split())) for line in lines), f"{path.name}:{number}")
            yield lowercased(document) if self.lowercase else document

    def fingerprint(self, split: Split) -> str:
        """A digest of the split's file and of whether it is lower-cased."""
        return content_fingerprint([self._path(split)], reader="DocumentLines", lowercase=self.lowercase)

    def _path(self, split: Split) -> Path:
        how_to_get = "Put one tokenised sentence on each line of a UTF-8 file and a blank line between documents."
        return find_file(Path(self.folder) / self.files[split], how_to_get=how_to_get)
