from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from depgen.errors import UserError
from depgen.trees.future_dependents import future_dependents
from tests.oracles import future_dependents_by_loop
from tests.trees.trees import head_lists

WORDS = ["red", "figures", "on", "the", "screen", "indicate", "falling", "stocks", "."]


def by_position(heads):
    offsets, targets = future_dependents(heads)
    assert (offsets.dtype, targets.dtype) == (np.int64, np.int32)
    return [targets[start:end].tolist() for start, end in pairwise(offsets)]


@given(head_lists(min_size=0), st.sets(st.integers(0, 11)))
def test_equals_the_future_dependents_by_loop(heads, unannotated):
    heads = [-1 if index in unannotated else head for index, head in enumerate(heads)]
    assert by_position(heads) == future_dependents_by_loop(heads)


@pytest.mark.parametrize(
    ("heads", "figures", "on"),
    [
        ([2, 6, 2, 5, 3, 0, 8, 6, 6], ["on", "indicate"], ["screen"]),  # Stanford basic
        ([2, 6, 5, 5, 2, 0, 8, 6, 6], ["screen", "indicate"], ["screen"]),  # Universal Dependencies, Figure 1
    ],
)
def test_the_sentence_of_the_papers_figure_1(heads, figures, on):
    found = [[[*WORDS, "<eos>"][target - 1] for target in targets] for targets in by_position(heads)]
    assert found == [
        ["indicate"],
        ["figures"],
        figures,
        on,
        ["screen"],
        [],
        ["stocks", "."],
        ["stocks"],
        [],
        ["<eos>"],
    ]


@pytest.mark.parametrize("heads", [[1], [0, 4], [0, 3, 3]])
def test_refuses_what_is_no_tree(heads):
    with pytest.raises(UserError, match="Expected a tree over"):
        future_dependents(heads)
