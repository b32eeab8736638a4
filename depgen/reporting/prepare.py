"""What the rows of a table need before they are trained: what is at hand, what is made first, how long all takes."""

import re
import shlex
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from depgen.annotation.annotator import find_parser
from depgen.data.corpus import SPLITS
from depgen.data.experiment import corpus_of
from depgen.errors import MissingDataError, UserError
from depgen.evaluation.text.measures import TextOptions
from depgen.evaluation.text.oracle import oracle_training
from depgen.evaluation.union import ROCSTORIES, find_scorer
from depgen.hub import model_folder
from depgen.locations import cache_root, made_once
from depgen.reporting.experiments import experiment_of, experiments_root
from depgen.reporting.jobs import Job
from depgen.reporting.measures.texts import OF_AN_ORACLE
from depgen.reporting.needs import parsers_in
from depgen.reporting.render import seconds_of
from depgen.reporting.results import load_results
from depgen.training.experiment import Experiment
from depgen.training.experiment_runs import Depgen

UNION_CONFIG = "union_rocstories.yaml"
"""What trains the UNION scorer."""


@dataclass(frozen=True)
class Preparation:
    """Something that rows need and that a command of depgen makes.

    Attributes:
        name: what it is.
        command: of depgen; what makes it.
        is_made: whether it is there.
    """

    name: str
    command: tuple[str, ...]
    is_made: Callable[[], bool]


@dataclass(frozen=True)
class Plan:
    """What is done for some rows before they are trained, and what they then take.

    Attributes:
        at_hand: lines on the results and the corpora that are at hand.
        preparations: in the order in which they are made.
        trainings: lines on the rows and on the time of all, as far as it is known.
    """

    at_hand: tuple[str, ...]
    preparations: tuple[Preparation, ...]
    trainings: tuple[str, ...]

    def __str__(self) -> str:
        made = [
            f"  {each.name}: "
            + ("at hand" if each.is_made() else f"is made first by `depgen {shlex.join(each.command)}`")
            for each in self.preparations
        ]
        return "\n".join([*self.at_hand, *made, *self.trainings])

    def make(self, depgen: Depgen) -> None:
        """Make what is not at hand; of several processes, one makes it and the others wait.

        Raises:
            UserError: a command failed.
        """
        for each in self.preparations:
            lock = cache_root() / "prepared" / re.sub(r"[^\w.-]+", "-", each.name)
            made_once(lock, partial(depgen, each.command, {}), is_made=each.is_made)


def corpora_of(jobs: Sequence[Job]) -> list[str]:
    """The names of the corpora that rows read, all at hand.

    Rows that count a corpus are left out when they are made; those of a system's speed read none.

    Raises:
        MissingDataError: a corpus is missing; names the rows.
    """
    missing: dict[str, list[str]] = {}
    found = dict[str, None]()
    for job in jobs:
        if job.row.floor in ("corpus", "speed"):
            continue
        try:
            corpus = corpus_of(job.config)
            for split in SPLITS:
                corpus.fingerprint(split)
            found[corpus.name] = None
        except MissingDataError as error:
            missing.setdefault(str(error), []).append(job.row.name)
    if missing:
        everywhere = {job.row.name for job in jobs}
        listed = " ".join(
            f"{error} It is read by {'all rows' if everywhere <= {*rows} else '; '.join(dict.fromkeys(rows))}."
            for error, rows in missing.items()
        )
        raise MissingDataError(f"Nothing is trained of {jobs[0].definition.table}: a corpus is missing. {listed}")
    return [*found]


def preparations(jobs: Sequence[Job], options: TextOptions) -> tuple[Preparation, ...]:
    """What rows need, each once: parsers first, which others need too, then UNION, then an oracle.

    UNION is trained only where the weights of its encoder are at hand; else its column is not computed.

    Raises:
        UserError: a parser is not at hand and nothing here trains it.
    """
    if not jobs:
        return ()
    definition, size = jobs[0].definition, jobs[0].size
    measures = {column.measure or column.key for column in definition.columns} if definition.generation else set()
    experiments = {each.place: each.experiment for job in jobs for each in job.trainings()}
    others = list[Preparation]()
    if "union" in measures and options.union is None:
        scorer = Experiment(experiments_root() / UNION_CONFIG)
        if model_folder(scorer.settings["encoder"]) is not None:
            experiments["union"] = scorer
            command = ("train-union", *(f"--config={path}" for path in scorer.files))
            others.append(Preparation("UNION", command, lambda: find_scorer(ROCSTORIES) is not None))
    if measures.intersection(OF_AN_ORACLE) and options.oracle is None and definition.oracle is not None:
        oracle = experiment_of(definition.oracle, size=size)
        training = oracle_training(oracle.file, oracle.size)
        others.append(
            Preparation(f"oracle {oracle.name}", ("train-oracle", *oracle.arguments), lambda: bool(training.finished()))
        )
    settings = [*(each.settings for each in experiments.values()), {"measures": definition.measures}]
    parsers = dict.fromkeys(name for each in settings for name in parsers_in(each))
    return (*map(_parser, parsers), *others)


def _parser(name: str) -> Preparation:
    config = experiments_root() / f"parser_{name}.yaml"

    def is_made() -> bool:
        try:
            find_parser(name, packages=True)
        except UserError:
            if not config.is_file():
                raise
            return False
        return True

    return Preparation(f"parser {name}", ("annotate", "--train", str(config)), is_made)


def plan_of(
    jobs: Sequence[Job], all_jobs: Sequence[Job], options: TextOptions | None, *, kept: Sequence[str] = ()
) -> Plan:
    """What is done for the jobs that are not done yet, out of all, after lines on results that are kept.

    How long a training takes is known from the row's newest seed here or among the tracked results.

    Raises:
        MissingDataError: a corpus is missing; names the rows.
        UserError: a parser is not at hand and nothing here trains it.
    """
    definition, size = all_jobs[0].definition, all_jobs[0].size
    done = f"{definition.table}, size {size}: {len(all_jobs) - len(jobs)} of {len(all_jobs)} results are at hand."
    at_hand = (done, *(f"  corpus {each}: at hand" for each in corpora_of(jobs)))
    results = load_results(definition, size=size).runs
    minutes = {each.row: seconds / 60 for each in results if (seconds := seconds_of(each)) is not None}
    trained = [job for job in jobs if not job.row.is_floor]
    ready = {job.training.place for job in trained if job.training.finished() is not None}
    by_row = [[*each] for _, each in groupby(trained, lambda job: job.row.name)]
    rows = [line for each in by_row for line in _lines(each, ready, minutes.get(each[0].row.name))]
    runs = {job.training.place: minutes.get(job.row.name) for job in trained if job.training.place not in ready}
    own = {job.training.place for job in trained}
    before = {each.place: each for job in trained for each in job.trainings() if each.place not in own}
    loaded = {place: each.name for place, each in before.items() if each.finished() is None}
    others = [f"train     {name}, whose run other rows load: of unknown length" for name in loaded.values()]
    lines = [f"  {line}" for line in (*kept, *others, *rows)]
    read = [job for job in jobs if not job.row.is_floor or job.row.floor in ("corpus", *SPLITS)]
    made_first = preparations(read, options or TextOptions())
    return Plan(at_hand, made_first, (*lines, _total({**dict.fromkeys(loaded), **runs})))


def _lines(jobs: Sequence[Job], ready: Container[str], minutes: float | None) -> Iterator[str]:
    """A row's seeds whose run is at hand, in one line, and those that are trained, in another.

    Args:
        jobs: of one row.
        ready: the places of trainings that are finished.
        minutes: how long one training takes; None where that is not known.
    """
    measured, trained = ([job for job in jobs if (job.training.place in ready) is each] for each in (True, False))
    if measured:
        yield f"measure   {_seeds(measured)}: trained already"
    if trained:
        each = " each" if len(trained) > 1 else ""
        yield f"train     {_seeds(trained)}: " + (
            "of unknown length" if minutes is None else f"about {_in_words(minutes)}{each}"
        )


def _seeds(jobs: Sequence[Job]) -> str:
    """The row of jobs and their seeds."""
    return f"{jobs[0].row.name}, seed{'s' * (len(jobs) > 1)} {', '.join(str(job.seed) for job in jobs)}"


def _total(runs: Mapping[str, float | None]) -> str:
    """The time of the trainings that are not done, by the places of their runs."""
    known = [minutes for minutes in runs.values() if minutes is not None]
    if not runs:
        return "Nothing is to be trained."
    if not known:
        return "Nothing is known of how long this takes."
    others = (
        "" if len(known) == len(runs) else f" for {len(known)} of {len(runs)} trainings; of the others nothing is known"
    )
    return (
        f"About {_in_words(sum(known))}, by the trainings that are recorded{others}. What is made first, tests and "
        "texts come on top."
    )


def _in_words(minutes: float) -> str:
    """A length of time.

    >>> _in_words(7.4), _in_words(84)
    ('7 min', '1 h 24 min')
    """
    hours, rest = divmod(round(minutes), 60)
    return f"{hours} h {rest} min" if hours else f"{max(1, rest)} min"
