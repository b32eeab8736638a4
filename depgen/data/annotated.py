"""A split with its trees as an Arrow table on disk: annotated once, read by every run that asks for the same trees.

One row a document: `identifier`, `words` (all sentences' words in a row) and `sentence_lengths`. Where an annotator is
given, `heads` (1-based within the sentence, 0 = root, -1 = no tree was given) and `relations`. Where it gives graphs,
`edges` too: of each word, the heads (as in `heads`; -1 alone = no graph was given) and labels of its edges. Where it
gives constituents, `spans` too: of each sentence, the first word, the one after the last, and the label of each
constituent (0-based within the sentence; -1 for both, once a word = no constituents were given).
"""

import json
import logging
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from depgen.data.annotated_rows import Row, document_of_row
from depgen.data.annotated_table import TABLE, opened, sentences_with_trees, write_table
from depgen.data.corpus import Corpus, Split
from depgen.errors import UserError
from depgen.locations import cache_root, lines_sha256, locked, write_atomically
from depgen.trees.annotator import Annotator, Rearranger, structure_of
from depgen.trees.sentence import Document, Sentence

logger = logging.getLogger(__name__)

FORMAT = "2"
"""Part of every table's fingerprint: raised when the columns change."""

DOCUMENTS_PER_CHUNK = 256
"""Documents annotated and written at a time: what is held in memory."""


@dataclass(frozen=True)
class AnnotatedSplit:
    """A split with its trees, which lies in `$DEPGEN_CACHE/annotations/<fingerprint>/` once it was annotated.

    Attributes:
        corpus: where the documents come from.
        split: which of its splits.
        annotator: what gives the sentences trees; None leaves `heads` and `relations` out.
        whole_documents: give each document to the annotator as one long sentence (option C of the DMLM notes).
        max_documents: only the first of the split's documents, this many; None for all.
    """

    corpus: Corpus
    split: Split
    annotator: Annotator | None
    whole_documents: bool = False
    max_documents: int | None = None

    @property
    def title(self) -> str:
        """What messages call it."""
        return f"{self.corpus.name} {self.split}"

    def fingerprint(self) -> str:
        """The digest that names the table: of the text, the parser, the way documents are cut and their limit.

        Raises:
            UserError: the corpus or the parser is not there.
        """
        trees = "none" if self.annotator is None else self.annotator.fingerprint()
        form = "documents" if self.whole_documents else "sentences"
        parts = [FORMAT, self.corpus.fingerprint(self.split), trees, form]
        if self.max_documents is not None:
            parts.append(f"the first {self.max_documents}")
        return lines_sha256(parts)

    def table(self, *, processes: int = 1) -> Any:  # noqa: ANN401  (datasets carries no types)
        """A memory-mapped `datasets.Dataset`, one row a document; see the module for its columns.

        The table is written elsewhere and moved, under a lock, so that two processes at once annotate once and a kill
        leaves nothing half done. A limited number of documents has a table with another name; if the table of all is
        there, its first rows are taken.

        Args:
            processes: how many processes annotate; worth it for slow parsers and large corpora.

        Raises:
            UserError: corpus or parser missing, an annotator that changes words or gives no tree, a corpus that changed
                while it was read.
        """
        folder = self._folder()
        if not (folder / TABLE).is_file():
            with locked(folder):
                if not (folder / TABLE).is_file():
                    documents = _unchanged(
                        self._documents(processes), lambda: self.fingerprint() == folder.name, title=self.title
                    )
                    _write(folder, documents, self.annotator, processes=processes, title=self.title)
        table = opened(folder / TABLE)
        if self.max_documents is None:
            return table
        return table.select(range(min(self.max_documents, len(table))), new_fingerprint=folder.name)

    def summary(self) -> Row:
        """What was written with the table: scheme, sizes, words without a head, seconds; empty when there is none."""
        path = self._folder() / "summary.json"
        summary: Row = json.loads(path.read_text()) if path.is_file() else {}
        return summary

    def _documents(self, processes: int) -> Iterator[Document]:
        """What the annotator is given: the corpus's documents, or what the one whose trees it rearranges makes."""
        if isinstance(self.annotator, Rearranger):
            return map(document_of_row, replace(self, annotator=self.annotator.annotator).table(processes=processes))
        documents = islice(self.corpus.documents(self.split), self.max_documents)
        return map(merge_sentences, documents) if self.whole_documents else documents

    def _folder(self) -> Path:
        """Where the rows are or will be: in the table of all if it is there, else in one of the first alone.

        What is rearranged among all differs from what is rearranged among the first.
        """
        limits = (self.max_documents,) if isinstance(self.annotator, Rearranger) else (None, self.max_documents)
        names = [replace(self, max_documents=limit).fingerprint() for limit in dict.fromkeys(limits)]
        folders = [cache_root() / "annotations" / name for name in names]
        return next((folder for folder in folders if (folder / TABLE).is_file()), folders[-1])


def merge_sentences(document: Document) -> Document:
    """The document as one sentence, to be parsed whole: without trees, with tags if all sentences have."""
    tagged = all(sentence.tags is not None for sentence in document.sentences)
    tags = tuple(tag for sentence in document.sentences for tag in sentence.tags or ()) if tagged else None
    return Document((Sentence(tuple(document.words()), tags=tags),), document.identifier)


def say_with_trees(table: Any, annotator: Annotator, corpus: str, split: Split) -> None:  # noqa: ANN401
    """Log how many sentences of a split were given a tree, a graph or constituents.

    Raises:
        UserError: none of the training split.
    """
    given, of = sentences_with_trees(table, structure_of(annotator))
    logger.info("%s %s: %d of %d sentences have a tree (%s)", corpus, split, given, of, annotator.scheme)
    if not given and split == "train":
        raise UserError(
            f"{corpus}, train: expected trees, found none in its {of} sentences ({annotator.scheme}). If they are to "
            "come from a treebank, no sentence of it equals one of the corpus: are both in the same form, such as by "
            "the step depgen.data.steps.BareWords?"
        )


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
        counts = write_table(part, documents, annotator, processes=processes, chunk=DOCUMENTS_PER_CHUNK, title=title)
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
