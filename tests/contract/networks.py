"""The list of backbones, and the checks of the contract for these, by what a backbone says of itself."""

from collections.abc import Callable
from functools import partial

import torch

from depgen.backbones.awd_lstm import AWDLSTM
from depgen.backbones.backbone import Backbone, BackboneOutput, DistanceNetwork
from depgen.backbones.on_lstm import ONLSTM
from depgen.backbones.prpn import PRPN
from depgen.backbones.transformer import Transformer, TransformerXLInit
from tests.contract.systems import overrides
from tests.invented_models import configured

VOCABULARY = 11
LENGTHS = (5, 2, 1, 0)
TRANSFORMER = partial(Transformer, layers=3, width=8, attention_heads=2, feedforward=8, max_length=20)
LIBRARY = partial(configured, layers=3, width=8, attention_heads=4, max_length=20)
RANGE = {"initializer_range": 0.3}

NETWORKS: dict[str, Callable[[int], Backbone]] = {
    "Transformer": TRANSFORMER,
    "Transformer, learned positions": partial(TRANSFORMER, positions="learned"),
    "Transformer, norms last": partial(TRANSFORMER, norm_first=False),
    "Transformer-XL": partial(
        TRANSFORMER, positions="relative", norm_first=False, attention_bias=False, init=TransformerXLInit()
    ),
    "Transformer, both sides": partial(TRANSFORMER, causal=False),
    "GPT-2": partial(LIBRARY, settings={**RANGE, "scale_attn_by_inverse_layer_idx": True}),
    "Llama": partial(LIBRARY, model_type="llama", settings={**RANGE, "num_key_value_heads": 2}),
    "Qwen2": partial(LIBRARY, model_type="qwen2", settings={**RANGE, "num_key_value_heads": 1}),
    "OPT": partial(LIBRARY, model_type="opt", settings={"init_std": 0.3, "word_embed_proj_dim": 8}),
    "AWD-LSTM": partial(AWDLSTM, layers=2, embedding_size=6, hidden_size=8),
    "ON-LSTM": partial(ONLSTM, layers=2, embedding_size=6, hidden_size=8, chunk_size=2),
    "PRPN": partial(PRPN, layers=2, embedding_size=4, hidden_size=6, slots=3, lookback=2),
}
Check = Callable[[Backbone], None]


def made(make: Callable[[int], Backbone]) -> Backbone:
    """The network in double precision and evaluation mode, whose norms and running means are not as at the start."""
    torch.manual_seed(0)
    network = make(VOCABULARY).double().eval()
    with torch.no_grad():
        for name, value in [*network.named_parameters(), *network.named_buffers()]:
            if "norm" in name and value.is_floating_point():
                value.uniform_(0.5, 1.5)
            elif value.dim() > 1 and isinstance(network, PRPN):
                value.normal_(std=0.5)
    return network


def words(*shape: int, seed: int = 1) -> torch.Tensor:
    """Tokens."""
    return torch.randint(0, VOCABULARY, shape, generator=torch.Generator().manual_seed(seed))


def same(found: torch.Tensor, expected: torch.Tensor) -> None:
    """Fail where two tensors differ by more than rounding."""
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def layers_of(network: Backbone) -> list[int | None]:
    """No attention layer, and the last but one where there is any: these are computed in two ways."""
    return [None, -2] if network.attention_layers else [None]


@torch.no_grad()
def a_later_token_moves_no_earlier_state(network: Backbone) -> None:
    """Unless the network is not causal: then it does."""
    tokens = words(2, 7)
    changed = tokens.clone()
    changed[:, 4] = (changed[:, 4] + 1) % VOCABULARY
    for layer in layers_of(network):
        before, after = (network(each, attention_layer=layer).hidden for each in (tokens, changed))
        assert torch.equal(before[:, :4], after[:, :4]) is network.causal
        assert not torch.isclose(before[:, 4:], after[:, 4:]).all(-1).any() or isinstance(network, DistanceNetwork)
        assert not torch.allclose(before[:, 4], after[:, 4])


@torch.no_grad()
def padding_and_the_batch_change_nothing(network: Backbone) -> None:
    """Neither padding at either end, whatever its ids, nor other rows; of a carried state too."""
    longest = max(LENGTHS)
    start = network(words(4, 3, seed=2), carry=True).state if network.causal else None
    for left in (True, False):
        padding = torch.ones(4, longest, dtype=torch.bool)
        for row, length in enumerate(LENGTHS):
            padding[row, longest - length if left else 0 : longest if left else length] = False
        tokens = words(4, longest).masked_fill(padding, 0)
        for layer in layers_of(network):
            options = {"attention_layer": layer, "carry": network.causal, "state": start}
            found = network(tokens, padding=padding, **options)
            other = network(tokens.masked_fill(padding, 7), padding=padding, **options)
            assert found.hidden.isfinite().all()
            assert torch.equal(other.hidden[~padding], found.hidden[~padding])
            for row in range(4):
                _same_as_alone(network, found, tokens, padding, row=row, start=start, layer=layer)


def _same_as_alone(
    network: Backbone,
    found: BackboneOutput,
    tokens: torch.Tensor,
    padding: torch.Tensor,
    *,
    row: int,
    start: object,
    layer: int | None,
) -> None:
    kept, here = tokens[row][~padding[row]][None], torch.tensor([row])
    state = None if start is None else start.select(here)
    more = words(1, 2, seed=3)
    if kept.shape[1]:
        alone = network(kept, state=state, attention_layer=layer, carry=network.causal)
        same(found.hidden[row][~padding[row]], alone.hidden[0])
        if layer is not None:
            keys = torch.cat((torch.ones(found.attention.shape[-1] - padding.shape[1]).bool(), ~padding[row]))
            attention = found.attention[row][:, ~padding[row]]
            same(attention[..., keys], alone.attention[0])
            assert attention[..., ~keys].isneginf().all(), "padding is no key"
        state = alone.state
    if network.causal:  # what both states lead to
        same(network(more, state=found.state.select(here)).hidden, network(more, state=state).hidden)


@torch.no_grad()
def a_state_continues_the_text(network: Backbone) -> None:
    """A text in parts has the states and the attention of the whole; a state serves twice, row by row, and repeated."""
    if not network.causal:
        return
    tokens = words(3, 9)
    for layer in layers_of(network):
        whole = network(tokens, attention_layer=layer, carry=True)
        for widths in ((4, 5), (1, 1, 5, 2)):
            state, first = None, 0
            for width in widths:
                part = network(tokens[:, first : first + width], state=state, attention_layer=layer, carry=True)
                same(part.hidden, whole.hidden[:, first : first + width])
                if layer is not None:
                    same(part.attention, whole.attention[:, :, first : first + width, : first + width])
                state, first = part.state, first + width
    before = network(tokens[:, :6], carry=True).state
    before = network(tokens[:, 6:7], state=before, carry=True).state
    network(words(3, 2, seed=4), state=before, carry=True)  # changes nothing
    rows = torch.tensor([2, 0])
    same(network(tokens[:, 7:], state=before).hidden, whole.hidden[:, 7:])
    same(network(tokens[rows, 7:], state=before.select(rows)).hidden, whole.hidden[rows, 7:])
    texts, state = tokens[:, :7], before
    for step, rows in enumerate(([2, 0, 2, 1, 2], [4, 3, 3, 0, 1, 4], [5, 0, 1, 0], [3, 2, 1])):  # as a beam does
        more = words(len(rows), 1, seed=6 + step)
        texts, state = torch.cat((texts[rows], more), 1), state.select(torch.tensor(rows))
        for layer in layers_of(network):
            found = network(more, state=state, attention_layer=layer, carry=True)
            expected = network(texts, attention_layer=layer)
            same(found.hidden, expected.hidden[:, -1:])
            if layer is not None:
                same(found.attention, expected.attention[:, :, -1:])
        state = found.state


@torch.no_grad()
def a_state_is_made_of_its_tensors(network: Backbone) -> None:
    """What a checkpoint holds of a stream makes the same state again; it has no graph."""
    if not overrides(network, Backbone, "state_of"):
        return
    with torch.enable_grad():
        state = network(words(2, 4), carry=True).state.detached()
    assert not any(each.requires_grad for each in state.tensors())
    again = network.state_of([each.clone() for each in state.tensors()])
    for one, other in zip(again.tensors(), state.tensors(), strict=True):
        assert torch.equal(one, other)
    more = words(2, 3)
    assert torch.equal(network(more, state=again).hidden, network(more, state=state).hidden)


@torch.no_grad()
def attention_is_a_distribution(network: Backbone) -> None:
    """Of each layer: over what the position sees, and asking for it changes no state."""
    tokens = words(3, 7)
    expected = network(tokens)
    assert expected.attention is None
    for layer in range(network.attention_layers):
        found = network(tokens, attention_layer=layer)
        same(found.hidden, expected.hidden)
        same(found.attention.exp().sum(-1), torch.ones_like(found.attention[..., 0]))
        unseen = torch.ones(7, 7).triu(1).bool() if network.causal else torch.zeros(7, 7).bool()
        assert torch.equal(found.attention.isneginf(), unseen.expand_as(found.attention))
        assert torch.equal(found.attention, network(tokens, attention_layer=layer - network.attention_layers).attention)


@torch.no_grad()
def distances_depend_on_their_own_words(network: Backbone) -> None:
    """Neither on later words nor on padding."""
    if not isinstance(network, DistanceNetwork):
        return
    tokens = words(2, 6)
    padding = torch.zeros(2, 6, dtype=torch.bool)
    padding[1, 4:] = True
    found = network.syntactic_distances(tokens, padding=padding)
    changed = tokens.clone()
    changed[:, 3] = (changed[:, 3] + 1) % VOCABULARY
    assert torch.equal(network.syntactic_distances(changed, padding=padding)[..., :3], found[..., :3])
    same(network.syntactic_distances(tokens[1:, :4])[:, 0], found[:, 1, :4])


CHECKS: tuple[Check, ...] = (
    a_later_token_moves_no_earlier_state,
    padding_and_the_batch_change_nothing,
    a_state_continues_the_text,
    a_state_is_made_of_its_tensors,
    attention_is_a_distribution,
    distances_depend_on_their_own_words,
)
