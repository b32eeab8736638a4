import math

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from hypothesis import given, settings
from hypothesis import strategies as st

from depgen.metrics.perplexity import Perplexity, perplexity

LOG_PROBS = st.lists(st.floats(-30.0, 0.0), min_size=1, max_size=40)


@given(LOG_PROBS)
def test_is_the_inverse_geometric_mean_of_the_probabilities(log_probs):
    oracle = math.prod(math.exp(value) ** (-1.0 / len(log_probs)) for value in log_probs)
    assert perplexity(-sum(log_probs), len(log_probs)) == pytest.approx(oracle, rel=1e-9)


@given(LOG_PROBS, st.data())
@settings(max_examples=40, deadline=None)
def test_metric_does_not_depend_on_how_tokens_are_batched(log_probs, data):
    metric, start = Perplexity(), 0
    while start < len(log_probs):
        size = data.draw(st.integers(1, len(log_probs) - start))
        chunk = torch.tensor(log_probs[start : start + size], dtype=torch.float64)
        metric.update(-chunk.sum(), size)
        start += size
    assert metric.compute().item() == pytest.approx(perplexity(-sum(log_probs), len(log_probs)), rel=1e-9)


def test_one_token_at_110_nats_does_not_overflow():
    metric = Perplexity()
    metric.update(torch.tensor(110.0), torch.tensor(1))
    assert metric.compute().item() == pytest.approx(math.exp(110.0))
    assert perplexity(110.0, 1) == pytest.approx(math.exp(110.0))
    assert perplexity(1e4, 1) == math.inf


def test_sums_are_kept_in_float64_and_counts_in_int64():
    metric = Perplexity()
    metric.update(torch.tensor(2.0**24), 2**31)
    for _ in range(8):
        metric.update(torch.tensor(1.0), torch.tensor(1))
    assert metric.nll_sum.dtype == torch.float64
    assert metric.nll_sum.item() == 2.0**24 + 8  # float32 would stay at 2**24
    assert metric.tokens.item() == 2**31 + 8


def test_dtypes_survive_a_module_cast_and_reset():
    holder = torch.nn.Module()
    holder.metric = Perplexity()
    holder.half()
    assert holder.metric.nll_sum.dtype == torch.float64
    holder.metric.update(5.0, 2)
    holder.metric.reset()
    assert holder.metric.nll_sum.dtype == torch.float64
    assert holder.metric.tokens.item() == 0


def test_without_tokens_is_nan():
    assert math.isnan(perplexity(0.0, 0))
    metric = Perplexity()
    metric.update(0.0, 0)
    assert math.isnan(metric.compute().item())


def test_holds_no_graph():
    nll = torch.tensor(3.0, requires_grad=True)
    metric = Perplexity()
    metric.update(nll * 2, 3)
    assert not metric.nll_sum.requires_grad
    assert metric.compute().item() == pytest.approx(math.exp(2.0))


def _one_process(rank, world, path, figures):
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=world)
    metric = Perplexity()
    metric.update(torch.tensor(10.0 * (rank + 1)), 4 + 8 * rank)
    figures[rank] = metric.compute().item()
    dist.destroy_process_group()


@pytest.mark.slow
def test_processes_add_up_before_the_division(tmp_path):
    with mp.Manager() as manager:
        figures = manager.dict()
        mp.spawn(_one_process, args=(2, tmp_path / "store", figures), nprocs=2)
        assert dict(figures) == {0: pytest.approx(math.exp(30 / 16)), 1: pytest.approx(math.exp(30 / 16))}
