"""The attention of a system over one sentence, as a matrix over its words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from depgen.data.vocabulary import Encoding, Vocabulary, encode
from depgen.errors import UserError
from depgen.evaluation.frames import Row
from depgen.evaluation.parsing import Bracketer
from depgen.language_models.left_to_right import GraphNetwork, LeftToRight
from depgen.language_models.masked import MaskedLanguageModel

if TYPE_CHECKING:
    from pandas import DataFrame

Kind = Literal["dependency", "self"]
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


@dataclass(frozen=True, eq=False)
class Attention:
    """The attention of one layer over a sentence.

    In systems that predict from left to right, row t is that of the position that predicts `words[t]`: it weighs
    `context[0]` (the beginning) and the words before; in those that search for a structure, with the likeliest one. In
    masked systems row t is that of the word itself, over all.

    Attributes:
        words: a name for each row; the pieces of words that are several tokens.
        context: a name for each column.
        matrix: the weights. Rows sum to 1, unless the system's weights don't (StructFormer, UDGN).
        unknown: whether each word is unknown to the system.
        kind: `dependency` (what weighs DMLM's mixture) or `self` (the self-attention of a layer).
        layer: counted from 0, of dependency attention as the system names it; None where it is no layer's.
        attention_head: counted from 0; None: the mean over all.
    """

    words: tuple[str, ...]
    context: tuple[str, ...]
    matrix: Float[np.ndarray, "rows columns"]
    unknown: tuple[bool, ...]
    kind: Kind
    layer: int | None
    attention_head: int | None

    def rows(self) -> list[Row]:
        """A row for each pair of a word and what it may weigh; positions count from 1, and the beginning is 0."""
        first = 0 if self.context[0] == BEGIN else 1
        return [
            {
                "position": row + 1,
                "word": word,
                "context_position": column + first,
                "context": self.context[column],
                "weight": float(self.matrix[row, column]),
            }
            for row, word in enumerate(self.words)
            for column in range(row + 1 if first == 0 else len(self.context))
        ]

    def to_frame(self) -> "DataFrame":
        """The same as a table."""
        from pandas import DataFrame

        return DataFrame(self.rows())


@torch.inference_mode()
def sentence_attention(
    model: nn.Module,
    vocabulary: Vocabulary,
    words: Sequence[str],
    *,
    encoding: Encoding | None = None,
    kind: Kind | None = None,
    layer: int | None = None,
    attention_head: int | None = None,
) -> Attention:
    """The attention over a sentence, in evaluation; the model is left in the mode that it is in.

    Args:
        model: a system.
        vocabulary: that it was trained with.
        words: of the sentence.
        encoding: their token ids; None: each word with a space before it.
        kind: None: dependency attention of systems that have it, where no layer or attention head is named.
        layer: of self-attention, from 0; negative from the top. None: the last.
        attention_head: of self-attention, from 0; None: the mean over all.

    Raises:
        UserError: the sentence has no token, or the system no such attention.
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
    names = tuple(words) if len(ids) == len(words) else tuple(vocabulary.decode([index]) for index in ids)
    context = names if isinstance(model, MaskedLanguageModel) else (BEGIN, *names[:-1])
    weights = np.asarray(matrix.float().cpu())
    assert weights.shape == (len(ids), len(ids)), f"{weights.shape} for {len(ids)} tokens"
    unknown = tuple(index == vocabulary.unk for index in ids)
    return Attention(names, context, weights, unknown, kind, found, attention_head)


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
        inputs = torch.tensor([[vocabulary.eos, *ids[:-1]]], device=model.device)
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
