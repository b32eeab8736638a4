"""The baselines of UDGN at a tiny size, and what both must not depend on."""

from functools import partial

import torch

from depgen.backbones.transformer import StructFormerInit, Transformer
from tests.models.masked import batch_of

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


def drift(model, sentences, *, of):
    """The largest change of what `of` returns for each sentence, read by itself and padded among the others."""
    width = max(map(len, sentences)) + 3
    together = batch_of(*sentences, length=width)
    for row, sentence in enumerate(sentences):
        together.tokens[row, len(sentence) :] = 3 + row
    found, worst = of(model, together), 0.0
    for row, sentence in enumerate(sentences):
        single = of(model, batch_of(sentence))
        for one, many in zip(single, found, strict=True):
            own = many[row][tuple(slice(size) for size in one.shape[1:])]
            worst = max(worst, (one[0] - own).abs().max().item())
    return worst


def states_and_attention(model, batch):
    """Hidden states of words, those of all layers, and both kinds of weights of every layer."""
    output = model.encode(batch.tokens, batch.lengths, attention=True, all_layers=True)
    assert len(output.layers) == 1 + model.backbone.attention_layers
    assert torch.equal(model.backbone.final_norm(output.layers[-1]), output.hidden)
    return [output.hidden, *output.layers, *(weights.transpose(1, 2).transpose(2, 3) for each in output.attention
                             for weights in (each.before, each.after))]  # fmt: skip
