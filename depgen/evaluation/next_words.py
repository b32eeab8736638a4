"""The distribution over the next word at each word of a text: its entropy, and the rank of the word that follows."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Float64, Int, Int64
from torch import Tensor

from depgen.data.batch import ItemBatch, TokenItem, collate_tokens
from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError
from depgen.evaluation.unit_scores import DocumentIds, batches_of
from depgen.language_models.base import LanguageModel
from depgen.language_models.document import DocumentLanguageModel
from depgen.language_models.left_to_right import LeftToRight
from depgen.language_models.structured import StructuredLanguageModel
from depgen.nn.precise import precise
from depgen.nn.vocabulary import log_softmax_over_vocabulary
from depgen.progress import progress_bar

TOKENS_AT_ONCE = 4096
"""Tokens of a batch, padding included; only one position's distributions are held at a time."""


class TokenFigures(NamedTuple):
    """Figures of a sentence's tokens and, where the system predicts it, of its end.

    Attributes:
        entropy: nats, of the distribution over the vocabulary that each token was predicted from.
        rank: place of each token in it; 1 is the likeliest.
    """

    entropy: Float64[np.ndarray, " tokens"]
    rank: Int64[np.ndarray, " tokens"]


@torch.inference_mode()
def figures_of_next_words(
    model: LanguageModel, documents: Sequence[DocumentIds], *, vocabulary: Vocabulary, progress: bool = False
) -> list[list[TokenFigures]]:
    """Entropies and ranks of all tokens of each document, sentence by sentence.

    The tokens are those of `depgen.evaluation.unit_scores.score_documents`.

    Raises:
        UserError: the system has no distribution over the next word, or one that is a sum over structures.
    """
    name, by_document = type(model).__name__, isinstance(model, DocumentLanguageModel)
    if isinstance(model, StructuredLanguageModel):
        raise UserError(
            f"A {name} builds a structure too, and depgen does not sum the next word's probabilities over structures: "
            "leave out next_words."
        )
    if not isinstance(model, LeftToRight | DocumentLanguageModel):
        raise UserError(f"A {name} does not predict each word from those before it alone: leave out next_words.")
    figures: list[list[TokenFigures]] = [[] for _ in documents]
    with progress_bar("ranking", total=len(documents), unit="documents", shown=progress) as advance:
        for places in batches_of(documents, tokens_per_batch=TOKENS_AT_ONCE, batch_size=1 if by_document else None):
            batch = [documents[place] for place in places]
            if isinstance(model, DocumentLanguageModel):
                found = [_of_document(model, document, vocabulary) for document in batch]
            else:
                found = _of_sequences(model, batch, vocabulary)
            for place, of_document in zip(places, found, strict=True):
                figures[place] = of_document
            advance(len(places))
    return figures


def _of_sequences(
    model: LeftToRight, documents: Sequence[DocumentIds], vocabulary: Vocabulary
) -> list[list[TokenFigures]]:
    """Each document is one sequence after `<eos>`, read a position at a time."""
    items = [TokenItem(place, np.concatenate(document)) for place, document in enumerate(documents)]
    tokens = sum(len(item.ids) + 1 for item in items)
    batch = collate_tokens(ItemBatch(items, tokens, vocabulary)).to(model.device)
    columns, state = [], None
    for position in range(batch.inputs.size(1)):
        log_probs, state = model.generation_step(batch.inputs[:, position : position + 1], None, state)
        columns.append(_entropy_and_rank(log_probs, batch.targets[:, position]))
    entropies, ranks = (torch.stack(column, 1).cpu().numpy() for column in zip(*columns, strict=True))
    figures = []
    for row, document in enumerate(documents):
        ends = np.cumsum([len(ids) for ids in document], dtype=np.int64)
        ends[-1] += 1
        parts = [np.split(of_all[row, : ends[-1]], ends[:-1]) for of_all in (entropies, ranks)]
        figures.append([TokenFigures(*part) for part in zip(*parts, strict=True)])
    return figures


def _of_document(model: DocumentLanguageModel, document: DocumentIds, vocabulary: Vocabulary) -> list[TokenFigures]:
    before, figures = None, []
    for ids in document:
        inputs = torch.tensor([[vocabulary.start, *ids]], device=model.device)
        features, before = model.step(inputs, before)
        log_probs = log_softmax_over_vocabulary(features[0], model.output_weight, model.output_bias)
        targets = torch.tensor([*ids, vocabulary.eos], device=model.device)
        figures.append(TokenFigures(*(figure.cpu().numpy() for figure in _entropy_and_rank(log_probs, targets))))
    return figures


def _entropy_and_rank(
    log_probs: Float[Tensor, "positions vocab"], targets: Int[Tensor, " positions"]
) -> tuple[Float[Tensor, " positions"], Int[Tensor, " positions"]]:
    """Nats, and the targets' places; a target shares the first place of all that are as likely."""
    entropies = precise(torch.special.entr(log_probs.exp())).sum(-1)
    likelier = log_probs > log_probs.gather(1, targets[:, None])
    return entropies, 1 + likelier.sum(-1)
