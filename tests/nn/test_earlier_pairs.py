"""The pairs of a batch against loops over its sentences."""

import pytest
import torch

from depgen.nn.earlier_pairs import EarlierPairs


@pytest.mark.parametrize("lengths", [(3,), (2, 0, 4, 1), (0,), (0, 0)])
def test_pairs_of_a_batch(lengths):
    longest = max(lengths) + 1
    found = EarlierPairs.of(torch.tensor(lengths), longest)
    words = [(b, i) for b, length in enumerate(lengths) for i in range(1, length + 1)]
    pairs = [(k, b, j) for k, (b, i) in enumerate(words) for j in range(i)]
    assert found.places.tolist() == [b * longest + i - 1 for b, i in words]
    assert found.words.tolist() == [i for _, i in words]
    assert found.current.tolist() == [k for k, _, _ in pairs]
    assert found.sentences.tolist() == [b for _, b, _ in pairs]
    assert found.earlier.tolist() == [j for _, _, j in pairs]
    assert found.rows.tolist() == [words.index((b, j)) + 1 if j else 0 for _, b, j in pairs]
    assert found.rootless.tolist() == [place for place, (_, _, j) in enumerate(pairs) if j]
