"""What holds for every recurrent backbone: carried states, padding, causality, dropouts."""

from functools import partial

import pytest
import torch

from depgen.backbones.awd_lstm import AWDLSTM
from depgen.backbones.on_lstm import ONLSTM
from depgen.errors import UserError
from tests.backbones.conftest import VOCABULARY, words


@pytest.fixture(params=[AWDLSTM, partial(ONLSTM, chunk_size=2)], ids=["AWD-LSTM", "ON-LSTM"])
def network(request):
    return request.param


def small(network, **options):
    torch.manual_seed(0)
    return network(VOCABULARY, **{"embedding_size": 6, "hidden_size": 8, **options})


def test_a_carried_state_goes_on_where_it_was_left(network):
    model, tokens = small(network).eval(), words(3, 9)
    whole = model(tokens, carry=True)
    first = model(tokens[:, :4], carry=True)
    second = model(tokens[:, 4:], state=first.state, carry=True)
    torch.testing.assert_close(torch.cat((first.hidden, second.hidden), 1), whole.hidden)
    for (hidden, cell), (expected_hidden, expected_cell) in zip(second.state.layers, whole.state.layers, strict=True):
        torch.testing.assert_close(hidden, expected_hidden)
        torch.testing.assert_close(cell, expected_cell)


@pytest.mark.parametrize("left", [True, False])
def test_padding_is_passed_by(network, left):
    model = small(network).eval()
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


def test_a_later_word_leaves_earlier_states_untouched(network):
    model, tokens = small(network).eval(), words(2, 6)
    changed = tokens.clone()
    changed[:, 4] = (changed[:, 4] + 1) % VOCABULARY
    before, after = model(tokens).hidden, model(changed).hidden
    assert torch.equal(before[:, :4], after[:, :4])
    assert not torch.allclose(before[:, 4:], after[:, 4:])


def test_training_passes_differ_by_the_recurrent_weights_alone_and_evaluation_passes_agree(network):
    dry = {"embedding_dropout": 0.0, "input_dropout": 0.0, "hidden_dropout": 0.0, "output_dropout": 0.0}
    model, tokens = small(network, **dry, weight_dropout=0.5), words(2, 6)
    assert not torch.equal(model(tokens).hidden, model(tokens).hidden)
    first = [model(tokens[:, :1]).hidden for _ in range(2)]
    assert torch.equal(*first)  # no recurrence yet
    model.eval()
    assert torch.equal(model(tokens).hidden, model(tokens).hidden)


DROPOUTS = ("embedding_dropout", "input_dropout", "hidden_dropout", "output_dropout")


@pytest.mark.parametrize("name", DROPOUTS)
def test_each_dropout_has_its_own_place(network, name):
    """Where one alone is on, nothing but its own values is dropped, of a word type or at all positions of a text."""
    dropouts = {"weight_dropout": 0.0, **dict.fromkeys(DROPOUTS, 0.0), name: 0.3}
    torch.manual_seed(0)
    model = network(500, embedding_size=60, hidden_size=80, **dropouts)
    tokens, read = torch.randint(0, 500, (20, 15)), []
    for layer in model.layers:
        layer.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0]))
    with torch.no_grad():
        output = model(tokens, all_layers=True)
    places = {
        "embedding_dropout": [(model.embedding.weight[tokens], output.layers[0])],
        "input_dropout": [(output.layers[0], read[0])],
        "hidden_dropout": list(zip(output.layers[1:-1], read[1:], strict=True)),
        "output_dropout": [(output.undropped, output.hidden)],
    }
    for before, after in (pair for place, pairs in places.items() if place != name for pair in pairs):
        assert torch.equal(after, before)
    for before, after in places[name]:
        if name == "embedding_dropout":
            kept = ~torch.isin(tokens, tokens[~after.any(-1)])[..., None]
        else:
            kept = after.any(1, keepdim=True)
        assert kept.float().mean().item() == pytest.approx(0.7, abs=0.06)
        torch.testing.assert_close(after, kept * before / 0.7, rtol=1e-4, atol=1e-6)
    assert model.output_weight is model.embedding.weight  # which predicts undropped


def test_untied_output_has_the_hidden_size(network):
    model = small(network, tied=False)
    assert model.output_weight.shape == (VOCABULARY, 8)
    assert model(words(1, 2)).hidden.shape == (1, 2, 8)


def test_what_they_have_not_is_refused(network):
    with pytest.raises(ValueError, match="LSTM has none"):
        small(network)(words(1, 2), attention_layer=-1)
    with pytest.raises(UserError, match="one layer at least"):
        small(network, layers=0)
