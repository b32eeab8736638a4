import math
from functools import partial

import lightning as L
import pytest
import torch
from torch.optim.lr_scheduler import CosineAnnealingLR, OneCycleLR, PolynomialLR

from depgen.errors import UserError
from depgen.training.checkpoints import load_checkpoint
from depgen.training.schedules import Constant, Cosine, InverseSquareRoot
from tests.training.fits import KillAfter, Killed, fit, same, weights
from tests.training.tiny import TinyModel


def rates(schedule, steps, **options):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=2.0)
    scheduler = schedule(optimizer, **options)
    seen = []
    for _ in range(steps):
        seen.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return seen


def test_constant():
    assert rates(Constant, 3) == [2.0, 2.0, 2.0]
    assert rates(Constant, 6, warmup_steps=4) == [0.5, 1.0, 1.5, 2.0, 2.0, 2.0]


def test_inverse_square_root_peaks_at_the_end_of_the_warm_up():
    seen = rates(InverseSquareRoot, 16, warmup_steps=4)
    assert seen == pytest.approx([2 * min(s / 4, math.sqrt(4 / s)) for s in range(1, 17)])
    assert rates(InverseSquareRoot, 4, warmup_steps=0) == pytest.approx([2 / math.sqrt(s) for s in range(1, 5)])


def test_cosine_falls_to_its_final_fraction_and_stays():
    seen = rates(Cosine, 12, warmup_steps=2, total_steps=10, final_fraction=0.1)
    assert seen[:3] == pytest.approx([1.0, 2.0, 2.0])
    assert seen[6] == pytest.approx(2 * (0.1 + 0.9 / 2))
    assert seen[10:] == pytest.approx([0.2, 0.2])


class Rates(L.Callback):
    def __init__(self):
        self.of_steps = {}

    def on_before_optimizer_step(self, trainer, model, optimizer):
        self.of_steps[trainer.global_step] = optimizer.param_groups[0]["lr"]


class Scheduled(TinyModel):
    schedule = Cosine

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.01)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": self.schedule(optimizer), "interval": "step"}}


def scheduled(schedule=Cosine, **options):
    model = Scheduled(3, **options)
    model.schedule = schedule
    return model


def cosine(step, steps):
    return pytest.approx(0.01 * 0.5 * (1 + math.cos(math.pi * min(1.0, step / steps))))


def test_a_cosine_takes_its_length_from_its_phase(tmp_path):
    seen = Rates()
    fit(tmp_path, seen, model=scheduled(Cosine))
    state = load_checkpoint(tmp_path / "resume.ckpt")["callbacks"]["Phases"]
    second, batches = state["first_step"], state["batches"]
    assert seen.of_steps[0] == seen.of_steps[second] == 0.01
    for step, rate in seen.of_steps.items():
        if step >= second:
            assert rate == cosine(step - second, 2 * batches)
    assert seen.of_steps[max(seen.of_steps)] < 0.001


@pytest.mark.parametrize("kill", [4, 14])
def test_with_more_epochs_at_a_resume_a_cosine_is_as_long_as_the_phase(tmp_path, kill):
    one_phase = partial(scheduled, first_share=0.0)
    whole, seen = Rates(), Rates()
    _, expected = fit(tmp_path / "whole", whole, model=one_phase(), max_epochs=5)
    with pytest.raises(Killed):
        fit(tmp_path / "resumed", KillAfter(kill), model=one_phase(), max_epochs=5, every=1)
    _, found = fit(tmp_path / "resumed", seen, model=one_phase(), max_epochs=5, resume=True)
    assert same(weights(found), weights(expected))
    assert all(whole.of_steps[step] == rate for step, rate in seen.of_steps.items())
    fit(tmp_path / "resumed", seen, model=one_phase(), max_epochs=8, resume=True)
    batches = load_checkpoint(tmp_path / "resumed" / "resume.ckpt")["callbacks"]["Phases"]["batches"]
    later = max(whole.of_steps) + 1
    assert seen.of_steps[later] == cosine(later, 8 * batches)


def test_a_schedule_that_ends_before_its_phase_is_named_at_the_start(tmp_path, caplog):
    short = partial(Cosine, total_steps=10), partial(CosineAnnealingLR, T_max=10), partial(PolynomialLR, total_iters=10)
    for schedule in short:
        caplog.clear()
        fit(tmp_path / "short", model=scheduled(schedule, first_share=0.0), max_steps=12)
        assert "ends after 10 steps, but phase second has about 12" in caplog.text
    with pytest.raises(UserError, match="OneCycleLR ends after 10 steps, but phase second has about 12"):
        fit(
            tmp_path / "cycle",
            model=scheduled(partial(OneCycleLR, max_lr=1, total_steps=10), first_share=0),
            max_steps=12,
        )
    caplog.clear()
    fit(tmp_path / "long", model=scheduled(partial(Cosine, total_steps=12), first_share=0.0), max_steps=12)
    assert "ends after" not in caplog.text


def test_a_training_without_end_gives_a_cosine_no_length(tmp_path):
    with pytest.raises(UserError, match="give total_steps"):
        fit(tmp_path, model=scheduled(Cosine, first_share=0.0), max_epochs=-1, max_time="00:00:00:01")
