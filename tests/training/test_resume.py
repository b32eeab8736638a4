"""A killed run, resumed, ends with the weights and the curve of an unbroken one: in both phases, at their borders."""

import multiprocessing
import os
import signal
from types import SimpleNamespace

import lightning as L
import pytest
import torch

from depgen.errors import UserError
from depgen.training.callbacks import LossGuard
from depgen.training.checkpoints import load_checkpoint
from depgen.training.runs import is_finished, read_record
from tests.training.fits import KillAfter, Killed, curve, fit, kept, same, weights
from tests.training.tiny import TinyModel


class EpochEnds(L.Callback):
    def __init__(self):
        self.steps = []

    def on_train_epoch_end(self, trainer, *args):
        self.steps.append(trainer.global_step)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    folder, ends = tmp_path_factory.mktemp("unbroken") / "checkpoints", EpochEnds()
    _, model = fit(folder, ends)
    assert len({b - a for a, b in zip([0, *ends.steps], ends.steps, strict=False)}) > 1, "epochs differ in length"
    return ends.steps, weights(model), kept(folder), curve(folder)


def assert_goes_on_like(unbroken, folder, *extra, **options):
    _, final, best, lines = unbroken
    _, model = fit(folder, *extra, resume=True, **options)
    assert same(weights(model), final)
    assert same(kept(folder), best)
    assert curve(folder) == lines


# steps relative to an epoch's end: (epoch, offset); the phases change at the end of epoch 1
@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize(("epoch", "offset"), [(0, -6), (0, 0), (1, -1), (1, 0), (1, 1), (2, 2), (3, -1)])
def test_a_run_broken_off_anywhere_ends_like_an_unbroken_one(tmp_path, unbroken, every, epoch, offset):
    with pytest.raises(Killed):
        fit(tmp_path, KillAfter(unbroken[0][epoch] + offset), every=every)
    assert_goes_on_like(unbroken, tmp_path, every=every)


@pytest.mark.parametrize("kill", [{"in_validation": True}, {"at_epoch_end": True}])
@pytest.mark.parametrize("epoch", [0, 1, 2])
def test_a_run_broken_off_at_an_epochs_border_ends_like_an_unbroken_one(tmp_path, unbroken, kill, epoch):
    with pytest.raises(Killed):
        fit(tmp_path, KillAfter(unbroken[0][epoch], **kill))
    assert_goes_on_like(unbroken, tmp_path)


class KillProcess(L.Callback):
    """SIGKILL within the step after the given one, or in the validation that follows it."""

    def __init__(self, step, *, in_validation=False):
        self.step, self.in_validation = step, in_validation

    def on_before_zero_grad(self, trainer, *args):
        if not self.in_validation and trainer.global_step > self.step:
            os.kill(os.getpid(), signal.SIGKILL)

    def on_validation_epoch_start(self, trainer, *args):
        if self.in_validation and trainer.global_step >= self.step:
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(
    ("epoch", "offset", "validating"), [(0, -3, False), (1, 0, True), (1, 1, False), (2, -1, False)]
)
def test_kill_9(tmp_path, unbroken, epoch, offset, validating):
    kill = KillProcess(unbroken[0][epoch] + offset, in_validation=validating)
    process = multiprocessing.get_context("fork").Process(target=fit, args=(tmp_path, kill), kwargs={"every": 1})
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    assert_goes_on_like(unbroken, tmp_path)


def test_a_kill_right_after_a_checkpoint_loses_no_line_of_the_curve(tmp_path, unbroken, monkeypatch):
    save = L.Trainer.save_checkpoint

    def killed_after(trainer, path, **options):
        save(trainer, path, **options)
        if trainer.global_step == 5:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(L.Trainer, "save_checkpoint", killed_after)
        with pytest.raises(Killed):
            fit(tmp_path, every=1)
    assert curve(tmp_path)[-1]["step"] == "4"
    assert_goes_on_like(unbroken, tmp_path, every=1)


class SendSignal(L.Callback):
    """Sends this process a signal in the midst of a step, or of the validation after it."""

    def __init__(self, step, number=signal.SIGINT, *, in_validation=False):
        self.step, self.number, self.in_validation = step, number, in_validation

    def on_before_optimizer_step(self, trainer, *args):
        if not self.in_validation and trainer.global_step == self.step:
            signal.raise_signal(self.number)

    def on_validation_epoch_start(self, trainer, *args):
        if self.in_validation and trainer.global_step == self.step:
            signal.raise_signal(self.number)


@pytest.mark.parametrize(
    ("epoch", "offset", "extra"),
    [
        (0, -4, {}),
        (1, -1, {}),
        (1, 0, {"in_validation": True}),
        (1, 0, {}),
        (2, -3, {"number": signal.SIGTERM}),
    ],
)
def test_ctrl_c_leaves_a_checkpoint_that_goes_on_exactly(tmp_path, unbroken, epoch, offset, extra):
    step, former = unbroken[0][epoch] + offset, signal.getsignal(signal.SIGINT)
    with pytest.raises(SystemExit):
        fit(tmp_path, SendSignal(step, **extra), every=1000)
    assert signal.getsignal(signal.SIGINT) == former
    expected = step if extra.get("in_validation") else step + 1
    assert load_checkpoint(tmp_path / "resume.ckpt")["global_step"] == expected
    assert_goes_on_like(unbroken, tmp_path, every=1000)


def test_a_run_stopped_behind_its_last_step_is_finished_when_gone_on_with(tmp_path, unbroken):
    ends, folder = unbroken[0], tmp_path / "checkpoints"
    with pytest.raises(SystemExit):
        fit(folder, SendSignal(ends[-1], in_validation=True), every=1000)
    assert not is_finished(tmp_path)
    assert_goes_on_like(unbroken, folder, every=1000)
    assert is_finished(tmp_path)
    assert read_record(tmp_path)["steps"] == ends[-1]


def test_a_second_ctrl_c_stops_at_once_and_unsaved(tmp_path):
    class Twice(SendSignal):
        def on_before_optimizer_step(self, trainer, *args):
            super().on_before_optimizer_step(trainer)
            super().on_before_optimizer_step(trainer)

    with pytest.raises(SystemExit):
        fit(tmp_path, Twice(2), every=1000)
    assert not (tmp_path / "resume.ckpt").exists()


def test_a_nan_loss_keeps_the_last_good_file(tmp_path):
    with pytest.raises(UserError, match=r"loss is nan at or just before step 12 \(epoch 1\)"):
        fit(tmp_path, model=TinyModel(3, broken_at=12), every=3)
    good = load_checkpoint(tmp_path / "resume.ckpt")
    assert 0 < good["global_step"] <= 12
    assert all(torch.isfinite(value).all() for value in good["state_dict"].values())


class GuardOfGpu(LossGuard):
    """Sees each loss as one on a GPU, which is not waited for."""

    def on_before_backward(self, trainer, model, loss):
        super().on_before_backward(trainer, model, SimpleNamespace(detach=loss.detach, device=torch.device("cuda")))


@pytest.mark.parametrize("loss", ["nan", "inf"])
@pytest.mark.parametrize("epoch", [1, 3])
def test_the_last_loss_of_an_epoch_on_a_gpu_is_seen_before_anything_is_written(
    tmp_path, unbroken, monkeypatch, loss, epoch
):
    monkeypatch.setattr("tests.training.fits.LossGuard", GuardOfGpu)
    last = unbroken[0][epoch] - 1
    with pytest.raises(UserError, match=f"loss is {loss} at or just before step"):
        fit(tmp_path, model=TinyModel(3, broken_at=last, broken=loss), every=1)
    assert load_checkpoint(tmp_path / "resume.ckpt")["global_step"] == last


class NanOnTheSecond(TinyModel):
    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        return loss * float("nan") if (self.trainer.global_step, self.trainer.global_rank) == (2, 1) else loss


def test_all_processes_stop_when_one_loss_is_no_number(tmp_path):
    with pytest.raises(Exception, match="training loss is nan"):
        fit(tmp_path, model=NanOnTheSecond(3), strategy="ddp_fork", devices=2)


@pytest.mark.gpu
def test_a_nan_loss_on_a_gpu_is_seen_a_step_later_and_reaches_no_file(tmp_path):
    with pytest.raises(UserError, match=r"loss is nan|hold NaN"):
        fit(tmp_path, model=TinyModel(3, broken_at=4), every=1, accelerator="gpu", devices=1)
    assert load_checkpoint(tmp_path / "resume.ckpt")["global_step"] == 4
