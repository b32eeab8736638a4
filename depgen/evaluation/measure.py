"""Measures: functions from a system, or from files, to items and rows. `depgen evaluate`, Python and tables call them.

A measure is `(system, options) -> Measured`, or `(options) -> Measured` where it judges files alone; its options are a
frozen dataclass. Options of one name mean the same in all measures.
"""

import importlib
import inspect
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from depgen.errors import UserError, did_you_mean
from depgen.locations import check_output

if TYPE_CHECKING:
    from pandas import DataFrame


logger = logging.getLogger(__name__)

MEASURES = {
    "attachment": "depgen.evaluation.attachment:attachment_of_files",
    "bracketing": "depgen.evaluation.bracketing:bracketing",
    "coherence": "depgen.evaluation.coherence:coherence",
    "corpus": "depgen.evaluation.corpus_sizes:corpus_sizes",
    "correlations": "depgen.evaluation.correlations:correlations",
    "dependent-loss": "depgen.evaluation.dependents:dependent_loss",
    "minimal-pairs": "depgen.evaluation.minimal_pairs:minimal_pairs",
    "parsing": "depgen.evaluation.treebank:parsing",
    "syntactic-suites": "depgen.evaluation.syntactic_suites:syntactic_suites",
    "text": "depgen.evaluation.text_measures:text",
}
"""Where the function of each measure lies."""


@dataclass(frozen=True)
class Measured:
    """The outcome of a measure.

    Attributes:
        items: a row each; significance is tested on them.
        rows: their sums and means by level (`level`, `name`), the last one overall; with how they came about.
    """

    items: pd.DataFrame
    rows: pd.DataFrame


def warn_below_floors(rows: pd.DataFrame, column: str) -> None:
    """Warn where no row of a system is better than its best floor: the trees that it has found show no syntax then."""
    is_floor = rows["level"] == "floor"
    best, floor = (rows.loc[rows.loc[part, column].idxmax()] for part in (~is_floor, is_floor))
    if best[column] <= floor[column]:
        logger.warning(
            "%s of `%s` is %.1f, of the floor `%s` %.1f: the trees show no syntax.", column, best["name"], best[column],
            floor["name"], floor[column],
        )  # fmt: skip


def measure_function(name: str) -> Callable[..., Measured]:
    """The function of a measure."""
    if name not in MEASURES:
        raise UserError(f"There is no measure {name!r}.{did_you_mean(name, MEASURES)} There are {', '.join(MEASURES)}.")
    module, _, function = MEASURES[name].partition(":")
    return getattr(importlib.import_module(module), function)  # type: ignore[no-any-return]


def options_class(measure: Callable[..., Measured]) -> type:
    """The dataclass of a measure's options."""
    return inspect.signature(measure).parameters["options"].annotation  # type: ignore[no-any-return]


def takes_system(measure: Callable[..., Measured]) -> bool:
    """Whether a measure is of a system, rather than of files alone."""
    return "system" in inspect.signature(measure).parameters


# -- tables as files --------------------------------------------------------------------------------------------------


def check_table_output(output: Path | None, *, json: bool) -> None:
    """Raises UserError if a table can't be written to a file, or if the file's ending is of another format."""
    if output is None:
        return
    check_output(output)
    ending = output.suffix.lower()
    if json and ending in (".csv", ".tsv", ".conllu", ".sdp"):
        raise UserError(f"{output} is to hold JSON lines: expected an ending such as .jsonl, found {ending}.")
    if not json and ending in (".json", ".jsonl", ".conllu", ".sdp"):
        raise UserError(
            f"{output} is to hold a table: expected an ending such as .tsv or .csv, found {ending}. JSON lines are "
            "written with --json."
        )


def written(frames: Iterable["DataFrame"], *, output: Path | None, json: bool, digits: int = 6) -> Iterator[str] | None:
    """Frames of the same columns as one text, a part each; None once they are in the file, which is then whole.

    Args:
        frames: one below the other.
        output: a file, with commas if its name ends in `.csv`, else with tabs; None: the parts are returned.
        json: JSON lines.
        digits: after the point in columns of floats; columns of objects, such as fields of a user's file, are written
            as they are.
    """
    comma = output is not None and output.suffix.lower() == ".csv"
    parts = _parts(frames, "," if comma else "\t", json=json, digits=digits)
    if output is None:
        return parts
    unfinished = output.with_name(f".{output.name}.part")
    try:
        with unfinished.open("w", encoding="utf-8", newline="") as stream:
            stream.writelines(parts)
        unfinished.replace(output)
    finally:
        unfinished.unlink(missing_ok=True)
    return None


def _parts(frames: Iterable["DataFrame"], separator: str, *, json: bool, digits: int) -> Iterator[str]:
    for number, frame in enumerate(frames):
        if json:
            yield frame.to_json(orient="records", lines=True, force_ascii=False, double_precision=15)
        else:
            as_numbers = dict.fromkeys(frame.select_dtypes("bool"), int)
            yield frame.astype(as_numbers).to_csv(
                sep=separator, index=False, header=number == 0, float_format=f"%.{digits}f", lineterminator="\n"
            )
