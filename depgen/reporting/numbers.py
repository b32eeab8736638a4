"""What is measured of a row, before it becomes a result."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from depgen.evaluation.text import TextOptions
    from depgen.reporting.jobs import Job
    from depgen.reporting.run_facts import RunFacts
    from depgen.training.experiment_runs import Depgen, FinishedRun


@dataclass(frozen=True)
class Numbers:
    """Numbers by column key, per-item ones, what gave them, and why others are not there; as in `Result`."""

    metrics: dict[str, float] = field(default_factory=dict)
    items: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    not_computed: dict[str, str] = field(default_factory=dict)

    def add(self, other: "Numbers") -> None:
        """Take another's in; of a name that both have, the other's."""
        self.metrics.update(other.metrics)
        self.items.update(other.items)
        self.settings.update(other.settings)
        self.not_computed.update(other.not_computed)

    def without(self, names: Collection[str]) -> "Numbers":
        """The same less the numbers of these names and their items."""
        return Numbers(
            {name: value for name, value in self.metrics.items() if name not in names},
            {name: values for name, values in self.items.items() if name not in names},
            dict(self.settings),
            dict(self.not_computed),
        )


@dataclass(frozen=True)
class TrainedRow:
    """What the measures of a table are given.

    Attributes:
        job: the row at a size and seed.
        trained: its finished run.
        corpus: that it was trained on.
        facts: of the run.
        options: models and policies of the text measures.
        depgen: runs a command.
    """

    job: "Job"
    trained: "FinishedRun"
    corpus: Any
    facts: "RunFacts"
    options: "TextOptions"
    depgen: "Depgen"
