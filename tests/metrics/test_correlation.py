"""Correlations of series with relations, against scipy's and numpy's on the same data."""

import numpy as np
import pytest
import torch
from scipy.stats import pearsonr

from depgen.metrics.correlation import RelationCorrelation

RELATIONS = 5


@pytest.fixture
def data():
    """Weights of 2 x 3 heads at 400 edges, one of which goes with a relation; and relations of unequal frequency."""
    generator = torch.Generator().manual_seed(0)
    relations = torch.multinomial(torch.tensor([8.0, 4, 2, 1, 0.5]), 400, replacement=True, generator=generator)
    weights = torch.rand(400, 2, 3, generator=generator) ** 3
    weights[:, 1, 2] += relations == 2
    return weights, relations


def correlated(*batches):
    metric = RelationCorrelation((2, 3), RELATIONS)
    for weights, relations in batches:
        metric.update(weights, relations)
    return metric.compute()


def test_correlations_are_pearsons(data):
    weights, relations = data
    found = correlated(data)["pearson"]
    assert found.dtype == torch.float64
    for layer in range(2):
        for head in range(3):
            series = weights[:, layer, head].double().numpy()
            for relation in range(RELATIONS):
                has = (relations == relation).double().numpy()
                expected = pearsonr(series, has).statistic
                assert found[layer, head, relation].item() == pytest.approx(expected, abs=1e-12)
                assert expected == pytest.approx(np.corrcoef(series, has)[0, 1])
    assert found[1, 2].argmax() == 2


def test_the_mean_weight_is_that_of_a_relations_edges(data):
    weights, relations = data
    found = correlated(data)["mean_weight"]
    for relation in range(RELATIONS):
        torch.testing.assert_close(found[..., relation], weights[relations == relation].double().mean(0))


@pytest.mark.parametrize("sizes", [[400], [1] * 10 + [390], [133, 0, 267]])
def test_no_figure_depends_on_the_batches(data, sizes):
    weights, relations = data
    batches = zip(weights.split(sizes), relations.split(sizes), strict=True)
    together, apart = correlated(data), correlated(*batches)
    for name in together:
        torch.testing.assert_close(together[name], apart[name], rtol=0, atol=1e-12)


def test_small_weights_beside_a_large_mean_keep_their_correlation():
    has = torch.arange(1000) % 3 == 0
    series = 1000 + 0.5 * torch.rand(1000, 1, generator=torch.Generator().manual_seed(1)) + has[:, None]
    metric = RelationCorrelation((1,), 2)
    metric.update(series, has.long())
    expected = pearsonr(series[:, 0].double().numpy(), has.double().numpy()).statistic
    assert metric.compute()["pearson"][0, 1].item() == pytest.approx(expected, abs=1e-8)


def test_what_is_constant_correlates_with_nothing():
    weights = torch.stack((torch.full((50,), 0.1), 1 / 3 + torch.arange(50) % 3 * 3e-8, torch.rand(50)), 1)
    mixed, one = RelationCorrelation((3,), 3), RelationCorrelation((3,), 3)
    mixed.update(weights, torch.arange(50) % 2)  # no edge has relation 2
    one.update(weights, torch.zeros(50, dtype=torch.long))  # all have relation 0
    found = mixed.compute()
    assert (found["pearson"][:2] == 0).all()
    assert (found["pearson"][2] != 0).tolist() == [True, True, False]
    assert found["mean_weight"][:, 2].tolist() == [0, 0, 0]
    assert (one.compute()["pearson"] == 0).all()
