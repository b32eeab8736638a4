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
