"""The hidden state of each word of a text, from the states of its tokens, by each kind of system."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from depgen.data.batch import ItemBatch, TokenItem, collate_tokens, collate_words, whole_documents
from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError
from depgen.evaluation.encoded_text import TextEncoder
from depgen.evaluation.frames import Pooling
from depgen.evaluation.text_documents import TextDocument
from depgen.evaluation.unit_scores import DocumentIds, batches_of
from depgen.language_models.base import LanguageModel
from depgen.language_models.document import PADDED_AT_ONCE, DocumentLanguageModel
from depgen.language_models.left_to_right import LeftToRight
from depgen.language_models.masked import MaskedLanguageModel
from depgen.nn.vocabulary import full_precision
from depgen.progress import progress_bar

States = Float[np.ndarray, "tokens width"]


def states_of_words(
    encoder: TextEncoder,
    documents: Sequence[TextDocument],
    *,
    layer: int = -1,
    pooling: Pooling = "last",
    tokens_per_batch: int = 8192,
    batch_size: int | None = None,
    progress: bool = False,
) -> pd.DataFrame:
    """A row for each word of documents: `document`, `sentence` and `position`, from 1; `word`; its number of `tokens`;
    of strings `start` and `end`; and `state_0`, `state_1`, …, NaN for words that the system does not read.

    Args:
        encoder: how documents are given to the system.
        documents: of any texts.
        layer: see `token_states`.
        pooling: of a word of several tokens.
        tokens_per_batch: see `token_states`.
        batch_size: see `token_states`.
        progress: show a progress bar.

    Raises:
        UserError: the system has no states of words, no such layer, or can't encode a text of this length.
    """
    model, vocabulary = encoder.trained.model, encoder.trained.vocabulary
    encoded, units = encoder.encoded(documents)
    found = token_states(
        model, units, vocabulary=vocabulary, layer=layer, tokens_per_batch=tokens_per_batch, batch_size=batch_size,
        progress=progress,
    )  # fmt: skip
    words = pd.DataFrame(
        [
            (number, place, position, word, *(span or (None, None)))
            for number, sentences in enumerate(encoded, start=1)
            for place, each in enumerate(sentences, start=1)
            for position, (word, span) in enumerate(zip(each.sentence.words, each.spans, strict=True), start=1)
        ],
        columns=["document", "sentence", "position", "word", "start", "end"],
    )
    sentences = list(chain.from_iterable(encoded))
    counts = [np.bincount(each.encoding.word_of_piece, minlength=sum(each.kept)) for each in sentences]
    read = np.array([kept for each in sentences for kept in each.kept], dtype=bool)
    words.insert(4, "tokens", 0)
    words.loc[read, "tokens"] = np.concatenate([*counts, np.zeros(0, dtype=int)])
    if words["start"].isna().all():
        words = words.drop(columns=["start", "end"])
    of_tokens = list(chain.from_iterable(found))
    if not of_tokens:
        return words
    pooled_states = pooled(np.concatenate(of_tokens), words.loc[read, "tokens"].to_numpy(), pooling)
    states = np.full((len(words), pooled_states.shape[1]), np.nan, dtype=pooled_states.dtype)
    states[read] = pooled_states
    return words.join(pd.DataFrame(states).add_prefix("state_"))


def pooled(states: States, counts: Int[np.ndarray, " words"], pooling: Pooling) -> Float[np.ndarray, "words width"]:
    """The state of each word, from those of its tokens, of which each word has as many as `counts` says.

    >>> pooled(np.array([[1.0], [2.0], [4.0]]), np.array([1, 2]), "mean").tolist()
    [[1.0], [3.0]]
    """
    last = np.cumsum(counts) - 1
    first = last - counts + 1
    if pooling == "mean":
        sums: States = np.add.reduceat(states, first)
        found: States = sums / counts[:, None].astype(states.dtype)
    else:
        found = states[{"last": last, "first": first}[pooling]]
    return found


@torch.inference_mode()
def token_states(
    model: LanguageModel,
    documents: Sequence[DocumentIds],
    *,
    vocabulary: Vocabulary,
    layer: int = -1,
    tokens_per_batch: int = 8192,
    batch_size: int | None = None,
    progress: bool = False,
) -> list[list[States]]:
    """The states of each document's tokens, sentence by sentence, whatever the batches.

    The state of a token is that of the position whose input it is, so in systems that predict from left to right it
    depends on the token and those before it, and in masked systems on the whole sentence, in which nothing is masked.

    Args:
        model: a system in evaluation mode.
        documents: what it encodes at once; none is empty.
        vocabulary: that it was trained with.
        layer: 0 for the embedding, 1 for the first layer, …; negative from the top. The last is what the output matrix
            is applied to.
        tokens_per_batch: padding included; a longer document is a batch by itself.
        batch_size: the most documents in a batch; None: any number.
        progress: show a progress bar.

    Raises:
        UserError: the system has no states of tokens, or no such layer.
    """
    states_of = _states_by(model)
    found: list[list[States]] = [[] for _ in documents]
    with progress_bar("encoding", total=len(documents), unit="documents", shown=progress) as advance:
        for places in batches_of(documents, tokens_per_batch=tokens_per_batch, batch_size=batch_size):
            with torch.autocast(model.device.type, enabled=False):
                states = states_of([documents[place] for place in places], vocabulary, layer)
            for place, each in zip(places, states, strict=True):
                found[place] = each
            advance(len(places))
    return found


StatesOf = Callable[[Sequence[DocumentIds], Vocabulary, int], list[list[States]]]


def _states_by(model: LanguageModel) -> StatesOf:
    assert not model.training, "states are those of evaluation"
    if isinstance(model, DocumentLanguageModel):
        return partial(_of_documents, model)
    if isinstance(model, MaskedLanguageModel):
        return partial(_of_sentences, model)
    if isinstance(model, LeftToRight) and hasattr(model, "backbone"):
        return partial(_of_sequences, model)
    raise UserError(
        f"This {type(model).__name__} has no hidden states of a text's words: take a left-to-right, masked or "
        "document system."
    )


def _of_sequences(
    model: LeftToRight, documents: Sequence[DocumentIds], vocabulary: Vocabulary, layer: int
) -> list[list[States]]:
    """A document is one sequence after `<eos>`."""
    items = [TokenItem(place, np.concatenate(document)) for place, document in enumerate(documents)]
    tokens = sum(len(item.ids) + 1 for item in items)
    batch = collate_tokens(ItemBatch(items, tokens, vocabulary)).to(model.device)
    output = model.backbone(batch.inputs, all_layers=layer != -1)
    states = _numpy(_chosen(output.layers, output.undropped, layer, model))
    return [
        np.split(row[1 : len(item.ids) + 1], np.cumsum([len(ids) for ids in document[:-1]], dtype=np.int64))
        for row, item, document in zip(states, items, documents, strict=True)
    ]


def _of_sentences(
    model: MaskedLanguageModel, documents: Sequence[DocumentIds], vocabulary: Vocabulary, layer: int
) -> list[list[States]]:
    """Each sentence by itself."""
    sentences = [np.asarray(ids) for document in documents for ids in document]
    items = [TokenItem(place, ids) for place, ids in enumerate(sentences)]
    tokens = sum(map(len, sentences))
    batch = collate_words(ItemBatch(items, tokens, vocabulary)).to(model.device)
    output = model.encode(batch.tokens, batch.lengths, all_layers=layer != -1)
    states = iter(_numpy(_chosen(output.layers, output.hidden, layer, model)))
    return [[next(states)[: len(ids)] for ids in document] for document in documents]


def _of_documents(
    model: DocumentLanguageModel, documents: Sequence[DocumentIds], vocabulary: Vocabulary, layer: int
) -> list[list[States]]:
    """Each sentence after `<s>` and what the sentences before it have left; a long document sentence by sentence."""
    if layer != -1:
        raise UserError(
            f"layer: expected -1 for a {type(model).__name__}, whose states are those of its last layer, found {layer}."
        )
    most, longest = max(map(len, documents)), 1 + max(len(ids) for document in documents for ids in document)
    rows = max(1, PADDED_AT_ONCE // (most * longest))
    if len(documents) > rows:
        parts = (documents[first : first + rows] for first in range(0, len(documents), rows))
        return [each for part in parts for each in _of_documents(model, part, vocabulary, layer)]
    if most * longest > PADDED_AT_ONCE:
        found, before = [], None
        for ids in documents[0]:
            inputs = torch.tensor([[vocabulary.start, *ids]], device=model.device)
            features, before = model.step(inputs, before)
            found.append(_numpy(features)[0, 1:])
        return [found]
    states = _numpy(model.encode(whole_documents(documents, vocabulary).to(model.device)).features)
    return [
        [states[row, place, 1 : len(ids) + 1] for place, ids in enumerate(document)]
        for row, document in enumerate(documents)
    ]


def _chosen(layers: Sequence[Tensor] | None, last: Tensor, layer: int, model: LanguageModel) -> Tensor:
    """The states of one layer, the last of which is what the output matrix is applied to."""
    if layers is None:
        return last
    if not -len(layers) <= layer < len(layers):
        raise UserError(
            f"layer: expected a layer of this {type(model).__name__} from 0 (the embedding) to {len(layers) - 1}, or "
            f"from -{len(layers)} to -1, found {layer}."
        )
    return [*layers[:-1], last][layer]


def _numpy(states: Tensor) -> np.ndarray:
    return np.asarray(full_precision(states).cpu())
