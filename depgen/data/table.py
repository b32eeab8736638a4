"""A split as Arrow tables that `datasets` writes once, keeps in the cache and maps into memory.

    documents --annotated--> words, trees --encoded--> token ids, trees over tokens --viewed--> what a system reads

Each step is a table of its own, one row a document, in `$DEPGEN_CACHE/tables/<fingerprint>/`. `datasets` trusts the
fingerprint: a table of the same name is never made again. So it holds all that the rows depend on, and the number of
the step's version, which rises whenever its rows may change.
"""

import logging
import os
import pickle
import sys
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Int
from torch.utils.data import Dataset

from depgen.data.batch import Edges, SystemCollate, TokenItem
from depgen.data.corpus import Corpus, Split
from depgen.data.rows import Row, annotate_documents, document_of_row, encoded_row, merge_sentences
from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError
from depgen.locations import cache_root, folder_written_whole, lines_sha256, made_once
from depgen.trees.annotator import Annotator, Rearranger, structure_of
from depgen.trees.pieces import LeftDependents
from depgen.trees.sentence import Document

logger = logging.getLogger(__name__)

ANNOTATED_VERSION, ENCODED_VERSION = "3", "2"
"""Parts of the fingerprints of annotated and encoded tables: raised when their rows change."""
DOCUMENTS_PER_CHUNK = 256
"""Documents annotated at a time: what is held in memory."""
SECONDS_PER_LINE = 60.0
"""Between two lines of progress in the log."""

DocumentJoining = Literal["roots", "previous_sentence", "whole"]
"""How the trees of a document's sentences become one.

`roots` keeps all roots, so every one is a child of BOS, as the authors' code of Yang & Wan (2022) does with such a
list; what they gave it for a story is not published. The last word of a sentence then has a future dependent in the
last sentence only: `<eos>`. `previous_sentence`, which all experiments on stories take, makes roots children of the
last word before their sentence. `whole` parses a document as one sentence.
"""


# -- tables in the cache ----------------------------------------------------------------------------------------------


def _folder(fingerprint: str) -> Path:
    return cache_root() / "tables" / fingerprint


def _is_made(fingerprint: str) -> bool:
    return any(_folder(fingerprint).rglob("*.arrow"))


def _made(fingerprint: str, make: Callable[[Path], object]) -> Any:  # noqa: ANN401  (datasets carries no types)
    """The `datasets.Dataset` of a fingerprint, made by writing into a folder unless it is in the cache.

    Of several processes one makes it and the others wait; a kill leaves nothing half done.

    Raises:
        UserError: the cache can't be written, or what is there is damaged.
    """
    from datasets import Dataset, concatenate_datasets
    from pyarrow import ArrowException

    folder = _folder(fingerprint)

    def write() -> None:
        with folder_written_whole(folder) as part, _bars_on_a_terminal():
            make(part)

    made_once(folder, write, is_made=partial(_is_made, fingerprint))
    try:
        table = concatenate_datasets([Dataset.from_file(str(path)) for path in sorted(folder.rglob("*.arrow"))])
    except (ArrowException, OSError, ValueError) as error:
        raise UserError(f"{folder} is damaged ({str(error)[:120]}). Delete the folder: it is made again.") from error
    table._fingerprint = fingerprint
    return table


@contextmanager
def _bars_on_a_terminal() -> Iterator[None]:
    """Lets `datasets` draw its progress bars on a terminal alone."""
    import datasets

    hidden = not sys.stderr.isatty() and not datasets.are_progress_bars_disabled()
    if hidden:
        datasets.disable_progress_bars()
    try:
        yield
    finally:
        if hidden:
            datasets.enable_progress_bars()


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
        whole_documents: give each document to the annotator as one long sentence (`joining: whole`).
        max_documents: only the first of the split's documents, this many; None for all.
    """

    corpus: Corpus
    split: Split
    annotator: Annotator | None
    whole_documents: bool = False
    max_documents: int | None = None

    def fingerprint(self) -> str:
        """The digest that names the table: of the text, the parser, the way documents are cut and their limit.

        Raises:
            UserError: the corpus or the parser is not there.
        """
        trees = "none" if self.annotator is None else self.annotator.fingerprint()
        form = "documents" if self.whole_documents else "sentences"
        return lines_sha256(
            [ANNOTATED_VERSION, self.corpus.fingerprint(self.split), trees, form, str(self.max_documents)]
        )

    def is_made(self) -> bool:
        """Whether `table` finds what it needs in the cache."""
        return _is_made(self._source().fingerprint())

    def table(self, *, processes: int = 1) -> Any:  # noqa: ANN401
        """The rows, as a `datasets.Dataset` that is mapped into memory.

        Args:
            processes: how many processes annotate; worth it for slow parsers and large corpora.

        Raises:
            UserError: corpus or parser missing, an annotator that changes words or gives no tree, a corpus that changed
                while it was read.
        """
        from datasets import Dataset
        from datasets.exceptions import DatasetGenerationError

        source = self._source()
        name = source.fingerprint()

        def make(folder: Path) -> None:
            rows = partial(source._rows, name, processes)
            try:
                Dataset.from_generator(rows, _features(self.annotator), str(folder), fingerprint=name)
            except DatasetGenerationError as error:  # it wraps what a row was refused for
                raise error.__cause__ or error from None

        table = _made(name, make)
        if source.max_documents == self.max_documents:
            return table
        assert self.max_documents is not None
        return table.select(range(min(self.max_documents, len(table))), new_fingerprint=self.fingerprint())

    def _source(self) -> "AnnotatedSplit":
        """What is annotated: all documents if they were annotated before, else as many as are wanted.

        What is rearranged among all differs from what is rearranged among the first.
        """
        whole = replace(self, max_documents=None)
        is_part = self.max_documents is not None and not isinstance(self.annotator, Rearranger)
        return whole if is_part and _is_made(whole.fingerprint()) else self

    def _rows(self, fingerprint: str, processes: int) -> Iterator[Row]:
        """The rows, made chunk by chunk in one process or several, and lines in the log that say how fast.

        An annotator that needs all documents at once gets them in one process.
        """
        doing = f"{self.corpus.name} {self.split}"
        documents, size = self._documents(processes), max(1, DOCUMENTS_PER_CHUNK // processes)
        chunks = iter(lambda: list(islice(documents, size)), [])
        if isinstance(self.annotator, Rearranger):
            processes, chunks = 1, iter(filter(None, [list(documents)]))
        started = said = time.perf_counter()
        count = words = 0
        for rows in _in_processes(partial(annotate_documents, annotator=self.annotator), chunks, processes):
            yield from rows
            count, words, now = count + len(rows), words + sum(len(row["words"]) for row in rows), time.perf_counter()
            if now - said >= SECONDS_PER_LINE:
                said = now
                logger.info("%s: %s words, %s words/s", doing, f"{words:,}", f"{words / (now - started):,.0f}")
        if not count:
            raise UserError(f"{doing}: expected documents, found none.")
        if self.fingerprint() != fingerprint:
            raise UserError(f"{doing} changed while it was read: start again when its files are complete.")
        scheme = "read" if self.annotator is None else f"annotated ({self.annotator.scheme})"
        logger.info("%s: %d documents, %d words %s in %.1f s", doing, count, words, scheme, now - started)

    def _documents(self, processes: int) -> Iterator[Document]:
        """What the annotator is given: the corpus's documents, or what the one whose trees it rearranges makes."""
        if isinstance(self.annotator, Rearranger):
            return map(document_of_row, replace(self, annotator=self.annotator.annotator).table(processes=processes))
        documents = islice(self.corpus.documents(self.split), self.max_documents)
        return map(merge_sentences, documents) if self.whole_documents else documents


def _features(annotator: Annotator | None) -> Any:  # noqa: ANN401
    """The columns of an annotated table."""
    from datasets import Features, List, Value

    number, string = Value("int32"), Value("string")
    columns = {"identifier": string, "words": List(string), "sentence_lengths": List(number)}
    if annotator is not None:
        columns |= {"heads": List(number), "relations": List(string)}
        if structure_of(annotator) == "graph":
            columns["edges"] = List(List({"head": number, "label": string}))
        elif structure_of(annotator) == "constituency":
            columns["spans"] = List(List({"start": number, "end": number, "label": string}))
    return Features(columns)


def _in_processes(
    function: Callable[[list[Document]], list[Row]], chunks: Iterator[list[Document]], processes: int
) -> Iterator[list[Row]]:
    """What a function makes of each chunk, in their order, a few chunks ahead in other processes.

    The processes are spawned, with one thread each: forked copies of a threaded process may hang.
    """
    if processes == 1:
        yield from map(function, chunks)
        return
    before = {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    os.environ.update(dict.fromkeys(before, "1"))
    try:
        with ProcessPoolExecutor(processes, get_context("spawn"), _load, (pickle.dumps(function),)) as pool:
            while ahead := list(islice(chunks, 2 * processes)):
                yield from pool.map(_run_loaded, ahead)
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


_loaded: list[Callable[[list[Document]], list[Row]]] = []
"""In another process: what it does, made once, so that a parser is loaded once."""


def _load(function: bytes) -> None:
    _loaded[:] = [pickle.loads(function)]


def _run_loaded(chunk: list[Document]) -> list[Row]:
    return _loaded[0](chunk)


class Sizes(NamedTuple):
    """How much an annotated table holds; `without_head`: words of sentences without tree, graph or constituents."""

    documents: int
    sentences: int
    words: int
    without_head: int


def sizes_of(table: Any) -> Sizes:  # noqa: ANN401
    """How much an annotated table holds, from its columns."""
    import pyarrow.compute as pc

    columns, without = table.data, 0
    sentences, words = (pc.sum(pc.list_value_length(columns[name])).as_py() for name in ("sentence_lengths", "words"))
    if "heads" in table.column_names:
        heads = pc.list_flatten(columns["heads"])
        for name, field in (("edges", "head"), ("spans", "start")):
            if name in table.column_names:
                heads = pc.struct_field(pc.list_flatten(pc.list_flatten(columns[name])), field)
        without = pc.sum(pc.equal(heads, -1)).as_py() or 0
    return Sizes(len(table), sentences, words, without)


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

    Raises:
        UserError: the cache can't be written, or what is there is damaged.
    """
    files = [text for file in sorted(vocabulary.files().items()) for text in file]
    name = lines_sha256([ENCODED_VERSION, table._fingerprint, joining, left_dependents, *files])

    def make(folder: Path) -> None:
        names, has_trees = _names(table), _has_trees(table)
        encode = partial(
            encoded_row, vocabulary=vocabulary, has_trees=has_trees, left_dependents=left_dependents,
            numbers={column: {name: number for number, name in enumerate(names[column])} for column in names},
            hang_roots_on_the_sentence_before=joining == "previous_sentence",
        )  # fmt: skip

        def encode_batch(batch: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
            rows = [encode(dict(zip(batch, row, strict=True))) for row in zip(*batch.values(), strict=True)]
            return {name: [row[name] for row in rows] for name in rows[0]}

        table.map(
            encode_batch, batched=True, remove_columns=table.column_names,
            features=_encoded_features(names, vocabulary, has_trees=has_trees), new_fingerprint=name,
            cache_file_name=str(folder / "table.arrow"), desc="Encoding",
        )  # fmt: skip

    return EncodedSplit(_made(name, make), vocabulary)


def _names(table: Any) -> dict[str, list[str]]:  # noqa: ANN401
    """The different names in each column of names of an annotated table, sorted; "" first, of later pieces of words."""
    import pyarrow.compute as pc

    def different(strings: Any) -> list[str]:  # noqa: ANN401
        return ["", *sorted(set(pc.unique(strings).to_pylist()) - {""})]

    columns, names = table.data, {}
    if "relations" in table.column_names:
        names["relations"] = different(pc.list_flatten(columns["relations"]))
    for column in {"edges", "spans"} & set(table.column_names):
        names[column] = different(pc.struct_field(pc.list_flatten(pc.list_flatten(columns[column])), "label"))
    return names


def _has_trees(table: Any) -> bool:  # noqa: ANN401
    """Whether any word of an annotated table has a head."""
    import pyarrow.compute as pc

    return "heads" in table.column_names and bool(
        pc.any(pc.not_equal(pc.list_flatten(table.data["heads"]), -1)).as_py()
    )


def _encoded_features(names: dict[str, list[str]], vocabulary: Vocabulary, *, has_trees: bool) -> Any:  # noqa: ANN401
    """The columns of an encoded table: see `depgen.data.rows.encoded_row`."""
    from datasets import ClassLabel, Features, List, Value

    numbers = List(Value("int32"))
    columns = {"ids": numbers, "sentences": numbers}
    if vocabulary.splits_words:
        columns["word_ends"] = List(Value("uint8"))
    if has_trees:
        columns |= {"heads": numbers, "relations": List(ClassLabel(names=names["relations"]))}
    if "edges" in names:
        columns |= {"edge_offsets": numbers, "edge_heads": numbers}
        columns["edge_labels"] = List(ClassLabel(names=names["edges"]))
    if "spans" in names:
        columns |= {"span_starts": numbers, "span_ends": numbers}
        columns["span_labels"] = List(ClassLabel(names=names["spans"]))
    return Features(columns)


# -- 3. items ---------------------------------------------------------------------------------------------------------


class Columns:
    """The rows of a table whose columns are lists of numbers: views of its files in memory."""

    def __init__(self, table: Any) -> None:  # noqa: ANN401
        self._batches = [
            {name: (batch[name].offsets.to_numpy(), batch[name].values.to_numpy()) for name in table.column_names}
            for batch in table.data.to_batches()
        ]
        ends = np.cumsum([batch.num_rows for batch in table.data.to_batches()], dtype=np.int64)
        self._starts: list[int] = [0, *ends.tolist()]

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, row: int) -> dict[str, np.ndarray]:
        place = bisect_right(self._starts, row) - 1
        within = row - self._starts[place]
        return {
            name: values[offsets[within] : offsets[within + 1]]
            for name, (offsets, values) in self._batches[place].items()
        }

    def counts(self, name: str) -> Int[np.ndarray, " rows"]:
        """The numbers in each row's list."""
        return np.concatenate([np.diff(batch[name][0]) for batch in self._batches], dtype=np.int64)

    def values(self, name: str) -> Iterator[np.ndarray]:
        """The numbers of all rows one after the other, in parts."""
        for offsets, values in (batch[name] for batch in self._batches):
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
        self.columns = Columns(table)
        self._views = None if view is None else Columns(view)
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
        """The split with the view that a system's collate has of each item, made once; itself where it has none."""
        if not isinstance(collate, SystemCollate) or collate.reads not in self.table.column_names:
            return self
        name = lines_sha256([self.table._fingerprint, collate.fingerprint()])
        if self.view is not None and self.view._fingerprint == name:
            return self
        plain = EncodedSplit(self.table, self.vocabulary)

        def views(_: object, rows: list[int]) -> dict[str, list[np.ndarray]]:
            of_rows = [collate.view(plain[row], self.vocabulary) for row in rows]
            return {column: [view[column] for view in of_rows] for column in of_rows[0]}

        def make(folder: Path) -> None:
            self.table.with_format("arrow").map(
                views, batched=True, with_indices=True, remove_columns=self.table.column_names, new_fingerprint=name,
                cache_file_name=str(folder / "table.arrow"), desc="Preparing",
            )  # fmt: skip

        return EncodedSplit(self.table, self.vocabulary, _made(name, make))
