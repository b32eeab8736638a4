import logging
import shutil
import time
from collections import namedtuple

import pytest
import torch

from depgen.errors import UserError
from depgen.training.checkpoints import load_checkpoint
from depgen.training.guards import LossGuard, duration
from tests.training.fits import fit
from tests.training.tiny import TinyModel


def test_a_full_disk_is_seen_before_training(tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**9, 10**9, 1000))
    model = TinyModel(3)
    parameters = sum(p.numel() for p in model.parameters())
    need = 1.2 * 4 * 3 * parameters * 4  # two phases' best, best and resume
    with pytest.raises(UserError, match=rf"has 0.0 MB left, but 4 checkpoints of {parameters} parameters need .* MB"):
        fit(tmp_path, model=model)
    assert model.trainer.global_step == 0
    assert not list(tmp_path.glob("*.ckpt"))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**9, 0, int(need) + 1))
    fit(tmp_path, model=TinyModel(3))


def test_room_taken_by_checkpoints_that_will_be_replaced_counts(tmp_path, monkeypatch):
    fit(tmp_path)
    usage, free = namedtuple("usage", "total used free"), [1000]  # one file of 67 parameters: 965 bytes
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**9, 10**9, free[0]))
    fit(tmp_path, resume=True)
    free[0] = 900  # a new file is written beside the one that it replaces
    with pytest.raises(UserError, match="Make room"):
        fit(tmp_path, resume=True)


class NanOnTheSecond(TinyModel):
    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        return loss * float("nan") if (self.trainer.global_step, self.trainer.global_rank) == (2, 1) else loss


def test_all_processes_stop_when_one_loss_is_no_number(tmp_path, monkeypatch):
    look = LossGuard.on_before_backward

    def noted(guard, trainer, *args):
        try:
            look(guard, trainer, *args)
        except UserError as error:
            (tmp_path / f"rank{trainer.global_rank}").write_text(str(error))
            until = time.monotonic() + 20
            while len(list(tmp_path.glob("rank*"))) < 2 and time.monotonic() < until:
                time.sleep(0.05)  # the first process to end takes the other with it
            raise

    monkeypatch.setattr(LossGuard, "on_before_backward", noted)
    with pytest.raises(Exception, match="training loss"):
        fit(tmp_path, model=NanOnTheSecond(3), strategy="ddp_fork", devices=2)
    first, second = ((tmp_path / f"rank{rank}").read_text() for rank in range(2))
    assert first.startswith("The training loss of another process is no number at step 2")
    assert second.startswith("The training loss is nan at step 2")


@pytest.mark.gpu
def test_a_nan_loss_on_a_gpu_is_seen_a_step_later_and_before_a_checkpoint(tmp_path):
    with pytest.raises(UserError, match=r"nan at step 4 .*items \d+ .*last good checkpoint is .*resume.ckpt"):
        fit(tmp_path, model=TinyModel(3, nan_at=4), every=1, accelerator="gpu", devices=1)
    assert load_checkpoint(tmp_path / "resume.ckpt")["global_step"] == 4
    with pytest.raises(UserError, match=r"nan at step 4 "):
        fit(tmp_path, model=TinyModel(3, nan_at=4), every=100, accelerator="gpu", devices=1)


def test_the_projected_time_is_said_after_twenty_steps_of_each_phase(tmp_path, caplog):
    caplog.set_level(logging.INFO, "depgen")
    fit(tmp_path, model=TinyModel(3, first=3, second=3), max_epochs=6)
    said = [record.message for record in caplog.records if record.message.startswith("After 20 steps")]
    assert len(said) == 2
    assert "an epoch of" in said[0]
    assert "validation aside; 6 epochs" in said[0]


@pytest.mark.parametrize(
    ("features", "precision", "said"),
    [
        ({"architecture": "x86_64", "avx512_bf16": False, "amx_bf16": False}, "bf16-mixed", True),
        ({"architecture": "x86_64", "avx512_bf16": True, "amx_bf16": False}, "bf16-mixed", False),
        ({"architecture": "x86_64", "avx512_bf16": False, "amx_bf16": False}, "32-true", False),
        ({"architecture": "aarch64"}, "bf16-mixed", False),
    ],
)
def test_without_bf16_instructions_the_faster_precision_is_named(
    tmp_path, caplog, monkeypatch, features, precision, said
):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: features, raising=False)
    fit(tmp_path, model=TinyModel(3, first=1, second=1), max_epochs=2, precision=precision)
    assert ("--trainer.precision 32-true is faster" in caplog.text) is said


def test_durations():
    assert [duration(x) for x in (0.0, 59.4, 60.0, 3599.0, 3600.0, 86400.0)] == [
        "0 s", "59 s", "1 min 00 s", "59 min 59 s", "1 h 00 min", "24 h 00 min",
    ]  # fmt: skip
