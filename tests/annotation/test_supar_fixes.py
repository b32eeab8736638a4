"""SuPar's repairs: each is still needed, and each repairs."""

import json
import subprocess
import sys
import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from depgen.annotation.supar import apply_fixes, pad

UNPATCHED = """
import json, pickle, tempfile, warnings
import dill, torch
import supar
from supar.utils import Config
from supar.utils.fn import pad
import supar.modules.lstm

def fails(action, error):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            action()
    except error:
        return True
    except Exception:
        return False
    return False

def load():
    with tempfile.NamedTemporaryFile() as file:
        torch.save({"args": Config(n=1)}, file.name, pickle_module=dill)
        supar.Parser.load(file.name)

print(json.dumps({
    "pad": fails(lambda: pad([torch.ones(2), torch.ones(1)]), UserWarning),
    "apply_permutation": fails(
        lambda: supar.modules.lstm.apply_permutation(torch.ones(1, 2), torch.tensor([1, 0])), FutureWarning),
}))
"""


@pytest.fixture(scope="module")
def still_failing():
    """Which of the failures a process sees that imports SuPar alone."""
    output = subprocess.run([sys.executable, "-c", UNPATCHED], capture_output=True, text=True, check=True).stdout
    return json.loads(output.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pad", "apply_permutation"])
def test_the_fix_is_still_needed(still_failing, name):
    assert still_failing[name], f"SuPar works without it now: remove {name} from supar.py, and me"


@pytest.fixture
def fixed():
    apply_fixes()
    apply_fixes()  # harmless when repeated
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@settings(max_examples=50, deadline=None)
@given(
    sizes=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=4),
    side=st.sampled_from(["left", "right"]),
)
def test_pad_puts_every_entry_where_it_belongs(sizes, side):
    tensors = [torch.arange(1, a * b + 1).view(a, b) for a, b in sizes]
    rows, columns = (max(size[axis] for size in sizes) for axis in (0, 1))
    padded = pad(tensors, -1, padding_side=side)
    assert padded.shape == (len(sizes), rows, columns)
    for own, tensor, (a, b) in zip(padded, tensors, sizes, strict=True):
        top, left = (rows - a, columns - b) if side == "left" else (0, 0)
        for i in range(rows):
            for j in range(columns):
                inside = top <= i < top + a and left <= j < left + b
                assert own[i, j] == (tensor[i - top, j - left] if inside else -1)


def test_pad_to_a_length():
    assert pad([torch.ones(2), torch.ones(1)], total_length=3).tolist() == [[1, 1, 0], [1, 0, 0]]


def test_every_user_of_pad_has_the_repaired_one(fixed):

    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("supar") and hasattr(module, "pad") and callable(module.pad):
            assert module.pad is pad, module.__name__


def test_states_are_permuted(fixed):
    import supar.modules.lstm

    state = torch.arange(6).view(1, 3, 2)
    permuted = supar.modules.lstm.apply_permutation(state, torch.tensor([2, 0, 1]))
    assert permuted.tolist() == [[[4, 5], [0, 1], [2, 3]]]
