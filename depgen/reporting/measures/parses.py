"""What a row's trees and attention heads are worth against a treebank, and the floors of such trees."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

import numpy as np

from depgen.data.corpus import Corpus, Split
from depgen.errors import UserError
from depgen.evaluation.reading import in_form
from depgen.evaluation.trained import Trained, load_trained
from depgen.evaluation.trees.correlations import Direction, correlations_of, sentences_with_relations
from depgen.evaluation.trees.head_networks import network_of
from depgen.evaluation.trees.parsing import floors, parses_by, score_parser, sentences_with_trees
from depgen.metrics.induction import InductionCounts, induction_counts
from depgen.reporting.experiments import experiment_file, settings_as
from depgen.reporting.jobs import Job
from depgen.reporting.numbers import Measure, Numbers, TrainedRow

DECODINGS = {"argmax": "argmax", "tree": "tree", "own": "own rule"}
"""How columns and `depgen parsing-scores` call what heads are decoded by; few systems have a rule of their own."""
WORDS = "parsed_words"
"""The name of the items' numbers of words, by which accuracies of sentences are weighed."""
_OF_THE_VERB = ("run", "resamples", "tokens_per_batch", "device", "json")
"""Options of `depgen parsing-scores` that move no figure of a table."""


@dataclass(frozen=True)
class ParsedTreebank:
    """What `experiments/parsing_*.yaml` and `correlations_*.yaml` say.

    Attributes:
        corpus: sentences with trees.
        split: of it.
        splits: of it, taken together, in place of a single one.
        choose_on: the splits by which a masked Transformer gets the attention head that it parses by.
        max_words: longer sentences are left out; None leaves none out.
        seeds: how many random trees of each sentence the floor is over.
    """

    corpus: Corpus
    split: Split = "test"
    splits: tuple[Split, ...] = ()
    choose_on: tuple[Split, ...] = ("valid",)
    max_words: int | None = None
    seeds: int = 5

    def __post_init__(self) -> None:
        object.__setattr__(self, "splits", self.splits or (self.split,))


def treebank_of(name: str) -> ParsedTreebank:
    """The treebank or text that a table is judged by.

    Raises:
        UserError: the YAML is not there, does not read as one, or its corpus or splits are refused.
    """
    return settings_as(ParsedTreebank, name, drop=_OF_THE_VERB)


def treebank_of_table(job: Job) -> ParsedTreebank:
    """The treebank that the rows of a job's table are judged by, its floors among them."""
    assert job.definition.parsing is not None
    return treebank_of(job.definition.parsing)


def _read_by(trained: Trained, treebank: ParsedTreebank) -> ParsedTreebank:
    """The treebank in the form of the text that a run has learnt from."""
    return replace(treebank, corpus=in_form(treebank.corpus, trained.reading))


class Trees(Measure):
    """DDA and UDA of a run's trees by each decoding, per cent."""

    needs = "parsing"

    def measure(self, row: TrainedRow) -> Numbers:
        """The accuracies, and the share of unknown words."""
        return measure_trees(row.job, [row.trained.run])


def measure_trees(job: Job, runs: Sequence[Path]) -> Numbers:
    """DDA and UDA of a run's trees against the table's treebank by each decoding, and the share of unknown words.

    All are per cent. Of several runs, those of their consensus.
    """
    systems = [load_trained(each) for each in runs]
    network, treebank = network_of(systems), _read_by(systems[0], treebank_of_table(job))
    chosen = [
        parses_by(each, treebank.corpus, choose_on=treebank.choose_on, splits=treebank.splits) for each in systems
    ]
    sentences = sentences_with_trees(treebank.corpus, treebank.splits, max_words=treebank.max_words)
    scores = score_parser(network, systems[0].vocabulary, sentences, resamples=1)
    found, keys = Numbers(), {column.key for column in job.definition.columns}
    for decoding, called in DECODINGS.items():
        if called in scores.counts:
            _add(found, decoding, scores.counts[called], _judged_by(treebank, scores.sentences))
        else:
            lacking = keys & {f"{measure}_{decoding}" for measure in ("dda", "uda")}
            found.not_computed.update(dict.fromkeys(lacking, f"the system has no {called}"))
    found.metrics["unknown_words"] = 100 * scores.unknown_words
    found.settings.update({name: "; ".join(each[name] for each in chosen) for name in chosen[0]})
    return found


def measure_floor(job: Job) -> Numbers:
    """DDA and UDA of a floor's rule, the same under every decoding; of random trees, the mean over seeds."""
    assert job.row.floor is not None
    treebank = treebank_of_table(job)
    rules = floors(treebank.seeds)
    if job.row.floor not in rules:
        raise UserError(f"{job.row.floor!r} is no floor; there are {', '.join(rules)}.")
    sentences = sentences_with_trees(treebank.corpus, treebank.splits, max_words=treebank.max_words)
    gold = [sentence.heads or () for sentence in sentences]
    drawn = [
        induction_counts([sentence.heads or () for sentence in annotator.annotate(sentences)], gold)
        for annotator in rules[job.row.floor]
    ]
    found = Numbers()
    for decoding in DECODINGS:
        _add(found, decoding, drawn, _judged_by(treebank, len(sentences)))
    return found


class Correlations(Measure):
    """The best attention head's correlation with each relation, in both directions, before the mask between words.

    Args:
        treebank: the YAML in `experiments/` (without its ending) that `depgen head-correlations` reads.
    """

    def __init__(self, treebank: str) -> None:
        self.treebank = treebank

    def measure(self, row: TrainedRow) -> Numbers:
        """A correlation a direction and relation."""
        trained = load_trained(row.trained.run)
        treebank = _read_by(trained, treebank_of(self.treebank))
        if len(treebank.splits) != 1:
            raise UserError(
                f"{experiment_file(self.treebank)}: expected one split, found {', '.join(treebank.splits)}."
            )
        sentences = sentences_with_relations(treebank.corpus, treebank.splits[0])
        found = correlations_of(trained, sentences)
        numbers = Numbers()
        for direction in get_args(Direction):
            best = found.of(direction).flatten(0, 1).amax(0)
            for relation, value in zip(found.relations, best.tolist(), strict=True):
                key = f"{direction}_{relation}"
                numbers.metrics[key] = value
                numbers.settings[key] = _judged_by(treebank, len(sentences))
        for column in row.job.definition.ours:
            direction, _, relation = column.key.rpartition("_")
            if direction in get_args(Direction) and relation not in found.relations:
                numbers.not_computed[column.key] = f"{treebank.corpus.name} has no such relation"
        return numbers


def _judged_by(treebank: ParsedTreebank, sentences: int) -> str:
    return f"{treebank.corpus.name}, {'+'.join(treebank.splits)}, {sentences:,} sentences"


def _add(found: Numbers, decoding: str, drawn: Sequence[InductionCounts], judge: str) -> None:
    """Percentages over all words, those of each sentence, and its words; means over what there is of them."""
    words = drawn[0].words.astype(np.float64)
    for kind, name in (("directed", "dda"), ("undirected", "uda")):
        right = np.mean([getattr(each, kind) for each in drawn], 0)
        key = f"{name}_{decoding}"
        found.metrics[key] = float(100 * right.sum() / words.sum())
        found.items[key] = 100 * right / words
        found.settings[key] = judge
    found.items[WORDS] = words
