"""Annotating ahead what an experiment's data module will ask for."""

import pytest
import yaml

from depgen.annotation.annotate import annotate
from depgen.cli import main
from depgen.data.experiment import data_of
from tests.fixtures.kinds import named


def experiment(folder, data, annotator):
    for split in ("train", "valid", "test"):
        (folder / f"{split}.txt").write_text("a <unk> of N\nyes\n")
    corpus = named("data.corpora.TextLines", folder=str(folder), name="lines", steps=[])
    path = folder / "experiment.yaml"
    arguments = {"corpus": corpus, "annotator": annotator}
    path.write_text(yaml.safe_dump({"data": {"class_path": data, "init_args": arguments}}))
    return path


@pytest.mark.parametrize("data", ["depgen.data.text.TextData", "depgen.data.stream.StreamData"])
def test_the_splits_with_trees_are_annotated_once(data, tmp_path, monkeypatch):
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path / "cache"))
    path = experiment(tmp_path, data, {"class_path": "depgen.annotation.controls.LeftChain"})
    first, second = annotate(path).splitlines()
    assert first.startswith("lines train: 2 documents, 2 sentences, 5 words; left chain; ")
    assert second.startswith("lines valid: ")
    assert "already there" not in first
    assert annotate(path).count("already there") == 2


def test_limits_of_the_verb_and_of_the_experiment_hold(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path / "cache"))
    path = experiment(tmp_path, "depgen.data.text.TextData", {"class_path": "depgen.annotation.controls.LeftChain"})
    assert main(["annotate", "--config", str(path), "--max_documents", "1"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in said] == ["lines train: 1 documents", "lines valid: 2 documents"]
    content = yaml.safe_load(path.read_text())
    content["data"]["init_args"]["max_documents"] = 1
    path.write_text(yaml.safe_dump(content))
    assert annotate(path).startswith("lines train: 1 documents, ")
    data = data_of(path)
    data.prepare_data()
    assert (len(data.split("train")), len(data.split("valid"))) == (1, 2)
    assert annotate(path).count("already there") == 2
    data.setup("test")
    assert len(list((tmp_path / "cache" / "tables").glob("**/table.arrow"))) == 6  # words and token ids
