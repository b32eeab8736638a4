"""MAUVE (Pillutla et al., 2021): how close the distribution of one set of texts is to that of another.

    paper      here
    P, Q       the shares of each set's feature vectors in common clusters
    R_λ        λ P + (1 - λ) Q
    c          `scaling`
    C(P, Q)    `divergence_curve`: exp(-c KL(Q | R_λ)) and exp(-c KL(P | R_λ)) for λ from 0 to 1
    MAUVE      the area under that curve, between 0 and 1

Deviations from the paper, or from its authors' package mauve-text 0.4:
    D1. The number of clusters is a tenth of the smaller set, at least 2: the default of the authors' package. The
        paper has 500 clusters of 5,000 texts each, which is the same rule.
    D2. `scaling` is 5, as in the paper. The curve has 25 points between its ends and trapezoids between them, as in
        the package.
    D3. k-means is SciPy's, not faiss'. Both begin from feature vectors that are drawn at random, five times, and keep
        the clusters with the smallest distances. On the same features the two packages therefore differ as two seeds
        differ; from the same shares they compute the same area.
    D4. All is computed in float64. The package clusters in float32.
    D5. The area follows the curve from (1, 0) to (0, 1) in the order of λ. The package sorts the points, which does not
        order points of equal x, so that it can give less than 1 for two equal distributions.
"""

import numpy as np
from jaxtyping import Float

SCALING = 5.0
POINTS = 25
VARIANCE = 0.9
"""The share of the features' variance that the principal components keep."""
STARTS = 5

Shares = Float[np.ndarray, " clusters"]


def mauve(
    first: Float[np.ndarray, "texts width"],
    second: Float[np.ndarray, "others width"],
    *,
    clusters: int | None = None,
    seed: int = 0,
) -> float:
    """MAUVE of two sets of feature vectors, 1 where their distributions are equal.

    Costs O(texts * clusters * width) a round of k-means.

    Args:
        first: a row for each text of one set, none of them all zeros.
        second: the same for the other set; exchanging the two changes nothing but the draws of k-means.
        clusters: how many; None: `usual_clusters`.
        seed: of the beginnings of k-means.
    """
    count = usual_clusters(len(first), len(second)) if clusters is None else clusters
    return area(*cluster_shares(first, second, clusters=count, seed=seed))


def usual_clusters(first: int, second: int) -> int:
    """The number of clusters for two sets of those sizes (D1).

    >>> usual_clusters(5000, 6000), usual_clusters(3, 4)
    (500, 2)
    """
    return max(2, round(min(first, second) / 10))


def area(first: Shares, second: Shares, *, scaling: float = SCALING, points: int = POINTS) -> float:
    """The area under the divergence curve of two distributions.

    >>> area(np.array([0.5, 0.5]), np.array([0.5, 0.5]))
    1.0
    """
    x, y = divergence_curve(first, second, scaling=scaling, points=points).T
    return float(np.trapezoid(y[::-1], x[::-1]))


def divergence_curve(
    first: Shares, second: Shares, *, scaling: float = SCALING, points: int = POINTS
) -> Float[np.ndarray, "points_and_ends 2"]:
    """The curve from (1, 0) to (0, 1): x falls and y rises as λ, the share of `first` in the mixture, grows."""
    from scipy.special import rel_entr

    weights = np.linspace(1e-6, 1 - 1e-6, points)[:, None]
    mixtures = weights * first + (1 - weights) * second  # R_λ
    divergences = [rel_entr(each, mixtures).sum(axis=1) for each in (second, first)]  # KL(Q | R_λ), KL(P | R_λ)
    return np.vstack([(1.0, 0.0), np.exp(-scaling * np.stack(divergences, axis=1)), (0.0, 1.0)])


def cluster_shares(
    first: Float[np.ndarray, "texts width"],
    second: Float[np.ndarray, "others width"],
    *,
    clusters: int,
    seed: int = 0,
) -> tuple[Shares, Shares]:
    """The share of each set's feature vectors in each cluster of both; clusters that are found empty are left out.

    Vectors are scaled to length 1, then reduced to the principal components that hold 90 % of the variance.
    """
    from scipy.cluster.vq import kmeans, vq

    features = np.concatenate([first, second]).astype(np.float64)
    reduced = principal_components(features / np.linalg.norm(features, axis=1, keepdims=True))
    centres, _ = kmeans(reduced, clusters, iter=STARTS, thresh=1e-8, rng=np.random.default_rng(seed))
    labels, _ = vq(reduced, centres)
    counts = [np.bincount(each, minlength=len(centres)) for each in (labels[: len(first)], labels[len(first) :])]
    return counts[0] / len(first), counts[1] / len(second)


def principal_components(
    features: Float[np.ndarray, "rows width"], *, variance: float = VARIANCE
) -> Float[np.ndarray, "rows components"]:
    """The coordinates of centred rows along the fewest components that hold that share of their variance."""
    centred = features - features.mean(axis=0)
    variances, directions = np.linalg.eigh(centred.T @ centred)  # in ascending order
    held = np.cumsum(variances[::-1])
    kept = int(np.argmax(held >= variance * held[-1])) + 1
    coordinates: Float[np.ndarray, "rows components"] = centred @ directions[:, ::-1][:, :kept]
    return coordinates
