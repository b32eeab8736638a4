"""An experiment trained and tested under a root of its own, by the very commands that a user types; each step once."""

import json
import logging
import math
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from depgen.errors import UserError
from depgen.locations import file_sha256, write_atomically
from depgen.processes import PARENT
from depgen.training.experiment import Experiment
from depgen.training.runs import RESUME, best_checkpoint, checkpoint_folder, is_finished, start_of

logger = logging.getLogger(__name__)

Depgen = Callable[[Sequence[str], Mapping[str, str]], None]
"""Runs `depgen` with these arguments and these additions to the environment; raises UserError if it fails."""

TEST_NUMBERS = "test.json"
"""What `depgen test` leaves in a run folder: `checkpoint`, `checkpoint_sha256`, `metrics`."""
TEST_ITEMS = "test_items.npz"
"""Beside it: arrays `items` (places in the split), `nll` (nats), `tokens` and `words`, which older tests lack."""
DEV_NUMBERS = "validate.json"
"""What `depgen validate` leaves, of the same form."""
DEV = "dev_"
"""How names of measures on the validation split begin."""
AGREEMENT = 1e-3
"""How far, relative, the perplexity of the items may lie from the one in `test.json`."""


def run_depgen(arguments: Sequence[str], environment: Mapping[str, str]) -> None:
    """Run one command of depgen in a process of its own; what it prints goes to our standard error.

    An interrupt, which a terminal gives to both, and a SIGTERM, which is handed on, are obeyed when it has ended, so
    that a training saves. If this process is killed, the command gets a SIGTERM too.

    Raises:
        UserError: it failed; its own message stands above.
    """
    logger.info("depgen %s", " ".join(arguments))
    command = [sys.executable, "-m", "depgen", *arguments]
    received: list[int] = []
    variables = {**os.environ, **environment, PARENT: str(os.getpid())}
    with subprocess.Popen(command, env=variables, stdout=sys.stderr) as process:

        def hand_on(number: int, _: object) -> None:
            received.append(number)
            if number == signal.SIGTERM:
                process.terminate()

        former = {number: signal.signal(number, hand_on) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            code = process.wait()
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)
    for first in received[:1]:
        signal.raise_signal(first)
    if code:
        raise UserError(
            f"`depgen {' '.join(arguments)}` ended with code {code}; its message stands above. "
            "The same command again goes on from here."
        )


@dataclass(frozen=True)
class Training:
    """The training of an experiment.

    Attributes:
        name: what messages call it.
        config: the experiment.
        seed: of weights, dropout and sampling.
        root: where its runs lie and no others, so that no other run is ever taken for one of its.
        anew: the command that begins it anew.
        options: what `depgen fit` is told besides.
        precision: of the trainer, in place of the experiment's.
    """

    name: str
    config: Experiment
    seed: int
    root: Path
    anew: str
    options: tuple[str, ...] = ()
    precision: str | None = None

    @property
    def environment(self) -> dict[str, str]:
        """What the commands find in their environment."""
        return {"DEPGEN_RUNS": str(self.root.absolute())}

    def lock(self) -> FileLock:
        """What whoever writes or moves its runs holds."""
        self.root.parent.mkdir(parents=True, exist_ok=True)
        return FileLock(self.root.with_name(f".{self.root.name}.lock"))

    def runs(self) -> list[Path]:
        """Its run folders, the newest last."""
        found = (path.parent for path in self.root.glob("*/*/run.json"))
        return sorted(found, key=lambda run: (start_of(run), run.name))

    def finished(self) -> Path | None:
        """The newest run if it has come to its end."""
        runs = self.runs()
        return runs[-1] if runs and is_finished(runs[-1]) else None


@dataclass(frozen=True)
class FinishedRun:
    """A finished run and the digest of the configuration that it was started from."""

    run: Path
    config_sha256: str

    @property
    def weights_sha256(self) -> str:
        """The digest of its best checkpoint."""
        return file_sha256(best_checkpoint(self.run))


def fit(training: Training, depgen: Depgen) -> FinishedRun:
    """The finished run: trained, gone on with, or found. Of two processes at once, the second waits and finds it.

    Raises:
        UserError: training failed, or the YAML or the options have changed since the run was begun.
    """
    with training.lock():
        return _fit(training, depgen)


def _fit(training: Training, depgen: Depgen) -> FinishedRun:
    runs, begun = training.runs(), training.root / "config.sha256"
    digest = training.config.digest
    wanted, as_before = (
        " ".join([name, *training.options]) for name in (digest, file_sha256(training.config.file))
    )  # older runs were begun with the digest of the YAML file
    if runs and begun.is_file() and (held := begun.read_text().strip()) not in (wanted, as_before):
        same = held.partition(" ")[0] in (digest, file_sha256(training.config.file))
        changed = " ".join(training.options) if same else str(training.config)
        raise UserError(
            f"{changed} has changed since {training.name} was begun ({runs[-1]}). Put it back, or begin anew: "
            f"{training.anew}"
        )
    if not runs or not is_finished(runs[-1]):
        write_atomically(begun, f"{wanted}\n")
        arguments = ["fit", *training.config.arguments, "--seed_everything", str(training.seed)]
        arguments += training.options
        if training.precision is not None:
            arguments += ["--trainer.precision", training.precision]
        if runs and (checkpoint_folder(runs[-1]) / RESUME).is_file():
            logger.info("%s: going on with %s", training.name, runs[-1])
            arguments += ["--resume", str(runs[-1])]
        depgen(arguments, training.environment)
        runs = training.runs()
    if not runs or not is_finished(runs[-1]):
        raise UserError(
            f"{training.name}: training has not come to its end under {training.root}. The same command goes on."
        )
    best_checkpoint(runs[-1])
    return FinishedRun(runs[-1], digest)


@dataclass(frozen=True)
class SplitNumbers:
    """What a run's test left.

    Attributes:
        metrics: named without their stage (`perplexity`, …).
        item_nll: each item's mean nats per token, by its place in the split; NaN for one that was not scored, None
            where single items were not kept.
        item_tokens: how many tokens each of them has; 0 for one that was not scored.
        item_words: how many words; None where an older test did not keep it.
    """

    metrics: dict[str, float]
    item_nll: NDArray[np.float64] | None = None
    item_tokens: NDArray[np.float64] | None = None
    item_words: NDArray[np.float64] | None = None


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
    path, items = run / TEST_NUMBERS, run / TEST_ITEMS
    if not path.is_file() or (remeasure and not items.is_file()) or not _of_the_best(path, run):
        depgen(["test", "--run", str(run)], training.environment)
    numbers = _split_numbers(training, path, "test")
    return SplitNumbers(numbers, *_item_scores(items, numbers.get("perplexity")))


def measure_dev(training: Training, run: Path, depgen: Depgen) -> dict[str, float]:
    """The same checkpoint's numbers on the validation split (`dev_perplexity`, …), measured unless they are there.

    Raises:
        UserError: the command failed or left no numbers.
    """
    path = run / DEV_NUMBERS
    if not path.is_file() or not _of_the_best(path, run):
        depgen(["validate", "--run", str(run)], training.environment)
    return {f"{DEV}{name}": value for name, value in _split_numbers(training, path, "val").items()}


def _split_numbers(training: Training, path: Path, stage: str) -> dict[str, float]:
    """The numbers of a file, named without their stage."""
    if not path.is_file():
        raise UserError(
            f"{training.name}: {path} was not written, as the lines above say: a run keeps only numbers on the "
            "data that it was trained with. Put these back, or train anew (--redo)."
        )
    try:
        metrics = json.loads(path.read_text(encoding="utf-8"))["metrics"]
        return {name.removeprefix(f"{stage}/"): float(value) for name, value in metrics.items()}
    except (OSError, json.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"{training.name}: no {stage} numbers in {path} ({error}). Delete it to go on.") from error


def _of_the_best(path: Path, run: Path) -> bool:
    """Whether the numbers are those of the run's best checkpoint as it is now."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError):
        return True  # named by whoever reads it
    return not isinstance(content, dict) or file_sha256(best_checkpoint(run)) == content.get("checkpoint_sha256")


def _item_scores(path: Path, perplexity: float | None) -> tuple[NDArray[np.float64] | None, ...]:
    """Mean nats per token, tokens and words of each item by its place; None where not kept, or of another test.

    Raises:
        UserError: the file does not read as one of items.
    """
    if not path.is_file():
        return None, None, None
    try:
        with np.load(path, allow_pickle=False) as arrays:
            item, nll, tokens = (np.asarray(arrays[name]) for name in ("items", "nll", "tokens"))
            words = np.asarray(arrays["words"]) if "words" in arrays else None
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise UserError(f"{path}: expected arrays items, nll and tokens ({error}). Delete it to go on.") from error
    if not len(item) or not len(item) == len(nll) == len(tokens):
        raise UserError(f"{path}: found {len(item)} items, {len(nll)} nll, {len(tokens)} tokens. Delete it to go on.")
    item, first = np.unique(item.astype(np.int64), return_index=True)  # what two devices scored counts once
    nll, tokens = nll[first].astype(np.float64), tokens[first].astype(np.float64)
    found = math.exp(nll.sum() / tokens.sum())
    if perplexity is not None and not math.isclose(found, perplexity, rel_tol=AGREEMENT):
        logger.warning(
            "%s: the items have perplexity %.4f, %s says %.4f; they are of another test and stay unused.",
            path, found, TEST_NUMBERS, perplexity,
        )  # fmt: skip
        return None, None, None
    scores, counts = np.full(int(item[-1]) + 1, np.nan), np.zeros(int(item[-1]) + 1)
    kept = tokens > 0  # a device that has no more of a stream scores empty stretches
    scores[item[kept]], counts[item] = nll[kept] / tokens[kept], tokens
    if words is None:
        return scores, counts, None
    words_of = np.zeros_like(counts)
    words_of[item] = words[first]
    return scores, counts, words_of
