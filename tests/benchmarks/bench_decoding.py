"""Sentences a second: the best tree of each, against one search for each root; and all of parsing with a small UDGN."""

import numpy as np
import torch

from depgen.data.vocabulary import Vocabulary
from depgen.decoding.spanning_tree import maximum_spanning_trees
from depgen.evaluation.parsing import predicted_heads
from depgen.models.udgn import UDGN
from tests.benchmarks.figures import figure, paired_ratio, seconds, write_figures

SENTENCES, GOAL = 128, 10.0


def weights(length):
    """Logarithms of peaked distributions over heads, as a trained parser gives them."""
    generator = np.random.default_rng(0)
    return np.log(generator.dirichlet(np.full(length, 0.1), (SENTENCES, length)) + 1e-9)


def test_decoding():
    figures = {}
    for length in (25, 58):
        scores, lengths = weights(length), np.full(SENTENCES, length)
        only = np.where(np.eye(length, dtype=bool)[:, None], 0.0, np.full((length, SENTENCES, length), -np.inf))

        def once(scores=scores, lengths=lengths):
            return maximum_spanning_trees(scores, lengths)

        def once_a_root(scores=scores, lengths=lengths, only=only):
            return [maximum_spanning_trees(scores, lengths, root_scores=roots) for roots in only]

        ratio = paired_ratio(once, once_a_root, pairs=5)
        rate = SENTENCES / min(seconds(once) for _ in range(20))
        figures[f"trees of {length} words"] = figure(rate, "sentences/s")
        figures[f"trees of {length} words, time of a search for each root / of one"] = figure(ratio, "x", at_least=GOAL)
    write_figures("decoding", figures)
    assert all(each.get("met", True) for each in figures.values())


def test_parsing():
    torch.manual_seed(0)
    generator = np.random.default_rng(0)
    vocabulary = Vocabulary.of_words([f"word-{number}" for number in range(10_000)], specials=["mask_id"])
    network = UDGN(vocabulary.size, width=128, layers=4, head_size=32, tags=5).eval()
    lengths = generator.gamma(4.5, 4.7, 1000).astype(int) + 1  # about 21 words, as in the Penn Treebank
    sentences = [[f"word-{number}" for number in generator.integers(0, 10_000, length)] for length in lengths]
    figures = {}
    for decoding in ("argmax", "tree"):
        took = min(
            seconds(lambda d=decoding: predicted_heads(network, vocabulary, sentences, decodings=[d])) for _ in "ab"
        )
        figures[f"parsing, UDGN 128 wide, {decoding}"] = figure(len(sentences) / took, "sentences/s")
    write_figures("parsing", figures)
    assert lengths.mean() > 15
