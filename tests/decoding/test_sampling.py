"""Sampling against exact probabilities, and its independence of the batch."""

import math

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare
from torch import Generator

from depgen.decoding import sampling as module
from depgen.decoding.sampling import Mixture, drawn, nucleus, sample
from depgen.decoding.settings import Sampling
from tests import oracles_of_itexp as oracle


def generators(count: int, seed: int = 0) -> list[Generator]:
    return [Generator().manual_seed(seed + item) for item in range(count)]


def expected_shares(weights, sampling, factors=None):
    """The exact distribution after all filters and then factors, by the slow version."""
    logs = [math.log(weight) if weight else -math.inf for weight in weights]
    shares = oracle.softmax(logs, sampling.temperature)
    shares = oracle.best(shares, sampling.top_k) if sampling.top_k else shares
    shares = oracle.nucleus(shares, sampling.top_p)
    factors = factors or [1.0] * len(shares)
    return oracle.renormalised([share * factor for share, factor in zip(shares, factors, strict=True)])


FILTERS = [
    Sampling(), Sampling(top_p=0.7), Sampling(temperature=0.6), Sampling(temperature=1.7, top_p=0.8), Sampling(top_k=3),
    Sampling(top_k=4, top_p=0.6, temperature=1.3),
]  # fmt: skip


@pytest.mark.parametrize("first_candidates", [2, 256])
@pytest.mark.parametrize("sampling", FILTERS, ids=str)
def test_draws_follow_the_exact_distribution(monkeypatch, sampling, first_candidates):
    monkeypatch.setattr(module, "FIRST_CANDIDATES", first_candidates)  # 2: the nucleus is sought twice
    probabilities = [0.05, 0.31, 0.02, 0.17, 0.26, 0.09, 0.1]
    log_probs = torch.tensor(probabilities).log().expand(200, -1)
    streams = generators(200)
    draws = torch.cat([sample(log_probs, sampling, streams) for _ in range(100)])
    counts = draws.bincount(minlength=7)
    expected = torch.tensor(expected_shares(probabilities, sampling), dtype=torch.float64)
    assert not counts[expected == 0].any()
    allowed = expected > 0
    assert chisquare(counts[allowed].numpy(), (expected[allowed] * 20_000).numpy()).pvalue > 1e-3


@settings(deadline=None, max_examples=60)
@given(
    weights=st.lists(st.integers(1, 50), min_size=1, max_size=12, unique=True),
    top_p=st.floats(0.01, 1, exclude_max=True),
)
def test_the_nucleus_is_the_smallest_prefix_that_reaches_p(weights, top_p):
    probabilities = torch.tensor(sorted(weights, reverse=True), dtype=torch.float64)
    probabilities /= probabilities.sum()
    kept = ~nucleus(probabilities.log()[None].float(), torch.zeros(1, 1), top_p).isneginf()[0]
    size = int(kept.sum())
    assert kept[:size].all()
    assert probabilities[: size - 1].sum() < top_p + 1e-6
    assert probabilities[:size].sum() >= top_p - 1e-6


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(top_p=0.9), Sampling(top_k=5, temperature=0.8)], ids=str)
def test_a_row_draws_the_same_alone_and_among_others(monkeypatch, sampling):
    monkeypatch.setattr(module, "FIRST_CANDIDATES", 8)
    scores = torch.randn(64, 300, generator=Generator().manual_seed(3)) * torch.linspace(0.1, 6, 64)[:, None]
    log_probs = scores.log_softmax(1)
    streams = generators(64)
    together = torch.stack([sample(log_probs, sampling, streams) for _ in range(5)])
    for row in range(64):
        stream = generators(1, seed=row)
        alone = torch.cat([sample(log_probs[row : row + 1], sampling, stream) for _ in range(5)])
        assert torch.equal(alone, together[:, row])


def test_tokens_that_change_places_by_rounding_do_not_change_what_is_drawn():
    exact = torch.zeros(500, 40).log_softmax(1)
    noise = torch.randn(500, 40, generator=Generator().manual_seed(5)) * 1e-6
    for sampling in (Sampling(), Sampling(top_k=40), Sampling(top_p=0.99999)):
        first, second = (sample(log_probs, sampling, generators(500)) for log_probs in (exact, exact + noise))
        assert torch.equal(first, second)


def test_limits_are_greedy():
    log_probs = torch.randn(16, 50, generator=Generator().manual_seed(4)).log_softmax(1)
    likeliest = log_probs.argmax(1)
    for sampling in (
        Sampling(greedy=True),
        Sampling(temperature=1e-30),
        Sampling(top_p=1e-9),
        Sampling(top_k=1),
    ):
        assert torch.equal(sample(log_probs, sampling, generators(16)), likeliest)


@pytest.mark.slow
def test_a_rare_token_is_drawn_as_rarely_as_it_should():
    # With 24-bit variates some of 30,000 tokens of 1e-12 would be drawn about twice in a thousand.
    log_probs = torch.full((50, 30_001), 1e-12).log()
    log_probs[:, 0] = 0.0
    streams = generators(50)
    assert not any(sample(log_probs, Sampling(), streams).any() for _ in range(60))


def mixture(seed=0):
    torch.manual_seed(seed)
    weights, parts = torch.randn(1, 4).log_softmax(1), torch.randn(1, 4, 6).softmax(-1)
    weights[0, 0] = torch.finfo(torch.float32).min / 4  # padding
    return Mixture(weights.log_softmax(1), parts)


def test_a_mixture_is_the_weighted_mean():
    mixed = mixture()
    expected = sum(w * part for w, part in zip(mixed.log_weights[0].exp(), mixed.probabilities[0], strict=True))
    torch.testing.assert_close(mixed.log_probs[0].exp(), expected)


def test_a_part_and_then_its_token_are_drawn_as_from_the_mixture():
    """20,000 draws in two steps against the mixed distribution: chi-square with five degrees of freedom."""
    mixed, count = mixture(), 20_000
    rows = Mixture(mixed.log_weights.expand(count, -1), mixed.probabilities.expand(count, -1, -1))
    generators = [torch.Generator().manual_seed(seed) for seed in range(count)]
    drawn = torch.bincount(sample(rows, Sampling(), generators), minlength=6).double()
    expected = mixed.log_probs[0].double().exp() * count
    assert float(((drawn - expected) ** 2 / expected).sum()) < 20.5  # 0.1 %


def test_a_part_without_weight_is_never_drawn_and_padding_changes_nothing():
    mixed = mixture()
    padded = Mixture(torch.cat((mixed.log_weights[:, :1], mixed.log_weights), 1),
                     torch.cat((mixed.probabilities[:, :1], mixed.probabilities), 1))  # fmt: skip
    only_first = Mixture(torch.tensor([[0.0, -torch.inf]]), torch.eye(2)[None])
    for seed in range(200):
        one, other = torch.Generator().manual_seed(seed), torch.Generator().manual_seed(seed)
        assert sample(mixed, Sampling(), [one]).equal(sample(padded, Sampling(), [other]))
        assert sample(only_first, Sampling(), [one]).item() == 0


@pytest.mark.parametrize("sampling", [Sampling(top_p=0.6), Sampling(greedy=True), Sampling(temperature=0.5)])
def test_what_is_filtered_is_mixed_first(sampling):
    mixed = mixture()
    one, other = torch.Generator().manual_seed(3), torch.Generator().manual_seed(3)
    assert sample(mixed, sampling, [one]).equal(sample(mixed.log_probs, sampling, [other]))


# -- drawn with a given variate ---------------------------------------------------------------------------------------


def shares_of(log_probs, sampling, factors, grid=4000):
    """How often each candidate is drawn, over variates that cover [0, 1) evenly."""
    uniform = (torch.arange(grid, dtype=torch.float64) + 0.5) / grid
    logs = None if factors is None else torch.tensor(factors, dtype=torch.float64).log()
    found = drawn(log_probs.expand(grid, -1), sampling, uniform, log_factors=logs)
    return found.bincount(minlength=log_probs.shape[-1]).double() / grid


@pytest.mark.parametrize("first_candidates", [2, 256])
@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), sampling=st.sampled_from(FILTERS))
def test_candidates_are_drawn_by_their_filtered_and_multiplied_mass(monkeypatch, first_candidates, data, sampling):
    monkeypatch.setattr(module, "FIRST_CANDIDATES", first_candidates)
    weights = data.draw(st.lists(st.integers(0, 97), min_size=1, max_size=9, unique=True).filter(any))
    some = st.lists(st.sampled_from([1.0, 10.0, 0.1]), min_size=len(weights), max_size=len(weights))
    factors = data.draw(st.one_of(st.none(), some))
    found = shares_of(torch.tensor(weights, dtype=torch.float64).log(), sampling, factors)
    expected = torch.tensor(expected_shares(weights, sampling, factors), dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=0, atol=1 / 3000)
    assert not found[expected == 0].any()


def test_limits_draw_the_likeliest_and_ends_of_variates_what_has_mass():
    log_probs, uniform = torch.randn(50, 9).log_softmax(1), torch.rand(50)
    for sampling in (Sampling(greedy=True), Sampling(temperature=1e-30), Sampling(top_p=1e-9), Sampling(top_k=1)):
        assert torch.equal(drawn(log_probs, sampling, uniform), log_probs.argmax(1))
    factors = torch.tensor([1.0, 1.0, 9.0])
    three = torch.tensor([[0.5, 0.4, 0.1]]).log()
    assert drawn(three, Sampling(greedy=True), torch.zeros(1), log_factors=factors.log()).item() == 2
    ends = torch.tensor([0.0, 1 - 2**-53], dtype=torch.float64)
    middle = torch.tensor([[-torch.inf, 0.0, -torch.inf]]).expand(2, 3)
    for sampling in (Sampling(), Sampling(top_p=0.9), Sampling(top_k=3)):
        assert drawn(middle, sampling, ends).tolist() == [1, 1]
    rounded = torch.randn(2000, 9, dtype=torch.float64, generator=Generator().manual_seed(1))
    rounded[:, 6:] = -torch.inf  # the mass of many rows is not quite 1
    assert drawn(rounded, Sampling(), ends[1:].expand(2000)).max() == 5
