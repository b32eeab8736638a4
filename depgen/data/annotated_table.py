"""The Arrow file of an annotated split: its columns, and how it is written."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool

from depgen.data.annotated_rows import Row, annotate_documents
from depgen.errors import UserError
from depgen.trees.annotator import Annotator, Rearranger, Structure, structure_of
from depgen.trees.sentence import Document, Sentence

_PARTS = {"edges": ("head", "dependent", "label"), "spans": ("start", "end", "label")}
"""What the parts of an edge and of a constituent are called."""

TABLE, DOCUMENTS = "table.arrow", "documents.arrow"


def write_table(
    part: Path,
    documents: Iterable[Document],
    annotator: Annotator | None,
    *,
    processes: int,
    chunk: int,
    title: str,
) -> dict[str, int]:
    """Write the table of the documents into a folder; how many documents, sentences and words there are.

    An annotator reads the documents from a table without trees, so that `datasets` can share them among processes. That
    one is written here, for `Dataset.from_generator` took nine times as long.
    """
    iterator = iter(documents)
    chunks = iter(lambda: list(islice(iterator, chunk)), [])
    if annotator is None:
        _write_rows(part / TABLE, chunks, partial(annotate_documents, annotator=None), title=f"Encoding {title}")
    else:
        _write_rows(part / DOCUMENTS, chunks, _unannotated_rows, title=f"Reading {title}")
        _annotate_table(part, annotator, processes=processes, chunk=chunk, title=f"Annotating {title}")
    return _counts(opened(part / TABLE), annotator)


def _write_rows(
    path: Path,
    chunks: Iterable[list[Document]],
    rows_of: Callable[[list[Document]], list[Row]],
    *,
    title: str,
) -> None:
    """Stream documents into an Arrow file, chunk by chunk.

    Raises:
        UserError: there are none.
    """
    import pyarrow

    schema = _documents_schema() if path.name == DOCUMENTS else _table_schema(None)
    found = 0
    with (
        pyarrow.OSFile(str(path), "wb") as sink,
        pyarrow.ipc.new_stream(sink, schema) as writer,
        _progress(title) as advance,
    ):
        for documents in chunks:
            writer.write_batch(pyarrow.RecordBatch.from_pylist(rows_of(documents), schema=schema))
            found += len(documents)
            advance(len(documents), sum(map(len, (each for document in documents for each in document.sentences))))
    if not found:
        raise UserError(f"{title.partition(' ')[2]}: expected documents, found none.")


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
            columns["spans"] = pyarrow.list_(pyarrow.list_(_span_type()))
    return pyarrow.schema(columns)


def _span_type() -> Any:  # noqa: ANN401
    import pyarrow

    return pyarrow.struct({"start": pyarrow.int32(), "end": pyarrow.int32(), "label": pyarrow.string()})


def _documents_schema() -> Any:  # noqa: ANN401
    """The columns of what an annotator reads: all that is known of each sentence."""
    import pyarrow

    integer, strings = pyarrow.int32(), pyarrow.list_(pyarrow.string())
    edge = pyarrow.struct({"head": integer, "dependent": integer, "label": pyarrow.string()})
    columns = {"words": strings, "heads": pyarrow.list_(integer), "relations": strings, "tags": strings}
    sentence = pyarrow.struct({**columns, "edges": pyarrow.list_(edge), "spans": pyarrow.list_(_span_type())})
    return pyarrow.schema({"identifier": pyarrow.string(), "sentences": pyarrow.list_(sentence)})


def _unannotated_rows(documents: Sequence[Document]) -> list[Row]:
    return [
        {"identifier": document.identifier, "sentences": [_sentence_row(each) for each in document.sentences]}
        for document in documents
    ]


def _sentence_row(sentence: Sentence) -> Row:
    row = {name: getattr(sentence, name) for name in ("words", "heads", "relations", "tags")}
    for column, names in _PARTS.items():
        values = getattr(sentence, column)
        row[column] = None if values is None else [dict(zip(names, value, strict=True)) for value in values]
    return row


def _sentence(row: Row) -> Sentence:
    columns = {name: None if row[name] is None else tuple(row[name]) for name in ("heads", "relations", "tags")}
    for column, names in _PARTS.items():
        columns[column] = None if row[column] is None else tuple(tuple(map(v.get, names)) for v in row[column])
    return Sentence(tuple(row["words"]), **columns)


@dataclass(frozen=True)
class _AnnotatedColumns:
    """From columns of documents to those of the table; picklable, so that other processes can run it."""

    annotator: Annotator

    def __call__(self, columns: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
        pairs = zip(columns["identifier"], columns["sentences"], strict=True)
        documents = [Document(tuple(map(_sentence, sentences)), identifier) for identifier, sentences in pairs]
        rows = annotate_documents(documents, self.annotator)
        return {name: [row[name] for row in rows] for name in _table_schema(self.annotator).names}


def _annotate_table(part: Path, annotator: Annotator, *, processes: int, chunk: int, title: str) -> None:
    """Make the table of the documents' table, which goes."""
    import datasets
    import pyarrow

    documents = opened(part / DOCUMENTS)
    schema = _table_schema(annotator)
    if isinstance(annotator, Rearranger):
        processes, chunk = 1, len(documents)
    with _spawned_processes():
        annotated = documents.map(
            _AnnotatedColumns(annotator),
            batched=True,
            batch_size=chunk,
            remove_columns=documents.column_names,
            features=datasets.Features.from_arrow_schema(schema),
            num_proc=min(processes, len(documents)) if processes > 1 else None,
            load_from_cache_file=False,
            new_fingerprint=part.stem[:32],  # to which datasets adds the number of a process
            cache_file_name=str(part / TABLE),
            desc=title,
        )
    shares = [Path(each["filename"]) for each in annotated.cache_files]  # one a process
    if shares != [part / TABLE]:
        with pyarrow.OSFile(str(part / TABLE), "wb") as sink, pyarrow.ipc.new_stream(sink, schema) as writer:
            for share in shares:
                for batch in pyarrow.ipc.open_stream(pyarrow.memory_map(str(share))):
                    writer.write_batch(batch)
                share.unlink()
    (part / DOCUMENTS).unlink()


@contextmanager
def _spawned_processes() -> Iterator[None]:
    """Lets `datasets` spawn its processes, of one thread each: forked copies of a threaded process may hang.

    Raises:
        KeyboardInterrupt: as it was raised within; `datasets` hides it, for it waits for its processes then.
    """
    import multiprocess

    method, environment = multiprocess.get_start_method(allow_none=True), os.environ
    threads = {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    try:
        multiprocess.set_start_method("spawn", force=True)
        os.environ.update(dict.fromkeys(threads, "1"))
        yield
    except multiprocess.TimeoutError as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            raise error.__context__ from None
        raise
    finally:
        multiprocess.set_start_method(method, force=True)
        os.environ = environment  # noqa: B003  (datasets puts a copy in its place)
        for name, value in threads.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


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
    """A function of (new documents, words so far) that moves a progress bar with the speed in words per second."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    layout = "{task.description}: {task.completed:,.0f} documents, {task.fields[speed]:,.0f} words/s"
    started = time.perf_counter()
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn(layout), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=None, speed=0.0)

        def advance(documents: int, words: int) -> None:
            bar.update(task, advance=documents, speed=words / max(time.perf_counter() - started, 1e-9))

        yield advance
