"""One row of a table at one size and seed: its files, and the commands that make them, each skipped once done."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from depgen.errors import UserError
from depgen.locations import below_runs, file_sha256, lines_sha256, results_root
from depgen.reporting.experiments import experiment_file, experiment_of, experiments_root
from depgen.reporting.generation import Generation
from depgen.reporting.needs import runs_in
from depgen.reporting.pretrained import begun_from
from depgen.reporting.results import result_path
from depgen.reporting.table import Row, TableDefinition, chosen_table, load_definition
from depgen.training import experiment_runs
from depgen.training.experiment import Experiment
from depgen.training.experiment_runs import Depgen, FinishedRun, Training
from depgen.training.runs import best_checkpoint


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
            return Experiment(experiment_file(self.definition.parsing))
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

    def trainings(self) -> Iterator[Training]:
        """The training of the row's experiment, after those of the experiments whose runs it loads.

        They are yielded one by one, so that each names the newest finished runs of the earlier ones.
        """
        return _trainings(self.name, self.config, self)

    @property
    def training(self) -> Training:
        """The training of the row's experiment, with the runs that it loads as far as they are at hand."""
        return [*self.trainings()][-1]


def _trainings(name: str, experiment: Experiment, job: Job) -> Iterator[Training]:
    """An experiment's training at a job's seed, after those of the experiments whose names it gives for runs."""
    needed = dict[str, Training]()
    for option, run in runs_in(experiment.settings).items():
        other = run.partition("/")[0]
        if (experiments_root() / f"{other}.yaml").is_file():
            title = f"{other}, {job.size}, seed {job.seed}"
            for each in _trainings(title, experiment_of(other, size=job.size), job):
                needed[option] = each
                yield each
    runs = {option: each.finished() for option, each in needed.items()}
    needs = {option: below_runs(str(run)) for option, run in runs.items() if run is not None}
    yield Training(
        name,
        experiment,
        job.seed,
        experiment.place(job.seed),
        needs,
        precision=job.precision,
        wandb=job.wandb,
        group=job.definition.table,
    )


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
    return [experiment_runs.fit(each, depgen, wait=wait) for each in job.trainings()][-1]


def finished_run(job: Job) -> Path | None:
    """The job's newest finished run; relative to the working folder where it lies inside it."""
    found = job.training.finished()
    if found is None:
        return None
    run, here = found.absolute(), Path.cwd()
    return run.relative_to(here) if run.is_relative_to(here) else run


def members(job: Job) -> dict[int, Path | None]:
    """The newest finished runs that a consensus is of, by seed; None where a seed has none."""
    assert job.row.consensus_of is not None
    row = job.definition.row(job.row.consensus_of)
    seeds = job.definition.seeds_at(job.size)
    return {seed: finished_run(dataclasses.replace(job, row=row, seed=seed)) for seed in seeds}


def weights_of(job: Job) -> str | None:
    """The digest of the checkpoint that the job's numbers are of, or of those of a consensus; None where one lacks."""
    runs = [finished_run(job)] if job.row.consensus_of is None else [*members(job).values()]
    digests = [file_sha256(best_checkpoint(run)) for run in runs if run is not None]
    if len(digests) < len(runs):
        return None
    return digests[0] if job.row.consensus_of is None else lines_sha256(digests)


def run_of_row(table: str, row: str, size: str | None) -> Path:
    """The finished run of a table's row, of the first of the table's seeds that has one, or else of any other seed.

    Raises:
        UserError: there is no such table, row or size, or the row is not trained.
    """
    definition, chosen, _ = chosen_table(table, size)
    system = definition.row(row)
    begun = Job(definition, system, chosen, 0).training.root.parent.glob("seed*")
    others = sorted(int(number) for folder in begun if (number := folder.name.removeprefix("seed")).isdecimal())
    for seed in dict.fromkeys((*definition.seeds_at(chosen), *others)):
        run = finished_run(Job(definition, system, chosen, seed))
        if run is not None:
            return run
    raise UserError(
        f"{system.name} of {definition.table} is not trained at size {chosen}. Train it: "
        f"{definition.command(chosen, system)}"
    )


def chosen_run(run: str | None, table: str | None, *, row: str | None, size: str | None, usual: str) -> str | None:
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
    return str(run_of_row(table, row or usual, size))


def picture_path(name: str, table: str | None, *, row: str) -> Path:
    """Where a picture goes unless the user says so: with a table `results/<table>/<name>`, with the row in the name."""
    if table is None:
        return Path(name)
    definition, path = load_definition(table), Path(name)
    return results_root() / definition.table / f"{path.stem}-{definition.row(row).slug}{path.suffix}"
