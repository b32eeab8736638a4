"""Tokens a second of scoring sentences by GiLT's beam, one by one and together, beside Transformer-XL.

16 sentences of 24 words, 4 layers of width 256; a beam of 10 graphs, as at size small.
"""

from functools import partial
from statistics import median

import numpy as np
import torch

from depgen.backbones.transformer import Transformer
from depgen.data.batch import ItemBatch, TokenItem
from depgen.data.vocabulary import Vocabulary
from depgen.models.causal_lm import CausalLM
from depgen.models.gilt import GiLT
from tests.benchmarks.figures import figure, seconds, write_figures

SENTENCES, WORDS, BEAM = 16, 24, 10
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
VOCABULARY = Vocabulary.of_words([f"word-{number}" for number in range(10_000)])
NETWORK = partial(Transformer, layers=4, width=256, attention_heads=4, feedforward=1024, positions="relative")


class Scoring:
    """All sentences, so many at once."""

    def __init__(self, model, at_once):
        ids = np.random.default_rng(0).integers(3, VOCABULARY.size, (SENTENCES, WORDS))
        items = [TokenItem(number, row) for number, row in enumerate(ids)]
        groups = [items[first : first + at_once] for first in range(0, SENTENCES, at_once)]
        self.model = model.to(DEVICE).eval()
        self.batches = [model.collate(ItemBatch(group, 1, VOCABULARY)).to(DEVICE) for group in groups]

    @torch.inference_mode()
    def __call__(self):
        for batch in self.batches:
            self.model.log_probs(batch).sum().item()


def test_scores_of_a_corpus():
    torch.manual_seed(0)
    systems = {
        "GiLT": GiLT(NETWORK, VOCABULARY.size, beam_size=BEAM),
        "Transformer-XL": CausalLM(NETWORK, VOCABULARY.size),
    }
    sizes = {"one by one": 1, f"{SENTENCES} together": SENTENCES}
    runs = {(name, how): Scoring(model, size) for name, model in systems.items() for how, size in sizes.items()}
    for run in runs.values():
        run()
    rounds = [{key: seconds(run) for key, run in runs.items()} for _ in range(3)]  # in turn: a busy machine slows all
    figures = {}
    for name, how in runs:
        rate = SENTENCES * (WORDS + 1) / min(times[name, how] for times in rounds)
        figures[f"{name}, {how}"] = figure(rate, "tokens/s")
    for how in sizes:
        ratio = median(times["GiLT", how] / times["Transformer-XL", how] for times in rounds)
        figures[f"time of GiLT / of Transformer-XL, {how}"] = figure(ratio, "x")
    alone, together = sizes
    for name in systems:
        ratio = median(times[name, alone] / times[name, together] for times in rounds)
        figures[f"{name}, time one by one / together"] = figure(ratio, "x")
    write_figures("search", figures)
    assert len(figures) == 8
