import pytest
import torch

from depgen.nn.dropout import locked_dropout, weight_dropout, word_type_dropout


def test_a_locked_mask_is_the_same_at_all_positions_and_another_in_each_text():
    torch.manual_seed(0)
    dropped = locked_dropout(torch.ones(4, 5, 500), 0.3, training=True)
    assert (dropped == dropped[:, :1]).all()
    assert not torch.equal(dropped[0], dropped[1])
    assert dropped.unique().tolist() == pytest.approx([0.0, 1 / 0.7])
    assert (dropped == 0).float().mean().item() == pytest.approx(0.3, abs=0.05)


def test_whole_word_types_are_dropped():
    torch.manual_seed(0)
    dropped = word_type_dropout(torch.ones(1000, 3), 0.1, training=True)
    assert (dropped == dropped[:, :1]).all()
    assert (dropped[:, 0] == 0).float().mean().item() == pytest.approx(0.1, abs=0.03)
    assert dropped.max().item() == pytest.approx(1 / 0.9)


def test_dropped_weights_pass_the_gradient_to_the_raw_matrix():
    torch.manual_seed(0)
    raw = torch.ones(100, 100, requires_grad=True)
    dropped = weight_dropout(raw, 0.5, training=True)
    assert (dropped == 0).float().mean().item() == pytest.approx(0.5, abs=0.03)
    dropped.sum().backward()
    assert torch.equal(raw.grad, dropped.detach())  # 2 where kept, 0 where dropped


@pytest.mark.parametrize("dropout", [locked_dropout, word_type_dropout, weight_dropout])
def test_nothing_is_dropped_in_evaluation_or_at_zero(dropout):
    values = torch.rand(2, 3, 4) if dropout is locked_dropout else torch.rand(3, 4)
    assert torch.equal(dropout(values, 0.5, training=False), values)
    assert torch.equal(dropout(values, 0.0, training=True), values)
