from copy import deepcopy
from types import SimpleNamespace

import pytest
import torch
from torch.optim import SGD, Adagrad, Adam, AdamW

from depgen.language_models.base import LanguageModel
from depgen.training.nt_asgd import NTASGD
from depgen.training.optimizers import use_fused_kernels


def weights():
    torch.manual_seed(0)
    return [torch.randn(5, 3, requires_grad=True), torch.randn(4, requires_grad=True)]


def steps(optimizer, parameters, count=10):
    torch.manual_seed(1)
    for _ in range(count):
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter)
        optimizer.step()
    return torch.cat([parameter.detach().flatten() for parameter in parameters])


MAKERS = {
    "sgd": lambda each: SGD(each, lr=0.1, momentum=0.9),
    "adagrad": lambda each: Adagrad(each, lr=0.1),
    "adam": lambda each: Adam(each, lr=0.1, weight_decay=0.01),
    "adamw": lambda each: AdamW(each, lr=0.1),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_the_update_is_the_same_and_a_state_from_without_kernels_goes_on(make):
    slow, fast = weights(), weights()
    plain, kernels = make(slow), make(fast)
    use_fused_kernels(kernels)
    assert kernels.param_groups[0]["fused"]
    torch.testing.assert_close(steps(kernels, fast), steps(plain, slow))

    copies = [each.detach().clone().requires_grad_() for each in slow]
    resumed = make(copies)
    use_fused_kernels(resumed)
    resumed.load_state_dict(deepcopy(plain.state_dict()))
    torch.testing.assert_close(steps(resumed, copies), steps(plain, slow))


def test_what_was_asked_for_stays():
    for options in ({"fused": False}, {"foreach": True}):
        optimizer = Adam(weights(), **options)
        use_fused_kernels(optimizer)
        assert not optimizer.param_groups[0]["fused"]
    optimizer = NTASGD(iter(weights()), lr=1.0)
    before = [dict(group) for group in optimizer.param_groups]
    use_fused_kernels(optimizer)
    assert [set(group) for group in optimizer.param_groups] == [set(group) for group in before]


@pytest.mark.parametrize("is_skipped", [False, True])
def test_a_step_has_the_rate_that_its_batch_scales_and_no_other_step_has(is_skipped):
    """Also one that is skipped, as with an infinite gradient in float16."""
    parameter, rates = torch.zeros(1, requires_grad=True), []
    optimizer, model = SGD([parameter], lr=0.5), LanguageModel()

    class Step:
        param_groups = optimizer.param_groups

        def step(self, closure=None):
            rates.append(optimizer.param_groups[0]["lr"])
            if not is_skipped:
                optimizer.step()

    for scale in (0.25, 1.0, 0.5):
        model.on_train_batch_start(SimpleNamespace(learning_rate_scale=scale), 0)
        model.optimizer_step(0, 0, Step(), None)
        assert optimizer.param_groups[0]["lr"] == 0.5
    model.on_train_batch_start(SimpleNamespace(), 3)
    model.optimizer_step(0, 3, Step(), None)
    assert rates == [0.125, 0.5, 0.25, 0.5]
