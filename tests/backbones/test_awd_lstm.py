"""AWD-LSTM against torch's own LSTM, its published size, and what its weight dropout promises."""

from itertools import pairwise

import pytest
import torch
from torch import nn

from depgen.backbones.awd_lstm import AWDLSTM
from tests.backbones.conftest import VOCABULARY, words


def small(**options):
    torch.manual_seed(0)
    return AWDLSTM(VOCABULARY, embedding_size=6, hidden_size=8, **options)


def test_the_published_size():
    sizes = [400, 1150, 1150, 400]
    gates = sum(4 * after * (before + after + 2) for before, after in pairwise(sizes))
    expected = 10_001 * 400 + gates + 10_001
    assert sum(each.numel() for each in AWDLSTM(10_001).parameters()) == expected == 24_222_001  # 24.22 M


def test_it_is_a_stack_of_torchs_lstms():
    model, tokens = small().eval(), words(3, 7)
    values = model.embedding(tokens)
    for layer in model.layers:
        reference = nn.LSTM(values.size(-1), layer.size, batch_first=True)
        names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
        own = (layer.weight_input, layer.weight_recurrent, layer.bias_input, layer.bias_recurrent)
        reference.load_state_dict(dict(zip(names, own, strict=True)))
        values, _ = reference(values)
    output = model(tokens, all_layers=True)
    torch.testing.assert_close(output.hidden, values)
    assert [each.size(-1) for each in output.layers] == [6, 8, 8, 6]
    assert torch.equal(output.undropped, output.layers[-1])


def test_the_gradient_reaches_the_raw_recurrent_weights():
    model = small(weight_dropout=0.3)
    model(words(2, 6)).hidden.sum().backward()
    for layer in model.layers:
        share = (layer.weight_recurrent.grad == 0).float().mean().item()
        assert share == pytest.approx(0.3, abs=0.15)  # dropped connections have none
    assert all(each.grad is not None for name, each in model.named_parameters() if name != "bias")


@pytest.mark.gpu
def test_on_a_gpu_it_is_cudnns_fused_lstm_in_full_precision():
    """cuDNN's own autocast gives fp16 where bf16 was asked for: D2."""
    model, tokens = small().eval().cuda(), words(3, 7).cuda()
    expected = model(tokens, carry=True)
    with torch.autocast("cuda", torch.bfloat16), torch.profiler.profile() as recorded:
        found = model(tokens, carry=True)
        again = model(tokens, state=found.state)
    assert "aten::_cudnn_rnn" in {each.key for each in recorded.key_averages()}
    assert found.undropped.dtype == again.undropped.dtype == torch.float32
    torch.testing.assert_close(found.undropped, expected.undropped)
