"""Samples of a row's texts at several temperatures: curves of quality against diversity."""

from functools import lru_cache
from typing import Any

import numpy as np

from depgen.data.corpus import Split
from depgen.evaluation.text.samples import moses_texts, sample_scores, texts_of_documents
from depgen.metrics.pooled_bleu import ReferencePool
from depgen.reporting.numbers import Numbers, TrainedRow
from depgen.reporting.texts import generate

SAMPLED = ("valid_bleu", "valid_bleu_sd", "test_bleu", "test_bleu_sd", "self_bleu", "self_bleu_sd")
MATCHED = "test_bleu_matched"
"""Test BLEU-5 where Self-BLEU-5 is that of the validation split, between the two temperatures around it."""


def measure_samples(row: TrainedRow, *, temperatures: list[float], per_sample: int) -> Numbers:
    """The numbers of `depgen.reporting.measures.SampledBleu`."""
    found, curve = Numbers(), []
    pools = [_pool(_Key(row.corpus), split) for split in ("valid", "test")]
    for temperature in temperatures:
        texts = generate(row.job, row.trained, None, temperature=temperature, device=row.options.device, wait=row.wait)
        scores = sample_scores(moses_texts(texts), pools, per_sample=per_sample)
        values = (*(each for pair in scores.bleu for each in pair), *scores.self_bleu)
        found.metrics.update({f"{name}_{temperature}": value for name, value in zip(SAMPLED, values, strict=True)})
        curve.append((scores.self_bleu[0], scores.bleu[1][0]))
    real = _self_bleu(_Key(row.corpus), per_sample)
    matched = at_diversity(curve, real)
    if matched is None:
        lowest, highest = min(curve)[0], max(curve)[0]
        found.not_computed[MATCHED] = (
            f"Self-BLEU-5 of the validation split is {real:.1f}, and the texts' goes from {lowest:.1f} to {highest:.1f}"
        )
    else:
        found.metrics[MATCHED] = matched
    return found


def at_diversity(curve: list[tuple[float, float]], self_bleu: float) -> float | None:
    """BLEU at a Self-BLEU, linear between the points around it; None outside of the curve.

    >>> at_diversity([(10.0, 30.0), (5.0, 20.0)], 7.5), at_diversity([(10.0, 30.0), (5.0, 20.0)], 4.0)
    (25.0, None)
    """
    diversity, quality = np.array(sorted(curve)).T
    if not diversity[0] <= self_bleu <= diversity[-1]:
        return None
    return float(np.interp(self_bleu, diversity, quality))


class _Key:
    """A corpus as a key of what was computed of it."""

    def __init__(self, corpus: Any) -> None:  # noqa: ANN401 - any corpus
        self.corpus = corpus
        self._digest = tuple(corpus.fingerprint(split) for split in ("valid", "test"))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self._digest == other._digest

    def __hash__(self) -> int:
        return hash(self._digest)


@lru_cache(maxsize=4)
def _texts(key: _Key, split: Split) -> tuple[str, ...]:
    return tuple(moses_texts(texts_of_documents(key.corpus.documents(split))))


@lru_cache(maxsize=4)
def _pool(key: _Key, split: Split) -> ReferencePool:
    return ReferencePool(_texts(key, split))


@lru_cache(maxsize=4)
def _self_bleu(key: _Key, per_sample: int) -> float:
    """Self-BLEU-5 of real text: the mean over as many samples of the validation split as it has, at least one."""
    texts = _texts(key, "valid")
    return sample_scores(texts, [], per_sample=min(per_sample, len(texts))).self_bleu[0]
