"""Attachment scores against a case worked by hand."""

import pytest

from depgen.annotation.scores import attachment_scores, labelled_scores, summary_of
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


def test_edges_are_counted_by_hand():
    gold = [[(0, 2, "root"), (2, 1, "nsubj"), (2, 1, "agent")], [(0, 1, "root")], []]
    found = [[(2, 1, "agent"), (0, 2, "dep"), (1, 2, "obj")], [(0, 1, "root")], []]
    scores = labelled_scores(gold, found, words=4, seconds=0.5)
    assert (scores.unlabelled_precision, scores.unlabelled_recall) == pytest.approx((75, 100))
    assert (scores.labelled_precision, scores.labelled_recall) == pytest.approx((50, 50))
    assert scores.unlabelled_f1 == pytest.approx(100 * 6 / 7)
    assert (scores.gold, scores.found, scores.words, scores.sentences, scores.words_per_second) == (4, 4, 4, 3, 8)
    assert "unlabelled F1 85.71 (precision 75.00, recall 100.00), labelled F1 50.00" in summary_of(scores.as_dict())
    assert labelled_scores([[]], [[]], words=1, seconds=1.0).labelled_f1 == 100
