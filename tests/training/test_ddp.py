"""Two CPU processes give what one gives on the same global batches, in both phases."""

from unittest.mock import patch

import pytest

from depgen.training.checkpoints import load_checkpoint
from tests.training.fits import fit
from tests.training.tiny import TinyData, TinyModel

FILES = ("first-best.ckpt", "best.ckpt", "resume.ckpt")


def model(**options):
    return TinyModel(3, dropout=0.0, **options)


@pytest.fixture(autouse=True, scope="module")
def batches_that_two_processes_cut_alike():
    """All in one pool: of several, a last batch of one item is another one for two processes."""
    with patch.object(TinyData, "batches_per_pool", 256):
        yield


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone")
    trainer, _ = fit(folder, model=model(), max_epochs=2)
    return folder, float(trainer.callback_metrics["val/loss"]), float(trainer.callback_metrics["train/loss"])


def distance(left, right):
    return max(
        float((a - b).abs().max())
        for name in FILES
        for a, b in zip(*(load_checkpoint(f / name)["state_dict"].values() for f in (left, right)), strict=True)
    )


@pytest.mark.slow
def test_two_processes_equal_one(alone, tmp_path):
    folder, loss, _ = alone
    trainer, _ = fit(tmp_path, model=model(), max_epochs=2, strategy="ddp_fork", devices=2)
    assert {path.name for path in tmp_path.glob("*.ckpt*")} == set(FILES)
    assert distance(folder, tmp_path) < 1e-5
    assert float(trainer.callback_metrics["val/loss"]) == pytest.approx(loss, abs=1e-5)


@pytest.mark.slow
def test_the_mean_of_the_processes_means_would_be_seen(alone, tmp_path):
    folder, _, _ = alone
    fit(tmp_path, model=model(mean_of_means=True), max_epochs=2, strategy="ddp_fork", devices=2)
    assert distance(folder, tmp_path) > 1e-4
