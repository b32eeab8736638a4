import logging
import math
import sys

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from nltk.translate.bleu_score import SmoothingFunction
from nltk.translate.bleu_score import sentence_bleu as nltk_sentence_bleu

from depgen.errors import UserError
from depgen.metrics.bleu import bleu, corpus_bleu, sentence_bleu

WORDS = st.lists(st.sampled_from("abcd"), max_size=9)


def oracle(hypothesis, reference, order):
    smooth = SmoothingFunction().method1
    return nltk_sentence_bleu([reference], hypothesis, (1 / order,) * order, smoothing_function=smooth)


@given(WORDS, WORDS)
@example(list("ab"), list("abcd"))  # shorter than the reference
@example(list("abcd"), list("abcd"))
@example(list("abcdab"), list("abcd"))  # longer
@example(list("aaaa"), list("ab"))  # clipped
@example(list("ba"), list("ab"))  # no bigram matches
@example(list("a"), list("ab"))  # no bigram at all
@example(list("dd"), list("ab"))  # nothing matches
@example([], list("ab"))
def test_equals_nltk_with_method_1(hypothesis, reference):
    expected = [oracle(hypothesis, reference, order) for order in (1, 2, 3, 4)]
    assert sentence_bleu(hypothesis, reference, 4) == pytest.approx(expected, rel=1e-12)


def test_brevity_penalty_is_of_this_pair():
    assert sentence_bleu(["a"], ["a", "b", "c"], 1)[0] == pytest.approx(math.exp(1 - 3))
    assert sentence_bleu(["a", "b", "c"], ["a"], 1)[0] == pytest.approx(1 / 3)


def test_every_item_has_its_score_times_100():
    scores = bleu(["a b c", "x", "a b"], ["a b d", "y", "a b"], (1, 2))
    assert scores[1].tolist() == pytest.approx([200 / 3, 0, 100])
    assert scores[2].tolist() == pytest.approx([100 * math.sqrt(2 / 3 * 1 / 2), 0, 100])


def test_empty_texts_score_zero_or_are_dropped_and_counted(caplog):
    assert bleu(["a", " "], ["a", "b"], [1])[1].tolist() == [100.0, 0.0]
    with caplog.at_level(logging.WARNING):
        dropped = bleu(["a", " "], ["a", "b"], [1], empty="drop")[1]
    assert dropped[0] == 100.0
    assert math.isnan(dropped[1])
    assert np.nanmean(dropped) == 100.0
    assert "1 empty texts of 2" in caplog.text


def test_unequal_numbers_are_refused():
    with pytest.raises(UserError, match="2 texts and 1 references"):
        bleu(["a", "b"], ["a"])
    with pytest.raises(UserError, match="2 texts and 1 references"):
        corpus_bleu(["a", "b"], ["a"])


def test_corpus_bleu_is_sacrebleu_with_its_signature():
    sacrebleu = pytest.importorskip("sacrebleu")
    texts, references = ["the old dog slept here .", "it was late"], ["the old dog sat here .", "it was late"]
    found = corpus_bleu(texts, references)
    assert found.score == pytest.approx(sacrebleu.corpus_bleu(texts, [references], force=True).score)
    assert 0 < found.score < 100
    assert "tok:13a" in found.signature
    assert "version:" in found.signature
    assert "tok:none" in corpus_bleu(texts, references, tokenizer="none").signature


def test_missing_sacrebleu_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics", None)
    with pytest.raises(UserError, match=r"pip install 'depgen\[text-metrics\]'"):
        corpus_bleu(["a"], ["a"])
