"""An experiment trained and tested by the very commands that a user types; each step once."""

import json
import logging
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from depgen.errors import UserError
from depgen.locations import file_sha256, json_object, lines_sha256, runs_root
from depgen.training.configuration_digest import settings_digest
from depgen.training.experiment import Experiment
from depgen.training.runs import BEST, RESUME, all_runs, best_checkpoint, checkpoint_folder, is_finished, newest_run
from depgen.yaml_files import read_settings

logger = logging.getLogger(__name__)

Depgen = Callable[[Sequence[str], Mapping[str, str]], None]
"""Runs `depgen` with these arguments and these additions to the environment; raises UserError if it fails."""

TEST_NUMBERS = "test.json"
"""What `depgen test` leaves in a run folder: `checkpoint`, `checkpoint_sha256`, `metrics`."""
TEST_ITEMS = "test_items.npz"
"""Next to it: arrays `items` (places in the split), `nll` (nats), `tokens` and `words`; where the data module has a
corpus also `data` and `sentences`, the digests of the split and of its sentences alone."""
DEV_NUMBERS = "validate.json"
"""What `depgen validate` leaves, of the same form."""
DEV = "dev_"
"""How names of measures on the validation split begin."""
AGREEMENT = 1e-3
"""How far, relative, the perplexity of the items may lie from the one in `test.json`."""
_LONGEST = 60
"""As many characters of a folder's name may show options."""


def run_depgen(arguments: Sequence[str], environment: Mapping[str, str]) -> None:
    """Run one command of depgen in a process of its own; what it prints goes to our standard error.

    Raises:
        UserError: it failed; its own message is printed above.
    """
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


def run_place(experiment: Experiment, seed: int) -> str:
    """Where runs of an experiment at a size and a seed lie below `$DEPGEN_RUNS`: each in a folder named by its start.

    >>> run_place(Experiment(Path("experiments/udgn_ewt.yaml"), "small"), 1)
    'udgn_ewt/small/seed1'
    >>> run_place(Experiment(Path("udgn_ewt.yaml"), "small", {"model.init_args.mask_rate": 0.1}), 1)
    'udgn_ewt--mask_rate-0.1-95e716/small/seed1'
    """
    name = experiment.file.stem
    if experiment.options:
        shown = [
            option.rpartition(".")[2] + ("" if isinstance(value, (Mapping, list)) else f"-{value}")
            for option, value in sorted(experiment.options.items())
        ]
        slug = re.sub(r"[^\w.+-]+", "-", "_".join(shown))[:_LONGEST].strip("-")
        digest = lines_sha256([json.dumps(dict(experiment.options), sort_keys=True, default=str)])
        name = f"{name}--{slug}-{digest[:6]}"
    return f"{name}/{experiment.size}/seed{seed}"


def newest_of(experiment: Experiment, *, holding: str = BEST) -> Path:
    """The newest run of an experiment at its size, or of its name where none of that size is known.

    Raises:
        UserError: there is none.
    """
    folder = runs_root() / experiment.file.stem / experiment.size
    if all_runs(root=folder):
        return newest_run(root=folder, holding=holding)
    return newest_run(experiment.file.stem, holding=holding)


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
        group = {} if self.group is None else {"WANDB_RUN_GROUP": os.environ.get("WANDB_RUN_GROUP") or self.group}
        return {"DEPGEN_RUNS": str((self.base or runs_root()).absolute()), **group}

    @property
    def command(self) -> list[str]:
        """What `depgen` is given to train it, or to continue the newest run that did not end."""
        needs = [f"--{name}={run}" for name, run in (self.needs or {}).items()]
        precision = [] if self.precision is None else ["--trainer.precision", self.precision]
        begun = [run for run in self.runs() if not is_finished(run) and (checkpoint_folder(run) / RESUME).is_file()]
        where = ["--resume", str(begun[0])] if begun else ["--name", self.place]
        seed = ["--seed_everything", str(self.seed)]
        logged = [] if self.wandb is None else ["--wandb", self.wandb]
        return ["fit", *self.experiment.arguments, *seed, *needs, *precision, *logged, *where]

    def lock(self) -> FileLock:
        """What a process holds that writes or moves its runs."""
        self.root.parent.mkdir(parents=True, exist_ok=True)
        return FileLock(self.root.with_name(f".{self.root.name}.lock"))

    def runs(self) -> list[Path]:
        """The runs of this very configuration, the newest first."""
        wanted = self.digest
        return [run for run in all_runs(root=self.root) if _digest_of(run) == wanted]

    @property
    def digest(self) -> str:
        """What runs are compared by: the configuration and the runs that it loads, but for the precision."""
        experiment = replace(self.experiment, options={**self.experiment.options, **(self.needs or {})})
        return _digest(experiment.settings, str(experiment))

    def finished(self) -> Path | None:
        """The newest run of this very configuration that has come to its end."""
        return next((run for run in self.runs() if is_finished(run)), None)


def _digest(settings: Mapping[str, Any], where: str) -> str:
    """What a configuration trains; the precision left out, which the machine may ask for."""
    trainer = {name: value for name, value in (settings.get("trainer") or {}).items() if name != "precision"}
    return settings_digest(
        {"trainer": trainer, **{name: settings.get(name) or {} for name in ("model", "data")}}, where
    )


def _digest_of(run: Path) -> str | None:
    """The digest of a run's YAML; None where it has none."""
    settings = run / "config.yaml"
    return _digest(read_settings(settings), str(settings)) if settings.is_file() else None


@dataclass(frozen=True)
class FinishedRun:
    """A finished run and the digest of the configuration that it was started from."""

    run: Path
    config_sha256: str

    @property
    def weights_sha256(self) -> str:
        """The digest of its best checkpoint."""
        return file_sha256(best_checkpoint(self.run))


def fit(training: Training, depgen: Depgen, *, wait: bool = True) -> FinishedRun:
    """The finished run: found, continued or trained.

    Args:
        training: whose.
        depgen: runs `depgen fit`.
        wait: for another process that trains it, and then find its run.

    Raises:
        UserError: training failed.
        filelock.Timeout: another process trains it, and this one does not wait.
    """
    with training.lock().acquire(timeout=-1 if wait else 0):
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
        return FinishedRun(run, training.experiment.digest)


@dataclass(frozen=True)
class SplitNumbers:
    """What a run's test left.

    Attributes:
        metrics: named without their stage (`perplexity`, …).
        item_nll: each item's mean nats per token, by its place in the split; NaN for one that was not scored, None
            where single items were not kept.
        item_tokens: how many tokens each of them has; 0 for one that was not scored.
        item_words: how many words.
        data: the digest of the split; None where the data module has no corpus.
        sentences: that of its sentences alone, whatever the format of their files; None likewise.
    """

    metrics: dict[str, float]
    item_nll: NDArray[np.float64] | None = None
    item_tokens: NDArray[np.float64] | None = None
    item_words: NDArray[np.float64] | None = None
    data: str | None = None
    sentences: str | None = None


def measure_test(training: Training, run: Path, depgen: Depgen, *, remeasure: bool = False) -> SplitNumbers:
    """The numbers on the test split, measured unless they are there.

    Args:
        training: whose.
        run: the finished run.
        depgen: runs `depgen test`.
        remeasure: test again where the numbers of the single items are not there.

    Raises:
        UserError: the command failed or left no numbers.
    """
    there = (run / TEST_ITEMS).is_file() or not remeasure
    if not there or not _is_of_the_best(run / TEST_NUMBERS, run):
        depgen(["test", "--run", str(run)], training.environment)
    return _test_numbers(run, training.name)


def kept_test(run: Path) -> SplitNumbers:
    """The numbers on the test split that `depgen test` left in a run.

    Raises:
        UserError: it left none, or its best checkpoint has changed since; the command to repeat is named.
    """
    if not _is_of_the_best(run / TEST_NUMBERS, run):
        raise UserError(f"{run} is not tested, or was trained further since. Test it: depgen test --run {run}")
    return _test_numbers(run, str(run))


def measure_dev(training: Training, run: Path, depgen: Depgen) -> dict[str, float]:
    """The same checkpoint's numbers on the validation split (`dev_perplexity`, …), measured unless they are there.

    Raises:
        UserError: the command failed or left no numbers.
    """
    path = run / DEV_NUMBERS
    if not _is_of_the_best(path, run):
        depgen(["validate", "--run", str(run)], training.environment)
    return {f"{DEV}{name}": value for name, value in _split_numbers(training.name, path, "val").items()}


def _is_of_the_best(path: Path, run: Path) -> bool:
    """Whether there are numbers of the run's best checkpoint as it is now."""
    if not path.is_file():
        return False
    numbers = json_object(path, remedy="Delete it to go on.")
    return numbers.get("checkpoint_sha256") == file_sha256(best_checkpoint(run))


def _split_numbers(name: str, path: Path, stage: str) -> dict[str, float]:
    """The numbers of a file, named without their stage."""
    if not path.is_file():
        raise UserError(
            f"{name}: {path} was not written, as the lines above say: a run keeps only numbers on the "
            "data that it was trained with. Put these back, or train anew (--redo)."
        )
    metrics = json_object(path, remedy="Delete it to go on.")["metrics"]
    return {key.removeprefix(f"{stage}/"): float(value) for key, value in metrics.items()}


def _test_numbers(run: Path, name: str) -> SplitNumbers:
    """The numbers on the test split, with those of the items and the digest of the split as far as they are kept."""
    numbers, path = _split_numbers(name, run / TEST_NUMBERS, "test"), run / TEST_ITEMS
    if not path.is_file():
        return SplitNumbers(numbers)
    with np.load(path, allow_pickle=False) as arrays:
        item, first = np.unique(arrays["items"], return_index=True)  # what two devices scored counts once
        nll, tokens, words = (arrays[each][first].astype(np.float64) for each in ("nll", "tokens", "words"))
        data, sentences = (str(arrays[each]) if each in arrays else None for each in ("data", "sentences"))
    perplexity = numbers.get("perplexity")
    of_items = math.exp(nll.sum() / tokens.sum())
    if perplexity is not None and not math.isclose(of_items, perplexity, rel_tol=AGREEMENT):
        logger.warning(
            "%s: the items have perplexity %.4f, %s says %.4f; they are of another test and stay unused.",
            path, of_items, TEST_NUMBERS, perplexity,
        )  # fmt: skip
        return SplitNumbers(numbers)
    scores, counts, words_of = np.full(item[-1] + 1, np.nan), np.zeros(item[-1] + 1), np.zeros(item[-1] + 1)
    scored = tokens > 0  # a device that has no more of a stream scores empty stretches
    scores[item[scored]] = nll[scored] / tokens[scored]
    counts[item], words_of[item] = tokens, words
    return SplitNumbers(numbers, scores, counts, words_of, data, sentences)
