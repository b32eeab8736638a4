"""A run's record of its data, through the command line: files replaced under the same names are noticed."""

import json
import shutil

import pytest
import yaml

from depgen.cli import main
from depgen.data.corpora import RocStories
from depgen.data.experiment import data_of
from depgen.data.source import source_of
from depgen.reporting.run_facts import facts_of
from depgen.training.runs import read_record
from tests.invented_data import write_corpora

EXPERIMENT = {
    "seed_everything": 1,
    "trainer": {"max_epochs": 1, "accelerator": "cpu"},
    "model": {
        "class_path": "depgen.models.causal_lm.CausalLM",
        "init_args": {
            "backbone": {
                "class_path": "depgen.backbones.awd_lstm.AWDLSTM",
                "init_args": {"layers": 1, "embedding_size": 8, "hidden_size": 8},
            }
        },
    },
    "data": {
        "class_path": "depgen.data.text.TextData",
        "init_args": {
            "corpus": {"class_path": "depgen.data.corpora.RocStories"},
            "annotator": {"class_path": "depgen.annotation.trivial.LeftChain"},
        },
    },
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    write_corpora(folder / "data")
    stories = folder / "data" / "rocstories"
    recurring = (stories / "valid.csv").read_text().splitlines()[1]
    (stories / "train.csv").write_text((stories / "train.csv").read_text() + recurring + "\n")
    (folder / "stories.yaml").write_text(yaml.safe_dump(EXPERIMENT))
    with pytest.MonkeyPatch.context() as patch:
        for name in ("cache", "data", "runs"):
            patch.setenv(f"DEPGEN_{name.upper()}", str(folder / name))
        assert main(["fit", "--config", str(folder / "stories.yaml")]) == 0
    return folder


@pytest.fixture
def run(trained, tmp_path, monkeypatch):
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    for name in ("cache", "data", "runs"):
        monkeypatch.setenv(f"DEPGEN_{name.upper()}", str(tmp_path / name))
    (folder,) = (tmp_path / "runs").glob("*/*")
    return folder


def _replace(data):
    shutil.rmtree(data)
    write_corpora(data, stories=32)


def test_a_run_keeps_what_it_is_trained_on(run):
    record, source = read_record(run), source_of(RocStories())
    assert record["data"] == {
        "corpus": "ROCStories",
        "reduced": source.reduced,
        "train_documents": 24,
        "fingerprint": source.fingerprint,
    }
    assert record["equal_documents"] == 0, "the one that recurs is left out"
    assert record["trees"] is None
    words = sum(len(list(document.words())) + 1 for document in RocStories().documents("train"))
    assert record["tokens_per_epoch"] == words


def test_trees_are_those_that_the_system_learns_from(run, tmp_path):
    backbone = {
        "class_path": "depgen.backbones.transformer.Transformer",
        "init_args": {"layers": 2, "width": 8, "attention_heads": 1, "feedforward": 8},
    }
    arguments = {"backbone": backbone, "dependency_modeling_share": 0.5}
    settings = {**EXPERIMENT, "model": {"class_path": "depgen.models.dmlm.DMLM", "init_args": arguments}}
    settings["trainer"] = {**EXPERIMENT["trainer"], "max_epochs": 2}
    (tmp_path / "dmlm.yaml").write_text(yaml.safe_dump(settings))
    assert main(["fit", "--config", str(tmp_path / "dmlm.yaml")]) == 0
    (found,) = (tmp_path / "runs" / "dmlm").iterdir()
    assert read_record(found)["trees"] == "left chain"
    assert read_record(run)["trees"] is None


@pytest.mark.slow
def test_a_run_goes_on_with_its_own_data_alone(run, tmp_path, capsys):
    config = str(tmp_path / "stories.yaml")
    assert main(["fit", "--config", config, "--resume"]) == 0
    _replace(tmp_path / "data")
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert main(["fit", "--config", config, "--resume"]) == 2
    error = capsys.readouterr().err
    assert f"{run} was trained on other data: put those back, or start a new run." in error
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


@pytest.mark.slow
def test_numbers_on_other_data_are_printed_only(run, tmp_path, capsys):
    assert main(["test", "--run", str(run)]) == 0
    kept = json.loads((run / "test.json").read_text())
    assert "was trained on other data" not in capsys.readouterr().err
    _replace(tmp_path / "data")
    (run / "test_items.npz").unlink()
    assert main(["test", "--run", str(run)]) == 0
    error = capsys.readouterr().err
    assert "was trained on other data" in error
    assert "printed only" in error
    assert json.loads((run / "test.json").read_text()) == kept
    assert not (run / "test_items.npz").exists()


def test_a_result_names_the_data_that_the_run_was_trained_on(run, tmp_path, caplog):
    before = facts_of(run, data_of(run / "config.yaml"))
    assert not caplog.records
    _replace(tmp_path / "data")
    assert facts_of(run, data_of(run / "config.yaml")) == before
    assert "was trained on other data, which its result names" in caplog.text


@pytest.mark.slow
def test_a_run_whose_test_split_is_not_there_says_that_changes_go_unnoticed(run, tmp_path, capsys):
    shutil.move(tmp_path / "data" / "rocstories" / "test.csv", tmp_path)
    assert main(["fit", "--config", str(tmp_path / "stories.yaml")]) == 0
    assert "no later change is noticed: No corpus at" in capsys.readouterr().err
    assert main(["fit", "--resume", str(run)]) == 0
    assert "Nothing tells whether" in capsys.readouterr().err
