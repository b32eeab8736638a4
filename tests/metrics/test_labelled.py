"""Labelled pairs counted by hand."""

import pytest

from depgen.metrics.labelled import labelled_scores


def test_edges_are_counted_by_hand():
    gold = [[(0, 2, "root"), (2, 1, "nsubj"), (2, 1, "agent")], [(0, 1, "root")], []]
    found = [[(2, 1, "agent"), (0, 2, "dep"), (1, 2, "obj")], [(0, 1, "root")], []]
    scores = labelled_scores(gold, found)
    assert (scores["unlabelled_precision"], scores["unlabelled_recall"]) == pytest.approx((75, 100))
    assert (scores["labelled_precision"], scores["labelled_recall"]) == pytest.approx((50, 50))
    assert scores["unlabelled_f1"] == pytest.approx(100 * 6 / 7)
    assert (scores["gold"], scores["found"]) == (4, 4)
    assert labelled_scores([[]], [[]])["labelled_f1"] == 100
