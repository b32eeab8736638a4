"""One row of a table at one size and seed: its files, and the commands that make them, each skipped once done."""

import dataclasses
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from depgen.errors import UserError
from depgen.evaluation.text.generation import generate as write_texts
from depgen.locations import below_runs, write_atomically
from depgen.reporting.definition import Row, TableDefinition, load_definition
from depgen.reporting.experiments import experiment_of, experiments_root, settings_path
from depgen.reporting.needs import runs_in
from depgen.reporting.numbers import Generation
from depgen.reporting.pretrained import begun_from
from depgen.reporting.provenance import choose_size
from depgen.reporting.results import result_path
from depgen.training import experiment_runs
from depgen.training.experiment import Experiment
from depgen.training.experiment_runs import Depgen, FinishedRun, Training, run_place

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Job:
    """A row at a size and seed.

    Attributes:
        definition: of the table.
        row: which one.
        size: `small` or `paper`.
        seed: of training.
        pretrained: the weights that it begins from (`depgen.reporting.pretrained`); None: as its experiment says.
        precision: that it is trained in; None: as its experiment says.
        wandb: `online` or `offline` logs its training to Weights & Biases, in a group of the table's name.
    """

    definition: TableDefinition
    row: Row
    size: str
    seed: int
    pretrained: str | None = None
    precision: str | None = None
    wandb: str | None = None

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"{self.row.name}, {self.size}, seed {self.seed}"

    @property
    def config(self) -> Experiment:
        """The experiment at its size and with its options; of a floor's rule, the settings of the trees."""
        if self.row.experiment is None:
            assert self.definition.parsing is not None
            return Experiment(settings_path(self.definition.parsing))
        found = self.row.experiment_at(self.size)
        return found if self.pretrained is None else begun_from(found, self.pretrained)

    @property
    def generation(self) -> Generation | None:
        """How the texts are made at this size."""
        generation = self.definition.generation
        return None if generation is None else generation.at(self.size)

    @property
    def result(self) -> Path:
        """The result's JSON file."""
        return result_path(self.definition.table, self.row.slug, size=self.size, seed=self.seed)

    @property
    def folder(self) -> Path:
        """What lies beside the result: prompts, texts, per-item scores."""
        return self.result.with_suffix("")

    @property
    def needed(self) -> dict[str, Training]:
        """The trainings of other experiments whose runs this one loads, by the option that names each."""
        return _needed(self.config, self)

    @property
    def training(self) -> Training:
        """The training of the row's experiment, with the runs that it loads as far as they are at hand."""
        return _training(self.name, self.config, self)


def _training(name: str, experiment: Experiment, job: Job) -> Training:
    """The training of an experiment at a job's seed."""
    runs = {option: each.finished() for option, each in _needed(experiment, job).items()}
    needs = {option: below_runs(str(run)) for option, run in runs.items() if run is not None}
    return Training(
        name,
        experiment,
        job.seed,
        run_place(experiment, job.seed),
        needs,
        precision=job.precision,
        wandb=job.wandb,
        group=job.definition.table,
    )


def _needed(experiment: Experiment, job: Job) -> dict[str, Training]:
    """The trainings whose runs an experiment loads by the names of their experiments, at the job's size and seed."""
    found = {}
    for option, run in runs_in(experiment.settings).items():
        name = run.partition("/")[0]
        if (experiments_root() / f"{name}.yaml").is_file():
            title = f"{name}, {job.size}, seed {job.seed}"
            found[option] = _training(title, experiment_of(name, size=job.size), job)
    return found


def fit(job: Job, depgen: Depgen, *, wait: bool = True) -> FinishedRun:
    """The job's finished run: found, continued or trained, after the runs that it loads.

    Args:
        job: whose.
        depgen: runs `depgen fit`.
        wait: for another process that trains it, or what it loads.

    Raises:
        UserError: a training failed.
        filelock.Timeout: another process trains it, and this one does not wait.
    """
    for other in job.needed.values():
        experiment_runs.fit(other, depgen, wait=wait)
    return experiment_runs.fit(job.training, depgen, wait=wait)


def finished_run(job: Job) -> Path | None:
    """The job's newest finished run; relative to the working folder where it lies inside it."""
    found = job.training.finished()
    if found is None:
        return None
    run, here = found.absolute(), Path.cwd()
    return run.relative_to(here) if run.is_relative_to(here) else run


def run_of_row(table: str, row: str, size: str | None) -> Path:
    """The finished run of a table's row, of the first of the table's seeds that has one, or else of any other seed.

    Raises:
        UserError: there is no such table, row or size, or the row is not trained.
    """
    definition = load_definition(table)
    chosen, _ = choose_size(definition.sizes, size)
    system = definition.row(row)
    begun = Job(definition, system, chosen, 0).training.root.parent.glob("seed*")
    others = sorted(int(number) for folder in begun if (number := folder.name.removeprefix("seed")).isdecimal())
    for seed in dict.fromkeys((*definition.seeds_at(chosen), *others)):
        run = finished_run(Job(definition, system, chosen, seed))
        if run is not None:
            return run
    raise UserError(
        f"{system.name} of {definition.table} is not trained at size {chosen}. Train it: "
        f"depgen reproduce {definition.argument} --row {system.slug} --size {chosen}"
    )


def chosen_run(
    run: str | None, table: str | None, *, row: str | None, size: str | None, usual: str
) -> str | Path | None:
    """The run that is named, or that of a table's row, which is the `usual` one unless named; None for the newest run.

    Raises:
        UserError: a run and a table were named, a row or a size without a table, or the row is not trained.
    """
    if table is None:
        if row is not None or size is not None:
            raise UserError("--row and --size choose among a table's runs: name the --table, or leave them out.")
        return run
    if run is not None:
        raise UserError("A run and a table were named: name one of them.")
    return run_of_row(table, row or usual, size)


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


def generate(
    job: Job,
    trained: FinishedRun,
    prompts: Prompts | None,
    *,
    top_p: float | None = None,
    device: str | None = None,
) -> tuple[str, ...]:
    """One text for each prompt, written by the job's model unless the same run wrote them before in the same way.

    `texts.json` says how the texts were written. It is written before them, so that texts never lie beside another's.
    Those of another nucleus than the table's own are `texts-p<nucleus>.txt`.

    Args:
        job: whose.
        trained: its run.
        prompts: what the texts go on from; None for as many texts from nothing as the table wants.
        top_p: nucleus; unset: the table's own.
        device: where the model writes; unset: a GPU where there is one.

    Raises:
        UserError: the model does not write, or wrote another number of texts.
    """
    generation = job.generation
    assert generation is not None
    written = job.folder / generation.file_of(top_p)
    generation = dataclasses.replace(generation, top_p=generation.top_p if top_p is None else top_p)
    asked = job.folder / "prompts.txt"
    if prompts is not None:
        content = "".join(f"{prompt}\n" for prompt in prompts.prompts)
        if not asked.is_file() or asked.read_text(encoding="utf-8") != content:
            for of_other_prompts in job.folder.glob("texts*.txt"):  # of every nucleus
                of_other_prompts.unlink()
            write_atomically(asked, content)
    note = written.with_suffix(".json")
    how = _how(job, trained, generation)
    if not _written_so(written, note, how):
        written.unlink(missing_ok=True)
        write_atomically(note, json.dumps(how, indent=2) + "\n")
        part = written.with_name(f".{written.stem}.part.txt")
        write_texts(
            run=str(trained.run),
            prompts=None if prompts is None else asked,
            number=_count(generation) if prompts is None else 1,
            output=part,
            top_p=generation.top_p,
            temperature=generation.temperature,
            seed=generation.seed + job.seed,
            max_new_tokens=generation.max_new_tokens,
            device=device,
        )
        part.replace(written)
    texts = tuple(written.read_text(encoding="utf-8").removesuffix("\n").split("\n"))
    expected = _count(generation) if prompts is None else len(prompts.prompts)
    if len(texts) != expected:
        raise UserError(f"{written}: expected {expected} texts, one a line, found {len(texts)}.")
    return texts


def _count(generation: Generation) -> int:
    """How many texts are written from nothing."""
    assert isinstance(generation.samples, int)
    return generation.samples


def _how(job: Job, trained: FinishedRun, generation: Generation) -> dict[str, Any]:
    """All that the texts of given prompts depend on, as `texts.json` holds it."""
    return {
        **({} if generation.samples is None else {"samples": generation.samples}),
        "top_p": generation.top_p,
        "temperature": generation.temperature,
        "seed": generation.seed + job.seed,
        "max_new_tokens": generation.max_new_tokens,
        "run": below_runs(str(trained.run)),
        "checkpoint_sha256": trained.weights_sha256,
    }


def how_written(texts: Path) -> dict[str, Any]:
    """What the note beside texts says of how they were written; empty where there is none that reads as one."""
    try:
        found = json.loads(texts.with_suffix(".json").read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def _written_so(written: Path, note: Path, how: Mapping[str, Any]) -> bool:
    """Whether there are texts that were written in just this way, as the note beside them says."""
    if not written.is_file():
        return False
    if not note.is_file():
        logger.warning("%s is written again: no %s says how it was written.", written, note.name)
        return False
    found = how_written(written)
    changed = [name for name, value in how.items() if found.get(name) != value]
    if changed:
        logger.warning("%s is written again: %s changed since.", written, ", ".join(changed))
    return not changed
