"""How surely a row's system prefers documents to other arrangements of sentences, as `depgen coherence` asks it."""

from collections.abc import Sequence

import numpy as np

from depgen.evaluation.coherence.arrangements import CoherenceTask
from depgen.evaluation.coherence.assessment import Assessment, assess
from depgen.evaluation.trained import load_trained
from depgen.reporting.experiments import settings_as
from depgen.reporting.numbers import Measure, Numbers, TrainedRow
from depgen.reporting.results import DOCUMENTS, OF_DOCUMENTS


class Coherence(Measure):
    """A run's accuracy at each task of documents, its deviation over resampled test sets, ties; per cent, and places.

    Args:
        tasks: the YAML files in `experiments/` (without their endings) that `depgen coherence` reads.
    """

    def __init__(self, tasks: Sequence[str]) -> None:
        self.tasks = tasks

    def measure(self, row: TrainedRow) -> Numbers:
        """The measures of all tasks.

        Items are each piece's accuracy; and, named by `DOCUMENTS`, the number of the document that it is of.
        """
        found, trained = Numbers(), load_trained(row.trained.run)
        for name in self.tasks:
            _add(found, assess(trained, settings_as(CoherenceTask, name)))
        return found


def _add(found: Numbers, assessment: Assessment) -> None:
    task, measures = assessment.asked.task, assessment.measures
    found.metrics[task] = measures["accuracy"]
    for name in ("deviation", "ties", "distance"):
        if name in measures:
            found.metrics[f"{task}_{name}"] = measures[name]
    found.items[task] = assessment.answers.by_document
    found.items[task + DOCUMENTS] = assessment.answers.document_numbers.astype(np.float64)
    facts, chance = assessment.facts, f"chance {measures['chance']:.2f} %"
    if "distance_by_chance" in measures:
        chance += f" and {measures['distance_by_chance']:.2f} places"
    if measures["empty"]:
        chance += f"; in {measures['empty']:.1f} % of questions there is nothing to choose"
    found.settings[task] = (
        f"{facts['corpus']}, {facts['split']}, {facts['documents']:,} documents of "
        f"{assessment.sentences_per_document:.1f} sentences, {assessment.asked.asked}, seed {facts['seed']}; {chance}"
    )
    found.metrics[task + OF_DOCUMENTS] = float(facts["unknown_share"])
