"""One row of a table at one profile and seed: its files, and the commands that make them, each skipped once done."""

import dataclasses
import json
import logging
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from depgen.errors import UserError
from depgen.evaluation.text.generation import generate as write_texts
from depgen.locations import runs_root, write_atomically
from depgen.reporting.definition import Generation, Row, TableDefinition, load_definition
from depgen.reporting.experiments import settings_path
from depgen.reporting.provenance import choose_profile
from depgen.reporting.results import result_path
from depgen.training import experiment_runs
from depgen.training.experiment import Experiment
from depgen.training.experiment_runs import Depgen, FinishedRun, Training

logger = logging.getLogger(__name__)
_TREES = "--data.init_args.annotator.init_args.run"


@dataclass(frozen=True)
class Job:
    """A row at a profile and seed.

    Attributes:
        definition: of the table.
        row: which one.
        profile: which size.
        seed: of training.
        pretrained: the weights that it begins from (`depgen.reporting.pretrained`); None: as its experiment says.
        precision: that it is trained in; None: as its experiment says.
    """

    definition: TableDefinition
    row: Row
    profile: str
    seed: int
    pretrained: str | None = None
    precision: str | None = None

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"{self.row.name}, {self.profile}, seed {self.seed}"

    @property
    def config(self) -> Experiment:
        """What makes the row; of a floor's rule, the settings of its trees; of other weights, a file with the runs."""
        if self.row.floor is not None:
            assert self.definition.parsing is not None
            return Experiment(settings_path(self.definition.parsing))
        experiment = self.row.experiment_at(self.profile)
        if self.pretrained is None:
            return experiment
        return Experiment(self.runs.parent / f"{self.profile}-pretrained" / f"{experiment.name}.yaml")

    @property
    def generation(self) -> Generation | None:
        """How the texts are made at this profile."""
        generation = self.definition.generation
        return None if generation is None else generation.at(self.profile)

    @property
    def result(self) -> Path:
        """The result's JSON file."""
        return result_path(self.definition.table, self.row.slug, profile=self.profile, seed=self.seed)

    @property
    def folder(self) -> Path:
        """What lies beside the result: prompts, texts, per-item scores."""
        return self.result.with_suffix("")

    @property
    def owns_its_runs(self) -> bool:
        """Whether the row trains its own system, and shows no other row's."""
        return self._trained_as == (self.definition.table, self.row.slug)

    @property
    def _trained_as(self) -> tuple[str, str]:
        """The table and the row, as folders spell it, that train the system."""
        named = self.row.runs_of or self.definition.runs_of or self.definition.table
        table, _, row = named.partition("/")
        return table, Row(row).slug or self.row.slug

    @property
    def runs(self) -> Path:
        """The root of this job's own run folders, so that no other run is ever taken for one of its."""
        return runs_root().joinpath(*self._trained_as, f"{self.profile}-seed{self.seed}")

    @property
    def needed(self) -> "dict[str, Job]":
        """What trains the runs that the experiment goes on from or is parsed by, by the option that names each.

        Raises:
            UserError: there is no such table or row, or nothing makes it.
        """
        named = {"--data.init_args.encoder": self.row.encoder_of, _TREES: self.row.trees_of}
        return {option: self._job_of(reference) for option, reference in named.items() if reference is not None}

    def _job_of(self, reference: str) -> "Job":
        """Another row at the same profile and seed."""
        table, _, row = reference.partition("/")
        definition = load_definition(table)
        found = Job(definition, definition.row(row), self.profile, self.seed, precision=self.precision)
        if found.row.experiment is None:
            raise UserError(f"{self.name} goes on from {reference}, which no experiment makes.")
        return found

    @property
    def training(self) -> Training:
        """The training of the row's experiment, in run folders of the job's own."""
        owner, row = self._trained_as
        table = self.definition.argument if owner == self.definition.table else owner
        weights = "" if self.pretrained is None else f" --pretrained {shlex.quote(self.pretrained)}"
        anew = f"depgen reproduce {table} --row {row} --profile {self.profile}{weights} --redo"
        return Training(self.name, self.config, self.seed, self.runs, anew, precision=self.precision)


def fit(job: Job, depgen: Depgen) -> FinishedRun:
    """The job's finished run: trained, gone on with, or found; after the runs that it needs, where there are any.

    Raises:
        UserError: training failed, or the YAML, or a run that it needs, has changed since the run was begun.
    """
    return experiment_runs.fit(dataclasses.replace(job.training, options=options_of(job, depgen)), depgen)


def options_of(job: Job, depgen: Depgen) -> tuple[str, ...]:
    """What `depgen fit` is told of the runs that a job needs, which are trained first where they are not there.

    Raises:
        UserError: one of these trainings failed.
    """
    runs = {option: fit(other, depgen).run.absolute() for option, other in job.needed.items()}
    return tuple(str(each) for pair in runs.items() for each in pair)


def finished_run(job: Job) -> Path | None:
    """The job's newest run if it has come to its end; relative to the working folder where it lies inside it."""
    found = job.training.finished()
    if found is None:
        return None
    run, here = found.absolute(), Path.cwd()
    return run.relative_to(here) if run.is_relative_to(here) else run


def run_of_row(table: str, row: str, profile: str | None) -> Path:
    """The finished run of a table's row, of the first of the table's seeds that has one, or else of any other seed.

    Raises:
        UserError: there is no such table, row or profile, or the row is not trained.
    """
    definition = load_definition(table)
    chosen, _ = choose_profile(definition.sizes, profile)
    system = definition.row(row)
    begun = Job(definition, system, chosen, 0).runs.parent.glob(f"{chosen}-seed*")
    others = sorted(int(number) for folder in begun if (number := folder.name.rpartition("seed")[2]).isdecimal())
    for seed in dict.fromkeys((*definition.seeds_at(chosen), *others)):
        run = finished_run(Job(definition, system, chosen, seed))
        if run is not None:
            return run
    raise UserError(
        f"{system.name} of {definition.table} is not trained at profile {chosen}. Train it: "
        f"depgen reproduce {definition.argument} --row {system.slug} --profile {chosen}"
    )


def chosen_run(
    run: str | None, table: str | None, *, row: str | None, profile: str | None, usual: str
) -> str | Path | None:
    """The run that is named, or that of a table's row, which is the `usual` one unless named; None for the newest run.

    Raises:
        UserError: a run and a table were named, a row or a profile without a table, or the row is not trained.
    """
    if table is None:
        if row is not None or profile is not None:
            raise UserError("--row and --profile choose among a table's runs: name the --table, or leave them out.")
        return run
    if run is not None:
        raise UserError("A run and a table were named: name one of them.")
    return run_of_row(table, row or usual, profile)


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
        "run": str(trained.run.absolute().relative_to(job.runs.absolute())),
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
