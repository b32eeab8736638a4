"""Options that no experiment set are gone, in all rooms; fingerprints of corpora count the versions of formats and steps."""

from typing import Any

import w3_bases
import w3_corpus
import w3_gilt
import w3_tables
import w3_training
import w3_wordsync

MOVES = (w3_bases, w3_corpus, w3_gilt, w3_tables, w3_training, w3_wordsync)


def renamed(values: dict[str, Any]) -> dict[str, Any]:
    """The resolved configuration of today for one of before."""
    for move in MOVES:
        values = move.renamed(values)
    return values


def fingerprints() -> dict[str, str]:
    """New fingerprints of data, by the former ones."""
    return w3_corpus.fingerprints()
