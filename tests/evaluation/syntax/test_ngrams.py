"""The n-gram model against its recursion written out, and as a floor."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from depgen.errors import UserError
from depgen.evaluation.syntax.ngrams import NgramModel, floor_scores
from depgen.evaluation.syntax.sentences import TestSentence
from tests.evaluation.syntax.toys import unigrams

TEXT = st.lists(st.lists(st.sampled_from("abcd"), max_size=6), min_size=1, max_size=8)


def by_recursion(training, sentence, order):
    """Nats of each word and the end, from counts of tuples."""
    counts = Counter(word for words in training for word in words)
    known = {word for word, count in counts.items() if count > 1}

    def spelt(words):
        return ["<s>", *(word if word in known else "<unk>" for word in words), "</s>"]

    grams = Counter()
    for words in map(spelt, training):
        for end in range(1, len(words)):
            for begin in range(max(0, end - order + 1), end + 1):
                grams[tuple(words[begin : end + 1])] += 1

    def probability(word, before):
        shorter = 1 / (len(known) + 2) if not before else None
        followers = {gram: count for gram, count in grams.items() if gram[:-1] == before}
        lower = probability(word, before[1:]) if shorter is None else shorter
        total, types = sum(followers.values()), len(followers)
        return (followers.get((*before, word), 0) + types * lower) / (total + types) if total else lower

    words = spelt(sentence)
    return [
        math.log(probability(words[place], tuple(words[max(0, place - order + 1) : place])))
        for place in range(1, len(words))
    ]


@pytest.mark.slow
@example(training=[[], []], sentences=[["b"], []], order=3)
@given(training=TEXT, sentences=TEXT, order=st.integers(1, 4))
def test_probabilities_are_those_of_the_recursion(training, sentences, order):
    found = NgramModel(training, order=order).log_probs(sentences)
    assert len(found) == len(sentences)
    for own, sentence in zip(found, sentences, strict=True):
        np.testing.assert_allclose(own, by_recursion(training, sentence, order), atol=1e-12)


def test_probabilities_of_the_next_word_sum_to_one():
    model = NgramModel([["the", "cat", "sat"], ["the", "cat", "ran"], ["the", "dog", "sat"]], order=3)
    assert set(model.known) == {"the", "cat", "sat"}
    for before in ([], ["the"], ["the", "cat"], ["sat", "sat"], ["new"]):
        nexts = model.log_probs([[*before, word] for word in (*model.known, "unknown")])
        ends = model.log_probs([before])[0][-1]
        assert sum(math.exp(each[len(before)]) for each in nexts) + math.exp(ends) == pytest.approx(1)


def test_a_system_without_a_corpus_has_no_floor():
    with pytest.raises(UserError, match="leave out --five_gram"):
        floor_scores(unigrams({"the": -1.0}), [TestSentence("x:1", "the")], tokens="whitespace")
