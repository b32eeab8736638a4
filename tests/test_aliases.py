"""Import paths of earlier versions name the classes of today, wherever a path is read."""

import importlib
from functools import partial

import pytest
import torch
from jsonargparse import ArgumentParser

from depgen.aliases import MOVED
from depgen.backbones.awd_lstm import AWDLSTM
from depgen.language_models.left_to_right import LeftToRight
from depgen.models.dmlm import DMLM, QueryKeyAttention

FORMER = "depgen.nn.mixture_attention.QueryKeyAttention"
BACKBONE = {
    "class_path": "depgen.backbones.awd_lstm.AWDLSTM",
    "init_args": {"layers": 1, "embedding_size": 4, "hidden_size": 4},
}


@pytest.mark.parametrize("path", MOVED)
def test_a_former_path_names_the_class_of_today(path):
    module, _, name = path.rpartition(".")
    found = getattr(importlib.import_module(module), name)
    assert f"{found.__module__}.{found.__qualname__}" == MOVED[path]


def test_other_names_of_a_former_module_and_unknown_modules_are_not_found():
    with pytest.raises(AttributeError, match=r"'depgen\.nn\.mixture_attention' has no attribute 'Other'"):
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
