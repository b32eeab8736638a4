"""A real system through the command line: killed in either phase and gone on with; two processes as one."""

import csv
import multiprocessing
import signal

import pytest
import torch

from depgen.cli import main
from depgen.training.checkpoints import load_checkpoint

pytestmark = pytest.mark.slow

EPOCHS = {"dependency_modeling": 2, "language_modeling": 2}


def fit(*more):
    options = {
        "trainer.max_epochs": 4,
        "trainer.accelerator": "cpu",
        "model.init_args.backbone.init_args.width": 16,
        "model.init_args.backbone.init_args.feedforward": 16,
        "data.init_args.tokens_per_batch": 400,
        **{f"data.init_args.corpus.init_args.{split}": 24 for split in ("train", "valid", "test")},
    }
    arguments = [f"--{name}={value}" for name, value in options.items()]
    return main(["fit", "--config", "experiments/demo_dm_transformer.yaml", *arguments, *more])


def killed(step, *more):
    kill = ["--trainer.callbacks+=tests.cli.test_resume.KillMyself", f"--trainer.callbacks.step={step}"]
    fit("--resume_every_n_steps", "1", *kill, *more)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unbroken")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEPGEN_CACHE", str(folder / "cache"))
        patch.setenv("DEPGEN_RUNS", str(folder / "runs"))
        assert fit() == 0
        (checkpoints,) = (folder / "runs").rglob("checkpoints")
        yield checkpoints


@pytest.mark.parametrize(("step", "workers"), [(1, 0), (7, 0), (9, 0), (1, 2), (9, 2)])
def test_kill_9_and_resume(unbroken, step, workers, tmp_path, monkeypatch):
    expected = unbroken
    steps = load_checkpoint(expected / "resume.ckpt")["global_step"]
    assert steps == 16, "four epochs of four batches: steps 1 and 7 stand in phase 1, 9 in phase 2"
    monkeypatch.setenv("DEPGEN_RUNS", str(tmp_path / "runs"))
    collating = [f"--data.init_args.workers={workers}"]  # changes no number
    process = multiprocessing.get_context("fork").Process(target=killed, args=(step, *collating))
    process.start()
    process.join(180)
    assert process.exitcode == -signal.SIGKILL
    assert fit("--resume", *collating) == 0
    (found,) = (tmp_path / "runs").rglob("checkpoints")
    for name in ("dependency_modeling-best.ckpt", "best.ckpt", "resume.ckpt"):
        whole, resumed = (load_checkpoint(place / name)["state_dict"] for place in (expected, found))
        assert all(torch.equal(resumed[key], value) for key, value in whole.items()), name


def test_two_processes_see_the_loss_of_one(tmp_path, monkeypatch):
    found = {}
    for devices in (1, 2):
        monkeypatch.setenv("DEPGEN_RUNS", str(tmp_path / f"runs{devices}"))
        spread = ["--trainer.strategy=ddp_fork", "--trainer.devices=2"] if devices == 2 else []
        assert fit("--model.init_args.backbone.init_args.dropout=0.0", *spread) == 0
        (checkpoints,) = (tmp_path / f"runs{devices}").rglob("checkpoints")
        weights = load_checkpoint(checkpoints / "resume.ckpt")["state_dict"]
        with (checkpoints.parent / "metrics.csv").open(newline="") as stream:
            curve = [float(row["val/loss"]) for row in csv.DictReader(stream) if row["val/loss"]]
        found[devices] = curve, weights
    (curve, weights), (curve_of_two, weights_of_two) = found[1], found[2]
    assert len(curve) == EPOCHS["language_modeling"]
    assert curve_of_two == pytest.approx(curve, abs=1e-5)
    for name, value in weights.items():
        gap = (weights_of_two[name] - value).abs()
        if name.endswith("attention.projection.bias"):
            # no loss depends on the keys' biases: their gradient is rounding alone, which Adam makes into whole steps
            gap = torch.cat([gap.chunk(3)[part] for part in (0, 2)])
        assert gap.max() < 2e-5, name
