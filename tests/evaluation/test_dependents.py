"""Losses by kind of token, against a loop over arcs and single items."""

from functools import partial

import numpy as np
import pytest
import torch
import yaml

from depgen.backbones.transformer import Transformer
from depgen.data.batch import ItemBatch, collate_tokens
from depgen.data.experiment import data_of
from depgen.errors import UserError
from depgen.evaluation import dependents
from depgen.evaluation.dependents import dependent_loss, future_dependent_targets
from depgen.evaluation.trained import Trained
from depgen.models.causal_lm import CausalLM

DATA = {
    "class_path": "depgen.data.text.TextData",
    "init_args": {
        "corpus": {
            "class_path": "depgen.data.generated.GeneratedLanguage",
            "init_args": {"train": 12, "valid": 6, "sentences": [5, 5]},
        },
        "annotator": {"class_path": "depgen.annotation.controls.GoldTrees"},
    },
}


@pytest.fixture
def experiment(tmp_path, monkeypatch):
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "experiment.yaml"
    path.write_text(yaml.safe_dump({"data": DATA}))
    return path


@pytest.fixture
def trained(experiment, tmp_path, monkeypatch):
    torch.manual_seed(0)
    data = data_of(experiment)
    data.save_into(tmp_path)
    model = CausalLM(partial(Transformer, layers=1, width=16, attention_heads=2, feedforward=16), data.vocabulary_size)
    found = Trained(model.eval(), data.vocabulary, tmp_path, tmp_path / "best.ckpt")
    monkeypatch.setattr(dependents, "newest_of", lambda experiment: {"experiment": tmp_path}[experiment.file.stem])
    monkeypatch.setattr(dependents, "load_trained", lambda reference, **_: {tmp_path: found}[reference])
    monkeypatch.setattr(dependents, "TOKENS_PER_BATCH", 150)
    return found


def test_targets_are_those_of_arcs_from_the_left():
    covered, adjacent = future_dependent_targets(np.array([3, 3, 0, 5, 3]))
    assert covered.tolist() == [False, False, True, False, True, True]
    assert adjacent.tolist() == [False, False, True, False, True, True]
    covered, adjacent = future_dependent_targets(np.array([0, 1, 1]))
    assert covered.tolist() == [True, True, True, True]
    assert adjacent.tolist() == [True, True, False, True]


@pytest.mark.parametrize("kind", ["text.TextData", "stream.StreamData"])
def test_each_kind_of_token_has_its_mean(kind, experiment, trained):
    experiment.write_text(yaml.safe_dump({"data": DATA | {"class_path": f"depgen.data.{kind}"}}))
    split = data_of(experiment).split("valid")
    sums = {"future dependents": [], "other words": [], "<eos>": [], "all": []}
    for index in range(len(split)):
        item = split[index]
        nll = -trained.model.log_probs(collate_tokens(ItemBatch([item], 1, split.vocabulary)))[0].detach()
        for word, value in enumerate(nll.tolist(), start=1):
            head = item.heads[word - 1] if word <= len(item.heads) else None
            later = [child for child, its in enumerate(item.heads, start=1) if its == word and child < word]
            kind = "<eos>" if head is None else "future dependents" if head < word or later else "other words"
            sums[kind].append(value)
            sums["all"].append(value)
    rows = {line.split("\t")[0]: line.split("\t")[1:] for line in dependent_loss(config=experiment).splitlines()}
    for kind, values in sums.items():
        assert float(rows[kind][0]) == pytest.approx(len(values) / len(sums["all"]), abs=1e-3)
        assert float(rows[kind][1]) == pytest.approx(np.mean(values), abs=1e-4)


def test_an_experiment_without_trees_is_refused_before_a_run_is_sought(experiment, monkeypatch):
    monkeypatch.setattr(dependents, "load_trained", None)
    bare = {**DATA, "init_args": {**DATA["init_args"], "annotator": None}}
    experiment.write_text(yaml.safe_dump({"data": bare}))
    with pytest.raises(UserError, match="no trees: name an annotator"):
        dependent_loss(config=experiment)
