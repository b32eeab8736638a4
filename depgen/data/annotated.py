"""A split with its trees as an Arrow table on disk: annotated once, read by every run that asks for the same trees.

One row a document: `identifier`, `words` (all sentences' words in a row), `sentence_lengths`, and, where an annotator
is given, `heads` (1-based within the sentence, 0 = root, -1 = no tree was given) and `relations`.
"""

import json
import logging
import os
import pickle
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from depgen.data.corpus import Corpus, Split
from depgen.errors import UserError
from depgen.locations import cache_root, lines_sha256, locked, write_atomically
from depgen.trees.annotator import Annotator, SentenceError, leaves_out
from depgen.trees.joining import merge_sentences
from depgen.trees.sentence import Document, Sentence
from depgen.trees.tree import check_tree

logger = logging.getLogger(__name__)

FORMAT = "1"
"""Part of every table's fingerprint: raised when the columns change."""

TABLE = "table.arrow"

DOCUMENTS_PER_CHUNK = 256
"""Documents annotated and written at a time: what is held in memory."""

Row = dict[str, Any]


def annotation_fingerprint(
    corpus: Corpus,
    split: Split,
    annotator: Annotator | None,
    *,
    whole_documents: bool,
    max_documents: int | None = None,
) -> str:
    """The digest that names a table: of the text, the parser, the way documents are cut and how many it is limited to.

    Raises:
        UserError: the corpus or the parser is not there.
    """
    trees = "none" if annotator is None else annotator.fingerprint()
    parts = [FORMAT, corpus.fingerprint(split), trees, "documents" if whole_documents else "sentences"]
    if max_documents is not None:
        parts.append(f"the first {max_documents}")
    return lines_sha256(parts)


def annotated_split(
    corpus: Corpus,
    split: Split,
    annotator: Annotator | None,
    *,
    whole_documents: bool = False,
    processes: int = 1,
    max_documents: int | None = None,
) -> Any:  # noqa: ANN401  (datasets carries no types)
    """A split as a memory-mapped `datasets.Dataset`, one row a document; see the module for its columns.

    The table lies in `$DEPGEN_CACHE/annotations/<fingerprint>/`. It is written beside and renamed, under a file lock,
    so that two processes at once annotate once and a kill leaves nothing half done. A limited number of documents has
    a table with another name; if the table of all is there, its first rows are taken.

    Args:
        corpus: where the documents come from.
        split: which of its splits.
        annotator: what gives the sentences trees; None leaves `heads` and `relations` out.
        whole_documents: give each document to the annotator as one long sentence (option C of the DMLM notes).
        processes: how many processes annotate; worth it for slow parsers and large corpora.
        max_documents: only the first of the split's documents, this many; None for all.

    Raises:
        UserError: corpus or parser missing, an annotator that changes words or gives no tree, a corpus that changed
            while it was read.
    """
    import datasets
    from datasets.table import MemoryMappedTable

    cut: dict[str, Any] = {"whole_documents": whole_documents, "max_documents": max_documents}
    folder = _table_folder(corpus, split, annotator, **cut)
    if not (folder / TABLE).is_file():
        with locked(folder):
            if not (folder / TABLE).is_file():
                documents = _unchanged(
                    islice(corpus.documents(split), max_documents),
                    lambda: annotation_fingerprint(corpus, split, annotator, **cut) == folder.name,
                    title=f"{corpus.name} {split}",
                )
                if whole_documents:
                    documents = map(merge_sentences, documents)
                _write(folder, documents, annotator, processes=processes, title=f"{corpus.name} {split}")
    table = datasets.Dataset(MemoryMappedTable.from_file(str(folder / TABLE)), fingerprint=folder.name)
    return table if max_documents is None else table.select(range(min(max_documents, len(table))))


def _table_folder(
    corpus: Corpus, split: Split, annotator: Annotator | None, *, whole_documents: bool, max_documents: int | None
) -> Path:
    """Where the documents' rows are or will be: in the table of all if it is there, else in one of the first alone."""
    folders = [
        cache_root()
        / "annotations"
        / annotation_fingerprint(corpus, split, annotator, whole_documents=whole_documents, max_documents=limit)
        for limit in dict.fromkeys((None, max_documents))
    ]
    return next((folder for folder in folders if (folder / TABLE).is_file()), folders[-1])


def annotation_summary(
    corpus: Corpus,
    split: Split,
    annotator: Annotator | None,
    *,
    whole_documents: bool,
    max_documents: int | None = None,
) -> Row:
    """What was written with a table: scheme, sizes, words without a head, seconds; empty when there is no table."""
    folder = _table_folder(corpus, split, annotator, whole_documents=whole_documents, max_documents=max_documents)
    path = folder / "summary.json"
    summary: Row = json.loads(path.read_text()) if path.is_file() else {}
    return summary


def _unchanged(documents: Iterable[Document], is_unchanged: Callable[[], bool], *, title: str) -> Iterator[Document]:
    """The documents, and at their end a refusal if they are no longer those that the table is named after."""
    yield from documents
    if not is_unchanged():
        raise UserError(f"{title} changed while it was read: start again when its files are complete.")


def _write(
    folder: Path, documents: Iterable[Document], annotator: Annotator | None, *, processes: int, title: str
) -> None:
    """Annotate into `<folder>.part` and rename it."""
    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    started = time.perf_counter()
    try:
        counts = _write_table(part / TABLE, documents, annotator, processes=processes, title=title)
        if not counts["documents"]:
            raise UserError(f"{title}: expected documents, found none.")
        seconds = time.perf_counter() - started
        scheme = None if annotator is None else annotator.scheme
        summary = {"title": title, "scheme": scheme, "processes": processes, **counts, "seconds": round(seconds, 3)}
        write_atomically(part / "summary.json", json.dumps(summary, indent=2) + "\n")
        shutil.rmtree(folder, ignore_errors=True)  # what a cleaned cache left of a table
        part.replace(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    logger.info(
        "%s: %d documents, %d sentences, %d words %s in %.1f s, %.0f words/s",
        title, counts["documents"], counts["sentences"], counts["words"],
        "encoded" if scheme is None else f"annotated ({scheme})", seconds,
        counts["words"] / max(seconds, 1e-9),
    )  # fmt: skip


def _write_table(
    path: Path, documents: Iterable[Document], annotator: Annotator | None, *, processes: int, title: str
) -> dict[str, int]:
    """Stream rows into an Arrow file, chunk by chunk; how many documents, sentences and words there were."""
    import pyarrow

    columns = {
        "identifier": pyarrow.string(),
        "words": pyarrow.list_(pyarrow.string()),
        "sentence_lengths": pyarrow.list_(pyarrow.int32()),
    }
    if annotator is not None:
        columns |= {"heads": pyarrow.list_(pyarrow.int32()), "relations": pyarrow.list_(pyarrow.string())}
    schema = pyarrow.schema(list(columns.items()))
    counts = {"documents": 0, "sentences": 0, "words": 0, "words_without_head": 0}
    with (
        pyarrow.OSFile(str(path), "wb") as sink,
        pyarrow.ipc.new_stream(sink, schema) as writer,
        _progress(f"{'Encoding' if annotator is None else 'Annotating'} {title}") as advance,
    ):
        for rows in _annotated_chunks(documents, annotator, processes=processes):
            writer.write_batch(pyarrow.RecordBatch.from_pylist(rows, schema=schema))
            counts["documents"] += len(rows)
            counts["sentences"] += sum(len(row["sentence_lengths"]) for row in rows)
            counts["words"] += sum(len(row["words"]) for row in rows)
            counts["words_without_head"] += sum(row["heads"].count(-1) for row in rows if "heads" in row)
            advance(len(rows), counts["words"])
    return counts


def _annotated_chunks(
    documents: Iterable[Document], annotator: Annotator | None, *, processes: int
) -> Iterator[list[Row]]:
    """Rows in the order of the documents; with several processes at most two chunks each are under way."""
    iterator = iter(documents)
    chunks = iter(lambda: list(islice(iterator, DOCUMENTS_PER_CHUNK)), [])
    if annotator is None or processes <= 1:
        yield from (annotate_documents(chunk, annotator) for chunk in chunks)
        return
    context = get_context("spawn")  # forked copies of a threaded process may hang
    with ProcessPoolExecutor(processes, context, _start_worker, (pickle.dumps(annotator),)) as pool:
        pending: deque[Future[list[Row]]] = deque()
        for chunk in chunks:
            pending.append(pool.submit(_annotate_in_worker, chunk))
            if len(pending) >= 2 * processes:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


_worker_annotator: Annotator | None = None


def _start_worker(pickled: bytes) -> None:
    global _worker_annotator
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    _worker_annotator = pickle.loads(pickled)


def _annotate_in_worker(documents: Sequence[Document]) -> list[Row]:
    return annotate_documents(documents, _worker_annotator)


def annotate_documents(documents: Sequence[Document], annotator: Annotator | None) -> list[Row]:
    """One row a document, trees checked: a single head a word, within the sentence, no cycle; or no tree at all where
    the annotator may leave sentences out.

    Raises:
        UserError: an empty document, a sentence that the annotator refuses, other words than were given, no heads,
            heads that form no tree.
    """
    sentences = [sentence for document in documents for sentence in document.sentences]
    try:
        annotated = iter(sentences if annotator is None else annotator.annotate(sentences))
    except SentenceError as error:
        raise UserError(f"{_place(documents, error.number)}: {error.complaint}") from error
    rows: list[Row] = []
    for document in documents:
        if not any(len(sentence) for sentence in document.sentences):
            raise UserError(f"{document.identifier}: expected words, found an empty document.")
        trees = list(islice(annotated, len(document.sentences)))
        row: Row = {
            "identifier": document.identifier,
            "words": list(document.words()),
            "sentence_lengths": [len(sentence) for sentence in document.sentences],
        }
        if annotator is not None:
            _check(document, trees, annotator)
            row["heads"] = [head for tree in trees for head in tree.heads or ()]
            row["relations"] = [relation for tree in trees for relation in tree.relations or ("_",) * len(tree)]
        rows.append(row)
    if annotator is not None and (surplus := len(list(annotated))):
        raise UserError(
            f"{documents[-1].identifier}: the annotator ({annotator.scheme}) gave back {surplus} sentences too many."
        )
    return rows


def _place(documents: Sequence[Document], number: int) -> str:
    """Document and sentence within it of the sentence with this number (from 1) among all of them."""
    places = (
        f"{document.identifier}, sentence {n}" for document in documents for n in range(1, len(document.sentences) + 1)
    )
    return next(islice(places, number - 1, None))


def _check(document: Document, trees: Sequence[Sentence], annotator: Annotator) -> None:
    if len(trees) != len(document.sentences):
        raise UserError(f"{document.identifier}: the annotator ({annotator.scheme}) gave back too few sentences.")
    for number, (sentence, tree) in enumerate(zip(document.sentences, trees, strict=True), start=1):
        where = f"{document.identifier}, sentence {number}"
        if tree.words != sentence.words:
            raise UserError(f"{where}: the annotator ({annotator.scheme}) changed the words.")
        if tree.heads is None:
            raise UserError(f"{where}: the annotator ({annotator.scheme}) gave no heads.")
        if leaves_out(annotator) and all(head == -1 for head in tree.heads):
            continue
        check_tree(tree.heads, f"{where} ({annotator.scheme})", words=tree.words)


@contextmanager
def _progress(title: str) -> Iterator[Any]:
    """A function of (new documents, words so far) that moves a progress bar with the speed in words per second."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    layout = "{task.description}: {task.completed:,.0f} documents, {task.fields[speed]:,.0f} words/s"
    started = time.perf_counter()
    with Progress(SpinnerColumn(), TextColumn(layout), TimeElapsedColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=None, speed=0.0)

        def advance(documents: int, words: int) -> None:
            bar.update(task, advance=documents, speed=words / max(time.perf_counter() - started, 1e-9))

        yield advance
