"""The Transformer backbone against torch's own, and its promises: causality, padding, carried keys, attention."""

import math

import pytest
import torch
from torch import nn

from depgen.backbones.transformer import StructFormerInit, Transformer, TransformerLayer
from depgen.errors import UserError
from depgen.nn.attention import Visibility

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


def test_a_state_made_in_inference_mode_serves_outside_and_gradients_pass_through_states():
    model = small().eval()
    tokens = some_tokens()
    with torch.inference_mode():
        state = model(tokens[:, :4], carry=True).state
        state = model(tokens[:, 4:5], state=state, carry=True).state
    expected = model(tokens).hidden[:, 5:6]
    with torch.no_grad():
        torch.testing.assert_close(model(tokens[:, 5:6], state=state).hidden, expected, atol=1e-5, rtol=1e-5)
    first = model(tokens[:, :4], carry=True)
    second = model(tokens[:, 4:5], state=first.state, carry=True)
    third = model(tokens[:, 5:6], state=second.state)
    torch.testing.assert_close(third.hidden, expected, atol=1e-5, rtol=1e-5)
    parts = torch.autograd.grad(third.hidden.sum(), list(model.parameters()))
    whole = torch.autograd.grad(expected.sum(), list(model.parameters()))
    torch.testing.assert_close(parts, whole, atol=1e-5, rtol=1e-4)


def test_rows_of_padding_give_finite_gradients():
    model = small()
    padding = torch.zeros(3, 9, dtype=torch.bool)
    padding[0, :6] = padding[1] = True
    output = model(some_tokens(), padding=padding, attention_layer=1)
    (output.hidden[~padding].sum() + output.attention.exp().square().sum()).backward()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in model.parameters())


def literal_attention(module, hidden, bias, *, causal):
    """Self-attention as loops over rows, heads, queries and keys; `bias(head, query, key)` is added to the scores."""
    batch, length, width = hidden.shape
    heads, size = module.attention_heads, width // module.attention_heads
    queries, keys, values = (hidden @ module.projection.weight.T + module.projection.bias).chunk(3, -1)
    mixed = torch.zeros_like(hidden)
    for row in range(batch):
        for head in range(heads):
            part = slice(head * size, (head + 1) * size)
            for i in range(length):
                seen = range(i + 1) if causal else range(length)
                scores = [queries[row, i, part] @ keys[row, j, part] / size**0.5 + bias(head, i, j) for j in seen]
                weights = torch.stack(scores).softmax(0)
                mixed[row, i, part] = sum(w * values[row, j, part] for w, j in zip(weights, seen, strict=True))
    return mixed @ module.output.weight.T + module.output.bias


def linear_bias(layer, queries, keys):
    """As in ALiBi: the further away a key, the less, by a slope of the head; nothing in the middle layer."""
    if layer == 1:
        return None
    slopes = 2.0 ** -torch.arange(1, queries.size(1) + 1)
    distance = torch.arange(keys.context) - torch.arange(keys.context - queries.size(2), keys.context)[:, None]
    return -slopes[:, None, None] * distance.abs()


@pytest.mark.parametrize("causal", [True, False])
@torch.no_grad()
def test_score_function_and_hook_against_literal_loops(causal):
    model = small(causal=causal).eval()
    tokens, extra = some_tokens(batch=2, length=6), torch.randn(2, 6, 16)

    def after_layer(index, hidden):
        return hidden + extra if index == 1 else hidden

    expected = embedded(model, tokens) + 2 * extra
    for index, layer in enumerate(model.layers):
        bias = (lambda *_: 0.0) if index == 1 else (lambda head, i, j: -(2.0 ** -(head + 1)) * abs(i - j))
        expected = expected + literal_attention(layer.attention, layer.attention_norm(expected), bias, causal=causal)
        expected = expected + layer.contract(layer.expand(layer.feedforward_norm(expected)).relu())
        if index == 1:
            expected = expected + extra
    expected = model.final_norm(expected)
    options = {"score_function": linear_bias, "after_layer": after_layer, "added_embedding": 2 * extra}
    for attention_layer in (None, 0):
        output = model(tokens, attention_layer=attention_layer, **options)
        torch.testing.assert_close(output.hidden, expected, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_score_functions_work_with_states_and_padding():
    model = small().eval()
    tokens = some_tokens(batch=2, length=8)
    whole = model(tokens[:, 2:], score_function=linear_bias).hidden
    padding = torch.zeros(2, 8, dtype=torch.bool)
    padding[:, :2] = True
    start = model(tokens[:, :6], padding=padding[:, :6], score_function=linear_bias, carry=True)
    end = model(tokens[:, 6:], state=start.state, score_function=linear_bias)
    torch.testing.assert_close(torch.cat((start.hidden[:, 2:], end.hidden), 1), whole, atol=1e-5, rtol=1e-5)

    def only_earlier(layer, queries, keys):  # would leave the padded queries nothing to see
        return torch.full((6, 6), -torch.inf).triu(2 if layer else 1)

    for attention_layer in (None, 0):
        output = model(
            tokens[:, :6], padding=padding[:, :6], score_function=only_earlier, attention_layer=attention_layer
        )
        assert output.hidden[:, 3:].isfinite().all()
        assert output.hidden[:, :2].isfinite().all()


@torch.no_grad()
def test_rows_that_share_a_past_are_scored_as_those_that_have_it_alone():
    model, tokens, rows = small().eval(), some_tokens(batch=2, length=8), torch.tensor([0, 1, 1, 0])
    whole = model(tokens[rows], score_function=linear_bias).hidden
    state = model(tokens[:, :6], score_function=linear_bias, carry=True).state.select(rows)
    for place in (6, 7):
        step = model(tokens[rows, place : place + 1], state=state, score_function=linear_bias, carry=True)
        torch.testing.assert_close(step.hidden, whole[:, place : place + 1], atol=1e-5, rtol=1e-5)
        state = step.state


@pytest.mark.parametrize("causal", [True, False])
@torch.no_grad()
def test_weights_of_another_kind_against_literal_loops(causal):
    model = small(causal=causal).eval()
    tokens, padding = some_tokens(batch=2, length=6), torch.zeros(2, 6, dtype=torch.bool)
    padding[1, 4:] = True
    factor = torch.rand(3, 4, 1, 1)
    output = model(tokens, padding=padding, weigh=lambda layer, scores: scores.sigmoid() * factor[layer])
    for row, length in enumerate((6, 4)):
        hidden = embedded(model, tokens[row : row + 1, :length])[0]
        for number, layer in enumerate(model.layers):
            read = layer.attention_norm(hidden)
            queries, keys, values = layer.attention.projection(read).view(length, 3, 4, 4).unbind(1)
            mixed = torch.zeros(length, 4, 4)
            for i in range(length):
                for j in range(i + 1 if causal else length):
                    for head in range(4):
                        weight = torch.sigmoid(queries[i, head] @ keys[j, head] / 2) * factor[number, head, 0, 0]
                        mixed[i, head] += weight * values[j, head]
            hidden = hidden + layer.attention.output(mixed.flatten(1))
            hidden = hidden + layer.contract(layer.expand(layer.feedforward_norm(hidden)).relu())
        torch.testing.assert_close(output.hidden[row, :length], model.final_norm(hidden), atol=1e-5, rtol=1e-5)


def test_bf16_autocast_keeps_the_attention_in_fp32():
    model = small().eval()
    expected = model(some_tokens(), attention_layer=1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = model(some_tokens(), attention_layer=1, carry=True)
        further = model(some_tokens(length=1), state=output.state, score_function=linear_bias)
    assert output.attention.dtype == torch.float32
    torch.testing.assert_close(output.attention.exp().sum(-1), torch.ones(3, 4, 9))
    torch.testing.assert_close(output.hidden.float(), expected.hidden, atol=0.1, rtol=0.1)
    assert further.hidden.isfinite().all()


def test_initialisation_is_that_of_fairseq():
    torch.manual_seed(0)
    model = Transformer(5000, layers=1, width=256, tied=False, output_bias=True)
    for matrix in (model.embedding.weight, model.output_weight):
        assert matrix.std().item() == pytest.approx(256**-0.5, rel=0.01)
    for block in model.layers[0].attention.projection.weight.chunk(3):
        bound = 2**-0.5 * (6 / 512) ** 0.5
        assert 0.99 * bound < block.abs().max() <= bound
    assert not model.output_bias.any()


def test_initialisation_is_that_of_structformer():
    torch.manual_seed(0)
    sizes = {"layers": 2, "width": 256, "positions": "learned", "max_length": 500}
    model = Transformer(5000, **sizes, output_bias=True, init=StructFormerInit(0.1))
    for matrix in (model.embedding.weight, model.positions.weight):
        assert 0.0999 < matrix.abs().max() <= 0.1
        assert matrix.std().item() == pytest.approx(0.1 / 3**0.5, rel=0.01)
    attention, bound = model.layers[1].attention, (6 / 512) ** 0.5
    for block in (*attention.projection.weight.chunk(3), attention.output.weight):
        assert 0.99 * bound < block.abs().max() <= bound
    assert not torch.cat((attention.projection.bias, attention.output.bias, model.output_bias)).any()
    assert model.layers[1].expand.weight.abs().max() <= 256**-0.5


@torch.no_grad()
def test_layer_norms_without_gains_and_leaky_activations():
    plain = small(affine_norms=False, activation="leaky_relu").eval()
    assert {name for name, _ in plain.named_parameters() if "norm" in name} == {"final_norm.weight", "final_norm.bias"}
    layer, hidden = plain.layers[0], torch.randn(2, 5, 16)
    standard = (hidden - hidden.mean(-1, keepdim=True)) / (hidden.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()
    torch.testing.assert_close(layer.feedforward_norm(hidden), standard, atol=1e-5, rtol=1e-5)
    inner = layer.expand(standard)
    layer.attention.output.weight.zero_()  # attention that adds nothing
    visibility = Visibility.of(5, None, causal=False, context=5, device=hidden.device)
    expected = hidden + layer.contract(torch.where(inner > 0, inner, 0.01 * inner))
    torch.testing.assert_close(layer(hidden, visibility)[0], expected, atol=1e-5, rtol=1e-5)


def test_parameters_at_the_papers_size_follow_the_closed_form():
    vocabulary, d, f, layers = 31_216, 512, 2048, 6
    attention = 4 * d * d + 4 * d
    feedforward = 2 * d * f + f + d
    norms = 2 * 2 * d
    expected = vocabulary * d + layers * (attention + feedforward + norms) + 2 * d
    assert expected == 34_897_920
    assert sum(parameter.numel() for parameter in Transformer(vocabulary).parameters()) == expected


@pytest.mark.parametrize(("options", "call", "error", "said"), [
    ({"causal": False}, {"carry": True}, ValueError, "causal=False"),
    ({}, {"attention_layer": 0, "weigh": lambda layer, scores: scores.sigmoid()}, ValueError, "another kind"),
    ({}, {"attention_layer": 3}, ValueError, "layer 3 requested, but a Transformer has 3"),
    ({"layers": 0}, {}, UserError, "layers: expected at least 1, found 0"),
    ({"width": 10}, {}, UserError, "multiple of attention_heads"),
])  # fmt: skip
def test_what_it_has_not_is_refused(options, call, error, said):
    with pytest.raises(error, match=said):
        small(**options)(some_tokens(), **call)


# -- one layer --------------------------------------------------------------------------------------------------------

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
