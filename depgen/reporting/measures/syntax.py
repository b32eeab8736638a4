"""How often a row's system prefers the grammatical sentence, as `depgen evaluate` does."""

from collections.abc import Sequence

import numpy as np

from depgen.evaluation.measure import Measured
from depgen.evaluation.minimal_pairs import PairOptions, Protocol, minimal_pairs
from depgen.evaluation.syntactic_suites import SuiteOptions, syntactic_suites
from depgen.evaluation.system import System, load
from depgen.reporting.measures import Measure, Numbers, TrainedRow
from depgen.reporting.results import BOUND

COMPARED = {"accuracy": "", "accuracy_by_token": "_by_token"}
"""The columns of a benchmark that depend on the system's scores, by the measure of its overall row."""
FREE = {"unknown": "_unknown", "chance": "_chance"}
"""The columns that do not."""


class MinimalPairs(Measure):
    """Accuracy on the minimal pairs of BLiMP, per cent: `blimp`, and `blimp_<phenomenon>`.

    An item is a pair, 1 where it is right.

    Args:
        protocol: `plain`, or `paper`, that of GiLT, as `depgen evaluate minimal-pairs` has it.
    """

    def __init__(self, *, protocol: Protocol = "paper") -> None:
        self.protocol = protocol

    def measure(self, row: TrainedRow) -> Numbers:
        """The accuracies, and the share of pairs with unknown words."""
        system, beam_size = _system(row)
        measured = minimal_pairs(system, PairOptions(protocol=self.protocol, beam_size=beam_size))
        return _numbers("blimp", measured, measured.items["right"].astype(float), part="phenomenon", what="pairs")


class SyntacticSuites(Measure):
    """Accuracy on the suites of SyntaxGym, per cent: `suites`, and `suites_<circuit>`.

    An item is one of a suite; its score is the share of its predictions that hold.

    Args:
        protocol: see `MinimalPairs`.
    """

    def __init__(self, *, protocol: Protocol = "paper") -> None:
        self.protocol = protocol

    def measure(self, row: TrainedRow) -> Numbers:
        """The accuracies, and the share of items with unknown words."""
        system, beam_size = _system(row)
        measured = syntactic_suites(system, SuiteOptions(protocol=self.protocol, beam_size=beam_size))
        return _numbers("suites", measured, measured.items["holds"].map(np.mean), part="circuit", what="items")


def _system(row: TrainedRow) -> tuple[System, int | None]:
    """The row's system, and the beam where its scores are bounds."""
    system = load(str(row.trained.run))
    return system, row.job.row.beam_size if system.model.likelihood == "bound" else None


def bound_in_words(beam_size: int | None) -> str | None:
    """How far a search goes whose scores are bounds; None for other scores."""
    if beam_size is None:
        return None
    return f"lower bounds of log-likelihoods, over {beam_size} hypothes{'is' if beam_size == 1 else 'es'}"


def _numbers(key: str, found: Measured, items: Sequence[float], *, part: str, what: str) -> Numbers:
    """The columns of a benchmark; none of the system's scores where too many of its items hold `<unk>`."""
    rows = found.rows.to_dict("records")
    overall = rows[-1]
    free, compared = (
        {key + end: overall[name] for name, end in columns.items() if name in overall} for columns in (FREE, COMPARED)
    )
    compared |= {f"{key}_{_name(row['name'])}": row["accuracy"] for row in rows if row["level"] == part}
    numbers = Numbers(free)
    if (bound := bound_in_words(overall["beam_size"])) is not None:
        numbers.settings[key + BOUND] = bound
    if overall["decided"]:
        # bounds are the systems' own scores of texts, and compare with exact ones; pseudo-likelihoods do not
        kind = "pseudo-log-likelihood" if overall["likelihood"] == "pseudo" else "log-likelihood"
        numbers.metrics.update(compared)
        numbers.items[key] = np.array(items)
        numbers.settings.update(dict.fromkeys(compared, f"protocol {overall['protocol']}, {kind}"))
    else:
        known = overall["known_accuracy"]
        others = "" if np.isnan(known) else f"; the others: {known:.1f} %"
        reason = f"{overall['unknown']:.1f} % of the {what} hold <unk>{others}"
        numbers.not_computed.update(dict.fromkeys(compared, reason))
    return numbers


def _name(label: str) -> str:
    """The name of a phenomenon or circuit in a column key: lower case, with underscores."""
    return label.lower().replace(" ", "_").replace("-", "_")
