"""Training steps of recurrent models at the shape of PTB: DM-LSTM against AWD-LSTM, and what ON-LSTM and PRPN cost."""

from functools import partial

import numpy as np
import pytest
import torch

from depgen.backbones.awd_lstm import AWDLSTM
from depgen.backbones.on_lstm import ONLSTM
from depgen.backbones.prpn import PRPN
from depgen.data.stream import Segments, StreamColumns
from depgen.models.causal_lm import CausalLM
from depgen.models.dmlm import DMLM, QueryKeyAttention
from depgen.training.activation import ActivationRegularizer
from tests.benchmarks.figures import figure, operation_seconds, paired_ratio, seconds, write_figures
from tests.invented_tables import split_of
from tests.vocabularies import NO_WORDS

VOCABULARY, COLUMNS, BPTT, WINDOW, GOAL = 10_001, 20, 70, 16, 1.25
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
PRODUCTS = {
    "aten::mm",
    "aten::addmm",
    "aten::addmm_",
    "aten::bmm",
    "aten::baddbmm",
    "aten::mkldnn_rnn_layer",
    "aten::mkldnn_rnn_layer_backward",
    "aten::_cudnn_rnn",
    "aten::_cudnn_rnn_backward",
    "aten::mkldnn_convolution",
    "aten::convolution_backward",
    "mkldnn::_linear_pointwise",
}
"""Matrix products, by the names that the profiler knows them by; a fused LSTM counts as one."""


def segment():
    """One segment of a stream of random words in lines of 20, each word hanging on one of the three before it."""
    generator = np.random.default_rng(0)
    lines = COLUMNS * BPTT // 21 + 2
    heads = np.tile(np.maximum(np.arange(20) - generator.integers(0, 3, 20), 0), lines).astype(np.int32)
    ids = generator.integers(2, VOCABULARY, 20 * lines, np.int32)
    data = StreamColumns(split_of(ids, np.arange(0, 20 * lines + 1, 20), NO_WORDS, heads=heads), COLUMNS)
    return data.__getitems__(next(iter(Segments(data, BPTT, vary=False))))


class Step:
    """One training step of a system: collate, loss, gradients, update."""

    def __init__(self, model, phase=0):
        self.model = model.to(DEVICE).train()
        self.model.enter_phase(phase)
        self.model.log_train = lambda nll, tokens, **_: nll / tokens  # there is no trainer
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.items = segment()

    def __call__(self):
        batch = self.model.collate(self.items).to(DEVICE)
        self.optimizer.zero_grad()
        self.model.training_step(batch, 0).backward()
        self.optimizer.step()


def test_dm_lstm():
    torch.manual_seed(0)
    shared = {"regularizer": ActivationRegularizer()}
    base = Step(CausalLM(AWDLSTM, VOCABULARY, **shared))
    figures = {"AWD-LSTM, training": figure(COLUMNS * BPTT / min(seconds(base) for _ in range(3)), "tokens/s")}
    twin = partial(DMLM, AWDLSTM, VOCABULARY, attention=QueryKeyAttention, window=WINDOW, **shared)
    for name, phase in (("dependency modelling", 0), ("mixture", 1)):
        ratio = paired_ratio(base, Step(twin(), phase), pairs=4)
        figures[f"step time, DM-LSTM's {name} / AWD-LSTM"] = figure(ratio, "x", at_most=GOAL)
    write_figures("recurrent", figures)
    assert len(figures) == 3


@pytest.mark.parametrize("backbone", [AWDLSTM, ONLSTM, PRPN], ids=lambda each: each.__name__)
def test_a_step_beside_its_own_matrix_products(backbone):
    torch.manual_seed(0)
    step = Step(CausalLM(backbone, VOCABULARY))
    step()
    whole = min(seconds(step) for _ in range(3))
    shares = operation_seconds(step)
    products = sum(time for name, time in shares.items() if name in PRODUCTS)
    top = sorted(shares.items(), key=lambda item: -item[1])[:6]
    figures = {
        "step": figure(whole, "s"),
        "step / its matrix products": figure(whole / products, "x"),
        **{f"share of {name}": figure(time / sum(shares.values()), "of the step") for name, time in top},
    }
    write_figures(f"profile_{backbone.__name__.lower()}", figures)
    assert products > 0
