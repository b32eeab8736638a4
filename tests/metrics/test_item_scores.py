"""Figures of a split: sums before divisions, means of logarithms over passes, every item kept."""

import math

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from hypothesis import given, settings
from hypothesis import strategies as st

from depgen.metrics.item_scores import ItemScores, KeptItems, Loss, Perplexity, UnknownRate, WordPerplexity, perplexity

LOG_PROBS = st.lists(st.floats(-30.0, 0.0), min_size=1, max_size=40)


def scores(nll, tokens, *, items=None, words=None, unknown=0, targets=0):
    """Scores of items, each with one number a pass."""
    nll, tokens = torch.tensor(nll, dtype=torch.float64), torch.tensor(tokens)
    return ItemScores(
        items=torch.arange(len(nll)) if items is None else torch.tensor(items),
        nll=nll,
        tokens=tokens,
        words=tokens.sum(1) if words is None else torch.tensor(words),
        unknown=torch.tensor(unknown),
        targets=torch.tensor(targets),
    )


def after(metric, *batches):
    for batch in batches:
        metric.update(batch)
    return metric


@given(LOG_PROBS, st.data())
@settings(max_examples=40, deadline=None)
def test_perplexity_does_not_depend_on_how_tokens_are_batched(log_probs, data):
    metric, start = Perplexity(), 0
    while start < len(log_probs):
        size = data.draw(st.integers(1, len(log_probs) - start))
        metric.update(scores([[-value] for value in log_probs[start : start + size]], [[1]] * size))
        start += size
    assert metric.compute().item() == pytest.approx(perplexity(-sum(log_probs), len(log_probs)), rel=1e-9)


def test_several_passes_are_a_mean_of_logarithms():
    batches = scores([[2.0, 9.0, 3.0]], [[1, 2, 6]]), scores([[4.0, 1.0, 0.0]], [[2, 3, 0]])
    means = [6 / 3, 10 / 5, 3 / 6]  # over the tokens of all batches, not over batches
    assert after(Loss(3), *batches).compute().item() == pytest.approx(sum(means) / 3)
    found = after(Perplexity(3), *batches).compute().item()
    assert found == pytest.approx(math.exp(sum(means) / 3))
    assert found < sum(map(math.exp, means)) / 3, "not the mean of perplexities"


def test_a_pass_without_tokens_is_left_out():
    assert after(Perplexity(2), scores([[2.0, 0.0]], [[1, 0]])).compute().item() == pytest.approx(math.exp(2))


@pytest.mark.parametrize("metric", [Loss(2), Perplexity(2), Perplexity(), WordPerplexity()])
def test_without_tokens_is_nan(metric):
    passes = len(metric.tokens)
    assert math.isnan(after(metric, scores([[0.0] * passes], [[0] * passes])).compute().item())


def test_one_token_at_110_nats_does_not_overflow():
    assert after(Perplexity(), scores([[110.0]], [[1]])).compute().item() == pytest.approx(math.exp(110.0))


def test_sums_are_kept_in_float64_and_counts_in_int64_through_casts_and_resets():
    metric = after(Loss(), scores([[2.0**24]], [[2**31]]), *[scores([[1.0]], [[1]])] * 8)
    assert metric.nll_sum.item() == 2.0**24 + 8  # float32 would stay at 2**24
    assert metric.tokens.item() == 2**31 + 8
    holder = torch.nn.Module()
    holder.metric = metric
    holder.half()
    metric.reset()
    assert (metric.nll_sum.dtype, metric.nll_sum.item(), metric.tokens.item()) == (torch.float64, 0, 0)


def test_words_are_divided_by_in_place_of_tokens():
    batch = scores([[6.0], [2.0]], [[4], [2]], words=[1, 1])
    assert after(WordPerplexity(), batch).compute().item() == pytest.approx(math.exp(4.0))


def test_the_unknown_rate_is_over_all_targets():
    metric = after(UnknownRate(), scores([[0.0]], [[1]], unknown=1, targets=2), scores([[0.0]], [[1]], targets=6))
    assert metric.compute().item() == 1 / 8


def test_items_are_kept_in_the_order_of_the_split():
    metric = KeptItems()
    metric.begin()
    assert metric.compute() is None
    first = scores([[1.0, 0.5], [0.25, 0.25]], [[2, 1], [1, 0]], items=[2, 0], words=[3, 1])
    items, nll, tokens, words = after(metric, first, scores([[4.0, 0.0]], [[6, 0]], items=[1], words=[2])).compute()
    assert (items.tolist(), nll.tolist(), tokens.tolist()) == ([0, 1, 2], [0.5, 4.0, 1.5], [1, 6, 3])
    assert words.tolist() == [1, 2, 3]
    metric.begin()
    assert metric.compute() is None


def _one_process(rank, world, path, found):
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=world)
    batch = scores([[10.0 * (rank + 1), 3.0 * rank]], [[4 + 8 * rank, rank]])
    kept = KeptItems()
    kept.begin()
    if rank:  # the other has no item
        kept.update(scores([[2.0], [1.0]], [[4], [2]], items=[3, 1]))
    found[rank] = after(Perplexity(2), batch).compute().item(), [column.tolist() for column in kept.compute()]
    dist.destroy_process_group()


@pytest.mark.slow
def test_processes_add_up_before_the_division_and_share_their_items(tmp_path):
    with mp.Manager() as manager:
        found = manager.dict()
        mp.spawn(_one_process, args=(2, tmp_path / "store", found), nprocs=2)
        expected = pytest.approx(math.exp((30 / 16 + 3 / 1) / 2)), [[1, 3], [1.0, 2.0], [2, 4], [2, 4]]
        assert dict(found) == {0: expected, 1: expected}


# -- perplexity as a plain function -----------------------------------------------------------------------------------


@given(st.lists(st.floats(-30.0, 0.0), min_size=1, max_size=40))
def test_is_the_inverse_geometric_mean_of_the_probabilities(log_probs):
    oracle = math.prod(math.exp(value) ** (-1.0 / len(log_probs)) for value in log_probs)
    assert perplexity(-sum(log_probs), len(log_probs)) == pytest.approx(oracle, rel=1e-9)


def test_extremes():
    assert perplexity(110.0, 1) == pytest.approx(math.exp(110.0))
    assert perplexity(1e4, 1) == math.inf
    assert math.isnan(perplexity(0.0, 0))
