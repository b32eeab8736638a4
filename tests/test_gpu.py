"""What is claimed of a GPU; deselected where there is none (`pytest -m gpu`)."""

import copy

import lightning as L
import pytest
import torch

from tests.contract.runs import built
from tests.contract.systems import SYSTEMS
from tests.fixtures.kinds import EXPERIMENTS
from tests.fixtures.make import write_inputs

pytestmark = pytest.mark.gpu
PLAIN = [name for name in EXPERIMENTS if name != "similarity"]
"""Without the kind that needs another run."""


@pytest.fixture
def inputs(tmp_path, monkeypatch):
    for root in ("data", "cache", "models", "runs"):
        monkeypatch.setenv(f"DEPGEN_{root.upper()}", str(tmp_path / root))
    write_inputs(tmp_path)
    return tmp_path


class KeepsBatch(L.Callback):
    """The first batch that a step was given, as it was on the device and before."""

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        self.batch = batch


def trained(kind, folder, *, precision="32-true", **changes):
    settings = copy.deepcopy(EXPERIMENTS[kind])
    settings["data"]["init_args"].update(changes)
    L.seed_everything(1)
    data = built(settings["data"])
    model = built(settings["model"], vocabulary_size=data.vocabulary_size)
    kept = KeepsBatch()
    trainer = L.Trainer(
        default_root_dir=folder, accelerator="gpu", devices=1, precision=precision, max_epochs=len(model.phases) + 1,
        logger=False, enable_progress_bar=False, enable_model_summary=False, callbacks=[kept],
    )  # fmt: skip
    trainer.fit(model, data)
    return trainer, model, data, kept.batch


@pytest.mark.parametrize("kind", PLAIN)
def test_a_system_trains_and_is_tested(kind, inputs):
    trainer, model, data, _ = trained(kind, inputs / "run")
    (figures,) = trainer.test(model, data, verbose=False)
    assert all(value == value and abs(value) < 1e9 for value in figures.values())


@pytest.mark.parametrize("kind", ["udgn", "dmlm", "adclm", "gilt", "pushdown", "tg", "itexp"])
def test_lengths_stay_on_the_cpu_and_batches_come_from_pinned_memory(kind, inputs):
    _, _, data, batch = trained(kind, inputs / "run")
    assert batch.lengths.device.type == batch.items.device.type == "cpu"
    assert batch.lengths.is_pinned(), "what stays on the CPU was pinned with the rest"
    tokens = batch.tokens if kind == "udgn" else batch.inputs
    assert tokens.device.type == "cuda"
    assert data.train_dataloader().pin_memory


@pytest.mark.parametrize("kind", ["udgn", "dmlm", "adclm", "masked_transformer", "itexp"])
def test_a_step_waits_for_no_result(kind, inputs):
    _, model, _, batch = trained(kind, inputs / "run")
    model._trainer = None  # nothing is logged
    model.cuda().train()
    model.training_step(batch, 0).backward()
    torch.cuda.set_sync_debug_mode("error")
    try:
        model.training_step(batch, 0).backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_bf16_stays_near_fp32(inputs):
    losses = []
    for precision in ("32-true", "bf16-mixed"):
        trainer, *_ = trained("transformer", inputs / precision, precision=precision)
        losses.append(float(trainer.callback_metrics["val/loss"]))
    assert losses[1] == pytest.approx(losses[0], rel=0.02)


@pytest.mark.parametrize(
    "name", ["Transformer", "DM-Transformer", "UDGN, kirchhoff", "StructFormer", "GiLT", "Pushdown", "TG"]
)
def test_float64_is_computed_on_the_device(name):
    from depgen.nn.precise import precise_device

    model = SYSTEMS[name].make(13).cuda()
    assert precise_device(model.device) == model.device
    assert model.val_figures["loss"].nll_sum.device.type == "cuda"
