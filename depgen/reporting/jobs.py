"""One row of a table at one size and seed: its experiment, the runs that it loads, and its finished run."""

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from depgen.annotation.spacy import SpacyAnnotator, SpacyTagger
from depgen.annotation.supar import SuparAnnotator, SuparConstituencyAnnotator, SuparGraphAnnotator
from depgen.backbones.pretrained import PretrainedTransformer
from depgen.data.tasks import TaskData
from depgen.data.vocabulary import SubwordPieces
from depgen.errors import UserError
from depgen.evaluation.induced import InducedGraphs, InducedTrees
from depgen.locations import below_runs, results_root
from depgen.reporting.results import result_path
from depgen.reporting.table import (
    Generation,
    Row,
    TableDefinition,
    chosen_table,
    experiment_file,
    experiment_of,
    experiments_root,
    load_definition,
)
from depgen.training import experiment_runs
from depgen.training.experiment import Experiment
from depgen.training.experiment_runs import Depgen, FinishedRun, Training

_PARSERS: Mapping[type, str] = {
    SpacyAnnotator: "pipeline",
    SpacyTagger: "pipeline",
    SuparAnnotator: "path",
    SuparGraphAnnotator: "path",
    SuparConstituencyAnnotator: "path",
}
"""Classes that load a trained parser, with the argument that names it."""
_RUNS: Mapping[type, str] = {
    TaskData: "encoder",
    InducedTrees: "run",
    InducedGraphs: "run",
    PretrainedTransformer: "pretrained",
    SubwordPieces: "tokenizer",
}
"""Classes that may load a run of another experiment, with the argument that names it."""


@dataclass(frozen=True)
class Job:
    """A row at a size and seed.

    Attributes:
        definition: of the table.
        row: which one.
        size: `small` or `paper`.
        seed: of training.
        precision: that it is trained in; None: as its experiment says.
        wandb: `online` or `offline` logs its training to Weights & Biases, in a group of the table's name.
    """

    definition: TableDefinition
    row: Row
    size: str
    seed: int
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
            return Experiment(experiment_file(self.definition.parsing))
        return self.row.experiment_at(self.size)

    @property
    def generation(self) -> Generation | None:
        """How the texts are made at this size."""
        generation = self.definition.generation
        return None if generation is None else generation.at(self.size)

    @property
    def result(self) -> Path:
        """The result's JSON file."""
        return result_path(self.definition.table, self.row.slug, size=self.size, seed=self.seed)

    def trainings(self) -> Iterator[Training]:
        """The training of the row's experiment, after those of the experiments whose runs it loads.

        They are yielded one by one, so that each names the newest finished runs of the earlier ones.
        """
        return self._trainings(self.config)

    @property
    def training(self) -> Training:
        """The training of the row's experiment, with the runs that it loads as far as they are at hand."""
        return [*self.trainings()][-1]

    def _trainings(self, experiment: Experiment) -> Iterator[Training]:
        needs = dict[str, str]()
        for option, run in runs_in(experiment.settings).items():
            other = run.partition("/")[0]
            if (experiments_root() / f"{other}.yaml").is_file():
                for training in self._trainings(experiment_of(other, size=self.size)):
                    yield training
                if (finished := training.finished()) is not None:
                    needs[option] = below_runs(str(finished))
        yield Training(
            f"{experiment.name}, seed {self.seed}",
            experiment,
            self.seed,
            experiment.place(self.seed),
            needs,
            precision=self.precision,
            wandb=self.wandb,
            group=self.definition.table,
        )


def parsers_in(settings: Mapping[str, Any]) -> list[str]:
    """The names of the parsers that settings load, each once; defaults of the classes included.

    >>> parsers_in({"data": {"init_args": {"annotator": "depgen.annotation.spacy.SpacyAnnotator"}}})
    ['ewt_lowercased']
    """
    return list(dict.fromkeys(str(name) for _, name in _named(settings, _PARSERS)))


def runs_in(settings: Mapping[str, Any]) -> dict[str, str]:
    """What settings load that may be a run, by the dotted name of the option that names each.

    >>> pairs = {"class_path": "depgen.data.tasks.TaskData", "init_args": {"encoder": "udgn_ptb/small"}}
    >>> runs_in({"data": pairs})
    {'data.init_args.encoder': 'udgn_ptb/small'}
    """
    return {option: str(name) for option, name in _named(settings, _RUNS) if name is not None}


def _named(settings: Any, classes: Mapping[type, str], place: str = "") -> Iterator[tuple[str, Any]]:  # noqa: ANN401
    """The values of some classes' arguments, with the dotted names of their options."""
    if isinstance(settings, str):  # a class without arguments
        settings = {"class_path": settings}
    if isinstance(settings, Mapping):
        name = str(settings.get("class_path")).rpartition(".")[2]
        for kind, argument in classes.items():
            if name == kind.__name__:
                default = inspect.signature(kind).parameters[argument].default
                yield f"{place}init_args.{argument}", (settings.get("init_args") or {}).get(argument, default)
        for key, value in settings.items():
            if key != "class_path":
                yield from _named(value, classes, f"{place}{key}.")
    elif isinstance(settings, (list, tuple)):
        for item in settings:
            yield from _named(item, classes, place)


# -- runs -------------------------------------------------------------------------------------------------------------


def fit(job: Job, depgen: Depgen) -> FinishedRun:
    """The job's finished run: found, continued or trained by `depgen fit`, after the runs that it loads."""
    return [experiment_runs.fit(training, depgen) for training in job.trainings()][-1]


def finished_run(job: Job) -> Path | None:
    """The job's newest finished run."""
    return job.training.finished()


def finished_runs(definition: TableDefinition, row: Row, size: str) -> dict[int, Path | None]:
    """The newest finished run of a row for each seed of the table; None where a seed has none."""
    return {seed: finished_run(Job(definition, row, size, seed)) for seed in definition.seeds_at(size)}


def chosen_run(run: str | None, table: str | None, *, row: str | None, size: str | None, usual: str) -> str | None:
    """The run that is named, or that of a table's row, which is the `usual` one unless named; None for the newest run.

    Of a row it is that of the first of the table's seeds that has a finished one.
    """
    if table is None:
        if row is not None or size is not None:
            raise UserError("--row and --size choose among a table's runs: name the --table, or leave them out.")
        return run
    if run is not None:
        raise UserError("A run and a table were named: name one of them.")
    definition, size = chosen_table(table, size)
    system = definition.row(row or usual)
    for finished in finished_runs(definition, system, size).values():
        if finished is not None:
            return str(finished)
    raise UserError(
        f"{system.name} of {definition.table} is not trained at size {size}. Train it: "
        f"{definition.command(size, system)}"
    )


def picture_path(name: str, table: str | None, *, row: str) -> Path:
    """Where a picture goes unless the user says so: with a table `results/<table>/<name>`, with the row in the name."""
    if table is None:
        return Path(name)
    definition, path = load_definition(table), Path(name)
    return results_root() / definition.table / f"{path.stem}-{definition.row(row).slug}{path.suffix}"
