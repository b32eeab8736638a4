"""The attention of a system over one sentence, as weights of pairs of words."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor, nn

from depgen.data.vocabulary import Encoding, Vocabulary, encode
from depgen.errors import UserError
from depgen.evaluation.frames import AttentionKind
from depgen.evaluation.parsing import Bracketer
from depgen.language_models.left_to_right import GraphNetwork, LeftToRight
from depgen.language_models.masked import MaskedLanguageModel

BEGIN = "BOS"
"""The name of what precedes a sentence."""


@runtime_checkable
class DependencyAttention(Protocol):
    """A system that predicts each token by attention over those before it, as DMLM does.

    Attributes:
        mixing_layer: the layer of the backbone whose attention it is; None: it is computed by the system itself.
    """

    mixing_layer: int | None

    def dependency_attention(self, tokens: Sequence[int], *, eos: int) -> Float[Tensor, "length length"]:
        """Row t: the distribution that predicts token t, over `<eos>` and the tokens before it."""
        ...


@torch.inference_mode()
def sentence_attention(
    model: nn.Module,
    vocabulary: Vocabulary,
    words: Sequence[str],
    *,
    encoding: Encoding | None = None,
    kind: AttentionKind | None = None,
    layer: int | None = None,
    attention_head: int | None = None,
) -> pd.DataFrame:
    """The attention over a sentence, in evaluation: a row for each pair of a word and what it may weigh.

    In systems that predict from left to right, `word` is the one that is predicted, and it weighs the beginning (`BOS`,
    whose `context_position` is 0) and the words before; in those that search for a structure, with the likeliest one.
    In masked systems a word weighs all. Positions count from 1. Weights of a word sum to 1, unless the system's own
    don't (StructFormer, UDGN). Words of several tokens are named by their pieces; `unknown` says which the vocabulary
    lacks. The frame's `attrs` name the `kind`, the `layer` (from 0; None where it is no layer's) and the
    `attention_head` (None: the mean over all).

    Args:
        model: a system; it is left in the mode that it is in.
        vocabulary: that it was trained with.
        words: of the sentence.
        encoding: their token ids; None: each word with a space before it.
        kind: `dependency` (what weighs DMLM's mixture) or `self` (the self-attention of a layer); None: dependency
            attention of systems that have it, where no layer or attention head is named.
        layer: of self-attention, from 0; negative from the top. None: the last.
        attention_head: of self-attention, from 0; None: the mean over all.
    """
    encoding = encode(vocabulary, words) if encoding is None else encoding
    ids = encoding.ids.tolist()
    if not ids:
        raise UserError(f"Expected a sentence with words that the system reads, found no token in {' '.join(words)!r}.")
    if kind is None:
        chosen = layer is not None or attention_head is not None
        kind = "dependency" if isinstance(model, DependencyAttention) and not chosen else "self"
    training = model.training
    model.eval()
    try:
        if kind == "dependency":
            matrix, found = _dependency(model, ids, vocabulary, layer, attention_head)
        else:
            matrix, found = _self_attention(model, ids, vocabulary, -1 if layer is None else layer, attention_head)
    finally:
        model.train(training)
    weights = np.asarray(matrix.float().cpu())
    assert weights.shape == (len(ids), len(ids)), f"{weights.shape} for {len(ids)} tokens"
    names = np.array(words if len(ids) == len(words) else [vocabulary.decode([index]) for index in ids], dtype=object)
    if isinstance(model, MaskedLanguageModel):
        row, column = np.indices(weights.shape).reshape(2, -1)
        context, context_position = names[column], column + 1
    else:
        row, column = np.tril_indices(len(ids))
        context, context_position = np.array([BEGIN, *names[:-1]], dtype=object)[column], column
    unknown = np.array(ids) == vocabulary.unk
    frame = pd.DataFrame(
        {
            "position": row + 1, "word": names[row], "unknown": unknown[row], "context_position": context_position,
            "context": context, "weight": weights[row, column].astype(np.float64),
        }
    )  # fmt: skip
    frame.attrs.update(kind=kind, layer=found, attention_head=attention_head)
    return frame


def _dependency(
    model: nn.Module, ids: list[int], vocabulary: Vocabulary, layer: int | None, attention_head: int | None
) -> tuple[Tensor, int | None]:
    """The dependency attention, and the layer that it is of."""
    if not isinstance(model, DependencyAttention):
        raise UserError(f"{type(model).__name__} has no dependency attention; name a run of a DM model.")
    if layer is not None or attention_head is not None:
        raise UserError("A layer and an attention head are of self-attention: leave them out, or take kind='self'.")
    return model.dependency_attention(ids, eos=vocabulary.eos), model.mixing_layer


def _self_attention(
    model: nn.Module, ids: list[int], vocabulary: Vocabulary, layer: int, attention_head: int | None
) -> tuple[Tensor, int]:
    """The weights of a layer, and its number from 0."""
    device = next(model.parameters()).device
    if isinstance(model, MaskedLanguageModel):
        lengths = torch.tensor([len(ids)], device=device)
        layers = model.encode(torch.tensor([ids], device=device), lengths, attention=True).attention
        assert layers is not None
        layer = _checked("layer", layer, len(layers), model)
        heads = layers[layer].after[0]
    elif isinstance(model, LeftToRight) and hasattr(model, "backbone") and model.backbone.attention_layers:
        layer = _checked("layer", layer, model.backbone.attention_layers, model)
        heads = _of_left_to_right(model, ids, vocabulary, layer).exp()
    else:
        raise UserError(f"This {type(model).__name__} has no attention that can be shown: take a Transformer or UDGN.")
    if attention_head is None:
        return heads.mean(0), layer
    return heads[_checked("attention_head", attention_head, len(heads), model)], layer


def _of_left_to_right(model: LeftToRight, ids: list[int], vocabulary: Vocabulary, layer: int) -> Tensor:
    """Log-probabilities of a layer, head by head; where they depend on a structure, with the likeliest one."""
    if model.likelihood != "bound":
        inputs = torch.tensor([[vocabulary.start, *ids[:-1]]], device=model.device)
        whole: Tensor = model.backbone(inputs, attention_layer=layer).attention
        return whole[0]
    structure: Sequence[object]
    if isinstance(model, GraphNetwork):
        (structure,) = model.parse([ids], vocabulary=vocabulary)
    elif isinstance(model, Bracketer):
        (structure,) = model.bracketings([ids], vocabulary=vocabulary, word_starts=[vocabulary.opens_word[ids]])
    else:
        raise UserError(f"The attention of {type(model).__name__} depends on a structure that can't be shown here.")
    found = list[Tensor]()
    asked = model.backbone.register_forward_pre_hook(
        lambda network, tokens, options: (tokens, {**options, "attention_layer": layer}), with_kwargs=True
    )
    read = model.backbone.register_forward_hook(lambda network, tokens, output: found.append(output.attention))
    try:
        model.sentence_log_probs([[ids]], vocabulary=vocabulary, structure=[[structure]])
    finally:
        asked.remove()
        read.remove()
    (log_probs,) = found
    if log_probs.size(2) != len(ids) + 1:
        raise UserError(
            f"The attention of {type(model).__name__} is over words and brackets, which can't be shown here."
        )
    return log_probs[0, :, :-1, :-1]


def _checked(name: str, number: int, count: int, model: nn.Module) -> int:
    """A layer or attention head, counted from 0."""
    if not -count <= number < count:
        raise UserError(f"{name}: {type(model).__name__} has {count}, so expected 0 to {count - 1}, found {number}.")
    return number % count
