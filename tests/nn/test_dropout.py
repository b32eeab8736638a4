import pytest
import torch

from depgen.nn.dropout import dropped, locked_dropout, weight_dropout, word_type_dropout


@pytest.mark.parametrize("p", [0.1, 0.3, 0.83])
def test_every_value_is_dropped_alike_and_without_regard_to_its_neighbours(p):
    torch.manual_seed(0)
    values = torch.full((1000, 203), 2.0, requires_grad=True)
    result = dropped(values, p)
    zero = result == 0
    assert zero.float().mean().item() == pytest.approx(p, abs=0.005)
    assert zero.float().mean(0).sub(p).abs().max() < 0.08  # five deviations of a column
    assert result.unique().tolist() == pytest.approx([0.0, 2 / (1 - p)], rel=1e-4)
    for step in (1, 2, 3, 4):  # values that share the drawn bits are as independent as others
        both = (zero[:, step:] & zero[:, :-step]).float().mean().item()
        assert both == pytest.approx(p * p, abs=0.006)
    result.sum().backward()
    assert torch.equal(values.grad * 2, result)


def test_a_seed_repeats_dropout_and_the_next_call_does_not():
    masks = []
    for _ in range(2):
        torch.manual_seed(3)
        masks.append([dropped(torch.ones(7, 3), 0.5), dropped(torch.ones(7, 3), 0.5)])
    assert torch.equal(masks[0][0], masks[1][0])
    assert torch.equal(masks[0][1], masks[1][1])
    assert not torch.equal(masks[0][0], masks[0][1])


@pytest.mark.parametrize("shape", [(), (1,), (5,), (0, 3)])
def test_any_number_of_values_can_be_dropped(shape):
    assert dropped(torch.ones(shape), 0.5).shape == shape
    assert (dropped(torch.ones(shape), 1.0) == 0).all()


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


def test_dropped_weights_pass_the_gradient_to_the_raw_matrix():
    torch.manual_seed(0)
    raw = torch.ones(100, 100, requires_grad=True)
    dropped = weight_dropout(raw, 0.3, training=True)
    assert (dropped == 0).float().mean().item() == pytest.approx(0.3, abs=0.03)
    dropped.sum().backward()
    assert torch.equal(raw.grad, dropped.detach())  # 1 / 0.7 where kept, 0 where dropped


@pytest.mark.parametrize("dropout", [dropped, locked_dropout, word_type_dropout, weight_dropout])
def test_nothing_is_dropped_in_evaluation_or_at_zero(dropout):
    values = torch.rand(2, 3, 4) if dropout is locked_dropout else torch.rand(3, 4)
    assert torch.equal(dropout(values, 0.5, training=False), values)
    assert torch.equal(dropout(values, 0.0, training=True), values)
