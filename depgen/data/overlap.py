"""Training documents that equal one of validation or test: what a model is tested on must not be what it has learnt.

Two documents are equal if their words are, once all blanks are removed; a document is a corpus's line, story or
article. Readers of text leave such documents out of the training split and log how many. Corpora in `KEPT` keep them,
and so do treebanks and datasets of the hub: their splits are official, and short sentences recur in them. A split of
the same text as training, as a check of overfitting has it, drops nothing.
"""

import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Literal

from depgen.data.corpus import Split, sources
from depgen.errors import MissingDataError, UserError
from depgen.locations import cache_root, json_object, lines_sha256, made_once, write_atomically
from depgen.trees.sentence import Document

logger = logging.getLogger(__name__)

Overlap = Literal["drop", "keep"]

HELD_OUT: tuple[Split, ...] = ("valid", "test")
KEPT = ("ptb", "wikinews")
"""Folders whose training split stays as it is: 725 lines of the published Penn Treebank, one article of Wikinews."""


def overlap_of(folder: str) -> Overlap:
    """What becomes of equal documents of the corpus in a folder, where no argument says it.

    >>> overlap_of("emnlp_news"), overlap_of("ptb")
    ('drop', 'keep')
    """
    return "keep" if Path(folder).name in KEPT else "drop"


class SplitReader(ABC):
    """A corpus whose training split can be read without the documents that equal one of validation or test.

    Attributes:
        name: what results call the corpus.
        overlap: what becomes of such documents; a split that is not at hand drops none.
    """

    name: str
    overlap: Overlap

    @abstractmethod
    def read_split(self, split: Split) -> Iterator[Document]:
        """All documents of a split, in file order."""

    @abstractmethod
    def content(self, split: Split) -> str:
        """A digest of what `read_split` gives."""

    def documents(self, split: Split) -> Iterator[Document]:
        """The documents of a split, in file order; of training, those that equal none of validation or test.

        Raises:
            UserError: nothing is left to train on, or what `read_split` refuses.
        """
        return self._apart() if self._drops(split) else self.read_split(split)

    def fingerprint(self, split: Split) -> str:
        """The digest of `content`; of a training split that loses documents, that of all three splits."""
        own = self.content(split)
        return (
            lines_sha256([own, *map(self.content, self._held_out())])
            if self._drops(split) and self.overlap_size()
            else own
        )

    def overlap_size(self) -> int:
        """How many training documents are left out; counted once and kept in `$DEPGEN_CACHE/overlaps`."""
        if self.overlap == "keep":
            return 0
        digest = lines_sha256(map(self.content, ("train", *self._held_out())))
        path = cache_root() / "overlaps" / f"{digest}.json"
        made_once(path.with_suffix(""), partial(self._count_into, path), is_made=path.is_file)
        return int(json_object(path, remedy=f"Delete {path}.")["documents"])

    def _drops(self, split: Split) -> bool:
        return split == "train" and self.overlap == "drop"

    def _apart(self) -> Iterator[Document]:
        held_out, kept, left_out = self._held_out_texts(), 0, 0
        for document in self.read_split("train"):
            if _text(document) in held_out:
                left_out += 1
            else:
                kept += 1
                yield document
        if left_out and not kept:
            raise UserError(f"{self.name}: all training documents are in validation or test too; set overlap: keep.")
        if left_out:
            logger.warning(
                "%s, train: left out %d of %d documents, which equal one of validation or test but for blanks.",
                self.name, left_out, left_out + kept,
            )  # fmt: skip

    def _count_into(self, path: Path) -> None:
        held_out = self._held_out_texts()
        found = sum(_text(document) in held_out for document in self.read_split("train"))
        write_atomically(path, json.dumps({"corpus": self.name, "documents": found}) + "\n")

    def _held_out_texts(self) -> frozenset[str]:
        return frozenset(_text(document) for split in self._held_out() for document in self.read_split(split))

    def _held_out(self) -> list[Split]:
        """The splits that training is compared with: those at hand, of other text."""
        own, found = self.content("train"), list[Split]()
        for split in HELD_OUT:
            with suppress(MissingDataError):
                if self.content(split) != own:
                    found.append(split)
        return found


def dropped_documents(corpus: object) -> int:
    """How many training documents a corpus, or the one that it reads, leaves out since they equal a held-out one."""
    return next((each.overlap_size() for each in sources(corpus) if isinstance(each, SplitReader)), 0)


def _text(document: Document) -> str:
    """Its words without blanks, which words of JSON lines and of a hub may have within them."""
    return "".join("".join("".join(sentence.words) for sentence in document.sentences).split())
