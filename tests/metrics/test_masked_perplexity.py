"""Pseudo-perplexity: a mean of logarithms over passes, sums before divisions, passes that masked nothing."""

import math

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from depgen.metrics.masked_perplexity import MaskedPerplexity


def metric_of(*batches):
    metric = MaskedPerplexity(len(batches[0][0]))
    for nll, words in batches:
        metric.update(torch.tensor(nll), torch.tensor(words))
    return metric


def test_is_exp_of_the_mean_of_the_passes_own_means():
    metric = metric_of(([2.0, 9.0, 3.0], [1, 2, 6]), ([4.0, 1.0, 0.0], [2, 3, 0]))
    means = [6 / 3, 10 / 5, 3 / 6]  # over words of all batches, not over batches
    assert metric.nll_per_word().item() == pytest.approx(sum(means) / 3)
    assert metric.compute().item() == pytest.approx(math.exp(sum(means) / 3))
    assert metric.compute().item() < sum(map(math.exp, means)) / 3, "not the mean of perplexities"


def test_a_pass_that_masked_nothing_is_left_out():
    assert metric_of(([2.0, 0.0], [1, 0])).compute().item() == pytest.approx(math.exp(2))
    assert math.isnan(metric_of(([0.0, 0.0], [0, 0])).compute().item())


def test_sums_are_kept_in_float64_and_counts_in_int64():
    metric = metric_of(([2.0**24], [2**31]), *[([1.0], [1])] * 8)
    assert metric.nll_sum.item() == 2.0**24 + 8
    assert metric.words.item() == 2**31 + 8
    metric.half()
    assert metric.nll_sum.dtype == torch.float64
    metric.reset()
    assert not metric.words.any()


def test_110_nats_a_word_do_not_overflow():
    assert metric_of(([110.0], [1])).compute().item() == pytest.approx(math.exp(110))


def _one_process(rank, world, path, figures):
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=world)
    figures[rank] = metric_of(([10.0 * (rank + 1), 3.0 * rank], [4 + 8 * rank, rank])).compute().item()
    dist.destroy_process_group()


@pytest.mark.slow
def test_processes_add_up_before_the_division(tmp_path):
    with mp.Manager() as manager:
        figures = manager.dict()
        mp.spawn(_one_process, args=(2, tmp_path / "store", figures), nprocs=2)
        expected = pytest.approx(math.exp((30 / 16 + 3 / 1) / 2))
        assert dict(figures) == {0: expected, 1: expected}
