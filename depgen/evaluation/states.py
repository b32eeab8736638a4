"""The hidden state of each word of a text, from the states of its tokens, by each kind of system."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from depgen.data.batch import ItemBatch, TokenItem, collate_words, whole_documents
from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError
from depgen.evaluation.encoded_text import encode_documents
from depgen.evaluation.frames import Pooling, Reads
from depgen.evaluation.text_documents import TextDocument
from depgen.evaluation.trained import Trained
from depgen.evaluation.unit_scores import DocumentIds, as_sequences, in_batches
from depgen.language_models.base import LanguageModel
from depgen.language_models.document import PADDED_AT_ONCE, DocumentLanguageModel
from depgen.language_models.left_to_right import LeftToRight
from depgen.language_models.masked import MaskedLanguageModel
from depgen.nn.vocabulary import full_precision

States = Float[np.ndarray, "tokens width"]


def states_of_words(
    trained: Trained,
    documents: Sequence[TextDocument],
    *,
    layer: int = -1,
    pooling: Pooling = "last",
    reads: Reads | None = None,
    tokens_per_batch: int = 8192,
    progress: bool = False,
) -> pd.DataFrame:
    """A row for each word of documents: `document`, `sentence` and `position`, from 1; `word`; its number of `tokens`;
    of strings `start` and `end`; and `state_0`, `state_1`, …, NaN for words that the system does not read.

    The state of a token is that of the position whose input it is, so in systems that predict from left to right it
    depends on the token and those before it, and in masked systems on the whole sentence, in which nothing is masked.
    No state depends on the batches. The arguments are those of `depgen.evaluation.system.System.states`.

    Raises:
        UserError: the system has no states of words, no such layer, or can't encode a text of this length.
    """
    encoded, units = encode_documents(trained, documents, as_one=trained.reads_documents(reads))
    states = in_batches(
        trained.model, units, _states_by(trained, layer), tokens_per_batch=tokens_per_batch, doing="encoding",
        progress=progress,
    )  # fmt: skip
    words = pd.DataFrame(
        [
            (number, place, position, word, 0, *(span or (None, None)))
            for number, sentences in enumerate(encoded, start=1)
            for place, sentence in enumerate(sentences, start=1)
            for position, (word, span) in enumerate(zip(sentence.sentence.words, sentence.spans, strict=True), start=1)
        ],
        columns=["document", "sentence", "position", "word", "tokens", "start", "end"],
    )
    if words["start"].isna().all():
        words = words.drop(columns=["start", "end"])
    read = list(chain.from_iterable(states))
    if not read:
        return words
    every = list(chain.from_iterable(encoded))
    counts = np.concatenate([np.bincount(each.encoding.word_of_piece, minlength=sum(each.kept)) for each in every])
    kept = np.array([kept for each in every for kept in each.kept], dtype=bool)
    words.loc[kept, "tokens"] = counts
    of_words = pooled(np.concatenate(read), counts, pooling)
    table = np.full((len(words), of_words.shape[1]), np.nan, dtype=of_words.dtype)
    table[kept] = of_words
    return words.join(pd.DataFrame(table).add_prefix("state_"))


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


def _states_by(trained: Trained, layer: int) -> Callable[[Sequence[DocumentIds]], list[list[States]]]:
    """Gives the states of each document's tokens in a layer, sentence by sentence."""
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
