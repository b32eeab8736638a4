import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from depgen.metrics.ngrams import distinct, ngram_ids, tokenize

TEXTS = st.lists(st.lists(st.sampled_from("abc"), max_size=5).map(" ".join), max_size=6)


def grams(words, order):
    return [tuple(words[start : start + order]) for start in range(len(words) - order + 1)]


@given(TEXTS)
def test_ids_are_equal_exactly_where_ngrams_are(texts):
    words = " ".join(texts).split()
    for order, ids in enumerate(ngram_ids(tokenize(texts), 4), start=1):
        expected = grams(words, order)
        assert len(ids) == len(expected)
        assert len(set(zip(ids.tolist(), expected, strict=True))) == len(set(expected)) == len(set(ids.tolist()))


@given(TEXTS, st.integers(1, 4))
def test_distinct_equals_a_set(texts, order):
    crossing = grams(" ".join(texts).split(), order)
    inside = [gram for text in texts for gram in grams(text.split(), order)]
    for within_items, expected in ((False, crossing), (True, inside)):
        share = 100 * len(set(expected)) / len(expected) if expected else math.nan
        assert distinct(texts, order, within_items=within_items) == pytest.approx(share, nan_ok=True)
