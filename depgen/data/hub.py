"""Corpora of the Hugging Face hub by name, and folders of the same layout: texts, sentences, or trees in columns."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import groupby
from pathlib import Path, PurePath
from typing import Any, Literal

from depgen.data.corpus import CorpusOfSteps, Split, files_sha256, log_left_out
from depgen.data.formats import Tokens, WikiText, words_of_value
from depgen.data.tokenization import SentenceSplitter, sentences_of
from depgen.errors import MissingDataError, UserError, check_one_of, did_you_mean
from depgen.hub import one_line
from depgen.locations import cache_root, data_root, lines_sha256
from depgen.trees.sentence import Document, Sentence
from depgen.trees.tree import check_tree

Root = Literal[0, -1]
Row = Mapping[str, Any]

USUAL_SPLITS: Mapping[Split, tuple[str, ...]] = {
    "train": ("train", "training"),
    "valid": ("validation", "valid", "dev", "val"),
    "test": ("test",),
}
"""What datasets call their splits."""
USUAL_COLUMNS: Mapping[str, Sequence[str]] = {
    "tokens": ("tokens", "words", "forms", "form"),
    "sentences": ("sentences",),
    "text": ("text", "sentence", "document", "article", "content", "story"),
    "heads": ("heads", "head"),
    "relations": ("relations", "deprel", "deprels"),
    "tags": ("xpos", "tags", "pos", "upos"),
    "identifier": ("identifier", "sent_id", "id", "idx"),
}
"""Names by which columns are found that nobody names."""
_CONTENTS = ("tokens", "sentences", "text")
_OF_TOKENS = ("heads", "relations", "tags")
_NUMBER = re.compile(r"-?\d{1,9}")
_NONE = (None, "None", "_", "")


@dataclass(frozen=True)
class HubCorpus(CorpusOfSteps):
    """A dataset as a corpus: `Salesforce/wikitext`, treebanks in columns, or any dataset of texts or sentences.

    A dataset is a folder or a name on the hub (https://huggingface.co/datasets). A folder holds what
    `datasets.load_dataset(FOLDER)` reads (parquet, arrow, JSON lines, CSV) or what `save_to_disk` wrote. It lies where
    the name says or at that name under `$DEPGEN_DATA`, so the same YAML works without a network once the folder is
    there. Datasets of the hub are kept in `$DEPGEN_CACHE/datasets`, where the library finds them again.

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
        articles: whether rows are lines of WikiText, and an article is a document (`depgen.data.formats.WikiText`);
            None: if the name of the dataset or of its configuration begins with `wikitext`.
        headings: whether an article's title and headings are sentences of it.
        splitter: how a text becomes sentences; see `depgen.data.tokenization`.
        tokens: how a string becomes tokens: at white space, or by `depgen.data.tokenization`.

    Raises:
        UserError: columns of two kinds are named.
    """

    dataset: str
    configuration: str | None = None
    revision: str | None = None
    train: str | None = None
    valid: str | None = None
    test: str | None = None
    text_column: str | None = None
    sentences_column: str | None = None
    tokens_column: str | None = None
    heads_column: str | None = None
    relations_column: str | None = None
    tags_column: str | None = None
    identifier_column: str | None = None
    document_column: str | None = None
    root: Root = 0
    articles: bool | None = None
    headings: bool = False
    splitter: SentenceSplitter = "rules"
    tokens: Tokens = "whitespace"

    def __post_init__(self) -> None:
        check_one_of(root=(self.root, Root))
        named = [f"{kind}_column" for kind in (*_CONTENTS, *_OF_TOKENS) if getattr(self, f"{kind}_column")]
        if sum(f"{kind}_column" in named for kind in _CONTENTS) > 1:
            raise UserError(f"HubCorpus: expected one column of tokens, sentences or text, found {', '.join(named)}.")
        super().__post_init__()

    @property
    def own_name(self) -> str:
        """The dataset's name and its configuration's."""
        return " ".join([PurePath(self.dataset).name, *([self.configuration] if self.configuration else [])])

    def read(self, split: Split) -> Iterator[Document]:
        """The documents of a split, in the order of its rows.

        Raises:
            UserError: there is no such split or column, a file is damaged, a row can't be read, or no row has a token.
        """
        theirs = self._split_of(split)
        where = f"{self.name}, {theirs}"
        rows = enumerate(self._rows(theirs, where), start=1)
        first = next(rows, None)
        if first is None:
            raise UserError(f"{where}: expected rows, found none.")
        columns = self._columns(list(first[1]), where)
        reader = _RowReader(self, columns, _labels(self._source.features(theirs)), where, Counter())
        found = False
        for document in reader.documents(_chained(first, rows)):
            found = True
            yield document
        if not found:
            raise UserError(f"{where}: expected documents, found no row with a token.")
        for what, count in reader.left_out.items():
            log_left_out(count, what, where)

    def content(self, split: Split) -> str:
        """A digest of the split's files (on the hub, of its commit) and of the reading options."""
        theirs = self._split_of(split)
        not_in_digest = ("steps", "name", "dataset", "configuration", "revision", "train", "valid", "test")
        options = [f"{each.name} {getattr(self, each.name)}" for each in fields(self) if each.name not in not_in_digest]
        return lines_sha256([self._source.digest(theirs), str(self._is_wikitext), *options])

    @property
    def _is_wikitext(self) -> bool:
        names = (PurePath(self.dataset).name, self.configuration or "")
        return any(name.startswith("wikitext") for name in names) if self.articles is None else self.articles

    @cached_property
    def _source(self) -> "_Source":
        return _Source(self.dataset, self.configuration, self.revision)

    def _split_of(self, split: Split) -> str:
        """What the dataset calls a split."""
        named, known = getattr(self, split), self._source.splits
        wanted = USUAL_SPLITS[split] if named is None else (named,)
        found = next((name for name in wanted if name in known), None)
        if found is None:
            raise MissingDataError(
                f"{self.name}: expected a split {' or '.join(wanted)}, found {', '.join(known) or 'none'}. Name one by "
                f"`{split}`, such as {split}: {(known or ['train'])[-1]}."
            )
        return found

    def _rows(self, theirs: str, where: str) -> Iterator[Row]:
        from datasets.exceptions import DatasetsError
        from pyarrow import ArrowException

        try:
            yield from self._source.rows(theirs)
        except (ArrowException, DatasetsError, OSError, UnicodeDecodeError) as error:
            raise UserError(f"{where}: a file can't be read ({one_line(error)}). Copy the files again.") from error

    def _columns(self, names: Sequence[str], where: str) -> dict[str, str]:
        """The columns that rows are read by: those that are named, and others of usual names.

        Raises:
            UserError: a named column is not there, or none holds words.
        """
        kinds = (*USUAL_COLUMNS, "document")
        named = {kind: name for kind in kinds if (name := getattr(self, f"{kind}_column"))}
        for kind, name in named.items():
            if name not in names:
                raise UserError(
                    f"{where}: expected the column {name!r} ({kind}_column), found the columns {', '.join(names)}."
                    f"{did_you_mean(name, names)}"
                )
        usual = {kind: next((name for name in known if name in names), None) for kind, known in USUAL_COLUMNS.items()}
        content = next((kind for kind in _CONTENTS if kind in named), None) or next(
            (kind for kind in _CONTENTS if usual[kind]), None
        )
        if content is None or (content != "tokens" and any(kind in named for kind in _OF_TOKENS)):
            raise UserError(
                f"{where}: expected a column of tokens, sentences or text, found the columns {', '.join(names)}. Name "
                "one by tokens_column, sentences_column or text_column."
            )
        if self._is_wikitext and content != "text":
            raise UserError(f"{where}: lines of WikiText are a text, found a column of {content}.")
        wanted = [content, "identifier", *(_OF_TOKENS if content == "tokens" else ())]
        found = {kind: named.get(kind) or usual[kind] for kind in wanted}
        return {kind: name for kind, name in {**found, "document": named.get("document")}.items() if name}


class _Source:
    """Where a dataset's rows lie: a folder as named or under `$DEPGEN_DATA`, else the hub.

    Raises:
        MissingDataError: the dataset is not at hand.
        UserError: the folder has no files that the library reads, or no such configuration.
    """

    def __init__(self, dataset: str, configuration: str | None, revision: str | None) -> None:
        import datasets

        places = (Path(dataset).expanduser(), data_root() / dataset)
        folder = next((place.absolute() for place in places if place.is_dir()), None)
        if folder is not None and configuration is not None and (folder / configuration).is_dir():
            folder, configuration = folder / configuration, None
        self.folder, self.saved = folder, None
        if folder is not None and any((folder / name).is_file() for name in ("dataset_dict.json", "state.json")):
            self.saved = self._loaded(folder)
            self.splits = list(self.saved)
            return
        cache = str(cache_root() / "datasets")
        try:
            self.builder = datasets.load_dataset_builder(
                dataset if folder is None else str(folder), configuration, revision=revision, cache_dir=cache
            )
        except ValueError as error:
            raise UserError(f"{dataset}: {one_line(error)} Set `configuration` to one of these.") from error
        except (OSError, RuntimeError) as error:
            if folder is not None:
                raise UserError(
                    f"{folder}: expected parquet, arrow, JSON-lines or CSV files whose names say train, validation or "
                    f"test, found: {one_line(error)}"
                ) from error
            raise MissingDataError(
                f"No dataset {dataset} at {' nor at '.join(dict.fromkeys(str(place.absolute()) for place in places))} "
                f"($DEPGEN_DATA), and the hub gives none ({one_line(error)}). Where there is a network, `hf download "
                f"{dataset} --repo-type dataset --local-dir FOLDER/{dataset}` fetches it; set DEPGEN_DATA to FOLDER."
            ) from error
        self.splits = [str(each) for each in self.builder.config.data_files or self.builder.info.splits or {}]

    def _loaded(self, folder: Path) -> Mapping[str, Any]:
        import datasets

        try:
            saved = datasets.load_from_disk(str(folder))
        except (OSError, ValueError, KeyError) as error:
            raise UserError(f"{folder} can't be read ({one_line(error)}). Copy the folder again, whole.") from error
        return {str(saved.split or "train"): saved} if isinstance(saved, datasets.Dataset) else saved

    def features(self, split: str) -> Mapping[str, Any] | None:
        """The types of a split's columns, as far as the library says them."""
        return self._part(split).features  # type: ignore[no-any-return]

    def rows(self, split: str) -> Iterator[Row]:
        """The rows of a split; a folder's are streamed from its files, without a copy."""
        return iter(self._part(split))

    def digest(self, split: str) -> str:
        """Of the split's files; on the hub, of its commit."""
        if self.saved is not None:
            return files_sha256(sorted(Path(each["filename"]) for each in self.saved[split].cache_files))
        if self.folder is not None:
            return files_sha256(map(Path, self.builder.config.data_files[split]))
        return lines_sha256([str(self.builder.hash), str(self.builder.config.name), split])

    def _part(self, split: str) -> Any:  # noqa: ANN401
        if self.saved is not None:
            return self.saved[split]
        if self.folder is not None:
            return self.builder.as_streaming_dataset(split=split)
        self.builder.download_and_prepare()
        return self.builder.as_dataset(split=split)


def _chained(first: tuple[int, Row], rows: Iterator[tuple[int, Row]]) -> Iterator[tuple[int, Row]]:
    yield first
    yield from rows


def _labels(features: Mapping[str, Any] | None) -> dict[str, list[str]]:
    """The names of classes of each column that holds their numbers, in lists of any depth."""
    labels = {}
    for name, feature in (features or {}).items():
        while feature is not None and not hasattr(feature, "names"):
            feature = feature[0] if isinstance(feature, list) and feature else getattr(feature, "feature", None)
        if feature is not None:
            labels[name] = list(feature.names)
    return labels


@dataclass(frozen=True)
class _RowReader:
    """Makes documents of rows.

    Attributes:
        corpus: whose options say how.
        columns: the columns that are read, by kind.
        labels: of columns whose values are numbers of classes, the names of these classes.
        where: what messages call the split.
        left_out: how many of what was left out so far.
    """

    corpus: HubCorpus
    columns: Mapping[str, str]
    labels: Mapping[str, Sequence[str]]
    where: str
    left_out: Counter[str]

    def documents(self, rows: Iterator[tuple[int, Row]]) -> Iterator[Document]:
        """A document a row, an article, or a series of rows with one value in the column of documents."""
        if self.corpus._is_wikitext:
            lines = ((number, self._text(row, f"{self.where}, row {number}")) for number, row in rows)
            form = WikiText(self.corpus.splitter, self.corpus.headings, self.corpus.tokens)
            yield from form.articles(lines, where=self.where, name=self.where)
            return
        column = self.columns.get("document")
        groups: Iterator[tuple[str, list[tuple[int, Row]]]] = (
            ((self._identifier(number, row), [(number, row)]) for number, row in rows)
            if column is None
            else ((str(value), list(part)) for value, part in groupby(rows, key=lambda pair: pair[1][column]))
        )
        for identifier, part in groups:
            sentences = [each for number, row in part for each in self._sentences(row, f"{self.where}, row {number}")]
            if sentences:
                yield Document(tuple(sentences), identifier)

    def _identifier(self, number: int, row: Row) -> str:
        value = row.get(self.columns.get("identifier", ""))
        return f"{self.where}, row {number}" if value is None or not str(value).strip() else str(value).strip()

    def _sentences(self, row: Row, where: str) -> list[Sentence]:
        """The sentences of a row; where there is none, it is counted."""
        if "tokens" in self.columns:
            read = list(self._annotated(row, where))
        else:
            listed = "sentences" in self.columns
            column = self.columns["sentences" if listed else "text"]
            texts = (
                self._listed(row, column, where)
                if listed
                else sentences_of(self._text(row, where), self.corpus.splitter)
            )
            read = [Sentence(words_of_value(each, self.corpus.tokens, where=where, column=column)) for each in texts]
        sentences = [sentence for sentence in read if sentence.words]
        if "sentences" in self.columns and sentences:
            self.left_out["sentences without a token"] += len(read) - len(sentences)
        self.left_out["rows without a token"] += not sentences
        return sentences

    def _text(self, row: Row, where: str) -> str:
        value = row[self.columns["text"]]
        if value is not None and not isinstance(value, str):
            raise UserError(_expected("a string", self.columns["text"], value, where))
        return value or ""

    def _listed(self, row: Row, name: str, where: str) -> list[Any]:
        value = row[name]
        if value is not None and not isinstance(value, list):
            raise UserError(_expected("a list", name, value, where))
        return value or []

    def _annotated(self, row: Row, where: str) -> Iterator[Sentence]:
        """The sentence of a row, or its sentences where the columns hold lists of lists."""
        kinds = [kind for kind in ("tokens", *_OF_TOKENS) if kind in self.columns]
        values = {kind: self._listed(row, self.columns[kind], where) for kind in kinds}
        if not any(isinstance(each, list) for each in values["tokens"]):
            yield self._sentence(values, where)
            return
        for place in range(len(values["tokens"])):
            part = {}
            for kind, value in values.items():
                if value and (place >= len(value) or not isinstance(value[place], list)):
                    raise UserError(_expected("a list for each sentence", self.columns[kind], value, where))
                part[kind] = value[place] if value else []
            yield self._sentence(part, f"{where}, sentence {place + 1}")

    def _sentence(self, values: Mapping[str, list[Any]], where: str) -> Sentence:
        """A sentence, without the tokens that have no head: ranges of several words, and empty nodes.

        Raises:
            UserError: columns of unequal length, a blank token, heads that form no tree, a relation without a name.
        """
        filled = {kind: value for kind, value in values.items() if value or kind == "tokens"}
        lengths = {self.columns[kind]: len(value) for kind, value in filled.items()}
        if len(set(lengths.values())) > 1:
            found = ", ".join(f"{size} in {name!r}" for name, size in lengths.items())
            raise UserError(f"{where}: expected as many values in each column, found {found}.")
        headless = [head in _NONE for head in filled.get("heads", ())]
        if headless and all(headless):
            filled.pop("heads")
        elif any(headless):
            if self.corpus.root == -1:
                raise UserError(
                    f"{where}: expected a head for each token, found tokens without one. It is unclear whether heads "
                    "that count from 0 count those: write rows without them."
                )
            self.left_out["tokens without a head"] += sum(headless)
            filled = {k: [e for e, left in zip(v, headless, strict=True) if not left] for k, v in filled.items()}
        words = words_of_value(filled["tokens"], self.corpus.tokens, where=where, column=self.columns["tokens"])
        heads = self._heads(filled["heads"], words, where) if "heads" in filled else None
        relations, tags = (self._names(filled.get(kind), kind, where) for kind in ("relations", "tags"))
        return Sentence(words, heads, relations, tags)

    def _heads(self, values: list[Any], words: Sequence[str], where: str) -> tuple[int, ...]:
        for token, value in enumerate(values, start=1):
            if isinstance(value, bool) or not _NUMBER.fullmatch(str(value)):
                raise UserError(f"{where}: expected the number of token {token}'s head, found {str(value)[:40]!r}.")
        heads, root = [int(value) for value in values], self.corpus.root
        if (root == 0) == (-1 in heads):
            counted = "words from 1, 0 for a root" if root == 0 else "words from 0, -1 for a root"
            raise UserError(
                f"{where}: expected heads that count {counted}, found {'-1' if root == 0 else 'no -1'}. If they count "
                f"from {root + 1}, set root: {-1 - root}."
            )
        counts = tuple(head - root for head in heads)
        check_tree(counts, where, words=words)
        return counts

    def _names(self, values: list[Any] | None, kind: str, where: str) -> tuple[str, ...] | None:
        """Relations or tags by name; None where there is none."""
        column = self.columns.get(kind, "")
        labels = self.labels.get(column)
        names = []
        for value in values or ():
            if isinstance(value, int) and labels is not None and -1 <= value < len(labels):
                names.append(labels[value] if value >= 0 else "_")
            elif isinstance(value, str) or value is None:
                names.append(value if value not in _NONE else "_")
            else:
                raise UserError(_expected("names, or numbers of a ClassLabel", column, value, where))
        return None if all(name == "_" for name in names) else tuple(names)


def _expected(what: str, column: str, value: object, where: str) -> str:
    return f"{where}: expected {what} in the column {column!r}, found {type(value).__name__} {str(value)[:60]!r}."
