"""Context networks by name, and batches of whole documents from token ids."""

from functools import partial

import numpy as np

from depgen.data.documents import SegmentBatch, SegmentItem, collate_documents
from depgen.models import document_transformer
from depgen.models.dclm import (
    AttentionContext,
    CarriedState,
    ContextToContext,
    ContextToOutput,
    HierarchicalContext,
    NoContext,
)

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
    "transformer attention": partial(document_transformer.AttentionContext, attention_size=3),
    "transformer previous": partial(document_transformer.PreviousSentences, sentences=2),
}


def batch_of(documents):
    items = [SegmentItem(k, [np.array(ids) for ids in sentences]) for k, sentences in enumerate(documents)]
    tokens = sum(len(ids) + 1 for sentences in documents for ids in sentences)
    return collate_documents(SegmentBatch(items, tokens, len(items), start=START))
