"""The curve of a run as a CSV file, which a resumed run continues, and quiet libraries."""

import csv
import io
import logging
import time
import warnings
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import Logger
from lightning.pytorch.utilities import rank_zero_only

from depgen.locations import write_atomically
from depgen.training.runs import experiment_name

CLOCKS = {"seconds": time.monotonic, "processor_seconds": time.process_time}
"""What a run takes, by the column that holds it."""


class CurveLogger(Logger):
    """Writes `metrics.csv`: one line a step at which something was logged, one column a metric.

    The column `seconds` is the wall time that the run has taken so far, validation included, over all its sessions;
    `processor_seconds` is that of its first process on processors, which other work on the machine hardly lengthens.
    Unlike Lightning's CSV logger it keeps what was written before a resume, drops lines of steps that were lost, and
    is never half written.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.path = folder / "metrics.csv"
        self._rows: dict[int, dict[str, str]] = {}
        if self.path.exists():
            with self.path.open(encoding="utf-8", newline="") as stream:
                for row in csv.DictReader(stream):
                    step = int(row.pop("step"))
                    self._rows[step] = {name: value for name, value in row.items() if value}
        self._start_clocks()

    def _start_clocks(self) -> None:
        """Let each clock continue from its time on the last line."""
        self._started = {}
        for name, now in CLOCKS.items():
            past = [float(row[name]) for row in self._rows.values() if row.get(name)]
            self._started[name] = now() - max(past, default=0.0)

    @property
    def seconds(self) -> float:
        """The wall time that the run has taken so far, over all its sessions."""
        return CLOCKS["seconds"]() - self._started["seconds"]

    @property
    def name(self) -> str:
        """The experiment."""
        return experiment_name(self.path.parent)

    @property
    def version(self) -> str:
        """The run."""
        return self.path.parent.name

    def forget_from(self, step: int) -> None:
        """Drop the lines of a step and of all later ones: they will be trained again."""
        self._rows = {at: row for at, row in self._rows.items() if at < step}
        self._start_clocks()

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float | int], step: int | None = None) -> None:
        """Add values to the line of a step."""
        row = self._rows.setdefault(-1 if step is None else step, {})
        numbers = {name: float(value) for name, value in metrics.items()}
        row.update({name: str(int(x)) if x.is_integer() else repr(x) for name, x in numbers.items()})
        row.update({name: f"{now() - self._started[name]:.2f}" for name, now in CLOCKS.items()})

    @rank_zero_only
    def log_hyperparams(self, params: dict[str, Any] | Namespace, *args: object, **kwargs: object) -> None:
        """Does nothing: config.yaml has them."""

    @rank_zero_only
    def save(self) -> None:
        """Write the whole file in one step; Lightning asks for it after all that it logs."""
        if not self._rows:
            return
        columns = ["step", *sorted({name for row in self._rows.values() for name in row})]
        stream = io.StringIO()
        writer = csv.DictWriter(stream, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows({"step": step, **row} for step, row in sorted(self._rows.items()))
        write_atomically(self.path, stream.getvalue())


def quiet_libraries() -> None:
    """Silence the lines of Lightning that tell a user nothing to act on."""
    for name in ("lightning.pytorch.utilities.rank_zero", "lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    for pattern in IGNORED_WARNINGS:
        warnings.filterwarnings("ignore", message=pattern)


IGNORED_WARNINGS = (
    ".*does not have many workers which may be a bottleneck.*",
    ".*Be aware that when using `ckpt_path`.*",
    ".*smaller than the logging interval.*",
    ".*exists and is not empty.*",
    ".*You are using a custom batch sampler.*for prediction.*",
    ".*srun.*command is available on your system but is not used.*",
    ".*`isinstance\\(treespec, LeafSpec\\)` is deprecated.*",
)
