"""Whether results are out of date: made from another configuration, data, trees or weights than those of today."""

import dataclasses
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from depgen.data.record import fingerprint_of
from depgen.errors import UserError
from depgen.reporting.definition import is_made
from depgen.reporting.results import Result
from depgen.reporting.store import Ours
from depgen.training.experiment import Experiment

if TYPE_CHECKING:
    from depgen.reporting.jobs import Job

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Age:
    """Why a result is out of date, and the option of `depgen reproduce` that makes it again."""

    reason: str
    remedy: Literal["--redo", "--remeasure"] = "--redo"

    def __str__(self) -> str:
        return f"{self.reason}; {self.remedy} makes it again"


def ages_of(job: "Job", results: Sequence[Result]) -> dict[int, Age]:
    """Why results of a row are out of date, by seed; those that are not, as far as is known, are left out.

    One that began from weights which a command named is taken for current: no file names them.

    Args:
        job: the row at its size, at any seed.
        results: of any seeds.
    """
    from depgen.reporting.run_facts import beginning_of  # torch, without which tracked results are shown

    try:
        begun, digest = beginning_of(job.config), job.config.digest
    except UserError as error:
        return {result.seed: Age(f"its configuration no longer reads: {error}") for result in results}
    data, found = _data_of(job.config), dict[int, Age]()
    for result in results:
        if result.beginning not in (None, begun):
            continue
        if result.config_sha256 != digest:
            found[result.seed] = Age(f"made before {job.config} was changed")
        elif age := _age(dataclasses.replace(job, seed=result.seed), result, data):
            found[result.seed] = age
    return found


def ages_in(ours: Ours) -> dict[tuple[str, int], Age]:
    """Why local results of a table are out of date, by row and seed; tracked ones are of their commit."""
    found = {}
    for row in ours.definition.rows:
        local = ours.local_of(row.name)
        if local and is_made(row, size=ours.size):
            from depgen.reporting.jobs import Job  # torch, see `ages_of`

            ages = ages_of(Job(ours.definition, row, ours.size, local[0].seed), local)
            found.update({(row.name, seed): age for seed, age in ages.items()})
    return found


def _age(job: "Job", result: Result, data: Any) -> Age | None:  # noqa: ANN401 - any data module
    """What is other today than for a result of the same configuration; what is not at hand tells nothing."""
    for find in (_other_data, _other_generation, _other_weights):
        try:
            if (age := find(job, result, data)) is not None:
                return age
        except UserError as error:
            logger.info("%s: nothing tells whether its result is out of date: %s", job.name, error)
    return None


def _other_data(job: "Job", result: Result, data: Any) -> Age | None:  # noqa: ANN401
    """Of text: its digests today are with its limit on documents and without, which a floor's result is."""
    corpus, former = getattr(data, "corpus", None), result.data.fingerprint
    if corpus is None or former is None:
        return None
    limits = dict.fromkeys((getattr(data, "max_documents", None), None))
    today = [fingerprint_of(corpus, max_documents=each) for each in limits]
    text = f"other data of {result.data.corpus} (digest {former[:12]}) than today's ({today[0][:12]})"
    return None if former in today else Age(f"made from {text}")


def _other_generation(job: "Job", result: Result, data: Any) -> Age | None:  # noqa: ANN401
    """Of texts, which are generated again without training."""
    if result.generation in (None, job.generation):
        return None
    return Age("made with other generation settings", "--remeasure")


def _other_weights(job: "Job", result: Result, data: Any) -> Age | None:  # noqa: ANN401
    """Of the checkpoints that were measured, where their trainings are at hand."""
    from depgen.reporting.jobs import finished_run, weights_of  # torch, see `ages_of`

    today = None if result.weights_sha256 is None else weights_of(job)
    if today in (None, result.weights_sha256):
        return None
    whose = finished_run(job) if job.row.consensus_of is None else job.row.consensus_of
    return Age(f"of other weights than those of {whose}", "--remeasure")


def _data_of(config: Experiment) -> Any:  # noqa: ANN401 - any data module
    """The data module of an experiment; None where it has none that can be made here."""
    from depgen.data.experiment import data_of  # torch, see `ages_of`

    try:
        return data_of(config)
    except UserError as error:
        logger.info("Nothing tells whether results of %s are of the data at hand: %s", config, error)
        return None
