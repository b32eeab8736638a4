"""Options that no experiment set are gone, in all rooms; corpora by columns and draws; vocabularies in one file."""

from typing import Any

import w4_bases
import w4_gilt
import w4_sources
import w4_tables
import w4_trees

gone = ("gilt_table1 GiLT, tree and content graph",)
MOVES = (w4_bases, w4_gilt, w4_sources, w4_tables, w4_trees)


def renamed(values: dict[str, Any]) -> dict[str, Any]:
    """The resolved configuration of today for one of before."""
    for move in MOVES:
        values = move.renamed(values)
    return values


def fingerprints() -> dict[str, str]:
    """New fingerprints of data, by the former ones."""
    return w4_sources.fingerprints()
