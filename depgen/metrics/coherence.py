"""How surely a system prefers documents to other arrangements of sentences: accuracy and its bootstrap.

Ji, Cohn, Kong, Dyer & Eisenstein (2015), Sec. 4.2, after Barzilay & Lapata (2008): a test set is drawn from the
documents with replacement. Each draw is compared with a shuffle of its sentences; the system chooses the one that is
more likely to it. Accuracies of 1,000 such sets have a mean and a standard deviation, and two systems' are compared by
a two-sample z-test.

Deviations
    D1. The paper shuffles again for every draw; here a draw takes one of the shuffles that its document has, all scored
        beforehand. The mean over them is what the accuracy of resampled sets tends to.
    D2. Equal likelihoods are worth half a point; the paper does not say. So is a question without a choice: documents
        of one sentence, and shuffles equal to the document, are among the paper's pairs, one for each document.
    D3. The paper's two-sample z-test takes resampled sets for independent observations: with enough of them every
        difference is significant. It is not computed; tables compare systems by tests over documents.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

Credits = Sequence[Float[np.ndarray, " _"]]
"""Of each document, what the answer to each of its questions is worth."""
Resamples = Float[np.ndarray, " resamples"]
_CHUNK = 1 << 21


def credit(scores: Float[np.ndarray, " candidates"]) -> float:
    """What the choice of the likeliest candidate is worth where the first is right: 1, or a share where several are.

    >>> [credit(np.array(scores)) for scores in ([-1.0, -2.0], [-1.0, -1.0], [-2.0, -1.0], [-1.0, -1.0, -2.0, -1.0])]
    [1.0, 0.5, 0.0, 0.3333333333333333]
    """
    best = _likeliest(scores)
    return float(best[0] / best.sum())


def expected_distance(scores: Float[np.ndarray, " candidates"], distances: Float[np.ndarray, " candidates"]) -> float:
    """How far from the truth the likeliest candidate lies, in the mean where several are.

    >>> expected_distance(np.array([-2.0, -1.0, -1.0]), np.array([0.0, 1.0, 4.0]))
    2.5
    """
    return float(distances[_likeliest(scores)].mean())


def _likeliest(scores: Float[np.ndarray, " candidates"]) -> np.ndarray:
    assert not np.isnan(scores).any(), "what has no likelihood can't be chosen"
    return np.asarray(scores == scores.max())


def resampled_means(values: Credits, *, resamples: int = 1000, seed: int = 0) -> Resamples:
    """The mean of each resampled test set: documents drawn with replacement, with one question for each draw.

    The draws depend on the seed and on the numbers of questions alone, so that two systems see the same.

    >>> resampled_means([np.array([1.0, 0.0])], resamples=4)
    array([1., 1., 0., 0.])
    """
    counts = np.array(list(map(len, values)))
    flat, starts = np.concatenate(values), np.cumsum(counts) - counts
    generator = np.random.default_rng(seed)
    rows = max(1, _CHUNK // len(counts))
    means = np.empty(resamples)
    for start in range(0, resamples, rows):
        chance = generator.random((min(rows, resamples - start), 2, len(counts)))
        documents = (chance[:, 0] * len(counts)).astype(np.int64)
        questions = (chance[:, 1] * counts[documents]).astype(np.int64)
        means[start : start + rows] = flat[starts[documents] + questions].mean(1)
    return means
