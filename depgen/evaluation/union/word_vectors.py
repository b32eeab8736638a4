"""Word vectors by counting: the positive pointwise mutual information of near words, reduced by a singular value
decomposition (Levy et al., 2015, whose smoothing of contexts is kept).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

SMOOTHING = 0.75
DEVIATION = 0.04
"""Of a vector's entries: twice that of BERT's initial embeddings."""
_POWER_STEPS = 3


def word_vectors(
    texts: Sequence[Sequence[int]], *, size: int, width: int, window: int
) -> Float[np.ndarray, "size width"]:
    """A vector of length DEVIATION √width for each word id that has a near word; zeros for the others.

    Args:
        texts: word ids.
        size: number of word types.
        width: of a vector; more than there are types leaves zeros at the end.
        window: words on each side that count as near.
    """
    from scipy import sparse

    pairs: list[np.ndarray] = []
    for text in texts:
        ids = np.asarray(text, dtype=np.int64)
        pairs += [np.stack((ids[:-gap], ids[gap:])) for gap in range(1, min(window + 1, len(ids)))]
    vectors = np.zeros((size, width), dtype=np.float32)
    if not pairs:
        return vectors
    left, right = np.concatenate(pairs, axis=1)
    counts = sparse.coo_matrix((np.ones(2 * len(left)), (np.r_[left, right], np.r_[right, left])), (size, size)).tocsr()
    information = _positive_information(counts)
    rank = min(width, size)
    # the randomised decomposition of Halko et al. (2011)
    basis = np.random.default_rng(0).standard_normal((size, rank))
    for _ in range(_POWER_STEPS):
        basis, _ = np.linalg.qr(information @ basis)
    left_vectors, values, _ = np.linalg.svd(information @ basis, full_matrices=False)
    found = left_vectors * np.sqrt(values)
    lengths = np.linalg.norm(found, axis=1, keepdims=True)
    known = lengths[:, 0] > 1e-8
    vectors[known, :rank] = DEVIATION * np.sqrt(width) * found[known] / lengths[known]
    return vectors


def _positive_information(counts: Any) -> Any:  # noqa: ANN401  (scipy's sparse matrices)
    """max(0, log p(w, c) / (p(w) q(c))) at every pair seen, q(c) being proportional to p(c) to the power 0.75."""
    seen = counts.tocoo()
    total = np.asarray(counts.sum(1)).ravel()
    smoothed = total**SMOOTHING
    expected = total[seen.row] * smoothed[seen.col] / smoothed.sum()
    values = np.maximum(0.0, np.log(seen.data) - np.log(expected))
    return type(seen)((values, (seen.row, seen.col)), seen.shape).tocsr()
