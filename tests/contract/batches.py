"""Texts as each system reads them, and its scores of their tokens."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from depgen.data.batch import Batch, ItemBatch, TokenItem, WordBatch, whole_documents
from depgen.data.tasks import EncodedExample, Example, TaskBatch
from depgen.data.vocabulary import Vocabulary
from depgen.language_models.base import LanguageModel
from depgen.language_models.document import DocumentLanguageModel
from depgen.language_models.masked import MaskedLanguageModel
from depgen.models.finetuned import PromptedModel, SentenceSimilarity
from tests.contract.systems import VOCABULARY, writes_levels
from tests.contract.trees import TREES, levels_of
from tests.models.labelled_trees import LABELS

LETTERS = "abcdefghijk"
PLAIN, STARTING, MASKING = (
    Vocabulary.of_words(LETTERS, tables={"labels": LABELS}),
    Vocabulary.of_words(LETTERS[1:], specials=["start"]),
    Vocabulary.of_words(LETTERS[1:], specials=["mask_id"]),
)
DOCUMENTS = [[[3, 4, 5], [6], [7, 8, 9, 3, 3, 12]], [[5]], [[4, 4], [9, 3, 11]], [[10], [3, 8], [4, 7, 7, 6]]]
"""Token ids of documents of several sentences and lengths; no id is special."""
CLOSE = {"rtol": 1e-9, "atol": 1e-9}
Document = Sequence[Sequence[int]]


def vocabulary_of(model: LanguageModel) -> Vocabulary:
    """The vocabulary that the system's texts need; all have as many types, without placeholders."""
    if isinstance(model, DocumentLanguageModel):
        return STARTING
    if writes_levels(model):
        return TREES
    return MASKING if isinstance(model, MaskedLanguageModel) else PLAIN


def batch_of(model: LanguageModel, documents: Sequence[Document]) -> Batch:
    """The documents as the system reads them: each a row, or with its own reverse a pair of sentences."""
    if isinstance(model, DocumentLanguageModel):
        return whole_documents(documents, STARTING)
    texts = [np.concatenate(document).astype(np.int32) for document in documents]
    if isinstance(model, SentenceSimilarity):
        pairs = [(TokenItem(k, ids), TokenItem(k, ids[::-1].copy())) for k, ids in enumerate(texts)]
        return model.collate(task_items(pairs, MASKING))
    items: list[Any] = [TokenItem(k, ids) for k, ids in enumerate(texts)]
    if isinstance(model, PromptedModel):
        return model.collate(task_items([(item,) for item in items], PLAIN))
    if writes_levels(model):  # the deepest
        items = [levels_of(k, ids)[-1] for k, ids in enumerate(texts)]
    return model.collate(ItemBatch(items, sum(len(ids) + 1 for ids in texts), vocabulary_of(model)))


def task_items(sentences: Sequence[tuple[TokenItem, ...]], vocabulary: Vocabulary) -> ItemBatch:
    """A batch of examples of a task."""
    examples = [EncodedExample(items, Example("", (), 1.0)) for items in sentences]
    return ItemBatch(examples, len(examples), vocabulary, global_items=len(examples))


def places_of(batch: Batch) -> torch.Tensor:
    """True where a batch holds a word, False at padding."""
    return places_of(batch.sequences) if isinstance(batch, TaskBatch) else batch.is_word


def inputs_of(batch: Batch) -> str:
    """The field of the token ids that the system reads."""
    return "tokens" if isinstance(batch, WordBatch) else "inputs"


def with_input(batch: Batch, place: torch.Tensor, word: int) -> Batch:
    """The batch with another token at some places."""
    if isinstance(batch, TaskBatch):
        return replace(batch, sequences=with_input(batch.sequences, place, word))
    name = inputs_of(batch)
    return replace(batch, **{name: getattr(batch, name).masked_fill(place, word)})


@torch.no_grad()
def scores_of(model: LanguageModel, batch: Batch) -> list[torch.Tensor]:
    """What `forward` gives each row, padding left out."""
    found = model(batch)
    if isinstance(batch, TaskBatch):
        return list(found[:, None])
    return [row[here] for row, here in zip(found, batch.is_word, strict=True)]


def every_token(batch: Batch, field: str, place: torch.Tensor) -> Batch:
    """A batch of one text repeated, with token k in row k at some places of a field."""
    words = torch.arange(VOCABULARY).view(-1, *(1 for _ in place.shape[1:]))
    return replace(batch, **{field: getattr(batch, field).where(~place, words)})


def all_scores(model: LanguageModel, document: Document) -> torch.Tensor:
    """What `forward` gives each token at each place of a text, in evaluation."""
    batch = batch_of(model, [document] * VOCABULARY)
    return torch.stack(scores_of(model, every_token(batch, "targets", batch.is_word)))


def assert_same(found: Sequence[torch.Tensor], expected: Sequence[torch.Tensor], what: str, **tolerance: float) -> None:
    """Fail where two lists of tensors differ."""
    assert len(found) == len(expected), what
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, **(tolerance or CLOSE), msg=lambda text: f"{what}: {text}")


def moved(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Which scores of a text differ."""
    return (one - other).abs() > 1e-9
