"""Whether results are out of date: made from another configuration or other data than those of today."""

import logging
from collections.abc import Sequence

from depgen.data.source import fingerprint_of
from depgen.errors import UserError
from depgen.reporting.definition import is_made
from depgen.reporting.results import Result
from depgen.reporting.store import Ours
from depgen.training.experiment import Experiment

logger = logging.getLogger(__name__)


def outdated(config: Experiment, results: Sequence[Result]) -> dict[int, str]:
    """Why results of a configuration are out of date, by seed; those that are not, as far as is known, are left out."""
    if not results:
        return {}
    try:
        digest = config.digest
    except UserError as error:
        return {result.seed: _unreadable(error) for result in results}
    data, found = _data_today(config), dict[int, str]()
    for result in results:
        former = result.data.fingerprint
        if result.config_sha256 != digest:
            found[result.seed] = f"made before {config} was changed"
        elif former is not None and data and former not in data:
            found[result.seed] = (
                f"made from other data of {result.data.corpus} (digest {former[:12]}) than today's ({data[0][:12]})"
            )
    return found


def outdated_of(ours: Ours) -> dict[tuple[str, int], str]:
    """Why local results are out of date, by row and seed; tracked ones are of their commit.

    Those that began from weights which a command named are taken for current.
    """
    found = {}
    for row in ours.definition.rows:
        local = [each for each in ours.of(row.name) if (each.row, each.seed) in ours.local]
        if not local or row.experiment is None or not is_made(row, size=ours.size):
            continue
        from depgen.reporting.run_facts import beginning_of  # torch, without which tracked results are shown

        config = row.experiment_at(ours.size)
        try:
            own = [each for each in local if each.beginning in (None, beginning_of(config))]
        except UserError as error:
            found.update({(row.name, each.seed): _unreadable(error) for each in local})
            continue
        found.update({(row.name, seed): reason for seed, reason in outdated(config, own).items()})
    return found


def _unreadable(error: UserError) -> str:
    return f"its configuration no longer reads: {error}"


def _data_today(config: Experiment) -> tuple[str, ...]:
    """The digests of the data that a configuration names, with its limit on documents and without; none if not at hand.

    A floor's result has that without.
    """
    from depgen.data.experiment import data_of  # torch, see `outdated_of`

    try:
        data = data_of(config)
        corpus, limit = getattr(data, "corpus", None), getattr(data, "max_documents", None)
        return (
            ()
            if corpus is None
            else tuple(fingerprint_of(corpus, max_documents=each) for each in dict.fromkeys((limit, None)))
        )
    except UserError as error:
        logger.info("Nothing tells whether results of %s are of the data at hand: %s", config, error)
        return ()
