"""SuPar's repair: it is still needed, and it repairs."""

import subprocess
import sys
import warnings

import pytest
import torch

from depgen.annotation.supar import apply_fix

UNPATCHED = """
import warnings, torch, supar.modules.lstm
warnings.simplefilter("error", FutureWarning)
supar.modules.lstm.apply_permutation(torch.ones(1, 2), torch.tensor([1, 0]))
"""


@pytest.mark.slow
def test_the_fix_is_still_needed():
    """In a process that imports SuPar alone."""
    process = subprocess.run([sys.executable, "-c", UNPATCHED], capture_output=True, text=True, check=False)
    assert "FutureWarning" in process.stderr, "SuPar works without it now: remove apply_fix from supar.py, and me"


def test_states_are_permuted():
    import supar.modules.lstm

    apply_fix()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        permuted = supar.modules.lstm.apply_permutation(torch.arange(6).view(1, 3, 2), torch.tensor([2, 0, 1]))
    assert permuted.tolist() == [[[4, 5], [0, 1], [2, 3]]]
