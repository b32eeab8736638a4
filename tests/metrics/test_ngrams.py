from hypothesis import given
from hypothesis import strategies as st

from depgen.metrics.ngrams import ngram_ids, starts_within_items, tokenize

TEXTS = st.lists(st.lists(st.sampled_from("abc"), max_size=5).map(" ".join), max_size=6)


@given(TEXTS)
def test_ids_are_equal_exactly_where_ngrams_are(texts):
    words = " ".join(texts).split()
    for order, ids in enumerate(ngram_ids(tokenize(texts), 4), start=1):
        grams = [tuple(words[start : start + order]) for start in range(len(words) - order + 1)]
        assert len(ids) == len(grams)
        assert len(set(zip(ids.tolist(), grams, strict=True))) == len(set(grams)) == len(set(ids.tolist()))


@given(TEXTS, st.integers(1, 4))
def test_starts_within_items(texts, order):
    oracle = []
    for index, text in enumerate(texts):
        rest = " ".join(texts[index:]).split()
        for start in range(len(text.split())):
            if start + order <= len(rest):
                oracle.append(start + order <= len(text.split()))
    assert starts_within_items(tokenize(texts), order).tolist() == oracle
