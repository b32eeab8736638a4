"""Corpora of the Hugging Face hub by name, and folders of the same layout: texts, sentences, or trees in columns."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from pathlib import Path, PurePath
from typing import Any, Literal

from depgen.data.corpus import CorpusOfSteps, Split, Versioned, files_sha256, log_left_out
from depgen.data.formats import WikiText, words_of_value
from depgen.data.tokenization import SentenceSplitter, Tokens, rule_versions, sentences_of
from depgen.errors import MissingDataError, UserError, check_one_of, did_you_mean
from depgen.hub import one_line
from depgen.locations import cache_root, data_root, lines_sha256
from depgen.trees.sentence import Document, Sentence
from depgen.trees.tree import check_tree

ColumnKind = Literal["tokens", "sentences", "text", "heads", "relations", "tags", "identifier", "document"]
HubRow = Mapping[str, Any]
"""The value of each kind of column."""

USUAL_SPLITS: Mapping[Split, tuple[str, ...]] = {
    "train": ("train", "training"),
    "valid": ("validation", "valid", "dev", "val"),
    "test": ("test",),
}
"""What datasets call their splits."""
USUAL_COLUMNS: Mapping[ColumnKind, Sequence[str]] = {
    "tokens": ("tokens", "words", "forms", "form"),
    "sentences": ("sentences",),
    "text": ("text", "sentence", "document", "article", "content", "story"),
    "heads": ("heads", "head"),
    "relations": ("relations", "deprel", "deprels"),
    "tags": ("xpos", "tags", "pos", "upos"),
    "identifier": ("identifier", "sent_id", "id", "idx"),
}
"""Names by which columns are found that nobody names."""
_CONTENTS: Sequence[ColumnKind] = ("tokens", "sentences", "text")
_OF_TOKENS: Sequence[ColumnKind] = ("heads", "relations", "tags")
_NUMBER = re.compile(r"-?\d{1,9}")
_NONE = (None, "None", "_", "")


@dataclass(frozen=True)
class HubCorpus(CorpusOfSteps, Versioned):
    """A dataset as a corpus: `Salesforce/wikitext`, treebanks in columns, or any dataset of texts or sentences.

    A dataset is a folder or a name on the hub (https://huggingface.co/datasets). A folder holds what
    `datasets.load_dataset(FOLDER)` reads (parquet, arrow, JSON lines, CSV) or what `save_to_disk` wrote. It lies where
    the name says or at that name under `$DEPGEN_DATA`, so the same YAML works without a network once the folder is
    there. Datasets of the hub are kept in `$DEPGEN_CACHE/datasets`, where the library finds them again.

    Each row is a document, read from a column of one of three kinds:

    - `tokens`: a list of words (a sentence) or of lists of words (a document). Their `heads`, `relations` and `tags`
      are lists of the same length.
    - `sentences`: a list of strings or of lists of words.
    - `text`: a string.

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
        columns: the name of each kind of column that has no usual one (`USUAL_COLUMNS`). Besides the kinds above:
            `identifier`, of the document, by default split and row; `document`, whose value says which document a row
            belongs to: rows in a series with the same value become one.
        root: what the head of a root is: 0 where heads count words from 1, -1 where they count them from 0.
        articles: whether rows are lines of WikiText, and an article is a document (`depgen.data.formats.WikiText`);
            None: if the name of the dataset or of its configuration begins with `wikitext`.
        splitter: how a text becomes sentences; see `depgen.data.tokenization`.
        tokens: how a string becomes tokens: at white space, or by `depgen.data.tokenization`.
    """

    dataset: str
    configuration: str | None = None
    revision: str | None = None
    train: str | None = None
    valid: str | None = None
    test: str | None = None
    columns: Mapping[ColumnKind, str] = field(default_factory=dict)
    root: Literal[0, -1] = 0
    articles: bool | None = None
    splitter: SentenceSplitter = "rules"
    tokens: Tokens = "whitespace"

    def __post_init__(self) -> None:
        for kind in self.columns:
            check_one_of(columns=(kind, ColumnKind))
        if sum(kind in self.columns for kind in _CONTENTS) > 1:
            raise UserError(f"HubCorpus: expected one column of tokens, sentences or text, found {dict(self.columns)}.")
        super().__post_init__()

    @property
    def own_name(self) -> str:
        """The dataset's name and its configuration's."""
        return " ".join([PurePath(self.dataset).name, *([self.configuration] if self.configuration else [])])

    def read(self, split: Split) -> Iterator[Document]:
        """The documents of a split, in the order of its rows."""
        theirs = self._split_of(split)
        where, left_out, any_document = f"{self.name}, {theirs}", Counter[str](), False
        rows = self._rows(theirs, where)
        for document in self._articles(rows, where) if self._is_wikitext else self._documents(rows, where, left_out):
            any_document = True
            yield document
        if not any_document:
            raise UserError(f"{where}: expected documents, found no row with a token.")
        for what, count in left_out.items():
            log_left_out(count, what, where)

    @property
    def versions(self) -> dict[str, int | str]:
        """Those of the rules that cut text among them."""
        return {**super().versions, **rule_versions(self.splitter, self.tokens)}

    def content(self, split: Split) -> str:
        """A digest of the split's files (on the hub, of its commit) and of the reading options."""
        options = {
            **self.versions,
            "columns": dict(self.columns),
            "root": self.root,
            "splitter": self.splitter,
            "tokens": self.tokens,
        }
        return lines_sha256([
            self._source.digest(self._split_of(split)), json.dumps(options, sort_keys=True), str(self._is_wikitext),
        ])  # fmt: skip

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
        for name in USUAL_SPLITS[split] if named is None else (named,):
            if name in known:
                return name
        raise MissingDataError(
            f"{self.name}: expected a split {named or ' or '.join(USUAL_SPLITS[split])}, found "
            f"{', '.join(known) or 'none'}. Name one by `{split}`, such as {split}: {(known or ['train'])[-1]}."
        )

    # -- rows -------------------------------------------------------------------------------------------------------

    def _rows(self, theirs: str, where: str) -> Iterator[tuple[int, HubRow]]:
        """Number and values of each row, by kind; numbers of classes are their names."""
        from datasets.exceptions import DatasetsError
        from pyarrow import ArrowException

        columns: Mapping[ColumnKind, str] = {}
        try:
            labels = self._source.labels(theirs)
            for number, row in enumerate(self._source.rows(theirs), start=1):
                columns = columns or self._columns_of(list(row), where)
                yield number, {kind: _named(row[name], labels.get(name)) for kind, name in columns.items()}
        except (ArrowException, DatasetsError, OSError, UnicodeDecodeError) as error:
            raise UserError(f"{where}: a file can't be read ({one_line(error)}). Copy the files again.") from error

    def _columns_of(self, names: Sequence[str], where: str) -> Mapping[ColumnKind, str]:
        """The columns that rows are read by: those that are named, and others of usual names."""
        for kind, name in self.columns.items():
            if name not in names:
                raise UserError(
                    f"{where}: expected the column {name!r} (of {kind}), found the columns {', '.join(names)}."
                    f"{did_you_mean(name, names)}"
                )
        usual = {kind: name for kind, known in USUAL_COLUMNS.items() for name in reversed(known) if name in names}
        contents = [kind for columns in (self.columns, usual) for kind in _CONTENTS if kind in columns]
        if not contents or (contents[0] != "tokens" and any(kind in self.columns for kind in _OF_TOKENS)):
            raise UserError(
                f"{where}: expected a column of tokens, sentences or text, found the columns {', '.join(names)}. Name "
                "one by `columns`, such as columns: {text: COLUMN}."
            )
        if self._is_wikitext and contents[0] != "text":
            raise UserError(f"{where}: lines of WikiText are a text, found a column of {contents[0]}.")
        read = {contents[0], "identifier", "document", *(_OF_TOKENS if contents[0] == "tokens" else ())}
        return {kind: name for kind, name in {**usual, **self.columns}.items() if kind in read}

    def _articles(self, rows: Iterator[tuple[int, HubRow]], where: str) -> Iterator[Document]:
        lines = ((number, _text(row, f"{where}, row {number}")) for number, row in rows)
        return WikiText(self.splitter, tokens=self.tokens).articles(lines, where=where, name=where)

    def _documents(self, rows: Iterator[tuple[int, HubRow]], where: str, left_out: Counter[str]) -> Iterator[Document]:
        """A document a row, or a series of rows with one value in the column of documents."""
        for _, series in groupby(rows, key=lambda numbered: numbered[1].get("document", numbered[0])):
            sentences, identifiers = list[Sentence](), list[str]()
            for number, row in series:
                place = f"{where}, row {number}"
                own = [sentence for sentence in self._sentences(row, place, left_out) if sentence.words]
                left_out["rows without a token"] += not own
                sentences += own
                identifier = row.get("document", row.get("identifier"))
                identifiers.append(place if identifier is None else str(identifier).strip() or place)
            if sentences:
                yield Document(tuple(sentences), identifiers[0])

    def _sentences(self, row: HubRow, where: str, left_out: Counter[str]) -> Iterator[Sentence]:
        """The sentences of a row, maybe without words."""
        if "text" in row:
            for text in sentences_of(_text(row, where), self.splitter):
                yield Sentence(words_of_value(text, self.tokens, where=where, column="text"))
        elif "sentences" in row:
            texts = _list(row, "sentences", where)
            sentences = [words_of_value(text, self.tokens, where=where, column="sentences") for text in texts]
            left_out["sentences without a token"] += sentences.count(()) if any(sentences) else 0
            yield from map(Sentence, sentences)
        else:
            columns = {kind: _list(row, kind, where) for kind in ("tokens", *_OF_TOKENS) if kind in row}
            columns = {kind: values for kind, values in columns.items() if values or kind == "tokens"}
            if not any(isinstance(value, list) for value in columns["tokens"]):
                yield self._sentence(columns, where, left_out)
                return
            for place in range(len(columns["tokens"])):
                for kind, values in columns.items():
                    if place >= len(values) or not isinstance(values[place], list):
                        raise UserError(_expected("a list for each sentence", kind, values, where))
                part = {kind: values[place] for kind, values in columns.items()}
                yield self._sentence(part, f"{where}, sentence {place + 1}", left_out)

    def _sentence(self, columns: Mapping[ColumnKind, list[Any]], where: str, left_out: Counter[str]) -> Sentence:
        """A sentence, without the tokens that have no head: ranges of several words, and empty nodes."""
        lengths = {kind: len(values) for kind, values in columns.items() if values or kind == "tokens"}
        if len(set(lengths.values())) > 1:
            found = ", ".join(f"{size} {kind}" for kind, size in lengths.items())
            raise UserError(f"{where}: expected as many values in each column, found {found}.")
        has_head = [head not in _NONE for head in columns.get("heads", ())]
        if any(has_head) and not all(has_head):
            if self.root == -1:
                raise UserError(
                    f"{where}: expected a head for each token, found tokens without one. It is unclear whether heads "
                    "that count from 0 count those: write rows without them."
                )
            left_out["tokens without a head"] += has_head.count(False)
            columns = {
                kind: [value for value, stays in zip(values, has_head, strict=True) if stays]
                for kind, values in columns.items()
                if values
            }
        words = words_of_value(columns["tokens"], self.tokens, where=where, column="tokens")
        heads = self._heads(columns["heads"], words, where) if any(has_head) else None
        relations, tags = (_names(columns.get(kind), kind, where) for kind in _OF_TOKENS[1:])
        return Sentence(words, heads, relations, tags)

    def _heads(self, values: list[Any], words: Sequence[str], where: str) -> tuple[int, ...]:
        for token, value in enumerate(values, start=1):
            if isinstance(value, bool) or not _NUMBER.fullmatch(str(value)):
                raise UserError(f"{where}: expected the number of token {token}'s head, found {str(value)[:40]!r}.")
        heads = [int(value) for value in values]
        if (self.root == 0) == (-1 in heads):
            counted = "words from 1, 0 for a root" if self.root == 0 else "words from 0, -1 for a root"
            raise UserError(
                f"{where}: expected heads that count {counted}, found {'-1' if self.root == 0 else 'no -1'}. If they "
                f"count from {self.root + 1}, set root: {-1 - self.root}."
            )
        counts = tuple(head - self.root for head in heads)
        check_tree(counts, where, words=words)
        return counts


def _text(row: HubRow, where: str) -> str:
    value = row["text"]
    if value is not None and not isinstance(value, str):
        raise UserError(_expected("a string", "text", value, where))
    return value or ""


def _list(row: HubRow, kind: str, where: str) -> list[Any]:
    value = row[kind]
    if value is not None and not isinstance(value, list):
        raise UserError(_expected("a list", kind, value, where))
    return value or []


def _names(values: list[Any] | None, kind: str, where: str) -> tuple[str, ...] | None:
    """Relations or tags, `_` for none; None where there is none."""
    if not all(value is None or isinstance(value, str) for value in values or ()):
        raise UserError(_expected("names, or numbers of a ClassLabel", kind, values, where))
    names = tuple("_" if value in _NONE else value for value in values or ())
    return None if all(name == "_" for name in names) else names


def _named(value: Any, names: Sequence[str] | None) -> Any:  # noqa: ANN401
    """Numbers of classes by name, in lists of any depth; -1, of no class, is None."""
    if names is None or value is None or isinstance(value, str):
        return value
    if isinstance(value, list):
        return [_named(each, names) for each in value]
    return names[value] if value >= 0 else None


def _expected(what: str, kind: str, value: object, where: str) -> str:
    return f"{where}: expected {what} in the column of {kind}, found {type(value).__name__} {str(value)[:60]!r}."


class _Source:
    """Where a dataset's rows lie: a folder as named or under `$DEPGEN_DATA`, else the hub.

    Raises:
        MissingDataError: the dataset is not at hand.
        UserError: the folder has no files that the library reads, or no such configuration.
    """

    def __init__(self, dataset: str, configuration: str | None, revision: str | None) -> None:
        import datasets

        places = (Path(dataset).expanduser().absolute(), (data_root() / dataset).absolute())
        folder = next((place for place in places if place.is_dir()), None)
        if folder is not None and configuration is not None and (folder / configuration).is_dir():
            folder, configuration = folder / configuration, None
        self.folder, self.saved = folder, None
        if folder is not None and any((folder / name).is_file() for name in ("dataset_dict.json", "state.json")):
            self.saved = _saved(folder)
            self.splits = list(self.saved)
            return
        try:
            self.builder = datasets.load_dataset_builder(
                dataset if folder is None else str(folder),
                configuration,
                revision=revision,
                cache_dir=str(cache_root() / "datasets"),
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
                f"No dataset {dataset} at {' nor at '.join(dict.fromkeys(map(str, places)))} ($DEPGEN_DATA), and the "
                f"hub gives none ({one_line(error)}). Where there is a network, `hf download {dataset} "
                f"--repo-type dataset --local-dir FOLDER/{dataset}` fetches it; set DEPGEN_DATA to FOLDER."
            ) from error
        self.splits = [str(split) for split in self.builder.config.data_files or self.builder.info.splits or {}]

    def rows(self, split: str) -> Iterator[Mapping[str, Any]]:
        """The rows of a split; a folder's are streamed from its files, without a copy."""
        return iter(self._part(split))

    def labels(self, split: str) -> dict[str, list[str]]:
        """The names of classes of each column that holds their numbers, in lists of any depth."""
        labels = {}
        for name, feature in (self._part(split).features or {}).items():
            while feature is not None and not hasattr(feature, "names"):
                feature = feature[0] if isinstance(feature, list) and feature else getattr(feature, "feature", None)
            if feature is not None:
                labels[name] = list(feature.names)
        return labels

    def digest(self, split: str) -> str:
        """Of the split's files; on the hub, of its commit."""
        if self.saved is not None:
            return files_sha256(sorted(Path(file["filename"]) for file in self.saved[split].cache_files))
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


def _saved(folder: Path) -> Mapping[str, Any]:
    """The splits of a folder that `save_to_disk` wrote."""
    import datasets

    try:
        saved = datasets.load_from_disk(str(folder))
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{folder} can't be read ({one_line(error)}). Copy the folder again, whole.") from error
    return {str(saved.split or "train"): saved} if isinstance(saved, datasets.Dataset) else saved
