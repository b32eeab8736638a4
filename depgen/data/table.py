"""A split as Arrow tables that are written once, kept in the cache and mapped into memory.

    documents --annotated--> words, trees --encoded--> token ids, trees over tokens --viewed--> what a system reads

Each step writes one table, with a row for each document, into `$DEPGEN_CACHE/tables/<fingerprint>/`. A table of a
fingerprint is never made again. So the fingerprint holds all that the rows depend on, and the number of the step's
version, which rises whenever its rows may change.
"""

import logging
import os
import sys
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain, islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Int
from torch.utils.data import Dataset

from depgen.data.batch import Edges, SystemCollate, TokenItem
from depgen.data.corpus import Corpus, Split
from depgen.data.rows import DocumentRow, annotate_documents, document_of_row, encode_documents
from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError
from depgen.locations import cache_root, folder_written_whole, lines_sha256, made_once
from depgen.trees.annotator import Annotator, Rearranger
from depgen.trees.pieces import LeftDependents
from depgen.trees.sentence import Document

logger = logging.getLogger(__name__)

ANNOTATED_VERSION, ENCODED_VERSION = "3", "2"
"""Parts of the fingerprints of annotated and encoded tables: raised when their rows change."""
DOCUMENTS_PER_CHUNK, ROWS_PER_CHUNK = 256, 1000
"""Documents annotated, and rows encoded, at a time: what is held in memory."""
SECONDS_PER_LINE = 60.0
"""Between two lines of progress in the log."""
ATTACHED = 0.03
"""Share of words with a mark after them that only raw text has."""

DocumentJoining = Literal["roots", "previous_sentence"]
"""How the trees of a document's sentences become one.

`roots` keeps all roots, so every one is a child of BOS, as the authors' code of Yang & Wan (2022) does with such a
list; what they gave it for a story is not published. The last word of a sentence then has a future dependent in the
last sentence only: `<eos>`. `previous_sentence`, which all experiments on stories take, makes roots children of the
last word before their sentence.
"""


# -- tables in the cache ----------------------------------------------------------------------------------------------


def _file(fingerprint: str) -> Path:
    return cache_root() / "tables" / fingerprint / "table.arrow"


def _made(fingerprint: str, title: str, parts: Callable[[], Iterator[Any]]) -> Any:  # noqa: ANN401  (pyarrow is untyped)
    """The `datasets.Dataset` of a fingerprint, made of `pyarrow.Table`s unless it is in the cache.

    Of several processes one makes it and the others wait; a kill leaves nothing half done.
    """
    import pyarrow as pa
    from datasets import Dataset

    file = _file(fingerprint)

    def write() -> None:
        started = said = time.perf_counter()
        rows, tables = 0, parts()
        with folder_written_whole(file.parent) as folder, pa.OSFile(str(folder / file.name), "wb") as sink:
            first = next(tables)
            with pa.ipc.new_stream(sink, first.schema) as writer:
                for table in chain([first], tables):
                    writer.write_table(table)
                    rows, now = rows + len(table), time.perf_counter()
                    if now - said >= SECONDS_PER_LINE:
                        said = now
                        logger.info("%s: %s documents, %.0f documents/s", title, f"{rows:,}", rows / (now - started))
        logger.info("%s: %s documents in %.1f s", title, f"{rows:,}", time.perf_counter() - started)

    made_once(file.parent, write, is_made=file.is_file)
    try:
        table = Dataset.from_file(str(file))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UserError(
            f"{file.parent} is damaged ({str(error)[:120]}). Delete the folder: it is made again."
        ) from error
    table._fingerprint = fingerprint
    return table


# -- 1. documents with their trees ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AnnotatedSplit:
    """A split with its trees, annotated once and read by every run that asks for the same trees.

    One row a document: `identifier`, `words` (all sentences' words in a row) and `sentence_lengths`. Where an annotator
    is given, `heads` (1-based within the sentence, 0 = root, -1 = no tree was given) and `relations`. Where it gives
    graphs, `edges` too: of each word, the heads (as in `heads`; -1 alone = no graph was given) and labels of its edges.
    Where it gives constituents, `spans` too: of each sentence, the first word, the one after the last, and the label of
    each constituent (0-based within the sentence; -1 for both, once a word = no constituents were given).

    Attributes:
        corpus: where the documents come from.
        split: which of its splits.
        annotator: what gives the sentences trees; None leaves `heads` and `relations` out.
        max_documents: only the first of the split's documents, this many; None for all.
    """

    corpus: Corpus
    split: Split
    annotator: Annotator | None
    max_documents: int | None = None

    def fingerprint(self) -> str:
        """The digest that names the table: of the text, the parser and the limit."""
        trees = "none" if self.annotator is None else self.annotator.fingerprint()
        return lines_sha256([ANNOTATED_VERSION, self.corpus.fingerprint(self.split), trees, str(self.max_documents)])

    def is_made(self) -> bool:
        """Whether the table is in the cache."""
        return _file(self.fingerprint()).is_file()

    def table(self, *, processes: int = 1) -> Any:  # noqa: ANN401
        """The rows, as a `datasets.Dataset` that is mapped into memory.

        Args:
            processes: how many processes annotate; worth it for slow parsers and large corpora.
        """
        scheme = "without trees" if self.annotator is None else self.annotator.scheme
        fingerprint = self.fingerprint()
        title = f"{self.corpus.name} {self.split} ({scheme})"
        return _made(fingerprint, title, partial(self._tables, fingerprint, processes))

    def _tables(self, fingerprint: str, processes: int) -> Iterator[Any]:
        """The rows, chunk by chunk, in one process or several.

        A `Rearranger` gets all documents at once, with the trees of the annotator that it wraps.
        """
        import pyarrow as pa

        schema = _annotated_features(self.annotator).arrow_schema
        title, size = f"{self.corpus.name} {self.split}", max(1, DOCUMENTS_PER_CHUNK // processes)
        if isinstance(self.annotator, Rearranger):
            rows = replace(self, annotator=self.annotator.annotator).table(processes=processes)
            documents: Iterator[Document] = map(document_of_row, rows)
            processes, size = 1, sys.maxsize
        else:
            documents = islice(self.corpus.documents(self.split), self.max_documents)
        count, chunks = 0, iter(lambda: list(islice(documents, size)), [])
        for rows in _in_processes(partial(annotate_documents, annotator=self.annotator), chunks, processes):
            for start in range(0, len(rows), DOCUMENTS_PER_CHUNK):
                yield pa.Table.from_pylist(rows[start : start + DOCUMENTS_PER_CHUNK], schema)
            count += len(rows)
        if not count:
            raise UserError(f"{title}: expected documents, found none.")
        if self.fingerprint() != fingerprint:
            raise UserError(f"{title} changed while it was read: start again when its files are complete.")


def _annotated_features(annotator: Annotator | None) -> Any:  # noqa: ANN401
    from datasets import Features, List, Value

    number, string = Value("int32"), Value("string")
    columns = {"identifier": string, "words": List(string), "sentence_lengths": List(number)}
    if annotator is not None:
        columns |= {"heads": List(number), "relations": List(string)}
        if annotator.structure == "graph":
            columns["edges"] = List(List({"head": number, "label": string}))
        elif annotator.structure == "constituency":
            columns["spans"] = List(List({"start": number, "end": number, "label": string}))
    return Features(columns)


def _in_processes(
    function: Callable[[list[Document]], list[DocumentRow]], chunks: Iterator[list[Document]], processes: int
) -> Iterator[list[DocumentRow]]:
    """The rows that a function makes of each chunk, in their order, a few chunks ahead in other processes.

    The processes are spawned, with one thread each: forked copies of a threaded process may hang.
    """
    if processes == 1:
        yield from map(function, chunks)
        return
    before = {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    os.environ.update(dict.fromkeys(before, "1"))
    try:
        with ProcessPoolExecutor(processes, get_context("spawn"), _load, (function,)) as pool:
            while ahead := list(islice(chunks, 2 * processes)):
                yield from pool.map(_run_loaded, ahead)
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


_loaded: list[Callable[[list[Document]], list[DocumentRow]]] = []
"""In another process: the function, which it got once, so that a parser is loaded once."""


def _load(function: Callable[[list[Document]], list[DocumentRow]]) -> None:
    _loaded[:] = [function]


def _run_loaded(chunk: list[Document]) -> list[DocumentRow]:
    return _loaded[0](chunk)


class TableSizes(NamedTuple):
    """How much an annotated table holds; `without_head`: words of sentences without tree, graph or constituents."""

    documents: int
    sentences: int
    words: int
    without_head: int


def several_roots(table: Any) -> tuple[int, int]:  # noqa: ANN401
    """How many sentences of an annotated table have trees with several roots, and how many have trees."""
    import pyarrow.compute as pc

    heads, lengths = (pc.list_flatten(table.data[name]).to_numpy() for name in ("heads", "sentence_lengths"))
    sentence = np.repeat(np.arange(len(lengths)), lengths)
    roots = np.bincount(sentence[heads == 0], minlength=len(lengths))
    return int((roots > 1).sum()), int((roots > 0).sum())


def first_words(table: Any) -> Any:  # noqa: ANN401
    """All words of the first 10,000 documents of a table."""
    import pyarrow.compute as pc

    return pc.list_flatten(table.data["words"].slice(0, 10_000))


def attached_marks(words: Any) -> int | None:  # noqa: ANN401 - a list or an Arrow array
    """How many words end in a mark of punctuation that is no abbreviation's, if there are as many as in raw text alone.

    Stops count after four letters or digits alone.
    """
    import pyarrow.compute as pc

    marked = pc.match_substring_regex(words, r"(?:[\pL\pN][,;:!?]|[\pL\pN]{4}\.)[.,;:!?]*[\"'”’)]*$")
    number: int = pc.sum(marked).as_py() or 0
    return number if number > ATTACHED * len(words) else None


def open_ends(table: Any) -> tuple[int, int]:  # noqa: ANN401
    """How many documents of a table end within a sentence, as lines of wrapped text do, and how many there are.

    Of the first 10,000 documents. The mark that ends a sentence may have quotation marks or a bracket after it.
    """
    import pyarrow.compute as pc

    ends = np.cumsum(pc.list_value_length(table.data["words"].slice(0, 10_000)).to_numpy())
    last, before = (first_words(table).take(np.maximum(ends - back, 0)) for back in (1, 2))
    closed = pc.match_substring_regex(last, r"[.!?…:][\"'”’)]*$").to_numpy()
    closed |= pc.match_substring_regex(last, r"^[\"'”’)]+$").to_numpy() & (
        pc.match_substring_regex(before, r"[.!?…:]$").to_numpy()
    )
    return int((~closed).sum()), len(ends)


def sizes_of(table: Any) -> TableSizes:  # noqa: ANN401
    """How much an annotated table holds, from its columns."""
    import pyarrow.compute as pc

    columns, without = table.data, 0
    sentences, words = (pc.sum(pc.list_value_length(columns[name])).as_py() for name in ("sentence_lengths", "words"))
    if "heads" in table.column_names:
        heads = pc.list_flatten(columns["heads"])
        for name, field in (("edges", "head"), ("spans", "start")):
            if name in table.column_names:
                heads = pc.struct_field(pc.list_flatten(columns[name], recursive=True), field)
        without = pc.sum(pc.equal(heads, -1)).as_py() or 0
    return TableSizes(len(table), sentences, words, without)


# -- 2. token ids -----------------------------------------------------------------------------------------------------


def encoded_table(
    table: Any,  # noqa: ANN401
    vocabulary: Vocabulary,
    *,
    joining: DocumentJoining,
    left_dependents: LeftDependents,
) -> "EncodedSplit":
    """The split of an annotated table as token ids, with trees over tokens; made once.

    Args:
        table: see `AnnotatedSplit`.
        vocabulary: gives words their pieces.
        joining: see `DocumentJoining`.
        left_dependents: see `depgen.trees.pieces`.
    """
    import pyarrow as pa

    name = lines_sha256([ENCODED_VERSION, table._fingerprint, joining, left_dependents, vocabulary.to_json()])

    def parts() -> Iterator[Any]:
        names = _names(table)
        schema = _encoded_features(names, vocabulary).arrow_schema
        for rows in table.with_format("arrow").iter(ROWS_PER_CHUNK):
            columns = encode_documents(
                rows, vocabulary, names=names, left_dependents=left_dependents,
                hang_roots_on_the_sentence_before=joining == "previous_sentence",
            )  # fmt: skip
            yield pa.table(columns).cast(schema)

    return EncodedSplit(_made(name, "Encoding", parts), vocabulary)


def _names(table: Any) -> dict[str, list[str]]:  # noqa: ANN401
    """The different names in each column of names of an annotated table, sorted; "" first, of later pieces of words.

    Relations are left out where no word has a head.
    """
    import pyarrow.compute as pc

    columns, strings = table.data, {}
    if "heads" in table.column_names and pc.any(pc.not_equal(pc.list_flatten(columns["heads"]), -1)).as_py():
        strings["relations"] = pc.list_flatten(columns["relations"])
    for name in {"edges", "spans"} & set(table.column_names):
        strings[name] = pc.struct_field(pc.list_flatten(columns[name], recursive=True), "label")
    return {name: ["", *sorted(set(pc.unique(column).to_pylist()) - {""})] for name, column in strings.items()}


def _encoded_features(names: dict[str, list[str]], vocabulary: Vocabulary) -> Any:  # noqa: ANN401
    """The columns of an encoded table: see `depgen.data.rows.encode_documents`."""
    from datasets import ClassLabel, Features, List, Value

    numbers = List(Value("int32"))
    columns = {"ids": numbers, "sentences": numbers}
    if vocabulary.splits_words:
        columns["word_ends"] = List(Value("uint8"))
    if "relations" in names:
        columns |= {"heads": numbers, "relations": List(ClassLabel(names=names["relations"]))}
    if "edges" in names:
        columns |= {"edge_offsets": numbers, "edge_heads": numbers}
        columns["edge_labels"] = List(ClassLabel(names=names["edges"]))
    if "spans" in names:
        columns |= {"span_starts": numbers, "span_ends": numbers}
        columns["span_labels"] = List(ClassLabel(names=names["spans"]))
    return Features(columns)


# -- 3. items ---------------------------------------------------------------------------------------------------------


class ListColumns:
    """The rows of a table whose columns are lists of numbers: views of its file in memory."""

    def __init__(self, table: Any) -> None:  # noqa: ANN401
        batches, names = table.data.to_batches(), table.column_names
        self._offsets = {name: [batch[name].offsets.to_numpy() for batch in batches] for name in names}
        self._values = {name: [batch[name].values.to_numpy() for batch in batches] for name in names}
        self._starts: list[int] = [0, *np.cumsum([batch.num_rows for batch in batches], dtype=np.int64).tolist()]

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, row: int) -> dict[str, np.ndarray]:
        batch = bisect_right(self._starts, row) - 1
        place = row - self._starts[batch]
        columns = {}
        for name, values in self._values.items():
            offsets = self._offsets[name][batch]
            columns[name] = values[batch][offsets[place] : offsets[place + 1]]
        return columns

    def counts(self, name: str) -> Int[np.ndarray, " rows"]:
        """The numbers in each row's list."""
        return np.concatenate([np.diff(offsets) for offsets in self._offsets[name]], dtype=np.int64)

    def values(self, name: str) -> Iterator[np.ndarray]:
        """The numbers of all rows one after the other, in parts."""
        for offsets, values in zip(self._offsets[name], self._values[name], strict=True):
            yield values[offsets[0] : offsets[-1]]


class EncodedSplit(Dataset[TokenItem]):
    """A split as token ids with its trees, graphs and constituents; an item is a document.

    Args:
        table: of `encoded_table`.
        vocabulary: whose ids they are.
        view: of `viewed`.
    """

    def __init__(self, table: Any, vocabulary: Vocabulary, view: Any = None) -> None:  # noqa: ANN401
        self.table, self.vocabulary, self.view = table, vocabulary, view
        self.columns = ListColumns(table)
        self._views = None if view is None else ListColumns(view)
        self._names = {
            name: np.array(table.features[name].feature.names, dtype=object)
            for name in ("relations", "edge_labels", "span_labels")
            if name in table.column_names
        }

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def lengths(self) -> Int[np.ndarray, " items"]:
        """Target tokens of each item: its tokens and the end of sequence."""
        return self.columns.counts("ids") + 1

    def __getitem__(self, index: int) -> TokenItem:
        row = self.columns[int(index)]
        row |= {name: names[row[name]] for name, names in self._names.items()}
        word_ends, edges, spans = row.get("word_ends"), None, None
        if "edge_heads" in row:
            edges = Edges(row["edge_offsets"], row["edge_heads"], row["edge_labels"])
        if "span_starts" in row and not (row["span_starts"] < 0).any():
            spans = np.stack([row["span_starts"], row["span_ends"]], axis=1)
        return TokenItem(
            int(index),
            row["ids"],
            row.get("heads"),
            None if word_ends is None else word_ends.view(bool),
            row.get("relations"),
            edges,
            None if self._views is None else self._views[int(index)],
            spans,
            None if spans is None else row["span_labels"],
        )

    def sentences(self, index: int) -> Int[np.ndarray, " sentences_and_one"]:
        """Where each sentence of an item begins among its tokens, and the end."""
        return self.columns[index]["sentences"]

    @cached_property
    def counts(self) -> Int[np.ndarray, " vocabulary"]:
        """How often each token occurs."""
        size = self.vocabulary.size
        return sum((np.bincount(ids, minlength=size) for ids in self.columns.values("ids")), np.zeros(size, np.int64))

    def viewed(self, collate: object) -> "EncodedSplit":
        """The split with the view that a system's collate has of each item, made once; without one if it has none."""
        import pyarrow as pa

        if not isinstance(collate, SystemCollate) or collate.reads not in self.table.column_names:
            return self if self.view is None else EncodedSplit(self.table, self.vocabulary)
        name = lines_sha256([self.table._fingerprint, collate.fingerprint()])
        if self.view is not None and self.view._fingerprint == name:
            return self
        plain = EncodedSplit(self.table, self.vocabulary)

        def parts() -> Iterator[Any]:
            for start in range(0, len(plain), ROWS_PER_CHUNK):
                rows = range(start, min(start + ROWS_PER_CHUNK, len(plain)))
                views = [collate.view(plain[row], self.vocabulary) for row in rows]
                yield pa.table({column: [view[column] for view in views] for column in views[0]})

        return EncodedSplit(self.table, self.vocabulary, _made(name, f"Views of {type(collate).__name__}", parts))
