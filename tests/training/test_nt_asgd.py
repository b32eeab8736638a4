"""NT-ASGD against Algorithm 1 by hand, and against PyTorch's ASGD."""

import pytest
import torch

from depgen.training.nt_asgd import NTASGD


def weights(seed=0):
    torch.manual_seed(seed)
    return [torch.nn.Parameter(torch.randn(3, 2, dtype=torch.double)), torch.nn.Parameter(torch.randn(4).double())]


def run(optimizer, parameters, steps, seed=1):
    generator = torch.Generator().manual_seed(seed)
    seen = []
    for _ in range(steps):
        for each in parameters:
            each.grad = torch.randn(each.shape, generator=generator, dtype=torch.double)
        optimizer.step()
        seen.append([each.detach().clone() for each in parameters])
    return seen


def test_it_is_gradient_descent_with_l2_decay_and_the_mean_of_the_weights_after_each_step():
    parameters, others = weights(), weights()
    optimizer = NTASGD(parameters, lr=0.3, weight_decay=0.1, patience=1)
    run(optimizer, parameters, 2)
    trigger(optimizer)
    seen = run(optimizer, parameters, 5, seed=2)
    expected = [torch.stack(column).mean(0) for column in zip(*seen, strict=True)]
    optimizer.swap()
    torch.testing.assert_close([each.detach() for each in parameters], expected)
    optimizer.swap()
    torch.testing.assert_close([each.detach() for each in parameters], seen[-1])

    theirs = torch.optim.SGD(others, lr=0.3, weight_decay=0.1)
    run(theirs, others, 2)
    averaged = torch.optim.ASGD(others, lr=0.3, weight_decay=0.1, t0=0, lambd=0)
    run(averaged, others, 5, seed=2)
    torch.testing.assert_close([each.detach() for each in others], seen[-1])
    without_first = [torch.stack(column[1:]).mean(0) for column in zip(*seen, strict=True)]  # D1
    torch.testing.assert_close([averaged.state[each]["ax"] for each in others], without_first)


def trigger(optimizer):
    for loss in (1.0, 2.0, 3.0):
        optimizer.validated(loss)
    assert optimizer.averaging


def literal_trigger(losses, patience):
    """Which validation starts the average, by the authors' code (main.py of awd-lstm-lm)."""
    history = []
    for number, loss in enumerate(losses):
        if len(history) > patience and loss > min(history[:-patience]):
            return number
        history.append(loss)
    return None


@pytest.mark.parametrize("seed", range(20))
def test_the_trigger_is_the_authors(seed):
    generator = torch.Generator().manual_seed(seed)
    losses = (5 - 0.3 * torch.arange(12) + 2 * torch.rand(12, generator=generator)).tolist()
    for patience in (1, 3, 5):
        optimizer = NTASGD(weights(), patience=patience)
        began = [number for number, loss in enumerate(losses) if optimizer.validated(loss)]
        expected = literal_trigger(losses, patience)
        assert began == ([] if expected is None else [expected])


def test_a_restart_begins_a_fresh_average():
    parameters = weights()
    optimizer = NTASGD(parameters, lr=0.1, patience=1, restart_at=5)
    trigger(optimizer)
    run(optimizer, parameters, 3)
    assert [optimizer.validated(9.0) for _ in range(3)] == [False, True, False]
    seen = run(optimizer, parameters, 2, seed=5)
    optimizer.swap()
    torch.testing.assert_close(parameters[0].detach(), (seen[0][0] + seen[1][0]) / 2)
