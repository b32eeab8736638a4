import pytest
from hypothesis import given
from hypothesis import strategies as st

from depgen.metrics.induction import induction_counts

HEADS = st.integers(0, 6).flatmap(lambda n: st.lists(st.integers(0, n), min_size=n, max_size=n))
PAIR = HEADS.flatmap(
    lambda gold: st.tuples(st.lists(st.integers(0, len(gold)), min_size=len(gold), max_size=len(gold)), st.just(gold))
)


def pairs(heads):
    return {frozenset((word, head or word)) for word, head in enumerate(heads, start=1)}


@given(st.lists(PAIR, max_size=6))
def test_equals_sets_of_pairs_and_a_loop(sentences):
    counts = induction_counts([predicted for predicted, _ in sentences], [gold for _, gold in sentences])
    assert counts.words.tolist() == [len(gold) for _, gold in sentences]
    assert counts.undirected.tolist() == [len(pairs(predicted) & pairs(gold)) for predicted, gold in sentences]
    loop = [sum(a == b for a, b in zip(predicted, gold, strict=True)) for predicted, gold in sentences]
    assert counts.directed.tolist() == loop


def test_a_case_by_hand():
    # she <- saw -> dogs -> old, with "saw" the root
    gold = [[2, 0, 4, 2]]
    wrong_way = induction_counts([[0, 1, 4, 2]], gold)  # the pair (she, saw) turned round
    assert (wrong_way.directed.tolist(), wrong_way.undirected.tolist()) == ([2], [3])
    mutual = induction_counts([[2, 1, 4, 2]], gold)  # argmax: two words that head one another are one pair
    assert (mutual.directed.tolist(), mutual.undirected.tolist()) == ([3], [3])
    same = induction_counts(gold, gold)  # the root is a pair of its own
    assert (same.directed.tolist(), same.undirected.tolist()) == ([4], [4])


def test_nothing_is_neither_right_nor_wrong():
    counts = induction_counts([], [])
    assert len(counts.directed) == len(counts.undirected) == len(counts.words) == 0
    assert induction_counts([[], [0]], [[], [0]]).undirected.tolist() == [0, 1]


def test_what_does_not_belong_together_is_refused():
    for predicted, gold in (([[0, 1]], [[0]]), ([[0]], [[0], [0]]), ([[0, 1], [0]], [[0], [0, 1]])):
        with pytest.raises(ValueError, match="not those of the same sentences"):
            induction_counts(predicted, gold)
    for heads in ([-1, 0], [3, 0]):
        with pytest.raises(ValueError, match="Expected heads from 0"):
            induction_counts([[2, 0]], [heads])
