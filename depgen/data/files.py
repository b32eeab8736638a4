"""What the corpora that read files have in common: fingerprints of content, lower case, a log of what is left out."""

import hashlib
import json
import logging
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

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


def log_left_out(count: int, what: str, *, corpus: str, split: str) -> None:
    """Say once how much a reader left out; nothing if it was nothing."""
    if count:
        logger.warning("%s, %s: left out %d %s.", corpus, split, count, what)
