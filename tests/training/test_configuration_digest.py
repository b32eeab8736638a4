"""The digest of a configuration: what changes it and what does not."""

import copy
from pathlib import Path

import pytest
import yaml

from depgen.errors import UserError
from depgen.training import configuration_digest
from depgen.training.configuration_digest import chosen_values
from depgen.training.experiment import Experiment

UDGN = Experiment(Path("experiments/udgn_ptb.yaml"), "small")


def changed(folder, change, name="a.yaml"):
    content = copy.deepcopy(UDGN.settings)
    change(content)
    (folder / name).write_text(yaml.safe_dump(content))
    return Experiment(folder / name).digest


@pytest.mark.parametrize(
    "change",
    [
        lambda content: None,  # no comment, keys in another order, another name
        lambda content: content["trainer"].update(devices=2, accelerator="cpu", enable_progress_bar=False),
        lambda content: content["trainer"].update(logger=True, strategy="ddp", accumulate_grad_batches=1),
        lambda content: content["data"]["init_args"].update(workers=3, eval_tokens_per_batch=77, max_documents=None),
        lambda content: content["model"]["init_args"]["optimizer"]["init_args"].update(betas=[0.9, 0.999], lr="2e-3"),
        lambda content: content["model"]["init_args"]["optimizer"].update(class_path="torch.optim.adam.Adam"),
        lambda content: content.update(seed_everything=7),
    ],
)
def test_what_changes_no_number_leaves_the_digest(tmp_path, change):
    assert changed(tmp_path, change) == UDGN.digest


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content["trainer"].update(max_epochs=13),
        lambda content: content["trainer"].update(accumulate_grad_batches=2),
        lambda content: content["model"]["init_args"].update(width=64),
        lambda content: content["model"]["init_args"]["optimizer"]["init_args"].update(lr=1e-3),
        lambda content: content["model"]["init_args"]["optimizer"].update(class_path="torch.optim.AdamW"),
        lambda content: content["data"]["init_args"].update(max_documents=5),
        lambda content: content["data"]["init_args"]["vocabulary"]["init_args"].pop("masks"),
        lambda content: content["data"]["init_args"]["corpus"]["init_args"].update(train="x"),
    ],
)
def test_a_changed_value_changes_the_digest(tmp_path, change):
    assert changed(tmp_path, change) != UDGN.digest


def test_no_default_enters_the_digest_so_that_a_new_argument_changes_none():
    block = {"class_path": "torch.optim.Adam", "init_args": {"lr": 0.1, "betas": [0.9, 0.999], "eps": 1e-8}}
    arguments = chosen_values({"model": {"class_path": "depgen.models.udgn.UDGN", "init_args": {"optimizer": block}}})
    assert arguments["model"]["init_args"]["optimizer"]["init_args"] == {"lr": 0.1}
    assert chosen_values({"trainer": {"max_epochs": 3, "devices": 2}}) == {"trainer": {"max_epochs": 3}}


def test_the_version_of_initial_weights_enters_the_digest(monkeypatch):
    before = UDGN.digest
    monkeypatch.setattr(configuration_digest, "_SECTIONS", {})
    monkeypatch.setattr(configuration_digest, "INITIAL_WEIGHTS", {"depgen.models.udgn.UDGN": 1})
    assert UDGN.digest != before


@pytest.mark.parametrize("text", ["abc", "[1]", "a: [", "model: {class_path: depgen.models.udgn.Nothing}"])
def test_what_is_no_configuration_is_refused(tmp_path, text):
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(UserError, match=r"x\.yaml"):
        _ = Experiment(tmp_path / "x.yaml").digest
