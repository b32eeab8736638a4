"""The layers of UDGN: its parser's tags and LSTM, and competing heads against Eq. 7-15 by scalar loops."""

import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from depgen.language_models.masked import without_own_place
from depgen.models.udgn import CompetitiveAttention, HeadSelection, head_log_softmax
from tests.oracles_of_udgn import competitive_layer_by_loop

VOCABULARY, WIDTH = 7, 4
TOKENS = torch.tensor([[2, 3, 2, 6], [5, 1, 1, 1], [4, 6, 3, 1]])
LENGTHS = torch.tensor([4, 1, 3])
WORDS = torch.arange(4) < LENGTHS[:, None]


def parser(layers=2):
    torch.manual_seed(1)
    made = HeadSelection(VOCABULARY, width=WIDTH, layers=layers).double()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.uniform_(-1, 1)
    return made.eval()


def test_tags_start_as_one_share_of_the_mean_of_their_vectors():
    """Logits begin at 0: every word gets the five vectors' sum over six, the sixth being zero."""
    made = HeadSelection(VOCABULARY, width=WIDTH, tags=5, dropout=0.0).eval()
    plain = HeadSelection(VOCABULARY, width=WIDTH, dropout=0.0).eval()
    state = {name: value for name, value in made.state_dict().items() if not name.startswith("tag")}
    plain.load_state_dict(state)
    with torch.no_grad():
        plain.embedding.weight += made.tag_vectors.sum(0) / 6
    assert torch.allclose(made(TOKENS, LENGTHS), plain(TOKENS, LENGTHS), atol=1e-6)


def test_a_words_own_place_takes_its_share_and_is_not_made_up_for():
    logs = head_log_softmax(torch.zeros(1, 4, 4), torch.ones(1, 4, dtype=torch.bool))
    assert torch.allclose(logs.exp(), torch.full((1, 4, 4), 0.25))
    kept = without_own_place(logs.exp(), torch.ones(1, 4, dtype=torch.bool))
    assert torch.allclose(kept.sum(2), torch.full((1, 4), 0.75))
    assert not kept.diagonal(dim1=1, dim2=2).any()


def test_what_is_read_without_packing_is_what_packing_reads():
    made = parser(layers=3)
    embedded = torch.randn(3, 4, WIDTH, dtype=torch.float64, requires_grad=True)
    packed = pack_padded_sequence(embedded, LENGTHS, batch_first=True, enforce_sorted=False)
    expected, _ = pad_packed_sequence(made.lstm(packed)[0], batch_first=True)
    found = made._lstm_states(embedded, LENGTHS) * WORDS[:, :, None]
    assert (found - expected).abs().max() < 1e-12
    weigh, wanted = torch.randn_like(expected), [embedded, *made.lstm.parameters()]
    one, other = (torch.autograd.grad((each * weigh).sum(), wanted) for each in (found, expected))
    assert max((a - b).abs().max() for a, b in zip(one, other, strict=True)) < 1e-12


def test_the_reading_drops_as_much_between_layers_as_torch_does():
    torch.manual_seed(0)
    made = parser(layers=2).train()
    made.lstm.dropout = 0.5
    many = torch.randn(1, 4, WIDTH, dtype=torch.float64).expand(1500, -1, -1)
    lengths = torch.tensor([3, 4]).repeat(750)
    packed = pack_padded_sequence(many, lengths, batch_first=True, enforce_sorted=False)
    expected, _ = pad_packed_sequence(made.lstm(packed)[0], batch_first=True)
    found = made._lstm_states(many, lengths)
    for n in (3, 4):
        one, other = (each[lengths == n, :n] for each in (found, expected))
        error = (one.var(0) + other.var(0)).div(750).sqrt()
        assert ((one.mean(0) - other.mean(0)).abs() / error).max() < 5
        assert (one.std(0) / other.std(0) - 1).abs().max() < 0.25


# -- competing heads, Eq. 7 to 15 --------------------------------------------------------------------------------------

STATE, HEADS, SIZE, WORDS_OF_EACH = 5, 3, 2, (4, 3)
SWITCHES = ("competition", "gates", "nonlinear", "relative_bias")


def layer(**options):
    torch.manual_seed(1)
    made = CompetitiveAttention(STATE, attention_heads=HEADS, head_size=SIZE, **options).double()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.uniform_(-1, 1)
    return made


def inputs():
    """States and a mask of pairs whose keys at padding are 0."""
    length = max(WORDS_OF_EACH)
    states = torch.randn(len(WORDS_OF_EACH), length, STATE, dtype=torch.float64, requires_grad=True)
    words = torch.arange(length) < torch.tensor(WORDS_OF_EACH)[:, None]
    mask = torch.rand(len(WORDS_OF_EACH), length, length, dtype=torch.float64, requires_grad=True)
    return states, mask * words[:, None, :], words


def layer_by_loop(made, states, mask):
    """The layer's own parameters, cut as notation has it, and the loops over them."""
    matrices = made.projection.weight.chunk(3 + made.gates)
    offsets = made.projection.bias.chunk(3 + made.gates)
    four = [*zip(matrices, offsets, strict=True), (None, None)][:4]
    if not made.gates:
        four[3] = four[2]  # the oracle projects it and leaves it alone
    weights = [*four, (made.output.weight, made.output.bias)]
    switches = {name: getattr(made, name) for name in ("competition", "gates", "nonlinear")}
    return [
        torch.stack(
            [
                torch.stack(row)
                for row in competitive_layer_by_loop(
                    states[k, :n], mask[k, :n, :n], weights, heads=HEADS, bias=made.direction_bias, **switches
                )
            ]
        )
        for k, n in enumerate(WORDS_OF_EACH)
    ]


@pytest.mark.parametrize(
    "off", [(), *((name,) for name in SWITCHES), SWITCHES[:3]], ids=lambda off: "-".join(off) or "as published"
)
def test_a_layer_is_the_papers_equations(off):
    made, (states, mask, words) = layer(**dict.fromkeys(off, False)).eval(), inputs()
    expected = layer_by_loop(made, states, mask)
    found = states + made(states, mask).output
    weigh = torch.randn_like(found) * words[:, :, None]
    wanted = [states, mask, *made.parameters()]
    gradients = torch.autograd.grad((found * weigh).sum(), wanted)
    loss = sum((row * weigh[k, : len(row)]).sum() for k, row in enumerate(expected))
    for k, row in enumerate(expected):
        assert (found[k, : len(row)] - row).abs().max() < 1e-10
    gradients = (gradients[0], gradients[1] * words[:, None, :], *gradients[2:])  # what is 0 by right has no say
    for one, other in zip(gradients, torch.autograd.grad(loss, wanted), strict=True):
        assert (one - other).abs().max() < 1e-10


def test_each_weight_is_dropped_by_itself():
    """Neither whole heads nor whole pairs: of two heads on one pair, each falls away or not."""
    torch.manual_seed(0)
    made = CompetitiveAttention(1, attention_heads=2, head_size=1, dropout=0.0, attention_dropout=0.5, gates=False)
    with torch.no_grad():
        made.projection.weight.zero_()
        made.projection.bias.copy_(torch.tensor([0, 0, 0, 0, 1.0, 1.0]))
        made.output.weight.copy_(torch.tensor([[1.0, 100.0]]))
        made.output.bias.zero_()
    share = 0.5 * 2 * torch.tanh(torch.tensor(1.0))  # of a head that survives
    found = made(torch.zeros(60, 1, 1), torch.ones(60, 1, 1)).output / share
    seen = set(found.round().flatten().int().tolist())
    assert seen == {0, 1, 100, 101}
