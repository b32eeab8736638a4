"""What a system is trained on: a corpus by its name, its size and its content."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from depgen.data.corpus import SPLITS, Corpus, CorpusOfSteps, Split, WithSteps
from depgen.data.steps import HELD_OUT, FirstDocuments, text_of, texts_of_splits
from depgen.locations import cache_root, json_object, lines_sha256, made_once, write_atomically


@dataclass(frozen=True)
class DataSource:
    """What a system was trained on.

    Attributes:
        corpus: the corpus's name.
        reduced: whether its files are smaller than the published statistics.
        train_documents: documents in the training split; None where nobody counted.
        fingerprint: digest of every split's text, and of the limit on training documents where there is one.
    """

    corpus: str
    reduced: bool
    train_documents: int | None = None
    fingerprint: str | None = None


def source_of(
    corpus: Any,  # noqa: ANN401 - any corpus
    *,
    max_documents: int | None = None,
    documents: Mapping[Split, int] | None = None,
) -> DataSource:
    """The corpus by name, size and content; "reduced" where training documents were left out or fewer than published.

    The documents of each split are counted unless their number is given.
    """
    known = documents or {}
    sizes = {split: known[split] if split in known else sum(1 for _ in corpus.documents(split)) for split in SPLITS}
    left_out = max_documents is not None and max_documents < sizes["train"]
    if max_documents is not None:
        sizes["train"] = min(sizes["train"], max_documents)
    published = {split: statistics.documents for split, statistics in corpus.published.items()}
    reduced = left_out or any(size < (published.get(split) or 0) for split, size in sizes.items())
    return DataSource(corpus.name, reduced, sizes["train"], fingerprint_of(corpus, max_documents=max_documents))


def fingerprint_of(corpus: Corpus, *, max_documents: int | None = None) -> str:
    """A digest of every split's text, whether it is read by documents or by sentences.

    A limit on training documents counts like the step `FirstDocuments`.
    """
    if isinstance(corpus, CorpusOfSteps):
        limit = () if max_documents is None else (FirstDocuments(max_documents),)
        return lines_sha256(map(replace(corpus, steps=(*(corpus.steps or ()), *limit)).text_fingerprint, SPLITS))
    read = corpus if max_documents is None else WithSteps(corpus, steps=(FirstDocuments(max_documents),))
    return lines_sha256(map(read.fingerprint, SPLITS))


def equal_documents(corpus: Corpus) -> int:
    """How many training documents equal one of validation or test but for blanks; counted once, then cached."""
    path = cache_root() / "equal_documents" / f"{lines_sha256(map(corpus.fingerprint, SPLITS))}.json"
    made_once(path.with_suffix(""), partial(_count_into, corpus, path), is_made=path.is_file)
    return int(json_object(path, remedy=f"Delete {path}.")["documents"])


def _count_into(corpus: Corpus, path: Path) -> None:
    held_out = texts_of_splits(corpus.documents, HELD_OUT)
    count = sum(text_of(document) in held_out for document in corpus.documents("train"))
    write_atomically(path, json.dumps({"corpus": corpus.name, "documents": count}) + "\n")
