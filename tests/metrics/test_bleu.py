"""BLEU against NLTK's and sacreBLEU's, and on all human endings of ROCStories."""

import csv
import math
import random
import warnings

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from nltk.translate.bleu_score import SmoothingFunction, brevity_penalty, closest_ref_length, modified_precision
from nltk.translate.bleu_score import corpus_bleu as nltk_corpus_bleu
from nltk.translate.bleu_score import sentence_bleu as nltk_sentence_bleu

from depgen.errors import UserError
from depgen.locations import find_data
from depgen.metrics.bleu import ReferencePool, bleu, corpus_bleu, corpus_self_bleu, distinct, self_bleu, sentence_bleu

WORDS = st.lists(st.sampled_from("abcd"), max_size=9)
CORPORA = st.lists(st.lists(st.sampled_from("abc"), max_size=6), min_size=2, max_size=7)


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
    smooth = SmoothingFunction().method1
    expected = [
        nltk_sentence_bleu([reference], hypothesis, (1 / order,) * order, smoothing_function=smooth)
        for order in (1, 2, 3, 4)
    ]
    assert sentence_bleu(hypothesis, reference, 4) == pytest.approx(expected, rel=1e-12)


def test_every_item_has_its_score_times_100():
    scores = bleu(["a b c", "x", "a b", " "], ["a b d", "y", "a b", "b"], (1, 2))
    assert scores[1].tolist() == pytest.approx([200 / 3, 0, 100, 0])
    assert scores[2].tolist() == pytest.approx([100 * math.sqrt(2 / 3 * 1 / 2), 0, 100, 0])


def test_corpus_bleu_is_sacrebleu_with_its_signature():
    sacrebleu = pytest.importorskip("sacrebleu")
    texts, references = ["the old dog slept here .", "it was late"], ["the old dog sat here .", "it was late"]
    score, signature = corpus_bleu(texts, references)
    assert score == pytest.approx(sacrebleu.corpus_bleu(texts, [references], force=True).score)
    assert 0 < score < 100
    assert "tok:13a" in signature


def quadratic_self_bleu(corpus, order):
    """The definition: each text against all others, in quadratic time, from NLTK's parts."""
    scores = []
    for index, text in enumerate(corpus):
        others = corpus[:index] + corpus[index + 1 :]
        total = 0.0
        for n in range(1, order + 1):
            precision = modified_precision(others, text, n)
            total += math.log(max(precision.numerator, 1e-100) / precision.denominator)
        penalty = brevity_penalty(closest_ref_length(others, len(text)), len(text))
        scores.append(100 * penalty * math.exp(total / order))
    return scores


@given(CORPORA)
@example([list("aab"), list("aa"), list("aaab")])  # one text alone has the largest count
@example([list("aab"), list("aac"), list("a")])  # two texts share it
@example([list("abc"), list("ab"), list("abca")])  # equally close lengths: the shorter, so no penalty
@example([list("ab"), list("abcab")])  # penalty for the first
@example([list("ab"), []])
def test_self_bleu_equals_the_quadratic_definition(corpus):
    scores = self_bleu([" ".join(text) for text in corpus], (1, 2, 3, 4))
    for order in (1, 2, 3, 4):
        assert scores[order].tolist() == pytest.approx(quadratic_self_bleu(corpus, order), rel=1e-9, abs=1e-9)


def random_texts(generator, number, *, words="abcd", longest=12):
    return [" ".join(generator.choices(words, k=generator.randint(1, longest))) for _ in range(number)]


@pytest.mark.parametrize("order", [1, 4, 5])
def test_bleu_against_a_pool_and_all_others_equals_nltk(order):
    generator, weights = random.Random(order), (1 / order,) * order
    for _ in range(15):
        texts, references = random_texts(generator, 8), random_texts(generator, 30, words="abcde")
        split, pool = [text.split() for text in texts], [text.split() for text in references]
        others = [[words for other, words in enumerate(split) if other != number] for number in range(len(split))]
        with warnings.catch_warnings(action="ignore"):
            expected = 100 * nltk_corpus_bleu([pool] * len(split), split, weights=weights)
            expected_self = 100 * nltk_corpus_bleu(others, split, weights=weights)
        assert ReferencePool(references, order=order).bleu(texts) == pytest.approx(expected, abs=1e-9)
        assert corpus_self_bleu(texts, order=order) == pytest.approx(expected_self, abs=1e-9)


def test_texts_without_a_match_or_a_word_score_zero():
    pool = ReferencePool(["a b c d e"])
    assert pool.bleu(["x y z"]) == pool.bleu([""]) == 0.0
    assert pool.bleu(["a b c d e", ""]) == pytest.approx(
        100 * math.e ** (1 - 10 / 5) * (5 / 6 * 4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.2
    )


@pytest.mark.parametrize(
    ("measure", "message"),
    [
        (lambda: self_bleu(["a b"]), "at least 2 texts, found 1"),
        (lambda: corpus_self_bleu([]), "at least 2 texts, found 0"),
        (lambda: ReferencePool([]), "at least one reference"),
    ],
)
def test_texts_without_references_are_refused(measure, message):
    with pytest.raises(UserError, match=message):
        measure()


@pytest.mark.real_data
def test_calibration_on_the_human_test_endings():
    path = find_data("rocstories/test.csv", how_to_get="See the README.")
    with path.open(encoding="utf-8", newline="") as stream:
        stories = list(csv.DictReader(stream))
    endings = [story["sentence5"] for story in stories]
    assert len(endings) == 9816
    scores = self_bleu(endings)
    assert scores[2].mean() == pytest.approx(80.79501, abs=5e-6)  # 80.80
    assert scores[3].mean() == pytest.approx(51.94310, abs=5e-6)  # 51.94
    assert distinct(endings, 2) == pytest.approx(38.3847, abs=5e-5)  # 38.38
    assert distinct(endings, 3) == pytest.approx(74.4125, abs=5e-5)  # 74.41
    assert distinct(endings, 2, within_items=True) == pytest.approx(41.95, abs=5e-3)
    fourth = bleu([story["sentence4"] for story in stories], endings)
    assert round(fourth[1].mean(), 2) == 19.68
    assert round(fourth[2].mean(), 2) == 6.22


# -- n-grams ----------------------------------------------------------------------------------------------------------

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
