"""A pretrained model with random weights, and runs of invented words that need no training."""

import pytest

from tests.invented_models import write_gpt2


@pytest.fixture(scope="session")
def gpt2(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "gpt2"
    write_gpt2(folder)
    return folder
