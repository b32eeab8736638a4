"""Corpus BLEU against a pool, and of each text against the others, as NLTK computes them."""

import random
import warnings

import pytest
from nltk.translate.bleu_score import corpus_bleu

from depgen.errors import UserError
from depgen.metrics.pooled_bleu import ReferencePool, corpus_self_bleu


def drawn(generator, number, *, words="abcd", longest=12):
    return [" ".join(generator.choices(words, k=generator.randint(1, longest))) for _ in range(number)]


@pytest.mark.parametrize("order", [1, 4, 5])
def test_both_equal_nltk(order):
    generator, weights = random.Random(order), (1 / order,) * order
    for _ in range(15):
        texts, references = drawn(generator, 8), drawn(generator, 30, words="abcde")
        split, pool = [text.split() for text in texts], [text.split() for text in references]
        others = [[each for other, each in enumerate(split) if other != number] for number in range(len(split))]
        with warnings.catch_warnings(action="ignore"):
            expected = 100 * corpus_bleu([pool] * len(split), split, weights=weights)
            expected_self = 100 * corpus_bleu(others, split, weights=weights)
        assert ReferencePool(references, order=order).bleu(texts) == pytest.approx(expected, abs=1e-9)
        assert corpus_self_bleu(texts, order=order) == pytest.approx(expected_self, abs=1e-9)


def test_texts_without_a_match_or_a_word_score_zero():
    pool = ReferencePool(["a b c d e"])
    assert pool.bleu(["x y z"]) == pool.bleu([""]) == 0.0
    assert pool.bleu(["a b c d e", ""]) == pytest.approx(
        100 * 2.718281828459045 ** (1 - 10 / 5) * (5 / 6 * 4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.2
    )


def test_an_empty_pool_and_a_single_text_are_refused():
    with pytest.raises(UserError, match="at least one reference"):
        ReferencePool([])
    with pytest.raises(UserError, match="at least 2 texts"):
        corpus_self_bleu(["a b"])
