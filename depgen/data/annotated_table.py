"""The Arrow file of an annotated split: its columns, and how it is written."""

import logging
import os
import pickle
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool

from depgen.data.annotated_rows import Row, annotate_documents
from depgen.errors import UserError
from depgen.trees.annotator import Annotator, Rearranger, Structure, structure_of
from depgen.trees.sentence import Document

logger = logging.getLogger(__name__)
TABLE = "table.arrow"
LINES = 60.0
"""Seconds between two lines of progress in a log, where there is no terminal."""


def write_table(
    part: Path,
    documents: Iterable[Document],
    annotator: Annotator | None,
    *,
    processes: int,
    chunk: int,
    title: str,
) -> dict[str, int]:
    """Write the table of the documents into a folder, chunk by chunk; how many documents and words there are.

    Several processes get a chunk together. An annotator that needs all documents at once gets them in one process.

    Raises:
        UserError: there are no documents, or what the annotator refuses.
    """
    import pyarrow

    schema, found, words = _table_schema(annotator), 0, 0
    iterator, size = iter(documents), max(1, chunk // processes)
    chunks = iter(lambda: list(islice(iterator, size)), [])
    if isinstance(annotator, Rearranger):
        processes, chunks = 1, filter(None, [list(iterator)])
    with (
        pyarrow.OSFile(str(part / TABLE), "wb") as sink,
        pyarrow.ipc.new_stream(sink, schema) as writer,
        _progress(f"{'Encoding' if annotator is None else 'Annotating'} {title}") as advance,
    ):
        for rows in _in_processes(partial(annotate_documents, annotator=annotator), chunks, processes):
            for first in range(0, len(rows), chunk):
                writer.write_batch(pyarrow.RecordBatch.from_pylist(rows[first : first + chunk], schema=schema))
            found, words = found + len(rows), words + sum(len(row["words"]) for row in rows)
            advance(len(rows), words)
    if not found:
        raise UserError(f"{title}: expected documents, found none.")
    return _counts(opened(part / TABLE), annotator)


def _in_processes(
    function: Callable[[list[Document]], list[Row]], chunks: Iterator[list[Document]], processes: int
) -> Iterator[list[Row]]:
    """What a function makes of each chunk, in their order, a few chunks ahead in other processes.

    The processes are spawned, with one thread each: forked copies of a threaded process may hang.
    """
    if processes == 1:
        yield from map(function, chunks)
        return
    try:
        kept = pickle.dumps(function)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise UserError(
            f"The annotator can't be given to other processes ({error}): define it in a module, or take one process."
        ) from error
    before = {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    os.environ.update(dict.fromkeys(before, "1"))
    try:
        with ProcessPoolExecutor(processes, get_context("spawn"), initializer=_keep, initargs=(kept,)) as pool:
            while ahead := list(islice(chunks, 2 * processes)):
                yield from pool.map(_run_kept, ahead)
    except BrokenProcessPool as error:
        raise UserError(
            f"A process that annotates has ended: {error} Take fewer processes where memory was short, and one with an "
            "annotator of a notebook."
        ) from error
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


_kept: list[Callable[[list[Document]], list[Row]]] = []
"""In another process: what it does, made once, so that a parser is loaded once."""


def _keep(function: bytes) -> None:
    _kept[:] = [pickle.loads(function)]


def _run_kept(chunk: list[Document]) -> list[Row]:
    return _kept[0](chunk)


def _table_schema(annotator: Annotator | None) -> Any:  # noqa: ANN401  (pyarrow carries no types)
    import pyarrow

    integers, strings = pyarrow.list_(pyarrow.int32()), pyarrow.list_(pyarrow.string())
    columns = {"identifier": pyarrow.string(), "words": strings, "sentence_lengths": integers}
    if annotator is not None:
        columns |= {"heads": integers, "relations": strings}
        if structure_of(annotator) == "graph":
            edge = pyarrow.struct({"head": pyarrow.int32(), "label": pyarrow.string()})
            columns["edges"] = pyarrow.list_(pyarrow.list_(edge))
        elif structure_of(annotator) == "constituency":
            span = pyarrow.struct({"start": pyarrow.int32(), "end": pyarrow.int32(), "label": pyarrow.string()})
            columns["spans"] = pyarrow.list_(pyarrow.list_(span))
    return pyarrow.schema(columns)


def opened(path: Path) -> Any:  # noqa: ANN401
    """A memory-mapped `datasets.Dataset` with the fingerprint of the folder that it lies in.

    Raises:
        UserError: the file is damaged.
    """
    import datasets
    from datasets.table import MemoryMappedTable
    from pyarrow import ArrowException

    try:
        table = MemoryMappedTable.from_file(str(path))
    except (ArrowException, OSError, ValueError) as error:
        raise UserError(
            f"{path} is damaged ({str(error)[:120]}). Delete the folder {path.parent}: it is made again."
        ) from error
    return datasets.Dataset(table, fingerprint=path.parent.stem)


def _counts(table: Any, annotator: Annotator | None) -> dict[str, int]:  # noqa: ANN401
    """How many documents, sentences and words there are, and words that got no head, graph or constituents."""
    import pyarrow.compute as pc

    columns = table.data
    lengths = {name: pc.sum(pc.list_value_length(columns[name])).as_py() for name in ("sentence_lengths", "words")}
    without = 0
    if annotator is not None:
        heads = pc.list_flatten(columns["heads"])
        if structure_of(annotator) == "graph":
            heads = pc.struct_field(pc.list_flatten(pc.list_flatten(columns["edges"])), "head")
        elif structure_of(annotator) == "constituency":
            heads = pc.struct_field(pc.list_flatten(pc.list_flatten(columns["spans"])), "start")
        without = pc.sum(pc.equal(heads, -1)).as_py() or 0
    return {
        "documents": len(table),
        "sentences": lengths["sentence_lengths"],
        "words": lengths["words"],
        "words_without_head": without,
    }


def sentences_with_trees(table: Any, structure: Structure) -> tuple[int, int]:  # noqa: ANN401
    """How many sentences of an annotated table were given a tree, a graph or constituents, and how many there are."""
    import pyarrow.compute as pc

    columns = table.data
    lengths = pc.list_flatten(columns["sentence_lengths"]).to_numpy()
    if structure == "constituency":  # a list a sentence
        return int((~_begins_with_nothing(columns["spans"], "start")).sum()), len(lengths)
    if structure == "graph":  # a list a word
        nothing = _begins_with_nothing(columns["edges"], "head")
    else:
        nothing = pc.list_flatten(columns["heads"]).to_numpy() == -1
    return int((~nothing[(np.cumsum(lengths) - lengths)[lengths > 0]]).sum()), len(lengths)


def _begins_with_nothing(column: Any, name: str) -> Bool[np.ndarray, " lists"]:  # noqa: ANN401
    """Whether the first entry of each inner list has -1 under a name; an empty list has not."""
    import pyarrow.compute as pc

    lists = pc.list_flatten(column)
    lengths = pc.list_value_length(lists).to_numpy()
    values = pc.struct_field(pc.list_flatten(lists), name).to_numpy()
    found = np.zeros(len(lengths), dtype=bool)
    found[lengths > 0] = values[(np.cumsum(lengths) - lengths)[lengths > 0]] == -1
    return found


@contextmanager
def _progress(title: str) -> Iterator[Any]:
    """A function of (new documents, words so far) that shows the speed in words per second, in a bar or in a log."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    layout = "{task.description}: {task.completed:,.0f} documents, {task.fields[speed]:,.0f} words/s"
    started = time.perf_counter()
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn(layout), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task, said = bar.add_task(title, total=None, speed=0.0), started

        def advance(documents: int, words: int) -> None:
            nonlocal said
            now = time.perf_counter()
            bar.update(task, advance=documents, speed=words / max(now - started, 1e-9))
            if not console.is_terminal and now - said >= LINES:
                said = now
                logger.info("%s: %s words, %s words/s", title, f"{words:,}", f"{words / (now - started):,.0f}")

        yield advance
