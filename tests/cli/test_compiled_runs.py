"""`--compile` and `--float32_matmul_precision` by the command line."""

import csv
import os
import subprocess
import sys

import pytest
import torch
import yaml

from depgen.cli import main
from depgen.training.checkpoints import load_checkpoint
from tests.fixtures.kinds import EXPERIMENTS

ONE_LAYER = {
    "class_path": "depgen.backbones.transformer.Transformer",
    "init_args": {"layers": 1, "width": 8, "attention_heads": 2, "feedforward": 8, "dropout": 0.0},
}


@pytest.fixture
def experiment(tmp_path):
    settings = {**EXPERIMENTS["transformer"]}
    settings["model"] = {**settings["model"], "init_args": {"backbone": ONE_LAYER}}
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


def depgen(folder, *arguments):
    """The output of a process, in which nothing checks shapes: compiled functions can't be checked."""
    roots = {f"DEPGEN_{name.upper()}": str(folder / name) for name in ("cache", "runs")}
    environment = {**os.environ, **roots, "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
    command = [sys.executable, "-m", "depgen", *map(str, arguments)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=folder)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def run_in(folder):
    (found,) = folder.glob("runs/small/*")
    return found


def losses(run):
    with (run / "metrics.csv").open(newline="") as stream:
        return [float(row["val/loss"]) for row in csv.DictReader(stream) if row["val/loss"]]


def weights(run):
    return load_checkpoint(run / "checkpoints" / "best.ckpt")["state_dict"]


@pytest.mark.slow
def test_a_compiled_run_is_that_of_the_others_and_can_be_continued_and_tested(experiment, tmp_path):
    figures = {}
    for name, options in (("compiled", ["--compile"]), ("eager", [])):
        folder = tmp_path / name
        folder.mkdir()
        depgen(folder, "fit", "--config", experiment, "--trainer.max_epochs=1", *options)
        run = run_in(folder)
        assert yaml.safe_load((run / "config.yaml").read_text())["compile"] is bool(options)
        depgen(folder, "fit", "--resume", run, "--trainer.max_epochs=2")
        tested = depgen(folder, "test", "--run", run)
        assert any((folder / "inductor").rglob("*.so")) is bool(options)
        figures[name] = (losses(run), weights(run), float(tested.split("test/loss\t")[1].split()[0]))
    (curve, state, tested), (expected, others, figure) = figures["compiled"], figures["eager"]
    assert len(curve) == 2
    assert curve == pytest.approx(expected, rel=1e-4)
    assert tested == pytest.approx(figure, rel=1e-4)
    assert state.keys() == others.keys()
    for name, value in others.items():
        torch.testing.assert_close(state[name], value, rtol=1e-3, atol=1e-3)


def test_the_precision_of_matrix_products_is_set_and_kept(experiment, tmp_path, monkeypatch, capsys):
    for root in ("cache", "runs"):
        monkeypatch.setenv(f"DEPGEN_{root.upper()}", str(tmp_path / root))
    before = torch.get_float32_matmul_precision()
    option = "--float32_matmul_precision"
    try:
        assert main(["fit", "--config", str(experiment), "--trainer.max_epochs=1", option, "high"]) == 0
        run = run_in(tmp_path)
        assert torch.get_float32_matmul_precision() == "high"
        assert yaml.safe_load((run / "config.yaml").read_text())[option[2:]] == "high"
        assert main(["fit", "--config", str(experiment), "--trainer.fast_dev_run=1"]) == 0
        assert torch.get_float32_matmul_precision() == "highest"
        assert main(["fit", "--resume", str(run), "--trainer.max_epochs=2"]) == 0
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision(before)
    capsys.readouterr()
    assert main(["fit", "--config", str(experiment), option, "low"]) == 2
    assert "float32_matmul_precision" in capsys.readouterr().err
