"""`--compile` and `--float32_matmul_precision` by the command line."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml

from depgen.cli import main
from depgen.training.checkpoints import load_checkpoint
from tests.fixtures.kinds import EXPERIMENTS, named, text

pytestmark = pytest.mark.slow

ONE_LAYER = named("backbones.transformer.Transformer", layers=1, width=8, attention_heads=2, feedforward=8, dropout=0.0)


FEW_STORIES = named("data.generated.GeneratedLanguage", train=4, valid=2, test=2, sentences=[5, 5])


@pytest.fixture
def experiment(tmp_path):
    """Of a step an epoch."""
    settings = {**EXPERIMENTS["transformer"], "data": text(corpus=FEW_STORIES, tokens_per_batch=1000)}
    settings["model"] = {**settings["model"], "init_args": {"backbone": ONE_LAYER}}
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


def process(folder, *arguments):
    """The output of a process of Python, in which nothing checks shapes: compiled functions can't be checked."""
    roots = {f"DEPGEN_{name.upper()}": str(folder / name) for name in ("cache", "runs")}
    environment = {**os.environ, **roots, "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
    environment["PYTHONPATH"] = str(Path(__file__).parents[2])
    command = [sys.executable, "-m", *map(str, arguments)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=folder)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def run_in(folder):
    (found,) = (folder / "runs").rglob("run.json")
    return found.parent


def losses(run):
    with (run / "metrics.csv").open(newline="") as stream:
        return [float(row["val/loss"]) for row in csv.DictReader(stream) if row["val/loss"]]


def weights(run):
    return load_checkpoint(run / "checkpoints" / "best.ckpt")["state_dict"]


def commands(experiment, *options):
    """Train for an epoch, continue for another, test."""
    config = ["--config", str(experiment)]
    return [
        ["fit", *config, "--trainer.max_epochs=1", *options],
        ["fit", "--resume", "small", "--trainer.max_epochs=2"],
        ["test", *config],
    ]


def loss_of(output):
    return float(output.split("test/loss\t")[1].split()[0])


def assert_same(compiled, eager):
    """Runs in two folders, of which the first was compiled, and their tests' output have the same names and figures."""
    (folder, output), (other, expected_output) = compiled, eager
    run, expected = run_in(folder), run_in(other)
    assert yaml.safe_load((run / "config.yaml").read_text())["compile"] is True
    assert yaml.safe_load((expected / "config.yaml").read_text())["compile"] is False
    assert len(losses(run)) == 2
    assert losses(run) == pytest.approx(losses(expected), rel=1e-4)
    assert loss_of(output) == pytest.approx(loss_of(expected_output), rel=1e-4)
    state, others = weights(run), weights(expected)
    assert [*state] == [*others]
    for name, value in others.items():
        torch.testing.assert_close(state[name], value, rtol=1e-3, atol=1e-3)


def test_a_compiled_run_is_that_of_the_others(experiment, tmp_path, monkeypatch, capsys):
    compiled, eager = tmp_path / "compiled", tmp_path / "eager"
    compiled.mkdir()
    by_compiled = commands(experiment, "--compile")
    output = process(compiled, "tests.cli.compiled_commands", json.dumps(by_compiled))
    fitted, resumed, tested = json.loads(output.splitlines()[-1])
    assert 0 < fitted < resumed, "a resumed run is compiled again"
    assert tested == resumed, "a test compiles nothing"
    for root in ("cache", "runs"):
        monkeypatch.setenv(f"DEPGEN_{root.upper()}", str(eager / root))
    for command in commands(experiment):
        assert main(command) == 0
    assert_same((compiled, output), (eager, capsys.readouterr().out))


def test_kernels_that_torch_generates_change_nothing(experiment, tmp_path):
    ended = []
    for name, options in (("compiled", ["--compile"]), ("eager", [])):
        folder = tmp_path / name
        folder.mkdir()
        output = [process(folder, "depgen", *command) for command in commands(experiment, *options)]
        assert any((folder / "inductor").rglob("*.so")) is bool(options)
        ended.append((folder, output[-1]))
    assert_same(*ended)


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
