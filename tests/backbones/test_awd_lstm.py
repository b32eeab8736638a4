"""AWD-LSTM against torch's own LSTM, its published size, and what its dropouts promise."""

from itertools import pairwise

import pytest
import torch
from torch import nn

from depgen.backbones.awd_lstm import AWDLSTM
from depgen.errors import UserError

VOCABULARY = 11


def small(**options):
    torch.manual_seed(0)
    return AWDLSTM(VOCABULARY, **{"embedding_size": 6, "hidden_size": 8, **options})


def words(*shape):
    return torch.randint(0, VOCABULARY, shape, generator=torch.Generator().manual_seed(1))


def test_the_published_size():
    sizes = [400, 1150, 1150, 400]
    gates = sum(4 * after * (before + after + 2) for before, after in pairwise(sizes))
    expected = 10_001 * 400 + gates + 10_001
    assert sum(each.numel() for each in AWDLSTM(10_001).parameters()) == expected == 24_222_001  # 24.22 M


def test_it_is_a_stack_of_torchs_lstms():
    model, tokens = small().eval(), words(3, 7)
    values = model.embedding(tokens)
    for layer in model.layers:
        reference = nn.LSTM(values.size(-1), layer.size, batch_first=True)
        names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
        own = (layer.weight_input, layer.weight_recurrent, layer.bias_input, layer.bias_recurrent)
        reference.load_state_dict(dict(zip(names, own, strict=True)))
        values, _ = reference(values)
    output = model(tokens, all_layers=True)
    torch.testing.assert_close(output.hidden, values)
    assert [each.size(-1) for each in output.layers] == [6, 8, 8, 6]
    assert torch.equal(output.undropped, output.layers[-1])


def test_a_carried_state_goes_on_where_it_was_left():
    model, tokens = small().eval(), words(3, 9)
    whole = model(tokens, carry=True)
    first = model(tokens[:, :4], carry=True)
    second = model(tokens[:, 4:], state=first.state, carry=True)
    torch.testing.assert_close(torch.cat((first.hidden, second.hidden), 1), whole.hidden)
    for (hidden, cell), (expected_hidden, expected_cell) in zip(second.state.layers, whole.state.layers, strict=True):
        torch.testing.assert_close(hidden, expected_hidden)
        torch.testing.assert_close(cell, expected_cell)


@pytest.mark.parametrize("left", [True, False])
def test_padding_is_passed_by(left):
    model = small().eval()
    lengths = (2, 5, 1, 0)
    tokens, padding = words(4, 5), torch.ones(4, 5, dtype=torch.bool)
    started = model(words(4, 3), carry=True).state
    for row, length in enumerate(lengths):
        padding[row, 5 - length if left else 0 : 5 if left else length] = False
    output = model(tokens, padding=padding, state=started, carry=True)
    for row in range(4):
        alone = started.select(torch.tensor([row]))
        kept = tokens[row][~padding[row]][None]
        expected = model(kept, state=alone, carry=True) if kept.size(1) else None
        last = alone if expected is None else expected.state
        for (hidden, cell), (expected_hidden, expected_cell) in zip(output.state.layers, last.layers, strict=True):
            torch.testing.assert_close(hidden[row], expected_hidden[0])
            torch.testing.assert_close(cell[row], expected_cell[0])
        if expected is not None:
            torch.testing.assert_close(output.hidden[row][~padding[row]], expected.hidden[0])
        assert not output.hidden[row][padding[row]].any()


def test_a_later_word_leaves_earlier_states_untouched():
    model, tokens = small().eval(), words(2, 6)
    changed = tokens.clone()
    changed[:, 4] = (changed[:, 4] + 1) % VOCABULARY
    before, after = model(tokens).hidden, model(changed).hidden
    assert torch.equal(before[:, :4], after[:, :4])
    assert not torch.allclose(before[:, 4:], after[:, 4:])


def test_training_passes_differ_by_the_recurrent_weights_alone_and_evaluation_passes_agree():
    dry = {"embedding_dropout": 0.0, "input_dropout": 0.0, "hidden_dropout": 0.0, "output_dropout": 0.0}
    model, tokens = small(**dry, weight_dropout=0.5), words(2, 6)
    assert not torch.equal(model(tokens).hidden, model(tokens).hidden)
    first = [model(tokens[:, :1]).hidden for _ in range(2)]
    assert torch.equal(*first)  # no recurrence yet
    model.eval()
    assert torch.equal(model(tokens).hidden, model(tokens).hidden)


def test_the_gradient_reaches_the_raw_recurrent_weights():
    model = small()
    model(words(2, 6)).hidden.sum().backward()
    for layer in model.layers:
        share = (layer.weight_recurrent.grad == 0).float().mean().item()
        assert share == pytest.approx(0.5, abs=0.15)  # dropped connections have none
    assert all(each.grad is not None for name, each in model.named_parameters() if name != "bias")


def test_untied_output_has_the_hidden_size():
    model = small(tied=False)
    assert model.output_weight.shape == (VOCABULARY, 8)
    assert model(words(1, 2)).hidden.shape == (1, 2, 8)


def test_what_an_lstm_has_not_is_refused():
    with pytest.raises(ValueError, match="an LSTM has none"):
        small()(words(1, 2), attention_layer=-1)
    with pytest.raises(UserError, match="one layer at least"):
        small(layers=0)
