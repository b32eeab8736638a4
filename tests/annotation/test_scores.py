"""Attachment scores against a case worked by hand."""

import pytest

from depgen.annotation.scores import attachment_scores
from depgen.trees.sentence import Sentence

GOLD = [
    Sentence(("she", "sang", "."), (2, 0, 2), ("nsubj", "root", "punct"), ("PRP", "VBD", ".")),
    Sentence(("go", "home"), (0, 1), ("root", "advmod"), ("VB", "RB")),
]


def test_counts_by_hand():
    predicted = [
        Sentence(("she", "sang", "."), (2, 0, 1), ("obj", "root", "punct"), ("PRP", "VBD", "X")),
        Sentence(("go", "home"), (0, 1), ("root", "advmod"), ("VB", "RB")),
    ]
    scores = attachment_scores(GOLD, predicted, seconds=0.5)
    assert scores.uas == pytest.approx(100 * 4 / 5)
    assert scores.las == pytest.approx(100 * 3 / 5)
    assert scores.uas_without_punctuation == pytest.approx(100)
    assert scores.las_without_punctuation == pytest.approx(100 * 3 / 4)
    assert scores.tag_accuracy == pytest.approx(100 * 4 / 5)
    assert (scores.words, scores.sentences, scores.words_per_second) == (5, 2, 10)


def test_no_right_tag_is_an_accuracy_of_zero():
    gold, wrong = (Sentence(("go",), (0,), ("root",), (tag,)) for tag in ("VB", "NN"))
    assert attachment_scores([gold], [wrong]).tag_accuracy == 0.0


def test_sub_types_of_relations_count():
    gold = [Sentence(("her", "dog"), (2, 0), ("nmod:poss", "root"))]
    predicted = [Sentence(("her", "dog"), (2, 0), ("nmod", "root"))]
    scores = attachment_scores(gold, predicted)
    assert (scores.uas, scores.las, scores.tag_accuracy) == (100, 50, None)
