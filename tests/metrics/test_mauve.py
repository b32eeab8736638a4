"""MAUVE's curve and area against cases by hand, a formula and the authors' package."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import beta

from depgen.metrics.mauve import area, cluster_shares, divergence_curve, mauve, principal_components

SHARES = st.lists(st.integers(0, 20), min_size=4, max_size=4).filter(any).map(lambda n: np.array(n) / sum(n))


def cloud(seed, size=60, width=5, centre=0.0):
    return np.random.default_rng(seed).normal(centre, 1.0, (size, width))


def test_a_curve_of_three_points_by_hand():
    # λ = 1/2: R = (3/4, 1/4); KL(Q | R) = log 4/3; KL(P | R) = (log 2/3 + log 2) / 2 = log(4/3) / 2; c = 1.
    first, second = np.array([0.5, 0.5]), np.array([1.0, 0.0])
    curve = divergence_curve(first, second, scaling=1.0, points=3)
    assert curve[0].tolist() == [1.0, 0.0]
    assert curve[-1].tolist() == [0.0, 1.0]
    assert curve[2].tolist() == pytest.approx([3 / 4, math.sqrt(3 / 4)], abs=1e-9)
    # λ near 0 and near 1: R is Q, and KL(P | R) = log(0.25 / 5e-7) / 2; R is P, and KL(Q | P) = log 2.
    assert curve[1].tolist() == pytest.approx([1.0, math.sqrt(5e-7 / 0.25)], abs=1e-6)
    assert curve[3].tolist() == pytest.approx([0.5, 1.0], abs=1e-5)
    x, y = curve.T
    trapezoids = sum((x[n] - x[n + 1]) * (y[n] + y[n + 1]) / 2 for n in range(4))
    assert area(first, second, scaling=1.0, points=3) == pytest.approx(trapezoids)
    assert trapezoids == pytest.approx(0.25 * (curve[1, 1] + 0.8660) / 2 + 0.25 * 1.8660 / 2 + 0.5, abs=1e-3)


@pytest.mark.parametrize("scaling", [1.0, 2.0, 5.0])
def test_of_distributions_without_a_common_cluster_it_is_a_beta_function(scaling):
    # x = (1 - λ)^c and y = λ^c, so the area is c B(c + 1, c).
    first, second = np.array([0.25, 0.75, 0, 0]), np.array([0, 0, 0.5, 0.5])
    exact = scaling * beta(scaling + 1, scaling)
    assert area(first, second, scaling=scaling, points=20_000) == pytest.approx(exact, abs=1e-6)
    assert area(first, second) < 0.0053


@given(SHARES)
def test_equal_distributions_have_1(shares):
    assert area(shares, shares) == pytest.approx(1.0, abs=1e-12)


@given(SHARES, SHARES)
def test_it_is_symmetric_and_lies_between_0_and_1(first, second):
    found = area(first, second)
    assert found == pytest.approx(area(second, first), abs=1e-12)
    assert 0 < found <= 1 + 1e-12


@given(SHARES, SHARES)
def test_merged_clusters_can_only_hide_a_difference(first, second):
    merged = [np.array([each[0] + each[1], *each[2:]]) for each in (first, second)]
    assert area(*merged, points=200) >= area(first, second, points=200) - 1e-9


def test_components_hold_the_variance_and_keep_distances_within_it():
    rows = cloud(1, 200, 6) * np.array([9.0, 4.0, 1.0, 0.1, 0.1, 0.1])
    coordinates = principal_components(rows)
    variances = np.linalg.svd(rows - rows.mean(0), compute_uv=False) ** 2
    kept = next(n for n in range(1, 7) if variances[:n].sum() >= 0.9 * variances.sum())
    assert coordinates.shape == (200, kept)
    assert (coordinates**2).sum(0).tolist() == pytest.approx(variances[:kept].tolist())
    assert principal_components(np.ones((3, 2))).tolist() == [[0.0], [0.0], [0.0]]


def test_sets_in_separate_places_share_no_cluster_and_equal_sets_all():
    apart = [cloud(1) * 0.01 + [1, 0, 0, 0, 0], cloud(2) * 0.01 + [0, 1, 0, 0, 0]]
    assert mauve(*apart) < 0.01
    first, second = cluster_shares(*apart, clusters=6)
    assert not (first * second).any()
    assert first.sum() == second.sum() == pytest.approx(1.0)
    same = cloud(3)
    assert mauve(same, same) == pytest.approx(1.0)
    assert mauve(cloud(4, 400), cloud(5, 400)) > mauve(cloud(4, 400), cloud(5, 400, centre=1.0)) + 0.2


def test_scale_of_a_vector_does_not_count_and_seeds_repeat():
    first, second = cloud(1), cloud(2, centre=0.5)
    lengths = np.random.default_rng(6).uniform(0.1, 9, (60, 1))
    assert mauve(first * lengths, second) == pytest.approx(mauve(first, second))
    assert mauve(first, second, seed=3) == mauve(first, second, seed=3)


def test_the_area_is_that_of_the_authors_package():
    from mauve.compute_mauve import get_divergence_curve_for_multinomials

    for seed in range(5):
        first, second = np.random.default_rng(seed).dirichlet([0.3] * 12, 2)
        weights = np.linspace(1e-6, 1 - 1e-6, 25)
        curve = get_divergence_curve_for_multinomials(first, second, weights, 5)
        ours = divergence_curve(first, second)
        np.testing.assert_allclose(ours, curve, atol=1e-12)


def test_of_features_in_separate_clusters_it_is_that_of_the_authors_package():
    from mauve import compute_mauve

    centres = np.eye(4) * 3
    generator = np.random.default_rng(0)
    first, second = (
        centres[generator.choice(4, 80, p=shares)] + generator.normal(0, 0.01, (80, 4))
        for shares in ([0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4])
    )
    theirs = compute_mauve(p_features=first, q_features=second, num_buckets=4, verbose=False)
    assert mauve(first, second, clusters=4) == pytest.approx(theirs.mauve, abs=1e-9)
    assert 0.3 < theirs.mauve < 0.95
