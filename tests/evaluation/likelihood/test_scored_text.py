"""Scores of words, sentences and documents: sums over pieces, and those of the `transformers` library itself."""

import math
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from depgen.backbones.pretrained import PretrainedTransformer
from depgen.backbones.transformer import Transformer
from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError
from depgen.evaluation.encoded_text import TextEncoder
from depgen.evaluation.likelihood.scored_text import ScoredWord, Totals, score_texts
from depgen.evaluation.reading import Reading
from depgen.evaluation.text_documents import TextDocument
from depgen.evaluation.trained import Trained
from depgen.models.causal_lm import CausalLM
from depgen.models.dclm import DCLM, ContextToContext
from depgen.models.masked_transformer import MaskedTransformer
from depgen.trees.sentence import Sentence
from tests.models.encoders import encoder, spread

TEXT = [["the cat", "dogs ran", "a"], ["the unheard cat"]]


def documents_of(*documents):
    return [
        TextDocument(
            f"d{n}",
            tuple(Sentence(tuple(line.split())) for line in lines),
            tuple(f"t.txt:{n}.{k}" for k in range(1, len(lines) + 1)),
        )
        for n, lines in enumerate(documents, start=1)
    ]


def trained(model, vocabulary):
    return Trained(model.eval(), vocabulary, Path("run"), Path("run/best.ckpt"))


def encoder_of(model, vocabulary, form="as_is", *, as_one=False, **reading):
    return TextEncoder(trained(model, vocabulary), Reading(form, **reading), as_one)


WORDS = Vocabulary.of_words(["the", "cat", "dogs", "ran", "a"], specials=["mask_id", "start"])


@pytest.fixture
def causal():
    torch.manual_seed(0)
    sizes = {"layers": 1, "width": 8, "attention_heads": 2, "feedforward": 8, "positions": "learned", "max_length": 8}
    return spread(CausalLM(partial(Transformer, **sizes), WORDS.size))


# -- against the library -----------------------------------------------------------------------------------------------


def test_words_of_several_pieces_cost_what_the_library_says(tiny_gpt2):
    from transformers import GPT2LMHeadModel, PreTrainedTokenizerFast

    network = GPT2LMHeadModel.from_pretrained(tiny_gpt2).eval()
    tokenizer = PreTrainedTokenizerFast.from_pretrained(tiny_gpt2)
    vocabulary = Vocabulary((tiny_gpt2 / "tokenizer.json").read_text(), specials={"eos": "<bos>"})
    model = CausalLM(partial(PretrainedTransformer, pretrained=str(tiny_gpt2)), vocabulary.size)
    texts = ["the old dog saw a quizzical platypus .", "Ränder, it was late", "ran"]
    (document,) = score_texts(encoder_of(model, vocabulary), documents_of(texts))
    for text, scored in zip(texts, document.sentences, strict=True):
        coded = tokenizer(f" {text}", add_special_tokens=False, return_offsets_mapping=True)
        ids = torch.tensor([[0, *coded["input_ids"], 0]])
        with torch.no_grad():
            logits = network(ids[:, :-1]).logits[0].double()
        nats = -logits.log_softmax(-1).gather(1, ids[0, 1:, None])[:, 0].numpy()
        owner = [f" {text}"[:end].count(" ") - 1 for _, end in coded["offset_mapping"]]
        expected = np.bincount([*owner, len(text.split())], weights=nats)
        assert [word.word for word in scored] == [*text.split(), "<eos>"]
        np.testing.assert_allclose([-word.log_prob for word in scored], expected, rtol=0, atol=1e-5)
        assert [word.tokens for word in scored] == [*np.bincount(owner), 1]
        assert not any(word.unknown for word in scored)
    assert max(word.tokens for word in document.words) > 3


# -- what is read as one -----------------------------------------------------------------------------------------------


def test_ends_stand_where_the_system_predicts_them(causal):
    documents = documents_of(*TEXT)
    apart, together = (score_texts(encoder_of(causal, WORDS, as_one=as_one), documents) for as_one in (False, True))
    ends = [[sum(word.is_end for word in sentence) for sentence in each.sentences] for each in apart + together]
    assert ends == [[1, 1, 1], [1], [0, 0, 1], [1]]
    assert together[1].sentences == apart[1].sentences, "a document of one sentence is this sentence"
    assert together[0].sentences[1] != apart[0].sentences[1], "else what stands before counts"


def test_systems_that_know_of_sentences_are_given_them():
    torch.manual_seed(0)
    model = spread(DCLM(WORDS.size, context=partial(ContextToContext, size=5), embedding_size=4))
    for as_one in (True, False):
        (document, _) = score_texts(encoder_of(model, WORDS, as_one=as_one), documents_of(*TEXT))
        units = [[[4, 5], [6, 7], [8]]] if as_one else [[[4, 5]], [[6, 7]], [[8]]]
        expected = [s for scores in model.sentence_log_probs(units, vocabulary=WORDS) for s in scores]
        found = [[word.log_prob for word in sentence] for sentence in document.sentences]
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5)


# -- forms and unknown words -------------------------------------------------------------------------------------------


def test_words_that_are_not_read_keep_their_place_without_a_score(causal):
    (document,) = score_texts(encoder_of(causal, WORDS, "bare"), documents_of(["`` The cat , ran .", "...", "DOGS"]))
    (plain,) = score_texts(encoder_of(causal, WORDS), documents_of(["the cat ran", "dogs"]))
    first, dots, last = document.sentences
    assert [word.word for word in first] == ["``", "The", "cat", ",", "ran", ".", "<eos>"]
    assert [word.tokens for word in first] == [0, 1, 1, 0, 1, 0, 1]
    read = [word.log_prob for word in first if word.tokens]
    assert read == pytest.approx([word.log_prob for word in plain.sentences[0]], rel=1e-6)
    assert [word.log_prob for word in last] == pytest.approx([word.log_prob for word in plain.sentences[1]], rel=1e-6)
    assert dots == (ScoredWord("...", 0, False, 0.0),)
    totals = Totals.of(document.words)
    assert (totals.words, totals.ends, totals.tokens, totals.unread, totals.unknown) == (4, 2, 6, 4, 0)


def test_unknown_words_are_scored_as_such_and_counted(causal):
    (one, other) = score_texts(encoder_of(causal, WORDS), documents_of(["the xyzzy cat"], ["the <eos> cat"]))
    assert [word.unknown for word in one.words] == [False, True, False, False]
    for first, second in zip(one.words, other.words, strict=True):
        assert (first.tokens, first.unknown, first.log_prob) == (second.tokens, second.unknown, second.log_prob)
    totals = Totals.of(one.words)
    known = sum(word.log_prob for word in one.words if not word.unknown)
    assert totals.perplexities("exact")["known_word_perplexity"] == pytest.approx(math.exp(-known / 3))


def test_nothing_but_unknown_words_has_a_score(causal):
    (document,) = score_texts(encoder_of(causal, WORDS), documents_of(["xyzzy plugh"]))
    totals = Totals.of(document.words)
    assert (totals.words, totals.unknown) == (2, 2)
    assert math.isfinite(totals.log_prob)


# -- perplexities ------------------------------------------------------------------------------------------------------


def test_perplexities_are_exponentials_of_sums_over_counts_and_named_by_their_kind():
    words = [ScoredWord("a", 3, False, -6.0), ScoredWord("b", 1, True, -1.0), ScoredWord(",", 0, False, 0.0)]
    totals = Totals.of([*words, ScoredWord("<eos>", 1, False, -2.0, is_end=True)])
    exact, pseudo, bound = (totals.perplexities(kind) for kind in ("exact", "pseudo", "bound"))
    expected = [math.exp(9 / 3), math.exp(9 / 5), math.exp(8 / 2)]
    assert list(exact.values()) == pytest.approx(expected)
    assert list(exact) == ["perplexity", "token_perplexity", "known_word_perplexity"]
    assert list(pseudo) == ["pseudo_perplexity", "token_pseudo_perplexity", "known_word_pseudo_perplexity"]
    assert list(bound) == ["perplexity_bound", "token_perplexity_bound", "known_word_perplexity_bound"]
    assert set(Totals().perplexities("exact").values()) == {None}
    assert Totals(words=1, tokens=1, log_prob=-1e4).perplexities("exact")["perplexity"] == math.inf


def test_masked_systems_predict_no_end_and_read_sentence_by_sentence():
    model = spread(MaskedTransformer(encoder(), WORDS.size))
    (first, second) = score_texts(encoder_of(model, WORDS), documents_of(*TEXT))
    assert not any(word.is_end for word in [*first.words, *second.words])
    (alone,) = score_texts(encoder_of(model, WORDS), documents_of([TEXT[0][1]]))
    assert [word.log_prob for word in alone.words] == pytest.approx(
        [word.log_prob for word in first.sentences[1]], rel=1e-5
    )


# -- what can't be scored ----------------------------------------------------------------------------------------------


def test_a_text_that_is_too_long_is_named_by_its_place(causal):
    assert causal.longest_scored == 7
    fits = documents_of(["a", " ".join(["a"] * 7)])
    assert len(score_texts(encoder_of(causal, WORDS), fits)[0].sentences[1]) == 8
    with pytest.raises(UserError, match=r"^t\.txt:1\.2: .*7 tokens.*found 8: cut it"):
        score_texts(encoder_of(causal, WORDS), documents_of(["a", " ".join(["a"] * 8)]))
    with pytest.raises(UserError, match=r"^t\.txt:2\.1: .*document .*7.*8: leave out --reads document"):
        score_texts(encoder_of(causal, WORDS, as_one=True), documents_of(["a"], ["a a a a", "a a a a"]))


def test_a_text_without_a_word_that_is_read_has_no_score(causal):
    first, second = score_texts(encoder_of(causal, WORDS, "bare"), documents_of(["...", "!"], ["``"]))
    assert [(word.word, word.surprisal) for word in first.words + second.words] == [
        ("...", None), ("!", None), ("``", None),
    ]  # fmt: skip
