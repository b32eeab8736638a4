"""Position embeddings against their formula."""

import math

import pytest
import torch

from depgen.errors import UserError
from depgen.nn.positions import LONG, LearnedPositions, SinusoidalPositions, sinusoids


@pytest.mark.parametrize("width", [2, 6, 7])
def test_sinusoids_by_the_formula(width):
    table, half = sinusoids(600, width), width // 2
    for position in (0, 1, 17, 599):
        for k in range(half):
            angle = position * math.exp(-math.log(10000) * k / max(half - 1, 1))
            assert table[position, k].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[position, half + k].item() == pytest.approx(math.cos(angle), abs=1e-6)
    assert not table[:, 2 * half :].any()


def test_a_text_may_be_longer_than_the_table_which_stays_out_of_the_checkpoint():
    positions, ids = SinusoidalPositions(8).double(), torch.tensor([[0, LONG + 6], [2, 1]])
    expected = sinusoids(LONG + 7, 8).double()
    assert torch.equal(positions(ids, stop=LONG + 7), expected[ids])
    assert torch.equal(positions(slice(3, 9), stop=9), expected[3:9])
    assert not positions.state_dict()
    assert len(positions.table) == LONG  # processes share it, so its size stays


def test_learned_positions_are_looked_up_and_have_an_end():
    positions = LearnedPositions(8, max_length=5)
    assert torch.equal(positions(slice(2, 5), stop=5), positions.weight[2:])
    ids = torch.tensor([[0, 4], [2, 1]])
    assert torch.equal(positions(ids, stop=5), positions.weight[ids])
    with pytest.raises(UserError, match="6 tokens does not fit into 5 learned positions"):
        positions(slice(0, 6), stop=6)
