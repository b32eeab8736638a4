"""Context networks by name, small systems of them, and batches of whole documents from token ids."""

from functools import partial

import numpy as np
import torch

from depgen.backbones.transformer import Transformer
from depgen.data.batch import ItemBatch, SegmentItem, collate_documents
from depgen.models import document_transformer
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
TRANSFORMERS = {
    "transformer alone": document_transformer.SentenceAlone,
    "transformer prefix": document_transformer.PrefixContext,
    "transformer output": document_transformer.OutputContext,
    "transformer attention": partial(document_transformer.CrossAttentionContext, attention_size=3),
    "transformer previous": partial(document_transformer.PreviousSentences, sentences=2),
}


def small_model(name, vocabulary_size):
    """A system of one of these contexts, in float64 and in evaluation."""
    torch.manual_seed(0)
    if name in TRANSFORMERS:
        backbone = partial(Transformer, layers=1, width=4, attention_heads=1, feedforward=4, dropout=0.0)
        found = document_transformer.DocumentTransformer(vocabulary_size, context=TRANSFORMERS[name], backbone=backbone)
    else:
        more = {"attention_size": 2} if name.startswith("adclm") else {}
        found = DCLM(vocabulary_size, context=partial(CONTEXTS[name], size=3, **more), embedding_size=3)
    return found.double().eval()


def batch_of(documents):
    items = [SegmentItem(k, [np.array(ids) for ids in sentences]) for k, sentences in enumerate(documents)]
    tokens = sum(len(ids) + 1 for sentences in documents for ids in sentences)
    return collate_documents(ItemBatch(items, tokens, NO_WORDS_BUT_START, global_items=len(items)))
