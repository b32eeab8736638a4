import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from depgen.metrics.distinct import distinct

TEXTS = st.lists(st.lists(st.sampled_from("abc"), max_size=5).map(" ".join), max_size=6)


def grams(words, order):
    return [tuple(words[start : start + order]) for start in range(len(words) - order + 1)]


@given(TEXTS, st.integers(1, 4))
def test_equals_a_set(texts, order):
    crossing = grams(" ".join(texts).split(), order)
    inside = [gram for text in texts for gram in grams(text.split(), order)]
    for found, expected in ((distinct(texts, order), crossing), (distinct(texts, order, within_items=True), inside)):
        if expected:
            assert found == pytest.approx(100 * len(set(expected)) / len(expected))
        else:
            assert math.isnan(found)


def test_border_ngrams_count_only_when_asked():
    assert distinct(["a b", "c d"], 2) == 100.0
    assert distinct(["a b", "a b", "a b"], 2) == pytest.approx(40.0)  # ab ba ab ba ab
    assert distinct(["a b", "a b", "a b"], 2, within_items=True) == pytest.approx(100 / 3)
