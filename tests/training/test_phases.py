import lightning as L
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from depgen.errors import UserError
from depgen.training.checkpoints import load_checkpoint
from depgen.training.phases import Phase, PhaseEarlyStopping, ends_of
from depgen.training.runs import is_finished
from tests.training.fits import KillAfter, Killed, curve, fit, kept, same, weights
from tests.training.tiny import TinyModel


@given(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=4), st.integers(0, 200))
def test_each_phase_has_an_epoch_and_all_together_have_all(shares, more):
    total = len(shares) + more
    ends = ends_of(shares, total)
    lengths = [end - begin for begin, end in zip((0, *ends), ends, strict=False)]
    assert min(lengths) >= 1 if len(shares) > 1 else lengths == [total]
    assert sum(lengths) == total
    if len(shares) == 2 and 1 < shares[0] / sum(shares) * total < total - 1:
        assert abs(lengths[0] - shares[0] / sum(shares) * total) <= 0.5 + 1e-9


@pytest.mark.parametrize(("first", "second"), [(30, 30), (100, 400), (2, 6), (12, 12), (200, 800)])
def test_shares_of_published_lengths_give_these_lengths(first, second):
    share = first / (first + second)
    assert ends_of((share, 1 - share), first + second) == (first, first + second)


class Watch(L.Callback):
    def __init__(self):
        self.phases, self.rates, self.starts = [], [], {}

    def on_train_batch_end(self, trainer, model, *args):
        self.phases.append((trainer.current_epoch, model.phase))
        self.rates.append(trainer.optimizers[0].param_groups[0]["lr"])

    def on_before_zero_grad(self, trainer, model, optimizer):
        self.starts.setdefault(model.phase, (weights(model), dict(optimizer.state)))


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
    assert watch.rates[first] == pytest.approx(0.01 * 0.97)  # after the first step
    assert watch.rates[first - 1] == pytest.approx(0.02 * 0.97**first)
    assert model.setups == [0, 1]


def test_the_second_phase_begins_from_the_best_weights_where_later_ones_are_no_better(tmp_path):
    """Of a constant loss the first validation is the best."""
    watch, after_each_epoch = Watch(), []

    class See(L.Callback):
        def on_validation_end(self, trainer, model):
            after_each_epoch.append(weights(model))

    fit(tmp_path, watch, See(), model=TinyModel(3, flat=True))
    start, _ = watch.starts[1]
    assert same(start, after_each_epoch[0])
    assert not same(start, after_each_epoch[1])


def test_the_best_of_each_phase_is_kept(tmp_path):
    values = {}

    class See(L.Callback):
        def on_validation_end(self, trainer, model):
            name = "best" if model.phase else "first-best"
            value = float(trainer.callback_metrics["val/loss" if model.phase else "val/first"])
            values.setdefault(name, []).append((value, weights(model)))

    fit(tmp_path, See())
    for name, seen in values.items():
        _, expected = min(seen, key=lambda pair: pair[0])
        assert same(load_checkpoint(tmp_path / f"{name}.ckpt")["state_dict"], expected)
    assert {path.name for path in tmp_path.glob("*.ckpt*")} == {"first-best.ckpt", "best.ckpt", "resume.ckpt"}


def test_three_phases(tmp_path):
    model, watch = TinyModel(3), Watch()
    model.phases = (Phase("a", 1, "val/first"), Phase("b", 2), Phase("c", 1))
    fit(tmp_path, watch, model=model)
    assert epochs_by_phase(watch) == {0: [0], 1: [1, 2], 2: [3]}
    assert {path.name for path in tmp_path.glob("*best.ckpt")} == {"a-best.ckpt", "b-best.ckpt", "best.ckpt"}


def test_a_phase_that_stops_early_leaves_the_next_one_its_length(tmp_path):
    watch = Watch()

    class OnlyFirst(PhaseEarlyStopping):
        def on_validation_end(self, trainer, model):
            if model.phase == 0:
                super().on_validation_end(trainer, model)

    # a constant validation loss: the first validation counts as a fall, the second does not
    model = TinyModel(3, first_share=5 / 7, flat=True)
    fit(tmp_path / "checkpoints", watch, OnlyFirst(patience=1), model=model, max_epochs=7)
    assert epochs_by_phase(watch) == {0: [0, 1], 1: [2, 3]}
    assert is_finished(tmp_path)


def test_an_early_stop_counts_anew_in_the_last_phase_and_is_remembered_over_a_kill(tmp_path):
    def flat():
        return TinyModel(3, flat=True)

    whole, watch = tmp_path / "whole" / "checkpoints", Watch()
    _, expected = fit(whole, watch, PhaseEarlyStopping(patience=1), model=flat(), max_epochs=10)
    assert epochs_by_phase(watch) == {0: [0, 1], 1: [2, 3]}
    assert is_finished(tmp_path / "whole")
    broken = tmp_path / "broken" / "checkpoints"
    with pytest.raises(Killed):
        fit(broken, KillAfter(20), PhaseEarlyStopping(patience=1), model=flat(), max_epochs=10)
    _, resumed = fit(broken, PhaseEarlyStopping(patience=1), model=flat(), max_epochs=10, resume=True)
    assert same(weights(resumed), weights(expected))
    assert curve(broken) == curve(whole)


def test_an_early_stop_counts_from_the_best_value_not_from_the_last(tmp_path):
    class Scripted(TinyModel):
        def validation_step(self, batch, batch_idx):
            self.log("val/loss", torch.tensor([5.0, 3.0, 4.0, 3.5, 2.0][self.current_epoch]), batch_size=1)

    watch = Watch()
    fit(tmp_path, watch, PhaseEarlyStopping(patience=2), model=Scripted(3, first_share=0.0), max_epochs=5)
    assert epochs_by_phase(watch) == {0: [0, 1, 2, 3]}


@pytest.mark.parametrize("steps", [1, 7, 20])
def test_more_epochs_at_a_resume_lengthen_the_last_phase_once_it_has_begun(tmp_path, steps):
    whole, short = tmp_path / "whole", tmp_path / "short"
    trainer, _ = fit(short, max_epochs=2)
    _, expected = fit(whole, model=TinyModel(3, first_share=0.2), max_epochs=5)
    watch = Watch()
    with pytest.raises(Killed):
        fit(short, KillAfter(trainer.global_step + steps), watch, max_epochs=5, resume=True)
    _, found = fit(short, watch, max_epochs=5, resume=True)
    assert same(weights(found), weights(expected))
    assert same(kept(short), kept(whole))
    assert epochs_by_phase(watch) == {1: [2, 3, 4]}


def test_more_epochs_in_the_first_phase_give_it_its_share_of_them(tmp_path):
    watch = Watch()
    with pytest.raises(Killed):
        fit(tmp_path / "resumed", KillAfter(4), max_epochs=4)
    _, resumed = fit(tmp_path / "resumed", watch, max_epochs=6, resume=True)
    _, expected = fit(tmp_path / "whole", max_epochs=6)
    assert epochs_by_phase(watch) == {0: [0, 1, 2], 1: [3, 4, 5]}
    assert same(weights(resumed), weights(expected))


def test_testing_a_checkpoint_brings_back_its_phase(tmp_path):
    trainer, _ = fit(tmp_path)
    fresh = TinyModel(3)
    for name, phase in (("best", 1), ("first-best", 0)):
        trainer.test(fresh, trainer.datamodule, ckpt_path=str(tmp_path / f"{name}.ckpt"), verbose=False)
        assert fresh.phase == phase


def test_without_a_validation_the_last_weights_are_kept_with_a_word(tmp_path, caplog):
    _, model = fit(tmp_path, limit_val_batches=0)
    assert "Phase first was never validated: its last weights are used" in caplog.text
    assert "Phase second was never validated: its last weights are kept" in caplog.text
    assert same(load_checkpoint(tmp_path / "best.ckpt")["state_dict"], weights(model))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_epochs": 1}, r"trainer\.max_epochs: expected 2 or more.*found 1"),
        ({"max_epochs": -1, "max_steps": 10}, r"found -1"),
        ({"callbacks": [L.pytorch.callbacks.EarlyStopping("val/loss")]}, "PhaseEarlyStopping"),
        ({"monitor": "val/other"}, r"judged by 'val/other'.*it logs .*val/loss"),
        ({"first_share": 1.0}, r"first_share: .*from 0 to below 1, found 1"),
    ],
)
def test_what_is_refused(tmp_path, options, message):
    def trained(first_share=0.5, monitor=None, callbacks=(), **others):
        model = TinyModel(3, first_share=first_share)
        if monitor is not None:
            model.phases = (Phase("only", monitor=monitor),)
        fit(tmp_path, *callbacks, model=model, **others)

    with pytest.raises(UserError, match=message):
        trained(**options)


def test_a_phase_that_diverges_ends_the_training(tmp_path):
    class Diverging(TinyModel):
        def _evaluate(self, batch, name):
            super()._evaluate(batch, name)
            self.log("val/perplexity", torch.tensor(float("inf")), batch_size=1)

    with pytest.raises(UserError, match="Phase first has diverged"):
        fit(tmp_path, model=Diverging(3))
    assert not (tmp_path / "first-best.ckpt").exists()
    with pytest.raises(UserError, match="Phase first has diverged"):
        fit(tmp_path, model=Diverging(3), resume=True)
