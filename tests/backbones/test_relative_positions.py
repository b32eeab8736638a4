"""Transformer-XL's attention against its formula as loops, and its promises: one pass = steps, padding, causality."""

import math
from functools import partial

import pytest
import torch

from depgen.backbones.transformer import Transformer, TransformerXLInit
from depgen.errors import UserError

VOCABULARY, WIDTH, HEADS = 23, 12, 3
SIZE = WIDTH // HEADS
PAPER = {
    "layers": 16, "width": 1024, "attention_heads": 8, "feedforward": 4096, "positions": "relative",
    "norm_first": False, "attention_bias": False, "output_bias": True, "scale_embedding": False, "dropout": 0.0,
}  # fmt: skip


def small(**changes) -> Transformer:
    """A network whose biases, distances and norms are all far from where they start."""
    torch.manual_seed(0)
    options = {**PAPER, "layers": 2, "width": WIDTH, "attention_heads": HEADS, "feedforward": 20, **changes}
    model = Transformer(VOCABULARY, **options).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.4)
    return model.eval()


def some_tokens(batch: int = 2, length: int = 7) -> torch.Tensor:
    return torch.randint(VOCABULARY, (batch, length), generator=torch.Generator().manual_seed(1))


def sinusoid(distance: int) -> torch.Tensor:
    """Sines, then cosines, of distance / 10000^(2k / width), rounded to single precision as the network's table is."""
    angles = [distance / 10000 ** (2 * k / WIDTH) for k in range(WIDTH // 2)]
    return torch.tensor([*map(math.sin, angles), *map(math.cos, angles)]).double()


def literal_layer(model: Transformer, index: int, hidden: torch.Tensor, seen, added) -> torch.Tensor:
    """One text through one layer, post-LN: `seen[i]` has the keys of query i, and how far each is.

    `added(head, i, j, q)` is added to the scaled scores.
    """
    layer = model.layers[index]
    queries, keys, values = (hidden @ block.T for block in layer.attention.projection.weight.chunk(3))
    mixed = torch.zeros_like(hidden)
    for head in range(HEADS):
        part = slice(head * SIZE, (head + 1) * SIZE)
        u, v = model.relative.content_bias[head], model.relative.position_bias[head]
        for i in range(len(hidden)):
            scores, q = [], queries[i, part]
            for j, far in seen[i]:
                distance = model.relative.projection(index).weight[part] @ sinusoid(far)
                score = ((q + u) @ keys[j, part] + (q + v) @ distance) / math.sqrt(SIZE)
                scores.append(score + added(head, i, j, q + u))
            weights = torch.stack(scores).softmax(0)
            mixed[i, part] = sum(w * values[j, part] for (j, _), w in zip(seen[i], weights, strict=True))
    hidden = layer.attention_norm(hidden + mixed @ layer.attention.output.weight.T)
    inner = torch.relu(hidden @ layer.expand.weight.T + layer.expand.bias)
    return layer.feedforward_norm(hidden + inner @ layer.contract.weight.T + layer.contract.bias)


def literal_states(model: Transformer, hidden: torch.Tensor, seen, added=lambda *_: 0.0) -> torch.Tensor:
    """The hidden states of one text's embeddings; see `literal_layer`."""
    for index in range(len(model.layers)):
        hidden = literal_layer(model, index, hidden, seen, added)
    return hidden


def literal(model: Transformer, tokens: torch.Tensor, added=lambda *_: 0.0, seen=None) -> torch.Tensor:
    """Hidden states by loops over texts, heads, queries and keys; `seen`: of each text, in place of all before."""
    before = [[(j, i - j) for j in range(i + 1)] for i in range(tokens.size(1))]
    rows = []
    for row, of_row in zip(tokens, seen or [before] * len(tokens), strict=True):
        rows.append(literal_states(model, model.embedding.weight[row], of_row, added))
    return torch.stack(rows)


close = partial(torch.testing.assert_close, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("attention_layer", [None, 1])
def test_states_and_gradients_equal_the_formula_in_loops(attention_layer):
    model, tokens = small(), some_tokens()
    found, expected = model(tokens, attention_layer=attention_layer).hidden, literal(model, tokens)
    close(found, expected)
    weights = torch.randn(found.shape, dtype=torch.float64)
    parameters = [parameter for name, parameter in model.named_parameters() if name != "bias"]  # that of the output
    close(*(torch.autograd.grad((each * weights).sum(), parameters) for each in (found, expected)))


@torch.no_grad()
def test_a_score_function_is_called_with_the_content_bias_added():
    model, tokens = small(), some_tokens()
    table = torch.randn(7, HEADS, SIZE, dtype=torch.float64)

    def by_key(layer, queries, keys):
        return torch.einsum("bhts,jhs->bhtj", queries, table[: keys.context])

    close(model(tokens, score_function=by_key).hidden, literal(model, tokens, lambda h, i, j, q: q @ table[j, h]))


@pytest.mark.parametrize("attention_layer", [None, 1])
@torch.no_grad()
def test_steps_and_parts_equal_one_pass(attention_layer):
    model, tokens = small(), some_tokens(length=9)
    whole = model(tokens, attention_layer=attention_layer)
    for sizes in ([1] * 9, [2, 1, 3, 1, 2], [5, 4]):
        state, hidden = None, []
        for part in tokens.split(sizes, 1):
            output = model(part, state=state, carry=True, attention_layer=attention_layer)
            state = output.state
            hidden.append(output.hidden)
        close(torch.cat(hidden, 1), whole.hidden)
        if attention_layer is not None:
            close(output.attention[:, :, -1], whole.attention[:, :, -1])


@pytest.mark.parametrize("attention_layer", [None, 1])
@torch.no_grad()
def test_hypotheses_that_share_a_past_equal_their_texts(attention_layer):
    model, tokens = small(), some_tokens(length=4)
    state = model(tokens, carry=True).state
    texts, rows = tokens, torch.tensor([0, 0, 1, 0, 1])
    for seed in range(3):
        state, texts = state.select(rows), texts[rows]
        new = torch.randint(VOCABULARY, (5, 1), generator=torch.Generator().manual_seed(seed))
        output = model(new, state=state, carry=True, attention_layer=attention_layer)
        texts, state = torch.cat((texts, new), 1), output.state
        close(output.hidden[:, 0], model(texts).hidden[:, -1])
        rows = torch.tensor([4, 0, 0, 2, 1])
    assert state.layers[0].places is not None


@pytest.mark.parametrize("side", ["left", "right"])
@torch.no_grad()
def test_padding_at_either_end_changes_nothing_even_where_tokens_follow(side):
    model, tokens, later = small(), some_tokens(length=7), some_tokens(length=2)
    lengths = [4, 7]
    padding = torch.ones(2, 7, dtype=torch.bool)
    padded = torch.zeros_like(tokens)
    for row, size in enumerate(lengths):
        part = slice(7 - size, 7) if side == "left" else slice(0, size)
        padding[row, part], padded[row, part] = False, tokens[row, :size]
    output = model(padded, padding=padding, carry=True)
    assert output.hidden.isfinite().all()
    following = model(later, state=output.state, carry=True)
    rows = torch.tensor([1, 0, 0])
    third = model(later[rows, :1], state=following.state.select(rows)).hidden[:, 0]
    for row, size in enumerate(lengths):
        alone = torch.cat((tokens[row, :size], later[row], later[row, :1]))
        expected = model(alone[None]).hidden[0]
        close(output.hidden[row][~padding[row]], expected[:size])
        close(following.hidden[row], expected[size : size + 2])
        close(third[1 - row], expected[-1])
    assert torch.equal(third[1], third[2])


def test_the_hook_after_layers_and_bf16():
    model, tokens = small().float(), some_tokens()
    hooked = model(tokens, after_layer=lambda index, hidden: hidden + 1 if index == 0 else hidden, all_layers=True)
    torch.testing.assert_close(hooked.layers[1], model(tokens, all_layers=True).layers[1] + 1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        short = model(tokens, attention_layer=0)
    assert short.attention.dtype == torch.float32
    torch.testing.assert_close(short.hidden.float(), model(tokens).hidden, atol=0.1, rtol=0.1)
    short.hidden.float().sum().backward()
    assert all(each.grad.isfinite().all() for name, each in model.named_parameters() if name != "bias")


@pytest.mark.parametrize(("layers", "expected"), [(16, 251_844_612), (22, 333_688_836)])
def test_parameters_at_the_papers_sizes(layers, expected):
    with torch.device("meta"):
        model = Transformer(32_772, **{**PAPER, "layers": layers})
    assert sum(parameter.numel() for parameter in model.parameters()) == expected
    assert tuple(model.key_weight(0).shape) == tuple(model.relative.projection(0).weight.shape) == (1024, 1024)


def test_initialisation_is_that_of_the_authors():
    torch.manual_seed(0)
    sizes = {"layers": 4, "width": 256, "attention_heads": 2, "feedforward": 1024}
    model = Transformer(5000, **{**PAPER, **sizes}, init=TransformerXLInit())
    assert 0.0999 < model.embedding.weight.abs().max() / (3 / 256) ** 0.5 * 0.1 <= 0.1
    layer = model.layers[1]
    matrices = (layer.attention.projection.weight, layer.attention.output.weight, model.relative.projection(3).weight)
    for matrix in (*matrices, layer.expand.weight):
        assert matrix.std().item() == pytest.approx((2 / 4 / 256) ** 0.5, rel=0.02)
    assert layer.contract.weight.std().item() == pytest.approx((2 / 4 / 1024) ** 0.5, rel=0.02)
    for bias in (model.relative.content_bias, model.relative.position_bias):
        assert bias.std().item() == pytest.approx(128**-0.5, rel=0.15)
    assert not torch.cat((layer.expand.bias, layer.contract.bias, model.output_bias)).any()


def test_relative_positions_are_refused_where_later_tokens_are_seen():
    with pytest.raises(UserError, match="causal: true"):
        small(causal=False)
