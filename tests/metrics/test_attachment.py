import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from depgen.metrics.attachment import Attachment, compared_words
from depgen.trees.sentence import Sentence

WORD = st.tuples(
    st.sampled_from("a."), st.integers(0, 3), st.integers(0, 3), st.sampled_from("xyz"), st.sampled_from("xyz")
)
WORDS = st.lists(WORD, min_size=1, max_size=12)


@given(WORDS)
def test_equals_a_loop(columns):
    words, heads, gold_heads, relations, gold_relations = zip(*columns, strict=True)
    gold, other = Sentence(words, gold_heads, gold_relations), Sentence(words, heads, relations)
    compared = [word for word in compared_words(gold, other, "form") if not word.is_punctuation]
    scores = Attachment.of(compared)
    counted = [column for column in columns if column[0] != "."]
    assert scores.words == len(counted)
    if counted:
        right = [column for column in counted if column[1] == column[2]]
        assert scores.uas == pytest.approx(100 * len(right) / len(counted))
        assert scores.las == pytest.approx(100 * sum(column[3] == column[4] for column in right) / len(counted))


def test_percentages_by_hand():
    gold, other = Sentence(tuple("abcde"), (2, 0, 1, 1, 2)), Sentence(tuple("abcde"), (2, 0, 1, 1, 1))
    scores = Attachment.of(list(compared_words(gold, other, "form")))
    assert (scores.words, scores.uas) == (5, pytest.approx(80.0))
    assert math.isnan(scores.las)
    assert math.isnan(Attachment.of([]).uas)
