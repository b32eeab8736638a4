"""Corpora of tagged words, one file a document: `word/tag`, one sentence a line, such as the Brown corpus."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from depgen.data.corpus import SPLITS, Split, SplitStatistics
from depgen.data.files import content_fingerprint, lowercased, seeded_split
from depgen.errors import UserError
from depgen.locations import find_data, matching
from depgen.trees.lines import read_lines
from depgen.trees.sentence import Document, Sentence


class TaggedDocuments:
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

    published: Mapping[Split, SplitStatistics] = {}

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
        self.folder, self.files, self.name = folder, files, name
        self.valid_documents, self.test_documents, self.seed = valid_documents, test_documents, seed
        self.lowercase = lowercase

    def documents(self, split: Split) -> Iterator[Document]:
        """The documents of a split; identifiers are the files' names.

        Raises:
            UserError: a file holds no sentence, or a word without a tag.
        """
        for path in self._paths(split):
            sentences = tuple(_sentence(line, f"{path}:{number}") for number, line in read_lines(path) if line.strip())
            if not sentences:
                raise UserError(f"{path}: expected sentences, one a line, found none.")
            document = Document(sentences, path.name)
            yield lowercased(document) if self.lowercase else document

    def fingerprint(self, split: Split) -> str:
        """A digest of the split's files and of whether they are lower-cased."""
        return content_fingerprint(self._paths(split), reader="TaggedDocuments", lowercase=self.lowercase)

    def drawn(self) -> dict[Split, list[str]]:
        """Identifiers of each split's documents."""
        return {split: [path.name for path in self._paths(split)] for split in SPLITS}

    def _paths(self, split: Split) -> list[Path]:
        folder = find_data(self.folder, how_to_get="The Brown corpus is NLTK's: nltk.download('brown').")
        paths = matching(folder, self.files)
        return seeded_split(
            paths, valid=self.valid_documents, test=self.test_documents, seed=self.seed, where=f"{folder}/{self.files}"
        )[split]


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
