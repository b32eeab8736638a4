"""One row of a table at one profile and seed: its files, and the commands that make them, each skipped once done."""

import hashlib
import json
import logging
import math
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from depgen.errors import UserError
from depgen.evaluation.generation import generate as write_texts
from depgen.locations import runs_root, write_atomically
from depgen.reporting.definition import Generation, Row, TableDefinition, experiment_path
from depgen.reporting.provenance import config_digest
from depgen.reporting.results import result_path
from depgen.training.checkpoints import BEST, RESUME
from depgen.training.runs import best_checkpoint, checkpoint_folder, is_finished, start_of

logger = logging.getLogger(__name__)

Depgen = Callable[[Sequence[str], Mapping[str, str]], None]
"""Runs `depgen` with these arguments and these additions to the environment; raises UserError if it fails."""

TEST_NUMBERS = "test.json"
"""What `depgen test` leaves in a run folder: `checkpoint`, `checkpoint_sha256`, `metrics`; old runs lack the digest."""
TEST_ITEMS = "test_items.npz"
"""Beside it: arrays `items` (or `item`: index of the story), `nll` (its nats) and `tokens`; older runs lack it."""
AGREEMENT = 1e-3
"""How far, relative, the perplexity of the items may lie from the one in `test.json`."""


def run_depgen(arguments: Sequence[str], environment: Mapping[str, str]) -> None:
    """Run one command of depgen in a process of its own; what it prints goes to our standard error.

    Raises:
        UserError: it failed; its own message stands above.
    """
    logger.info("depgen %s", " ".join(arguments))
    command = [sys.executable, "-m", "depgen", *arguments]
    code = subprocess.run(command, env={**os.environ, **environment}, stdout=sys.stderr, check=False).returncode
    if code:
        raise UserError(
            f"`depgen {' '.join(arguments)}` ended with code {code}; its message stands above. "
            "The same command again goes on from here."
        )


@dataclass(frozen=True)
class Job:
    """A row at a profile and seed.

    Attributes:
        definition: of the table.
        row: which one.
        profile: which size.
        seed: of training.
    """

    definition: TableDefinition
    row: Row
    profile: str
    seed: int

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"{self.row.name}, {self.profile}, seed {self.seed}"

    @property
    def config(self) -> Path:
        """The experiment's YAML."""
        experiment = self.row.experiment or self.row.floor_of
        assert experiment is not None
        return experiment_path(experiment, profile=self.profile)

    @property
    def result(self) -> Path:
        """The result's JSON file."""
        return result_path(self.definition.table, self.row.slug, profile=self.profile, seed=self.seed)

    @property
    def folder(self) -> Path:
        """What lies beside the result: prompts, texts, per-item scores."""
        return self.result.with_suffix("")

    @property
    def runs(self) -> Path:
        """The root of this job's own run folders, so that no other run is ever taken for one of its."""
        return runs_root() / self.definition.table / self.row.slug / f"{self.profile}-seed{self.seed}"

    @property
    def environment(self) -> dict[str, str]:
        """What the commands of this job find in their environment."""
        return {"DEPGEN_RUNS": str(self.runs.absolute())}


@dataclass(frozen=True)
class FinishedRun:
    """A finished run and the digest of the YAML that it was started from."""

    run: Path
    config_sha256: str


def fit(job: Job, depgen: Depgen) -> FinishedRun:
    """The job's finished run: trained, gone on with, or found.

    Raises:
        UserError: training failed, or the YAML has changed since the run was begun.
    """
    runs = _runs(job)
    begun = job.runs / "config.sha256"
    digest = config_digest(job.config)
    if runs and begun.is_file() and begun.read_text().strip() != digest:
        raise UserError(
            f"{job.config} has changed since {job.name} was begun ({runs[-1]}). Put it back, or begin anew: "
            f"depgen reproduce {job.definition.argument} --row {job.row.slug} --profile {job.profile} --redo"
        )
    if not runs or not is_finished(runs[-1]):
        write_atomically(begun, f"{digest}\n")
        arguments = ["fit", "--config", str(job.config), "--seed_everything", str(job.seed)]
        if runs and (checkpoint_folder(runs[-1]) / RESUME).is_file():
            logger.info("%s: going on with %s", job.name, runs[-1])
            arguments += ["--resume", str(runs[-1])]
        depgen(arguments, job.environment)
        runs = _runs(job)
    if not runs or not is_finished(runs[-1]):
        raise UserError(f"{job.name}: training has not come to its end under {job.runs}. The same command goes on.")
    best_checkpoint(runs[-1])
    return FinishedRun(runs[-1], digest)


def finished_run(job: Job) -> Path | None:
    """The job's newest run if it has come to its end; relative to the working folder where it lies inside it."""
    runs = _runs(job)
    if not runs or not is_finished(runs[-1]):
        return None
    run, here = runs[-1].absolute(), Path.cwd()
    return run.relative_to(here) if run.is_relative_to(here) else run


def _runs(job: Job) -> list[Path]:
    """The job's run folders, the newest last."""
    return sorted((path.parent for path in job.runs.glob("*/*/run.json")), key=lambda run: (start_of(run), run.name))


@dataclass(frozen=True)
class SplitNumbers:
    """What a run's test left.

    Attributes:
        metrics: named without their stage (`perplexity`, …).
        story_nll: each story's mean nats per token, by the story's index; NaN for a story that was not scored, None
            where single stories were not kept.
    """

    metrics: dict[str, float]
    story_nll: NDArray[np.float64] | None = None


def measure_test(job: Job, trained: FinishedRun, depgen: Depgen, *, remeasure: bool = False) -> SplitNumbers:
    """The numbers on the test split, measured unless they are there.

    Args:
        job: whose.
        trained: its run.
        depgen: runs `depgen test`.
        remeasure: test again where the numbers of the single stories are not there.

    Raises:
        UserError: the command failed or left no numbers.
    """
    path, items = trained.run / TEST_NUMBERS, trained.run / TEST_ITEMS
    if not path.is_file() or (remeasure and not items.is_file()) or not _of_the_best(path, trained.run):
        depgen(["test", "--run", str(trained.run)], job.environment)
    try:
        metrics = json.loads(path.read_text(encoding="utf-8"))["metrics"]
        numbers = {name.removeprefix("test/"): float(value) for name, value in metrics.items()}
    except (OSError, json.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"{job.name}: no test numbers in {path} ({error}). Delete it to test again.") from error
    return SplitNumbers(numbers, _story_nll(items, numbers.get("perplexity")))


def _of_the_best(path: Path, run: Path) -> bool:
    """Whether the numbers are those of the run's best checkpoint as it is now, as far as they say."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError):
        return True  # named by whoever reads it
    if not isinstance(content, dict):
        return True
    if "checkpoint_sha256" in content:
        return bool(content["checkpoint_sha256"] == _sha256(best_checkpoint(run)))
    return Path(str(content.get("checkpoint", BEST))).name == BEST


def _story_nll(path: Path, perplexity: float | None) -> NDArray[np.float64] | None:
    """Mean nats per token of each story by its index; None where they were not kept or belong to another test.

    Raises:
        UserError: the file does not read as one of stories.
    """
    if not path.is_file():
        return None
    try:
        with np.load(path, allow_pickle=False) as arrays:
            index = "item" if "item" in arrays else "items"
            item, nll, tokens = (np.asarray(arrays[name]) for name in (index, "nll", "tokens"))
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise UserError(f"{path}: expected arrays items, nll and tokens ({error}). Delete it to go on.") from error
    if not len(item) or not len(item) == len(nll) == len(tokens):
        raise UserError(f"{path}: found {len(item)} items, {len(nll)} nll, {len(tokens)} tokens. Delete it to go on.")
    item, first = np.unique(item.astype(np.int64), return_index=True)  # a story that two devices scored counts once
    nll, tokens = nll[first].astype(np.float64), tokens[first].astype(np.float64)
    found = math.exp(nll.sum() / tokens.sum())
    if perplexity is not None and not math.isclose(found, perplexity, rel_tol=AGREEMENT):
        logger.warning(
            "%s: the stories have perplexity %.4f, %s says %.4f; they are of another test and stay unused.",
            path, found, TEST_NUMBERS, perplexity,
        )  # fmt: skip
        return None
    scores = np.full(int(item[-1]) + 1, np.nan)
    scores[item] = nll / tokens
    return scores


@dataclass(frozen=True)
class Prompts:
    """Prompts and references, one text each."""

    prompts: tuple[str, ...]
    references: tuple[str, ...]


def prompts_of(corpus: Any, generation: Generation) -> Prompts:  # noqa: ANN401 - any corpus
    """The first sentences of each test document, and the sentence after them.

    Raises:
        UserError: a document is too short for both.
    """
    prompts, references, count = [], [], generation.prompt_sentences
    for document in corpus.documents("test"):
        if len(document.sentences) <= count:
            raise UserError(
                f"{document.identifier}: the table wants {count} sentences as prompt and one as reference, found "
                f"{len(document.sentences)} sentences."
            )
        prompts.append(" ".join(word for sentence in document.sentences[:count] for word in sentence.words))
        references.append(" ".join(document.sentences[count].words))
    return Prompts(tuple(prompts), tuple(references))


def generate(job: Job, trained: FinishedRun, prompts: Prompts, *, device: str | None = None) -> tuple[str, ...]:
    """One text for each prompt, written by the job's model unless the same run wrote them before in the same way.

    `texts.json` says how the texts were written. It is written before them, so that texts never lie beside another's.

    Args:
        job: whose.
        trained: its run.
        prompts: what the texts go on from.
        device: where the model writes; unset: a GPU where there is one.

    Raises:
        UserError: the model does not write, or wrote another number of texts.
    """
    generation = job.definition.generation
    assert generation is not None
    asked, written = job.folder / "prompts.txt", job.folder / "texts.txt"
    content = "".join(f"{prompt}\n" for prompt in prompts.prompts)
    if not asked.is_file() or asked.read_text(encoding="utf-8") != content:
        written.unlink(missing_ok=True)
        write_atomically(asked, content)
    note = job.folder / "texts.json"
    how = _how(job, trained, generation)
    if not _written_so(written, note, how):
        written.unlink(missing_ok=True)
        write_atomically(note, json.dumps(how, indent=2) + "\n")
        part = written.with_name(".texts.part.txt")
        write_texts(
            checkpoint=str(trained.run),
            prompts=asked,
            output=part,
            top_p=generation.top_p,
            temperature=generation.temperature,
            seed=generation.seed + job.seed,
            max_new_tokens=generation.max_new_tokens,
            device=device,
        )
        part.replace(written)
    texts = tuple(written.read_text(encoding="utf-8").removesuffix("\n").split("\n"))
    if len(texts) != len(prompts.prompts):
        raise UserError(f"{written}: expected {len(prompts.prompts)} texts, one a line, found {len(texts)}.")
    return texts


def _how(job: Job, trained: FinishedRun, generation: Generation) -> dict[str, Any]:
    """All that the texts of given prompts depend on, as `texts.json` holds it."""
    return {
        "top_p": generation.top_p,
        "temperature": generation.temperature,
        "seed": generation.seed + job.seed,
        "max_new_tokens": generation.max_new_tokens,
        "run": str(trained.run.absolute().relative_to(job.runs.absolute())),
        "checkpoint_sha256": _sha256(best_checkpoint(trained.run)),
    }


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _written_so(written: Path, note: Path, how: Mapping[str, Any]) -> bool:
    """Whether there are texts that were written in just this way, as the note beside them says."""
    if not written.is_file():
        return False
    if not note.is_file():
        logger.warning("%s is written again: no %s says how it was written.", written, note.name)
        return False
    try:
        found = json.loads(note.read_text(encoding="utf-8"))
    except json.JSONDecodeError:
        found = {}
    changed = [name for name, value in how.items() if not isinstance(found, dict) or found.get(name) != value]
    if changed:
        logger.warning("%s is written again: %s changed since.", written, ", ".join(changed))
    return not changed
