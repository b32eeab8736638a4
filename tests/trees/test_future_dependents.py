from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from depgen.errors import UserError
from depgen.trees.future_dependents import future_dependents
from tests.trees.trees import head_lists

WORDS = ["red", "figures", "on", "the", "screen", "indicate", "falling", "stocks", "."]


def by_position(heads, **options):
    offsets, targets = future_dependents(heads, **options)
    assert (offsets.dtype, targets.dtype) == (np.int64, np.int32)
    return [targets[start:end].tolist() for start, end in pairwise(offsets)]


def literal_loop(heads, root_target=True, eos_target=True):
    """The rule as it is written, arc by arc."""
    sets = [set() for _ in range(len(heads) + 1)]
    for word, head in enumerate(heads, start=1):
        if head == -1 or (head == 0 and not root_target):
            continue
        if word < head:
            sets[word].add(head)
        else:
            sets[head].add(word)
    if eos_target:
        sets[len(heads)].add(len(heads) + 1)
    return [sorted(targets) for targets in sets]


@given(head_lists(min_size=0), st.sets(st.integers(0, 11)), st.booleans(), st.booleans())
def test_equals_the_literal_loop(heads, unannotated, root_target, eos_target):
    heads = [-1 if index in unannotated else head for index, head in enumerate(heads)]
    options = {"root_target": root_target, "eos_target": eos_target}
    assert by_position(heads, **options) == literal_loop(heads, **options)


@given(head_lists())
def test_as_many_targets_as_positions(heads):
    offsets, targets = future_dependents(heads)
    assert len(targets) == len(offsets) - 1 == len(heads) + 1


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


def test_every_root_is_a_target_of_position_0():
    assert by_position([0, 0, 2]) == [[1, 2], [], [3], [4]]


@pytest.mark.parametrize("heads", [[1], [0, 4], [0, 3, 3]])
def test_refuses_what_is_no_tree(heads):
    with pytest.raises(UserError, match="Expected a tree over"):
        future_dependents(heads)
