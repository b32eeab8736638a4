"""One layer: where each kind of dropout acts, and where the norms are."""

import pytest
import torch

from depgen.backbones.transformer_layer import TransformerLayer
from depgen.nn.attention import Visibility

CAUSAL = Visibility(None, True)


def layer(**changes) -> TransformerLayer:
    torch.manual_seed(0)
    options = {"feedforward": 12, "dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}
    return TransformerLayer(8, 2, **{**options, "activation": "relu", "norm_first": True, **changes})


@pytest.mark.parametrize("kind", ["dropout", "attention_dropout", "activation_dropout"])
def test_each_dropout_acts_in_training_alone(kind):
    hidden, changed = torch.randn(2, 5, 8), layer(**{kind: 0.5})
    expected = layer()(hidden, CAUSAL)[0]
    assert torch.equal(changed.eval()(hidden, CAUSAL)[0], expected)
    assert not torch.equal(changed.train()(hidden, CAUSAL)[0], expected)


def test_everything_dropped_leaves_the_residual():
    hidden = torch.randn(2, 5, 8)
    assert torch.equal(layer(dropout=1.0)(hidden, CAUSAL)[0], hidden)
    post = layer(dropout=1.0, norm_first=False)
    assert torch.equal(post(hidden, CAUSAL)[0], post.feedforward_norm(post.attention_norm(hidden)))


def test_what_was_not_asked_for_is_not_returned():
    hidden = torch.randn(2, 5, 8)
    assert layer()(hidden, CAUSAL)[1:] == (None, None)
    _, attention, present = layer()(hidden, CAUSAL, with_attention=True, carry=True)
    assert attention.shape == (2, 2, 5, 5)
    assert present.keys.shape == (2, 2, 5, 4)
