"""`check_system` finds each fault of a system of one's own, and names it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from depgen.data.batch import ItemBatch, SegmentItem, TokenBatch, TokenItem, collate_tokens
from depgen.data.vocabulary import Vocabulary
from depgen.language_models.document import DocumentLanguageModel, DocumentOutput
from depgen.language_models.left_to_right import LeftToRight
from depgen.models.itexp import ITEXP, collate_levels
from depgen.testing import check_system
from tests.contract.systems import SYSTEMS, built
from tests.contract.trees import TREES, binary_tree

VOCABULARY = Vocabulary.of_words("abcdefgh")
WITH_START = Vocabulary.of_words("abcdefgh", specials=["start"])
ITEMS = [TokenItem(0, np.array([3, 4, 5, 6]), heads=np.array([2, 0, 4, 2])), TokenItem(1, np.array([7, 3]))]


def collate_heads(batch: ItemBatch) -> TokenBatch:
    """Reads the head of each word, which may come later, in place of the word before it."""
    tokens = collate_tokens(batch)
    for row, item in enumerate(batch.items):
        if item.heads is not None:
            heads = [item.ids[max(head - 1, 0)] for head in item.heads]
            tokens.inputs[row, : len(heads)] = torch.tensor(heads)
    return tokens


class Own(LeftToRight):
    """The next token from the last one, with a fault."""

    def __init__(self, vocabulary_size: int, fault: str = ""):
        super().__init__()
        self.save_hyperparameters()
        self.fault, self.table = fault, nn.Embedding(vocabulary_size, vocabulary_size)
        self.unsaved = torch.randn(vocabulary_size) if fault == "unsaved" else torch.zeros(vocabulary_size)

    @property
    def collate(self):
        return collate_heads if self.fault == "trees" else collate_tokens

    def log_probs(self, batch):
        logits = self.table(batch.inputs) + self.unsaved
        if self.fault == "batch":
            logits = logits * batch.inputs.float().mean()
        if self.fault == "own":
            logits = logits + self.table(batch.targets)
        if self.fault == "tokens":
            logits = logits + logits.flip(1).cumsum(1).flip(1)
        return logits.log_softmax(-1).gather(-1, batch.targets[..., None]).squeeze(-1)


def test_a_system_without_fault_passes():
    check_system(Own(VOCABULARY.size), ITEMS, VOCABULARY)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("batch", "token 1 of item 1 depends on the other items of its batch"),
        ("tokens", "token 1 of item 1 depends on token 2"),
        ("trees", "token 1 of item 1 depends on token 2"),
        ("own", "all tokens in place 1 sum to"),
        ("unsaved", "token 1 of item 1 is another one after saving and loading"),
    ],
)
def test_a_fault_is_named(fault, message):
    torch.manual_seed(0)
    items = ITEMS[:1] if fault == "tokens" else ITEMS  # a batch of unlike lengths shows it too
    with pytest.raises(AssertionError, match=message):
        check_system(Own(VOCABULARY.size, fault), items, VOCABULARY)


@pytest.mark.parametrize("looks_ahead", [False, True])
def test_a_system_that_sees_later_sentences_is_found(looks_ahead):
    class OwnOfDocuments(DocumentLanguageModel):
        """The next token from the last one; with a fault, from the sentences that follow too."""

        def __init__(self):
            super().__init__()
            self.save_hyperparameters()
            self.table, self.output = nn.Embedding(WITH_START.size, 5), nn.Linear(5, WITH_START.size)

        def encode(self, batch):
            embedded = self.table(batch.inputs)
            later = embedded[:, 1:].sum((1, 2)) if looks_ahead else 0 * embedded[:, 0, 0]
            here = torch.arange(embedded.shape[1]) == 0
            return DocumentOutput(embedded + here[:, None, None] * later[:, None, None])

    torch.manual_seed(0)
    documents = [SegmentItem(0, [np.array([4, 5]), np.array([6, 7, 8])]), SegmentItem(1, [np.array([7, 4])])]
    if not looks_ahead:
        check_system(OwnOfDocuments(), documents, WITH_START)
        return
    with pytest.raises(AssertionError, match="token 1 of item 1 depends on token 4"):
        check_system(OwnOfDocuments(), documents[:1], WITH_START)


def test_words_that_see_each_other_in_their_level_are_found(monkeypatch):
    def collate_words(batch):
        """Reads the words of a level in place of their placeholders."""
        levels = collate_levels(batch)
        return replace(levels, inputs=levels.targets)

    monkeypatch.setattr(ITEXP, "collate", property(lambda model: collate_words))
    heads, relations = map(np.array, binary_tree(6))
    item = TokenItem(0, np.array([3, 4, 5, 6, 7, 8]), heads, relations=relations)
    with pytest.raises(AssertionError, match="The scores of tokens 1 and 3 of item 1 depend on each other"):
        check_system(built(SYSTEMS["ITEXP"]), [item], TREES)
