"""Options that no experiment set are gone, of all rooms; and fingerprints of corpora with versions of formats and steps."""

from typing import Any

import w3_bases
import w3_gilt
import w3_tables
import w3_training
import w3_wordsync


def renamed(values: dict[str, Any]) -> dict[str, Any]:
    """The resolved configuration of today for one of before."""
    for move in (w3_bases, w3_gilt, w3_tables, w3_training, w3_wordsync):
        values = move.renamed(values)
    return values
