"""One row of a table at one profile and seed: its files, and the commands that make them, each skipped once done."""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from depgen.errors import UserError
from depgen.evaluation.generation import generate as write_texts
from depgen.locations import runs_root, write_atomically
from depgen.reporting.definition import Generation, Row, TableDefinition, experiment_path
from depgen.reporting.provenance import config_digest
from depgen.reporting.results import result_path
from depgen.training.checkpoints import RESUME
from depgen.training.runs import best_checkpoint, checkpoint_folder, is_finished, read_record

logger = logging.getLogger(__name__)

Depgen = Callable[[Sequence[str], Mapping[str, str]], None]
"""Runs `depgen` with these arguments and these additions to the environment; raises UserError if it fails."""

TEST_NUMBERS = "test.json"
"""What `depgen test` leaves in a run folder: `{"checkpoint": …, "metrics": {"test/perplexity": …}}`."""


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
class Trained:
    """A finished run and the digest of the YAML that it was started from."""

    run: Path
    config_sha256: str


def fit(job: Job, depgen: Depgen) -> Trained:
    """The job's finished run: trained, gone on with, or found.

    Raises:
        UserError: training failed, or the YAML has changed since the run was begun.
    """
    runs = sorted((path.parent for path in job.runs.glob("*/*/run.json")), key=_started)
    begun = job.runs / "config.sha256"
    digest = config_digest(job.config)
    if runs and begun.is_file() and begun.read_text().strip() != digest:
        raise UserError(
            f"{job.config} has changed since {job.name} was begun ({runs[-1]}). Put it back, or begin anew: "
            f"depgen reproduce {job.definition.table} --row {job.row.slug} --profile {job.profile} --redo"
        )
    if not runs or not is_finished(runs[-1]):
        write_atomically(begun, f"{digest}\n")
        arguments = ["fit", "--config", str(job.config), "--seed_everything", str(job.seed)]
        if runs and (checkpoint_folder(runs[-1]) / RESUME).is_file():
            logger.info("%s: going on with %s", job.name, runs[-1])
            arguments += ["--resume", str(runs[-1])]
        depgen(arguments, job.environment)
        runs = sorted((path.parent for path in job.runs.glob("*/*/run.json")), key=_started)
    if not runs or not is_finished(runs[-1]):
        raise UserError(f"{job.name}: training has not come to its end under {job.runs}. The same command goes on.")
    best_checkpoint(runs[-1])
    return Trained(runs[-1], digest)


def _started(run: Path) -> tuple[str, str]:
    return str(read_record(run).get("started", "")), run.name


def measure_test(job: Job, trained: Trained, depgen: Depgen) -> dict[str, float]:
    """The numbers on the test split, named without their stage (`perplexity`, …).

    Raises:
        UserError: the command failed or left no numbers.
    """
    path = trained.run / TEST_NUMBERS
    if not path.is_file():
        depgen(["test", "--run", str(trained.run)], job.environment)
    try:
        metrics = json.loads(path.read_text(encoding="utf-8"))["metrics"]
    except (OSError, json.JSONDecodeError, KeyError, TypeError) as error:
        raise UserError(f"{job.name}: no test numbers in {path} ({error}). Delete it to test again.") from error
    return {name.removeprefix("test/"): float(value) for name, value in metrics.items()}


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


def generate(job: Job, trained: Trained, prompts: Prompts) -> tuple[str, ...]:
    """One text for each prompt, written by the job's model.

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
    if not written.is_file():
        part = written.with_name(".texts.part.txt")
        write_texts(
            checkpoint=str(trained.run),
            prompts=asked,
            output=part,
            top_p=generation.top_p,
            temperature=generation.temperature,
            seed=generation.seed + job.seed,
            max_new_tokens=generation.max_new_tokens,
        )
        part.replace(written)
    texts = tuple(written.read_text(encoding="utf-8").removesuffix("\n").split("\n"))
    if len(texts) != len(prompts.prompts):
        raise UserError(f"{written}: expected {len(prompts.prompts)} texts, one a line, found {len(texts)}.")
    return texts
