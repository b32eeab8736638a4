"""`depgen minimal-pairs`: how often a system finds a grammatical sentence likelier than an ungrammatical one."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from depgen.evaluation.frames import Row
from depgen.evaluation.syntax.answers import MOST_UNKNOWN, Answers, BenchmarkOptions
from depgen.evaluation.syntax.pairs import Pair, pairs_of_protocol, read_pairs
from depgen.evaluation.syntax.sentences import (
    Protocol,
    ScoredSentence,
    score_sentences,
)
from depgen.evaluation.system import System
from depgen.evaluation.text_documents import Tokens
from depgen.evaluation.unit_scores import as_words, beam_of

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ScoredPair:
    """A pair with the scores of both sentences.

    Attributes:
        pair: the sentences.
        good: the score of the grammatical one.
        bad: the score of the other.
        with_end: whether a sentence's end counts.
    """

    pair: Pair
    good: ScoredSentence
    bad: ScoredSentence
    with_end: bool

    @property
    def log_probs(self) -> tuple[float, float]:
        """Nats of the good and the bad sentence."""
        return self.good.log_prob(with_end=self.with_end), self.bad.log_prob(with_end=self.with_end)

    @property
    def means(self) -> tuple[float, float]:
        """Nats a token."""
        lengths = (each.length(with_end=self.with_end) for each in (self.good, self.bad))
        good, bad = (nats / length for nats, length in zip(self.log_probs, lengths, strict=True))
        return good, bad

    @property
    def is_right(self) -> bool:
        """Whether the good sentence is likelier; ties are wrong."""
        return self.log_probs[0] > self.log_probs[1]

    @property
    def is_right_by_token(self) -> bool:
        """The same of nats a token."""
        return self.means[0] > self.means[1]

    @property
    def is_identical(self) -> bool:
        """Whether the system reads the same tokens twice, so that the pair is a tie."""
        return self.good.ids == self.bad.ids

    @property
    def has_unknown(self) -> bool:
        """Whether there is an `<unk>` in one of the sentences."""
        return bool(self.good.unknown.any() or self.bad.unknown.any())

    def row(self) -> Row:
        """The pair as an item, with further fields of its file; one that has the name of a score is left out."""
        good, bad = self.log_probs
        found = {
            "phenomenon": self.pair.phenomenon,
            "paradigm": self.pair.paradigm,
            "id": self.pair.identifier,
            "good": self.pair.good.text,
            "bad": self.pair.bad.text,
            "log_prob_good": good,
            "log_prob_bad": bad,
            "tokens_good": self.good.length(with_end=self.with_end),
            "tokens_bad": self.bad.length(with_end=self.with_end),
            "right": self.is_right,
            "right_by_token": self.is_right_by_token,
            "unknown": self.has_unknown,
            "identical": self.is_identical,
        }
        return {**found, **{name: value for name, value in self.pair.fields.items() if name not in found}}


@dataclass(frozen=True)
class PairScores(Answers[ScoredPair]):
    """A system's answers to minimal pairs."""

    def rows(self) -> list[Row]:
        """A row for each paradigm, each phenomenon and all: numbers of pairs, the rest per cent.

        A phenomenon's accuracies are the means of its paradigms', and the overall ones those of all paradigms. `chance`
        is that of random scores, with which identical pairs tie. A row with more than 20 % of pairs with `<unk>` is not
        `decided`.
        """
        grouped: dict[tuple[str, str], list[ScoredPair]] = {}
        for item in self.items:
            grouped.setdefault((item.pair.phenomenon, item.pair.paradigm), []).append(item)
        paradigms = {key: _measures(items) for key, items in sorted(grouped.items())}
        rows: list[Row] = []
        for phenomenon in dict.fromkeys(phenomenon for phenomenon, _ in paradigms):
            own = {key: each for key, each in paradigms.items() if key[0] == phenomenon}
            rows += [self._row("paradigm", name, [each]) for (_, name), each in own.items()]
            rows.append(self._row("phenomenon", phenomenon, list(own.values())))
        return [*rows, self._row("overall", "all", list(paradigms.values()))]

    def _row(self, level: str, name: str, paradigms: Sequence[Mapping[str, float]]) -> Row:
        """The sums of the counts and the means of the accuracies of paradigms."""
        found: Row = {"level": level, "name": name}
        for measure in paradigms[0]:
            values = [each[measure] for each in paradigms]
            if measure in ("pairs", "known_pairs", "identical"):
                found[measure] = sum(values)
            else:
                defined = [value for value in values if not np.isnan(value)]
                found[measure] = float(np.mean(defined)) if defined else None
        return self.finished(found, "pairs")


def _measures(items: Sequence[ScoredPair]) -> dict[str, float]:
    """Of a paradigm's pairs: counts, and accuracies per cent; nan where there is no pair to count."""
    known = [item for item in items if not item.has_unknown]
    identical = sum(item.is_identical for item in items)
    return {
        "pairs": len(items),
        "accuracy": 100 * float(np.mean([item.is_right for item in items])),
        "accuracy_by_token": 100 * float(np.mean([item.is_right_by_token for item in items])),
        "chance": 50 * (1 - identical / len(items)),
        "identical": identical,
        "known_pairs": len(known),
        "known_accuracy": 100 * float(np.mean([item.is_right for item in known])) if known else np.nan,
    }


def score_pairs(
    system: System,
    pairs: list[Pair],
    *,
    protocol: Protocol = "plain",
    tokens: Tokens = "rules",
    beam_size: int | None = None,
    tokens_per_batch: int | None = None,
    progress: bool = False,
) -> PairScores:
    """A system's answers to minimal pairs.

    Args:
        system: gives texts a likelihood.
        pairs: by `read_pairs`.
        protocol: see `minimal_pairs`.
        tokens: words are separated by white space, or by rules for English.
        beam_size: see `depgen.evaluation.system.System.score`.
        tokens_per_batch: scored at once, padding included; no score depends on it.
        progress: show a progress bar.

    Raises:
        UserError: the system gives texts no likelihood, or can't read a sentence.
    """
    chosen = pairs_of_protocol(pairs, protocol)
    sentences = [sentence for pair in chosen for sentence in (pair.good, pair.bad)]
    with beam_of(system.model, beam_size) as size:
        scores = score_sentences(system, sentences, tokens=tokens, tokens_per_batch=tokens_per_batch, progress=progress)
    items = [
        ScoredPair(pair, scores[2 * place], scores[2 * place + 1], protocol == "plain")
        for place, pair in enumerate(chosen)
    ]
    return PairScores(tuple(items), protocol, system.model.likelihood, size)


def minimal_pairs(
    file: Path | None = None,
    *,
    protocol: Protocol = "plain",
    item_output: Path | None = None,
    options: BenchmarkOptions = BenchmarkOptions(),  # noqa: B008 - frozen
) -> Iterator[str] | None:
    """How often a system finds the grammatical sentence of a pair likelier, per cent; tab-separated.

    A row for each paradigm, each phenomenon (the mean of its paradigms) and all (the mean of all paradigms). Ties are
    wrong. `accuracy` compares summed log-probabilities, `accuracy_by_token` those divided by the number of tokens.

    Args:
        file: JSON lines or a table (`.tsv`, `.csv`) with `sentence_good` and `sentence_bad`, or a folder of such files;
            by default BLiMP in `$DEPGEN_DATA/blimp`. `UID` or `paradigm`, `linguistics_term` or `phenomenon`, and
            `pairID` or `id` may be there too. `.gz` is unpacked.
        protocol: `plain`, all pairs, with the end of the sentence; or `paper`, that of GiLT: every tenth pair of each
            paradigm, final punctuation cut off as a word and scored, the end of the sentence not.
        item_output: a file for the scores of each pair, as JSON lines, with further fields or columns of `file`.
        options: those of both benchmarks.

    Raises:
        UserError: no such file, run or column, an empty sentence, or a system without likelihood.
    """
    options.check_outputs(item_output)
    pairs = read_pairs(file)
    system = options.system()
    found = score_pairs(system, pairs, **options.scoring(protocol, system))
    rows = found.rows()
    _report(rows[-1], system)
    return options.written(found, rows, item_output)


def _report(overall: Row, system: System) -> None:
    logger.info(
        "%d pairs, %s log-likelihood%s, protocol %s: %.1f %% right (mean of paradigms), %.1f %% a token. Scored by %s.",
        overall["pairs"], overall["likelihood"], as_words(overall["beam_size"]), overall["protocol"],
        overall["accuracy"], overall["accuracy_by_token"], system.checkpoint,
    )  # fmt: skip
    if not overall["decided"]:
        logger.warning(
            "%.1f %% of the pairs hold <unk>, more than %.0f %%: the accuracy decides nothing between systems. Take a "
            "run with a subword vocabulary.", overall["unknown"], 100 * MOST_UNKNOWN,
        )  # fmt: skip
