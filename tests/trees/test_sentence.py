from hypothesis import given
from hypothesis import strategies as st

from depgen.errors import UserError
from depgen.trees.sentence import check_tree, find_cycle
from tests.trees.trees import head_lists


def is_tree(heads):
    """Whether every word climbs to the root in at most n steps."""
    if not all(0 <= head <= len(heads) for head in heads):
        return False
    for word in range(1, len(heads) + 1):
        for _ in range(len(heads)):
            word = heads[word - 1] if word else 0
        if word:
            return False
    return True


@given(head_lists(single_root=True))
def test_accepts_a_single_root(heads):
    check_tree(heads, "here", single_root=True)


@given(st.lists(st.integers(-1, 7), max_size=6))
def test_refuses_exactly_what_is_no_tree(heads):
    try:
        check_tree(heads, "here")
    except UserError:
        assert not is_tree(heads)
    else:
        assert is_tree(heads)


@given(st.lists(st.integers(0, 6), min_size=6, max_size=6))
def test_the_cycle_found_is_a_cycle(heads):
    cycle = find_cycle(heads)
    assert [heads[token - 1] for token in cycle] == cycle[1:] + cycle[:1]
    assert bool(cycle) != is_tree(heads)


def test_long_chains_need_no_recursion():
    check_tree(list(range(100_000)), "here")
    check_tree([*range(2, 100_001), 0], "here")
