"""Torch's LSTMs in bf16 autocast, on CPUs with and without bf16 kernels."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from depgen.backbones.awd_lstm import LSTMLayer
from depgen.models.udgn import HeadSelection
from depgen.nn import lstm_precision
from depgen.nn.lstm_precision import call_lstm
from depgen.nn.peephole_lstm import LayerState, StandardLSTM


def recorded(monkeypatch, supported):
    """A stand-in for an LSTM, which returns what it was given and whether autocast was on."""
    monkeypatch.setattr(lstm_precision, "bf16_supported", lambda: supported)
    return lambda *arguments: SimpleNamespace(arguments=arguments, autocast=torch.is_autocast_enabled("cpu"))


def test_without_bf16_kernels_it_runs_in_fp32(monkeypatch):
    inputs, weights = torch.ones(1, 2, 3, dtype=torch.bfloat16), [torch.ones(4)]
    with torch.autocast("cpu", torch.bfloat16):
        seen = call_lstm(recorded(monkeypatch, supported=False), inputs, (inputs, inputs), weights, True, 1)
        assert torch.is_autocast_enabled("cpu")
    given, (hidden, cell), (weight,), *options = seen.arguments
    assert not seen.autocast
    assert {given.dtype, hidden.dtype, cell.dtype} == {torch.float32}
    assert weight is weights[0]
    assert options == [True, 1]


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


def head_selection():
    layer = HeadSelection(11, width=8, layers=2, hidden_size=8)
    return lambda lengths: layer(torch.ones(2, 5, dtype=torch.long), torch.tensor(lengths))


def standard_lstm():
    layer, state = StandardLSTM(8, 8, layers=1), torch.zeros(2, 8, dtype=torch.bfloat16)
    return lambda lengths: layer(torch.ones(2, max(lengths), 8), state=[LayerState(state, state)])[0]


def awd_lstm():
    layer = LSTMLayer(8, 8, dropped=0.5)
    padding = torch.arange(5) >= torch.tensor([[5], [3]])
    return lambda lengths: layer(torch.ones(2, 5, 8), None, padding if lengths == [5, 3] else None)[0]


@pytest.mark.parametrize("lengths", [[5, 5], [5, 3]], ids=["one length", "padding"])
@pytest.mark.parametrize("build", [head_selection, standard_lstm, awd_lstm])
def test_every_lstm_trains_in_bf16_autocast_on_this_machine(build, lengths):
    network = build()
    with torch.autocast("cpu", torch.bfloat16):
        output = network(lengths)
    output.sum().backward()
    assert output.isfinite().all()


def test_without_bf16_kernels_an_lstm_gives_what_it_gives_in_fp32(monkeypatch):
    monkeypatch.setattr(lstm_precision, "bf16_supported", lambda: False)
    lstm, inputs = nn.LSTM(8, 8, batch_first=True), torch.randn(2, 5, 8)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = call_lstm(lstm, inputs)[0]
    assert torch.equal(mixed, lstm(inputs)[0])
