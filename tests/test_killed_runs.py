"""A real system through the command line: killed in either phase, with loading workers and without, and resumed."""

import multiprocessing
import signal

import pytest
import torch

from depgen.cli import main
from depgen.training.checkpoints import load_checkpoint

pytestmark = pytest.mark.slow


def fit(*more):
    options = {
        "trainer.max_epochs": 4,
        "trainer.accelerator": "cpu",
        "model.init_args.backbone.init_args.width": 16,
        "model.init_args.backbone.init_args.feedforward": 16,
        "data.init_args.tokens_per_batch": 400,
        "model.init_args.scheduler.init_args.warmup_steps": 0,
        "data.init_args.corpus": "depgen.data.generated.GeneratedLanguage",
        "data.init_args.corpus.init_args.sentences": [5, 5],
        **{f"data.init_args.corpus.init_args.{split}": 24 for split in ("train", "valid", "test")},
    }
    arguments = [f"--{name}={value}" for name, value in options.items()]
    return main(["fit", "--config", "experiments/dmlm_controlled.yaml", *arguments, *more])


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
