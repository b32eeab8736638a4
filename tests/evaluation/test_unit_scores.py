"""Scores of documents do not depend on the batches they are read in, and are those of one document at a time."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from depgen.backbones.transformer import Transformer
from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError
from depgen.evaluation.trained import Trained
from depgen.evaluation.unit_scores import _alike, next_word_figures, score_documents, sentence_batches, sequence_losses
from depgen.models.causal_lm import CausalLM
from depgen.models.dclm import DCLM, ContextToContext, ContextToOutput, NoContext
from depgen.models.masked_transformer import MaskedTransformer
from depgen.models.udgn import UDGN
from depgen.trees.sentence import Sentence
from tests.contract.batches import DOCUMENTS, all_scores, vocabulary_of
from tests.contract.systems import SYSTEMS, built

VOCABULARY = Vocabulary.of_words(list("abcdefghij"), specials=["start"])


@pytest.fixture(params=[NoContext, ContextToContext, ContextToOutput])
def model(request):
    torch.manual_seed(0)
    return DCLM(VOCABULARY.size, context=lambda size: request.param(size, size=5), embedding_size=4).double().eval()


def test_documents_of_the_same_tokens_are_read_once(model, monkeypatch):
    rows, scored = [], model.sentence_log_probs
    monkeypatch.setattr(model, "sentence_log_probs", lambda some, **k: rows.extend(some) or scored(some, **k))
    first, second, third = score_documents(model, [[[3, 4]], [[4]], [[3, 4]]], vocabulary=VOCABULARY)
    assert len(rows) == 2
    assert first[0].tolist() == third[0].tolist() != second[0].tolist()


def test_batches_are_small_on_a_cpu_but_for_systems_that_encode_sentence_by_sentence(model, monkeypatch):
    documents, sizes = [[[4] * 6 + [3 + number // base % 7 for base in (1, 7, 49)]] for number in range(343)], []
    for system in (model, CausalLM(partial(Transformer, layers=1, width=4, attention_heads=1), VOCABULARY.size).eval()):
        scored = system.sentence_log_probs
        monkeypatch.setattr(
            system, "sentence_log_probs", lambda rows, s=scored, **k: sizes.append(len(rows)) or s(rows, **k)
        )
        score_documents(system, documents, vocabulary=VOCABULARY)
    assert sizes == [343, 102, 102, 102, 37]


def test_no_document_is_no_score(model):
    assert score_documents(model, [], vocabulary=VOCABULARY) == []


def test_sequences_cost_what_they_cost_by_themselves(model):
    trained = Trained(model, VOCABULARY, Path("run"), Path("run/checkpoints/best.ckpt"))
    sequences = [np.array([4, 5, 6]), np.array([7])]
    for found, ids in zip(sequence_losses(trained, sequences), sequences, strict=True):
        ((alone,),) = model.sentence_log_probs([[ids.tolist()]], vocabulary=VOCABULARY)
        np.testing.assert_allclose(found, -alone, rtol=1e-12)


def test_sequences_cost_nothing_under_a_system_that_hides_words_in_turn():
    trained = Trained(UDGN(VOCABULARY.size, width=4, layers=1).eval(), VOCABULARY, Path("run"), Path("best.ckpt"))
    with pytest.raises(UserError, match=r"best\.ckpt .*UDGN.*pseudo, not exact"):
        sequence_losses(trained, [np.array([4])])


def test_structure_is_refused_by_systems_that_score_none(model):
    backbone = partial(Transformer, layers=1, width=4, attention_heads=1)
    for system in (model, CausalLM(backbone, VOCABULARY.size), MaskedTransformer(partial(backbone, causal=False), 13)):
        with pytest.raises(UserError, match=f"^{type(system).__name__} scores no structure, .* leave it out"):
            system.sentence_log_probs([[[4, 5]]], vocabulary=VOCABULARY, structure=[[(2, 0)]])


def test_documents_that_begin_alike_are_scored_together_by_systems_that_search():
    documents = [[[5, 6]], [[4]], [[5, 6, 7]], [[4, 4, 4, 4]], [[5]], [[4, 4]], [[9] * 9]]
    batches = list(_alike(documents, tokens_per_batch=7))
    assert batches == [[1, 5], [3, 4], [0, 2], [6]]
    assert list(_alike([], tokens_per_batch=7)) == []


@pytest.mark.parametrize("name", SYSTEMS)
def test_figures_are_those_of_all_next_words_or_refused(name):
    model, document = built(SYSTEMS[name]), DOCUMENTS[0]
    if not {"left to right", "exact"} <= SYSTEMS[name].claims:
        reason = "builds a structure too" if "bound" in SYSTEMS[name].claims else "does not predict each word"
        with pytest.raises(UserError, match=rf"A {type(model).__name__} {reason}.*: leave out next_words"):
            next_word_figures(model, [document], vocabulary=vocabulary_of(model))
        return
    (found,) = next_word_figures(model, [document], vocabulary=vocabulary_of(model))
    entropies, ranks = (np.concatenate([getattr(each, kind) for each in found]) for kind in ("entropy", "rank"))
    with torch.no_grad():
        log_probs = all_scores(model, document)
    np.testing.assert_allclose(log_probs.exp().sum(0), np.ones_like(entropies), rtol=1e-9)
    np.testing.assert_allclose(entropies, -(log_probs.exp() * log_probs).nan_to_num().sum(0), atol=1e-9)
    vocabulary, ends = vocabulary_of(model), len(found[0].rank) > len(document[0])
    closed = [[*ids, vocabulary.eos] if ends or ids is document[-1] else ids for ids in document]
    own = log_probs.gather(0, torch.tensor([[token for ids in closed for token in ids]]))
    assert ranks.tolist() == (1 + (log_probs > own).sum(0)).tolist()


# -- sentences as batches ---------------------------------------------------------------------------------------------

KNOWN = Vocabulary.of_words(["a", "b", "c"], specials=["mask_id"])
SENTENCES = [
    Sentence(("a", "b", "c"), (2, 0, 2)),
    Sentence((), ()),
    Sentence(("zebra",), (0,)),
    Sentence(("c",) * 5, (0, 1, 2, 3, 4)),
    Sentence(("b", "a"), (0, 1)),
]


@pytest.mark.parametrize("budget", [1, 6, 100])
def test_every_sentence_with_words_is_in_one_batch_with_its_tree(budget):
    seen = []
    for batch in sentence_batches(KNOWN, SENTENCES, tokens_per_batch=budget):
        assert batch.tokens.numel() <= max(budget, batch.tokens.shape[1])
        assert batch.tokens.shape[1] == batch.lengths.max() > 0
        for item, tokens, heads, n in zip(batch.items, batch.tokens, batch.heads, batch.lengths, strict=True):
            sentence = SENTENCES[item]
            assert tokens[:n].tolist() == [KNOWN.pieces(word)[0] for word in sentence.words]
            assert tokens[n:].tolist() == [KNOWN.eos] * (len(tokens) - len(sentence))
            assert heads[:n].tolist() == list(sentence.heads)
            seen.append(int(item))
    assert sorted(seen) == [0, 2, 3, 4]


def test_sentences_without_trees_and_none_at_all():
    (batch,) = sentence_batches(KNOWN, [Sentence(("a",)), Sentence(("b", "c"))], tokens_per_batch=9)
    assert batch.heads is None
    assert not list(sentence_batches(KNOWN, [], tokens_per_batch=9))
    assert not list(sentence_batches(KNOWN, [Sentence(())], tokens_per_batch=9))


def test_a_vocabulary_without_mask_is_refused():
    with pytest.raises(UserError, match="masks: true"):
        list(sentence_batches(Vocabulary.of_words(["a"]), [Sentence(("a",))], tokens_per_batch=9))
