"""What the corpora that read files have in common: fingerprints of content, lower case, a log of what is left out."""

import hashlib
import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from depgen.data.corpus import Split
from depgen.errors import UserError
from depgen.trees.sentence import Document

logger = logging.getLogger(__name__)


def content_fingerprint(paths: Iterable[Path], **options: object) -> str:
    """A SHA-256 hex digest of the files' bytes, in order, and of the reading options; names and dates do not count."""
    digest = hashlib.sha256(json.dumps(options, sort_keys=True).encode())
    for path in paths:
        with path.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()


def lowercased(document: Document) -> Document:
    """The document with its words in lower case, all else as it was."""
    sentences = tuple(replace(s, words=tuple(word.lower() for word in s.words)) for s in document.sentences)
    return Document(sentences, document.identifier)


def seeded_split(paths: Sequence[Path], *, valid: int, test: int, seed: int, where: str) -> dict[Split, list[Path]]:
    """Documents, one a file, in splits that depend on the seed and the files' names alone.

    In the order of the SHA-256 of "{seed}:{file name}", the first are test, the next validation, the rest training.

    Raises:
        UserError: nothing is left to train on.
    """
    if len(paths) <= valid + test:
        raise UserError(f"{where}: expected more than {valid + test} files to split, found {len(paths)}.")
    ranked = sorted(paths, key=lambda path: hashlib.sha256(f"{seed}:{path.name}".encode()).digest())
    parts: dict[Split, list[Path]] = {
        "test": ranked[:test], "valid": ranked[test : test + valid], "train": ranked[test + valid :],
    }  # fmt: skip
    return {split: sorted(part) for split, part in parts.items()}


def log_left_out(count: int, what: str, *, corpus: str, split: str) -> None:
    """Say once how much a reader left out; nothing if it was nothing."""
    if count:
        logger.warning("%s, %s: left out %d %s.", corpus, split, count, what)
