"""Accuracies on benchmarks of syntax: minimal pairs (BLiMP) and suites of predictions about surprisals (SyntaxGym)."""

import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from depgen.errors import UserError
from depgen.evaluation.encoded_text import TextEncoder
from depgen.evaluation.frames import json_ready
from depgen.evaluation.measure import Measured, ScoringOptions
from depgen.evaluation.scores import score_words
from depgen.evaluation.syntax.chance import chance_of
from depgen.evaluation.syntax.formulas import Formula, Region
from depgen.evaluation.syntax.pairs import TestSentence, pairs_of_protocol, read_pairs
from depgen.evaluation.syntax.suites import CIRCUITS, OTHER, Item, Suite, read_suites
from depgen.evaluation.text_documents import Tokens, document_of
from depgen.evaluation.unit_scores import beam_of

if TYPE_CHECKING:
    from depgen.evaluation.system import System

logger = logging.getLogger(__name__)

Protocol = Literal["plain", "paper"]
"""`paper`: that of the GiLT paper; `plain`: whole sentences, all pairs and all predictions."""
MOST_UNKNOWN = 20.0
"""The largest share of pairs or items with `<unk>`, per cent, at which a score still decides between systems."""
COUNTS = {"pairs", "items", "identical", "unread", "known_pairs", "known_items"}
"""Of several paradigms or suites these are summed, and all else is averaged."""


# -- minimal pairs ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PairOptions(ScoringOptions):
    """The options of `minimal-pairs`, beside those of all scores.

    Attributes:
        pairs: JSON lines or a table (`.tsv`, `.csv`) with `sentence_good` and `sentence_bad`, or a folder of such
            files; by default BLiMP in `$DEPGEN_DATA/blimp`. `UID` or `paradigm`, `linguistics_term` or `phenomenon`,
            and `pairID` or `id` may be there too. `.gz` is unpacked.
        protocol: `plain`: all pairs or predictions, with the end of the sentence; or `paper`, that of GiLT: every tenth
            pair of each paradigm, final punctuation cut off as a word and scored, the end of the sentence not; of
            suites the first prediction alone, a final stop after every sentence, and none outside the six circuits.
    """

    pairs: Path | None = None
    protocol: Protocol = "plain"


def minimal_pairs(system: "System", options: PairOptions = PairOptions()) -> Measured:
    """How often a system finds the grammatical sentence of a pair likelier, per cent.

    An item is a pair. A row for each paradigm, each phenomenon (the mean of its paradigms) and all (the mean of all
    paradigms). Ties are wrong. `accuracy` compares summed log-probabilities, `accuracy_by_token` those divided by the
    number of tokens. `chance` is the accuracy of random scores, with which identical pairs tie; a row with more than
    20 % of pairs with `<unk>` is not `decided`.

    Raises:
        UserError: no such file or column, an empty sentence, a system without likelihood, or one that can't read a
            sentence.
    """
    protocol = options.protocol
    chosen = pairs_of_protocol(read_pairs(options.pairs), protocol)
    sentences = [sentence for pair in chosen for sentence in (pair.good, pair.bad)]
    words, ids, beam = _score(system, sentences, options, protocol)
    if protocol == "paper":
        words = words[~words["is_end"]]
    by_sentence = words.groupby("document").agg({"log_prob": "sum", "tokens": "sum", "unknown": "any"})
    good, bad = (by_sentence[side::2].reset_index(drop=True) for side in (0, 1))
    unknown = good["unknown"] | bad["unknown"]
    right = good["log_prob"] > bad["log_prob"]
    items = pd.DataFrame(
        {
            "phenomenon": [pair.phenomenon for pair in chosen],
            "paradigm": [pair.paradigm for pair in chosen],
            "id": [pair.identifier for pair in chosen],
            "good": [pair.good.text for pair in chosen],
            "bad": [pair.bad.text for pair in chosen],
            "log_prob_good": good["log_prob"],
            "log_prob_bad": bad["log_prob"],
            "tokens_good": good["tokens"],
            "tokens_bad": bad["tokens"],
            "right": right,
            "right_by_token": good["log_prob"] / good["tokens"] > bad["log_prob"] / bad["tokens"],
            "unknown": unknown,
            "identical": [one == other for one, other in zip(ids[::2], ids[1::2], strict=True)],
        }
    )
    fields = pd.DataFrame([pair.fields for pair in chosen], dtype=object)
    items = items.join(fields[fields.columns.difference(items.columns, sort=False)])
    counted = items.assign(
        pairs=1, accuracy=100.0 * right, accuracy_by_token=100.0 * items["right_by_token"],
        chance=50.0 * ~items["identical"], known_pairs=~unknown, known_accuracy=(100.0 * right).mask(unknown),
    )  # fmt: skip
    measures = ["pairs", "accuracy", "accuracy_by_token", "chance", "identical", "known_pairs", "known_accuracy"]
    paradigms = _of_groups(counted, ["phenomenon", "paradigm"], measures).sort_index()
    rows = []
    for phenomenon, own in paradigms.groupby("phenomenon"):
        rows += [{"level": "paradigm", "name": name, **each} for (_, name), each in own.to_dict("index").items()]
        rows.append({"level": "phenomenon", "name": phenomenon, **_combined(own)})
    rows.append({"level": "overall", "name": "all", **_combined(paradigms)})
    return _finished(items, rows, "pairs", protocol, system, beam)


# -- suites of predictions --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SuiteOptions(ScoringOptions):
    """The options of `syntactic-suites`, beside those of all scores.

    Attributes:
        suites: a suite as JSON, or a folder of suites; by default those of Hu et al. (2020) in
            `$DEPGEN_DATA/syntaxgym`.
        protocol: see `PairOptions`.
    """

    suites: Path | None = None
    protocol: Protocol = "plain"


def syntactic_suites(system: "System", options: SuiteOptions = SuiteOptions()) -> Measured:
    """How often predictions of SyntaxGym's suites hold of a system's surprisals, per cent.

    An item is one of a suite: whether each prediction `holds`, whether an `<unk>` is in a critical region (one that a
    prediction names), whether one is `unread`, and the `surprisals` of all regions by condition, nats. The surprisal of
    a region is the sum over its tokens, or the mean if the suite says so.

    The accuracy of a suite is the share of its items' predictions that hold; a suite with several predictions has a row
    for each too. A circuit's is the mean of its suites', and the overall one the mean of the circuits, without suites
    of `other` names; of several suites that are all of such names, it is their mean. `chance` is that of random
    surprisals.

    Raises:
        UserError: no such file, a suite that is not as it should be, or a system without likelihood.
    """
    protocol, suites = options.protocol, read_suites(options.suites)
    if protocol == "paper":
        suites = [suite for suite in suites if suite.circuit != OTHER] or suites
    stop = " ." if protocol == "paper" else ""
    conditions = [(suite, item, name) for suite in suites for item in suite.items for name in item.conditions]
    texts = [item.conditions[name] for _, item, name in conditions]
    sentences = [TestSentence(each.place, each.text + stop) for each in texts]
    words, _, beam = _score(system, sentences, options, protocol)
    regions = iter(_by_region(words, [each.spans for each in texts]))
    items, long = list[dict[str, Any]](), list[dict[str, Any]]()
    for suite in suites:
        predictions = suite.predictions[:1] if protocol == "paper" else suite.predictions
        for item in suite.items:
            own = {name: next(regions) for name in item.conditions}
            row, outcomes = _answered(suite, item, predictions, own)
            items.append(row)
            long += outcomes
    if unread := sum(item["unread"] for item in items):
        logger.warning(
            "%d items have a critical region of which the system reads no word in the form `%s`: its surprisal is 0. "
            "Name another form by --form.", unread, system.reading.known_form,
        )  # fmt: skip
    return _finished(pd.DataFrame(items), _suite_rows(pd.DataFrame(long)), "items", protocol, system, beam)


def _by_region(words: pd.DataFrame, spans: Sequence[Mapping[int, tuple[int, int]]]) -> Iterator[pd.DataFrame]:
    """For each sentence the tokens, the surprisal and whether there is an `<unk>`, by the number of each region.

    A word belongs to the region that holds its first character; one after the last region, such as a stop that is
    added, and the end, to none.
    """
    words = words[~words["is_end"]]
    sentences = dict(iter(words.groupby("document")))
    for number, regions in enumerate(spans, start=1):
        own, rows = sentences[number], {}
        starts = own["start"].to_numpy()
        for region, (first, last) in regions.items():
            read = own[(starts >= first) & (starts < last)]
            rows[region] = (read["tokens"].sum(), -read["log_prob"].sum(), read["unknown"].any())
        yield pd.DataFrame.from_dict(rows, "index", columns=["tokens", "surprisal", "unknown"])


def _answered(
    suite: Suite, item: Item, predictions: Sequence[Formula], regions: Mapping[str, pd.DataFrame]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """An item's row, and a row for each of its predictions."""
    if suite.metric == "mean":
        regions = {
            name: each.assign(surprisal=each["surprisal"] / each["tokens"].clip(lower=1))
            for name, each in regions.items()
        }

    def surprisal(region: Region) -> float:
        values = regions[region.condition]["surprisal"]
        return float(values.sum(skipna=False) if region.number is None else values[region.number])

    critical = list(dict.fromkeys(region for formula in predictions for region in formula.regions))
    empty = frozenset(each for each in critical if item.conditions[each.condition].is_empty(each))
    unknown = any(_has_unknown(regions, each) for each in critical)
    unread = any(
        each.number is not None and each not in empty and regions[each.condition]["tokens"][each.number] == 0
        for each in critical
    )
    holds = [bool(each.holds(surprisal)) for each in predictions]
    parts = int(sum(first < last for first, last in next(iter(item.conditions.values())).spans.values()))
    surprisals = {
        name: json_ready({str(number): value for number, value in each["surprisal"].items()})
        for name, each in regions.items()
    }
    row = {
        "circuit": suite.circuit, "suite": suite.name, "item": item.number, "holds": holds, "unknown": unknown,
        "unread": unread, "surprisals": surprisals,
    }  # fmt: skip
    outcomes = [
        {
            "circuit": suite.circuit, "suite": suite.name, "prediction": place, "items": 1, "accuracy": 100.0 * held,
            "chance": 100 * chance_of(formula, empty=empty, parts=parts), "unread": unread, "known_items": not unknown,
            "known_accuracy": np.nan if unknown else 100.0 * held,
        }
        for place, (formula, held) in enumerate(zip(predictions, holds, strict=True))
    ]  # fmt: skip
    return row, outcomes


def _has_unknown(regions: Mapping[str, pd.DataFrame], region: Region) -> bool:
    unknown = regions[region.condition]["unknown"]
    return bool(unknown.any() if region.number is None else unknown[region.number])


def _suite_rows(outcomes: pd.DataFrame) -> list[dict[str, Any]]:
    """A row for each suite, prediction and circuit, and overall, from a row for each item's prediction."""
    measures = ["items", "accuracy", "chance", "unread", "known_items", "known_accuracy"]
    by_prediction = _of_groups(outcomes, ["circuit", "suite", "prediction"], measures)
    means = by_prediction.groupby(["circuit", "suite"], sort=False).mean()
    rows, circuits = list[dict[str, Any]](), dict[str, pd.DataFrame]()
    for circuit in (*CIRCUITS, OTHER):
        if circuit not in means.index.get_level_values("circuit"):
            continue
        circuits[circuit] = suites = means.loc[circuit]
        for suite, mean in suites.iterrows():
            rows.append({"level": "suite", "name": suite, **mean})
            parts = by_prediction.loc[circuit, suite]
            if len(parts) > 1:
                rows += [
                    {"level": "prediction", "name": f"{suite}:{place}", **part} for place, part in parts.iterrows()
                ]
        if circuit != OTHER:
            rows.append({"level": "circuit", "name": circuit, **_combined(suites)})
    whole = [row for row in rows if row["level"] == "circuit"]
    name = f"{len(whole)} circuits"
    if not whole and len(circuits.get(OTHER, ())) > 1:
        whole, name = [row for row in rows if row["level"] == "suite"], f"{len(circuits[OTHER])} suites"
    if whole:
        rows.append({"level": "overall", "name": name, **_combined(pd.DataFrame(whole)[measures])})
    return rows


# -- both -------------------------------------------------------------------------------------------------------------


def _score(
    system: "System", sentences: Sequence[TestSentence], options: ScoringOptions, protocol: Protocol
) -> tuple[pd.DataFrame, list[tuple[int, ...]], int | None]:
    """The words of sentences, each read by itself, as `score_words` gives them; their token ids, and the beam.

    Raises:
        UserError: the system gives texts no likelihood, can't read a sentence, reads none of its words, or gives a word
            a score that is no number.
    """
    usual: Tokens = "rules" if protocol == "plain" and system.checkpoint != system.run else "whitespace"
    tokens = options.tokens or usual
    encoder = TextEncoder(system, system.reads_documents())
    documents = [replace(document_of(each.text, tokens=tokens), places=(each.place,)) for each in sentences]
    ids = [tuple(found[0].encoding.ids.tolist()) if (found := encoder.sentences(each)) else () for each in documents]
    for sentence, own in zip(sentences, ids, strict=True):
        if not own:
            raise UserError(
                f"{sentence.place}: the system reads no word of {sentence.text!r} in the form "
                f"`{system.reading.known_form}`: name another by --form, or leave the sentence out."
            )
    with beam_of(system.model, options.beam_size) as beam:
        words = score_words(encoder, documents, tokens_per_batch=options.tokens_per_batch, progress=sys.stderr.isatty())
    wrong = words.loc[(words["tokens"] > 0) & words["log_prob"].isna(), "document"]
    if len(wrong):
        raise UserError(
            f"{sentences[wrong.iloc[0] - 1].place}: expected log-probabilities, found nan: the system's weights are "
            "damaged. Take another checkpoint of the run."
        )
    return words, ids, beam


def _of_groups(table: pd.DataFrame, by: Sequence[str], measures: Sequence[str]) -> pd.DataFrame:
    """The sums of the counts and the means of the accuracies of each group."""
    return table.groupby(list(by), sort=False).agg({name: "sum" if name in COUNTS else "mean" for name in measures})


def _combined(table: pd.DataFrame) -> dict[str, float]:
    """The same of a whole table."""
    return {str(name): table[name].sum() if name in COUNTS else table[name].mean() for name in table}


def _finished(
    items: pd.DataFrame,
    rows: Sequence[Mapping[str, Any]],
    counted: str,
    protocol: Protocol,
    system: "System",
    beam_size: int | None,
) -> Measured:
    """Items and rows, these with the share of `<unk>`, whether it decides, and how the scores came about."""
    table = pd.DataFrame(rows)
    counts = table.columns.intersection(list(COUNTS))
    table[counts] = table[counts].astype(int)
    unknown = 100 * (table[counted] - table[f"known_{counted}"]) / table[counted]
    if unknown.iloc[-1] > MOST_UNKNOWN:
        logger.warning(
            "%.1f %% of the %s hold <unk>, more than %.0f %%: the accuracy decides nothing between systems. Take a "
            "run with a subword vocabulary.", unknown.iloc[-1], counted, MOST_UNKNOWN,
        )  # fmt: skip
    table = table.assign(
        unknown=unknown, decided=unknown <= MOST_UNKNOWN, protocol=protocol, likelihood=system.model.likelihood,
        beam_size=beam_size,
    )  # fmt: skip
    return Measured(items, table)
