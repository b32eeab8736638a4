import pytest
import torch

from depgen.errors import UserError
from depgen.nn.dropout import Dropout, locked_dropout, word_type_dropout


def test_a_locked_mask_is_the_same_at_all_positions_and_another_in_each_text():
    torch.manual_seed(0)
    dropped = locked_dropout(torch.ones(4, 5, 500), 0.3, training=True)
    assert (dropped == dropped[:, :1]).all()
    assert not torch.equal(dropped[0], dropped[1])
    assert dropped.unique().tolist() == pytest.approx([0.0, 1 / 0.7], rel=1e-4)
    assert (dropped == 0).float().mean().item() == pytest.approx(0.3, abs=0.05)


def test_whole_word_types_are_dropped():
    torch.manual_seed(0)
    dropped = word_type_dropout(torch.ones(1000, 3), 0.1, training=True)
    assert (dropped == dropped[:, :1]).all()
    assert (dropped[:, 0] == 0).float().mean().item() == pytest.approx(0.1, abs=0.03)
    assert dropped.max().item() == pytest.approx(1 / 0.9, rel=1e-4)


@pytest.mark.parametrize("dropout", [locked_dropout, word_type_dropout])
def test_nothing_is_dropped_in_evaluation_or_at_zero(dropout):
    values = torch.rand(2, 3, 4) if dropout is locked_dropout else torch.rand(3, 4)
    assert torch.equal(dropout(values, 0.5, training=False), values)
    assert torch.equal(dropout(values, 0.0, training=True), values)


@pytest.mark.parametrize("p", [-0.1, 1.5])
def test_what_is_no_probability_is_refused(p):
    with pytest.raises(UserError, match="between 0 and 1"):
        Dropout(p)
