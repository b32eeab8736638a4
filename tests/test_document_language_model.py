"""Pairs of sentences of a document computed at once are those that reading finds, where a system has such."""

import numpy as np
import pytest
import torch

from depgen.data.vocabulary import Vocabulary
from depgen.evaluation.likelihood import score_documents
from depgen.models.dclm import (
    DCLM,
    AttentionContext,
    CarriedState,
    ContextToContext,
    ContextToOutput,
    HierarchicalContext,
    NoContext,
)

VOCABULARY = Vocabulary(list("abcdefghij"), starts=True)
SENTENCES = [[3, 4, 5], [6], [7, 8, 3, 3], [9, 4], [6, 6]]
CONTEXTS = [NoContext, CarriedState, HierarchicalContext, AttentionContext, ContextToContext, ContextToOutput]


def model(context, *, dtype=torch.float64):
    torch.manual_seed(0)
    found = DCLM(VOCABULARY.size, context=lambda size: context(size, size=5), embedding_size=4)
    for parameter in found.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return found.to(dtype).eval()


def read(found, *documents):
    scores = score_documents(found, documents, vocabulary=VOCABULARY)
    return [[each.sum(dtype=np.float64) for each in document] for document in scores]


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_a_table_of_pairs_is_what_reading_finds(dtype, tolerance):
    found = model(ContextToOutput, dtype=dtype)
    table = found.pair_log_likelihoods(SENTENCES, vocabulary=VOCABULARY)
    assert table.shape == (5, 6)
    for place, sentence in enumerate(SENTENCES):
        expected = [read(found, [sentence])[0][0]]
        expected += [read(found, [before, sentence])[0][1] for before in SENTENCES]
        np.testing.assert_allclose(table[place], expected, rtol=0, atol=tolerance)
    assert np.ptp(table, axis=1).min() > 0.01, "contexts that move nothing would prove nothing"


@pytest.mark.parametrize("context", CONTEXTS)
def test_only_a_context_of_one_sentence_has_a_table(context):
    found = model(context)
    table = found.pair_log_likelihoods(SENTENCES, vocabulary=VOCABULARY)
    assert (table is not None) == found.sentences_in_pairs == (context is ContextToOutput)


@pytest.mark.parametrize("context", CONTEXTS)
def test_sentences_that_stand_alone_are_told_apart(context):
    found = model(context)
    (inside,), alone = read(found, SENTENCES), [scores[0] for scores in read(found, *([ids] for ids in SENTENCES))]
    same = np.allclose(inside, alone, rtol=0, atol=1e-12)
    assert found.sentences_alone == same == (context is NoContext)
