"""What holds for every recurrent backbone beside the contract: the place of each dropout, and the output."""

from functools import partial

import pytest
import torch

from depgen.backbones.awd_lstm import AWDLSTM
from depgen.backbones.on_lstm import ONLSTM
from depgen.backbones.prpn import PRPN
from depgen.backbones.recurrent import locked_dropout, word_type_dropout
from depgen.errors import UserError
from tests.backbones.conftest import VOCABULARY, words


@pytest.fixture(params=[AWDLSTM, partial(ONLSTM, chunk_size=2)], ids=["AWD-LSTM", "ON-LSTM"])
def network(request):
    return request.param


def small(network, **options):
    torch.manual_seed(0)
    return network(VOCABULARY, **{"embedding_size": 6, "hidden_size": 8, **options})


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


@pytest.mark.parametrize(("network", "options", "call", "error", "said"), [
    (AWDLSTM, {}, {"attention_layer": -1}, ValueError, "AWDLSTM has none"),
    (PRPN, {}, {"attention_layer": 0}, ValueError, "PRPN has none"),
    (ONLSTM, {"layers": 0}, {}, UserError, "layers: expected at least 1"),
    (ONLSTM, {"chunk_size": 3}, {}, UserError, "8 neurons does not fall into chunks of chunk_size 3"),
    (PRPN, {"hidden_size": 7}, {}, UserError, r"even hidden_size, found .* hidden_size: 7"),
])  # fmt: skip
def test_what_they_have_not_is_refused(network, options, call, error, said):
    with pytest.raises(error, match=said):
        small(network, **options)(words(1, 2), **call)
