"""What is measured of systems that have learnt the small language of `depgen.data.generated`."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from depgen.data.generated import Grammar
from depgen.evaluation.minimal_pairs import PairOptions, minimal_pairs
from depgen.evaluation.over_trees import ScoresTrees
from depgen.evaluation.system import System, load
from depgen.language_models.document import DocumentLanguageModel
from depgen.language_models.masked import MaskedLanguageModel
from depgen.reporting.measures import Measure, Numbers, TrainedRow
from depgen.reporting.measures.texts import generated


class SmallLanguage(Measure):
    """Accuracy on minimal pairs, and how many of the texts that a system writes are grammatical, per cent.

    `agreement`, `agreement_<nouns between>`, `reflexive`, …; of document models `pronoun`, whose two contexts differ;
    and of systems that write `grammatical`, see `grammatical_share`.
    """

    needs = "samples"

    def measure(self, row: TrainedRow) -> Numbers:
        """The accuracies and shares that the row's system can have."""
        system, numbers = load(str(row.trained.run)), Numbers()
        if isinstance(system.model, DocumentLanguageModel):
            numbers.add(_accuracies(system, "generated_contexts", row.job.row.beam_size))
            return numbers
        writes_alone = isinstance(system.model, ScoresTrees)
        if not writes_alone:
            numbers.add(_accuracies(system, "generated", row.job.row.beam_size))
        if not isinstance(system.model, MaskedLanguageModel):
            texts = [text.split() for text in generated(row)["text"]]
            lengths = [len(document.sentences[0]) for document in row.corpus.documents("test")]
            numbers.metrics["grammatical"] = grammatical_share(texts, lengths)
        return numbers


def _accuracies(system: System, pairs: str, beam_size: int | None) -> Numbers:
    found = minimal_pairs(system, PairOptions(pairs=Path(pairs), beam_size=beam_size))
    rows = found.rows[found.rows["level"] != "overall"]
    return Numbers({row["name"].replace(" ", "_"): row["accuracy"] for row in rows.to_dict("records")})


def grammatical_share(texts: Sequence[Sequence[str]], lengths: Sequence[int]) -> float:
    """The share of texts that the grammar derives, per cent, weighed so that lengths are as frequent as in real text.

    A system that writes short texts only would be right more often. Lengths of which it writes no text count as the
    others do on average.

    Args:
        texts: the words of each text.
        lengths: those of real sentences.

    >>> grammatical_share([["the", "king", "sleeps", "."], ["he", "."], ["she", "."]], [4, 4, 2, 9])
    66.66666666666667
    """
    grammar, real = Grammar(), Counter(lengths)
    right = dict[int, list[bool]]()
    for words in texts:
        right.setdefault(len(words), []).append(bool(np.isfinite(grammar.log_prob(words))))
    weights = {length: real[length] for length in right if real[length]}
    total = sum(weights.values())
    return 100 * sum(weight * float(np.mean(right[length])) for length, weight in weights.items()) / total
