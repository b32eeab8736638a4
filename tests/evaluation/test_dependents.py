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
from depgen.evaluation.dependents import DependentOptions, covered_targets, dependent_loss
from depgen.evaluation.trained import Trained
from depgen.models.causal_lm import CausalLM
from tests.fixtures.kinds import named

DATA = named(
    "data.text.TextData",
    corpus=named("data.generated.GeneratedLanguage", train=12, valid=6, sentences=[5, 5]),
    annotator={"class_path": "depgen.annotation.controls.GoldTrees"},
)


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
    monkeypatch.setattr("depgen.evaluation.unit_scores.TOKENS_AT_ONCE", 150)
    return Trained(model.eval(), data.vocabulary, tmp_path, tmp_path / "best.ckpt")


def test_targets_are_those_of_arcs_from_the_left():
    assert covered_targets(np.array([3, 3, 0, 5, 3])).tolist() == [False, False, True, False, True, True]
    assert covered_targets(np.array([0, 1, 1])).tolist() == [True, True, True, True]


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
    measured = dependent_loss(trained, DependentOptions(experiment))
    rows = measured.rows.set_index("name")
    for kind, values in sums.items():
        assert rows.loc[kind, ["tokens", "share"]].tolist() == [len(values), len(values) / len(sums["all"])]
        assert rows.loc[kind, "nats"] == pytest.approx(np.mean(values), abs=1e-5)
    assert measured.items["nll"].tolist() == pytest.approx(sums["all"], abs=1e-5)
    experiment.rename(trained.run / "config.yaml")
    assert dependent_loss(trained).rows.equals(measured.rows), "the run's own trees"


def test_an_experiment_without_trees_is_refused(experiment, trained):
    bare = {**DATA, "init_args": {**DATA["init_args"], "annotator": None}}
    experiment.write_text(yaml.safe_dump({"data": bare}))
    with pytest.raises(UserError, match="no trees: name an experiment by --config"):
        dependent_loss(trained, DependentOptions(experiment))
