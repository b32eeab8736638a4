"""GiLT's search over graphs at the size of its paper, and a step of training at a small size."""

from functools import partial

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from depgen.backbones.transformer import Transformer
from depgen.data.batch import ItemBatch, TokenItem
from depgen.data.vocabulary import Vocabulary
from depgen.models.causal_lm import CausalLM
from depgen.models.gilt import GiLT
from tests.benchmarks.bench_recurrent import PRODUCTS
from tests.benchmarks.figures import figure, operation_seconds, paired_ratio, write_figures

TYPES, BEAM, SENTENCES, WORDS = 32_772, 20, 8, 24
BACKBONE = partial(
    Transformer, layers=16, width=1024, attention_heads=8, feedforward=4096, dropout=0.0, positions="relative",
    attention_bias=False, norm_first=False, scale_embedding=False, output_bias=True,
)  # fmt: skip
MOST_OVERHEAD, MOST_GFLOP = 0.3, 0.6


def batch_of(model):
    """Sentences of as many words as the first row has, each a token."""
    vocabulary = Vocabulary.of_words([f"w{k}" for k in range(TYPES - 2)])
    ids = np.random.default_rng(0).integers(3, TYPES - 2, (SENTENCES, WORDS))
    items = [TokenItem(place, row) for place, row in enumerate(ids)]
    return model.collate(ItemBatch(items, SENTENCES * (WORDS + 1), vocabulary))


@torch.no_grad()
def test_a_search_at_the_size_of_the_paper_and_a_step_of_training():
    torch.manual_seed(0)
    model = GiLT(BACKBONE, TYPES).eval().requires_grad_(False)
    model.scorer.count.bias.copy_(torch.zeros(30))
    batch = batch_of(model)
    tokens = int(batch.lengths.sum())

    def scored():
        return model.search(batch, beam_size=BEAM)

    with FlopCounterMode(display=False) as counter:
        scored()
    hypotheses = _hypotheses(model, batch)
    recorded = operation_seconds(scored)
    products = sum(recorded.get(each, 0.0) for each in PRODUCTS)
    with torch.enable_grad():
        ratio = _training_ratio()
    figures = {
        "step of training / that of Transformer-XL, small": figure(ratio, "x"),
        "outside matrix products, of the time": figure(
            1 - products / sum(recorded.values()), "x", at_most=MOST_OVERHEAD
        ),
        "products of a token of a hypothesis": figure(
            counter.get_total_flops() / 1e9 / hypotheses, "GFLOP", at_most=MOST_GFLOP
        ),
        "hypotheses a token": figure(hypotheses / tokens, "rows"),
    }
    write_figures("gilt", figures)
    assert all(each.get("met", True) for each in figures.values())


def _hypotheses(model, batch):
    """How many rows the network has read, over all tokens."""
    read, rows = model.encode_tokens, []

    def counted(tokens, *rest, **options):
        rows.append(len(tokens))
        return read(tokens, *rest, **options)

    model.encode_tokens = counted
    model.search(batch, beam_size=BEAM)
    model.encode_tokens = read
    return sum(rows)


def _training_ratio():
    """The time of a step of training at a small size over that of Transformer-XL."""
    torch.manual_seed(0)
    small = partial(
        BACKBONE.func, **{**BACKBONE.keywords, "layers": 4, "width": 256, "attention_heads": 4, "feedforward": 1024}
    )
    gilt, base = GiLT(small, TYPES // 4, feature_size=64), CausalLM(small, TYPES // 4)
    generator = np.random.default_rng(0)
    vocabulary = Vocabulary.of_words([f"w{k}" for k in range(TYPES // 4 - 2)])
    items = []
    for place in range(64):
        heads = generator.integers(0, 25, 24)
        heads[heads == np.arange(1, 25)] = 0
        items.append(TokenItem(place, generator.integers(3, TYPES // 4 - 2, 24), heads))
    whole = ItemBatch(items, 64 * 25, vocabulary)
    batches = gilt.collate(whole), base.collate(whole)

    def step(model, batch):
        model.training_step(batch, 0).backward()

    return paired_ratio(lambda: step(base, batches[1]), lambda: step(gilt, batches[0]), pairs=3)
