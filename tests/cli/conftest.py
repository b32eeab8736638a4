"""A tiny experiment, a trained run of it to be copied, and where runs lie."""

import shutil
from pathlib import Path

import pytest
import yaml

from depgen.cli import main

EXPERIMENT = {
    "model": {"class_path": "tests.training.tiny.TinyModel", "init_args": {"first_share": 0.5}},
    "data": {"class_path": "tests.training.tiny.TinyData", "init_args": {"items": 30}},
    "trainer": {"accelerator": "cpu", "max_epochs": 2, "log_every_n_steps": 1},
}


@pytest.fixture(autouse=True)
def _runs(tmp_path, monkeypatch):
    monkeypatch.setenv("DEPGEN_RUNS", str(tmp_path / "runs"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def tiny(tmp_path):
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(EXPERIMENT))
    return str(path)


@pytest.fixture(scope="session")
def presets():
    """Where the presets lie, said before any test leaves the repository's root."""
    return Path(__file__).parents[2] / "experiments" / "presets"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of runs after one training, to be copied."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "tiny.yaml").write_text(yaml.safe_dump(EXPERIMENT))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEPGEN_RUNS", str(folder / "runs"))
        assert main(["fit", "--config", str(folder / "tiny.yaml")]) == 0
    return folder / "runs"


@pytest.fixture
def run(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "runs")
    (folder,) = (tmp_path / "runs" / "tiny").iterdir()
    return folder


def runs_of(tmp_path, experiment="tiny"):
    return sorted((tmp_path / "runs" / experiment).iterdir())
