"""The plain model: its loss is the softmax's, nothing looks ahead, and it writes what it scores."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from depgen.data.batch import ItemBatch, TokenItem, collate_tokens
from depgen.data.vocabulary import Vocabulary
from depgen.decoding.settings import Sampling
from depgen.errors import UserError
from depgen.models.causal_lm import CausalLM
from depgen.training.tree_regularization import TreeRegularization, possible_cuts
from tests.models.conftest import VOCABULARY, items
from tests.vocabularies import NO_WORDS


def model_of(backbone):
    torch.manual_seed(0)
    return CausalLM(backbone, VOCABULARY).eval()


def test_log_probs_are_those_of_cross_entropy(backbone):
    model, batch = model_of(backbone), collate_tokens(items(0, 1))
    logits = model.backbone(batch.inputs).hidden @ model.backbone.output_weight.T
    expected = -F.cross_entropy(logits.transpose(1, 2), batch.targets, reduction="none")
    torch.testing.assert_close(model.log_probs(batch), expected)


def test_texts_that_do_not_fit_into_learned_positions_are_refused_before_writing(transformer):
    model = model_of(partial(transformer, positions="learned", max_length=6))
    options = {"vocabulary": NO_WORDS, "options": Sampling(greedy=True), "seeds": [1]}
    assert len(model.generate([[2, 3]], max_new_tokens=4, **options)[0].ids) <= 4  # the last is not read again
    with pytest.raises(UserError, match=r"3 tokens, <eos> in front included; with 5 new"):
        model.generate([[2, 3]], max_new_tokens=5, **options)


def test_a_network_that_sees_later_words_is_refused(transformer):
    with pytest.raises(UserError, match="causal: true"):
        model_of(partial(transformer, causal=False))


SPANS = [[(0, 4), (0, 2), (2, 4)], [(0, 3), (1, 3)]]
REGULARIZATION = TreeRegularization(layer=1, share=0.5, weight=0.3, every=1)


def tree_batch(model, spans=SPANS):
    sentences = [TokenItem(k, np.arange(3, 3 + ids)) for k, ids in enumerate((4, 3))]
    if spans is not None:
        sentences = [replace(item, spans=np.array(each)) for item, each in zip(sentences, spans, strict=True)]
    return model.collate(ItemBatch(sentences, 9, Vocabulary.of_words("abcdefgh")))


def test_tree_regularisation_adds_the_penalty_of_one_layers_states(transformer):
    torch.manual_seed(0)
    model = CausalLM(transformer, VOCABULARY, tree_regularization=REGULARIZATION).eval()
    batch = tree_batch(model)
    states = model.backbone(batch.inputs, all_layers=True).layers[1][:, 1:]  # without that of <eos>
    chart = REGULARIZATION.chart(states[:, :4], torch.tensor([[True] * 4, [True] * 3 + [False]]))
    rows = [possible_cuts(each, np.ones(4, bool), row=row, first=row) for row, each in enumerate(SPANS)]
    assert batch.cuts.tolist() == np.concatenate(rows).tolist()
    assert batch.cuts[:, 4].tolist() == [0, 0, 0, 1, 1]  # the number of the span
    penalty = REGULARIZATION(F.pad(chart, (0, 1, 0, 1)), batch.cuts, 2)
    plain = -model.log_probs(batch)[batch.is_word].sum() / 9
    torch.testing.assert_close(model.training_step(batch, 0), plain + 0.3 * penalty)
    assert penalty > 0.1
    with pytest.raises(UserError, match=r"data\.init_args\.annotator"):
        model.training_step(tree_batch(model, None), 0)


def test_tree_regularisation_is_due_every_few_steps_and_refuses_other_layers(transformer, monkeypatch):
    model = CausalLM(transformer, VOCABULARY, tree_regularization=replace(REGULARIZATION, every=3))
    due = []
    monkeypatch.setattr(model, "_tree_penalty", lambda output, batch: due.append(step) or output.hidden.sum() * 0)
    for step in range(7):
        monkeypatch.setattr(CausalLM, "global_step", step, raising=False)
        model.training_step(tree_batch(model), 0)
    assert due == [0, 3, 6]
    with pytest.raises(UserError, match=r"tree_regularization\.layer: expected 1 to"):
        CausalLM(transformer, VOCABULARY, tree_regularization=replace(REGULARIZATION, layer=9))


def test_words_of_several_tokens_are_not_cut_by_tree_regularisation(transformer):
    model = CausalLM(transformer, VOCABULARY, tree_regularization=REGULARIZATION)
    ends = np.array([False, True, True, True])  # (ab c d): the tokens a and b are a word
    item = TokenItem(0, np.arange(3, 7), spans=np.array([[0, 4]]), word_ends=ends)
    batch = model.collate(ItemBatch([item], 5, Vocabulary.of_words("abcdefgh")))
    assert batch.cuts[:, 1:].tolist() == [[0, 2, 4, 0, 1], [0, 3, 4, 0, 0]]
