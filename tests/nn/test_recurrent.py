"""The recurrent product against autograd's own, and torch's LSTM in bf16 autocast on CPUs with and without bf16."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from depgen.nn import recurrent
from depgen.nn.recurrent import RecurrentProjection, call_lstm


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


def recorded(monkeypatch, supported):
    """A stand-in for an LSTM, which returns what it was given and whether autocast was on."""
    monkeypatch.setattr(recurrent, "bf16_supported", lambda: supported)
    return lambda *arguments: SimpleNamespace(arguments=arguments, autocast=torch.is_autocast_enabled("cpu"))


@pytest.mark.parametrize(
    ("supported", "dtype", "device"),
    [
        (True, torch.bfloat16, "cpu"),
        (False, torch.float16, "cpu"),
        (False, torch.bfloat16, "meta"),
        (False, None, "cpu"),
    ],
    ids=["bf16 kernels", "fp16", "another device", "no autocast"],
)
def test_elsewhere_the_call_is_passed_on_unchanged(supported, dtype, device, monkeypatch):
    inputs = torch.ones(1, 2, 3, dtype=torch.bfloat16, device=device)
    with torch.autocast("cpu", dtype, enabled=dtype is not None):
        seen = call_lstm(recorded(monkeypatch, supported), inputs, None, 7)
    assert seen.arguments[0] is inputs
    assert seen.arguments[1:] == (None, 7)
    assert seen.autocast is (dtype is not None)


def test_without_bf16_kernels_an_lstm_gives_what_it_gives_in_fp32(monkeypatch):
    monkeypatch.setattr(recurrent, "bf16_supported", lambda: False)
    lstm, inputs = nn.LSTM(8, 8, batch_first=True), torch.randn(2, 5, 8)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = call_lstm(lstm, inputs)[0]
    assert torch.equal(mixed, lstm(inputs)[0])
