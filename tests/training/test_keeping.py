"""A killed run, resumed, ends with the very weights of an unbroken one: in both phases and around their borders."""

import signal
from unittest.mock import create_autospec

import lightning as L
import pytest
import torch
from depgen.training.guards import InterruptGuard

from depgen.errors import UserError
from depgen.training.checkpoints import load_checkpoint
from depgen.training.runs import is_finished, read_record, update_record
from tests.training.fits import KillAfter, Killed, fit, kept, same, weights
from tests.training.tiny import TinyModel


class EpochEnds(L.Callback):
    def __init__(self):
        self.steps = []

    def on_train_epoch_end(self, trainer, *args):
        self.steps.append(trainer.global_step)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    folder, ends = tmp_path_factory.mktemp("unbroken"), EpochEnds()
    _, model = fit(folder, ends)
    return ends.steps, weights(model), kept(folder)


def test_epochs_differ_in_length(unbroken):
    ends, _, _ = unbroken
    assert len({b - a for a, b in zip([0, *ends], ends, strict=False)}) > 1, ends


# steps relative to an epoch's end: (epoch, offset); the phases change at the end of epoch 1
@pytest.mark.slow
@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize(("epoch", "offset"), [(0, -6), (0, 0), (1, -1), (1, 0), (1, 1), (2, 2), (3, -1)])
def test_a_killed_run_ends_with_the_weights_of_an_unbroken_one(tmp_path, unbroken, every, epoch, offset):
    ends, final, best = unbroken
    with pytest.raises(Killed):
        fit(tmp_path, KillAfter(ends[epoch] + offset), every=every)
    _, model = fit(tmp_path, every=every, resume=True)
    assert same(weights(model), final)
    assert same(kept(tmp_path), best)


@pytest.mark.parametrize("kill", [{"in_validation": True}, {"at_epoch_end": True}])
@pytest.mark.parametrize("epoch", [0, 1, 2])
def test_a_run_killed_at_an_epochs_border_ends_with_the_same_weights(tmp_path, unbroken, kill, epoch):
    ends, final, best = unbroken
    with pytest.raises(Killed):
        fit(tmp_path, KillAfter(ends[epoch], **kill))
    _, model = fit(tmp_path, resume=True)
    assert same(weights(model), final)
    assert same(kept(tmp_path), best)


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
    ends, final, best = unbroken
    step, former = ends[epoch] + offset, signal.getsignal(signal.SIGINT)
    with pytest.raises(SystemExit):
        fit(tmp_path, SendSignal(step, **extra), every=1000)
    assert signal.getsignal(signal.SIGINT) == former
    expected = step if extra.get("in_validation") else step + 1
    assert load_checkpoint(tmp_path / "resume.ckpt")["global_step"] == expected
    _, model = fit(tmp_path, every=1000, resume=True)
    assert same(weights(model), final)
    assert same(kept(tmp_path), best)


def test_a_run_stopped_behind_its_last_step_is_finished_when_gone_on_with(tmp_path, unbroken):
    ends, final, _ = unbroken
    run, folder = tmp_path, tmp_path / "checkpoints"
    update_record(run, {"experiment": "tiny"})
    with pytest.raises(SystemExit):
        fit(folder, SendSignal(ends[-1], in_validation=True), every=1000)
    assert not is_finished(run)
    _, model = fit(folder, every=1000, resume=True)
    assert is_finished(run)
    assert read_record(run)["steps"] == ends[-1]
    assert same(weights(model), final)


def test_a_second_ctrl_c_stops_at_once_and_unsaved(tmp_path):
    class Twice(SendSignal):
        def on_before_optimizer_step(self, trainer, *args):
            super().on_before_optimizer_step(trainer)
            super().on_before_optimizer_step(trainer)

    with pytest.raises(SystemExit):
        fit(tmp_path, Twice(2), every=1000)
    assert not (tmp_path / "resume.ckpt").exists()


def test_a_nan_loss_names_step_and_items_and_keeps_the_last_good_file(tmp_path):
    with pytest.raises(UserError, match=r"nan at step 12 .*epoch 1.*items \d+ .*last good checkpoint is .*resume.ckpt"):
        fit(tmp_path, model=TinyModel(3, nan_at=12), every=3)
    good = load_checkpoint(tmp_path / "resume.ckpt")
    assert 0 < good["global_step"] <= 12
    assert all(torch.isfinite(value).all() for value in good["state_dict"].values())


def test_weights_that_have_become_nan_are_not_written(tmp_path):
    class Spoil(L.Callback):
        def on_train_batch_end(self, trainer, model, *args):
            if trainer.global_step == 5:
                model.net[0].weight.data[0] = float("nan")

    with pytest.raises(UserError, match=r"hold NaN \(net.0.weight\)|loss is nan"):
        fit(tmp_path, Spoil(), every=1)
    assert load_checkpoint(tmp_path / "resume.ckpt")["global_step"] == 4


def test_the_best_of_each_phase_is_kept_and_the_last_phases_also_as_best(unbroken, tmp_path):
    values = {}

    class Watch(L.Callback):
        def on_validation_end(self, trainer, model):
            name = "second" if model.phase else "first"
            value = float(trainer.callback_metrics["val/loss" if model.phase else "val/first"])
            values.setdefault(name, []).append((value, weights(model)))

    fit(tmp_path, Watch())
    for name, seen in values.items():
        _, expected = min(seen, key=lambda pair: pair[0])
        assert same(load_checkpoint(tmp_path / f"{name}-best.ckpt")["state_dict"], expected)
    assert same(load_checkpoint(tmp_path / "best.ckpt")["state_dict"], expected)
    assert not list(tmp_path.glob("*.part"))


def test_a_monitor_that_is_not_logged_is_named(tmp_path):
    class Silent(TinyModel):
        def validation_step(self, batch, batch_idx):
            self.log("val/other", 1.0, batch_size=1)

    with pytest.raises(UserError, match=r"judged by 'val/loss'.*it logs .*val/other"):
        fit(tmp_path, model=Silent(3, first=0, second=1), max_epochs=1)


def test_processes_agree_on_a_stop_only_where_there_are_several():
    guard, trainer = InterruptGuard(), create_autospec(L.Trainer, instance=True)
    trainer.strategy.reduce_boolean_decision.return_value = True
    trainer.world_size = 1
    assert not guard.agreed(trainer)
    trainer.world_size = 2
    assert guard.agreed(trainer)
    trainer.strategy.reduce_boolean_decision.assert_called_once_with(False, all=False)
