"""How surely a row's system prefers documents to other arrangements of sentences, as `depgen evaluate` asks it."""

from collections.abc import Sequence

import numpy as np

from depgen.evaluation.coherence import CoherenceOptions, coherence
from depgen.evaluation.trained import load_trained
from depgen.reporting.measures import Measure, Numbers, TrainedRow
from depgen.reporting.results import DOCUMENTS, OF_DOCUMENTS
from depgen.reporting.table import settings_as


class Coherence(Measure):
    """A run's accuracy at each task of documents, its deviation over resampled test sets, ties; per cent, and places.

    Args:
        tasks: the YAML files in `experiments/` (without their endings) that `depgen evaluate coherence` reads.
    """

    def __init__(self, tasks: Sequence[str]) -> None:
        self.tasks = tasks

    def measure(self, row: TrainedRow) -> Numbers:
        """The measures of all tasks.

        Items are each piece's accuracy; and, named by `DOCUMENTS`, the number of the document that it is of.
        """
        numbers, trained = Numbers(), load_trained(row.trained.run)
        for name in self.tasks:
            options = settings_as(CoherenceOptions, name)
            task, measured = options.task, coherence(trained, options)
            (figures,) = measured.rows.to_dict("records")
            numbers.metrics[task] = figures["accuracy"]
            for figure in ("deviation", "ties", "distance"):
                if figure in figures:
                    numbers.metrics[f"{task}_{figure}"] = figures[figure]
            numbers.metrics[task + OF_DOCUMENTS] = figures["unknown_share"]
            numbers.items[task] = measured.items["accuracy"].to_numpy()
            numbers.items[task + DOCUMENTS] = measured.items["document"].factorize(sort=True)[0].astype(np.float64)
            chance = f"chance {figures['chance']:.2f} %"
            if "distance_by_chance" in figures:
                chance += f" and {figures['distance_by_chance']:.2f} places"
            if figures["empty"]:
                chance += f"; in {figures['empty']:.1f} % of questions there is nothing to choose"
            numbers.settings[task] = (
                f"{figures['name']}, {options.split}, {figures['documents']:,} documents of "
                f"{figures['sentences'] / figures['documents']:.1f} sentences, {options}, seed {options.seed}; {chance}"
            )
        return numbers
