"""Annotating ahead what an experiment's data module will ask for."""

import pytest
import yaml

from depgen.annotation.annotate import annotate
from depgen.errors import UserError


def experiment(folder, data, annotator):
    for split in ("train", "valid", "test"):
        (folder / f"{split}.txt").write_text("a <unk> of N\nyes\n")
    corpus = {"class_path": "depgen.data.text_lines.TextLines", "init_args": {"folder": str(folder), "name": "lines"}}
    path = folder / "experiment.yaml"
    arguments = {"corpus": corpus, "annotator": annotator}
    path.write_text(yaml.safe_dump({"data": {"class_path": data, "init_args": arguments}}))
    return path


@pytest.mark.parametrize("data", ["depgen.data.text.TextData", "depgen.data.stream.StreamData"])
def test_the_splits_with_trees_are_annotated_once(data, tmp_path, monkeypatch):
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path / "cache"))
    path = experiment(tmp_path, data, {"class_path": "depgen.annotation.trivial.LeftChain"})
    first, second = annotate(path).splitlines()
    assert first.startswith("lines train: 2 documents, 2 sentences, 5 words; left chain; ")
    assert second.startswith("lines valid: ")
    assert "already there" not in first
    assert annotate(path).count("already there") == 2


def test_an_experiment_without_annotator_is_named(tmp_path):
    with pytest.raises(UserError, match=r"experiment\.yaml names no annotator"):
        annotate(experiment(tmp_path, "depgen.data.text.TextData", None))
