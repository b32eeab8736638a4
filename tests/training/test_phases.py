from contextlib import nullcontext

import lightning as L
import pytest

from depgen.errors import UserError
from depgen.training.checkpoints import load_checkpoint
from depgen.training.phases import Phase, PhaseEarlyStopping, PhaseSwitch, phases_of
from tests.training.fits import KillAfter, Killed, fit, kept, same, weights
from tests.training.tiny import TinyModel


class Watch(L.Callback):
    def __init__(self):
        self.phases, self.rates, self.starts = [], [], {}

    def on_train_batch_start(self, trainer, model, batch, batch_idx):
        self.phases.append((trainer.current_epoch, model.phase))
        self.rates.append(trainer.optimizers[0].param_groups[0]["lr"])
        self.starts.setdefault(model.phase, (weights(model), dict(trainer.optimizers[0].state)))


def epochs_by_phase(watch):
    return {phase: sorted({epoch for epoch, p in watch.phases if p == phase}) for _, phase in watch.phases}


def test_the_second_phase_starts_from_the_best_weights_with_fresh_optimiser_and_schedule(tmp_path):
    watch = Watch()
    _, model = fit(tmp_path, watch)
    assert epochs_by_phase(watch) == {0: [0, 1], 1: [2, 3]}
    start, state = watch.starts[1]
    assert same(start, load_checkpoint(tmp_path / "first-best.ckpt")["state_dict"])
    assert not state
    first = [phase for _, phase in watch.phases].index(1)
    assert watch.rates[0] == 0.02
    assert watch.rates[first] == 0.01
    assert watch.rates[first - 1] < 0.02
    assert model.setups == [0, 1]


def test_a_model_of_one_phase_is_never_switched(tmp_path):
    watch = Watch()
    _, model = fit(tmp_path, watch, model=TinyModel(3, first=0, second=0), max_epochs=2)
    assert model.setups == [0]
    assert (tmp_path / "second-best.ckpt").exists()
    assert (tmp_path / "best.ckpt").exists()


def test_three_phases(tmp_path):
    model, watch = TinyModel(3), Watch()
    model.phases = (Phase("a", 1, "val/first"), Phase("b", 2, "val/loss"), Phase("c", 1, "val/loss"))
    fit(tmp_path, watch, model=model)
    assert epochs_by_phase(watch) == {0: [0], 1: [1, 2], 2: [3]}
    assert {path.name for path in tmp_path.glob("*-best.ckpt")} == {"a-best.ckpt", "b-best.ckpt", "c-best.ckpt"}


@pytest.mark.parametrize("second", [2, 0])
def test_early_stop_in_the_first_phase_starts_the_second_in_its_full_length(tmp_path, second):
    watch = Watch()
    # a constant validation loss: the first validation counts as a fall, the second does not
    model = TinyModel(3, first=5, second=second, flat=True)

    class OnlyFirst(PhaseEarlyStopping):
        def on_validation_end(self, trainer, model):
            if model.phase == 0:
                super().on_validation_end(trainer, model)

    fit(tmp_path, watch, OnlyFirst(patience=1), model=model, max_epochs=7)
    assert epochs_by_phase(watch) == {0: [0, 1], 1: [2, 3]}


def test_early_stop_in_the_last_phase_ends_the_run_and_starts_counting_anew(tmp_path):
    watch = Watch()
    fit(
        tmp_path, watch, PhaseEarlyStopping(patience=1), model=TinyModel(3, first=5, second=5, flat=True), max_epochs=10
    )
    assert epochs_by_phase(watch) == {0: [0, 1], 1: [2, 3]}


def test_an_early_stop_is_remembered_over_a_kill(tmp_path):
    def model():
        return TinyModel(3, first=5, second=5, flat=True)

    whole, watch = tmp_path / "whole", Watch()
    _, expected = fit(whole, PhaseEarlyStopping(patience=1), model=model(), max_epochs=10)
    broken = tmp_path / "broken"
    with pytest.raises(Killed):
        fit(broken, KillAfter(20), PhaseEarlyStopping(patience=1), model=model(), max_epochs=10)
    _, resumed = fit(broken, watch, PhaseEarlyStopping(patience=1), model=model(), max_epochs=10, resume=True)
    assert same(weights(resumed), weights(expected))
    assert max(epoch for epoch, _ in watch.phases) == 3


@pytest.mark.parametrize(
    ("max_epochs", "lengths"), [(2, (1, 1)), (3, (1, 2)), (7, (3, 4)), (1000, (2, 2)), (-1, (2, 2))]
)
def test_any_trainer_scales_the_phases_to_its_max_epochs_but_not_to_lightnings_default(
    tmp_path, caplog, max_epochs, lengths
):
    watch, caplog_level = Watch(), caplog.at_level("INFO", "depgen")
    with caplog_level:
        fit(tmp_path, watch, max_epochs=max_epochs)
    first, second = lengths
    assert epochs_by_phase(watch) == {0: list(range(first)), 1: list(range(first, first + second))}
    said = (
        f"trainer.max_epochs is {max_epochs}, so the phases are scaled: first {first} (of 2), second {second} (of 2)."
    )
    assert (said in caplog.text) is (lengths != (2, 2))


def test_fewer_epochs_than_phases_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"max_epochs is 1, .* Set it to 2 or more"):
        fit(tmp_path, max_epochs=1)
    with pytest.raises(UserError, match=r"max_epochs is 2, but the phases before second already last 2 epochs"):
        fit(tmp_path, model=TinyModel(3, second=0), max_epochs=2)


@pytest.mark.slow
@pytest.mark.parametrize("steps", [1, 7, 20])
def test_a_resumed_trainer_lengthens_the_last_phase_only(tmp_path, steps):
    whole, (short, _) = tmp_path / "whole", fit(tmp_path / "short", max_epochs=2)
    _, expected = fit(whole, model=TinyModel(3, first=1, second=4), max_epochs=5)
    watch = Watch()
    with pytest.raises(Killed):
        fit(tmp_path / "short", KillAfter(short.global_step + steps), watch, max_epochs=5, resume=True)
    _, found = fit(tmp_path / "short", watch, max_epochs=5, resume=True)
    assert same(weights(found), weights(expected))
    assert same(kept(tmp_path / "short"), kept(whole))
    assert epochs_by_phase(watch) == {1: [2, 3, 4]}


def test_testing_a_checkpoint_brings_back_its_phase(tmp_path):
    trainer, _ = fit(tmp_path)
    fresh = TinyModel(3)
    trainer.test(fresh, trainer.datamodule, ckpt_path=str(tmp_path / "best.ckpt"), verbose=False)
    assert fresh.phase == 1
    trainer.test(fresh, trainer.datamodule, ckpt_path=str(tmp_path / "first-best.ckpt"), verbose=False)
    assert fresh.phase == 0


def test_a_model_without_phases_has_one():
    assert phases_of(L.LightningModule()) == (Phase("training", None, "val/loss"),)


@pytest.mark.parametrize(
    ("first", "every", "message"),
    [(True, False, "not all processes see"), (False, False, "no best checkpoint"), (True, True, None)],
)
def test_the_processes_agree_on_the_best_checkpoint(tmp_path, monkeypatch, first, every, message):
    trainer, model = fit(tmp_path)
    monkeypatch.setattr(trainer.strategy, "broadcast", lambda seen: first)
    monkeypatch.setattr(trainer.strategy, "reduce_boolean_decision", lambda seen, all: every)
    switch = PhaseSwitch(tmp_path)
    switch.phases, switch.validated = model.phases, True
    with pytest.raises(UserError, match=message) if message else nullcontext():
        switch._load_best(trainer, model)


def test_a_best_checkpoint_that_has_gone_is_an_error_after_a_resume_too(tmp_path):
    class Remove(L.Callback):
        def on_train_epoch_end(self, trainer, model):
            (tmp_path / "first-best.ckpt").unlink(missing_ok=True)

    with pytest.raises(UserError, match=r"Phase first has diverged.* no best checkpoint at .*first-best\.ckpt"):
        fit(tmp_path, Remove())
    with pytest.raises(UserError, match=r"Phase first has diverged.* no best checkpoint at .*first-best\.ckpt"):
        fit(tmp_path, resume=True)


def test_nothing_is_learnt_from_a_missing_best_checkpoint(tmp_path, caplog):
    fit(tmp_path, limit_val_batches=0)
    assert "its last weights are used" in caplog.text
