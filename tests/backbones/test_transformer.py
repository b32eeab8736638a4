"""The Transformer backbone against torch's own, and its promises: causality, padding, carried keys, attention."""

import math

import pytest
import torch
from torch import nn

from depgen.backbones.transformer import Transformer
from depgen.errors import UserError

VOCABULARY = 23


def small(**changes) -> Transformer:
    torch.manual_seed(0)
    options = {"layers": 3, "width": 16, "attention_heads": 4, "feedforward": 24, **changes}
    return Transformer(VOCABULARY, **options)


def some_tokens(batch: int = 3, length: int = 9) -> torch.Tensor:
    return torch.randint(VOCABULARY, (batch, length), generator=torch.Generator().manual_seed(1))


def torch_encoder(model: Transformer, *, norm_first: bool, activation: str) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(
        16, 4, dim_feedforward=24, dropout=0.1, activation=activation, norm_first=norm_first, batch_first=True
    )
    norm = nn.LayerNorm(16) if norm_first else None
    encoder = nn.TransformerEncoder(layer, 3, norm=norm, enable_nested_tensor=False)
    with torch.no_grad():
        for parameter in model.parameters():  # norms and biases too must take part in the comparison
            parameter.normal_(std=0.3)
        for theirs, ours in zip(encoder.layers, model.layers, strict=True):
            pairs = {
                theirs.self_attn.out_proj: ours.attention.output,
                theirs.linear1: ours.expand,
                theirs.linear2: ours.contract,
                theirs.norm1: ours.attention_norm,
                theirs.norm2: ours.feedforward_norm,
            }
            for their, our in pairs.items():
                their.load_state_dict(our.state_dict())
            theirs.self_attn.in_proj_weight.copy_(ours.attention.projection.weight)
            theirs.self_attn.in_proj_bias.copy_(ours.attention.projection.bias)
        if norm is not None:
            encoder.norm.load_state_dict(model.final_norm.state_dict())
    return encoder


def embedded(model: Transformer, tokens: torch.Tensor) -> torch.Tensor:
    """Embeddings by the literal formula."""
    length = tokens.size(1)
    result = model.embedding.weight[tokens] * math.sqrt(model.width)
    half = model.width // 2
    for position in range(length):
        for k in range(half):
            angle = position / 10000 ** (k / (half - 1))
            result[:, position, k] += math.sin(angle)
            result[:, position, half + k] += math.cos(angle)
    return result


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("norm_first", "activation"), [(True, "relu"), (False, "gelu")])
@torch.no_grad()
def test_equals_the_encoder_of_torch(norm_first, activation, causal):
    model = small(norm_first=norm_first, activation=activation, causal=causal).eval()
    encoder = torch_encoder(model, norm_first=norm_first, activation=activation).eval()
    tokens = some_tokens()
    mask = nn.Transformer.generate_square_subsequent_mask(9) if causal else None
    expected = encoder(embedded(model, tokens), mask=mask, is_causal=causal)
    torch.testing.assert_close(model(tokens).hidden, expected, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_a_later_token_leaves_earlier_states_untouched():
    tokens = some_tokens()
    changed = tokens.clone()
    changed[:, 5] = (changed[:, 5] + 1) % VOCABULARY
    for attention_layer in (None, 1):
        causal = small().eval()
        before = causal(tokens, attention_layer=attention_layer).hidden
        after = causal(changed, attention_layer=attention_layer).hidden
        assert torch.equal(before[:, :5], after[:, :5])
        assert not torch.allclose(before[:, 5:], after[:, 5:])
    masked = small(causal=False).eval()
    assert not torch.allclose(masked(tokens).hidden[:, :5], masked(changed).hidden[:, :5])


@torch.no_grad()
def test_carried_keys_give_what_one_pass_gives():
    model = small().eval()
    tokens = some_tokens()
    whole = model(tokens, attention_layer=-2)
    state, start = None, 0
    for width in (4, 1, 2, 1, 1):
        part = model(tokens[:, start : start + width], state=state, attention_layer=-2, carry=True)
        torch.testing.assert_close(part.hidden, whole.hidden[:, start : start + width], atol=1e-5, rtol=1e-5)
        expected = whole.attention[:, :, start : start + width, : start + width]
        torch.testing.assert_close(part.attention, expected, atol=1e-5, rtol=1e-5)
        state, start = part.state, start + width


def test_parameters_at_the_papers_size_follow_the_closed_form():
    vocabulary, d, f, layers = 31_216, 512, 2048, 6
    attention = 4 * d * d + 4 * d
    feedforward = 2 * d * f + f + d
    norms = 2 * 2 * d
    expected = vocabulary * d + layers * (attention + feedforward + norms) + 2 * d
    assert expected == 34_897_920
    assert sum(parameter.numel() for parameter in Transformer(vocabulary).parameters()) == expected


def test_a_width_that_heads_do_not_divide_is_refused():
    with pytest.raises(UserError, match="multiple of attention_heads"):
        Transformer(VOCABULARY, width=10, attention_heads=4)
