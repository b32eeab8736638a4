"""The plain model: its loss is the softmax's, nothing looks ahead, and it writes what it scores."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F

from depgen.data.batch import collate_tokens
from depgen.decoding.settings import Sampling
from depgen.errors import UserError
from depgen.models.causal_lm import CausalLM
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
    with pytest.raises(UserError, match=r"3 tokens, <eos> in front included; with 5 new .* at most 4 new tokens"):
        model.generate([[2, 3]], max_new_tokens=5, **options)
    with pytest.raises(UserError, match="Shorten the prompts"):
        model.generate([[2] * 9], max_new_tokens=1, **options)


def test_a_network_that_sees_later_words_is_refused(transformer):
    with pytest.raises(UserError, match="causal: true"):
        model_of(partial(transformer, causal=False))


def test_each_phase_gets_a_fresh_optimiser(backbone):
    model = model_of(backbone)
    first, second = model.configure_optimizers(), model.configure_optimizers()
    assert first is not second
    assert not second.state
