"""Networks compiled by torch: no graph breaks, the losses of the others, and few compilations for many lengths."""

import json
import subprocess
import sys

import pytest
from filelock import FileLock

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def found(shared_folder):
    path = shared_folder / "compilation.json"
    with FileLock(shared_folder / "compilation.lock"):
        if not path.exists():
            ended = subprocess.run([sys.executable, "-m", "tests.compilation"], capture_output=True, text=True)
            assert ended.returncode == 0, ended.stderr
            path.write_text(ended.stdout.splitlines()[-1])
    return json.loads(path.read_text())


@pytest.mark.parametrize("part", ["vocabulary", "Transformer", "Transformer with attention"])
def test_graphs_do_not_break(found, part):
    assert found["breaks"][part] == 0


@pytest.mark.parametrize("system", ["CausalLM", "Transformer-XL", "DMLM, dependencies", "DMLM, mixture"])
def test_compiled_losses_and_gradients_are_those_of_the_others(found, system):
    assert found[system]["apart"] <= 1e-5
    assert found[system]["slopes"] <= 1e-5
    assert found[system]["same_names"]


@pytest.mark.parametrize("system", ["CausalLM", "Transformer-XL", "DMLM, dependencies", "DMLM, mixture"])
def test_lengths_are_compiled_for_at_most_twice_more(found, system):
    assert 1 <= found[system]["compiled"] <= 3
