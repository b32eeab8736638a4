from copy import deepcopy
from types import SimpleNamespace

import lightning as L
import pytest
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import SGD, Adagrad, Adam, AdamW
from torch.utils.data import DataLoader

from depgen.errors import UserError
from depgen.language_models.base import LanguageModel
from depgen.training.adagrad import ClippedAdagrad
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


class Parts(LanguageModel):
    """Two layers and a bias, each a group."""

    def __init__(self, first=None, second=None, optimizer=SGD, together=False):
        super().__init__(optimizer=lambda groups: optimizer(groups, lr=0.05))
        self.save_hyperparameters()
        self.clips, self.together = (first, second), together
        torch.manual_seed(3)
        self.first, self.second, self.bias = nn.Linear(4, 6), nn.Linear(6, 3), nn.Parameter(torch.zeros(3))

    def groups(self):
        return [[*self.first.parameters()], [*self.second.parameters()], [self.bias]]

    def parameter_groups(self):
        name = {"clip_name": "layers"} if self.together else {}
        clips = [{} if clip is None else {"clip": clip, **name} for clip in (*self.clips, None)]
        return [{"params": group, **clip} for group, clip in zip(self.groups(), clips, strict=True)]

    def configure_callbacks(self):
        return []

    def training_step(self, batch, batch_idx):
        return 20 * (self.second(torch.relu(self.first(batch))) + self.bias).float().square().sum()

    @property
    def clipped(self):
        """The gradients as the optimiser got them last."""
        return [[each.grad.clone() for each in group] for group in self.groups()]


BATCHES = torch.randn(4, 5, 4, generator=torch.Generator().manual_seed(1)) * 3


def trained(model, *, steps=1, **options):
    quiet = {"accelerator": "cpu", "logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = L.Trainer(max_steps=steps, enable_checkpointing=False, **quiet, **options)
    trainer.fit(model, DataLoader(BATCHES, batch_size=None))
    return model


def norms(groups):
    return [torch.nn.utils.get_total_norm(group).item() for group in groups]


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
@pytest.mark.parametrize("accumulated", [1, 3])
@pytest.mark.parametrize("trainers", [None, 0.25])
def test_each_group_is_clipped_by_itself(trainers, accumulated, precision):
    options = {"precision": precision, "accumulate_grad_batches": accumulated}
    whole = trained(Parts(), **options)
    found = trained(Parts(1.5, 0.5), gradient_clip_val=trainers, **options)
    assert min(norms(whole.clipped)) > 1.5
    for group, clip in zip(whole.groups(), (1.5, 0.5, trainers), strict=True):
        if clip is not None:
            clip_grad_norm_(group, clip)
    expected = [[each.grad for each in group] for group in whole.groups()]
    for one, other in zip(found.clipped, expected, strict=True):
        torch.testing.assert_close(one, other)
    assert norms(found.clipped)[:2] == pytest.approx([1.5, 0.5], rel=1e-4)
    assert norms(found.clipped)[2] == pytest.approx(trainers or norms(whole.clipped)[2], rel=1e-4)


def test_groups_of_one_name_are_clipped_together():
    whole, found = trained(Parts()), trained(Parts(1.5, 1.5, together=True))
    clip_grad_norm_([each for group in whole.groups()[:2] for each in group], 1.5)
    for one, other in zip(found.clipped, whole.groups(), strict=True):
        torch.testing.assert_close(one, [each.grad for each in other])
    assert norms(found.clipped)[1] < 1.4


def test_without_a_clip_of_a_group_the_trainers_holds_for_all_together():
    found = trained(Parts(), gradient_clip_val=0.25)
    assert sum(norm**2 for norm in norms(found.clipped)) ** 0.5 == pytest.approx(0.25, rel=1e-4)


def test_clipped_adagrad_clips_its_groups_itself():
    """Its accumulator sees the gradient as it is, so the first step of each group is by its formula."""
    found, whole = trained(Parts(1.5, 0.5, ClippedAdagrad)), trained(Parts())
    for one, other in zip(found.clipped, whole.clipped, strict=True):
        assert all(torch.equal(*pair) for pair in zip(one, other, strict=True))
    start = Parts()
    for number, clip in enumerate((1.5, 0.5, 5.0)):
        norm = norms(whole.clipped)[number]
        for place, gradient in enumerate(whole.clipped[number]):
            step = 0.05 * min(1.0, clip / norm) * gradient.sign() * (gradient != 0)
            expected = start.groups()[number][place] - step
            torch.testing.assert_close(found.groups()[number][place], expected, atol=1e-6, rtol=1e-5)


def test_clips_of_norms_and_of_values_are_refused_together():
    with pytest.raises(UserError, match="gradient_clip_algorithm"):
        trained(Parts(1.0), gradient_clip_val=0.5, gradient_clip_algorithm="value")
