"""Self-BLEU-2 and -3 of 10,000 texts of 11 words."""

import numpy as np

from depgen.metrics.bleu import self_bleu
from tests.benchmarks.figures import figure, seconds, write_figures


def test_self_bleu():
    generator = np.random.default_rng(0)
    rank = np.arange(1, 4001)
    words = generator.choice(rank, size=(10_000, 11), p=(1 / rank) / (1 / rank).sum())
    texts = [" ".join(map(str, row)) for row in words]
    took = seconds(lambda: self_bleu(texts, (2, 3)))
    write_figures("self_bleu", {"Self-BLEU-2 and -3, 10,000 texts": figure(took, "s", at_most=3.0)})
    assert took > 0
