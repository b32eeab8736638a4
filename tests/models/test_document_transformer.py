"""A Transformer with the contexts of documents: equal to loops over one sentence, and to what each may look at."""

from functools import partial

import numpy as np
import pytest
import torch

from depgen.backbones.awd_lstm import AWDLSTM
from depgen.backbones.transformer import Transformer
from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError
from depgen.evaluation.text.document_generation import stacked
from depgen.models import document_transformer
from depgen.models.document_transformer import (
    CrossAttentionContext,
    DocumentTransformer,
    OutputContext,
    PrefixContext,
    PreviousSentences,
    SentenceAlone,
)
from tests.models.documents import START, batch_of

VOCABULARY, WIDTH = 23, 8
CONTEXTS = {
    "alone": SentenceAlone,
    "prefix": PrefixContext,
    "output": OutputContext,
    "attention": partial(CrossAttentionContext, attention_size=3),
    "previous 1": partial(PreviousSentences, sentences=1),
    "previous 2": partial(PreviousSentences, sentences=2),
    "previous 9": partial(PreviousSentences, sentences=9),
}
REACH = {"alone": 0, "prefix": 9, "output": 1, "attention": 1, "previous 1": 1, "previous 2": 2, "previous 9": 9}
DOCUMENTS = [
    [[5, 6, 7], [8], [9, 10, 11, 12], [13, 5]],
    [[14]],
    [[7, 7], [6, 15, 16, 17, 18], [19]],
]


def model(name, **options):
    torch.manual_seed(0)
    sizes = {"layers": 2, "width": WIDTH, "attention_heads": 2, "feedforward": 16, "dropout": 0.0}
    found = DocumentTransformer(VOCABULARY, context=CONTEXTS[name], backbone=partial(Transformer, **(sizes | options)))
    for parameter in found.parameters():  # so that no part is too small to be seen
        torch.nn.init.normal_(parameter, std=0.7)
    return found.double().eval()


def features_of_sentence(found, name, before, ids):
    """By the definition of each context, from plain calls of the Transformer over one sequence at a time."""
    read = lambda tokens, **more: found.backbone(torch.tensor([tokens]), **more).hidden[0]  # noqa: E731
    own = [START, *ids]
    context = found.context
    if name == "alone":
        return read(own)
    if name.startswith("previous"):
        sequence = [token for sentence in before[-context.sentences :] for token in (START, *sentence)]
        return read([*sequence, *own])[len(sequence) :]
    if name == "prefix":
        state = context.first_context
        for sentence in [*before, ids]:
            added = torch.zeros(1, len(sentence) + 1, WIDTH).double()
            added[0, 0] = context.prefix(state)
            hidden = read([START, *sentence], added_embedding=added)
            state = hidden[-1]
        return hidden
    memory = read([START, *before[-1]]) if before else context.first_context[None]
    if name == "output":
        return read(own) + context.from_context(memory[-1])
    rows = []
    for hidden in read(own):
        scores = torch.stack([context.query(hidden) @ context.key(slot) / 3**0.5 for slot in memory])
        rows.append(hidden + context.from_context((scores.softmax(0)[:, None] * memory).sum(0)))
    return torch.stack(rows)


@pytest.mark.parametrize("name", CONTEXTS)
@torch.no_grad()
def test_a_batch_equals_one_sentence_at_a_time(name):
    found, batch = model(name), batch_of(DOCUMENTS)
    log_probs = found.log_probs(batch)
    for row, document in enumerate(DOCUMENTS):
        for place, ids in enumerate(document):
            features = features_of_sentence(found, name, document[:place], ids)
            logits = features @ found.backbone.output_weight.T
            expected = logits.log_softmax(-1)[torch.arange(len(ids) + 1), [*ids, 0]]
            torch.testing.assert_close(log_probs[row, place, : len(ids) + 1], expected, rtol=1e-9, atol=1e-9)
    assert not log_probs[~batch.is_word].any()


@pytest.mark.parametrize("name", CONTEXTS)
@torch.no_grad()
def test_what_a_change_moves(name):
    found = model(name)
    document = [[5, 6], [7, 8, 9], [10], [11, 12], [13, 14]]
    before = found.log_probs(batch_of([document]))[0]
    for changed in range(5):
        other = [list(ids) for ids in document]
        other[changed][-1] = 20  # of a sentence, only the last word
        after = found.log_probs(batch_of([other]))[0]
        moved = (before - after).abs().amax(1) > 1e-9
        for place in range(5):
            assert bool(moved[place]) == (0 <= place - changed <= REACH[name]), (changed, place)


@torch.no_grad()
def test_sequences_are_read_some_at_a_time(monkeypatch):
    found, batch, read = model("previous 1"), batch_of(DOCUMENTS), []
    expected, whole = found.log_probs(batch), found.backbone.forward
    monkeypatch.setattr(document_transformer, "POSITIONS_AT_ONCE", 20)
    monkeypatch.setattr(found.backbone, "forward", lambda tokens: read.append(tokens.shape) or whole(tokens))
    torch.testing.assert_close(found.log_probs(batch), expected, rtol=1e-12, atol=1e-12)
    assert read == [(2, 9)] * 4, "eight sentences, each behind the one before"


@pytest.mark.parametrize("name", CONTEXTS)
def test_every_parameter_learns(name):
    found = model(name)
    found.log_probs(batch_of(DOCUMENTS)).sum().backward()
    silent = [each for each, parameter in found.named_parameters() if parameter.grad is None]
    assert silent == []
    still = [each for each, parameter in found.named_parameters() if not parameter.grad.any()]
    assert still == []


@pytest.mark.parametrize("name", CONTEXTS)
def test_orders_without_reading_them_again(name):
    found, vocabulary = (
        model(name),
        Vocabulary.of_words([f"w{number}" for number in range(VOCABULARY - 3)], specials=["start"]),
    )
    assert found.sentences_alone == (name == "alone")
    table = found.pair_log_likelihoods(DOCUMENTS[0], vocabulary=vocabulary)
    assert (table is not None) == (name == "output")
    if table is None:
        return
    order = [2, 0, 3, 1]
    (scores,) = found.sentence_log_probs([[DOCUMENTS[0][place] for place in order]], vocabulary=vocabulary)
    before = [0, *(place + 1 for place in order[:-1])]
    np.testing.assert_allclose([table[pair] for pair in zip(order, before, strict=True)], [s.sum() for s in scores])


@pytest.mark.parametrize("name", ["alone", "output", "attention"])
@torch.no_grad()
def test_short_sentences_are_not_read_as_far_as_the_longest(monkeypatch, name):
    found, document = model(name), [[5] * 59, *([6, 7, 8] for _ in range(40))]
    expected, read = found.log_probs(batch_of([document])), []
    whole = found.backbone.forward
    monkeypatch.setattr(found.backbone, "forward", lambda tokens: read.append(tokens.numel()) or whole(tokens))
    torch.testing.assert_close(found.log_probs(batch_of([document])), expected, rtol=0, atol=0)
    assert sum(read) == 60 + 40 * 4


def test_a_network_of_another_kind_is_refused():
    with pytest.raises(UserError, match="found a AWDLSTM"):
        DocumentTransformer(VOCABULARY, backbone=partial(AWDLSTM, hidden_size=8, embedding_size=8, layers=1))
    with pytest.raises(UserError, match="causal: false"):
        DocumentTransformer(VOCABULARY, backbone=partial(Transformer, width=8, attention_heads=2, causal=False))


def test_more_sentences_than_can_be_read_are_refused():
    found = model("previous 2", positions="learned", max_length=8)
    with pytest.raises(UserError, match="make 10 tokens here, but the Transformer reads at most 8"):
        found.log_probs(batch_of([[[5, 6], [7, 8, 9], [10, 11], [12]]]))
    with pytest.raises(UserError, match="at least 1, found 0"):
        PreviousSentences(8, sentences=0)


@torch.inference_mode()
def test_a_document_is_read_no_wider_than_alone_once_longer_ones_are_written():
    found = model("previous 2", positions="learned", max_length=8)
    ids = torch.tensor([[START, 5, 6]])
    _, long = found.step(torch.tensor([[START, 7, 8, 9, 10, 11]]), None)
    _, short = found.step(torch.tensor([[START, 7]]), None)
    left = type(short)(*(part[1:] for part in stacked([long, short])))  # six places for a sentence of two
    torch.testing.assert_close(found.step(ids, left)[0], found.step(ids, short)[0], rtol=0, atol=1e-12)
