"""Training steps of UDGN at 64 sentences of 25 words, beside their own matrix products."""

import pytest
import torch

from depgen.data.batch import WordBatch
from depgen.models.udgn import UDGN
from tests.benchmarks.bench_recurrent import PRODUCTS
from tests.benchmarks.figures import figure, operation_seconds, write_figures

VOCABULARY, SENTENCES, WORDS, GOAL = 10_798, 64, 25, 1.35
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SIZES = {"paper": {}, "small": {"width": 128, "layers": 4, "attention_heads": 8, "head_size": 32, "tags": 5}}


class Step:
    """One training step as the experiments take it: loss, gradients, clip, Adam."""

    def __init__(self, size, *, shortest=WORDS):
        torch.manual_seed(0)
        self.model = UDGN(VOCABULARY, **SIZES[size]).to(DEVICE).train()
        self.model.log_train = lambda nll, words, **_: nll / words  # there is no trainer
        self.model.summed_over_devices = lambda count: max(1, int(count))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3, eps=1e-9, weight_decay=1.2e-6)
        lengths = torch.randint(shortest, WORDS + 1, (SENTENCES,))
        lengths[0] = WORDS
        tokens = torch.randint(3, VOCABULARY, (SENTENCES, WORDS))
        self.batch = WordBatch(tokens=tokens, lengths=lengths, items=torch.arange(SENTENCES), unk=1, mask_id=2)
        self.batch = self.batch.to(DEVICE)

    def __call__(self):
        self.optimizer.zero_grad()
        self.model.training_step(self.batch, 0).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 0.25)
        self.optimizer.step()


@pytest.mark.parametrize("shortest", [WORDS, WORDS - 2], ids=["no padding", "padded"])
@pytest.mark.parametrize("size", SIZES)
def test_a_step_beside_its_own_matrix_products(size, shortest):
    step = Step(size, shortest=shortest)
    step()
    recorded = min((operation_seconds(step) for _ in range(3)), key=lambda times: sum(times.values()))
    whole = sum(recorded.values())
    products = sum(time for name, time in recorded.items() if name in PRODUCTS)
    top = sorted(recorded.items(), key=lambda item: -item[1])[:12]
    figures = {
        "step": figure(whole, "s"),
        "words": figure(int(step.batch.lengths.sum()) / whole, "words/s"),
        "step / its matrix products": figure(whole / products, "x", at_most=GOAL),
        **{f"share of {name}": figure(time / whole, "of the step") for name, time in top},
    }
    write_figures(f"udgn_{size}{'' if shortest == WORDS else '_padded'}", figures)
    assert products > 0
    assert size == "small" or DEVICE == "cuda" or figures["step / its matrix products"]["met"]
