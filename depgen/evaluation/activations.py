"""What systems compute of a text's words within: the hidden state of each, and the attention over a sentence."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from depgen.data.batch import ItemBatch, TokenItem, collate_words, whole_documents
from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError
from depgen.evaluation.parsing import Bracketer
from depgen.evaluation.trained import Trained
from depgen.evaluation.unit_scores import DocumentIds, as_sequences
from depgen.language_models.base import LanguageModel
from depgen.language_models.document import PADDED_AT_ONCE, DocumentLanguageModel
from depgen.language_models.left_to_right import GraphNetwork, LeftToRight
from depgen.language_models.masked import MaskedLanguageModel
from depgen.nn.vocabulary import full_precision

AttentionKind = Literal["dependency", "self"]
"""What weighs DMLM's mixture, or the self-attention of a layer."""

Pooling = Literal["last", "first", "mean"]
"""Which of the states of a word's tokens is the word's: that of the last, that of the first, or the mean of all."""

# -- hidden states ----------------------------------------------------------------------------------------------------

States = Float[np.ndarray, "tokens width"]


def pooled(states: States, counts: Int[np.ndarray, " words"], pooling: Pooling) -> Float[np.ndarray, "words width"]:
    """The state of each word, from those of its tokens, of which each word has as many as `counts` says.

    >>> pooled(np.array([[1.0], [2.0], [4.0]]), np.array([1, 2]), "mean").tolist()
    [[1.0], [3.0]]
    """
    last = np.cumsum(counts) - 1
    first = last - counts + 1
    if pooling == "mean":
        means: States = np.add.reduceat(states, first) / counts[:, None].astype(states.dtype)
        return means
    chosen: States = states[last if pooling == "last" else first]
    return chosen


def states_by(trained: Trained, layer: int) -> Callable[[Sequence[DocumentIds]], list[list[States]]]:
    """Gives the states of each document's tokens in a layer, sentence by sentence.

    The state of a token is that of the position whose input it is, so in systems that predict from left to right it
    depends on the token and those before it, and in masked systems on the whole sentence, in which nothing is masked.
    """
    model: Any = trained.model
    if isinstance(model, DocumentLanguageModel):
        return partial(_of_documents, model, trained.vocabulary, layer)
    if isinstance(model, MaskedLanguageModel):
        return partial(_of_sentences, model, trained.vocabulary, layer)
    if isinstance(model, LeftToRight) and hasattr(model, "backbone"):
        return partial(_of_sequences, model, trained.vocabulary, layer)
    raise UserError(
        f"This {type(model).__name__} has no hidden states of a text's words: take a left-to-right, masked or "
        "document system."
    )


def _of_sequences(
    model: LeftToRight, vocabulary: Vocabulary, layer: int, documents: Sequence[DocumentIds]
) -> list[list[States]]:
    """A document is one sequence after `<eos>`."""
    batch = as_sequences(documents, vocabulary).to(model.device)
    output = model.backbone(batch.inputs, all_layers=layer != -1)
    states = _of_layer(output.layers, output.undropped, layer, model)
    return [
        np.split(row[1:length], np.cumsum([len(ids) for ids in document[:-1]], dtype=np.int64))
        for row, length, document in zip(states, batch.lengths.tolist(), documents, strict=True)
    ]


def _of_sentences(
    model: MaskedLanguageModel, vocabulary: Vocabulary, layer: int, documents: Sequence[DocumentIds]
) -> list[list[States]]:
    """Each sentence by itself."""
    sentences = [np.asarray(ids) for document in documents for ids in document]
    items = [TokenItem(place, ids) for place, ids in enumerate(sentences)]
    batch = collate_words(ItemBatch(items, sum(map(len, sentences)), vocabulary)).to(model.device)
    output = model.encode(batch.tokens, batch.lengths, all_layers=layer != -1)
    states = iter(_of_layer(output.layers, output.hidden, layer, model))
    return [[next(states)[: len(ids)] for ids in document] for document in documents]


def _of_documents(
    model: DocumentLanguageModel, vocabulary: Vocabulary, layer: int, documents: Sequence[DocumentIds]
) -> list[list[States]]:
    """Each sentence after `<s>` and what the sentences before it have left; a long document sentence by sentence."""
    if layer != -1:
        raise UserError(
            f"layer: expected -1 for a {type(model).__name__}, whose states are those of its last layer, found {layer}."
        )
    padded = max(map(len, documents)) * (1 + max(len(ids) for document in documents for ids in document))
    if len(documents) > 1 and len(documents) * padded > PADDED_AT_ONCE:
        return [states for document in documents for states in _of_documents(model, vocabulary, layer, [document])]
    if padded > PADDED_AT_ONCE:
        states, before = [], None
        for ids in documents[0]:
            inputs = torch.tensor([[vocabulary.start, *ids]], device=model.device)
            features, before = model.step(inputs, before)
            states.append(np.asarray(full_precision(features).cpu())[0, 1:])
        return [states]
    features = model.encode(whole_documents(documents, vocabulary).to(model.device)).features
    rows = np.asarray(full_precision(features).cpu())
    return [
        [rows[row, place, 1 : len(ids) + 1] for place, ids in enumerate(document)]
        for row, document in enumerate(documents)
    ]


def _of_layer(layers: Sequence[Tensor] | None, last: Tensor, layer: int, model: LanguageModel) -> np.ndarray:
    """The states of one layer, the last of which is what the output matrix is applied to."""
    if layers is not None and not -len(layers) <= layer < len(layers):
        raise UserError(
            f"layer: expected a layer of this {type(model).__name__} from 0 (the embedding) to {len(layers) - 1}, or "
            f"from -{len(layers)} to -1, found {layer}."
        )
    return np.asarray(full_precision(last if layers is None else [*layers[:-1], last][layer]).cpu())


# -- attention --------------------------------------------------------------------------------------------------------

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
def attention_weights(
    model: nn.Module,
    ids: list[int],
    vocabulary: Vocabulary,
    *,
    kind: AttentionKind,
    layer: int | None,
    attention_head: int | None,
) -> tuple[Float[np.ndarray, "length length"], int | None]:
    """What each token of a sentence weighs by, a row a token, and the layer (from 0); None where it is no layer's."""
    if kind == "dependency":
        matrix, found = _dependency(model, ids, vocabulary, layer, attention_head)
    else:
        matrix, found = _self_attention(model, ids, vocabulary, -1 if layer is None else layer, attention_head)
    weights = np.asarray(matrix.float().cpu())
    assert weights.shape == (len(ids), len(ids)), f"{weights.shape} for {len(ids)} tokens"
    return weights, found


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
