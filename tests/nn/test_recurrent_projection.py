"""The recurrent product against autograd's own, step by step."""

import torch

from depgen.nn.recurrent_projection import RecurrentProjection


def run(project, additive, weight):
    hidden = torch.zeros(2, 3, dtype=torch.float64)
    total = hidden.sum()
    for t in range(4):
        hidden = project(hidden, t).tanh()
        total = total + (t + 1) * hidden.square().sum()
    total.backward()
    return total.item(), additive.grad, weight.grad


def test_values_and_gradients_are_those_of_plain_products():
    torch.manual_seed(0)
    values = torch.randn(4, 2, 3).double(), torch.randn(3, 3).double()
    found, expected = ([each.clone().requires_grad_() for each in values] for _ in range(2))
    projection = RecurrentProjection(*found)
    first = run(lambda hidden, _: projection(hidden), *found)
    second = run(lambda hidden, t: expected[0][t] + hidden @ expected[1].T, *expected)
    torch.testing.assert_close(first, second)


def test_without_gradients_nothing_is_kept():
    with torch.no_grad():
        projection = RecurrentProjection(torch.ones(1, 2, 3), torch.eye(3))
        assert torch.equal(projection(torch.ones(2, 3)), torch.full((2, 3), 2.0))
    assert not projection._multiplied
