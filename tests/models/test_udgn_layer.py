"""Competing heads against Eq. 7-15 by scalar loops: values, gradients, every switch."""

import pytest
import torch

from depgen.models.udgn import CompetitiveAttention, directions_of
from tests.oracles_of_udgn import competitive_layer_by_loop

WIDTH, HEADS, SIZE, LENGTHS = 5, 3, 2, (4, 3)
SWITCHES = ("competition", "gates", "nonlinear", "relative_bias", "scaled_bias")


def layer(**options):
    torch.manual_seed(1)
    made = CompetitiveAttention(WIDTH, attention_heads=HEADS, head_size=SIZE, **options).double()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.uniform_(-1, 1)
    return made


def inputs():
    """States and a mask of pairs whose keys at padding are 0."""
    length = max(LENGTHS)
    states = torch.randn(len(LENGTHS), length, WIDTH, dtype=torch.float64, requires_grad=True)
    words = torch.arange(length) < torch.tensor(LENGTHS)[:, None]
    mask = torch.rand(len(LENGTHS), length, length, dtype=torch.float64, requires_grad=True)
    return states, mask * words[:, None, :], words


def by_loop(made, states, mask):
    """The layer's own parameters, cut as notation has it, and the loops over them."""
    matrices = made.projection.weight.chunk(3 + made.gates)
    offsets = made.projection.bias.chunk(3 + made.gates)
    four = [*zip(matrices, offsets, strict=True), (None, None)][:4]
    if not made.gates:
        four[3] = four[2]  # the oracle projects it and leaves it alone
    weights = [*four, (made.output.weight, made.output.bias)]
    switches = {name: getattr(made, name) for name in ("competition", "gates", "nonlinear", "scaled_bias")}
    return [
        torch.stack(
            [
                torch.stack(row)
                for row in competitive_layer_by_loop(
                    states[k, :n], mask[k, :n, :n], weights, heads=HEADS, bias=made.direction_bias, **switches
                )
            ]
        )
        for k, n in enumerate(LENGTHS)
    ]


@pytest.mark.parametrize(
    "off", [(), *((name,) for name in SWITCHES), SWITCHES[:3]], ids=lambda off: "-".join(off) or "as published"
)
def test_a_layer_is_the_papers_equations(off):
    made, (states, mask, words) = layer(**dict.fromkeys(off, False)).eval(), inputs()
    expected = by_loop(made, states, mask)
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


def test_heads_share_out_each_pair():
    states, mask, _ = inputs()
    shares = layer()(states, mask).before
    assert (shares.sum(1) - 1).abs().max() < 1e-12
    alone = layer(competition=False)(states, mask).before
    assert (alone.sum(1) - 1).abs().max() > 0.1


def test_a_single_head_has_no_rival():
    made = CompetitiveAttention(WIDTH, attention_heads=1, head_size=6).eval()
    states, mask = torch.randn(1, 4, WIDTH), torch.rand(1, 4, 4)
    found = made(states, mask)
    assert torch.equal(found.before, torch.ones(1, 1, 4, 4))


def test_gradients_by_finite_differences():
    made, (states, mask, _) = layer(), inputs()
    made.dropout.p = made.attention_dropout.p = 0.0
    assert torch.autograd.gradcheck(lambda s, m: made(s, m).output, (states, mask))


def test_directions_tell_left_from_right_of_the_query():
    left, right = directions_of(3, like=torch.zeros(1))
    assert left.tolist() == [[0, 0, 0], [1, 0, 0], [1, 1, 0]]
    assert torch.equal(right, left.T)


def test_dropped_weights_keep_their_expectation():
    torch.manual_seed(0)
    made = layer()
    made.dropout.p = 0.0
    states, mask, _ = (each[:1] for each in inputs())
    draws = made(states.expand(2000, -1, -1), mask.expand(2000, -1, -1)).output.detach()
    exact = made.eval()(states, mask).output
    assert (draws.mean(0) - exact).abs().max() < 5 * draws.std(0).max() / 2000**0.5
    assert draws.std(0).min() > 0


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
