"""What a row's trees and attention heads are worth against a treebank, and the floors of such trees."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from depgen.errors import UserError
from depgen.evaluation.correlations import DIRECTIONS, CorrelationOptions, correlations
from depgen.evaluation.system import load
from depgen.evaluation.treebank import ParsingOptions, floors, gold_sentences, parsing, right_words
from depgen.reporting.jobs import Job
from depgen.reporting.measures import Measure, Numbers, TrainedRow
from depgen.reporting.table import settings_as

DECODINGS = {"argmax": "argmax", "tree": "tree", "own": "own rule"}
"""How columns and `depgen evaluate parsing` call what heads are decoded by; few systems have a rule of their own."""
WORDS = "parsed_words"
"""The name of the items' numbers of words, by which accuracies of sentences are weighed."""


def treebank_of_table(job: Job) -> ParsingOptions:
    """The treebank that the rows of a job's table are judged by, its floors among them."""
    assert job.definition.parsing is not None
    return settings_as(ParsingOptions, job.definition.parsing)


class Trees(Measure):
    """DDA and UDA of a run's trees by each decoding, per cent."""

    needs = "parsing"

    def measure(self, row: TrainedRow) -> Numbers:
        """The accuracies, and the share of unknown words."""
        return measure_trees(row.job, [row.trained.run])


def measure_trees(job: Job, runs: Sequence[Path]) -> Numbers:
    """DDA and UDA of a run's trees against the table's treebank by each decoding, and the share of unknown words.

    All are per cent. Of several runs, those of their consensus.
    """
    first, *others = map(str, runs)
    measured = parsing(load(first), replace(treebank_of_table(job), others=others, resamples=1))
    rows, items = measured.rows.set_index("name"), measured.items.set_index("name")
    found, keys = Numbers(), {column.key for column in job.definition.columns}
    for decoding, called in DECODINGS.items():
        if called in rows.index:
            _add(found, decoding, rows.loc[called], items.loc[[called]])
        else:
            lacking = keys & {f"{measure}_{decoding}" for measure in ("dda", "uda")}
            found.not_computed.update(dict.fromkeys(lacking, f"the system has no {called}"))
    found.metrics["unknown_words"] = float(rows["unknown"].iloc[-1])
    if "attention_head" in rows:
        found.settings["attention_head"] = rows["attention_head"].iloc[-1]
    return found


def measure_floor(job: Job) -> Numbers:
    """DDA and UDA of a floor's rule, the same under every decoding; of random trees, the mean over seeds."""
    assert job.row.floor is not None
    options = treebank_of_table(job)
    rules = floors(options.seeds)
    if job.row.floor not in rules:
        raise UserError(f"{job.row.floor!r} is no floor; there are {', '.join(rules)}.")
    gold = gold_sentences(options.corpus, options.splits, max_words=options.max_words)
    right = right_words(gold, [annotator.annotate(gold) for annotator in rules[job.row.floor]])
    words = right["words"]
    row = {name: right[name].sum() / words.sum() for name in ("dda", "uda")}
    row |= {"corpus": options.corpus.name, "splits": "+".join(options.splits), "sentences": len(gold)}
    found = Numbers()
    for decoding in DECODINGS:
        _add(found, decoding, row, right[["dda", "uda"]].div(words, axis=0).assign(words=words))
    return found


class Correlations(Measure):
    """The best attention head's correlation with each relation, in both directions, before the mask between words.

    Args:
        treebank: the YAML in `experiments/` (without its ending) that `depgen evaluate correlations` reads.
    """

    def __init__(self, treebank: str) -> None:
        self.treebank = treebank

    def measure(self, row: TrainedRow) -> Numbers:
        """A correlation a direction and relation."""
        options = settings_as(CorrelationOptions, self.treebank)
        rows = correlations(load(str(row.trained.run)), options).rows
        numbers = Numbers()
        for best in rows.to_dict("records"):
            key = f"{best['level']}_{best['name']}"
            numbers.metrics[key] = best["correlation"]
            numbers.settings[key] = _judged_by(best)
        for column in row.job.definition.ours:
            direction, _, _ = column.key.rpartition("_")
            if direction in DIRECTIONS and column.key not in numbers.metrics:
                numbers.not_computed[column.key] = f"{rows['corpus'].iloc[0]} has no such relation"
        return numbers


def _judged_by(row: Any) -> str:  # noqa: ANN401 - a row of a measure
    return f"{row['corpus']}, {row['splits']}, {row['sentences']:,} sentences"


def _add(found: Numbers, decoding: str, row: Any, items: pd.DataFrame) -> None:  # noqa: ANN401 - a row of a measure
    """Percentages over all words, those of each sentence, and its words."""
    for name in ("dda", "uda"):
        key = f"{name}_{decoding}"
        found.metrics[key] = float(row[name])
        found.items[key] = items[name].to_numpy()
        found.settings[key] = _judged_by(row)
    found.items[WORDS] = items["words"].to_numpy(np.float64)
