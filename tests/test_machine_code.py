"""Compiled functions are kept on disk where they can be, and compute the same where they cannot."""

import numpy as np
from numba.core.caching import CacheImpl

from depgen.decoding.spanning_tree import _best_head
from depgen.machine_code import compiled


def test_code_is_compiled_where_nothing_can_be_kept(monkeypatch):
    monkeypatch.setattr(CacheImpl, "_locator_classes", [])
    assert compiled(_best_head.py_func)(np.array([5.0, 1.0, 2.0])) == 2
