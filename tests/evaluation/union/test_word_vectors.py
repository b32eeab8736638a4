import numpy as np
import pytest

from depgen.evaluation.union.word_vectors import DEVIATION, word_vectors


def test_they_are_those_of_an_exact_decomposition():
    generator = np.random.default_rng(3)
    texts = [generator.integers(1, 9, size=12).tolist() for _ in range(30)]
    window, size = 2, 10
    counts = np.zeros((size, size))
    for text in texts:
        for i, left in enumerate(text):
            for j in range(max(0, i - window), min(len(text), i + window + 1)):
                if i != j:
                    counts[left, text[j]] += 1
    share, context = counts.sum(1) / counts.sum(), counts.sum(1) ** 0.75
    with np.errstate(divide="ignore", invalid="ignore"):
        information = np.log(counts / counts.sum() / np.outer(share, context / context.sum()))
    information = np.nan_to_num(np.maximum(information, 0), nan=0.0)
    left, values, _ = np.linalg.svd(information)
    expected = left * np.sqrt(values)
    found = word_vectors(texts, size=size, width=size, window=window)
    known = [word for word in range(1, 9) if np.linalg.norm(expected[word]) > 1e-6]
    assert np.linalg.norm(found[known], axis=1) == pytest.approx(DEVIATION * size**0.5, rel=1e-5)
    assert not found[0].any()
    assert not found[9].any()
    unit = expected[known] / np.linalg.norm(expected[known], axis=1, keepdims=True)
    ours = found[known] / np.linalg.norm(found[known], axis=1, keepdims=True)
    assert ours @ ours.T == pytest.approx(unit @ unit.T, abs=1e-4)


def test_words_of_one_topic_are_near():
    texts = [[1, 2, 3, 1, 2, 3], [4, 5, 6, 4, 5, 6]] * 5
    found = word_vectors(texts, size=7, width=4, window=3)
    unit = found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-9)
    assert unit[1] @ unit[2] > 0.5 > abs(unit[1] @ unit[5])


def test_without_pairs_they_are_zero():
    assert not word_vectors([[1], []], size=3, width=2, window=4).any()
