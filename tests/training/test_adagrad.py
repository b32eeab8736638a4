"""AdaGrad against scalar arithmetic and torch's own, with the clip before or after the accumulator."""

import math

import pytest
import torch

from depgen.training.adagrad import ClippedAdagrad


def trained(make, gradients, start=0.5):
    """Where parameters end that get these gradients, one list a step."""
    parameters = [torch.nn.Parameter(torch.full((len(g),), start, dtype=torch.double)) for g in gradients[0]]
    optimizer = make(parameters)
    for step in gradients:
        for parameter, gradient in zip(parameters, step, strict=True):
            parameter.grad = torch.tensor(gradient, dtype=torch.double)
        optimizer.step()
    return [value for parameter in parameters for value in parameter.detach().tolist()]


def by_hand(gradients, *, lr, clip, accumulate_clipped, start=0.5):
    values = [start for g in gradients[0] for _ in g]
    sums = [0.0] * len(values)
    for step in gradients:
        flat = [value for g in step for value in g]
        norm = math.sqrt(sum(value**2 for value in flat))
        scale = 1.0 if clip is None or norm <= clip else clip / norm
        for k, g in enumerate(flat):
            sums[k] += (scale * g if accumulate_clipped else g) ** 2
            values[k] -= lr * scale * g / math.sqrt(sums[k] + 1e-20)
    return values


GRADIENTS = [[[3.0, -4.0], [12.0]], [[0.1, 0.2], [-0.1]], [[-30.0, 0.0], [2.0]]]


@pytest.mark.parametrize("accumulate_clipped", [False, True])
@pytest.mark.parametrize("clip", [None, 5.0, 0.01])
def test_it_is_the_rule_written_out(clip, accumulate_clipped):
    options = {"lr": 0.1, "clip": clip, "accumulate_clipped": accumulate_clipped}
    found = trained(lambda parameters: ClippedAdagrad(parameters, **options), GRADIENTS)
    assert found == pytest.approx(by_hand(GRADIENTS, **options), abs=1e-14)


def test_without_a_clip_it_is_torchs():
    ours = trained(lambda parameters: ClippedAdagrad(parameters, lr=0.3, clip=None), GRADIENTS)
    theirs = trained(lambda parameters: torch.optim.Adagrad(parameters, lr=0.3, eps=1e-10), GRADIENTS)
    assert ours == pytest.approx(theirs, abs=1e-8)


def test_every_group_is_clipped_by_itself():
    def groups(parameters):
        return ClippedAdagrad([{"params": [each]} for each in parameters], lr=0.1, clip=5.0)

    alone = [by_hand([[step[k]] for step in GRADIENTS], lr=0.1, clip=5.0, accumulate_clipped=False) for k in (0, 1)]
    assert trained(groups, GRADIENTS) == pytest.approx([value for each in alone for value in each], abs=1e-14)


def test_a_gradient_of_nothing_moves_nothing():
    assert trained(ClippedAdagrad, [[[0.0, 0.0], [0.0]]]) == [0.5, 0.5, 0.5]
