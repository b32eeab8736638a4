"""Systems in the form of the transformers library: log-probabilities and tokens are those of `System.score`."""

from functools import partial
from pathlib import Path

import pytest
import torch

from depgen.backbones.awd_lstm import AWDLSTM
from depgen.backbones.transformer import Transformer
from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError
from depgen.evaluation.reading import Reading
from depgen.evaluation.system import System, load
from depgen.integrations.next_word_model import NextWordModel, SystemTokenizer
from depgen.models.causal_lm import CausalLM
from depgen.models.dmlm import DMLM
from depgen.models.masked_transformer import MaskedTransformer
from depgen.models.pushdown import Pushdown
from tests.models.encoders import encoder, spread

VOCABULARY = Vocabulary.of_words(["the", "cat", "dogs", "ran", "a", "."], specials=["mask_id"])
SIZES = {"layers": 2, "width": 8, "attention_heads": 2, "feedforward": 8}
MODELS = {
    "causal": partial(CausalLM, partial(Transformer, **SIZES)),
    "recurrent": partial(CausalLM, partial(AWDLSTM, layers=1, hidden_size=6, embedding_size=6)),
    "mixture": partial(DMLM, partial(Transformer, **SIZES)),
}


def system_of(make, form="lower"):
    model = spread(make(VOCABULARY.size))
    model.enter_phase(len(model.phases) - 1)
    return System(model.eval(), VOCABULARY, Path("run"), Path("run/best.ckpt"), Reading(form))


def by_library(system, text):
    """Nats of a text's tokens and its end, by the wrapped model and tokenizer."""
    tokenizer, end = SystemTokenizer(system), system.vocabulary.eos
    ids = torch.tensor([[end, *tokenizer.encode(text), end]])
    log_probs = NextWordModel(system).eval()(ids[:, :-1]).logits
    return log_probs[0].gather(1, ids[0, 1:, None])[:, 0].sum().item()


@pytest.mark.parametrize("name", MODELS)
def test_texts_have_the_scores_of_the_system(name):
    system, texts = system_of(MODELS[name]), ["The cat  ran .", "dogs saw a xylophone", "."]
    for text, log_prob in zip(texts, system.score(texts, by="document")["log_prob"], strict=True):
        assert by_library(system, text) == pytest.approx(log_prob, abs=1e-5)


@pytest.mark.parametrize("space", [False, True])
def test_pieces_begin_as_the_system_begins_them(gpt2, space):
    system, texts = load(gpt2, device="cpu", first_word_space=space), ["the cat sat on the mat", "Again, the cat!"]
    for text, log_prob in zip(texts, system.score(texts, by="document")["log_prob"], strict=True):
        assert by_library(system, text) == pytest.approx(log_prob, abs=1e-5)


def test_the_tokenizer_keeps_beginnings_and_pads_with_the_end():
    tokenizer = SystemTokenizer(system_of(MODELS["causal"]))
    found = tokenizer(["<eos>The Cat ran<eos>", "a"], padding=True)
    assert found["input_ids"] == [[0, *(VOCABULARY.pieces(word)[0] for word in ("the", "cat", "ran")), 0],
                                  [*VOCABULARY.pieces("a"), 0, 0, 0, 0]]  # fmt: skip
    assert [sum(row) for row in found["attention_mask"]] == [5, 1]
    assert tokenizer.decode([3, 4]) == VOCABULARY.decode([3, 4])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (partial(MaskedTransformer, encoder()), "predicts each token from those before it, found a MaskedTransformer"),
        (partial(Pushdown, partial(Transformer, **SIZES, positions="relative")), "found a Pushdown in run"),
    ],
)
def test_other_systems_are_refused(make, message):
    with pytest.raises(UserError, match=message):
        NextWordModel(system_of(make))
