"""Context networks by name, small systems of them, and batches of whole documents from token ids."""

from functools import partial

import numpy as np
import torch

from depgen.data.batch import ItemBatch, SegmentItem, collate_documents
from depgen.models.dclm import (
    DCLM,
    AttentionContext,
    CarriedState,
    ContextToContext,
    ContextToOutput,
    HierarchicalContext,
    NoContext,
)
from tests.vocabularies import NO_WORDS_BUT_START

START = 2
CONTEXTS = {
    "rnnlm": NoContext,
    "drnnlm": CarriedState,
    "hrnnlm": HierarchicalContext,
    "ccdclm": ContextToContext,
    "codclm": ContextToOutput,
    "adclm": AttentionContext,
    "adclm code2015": partial(AttentionContext, variant="code2015"),
}


def small_model(name, vocabulary_size):
    """A system of one of these contexts, in float64 and in evaluation."""
    torch.manual_seed(0)
    model = DCLM(vocabulary_size, context=partial(CONTEXTS[name], size=3), embedding_size=3)
    return model.double().eval()


def batch_of(documents):
    items = [SegmentItem(k, [np.array(ids) for ids in sentences]) for k, sentences in enumerate(documents)]
    tokens = sum(len(ids) + 1 for sentences in documents for ids in sentences)
    return collate_documents(ItemBatch(items, tokens, NO_WORDS_BUT_START, global_items=len(items)))
