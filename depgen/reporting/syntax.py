"""How often a row's system prefers the grammatical sentence, as `depgen minimal-pairs` and `syntactic-suites` do."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from depgen.evaluation.loading import load_run
from depgen.evaluation.syntax.minimal_pairs import score_pairs
from depgen.evaluation.syntax.pairs import read_pairs
from depgen.evaluation.syntax.sentences import Protocol, usual_tokens
from depgen.evaluation.syntax.suites import read_suites
from depgen.evaluation.syntax.syntactic_suites import score_suites
from depgen.evaluation.system import System
from depgen.reporting.numbers import Numbers
from depgen.reporting.results import BOUND

MEASURES = {"accuracy": "", "accuracy_by_token": "_by_token", "chance": "_chance", "accuracy_5gram": "_5gram"}
"""The columns of a benchmark, by the measure of its overall row."""


def measure_pairs(run: Path, *, protocol: Protocol, beam_size: int | None, five_gram: bool) -> Numbers:
    """Accuracy on BLiMP, per cent: `blimp`, and `blimp_<phenomenon>`; an item is a pair, 1 where it is right."""
    system = load_run(str(run))
    found = score_pairs(
        system, read_pairs(None), protocol=protocol, tokens=usual_tokens(protocol, None), five_gram=five_gram,
        beam_size=_beam(system, beam_size),
    )  # fmt: skip
    rows = found.rows()
    right = np.array([item.is_right for item in found.items], dtype=np.float64)
    parts = {f"blimp_{_name(row['name'])}": row["accuracy"] for row in rows if row["level"] == "phenomenon"}
    return _numbers("blimp", rows[-1], parts, right, what="pairs", bound=bound_in_words(found.beam_size))


def measure_suites(run: Path, *, protocol: Protocol, beam_size: int | None, five_gram: bool) -> Numbers:
    """Accuracy on SyntaxGym's suites, per cent: `suites`, and `suites_<circuit>`; an item is one of a suite.

    Its score is the share of its predictions that hold.
    """
    system = load_run(str(run))
    found = score_suites(
        system, read_suites(None), protocol=protocol, tokens=usual_tokens(protocol, None), five_gram=five_gram,
        beam_size=_beam(system, beam_size),
    )  # fmt: skip
    rows = found.rows()
    holds = np.array([np.mean(item.holds) for item in found.items])
    parts = {f"suites_{_name(row['name'])}": row["accuracy"] for row in rows if row["level"] == "circuit"}
    return _numbers("suites", rows[-1], parts, holds, what="items", bound=bound_in_words(found.beam_size))


MEASURED = {"blimp": measure_pairs, "suites": measure_suites}
"""What measures a benchmark, by the name of its column."""


def _beam(system: System, beam_size: int | None) -> int | None:
    """The size of the beam, of systems whose scores are bounds."""
    return beam_size if system.model.likelihood == "bound" else None


def bound_in_words(beam_size: int | None) -> str | None:
    """How far a search goes whose scores are bounds; None for other scores."""
    if beam_size is None:
        return None
    return f"lower bounds of log-likelihoods, over {beam_size} hypothes{'is' if beam_size == 1 else 'es'}"


def _numbers(
    key: str,
    overall: Mapping[str, Any],
    parts: Mapping[str, float],
    items: np.ndarray,
    *,
    what: str,
    bound: str | None,
) -> Numbers:
    """The columns of a benchmark; none of accuracy where too many of its items hold `<unk>`, but the 5-gram model's."""
    found = Numbers()
    if bound is not None:
        found.settings[key + BOUND] = bound
    # bounds are the systems' own scores of texts, and compare with exact ones; pseudo-likelihoods do not
    kind = "pseudo-log-likelihood" if overall["likelihood"] == "pseudo" else "log-likelihood"
    setting = f"protocol {overall['protocol']}, {kind}"
    accuracies = {key + end: overall[name] for name, end in MEASURES.items() if overall.get(name) is not None}
    floor = {name: value for name, value in accuracies.items() if name == f"{key}_5gram"}
    found.metrics.update({f"{key}_unknown": overall["unknown"], f"{key}_chance": overall["chance"], **floor})
    if not overall["decided"]:
        known = overall["known_accuracy"]
        others = "" if known is None else f"; the others: {known:.1f} %"
        reason = f"{overall['unknown']:.1f} % of the {what} hold <unk>{others}"
        found.not_computed.update(dict.fromkeys(_compared(accuracies | dict(parts), key), reason))
        return found
    found.metrics.update({**accuracies, **parts})
    found.items[key] = items
    found.settings.update(dict.fromkeys(_compared(found.metrics, key), setting))
    return found


def _compared(names: Iterable[str], key: str) -> list[str]:
    """The columns that depend on the system's scores."""
    return [name for name in names if name not in (f"{key}_unknown", f"{key}_chance", f"{key}_5gram")]


def _name(label: str) -> str:
    """The name of a phenomenon or circuit in a column key: lower case, with underscores."""
    return label.lower().replace(" ", "_").replace("-", "_")
