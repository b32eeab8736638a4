"""Microseconds a sentence for the feature tapes of GiLT, from the arcs of a graph on one core."""

import inspect

import numpy as np

from depgen.trees.feature_tapes import TapeOptions, feature_tapes
from tests.benchmarks.figures import figure, seconds, write_figures

SENTENCES, GOAL = 100, 50.0


def graphs(words, arcs):
    """Random graphs with nearly an arc a word, and trees."""
    generator = np.random.default_rng(0)
    for _ in range(SENTENCES // 2):
        yield generator.integers(0, words + 1, arcs), generator.integers(1, words + 1, arcs)
        yield generator.integers(0, np.arange(1, words + 1)), np.arange(1, words + 1)


def test_feature_tapes():
    figures, compute = {}, inspect.unwrap(feature_tapes)  # without the checks of shapes that tests add
    for words, goal in ((25, GOAL), (200, None)):
        drawn = list(graphs(words, words * 7 // 10))

        def once(words=words, drawn=drawn):
            return [compute(heads, dependents, words, TapeOptions()) for heads, dependents in drawn]

        once()
        took = min(seconds(once) for _ in range(50)) / SENTENCES * 1e6
        figures[f"tapes of {words} words"] = figure(took, "us/sentence", at_most=goal)
    write_figures("feature_tapes", figures)
    assert all(each.get("met", True) for each in figures.values())
