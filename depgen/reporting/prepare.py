"""What the rows of a table need before they are trained: corpora at hand; parsers, UNION and oracles made first."""

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from depgen.annotation.annotator import find_parser
from depgen.data.corpus import SPLITS
from depgen.data.experiment import corpus_of
from depgen.errors import UserError
from depgen.evaluation.text.measures import TextOptions
from depgen.evaluation.text.oracle import oracle_training
from depgen.evaluation.union import ROCSTORIES, scorer_of
from depgen.hub import model_folder
from depgen.locations import cache_root, made_once, runs_root
from depgen.reporting.jobs import Job, parsers_in
from depgen.reporting.measures.texts import OF_AN_ORACLE
from depgen.reporting.table import experiment_of, experiments_root
from depgen.training.experiment_runs import Depgen, Training
from depgen.training.runs import all_runs, is_finished


@dataclass(frozen=True)
class Need:
    """Something that rows need and that a command of depgen makes; of several processes, one makes it."""

    name: str
    command: tuple[str, ...]
    is_made: Callable[[], bool]

    def __str__(self) -> str:
        return f"{self.name}: {'at hand' if self.is_made() else f'made first by `depgen {shlex.join(self.command)}`'}"

    def make(self, depgen: Depgen) -> None:
        """Make it unless it is at hand."""
        lock = cache_root() / "prepared" / re.sub(r"[^\w.-]+", "-", self.name)
        made_once(lock, partial(depgen, self.command, {}), is_made=self.is_made)


def check_corpora(jobs: Sequence[Job]) -> None:
    """Raises MissingDataError where a corpus of some row is missing, before anything is trained.

    Rows that count a corpus are left out when they are made; those of a system's speed read none.
    """
    for job in jobs:
        for split in SPLITS if job.row.floor not in ("corpus", "speed") else ():
            corpus_of(job.config).fingerprint(split)


def needs_of(jobs: Sequence[Job], options: TextOptions) -> Iterator[Need]:
    """What rows need, each once: parsers first, which others need too, then UNION, then an oracle.

    UNION is trained only where the weights of its encoder are at hand; else its column is not computed.
    """
    read = [job for job in jobs if not job.row.is_floor or job.row.floor in ("corpus", *SPLITS)]
    if not read:
        return
    definition, others = read[0].definition, list[Need]()
    measures = {column.measure or column.key for column in definition.columns} if definition.generation else set()
    settings = [{"measures": definition.measures}]
    settings += [training.experiment.settings for job in read for training in job.trainings()]
    if "union" in measures and options.union is None:
        union = experiment_of(ROCSTORIES, size=read[0].size)
        if model_folder(union.settings["model"]["init_args"]["encoder"]) is not None:
            settings.append(union.settings)
            seed, root = union.settings["seed_everything"], runs_root() / scorer_of(union.size)
            command = tuple(Training("UNION", union, seed, union.place(seed)).command)
            others.append(Need("UNION", command, lambda: any(map(is_finished, all_runs(root)))))
    if measures.intersection(OF_AN_ORACLE) and options.oracle is None and definition.oracle is not None:
        oracle = experiment_of(definition.oracle, size=read[0].size)
        training = oracle_training(oracle.file, oracle.size)
        command = ("fit", *oracle.arguments)
        others.append(Need(f"oracle {oracle.name}", command, lambda: training.finished() is not None))
    yield from map(_parser, dict.fromkeys(name for values in settings for name in parsers_in(values)))
    yield from others


def _parser(name: str) -> Need:
    config = experiments_root() / f"parser_{name}.yaml"

    def is_made() -> bool:
        try:
            find_parser(name, packages=True)
        except UserError:
            if not config.is_file():
                raise
            return False
        return True

    return Need(f"parser {name}", ("annotate", "--train", str(config)), is_made)
