"""A pretrained model with random weights, and a system whose scores are bounds."""

from dataclasses import replace
from functools import partial

import pytest

from depgen.backbones.transformer import Transformer
from depgen.models.pushdown import Pushdown
from tests.evaluation.test_system import system_of
from tests.invented_models import write_gpt2


@pytest.fixture(scope="session")
def gpt2(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "gpt2"
    write_gpt2(folder)
    return folder


def bounding_system(model=None, vocabulary=None):
    """A system whose scores are bounds: Pushdown, or any other model with its vocabulary."""
    backbone = partial(Transformer, layers=2, width=8, attention_heads=2, feedforward=8, positions="relative")
    system = system_of(partial(Pushdown, backbone, beam_size=2))
    return system if model is None else replace(system, model=model, vocabulary=vocabulary)
