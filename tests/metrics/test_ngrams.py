import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from depgen.metrics.ngrams import distinct

TEXTS = st.lists(st.lists(st.sampled_from("abc"), max_size=5).map(" ".join), max_size=6)


def grams(words, order):
    return [tuple(words[start : start + order]) for start in range(len(words) - order + 1)]


@given(TEXTS, st.integers(1, 4))
def test_distinct_equals_a_set(texts, order):
    crossing = grams(" ".join(texts).split(), order)
    inside = [gram for text in texts for gram in grams(text.split(), order)]
    for within_items, expected in ((False, crossing), (True, inside)):
        share = 100 * len(set(expected)) / len(expected) if expected else math.nan
        assert distinct(texts, order, within_items=within_items) == pytest.approx(share, nan_ok=True)
