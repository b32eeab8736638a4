"""An experiment trained and tested by the very commands that a user types; each step once."""

import logging
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from filelock import FileLock

from depgen.errors import UserError
from depgen.locations import file_sha256, runs_root
from depgen.training.configuration_digest import settings_digest
from depgen.training.evaluated import TEST_ITEMS, SplitNumbers, are_kept, kept_numbers, kept_test
from depgen.training.experiment import Experiment
from depgen.training.runs import CHECKPOINTS, RESUME, all_runs, best_checkpoint, is_finished

logger = logging.getLogger(__name__)

Depgen = Callable[[Sequence[str], Mapping[str, str]], None]
"""Runs `depgen` with these arguments and these additions to the environment; raises UserError if it fails."""

DEV = "dev_"
"""How names of measures on the validation split begin."""


def run_depgen(arguments: Sequence[str], environment: Mapping[str, str]) -> None:
    """Run one command of depgen in a process of its own; what it prints goes to our standard error."""
    logger.info("depgen %s", " ".join(arguments))
    command = [sys.executable, "-m", "depgen", *arguments]
    with subprocess.Popen(command, env={**os.environ, **environment}, stdout=sys.stderr) as process:
        try:
            code = process.wait()
        except KeyboardInterrupt:  # the terminal gives it to the command too, which saves before it ends
            process.wait()
            raise
    if code:
        raise UserError(
            f"`depgen {' '.join(arguments)}` ended with code {code}; its message is printed above. "
            "The same command continues the work."
        )


@dataclass(frozen=True)
class Training:
    """The training of an experiment.

    Attributes:
        name: what messages call it.
        experiment: with its size and its options.
        seed: of weights, dropout and sampling.
        place: the folder of its run folders, below `base`.
        needs: options that name runs of other experiments. They are no part of the place, but of what is compared.
        base: what `$DEPGEN_RUNS` is for the commands; None: what it is here.
        precision: of the trainer, in place of the experiment's.
        wandb: `online` or `offline` logs to Weights & Biases too; None: not.
        group: of its runs in Weights & Biases, unless `WANDB_RUN_GROUP` names another one.
    """

    name: str
    experiment: Experiment
    seed: int
    place: str
    needs: Mapping[str, str] | None = None
    base: Path | None = None
    precision: str | None = None
    wandb: str | None = None
    group: str | None = None

    @property
    def root(self) -> Path:
        """The folder of its run folders."""
        return (self.base or runs_root()) / self.place

    @property
    def environment(self) -> dict[str, str]:
        """What the commands find in their environment."""
        variables = {"DEPGEN_RUNS": str((self.base or runs_root()).absolute())}
        if self.group is not None:
            variables["WANDB_RUN_GROUP"] = os.environ.get("WANDB_RUN_GROUP") or self.group
        return variables

    @property
    def command(self) -> list[str]:
        """What `depgen` is given to train it, or to continue the newest run that did not end."""
        begun = [run for run in self.runs() if not is_finished(run) and (run / CHECKPOINTS / RESUME).is_file()]
        return [
            "fit",
            *self.experiment.arguments,
            *("--seed_everything", str(self.seed)),
            *(f"--{name}={run}" for name, run in (self.needs or {}).items()),
            *(() if self.precision is None else ("--trainer.precision", self.precision)),
            *(() if self.wandb is None else ("--wandb", self.wandb)),
            *(("--resume", str(begun[0])) if begun else ("--name", self.place)),
        ]

    def lock(self) -> FileLock:
        """What a process holds that writes or moves its runs."""
        self.root.parent.mkdir(parents=True, exist_ok=True)
        return FileLock(self.root.with_name(f".{self.root.name}.lock"))

    def runs(self) -> list[Path]:
        """The runs of this very configuration, the newest first."""
        wanted = self.digest
        settings = {run: run / "config.yaml" for run in all_runs(self.root)}
        return [run for run, path in settings.items() if path.is_file() and _digest(Experiment(path)) == wanted]

    @property
    def digest(self) -> str:
        """What runs are compared by: the configuration and the runs that it loads, but for the precision."""
        return _digest(replace(self.experiment, options={**self.experiment.options, **(self.needs or {})}))

    def finished(self) -> Path | None:
        """The newest run of this very configuration that has come to its end."""
        return next((run for run in self.runs() if is_finished(run)), None)


def _digest(experiment: Experiment) -> str:
    """What an experiment trains; the precision left out, which the machine may ask for."""
    settings = experiment.settings
    sections: dict[str, Any] = {name: settings.get(name) or {} for name in ("trainer", "model", "data")}
    sections["trainer"] = {name: value for name, value in sections["trainer"].items() if name != "precision"}
    return settings_digest(sections, str(experiment))


@dataclass(frozen=True)
class FinishedRun:
    """A finished run."""

    run: Path

    @property
    def weights_sha256(self) -> str:
        """The digest of its best checkpoint."""
        return file_sha256(best_checkpoint(self.run))


def fit(training: Training, depgen: Depgen) -> FinishedRun:
    """The finished run: found, continued or trained, by this process or by another one."""
    with training.lock():
        run = training.finished()
        if run is None:
            depgen(training.command, training.environment)
            run = training.finished()
        if run is None:
            raise UserError(
                f"{training.name}: training has not come to its end under {training.root}. Repeat the same command "
                "to continue it."
            )
        best_checkpoint(run)
        return FinishedRun(run)


def measure_test(training: Training, run: Path, depgen: Depgen, *, remeasure: bool = False) -> SplitNumbers:
    """The numbers of a finished run on the test split, measured unless they are kept; `remeasure` of items too."""
    if (remeasure and not (run / TEST_ITEMS).is_file()) or not are_kept(run, "test"):
        depgen(["test", "--run", str(run)], training.environment)
    return kept_test(run)


def measure_dev(training: Training, run: Path, depgen: Depgen) -> dict[str, float]:
    """The same checkpoint's numbers on the validation split (`dev_perplexity`, …), measured unless they are there."""
    if not are_kept(run, "validate"):
        depgen(["validate", "--run", str(run)], training.environment)
    return {f"{DEV}{name}": value for name, value in kept_numbers(run, "validate").items()}
