"""AR and TAR against a literal loop."""

import pytest
import torch

from depgen.training.activation import ActivationRegularizer


@pytest.mark.parametrize("of", ["dropped", "undropped"])
def test_means_run_over_tokens_and_neighbouring_pairs(of):
    torch.manual_seed(0)
    dropped, undropped = torch.randn(2, 4, 3), torch.randn(2, 4, 3)
    lengths = [4, 2]
    mask = torch.arange(4) < torch.tensor(lengths)[:, None]
    seen = dropped if of == "dropped" else undropped
    squares, differences = [], []
    for row, length in enumerate(lengths):
        for t in range(length):
            squares += [value**2 for value in seen[row, t].tolist()]
            if t + 1 < length:
                differences += [value**2 for value in (undropped[row, t + 1] - undropped[row, t]).tolist()]
    expected = 2.0 * sum(squares) / len(squares) + 0.5 * sum(differences) / len(differences)
    found = ActivationRegularizer(2.0, 0.5, of)(dropped, undropped, mask)
    assert found.item() == pytest.approx(expected, rel=1e-6)


def test_one_position_has_no_neighbour():
    one = torch.ones(1, 1, 2)
    assert ActivationRegularizer(2.0, 1.0)(one, one, torch.ones(1, 1, dtype=torch.bool)) == 2
