"""Import paths of earlier versions name the classes of today, wherever a path is read."""

import importlib
from functools import partial
from inspect import signature

import pytest
import torch
import yaml
from jsonargparse import ArgumentParser

from depgen import build
from depgen.aliases import FORMER_ARGUMENTS, MOVED, settings_today
from depgen.backbones.awd_lstm import AWDLSTM
from depgen.cli import main
from depgen.data.vocabulary import Vocabulary
from depgen.evaluation.trained import load_trained
from depgen.language_models.left_to_right import LeftToRight
from depgen.models.dmlm import DMLM, QueryKeyAttention
from depgen.training.configuration_digest import config_digest

FORMER = "depgen.nn.mixture_attention.QueryKeyAttention"
BACKBONE = {
    "class_path": "depgen.backbones.awd_lstm.AWDLSTM",
    "init_args": {"layers": 1, "embedding_size": 4, "hidden_size": 4},
}


@pytest.mark.parametrize("path", MOVED)
def test_a_former_path_names_the_class_of_today(path):
    found = class_of(path)
    assert f"{found.__module__}.{found.__qualname__}" == MOVED[path]


def test_other_names_of_a_former_module_and_unknown_modules_are_not_found():
    with pytest.raises(AttributeError, match=r"'depgen\.nn\.mixture_attention' .*'Other'"):
        _ = importlib.import_module("depgen.nn.mixture_attention").Other
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("depgen.nn.never_there")


@pytest.mark.parametrize("attention", [FORMER, {"class_path": FORMER}], ids=["path alone", "class_path"])
def test_a_configuration_with_a_former_path_is_read(attention):
    parser = ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(LeftToRight, "model")
    arguments = {"backbone": BACKBONE, "vocabulary_size": 5, "attention": attention}
    settings = parser.parse_object({"model": {"class_path": "depgen.models.dmlm.DMLM", "init_args": arguments}})
    assert type(parser.instantiate_classes(settings).model.attention) is QueryKeyAttention


def test_a_checkpoint_with_a_former_path_is_loaded(tmp_path):
    model = DMLM(partial(AWDLSTM, **BACKBONE["init_args"]), 5, attention=QueryKeyAttention)
    arguments = {
        "_class_path": "depgen.models.dmlm.DMLM", "_instantiator": "lightning.pytorch.cli.instantiate_module",
        "backbone": BACKBONE, "vocabulary_size": 5, "attention": {"class_path": FORMER},
    }  # fmt: skip
    content = {
        "state_dict": model.state_dict(), "hyper_parameters": arguments, "pytorch-lightning_version": "2.6.0",
        "hparams_name": "kwargs",
    }  # fmt: skip
    torch.save(content, tmp_path / "old.ckpt")
    loaded = DMLM.load_from_checkpoint(tmp_path / "old.ckpt", weights_only=True)
    assert torch.equal(loaded.attention.query.weight, model.attention.query.weight)


# -- arguments --------------------------------------------------------------------------------------------------------

TRANSFORMER, SIZES = "depgen.backbones.transformer.Transformer", {"layers": 2, "width": 8, "attention_heads": 2}


def block(backbone, **arguments):
    sizes = {"class_path": TRANSFORMER, "init_args": {**SIZES, **backbone}}
    return {"class_path": "depgen.models.dmlm.DMLM", "init_args": {"backbone": sizes, **arguments}}


OLD = block({"initial_std": None, "initial_range": 0.3}, carry_window=False, relation_weights={"det": 0.5})
TODAY = block(
    {"init": {"class_path": "depgen.backbones.transformer.StructFormerInit", "init_args": {"bound": 0.3}}},
    carry_window=None,
    relation_weights={
        "class_path": "depgen.trees.relation_weights.RelationWeights", "init_args": {"weights": {"det": 0.5}}
    },
)  # fmt: skip


def test_former_arguments_become_those_of_today():
    assert settings_today(OLD) == settings_today(TODAY) == TODAY
    resolved = block({}, relation_weights={"weights": {"det": 0.5}})  # as jsonargparse writes a dataclass
    assert settings_today(resolved) == resolved
    assert settings_today({"model": [OLD]}) == {"model": [TODAY]}
    drawn = settings_today(block({"initial_std": 0.02}))["init_args"]["backbone"]["init_args"]["init"]
    assert drawn == {"class_path": "depgen.backbones.transformer.NormalInit", "init_args": {"std": 0.02}}
    carried = settings_today(block({}, carry_window=True))["init_args"]["carry_window"]
    assert carried == "depgen.nn.carried_window.CarriedWindow"


@pytest.mark.parametrize(("owner", "name"), [(each, name) for each, old in FORMER_ARGUMENTS.items() for name in old])
def test_successors_are_arguments_of_today(owner, name):
    found, successor = class_of(owner), FORMER_ARGUMENTS[owner][name]
    assert successor.name in signature(found).parameters
    if successor.argument is not None:
        assert successor.argument in signature(class_of(successor.class_path)).parameters


def class_of(path):
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def test_a_file_with_former_arguments_is_read_and_says_so(tmp_path, capsys, caplog):
    old = tmp_path / "old.yaml"
    old.write_text(yaml.safe_dump({"model": OLD}))
    main(["fit", "--config", str(old), "--print_config"])
    shown = yaml.safe_load(capsys.readouterr().out)["model"]["init_args"]
    assert shown["backbone"]["init_args"]["init"] == TODAY["init_args"]["backbone"]["init_args"]["init"]
    assert shown["relation_weights"] == {"weights": {"det": 0.5}}
    assert str(old) in caplog.text


def test_a_checkpoint_with_former_arguments_is_loaded(tmp_path):
    torch.manual_seed(0)
    model = build(OLD, vocabulary_size=5)
    former = {"_class_path": OLD["class_path"], **OLD["init_args"], "vocabulary_size": 5}
    content = {
        "state_dict": model.state_dict(), "pytorch-lightning_version": "2.6.0",
        "hyper_parameters": {"_instantiator": "lightning.pytorch.cli.instantiate_module", **former},
        "TextData": {"vocabulary": Vocabulary.of_words(list("abc")).files()},
    }  # fmt: skip
    torch.save(content, tmp_path / "old.ckpt")
    loaded = load_trained(tmp_path / "old.ckpt", device="cpu").model
    assert torch.equal(loaded.backbone.embedding.weight, model.backbone.embedding.weight)


def test_files_with_former_arguments_have_the_digest_of_today(tmp_path):
    for name, settings in {"old": OLD, "today": TODAY, "other": block({})}.items():
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump({"model": settings}))
    old, today, other = (config_digest(tmp_path / f"{name}.yaml") for name in ("old", "today", "other"))
    assert old == today != other
