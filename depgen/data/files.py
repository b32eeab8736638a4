"""What the corpora that read files have in common: fingerprints of content, lower case, a log of what is left out."""

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from depgen.data.corpus import SPLITS, Split
from depgen.errors import UserError
from depgen.trees.sentence import Document

logger = logging.getLogger(__name__)


def content_fingerprint(paths: Iterable[Path], **options: object) -> str:
    """A SHA-256 hex digest of the files' bytes, in order, and of the reading options; names and dates do not count.

    Raises:
        UserError: a file can't be read.
    """
    digest = hashlib.sha256(json.dumps(options, sort_keys=True).encode())
    for path in paths:
        try:
            with path.open("rb") as stream:
                digest.update(hashlib.file_digest(stream, "sha256").digest())
        except OSError as error:
            raise UserError(f"{path} can't be read ({error.strerror or error}); change its rights.") from error
    return digest.hexdigest()


def lowercased(document: Document) -> Document:
    """The document with its words in lower case, all else as it was."""
    sentences = tuple(replace(s, words=tuple(word.lower() for word in s.words)) for s in document.sentences)
    return Document(sentences, document.identifier)


def seeded_split(paths: Sequence[Path], *, valid: int, test: int, seed: int, where: str) -> dict[Split, list[Path]]:
    """Documents, one a file, in splits that depend on the seed and the files' names alone; see `seeded_names`.

    Raises:
        UserError: nothing is left to train on, or two files have one name.
    """
    by_name = {path.name: path for path in paths}
    parts = seeded_names([path.name for path in paths], valid=valid, test=test, seed=seed, where=where)
    return {split: sorted(by_name[name] for name in part) for split, part in parts.items()}


def seeded_names(names: Sequence[str], *, valid: int, test: int, seed: int, where: str) -> dict[Split, list[str]]:
    """Documents in splits that depend on the seed and their names alone, each split in the order given.

    By the SHA-256 of "{seed}:{name}", the first are test, the next validation, the rest training.

    Raises:
        UserError: nothing is left to train on, a split of fewer than no documents, or two documents of one name.
    """
    if valid < 0 or test < 0:
        raise UserError(f"{where}: expected 0 or more documents to validate and to test on, found {valid} and {test}.")
    if len(names) <= valid + test:
        raise UserError(f"{where}: expected more than {valid + test} documents to split, found {len(names)}.")
    if len(set(names)) < len(names):
        twice, _ = Counter(names).most_common(1)[0]
        raise UserError(f"{where}: two documents are called {twice}; a draw by name needs a name for each.")
    ranked = sorted(names, key=lambda name: hashlib.sha256(f"{seed}:{name}".encode()).digest())
    chosen = {name: "test" if rank < test else "valid" for rank, name in enumerate(ranked[: valid + test])}
    return {split: [name for name in names if chosen.get(name, "train") == split] for split in SPLITS}


def log_left_out(count: int, what: str, *, corpus: str, split: str) -> None:
    """Say once how much a reader left out; nothing if it was nothing."""
    if count:
        logger.warning("%s, %s: left out %d %s.", corpus, split, count, what)
