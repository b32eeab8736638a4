"""Corpora of tagged words, one file a document: `word/tag`, one sentence a line, such as the Brown corpus."""

from collections.abc import Iterator
from pathlib import Path

from depgen.data.corpus import Split
from depgen.data.files import SeededFiles
from depgen.errors import UserError
from depgen.trees.lines import read_lines
from depgen.trees.sentence import Document, Sentence


class TaggedDocuments(SeededFiles):
    """Documents of `word/tag`, split by document; by default the 500 texts of the Brown corpus.

    There are no official splits: see `depgen.data.files.seeded_split`.

    Args:
        folder: where the files lie, under `$DEPGEN_DATA` unless absolute.
        files: pattern of their names.
        valid_documents: size of the validation split.
        test_documents: size of the test split.
        seed: of the split.
        lowercase: whether words are lower-cased.
        name: what results call the corpus.
    """

    how_to_get = "The Brown corpus is NLTK's: nltk.download('brown')."

    def __init__(
        self,
        folder: str = "brown",
        *,
        files: str = "c[a-r][0-9][0-9]",
        valid_documents: int = 50,
        test_documents: int = 50,
        seed: int = 0,
        lowercase: bool = False,
        name: str = "Brown",
    ) -> None:
        super().__init__(
            folder, files, valid_documents=valid_documents, test_documents=test_documents, seed=seed,
            lowercase=lowercase, name=name,
        )  # fmt: skip

    def read(self, path: Path, split: Split) -> Iterator[Document]:
        """The document of a file; its identifier is the file's name.

        Raises:
            UserError: the file holds no sentence, or a word without a tag.
        """
        sentences = tuple(_sentence(line, f"{path}:{number}") for number, line in read_lines(path) if line.strip())
        if not sentences:
            raise UserError(f"{path}: expected sentences, one a line, found none.")
        yield Document(sentences, self.identifier(path))


def _sentence(line: str, where: str) -> Sentence:
    """Words and tags, which follow the last slash of each; `//.` is a slash tagged as a stop."""
    words, tags = [], []
    for token in line.split():
        word, slash, tag = token.rpartition("/")
        if not (word and slash and tag):
            raise UserError(f"{where}: expected word/tag, found {token!r}.")
        words.append(word)
        tags.append(tag)
    return Sentence(tuple(words), tags=tuple(tags))
