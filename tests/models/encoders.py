"""The baselines of UDGN at a tiny size."""

from functools import partial

import torch

from depgen.backbones.transformer import StructFormerInit, Transformer

SHAPE = {
    "activation": "leaky_relu", "affine_norms": False, "positions": "learned", "scale_embedding": False,
    "output_bias": True, "causal": False, "init": StructFormerInit(),
}  # fmt: skip


def encoder(*, dropout=0.0, **changes):
    """What makes the backbone of the experiments, tiny."""
    sizes = {"layers": 2, "width": 4, "attention_heads": 2, "feedforward": 8, "max_length": 500}
    dropped = dict.fromkeys(("dropout", "attention_dropout", "activation_dropout", "output_dropout"), dropout)
    return partial(Transformer, **{**sizes, **dropped, **SHAPE, **changes})


def spread(model, *, bound=1.0):
    """The same model with all parameters far from where they begin, so that no part is silent."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.uniform_(-bound, bound)
    return model
