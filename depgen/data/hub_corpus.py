"""Corpora of the Hugging Face hub by name, and folders of the same layout: texts, sentences, or trees in columns."""

from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import PurePath
from typing import Any, Literal

from depgen.data.corpus import Split, SplitStatistics
from depgen.data.files import log_left_out, lowercased, with_trees_alone
from depgen.data.hub_files import Rows, rows_of
from depgen.data.hub_rows import Columns, Root, RowReader, labels_of
from depgen.data.overlap import Overlap, SplitReader
from depgen.data.tokenization import SentenceSplitter, sentences_of
from depgen.data.wikitext import articles
from depgen.errors import MissingDataError, UserError, check_one_of
from depgen.hub import one_line
from depgen.trees.sentence import Document, Sentence

USUAL_SPLITS: Mapping[Split, tuple[str, ...]] = {
    "train": ("train", "training"),
    "valid": ("validation", "valid", "dev", "val"),
    "test": ("test",),
}
"""What datasets call their splits."""


class HubCorpus(SplitReader):
    """A dataset as a corpus: `Salesforce/wikitext`, treebanks in columns, or any dataset of texts or sentences.

    A dataset is a folder or a name on the hub (https://huggingface.co/datasets). A folder holds what
    `datasets.load_dataset(FOLDER)` reads (parquet, arrow, JSON lines, CSV) or what `save_to_disk` wrote. It lies where
    the name says or at that name under `$DEPGEN_DATA`, so the same YAML works without a network once the folder is
    there. Files of the hub are fetched when they are first read, and then kept in `$DEPGEN_CACHE/hub`.

    Each row is a document, read from one of three kinds of columns. A column of a usual name need not be named:

    - tokens: a list of words (a sentence) or of lists of words (a document); `tokens`, `words`, `forms`, `form`. Their
      trees are lists of the same length: `heads` or `head`; `relations` or `deprel`; tags in `xpos`, `tags`, `pos` or
      `upos`.
    - sentences: a list of strings or of lists of words; `sentences`.
    - text: a string; `text`, `sentence`, `document`, `article`, `content`, `story`.

    Heads are numbers or strings. A token without one ("None", "_", null), such as a range of words or an empty node of
    Universal Dependencies, is left out and counted; a sentence whose tokens all lack one has no tree. Relations and
    tags may be numbers of a `ClassLabel`. Rows without a token are left out and counted.

    Args:
        dataset: a folder, or `owner/name` on the hub.
        configuration: of the dataset, such as `wikitext-2-v1` or `en_ewt`; in a folder its README.md or a subfolder
            of that name.
        revision: branch, tag or commit on the hub; None for the main branch. For a dataset whose files only a script
            reads, `refs/convert/parquet` often has them in parquet.
        train: the dataset's name of the training split; None for `train` or `training`.
        valid: that of the validation split; None for `validation`, `valid`, `dev` or `val`.
        test: that of the test split; None for `test`.
        text_column: the column of a text.
        sentences_column: the column of a list of sentences.
        tokens_column: the column of a list of tokens.
        heads_column: the column of their heads.
        relations_column: the column of their dependency relations.
        tags_column: the column of their part-of-speech tags.
        identifier_column: the column of the document's identifier; split and row where there is none.
        document_column: a column whose value says which document a row belongs to: rows in a series with the same value
            become one document.
        root: what the head of a root is: 0 where heads count words from 1, -1 where they count them from 0.
        articles: whether rows are lines of WikiText, and an article is a document (`depgen.data.wikitext.WikiText`);
            None: if the name of the dataset or of its configuration begins with `wikitext`.
        headings: whether an article's title and headings are sentences of it.
        sentence_splitter: how a text becomes sentences; see `depgen.data.tokenization`.
        tokens: how a string becomes tokens: at white space, or by `depgen.data.tokenization`.
        lowercase: whether words are lower-cased.
        name: what results call the corpus; by default the dataset and its configuration.
        overlap: what becomes of training documents that equal one of validation or test (`depgen.data.overlap`). To
            drop them, all rows are read before the first is given.
        with_trees_only: whether sentences without a tree are left out and counted.

    Raises:
        UserError: columns of two kinds are named.
    """

    published: Mapping[Split, SplitStatistics] = {}

    def __init__(
        self,
        dataset: str,
        configuration: str | None = None,
        *,
        revision: str | None = None,
        train: str | None = None,
        valid: str | None = None,
        test: str | None = None,
        text_column: str | None = None,
        sentences_column: str | None = None,
        tokens_column: str | None = None,
        heads_column: str | None = None,
        relations_column: str | None = None,
        tags_column: str | None = None,
        identifier_column: str | None = None,
        document_column: str | None = None,
        root: Root = 0,
        articles: bool | None = None,
        headings: bool = False,
        sentence_splitter: SentenceSplitter = "rules",
        tokens: Literal["whitespace", "rules"] = "whitespace",
        lowercase: bool = False,
        name: str | None = None,
        overlap: Overlap = "keep",
        with_trees_only: bool = False,
    ) -> None:
        check_one_of(root=(root, Root))
        self.dataset, self.configuration, self.revision = dataset, configuration, revision
        self.splits: Mapping[Split, str | None] = {"train": train, "valid": valid, "test": test}
        self.columns = Columns(
            text_column, sentences_column, tokens_column, heads_column, relations_column, tags_column,
            identifier_column, document_column,
        )  # fmt: skip
        self.root, self.headings, self.sentence_splitter, self.tokens = root, headings, sentence_splitter, tokens
        title = PurePath(dataset).name
        self.articles = any(each.startswith("wikitext") for each in (title, configuration or ""))
        if articles is not None:
            self.articles = articles
        self.lowercase, self.overlap, self.with_trees_only = lowercase, overlap, with_trees_only
        self.name = name or " ".join([title, configuration] if configuration else [title])

    def read_split(self, split: Split) -> Iterator[Document]:
        """The documents of a split, in the order of its rows.

        Raises:
            UserError: there is no such split or column, a file is damaged, a row can't be read, or no row has a token.
        """
        reader, numbered = self._opened(split)
        found = False
        documents = self._articles(reader, numbered) if self.articles else reader.documents(numbered)
        if self.with_trees_only:
            documents = with_trees_alone(documents, "heads", corpus=self.name, split=split)
        for document in documents:
            found = True
            yield lowercased(document) if self.lowercase else document
        if not found:
            tree = " and a tree" if self.with_trees_only else ""
            raise UserError(f"{reader.where}: expected documents, found no row with a token{tree}.")
        for what, count in reader.left_out.items():
            log_left_out(count, what, corpus=self.name, split=split)

    def content(self, split: Split) -> str:
        """A digest of the split's files (on the hub, of their names and commit) and of the reading options."""
        rows = self._rows()
        options = {key: getattr(self, key) for key in ("root", "articles", "headings", "sentence_splitter", "tokens")}
        options |= {"with_trees_only": True} if self.with_trees_only else {}
        named = {key: value for key, value in vars(self.columns).items() if value is not None}
        return rows.fingerprint(
            self._split_of(rows, split), reader="HubCorpus", lowercase=self.lowercase, columns=named, **options
        )

    def _rows(self) -> Rows:
        return rows_of(self.dataset, configuration=self.configuration, revision=self.revision)

    def _split_of(self, rows: Rows, split: Split) -> str:
        """What the dataset calls a split."""
        named = self.splits[split]
        wanted = USUAL_SPLITS[split] if named is None else (named,)
        found = next((name for name in wanted if name in rows.splits), None)
        if found is None:
            raise MissingDataError(
                f"{self.name}: expected a split {' or '.join(wanted)}, found {', '.join(rows.splits) or 'none'}. Name "
                f"one by `{split}`, such as {split}: {(rows.splits or ['train'])[-1]}."
            )
        return found

    def _opened(self, split: Split) -> tuple[RowReader, Iterator[tuple[int, Mapping[str, Any]]]]:
        """What reads the rows of a split, and these with their numbers, from 1."""
        rows = self._rows()
        theirs = self._split_of(rows, split)
        where = f"{self.name}, {theirs}"
        numbered = enumerate(_values(rows, theirs, where), start=1)
        first = next(numbered, None)
        if first is None:
            raise UserError(f"{where}: expected rows, found none.")
        features, row = first[1]
        columns = self.columns.found_in(list(row), where)
        if self.articles and columns.content != "text":
            raise UserError(f"{where}: lines of WikiText are a text, found a column of {columns.content}.")
        reader = RowReader(columns, labels_of(features), self.root, self.sentence_splitter, self.tokens, where)
        return reader, ((number, row) for number, (_, row) in chain([first], numbered))

    def _articles(self, reader: RowReader, rows: Iterator[tuple[int, Mapping[str, Any]]]) -> Iterator[Document]:
        """The articles of lines of WikiText; identifiers are their titles and rows."""
        for title, number, paragraphs in articles(reader.lines(rows), headings=self.headings, where=reader.where):
            texts = [text for each in paragraphs for text in sentences_of(each, self.sentence_splitter)]
            if not texts:
                reader.left_out["articles of nothing but headings"] += 1
                continue
            sentences = [Sentence(reader.words(text)) for text in ([title, *texts] if self.headings else texts)]
            yield Document(tuple(sentences), f"{title} ({reader.where}:{number})")


def _values(rows: Rows, split: str, where: str) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    """Each row of a split, with the types of its columns.

    Raises:
        UserError: a file is damaged.
    """
    from datasets.exceptions import DatasetsError
    from pyarrow import ArrowException

    try:
        for part in rows.read(split):
            for row in part:
                yield part.features, row
    except (ArrowException, DatasetsError, OSError, UnicodeDecodeError) as error:
        raise UserError(f"{where}: a file can't be read ({one_line(error)}). Copy the files again.") from error
