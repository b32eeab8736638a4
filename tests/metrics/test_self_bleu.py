import csv
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from nltk.translate.bleu_score import brevity_penalty, closest_ref_length, modified_precision

from depgen.errors import UserError
from depgen.locations import find_data
from depgen.metrics.bleu import bleu
from depgen.metrics.distinct import distinct
from depgen.metrics.self_bleu import brevity_penalties, leave_one_out_matches, self_bleu

CORPORA = st.lists(st.lists(st.sampled_from("abc"), max_size=6), min_size=2, max_size=7)
FEW_LENGTHS = st.lists(st.integers(0, 12), min_size=2, max_size=6)


def oracle(corpus, order):
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
def test_equals_the_quadratic_definition(corpus):
    found = self_bleu([" ".join(text) for text in corpus], (1, 2, 3, 4))
    for order in (1, 2, 3, 4):
        assert found[order].tolist() == pytest.approx(oracle(corpus, order), rel=1e-9, abs=1e-9)


@given(FEW_LENGTHS)
def test_brevity_penalties_equal_nltk(lengths):
    texts = [["w"] * length for length in lengths]
    expected = [
        brevity_penalty(closest_ref_length(texts[:index] + texts[index + 1 :], length), length)
        for index, length in enumerate(lengths)
    ]
    assert brevity_penalties(np.array(lengths)).tolist() == pytest.approx(expected, rel=1e-12)


@given(CORPORA)
def test_matches_are_clipped_by_the_others_only(corpus):
    letters = {letter: index for index, letter in enumerate("abc")}
    ids = np.array([letters[word] for text in corpus for word in text], dtype=np.int64)
    owner = np.array([index for index, text in enumerate(corpus) for _ in text], dtype=np.int64)
    expected = []
    for index, text in enumerate(corpus):
        others = [Counter(other) for place, other in enumerate(corpus) if place != index]
        expected.append(sum(min(c, max(other[w] for other in others)) for w, c in Counter(text).items()))
    assert leave_one_out_matches(ids, owner, len(corpus)).tolist() == expected


def test_a_missing_order_scores_zero_without_smoothing():
    scores = self_bleu(["a b c", "c b a", "b"], (1, 2, 3))
    assert (scores[1] > 10).all()
    assert scores[2].tolist() == scores[3].tolist() == [0.0, 0.0, 0.0]


def test_identical_texts_score_100_and_orders_come_as_asked():
    scores = self_bleu(["a b c d"] * 3, (3, 2))
    assert list(scores) == [3, 2]
    assert scores[3].tolist() == pytest.approx([100.0] * 3)


@pytest.mark.parametrize("texts", [[], ["a b"]])
def test_one_text_alone_is_refused(texts):
    with pytest.raises(UserError, match=f"at least 2 texts, found {len(texts)}"):
        self_bleu(texts)


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
