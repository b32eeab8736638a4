"""Scores of words and their sums: over pieces against the `transformers` library itself, over levels in closed form."""

import math
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from depgen.backbones.pretrained import PretrainedTransformer
from depgen.backbones.transformer import Transformer
from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError
from depgen.evaluation.reading import Reading
from depgen.evaluation.scores import score_words, sums, with_perplexities
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


def scored(model, vocabulary, documents, form="as_is", *, reads="sentence"):
    trained = Trained(model.eval(), vocabulary, Path("run"), Path("run/best.ckpt"), Reading(form))
    return score_words(trained, documents, reads=reads)


def sentences_of(words, document=1):
    """The rows of each sentence."""
    own = words[words["document"] == document]
    return [rows for _, rows in own.groupby("sentence")]


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
    words = scored(model, vocabulary, documents_of(texts))
    for text, rows in zip(texts, sentences_of(words), strict=True):
        coded = tokenizer(f" {text}", add_special_tokens=False, return_offsets_mapping=True)
        ids = torch.tensor([[0, *coded["input_ids"], 0]])
        with torch.no_grad():
            logits = network(ids[:, :-1]).logits[0].double()
        nats = -logits.log_softmax(-1).gather(1, ids[0, 1:, None])[:, 0].numpy()
        owner = [f" {text}"[:end].count(" ") - 1 for _, end in coded["offset_mapping"]]
        expected = np.bincount([*owner, len(text.split())], weights=nats)
        assert rows["word"].tolist() == [*text.split(), "<eos>"]
        np.testing.assert_allclose(-rows["log_prob"], expected, rtol=0, atol=1e-5)
        assert rows["tokens"].tolist() == [*np.bincount(owner), 1]
        assert not rows["unknown"].any()
    assert words["tokens"].max() > 3


# -- what is read as one -----------------------------------------------------------------------------------------------


def test_ends_stand_where_the_system_predicts_them(causal):
    documents = documents_of(*TEXT)
    apart, together = (scored(causal, WORDS, documents, reads=reads) for reads in ("sentence", "document"))
    levels = ["document", "sentence"]
    ends = [words.groupby(levels)["is_end"].sum().tolist() for words in (apart, together)]
    assert ends == [[1, 1, 1, 1], [0, 0, 1, 1]]
    first, second = (sums(words, levels)["log_prob"] for words in (apart, together))
    assert second.loc[2, 1] == pytest.approx(first.loc[2, 1]), "a document of one sentence is this sentence"
    assert second.loc[1, 2] != pytest.approx(first.loc[1, 2], abs=1e-3), "else what stands before counts"


def test_systems_that_know_of_sentences_are_given_them():
    torch.manual_seed(0)
    model = spread(DCLM(WORDS.size, context=partial(ContextToContext, size=5), embedding_size=4))
    for reads in ("document", "sentence"):
        words = scored(model, WORDS, documents_of(*TEXT), reads=reads)
        units = [[[4, 5], [6, 7], [8]]] if reads == "document" else [[[4, 5]], [[6, 7]], [[8]]]
        expected = [s for scores in model.sentence_log_probs(units, vocabulary=WORDS) for s in scores]
        for one, other in zip(sentences_of(words), expected, strict=True):
            np.testing.assert_allclose(one["log_prob"], other, rtol=1e-5)


# -- forms and unknown words -------------------------------------------------------------------------------------------


def test_words_that_are_not_read_keep_their_place_without_a_score(causal):
    words = scored(causal, WORDS, documents_of(["`` The cat , ran .", "...", "DOGS"]), "bare")
    plain = scored(causal, WORDS, documents_of(["the cat ran", "dogs"]))
    first, dots, _ = sentences_of(words)
    assert first["word"].tolist() == ["``", "The", "cat", ",", "ran", ".", "<eos>"]
    assert first["tokens"].tolist() == [0, 1, 1, 0, 1, 0, 1]
    np.testing.assert_allclose(words["log_prob"].dropna(), plain["log_prob"], rtol=1e-6)
    assert dots[["word", "tokens", "unknown"]].to_numpy().tolist() == [["...", 0, False]]
    (total,) = sums(words).to_dict("records")
    assert [total[name] for name in ("words", "ends", "tokens", "unread", "unknown")] == [4, 2, 6, 4, 0]


def test_unknown_words_are_scored_as_such_and_counted(causal):
    words = scored(causal, WORDS, documents_of(["the xyzzy cat"], ["the <eos> cat"]))
    one, other = (words[words["document"] == number] for number in (1, 2))
    assert one["unknown"].tolist() == [False, True, False, False]
    for name in ("tokens", "unknown", "log_prob"):
        assert one[name].tolist() == other[name].tolist()
    known = one.loc[~one["unknown"], "log_prob"].sum()
    found = with_perplexities(sums(one), "exact")
    assert found["known_word_perplexity"].item() == pytest.approx(math.exp(-known / 3))


def test_nothing_but_unknown_words_has_a_score(causal):
    (total,) = sums(scored(causal, WORDS, documents_of(["xyzzy plugh"]))).to_dict("records")
    assert (total["words"], total["unknown"]) == (2, 2)
    assert math.isfinite(total["log_prob"])


# -- perplexities ------------------------------------------------------------------------------------------------------


def test_perplexities_are_exponentials_of_sums_over_counts_and_named_by_their_kind():
    names = ["word", "tokens", "unknown", "is_end", "log_prob"]
    rows = [("a", 3, False, False, -6.0), ("b", 1, True, False, -1.0), (",", 0, False, False, np.nan)]
    words = pd.DataFrame([*rows, ("<eos>", 1, False, True, -2.0)], columns=names)
    expected = [math.exp(9 / 3), math.exp(9 / 5), math.exp(8 / 2)]
    for kind, name in (("exact", "perplexity"), ("pseudo", "pseudo_perplexity"), ("bound", "perplexity_bound")):
        (found,) = with_perplexities(sums(words), kind).to_dict("records")
        assert [found[each] for each in (name, f"token_{name}", f"known_word_{name}")] == pytest.approx(expected)
        assert sum("perplexity" in each for each in found) == 3
    (nothing,) = with_perplexities(sums(words[:0]), "exact").to_dict("records")
    assert np.isnan([nothing[name] for name in nothing if "perplexity" in name or name == "log_prob"]).all()
    (huge,) = with_perplexities(sums(words.assign(log_prob=-1e4)), "exact").to_dict("records")
    assert huge["perplexity"] == math.inf


def test_masked_systems_predict_no_end_and_read_sentence_by_sentence():
    model = spread(MaskedTransformer(encoder(), WORDS.size))
    words = scored(model, WORDS, documents_of(*TEXT))
    assert not words["is_end"].any()
    alone = scored(model, WORDS, documents_of([TEXT[0][1]]))
    np.testing.assert_allclose(alone["log_prob"], sentences_of(words)[1]["log_prob"], rtol=1e-5)


# -- what can't be scored ----------------------------------------------------------------------------------------------


def test_a_text_that_is_too_long_is_named_by_its_place(causal):
    assert causal.longest_scored == 7
    fits = documents_of(["a", " ".join(["a"] * 7)])
    assert len(sentences_of(scored(causal, WORDS, fits))[1]) == 8
    with pytest.raises(UserError, match=r"^t\.txt:1\.2: .*7 tokens.*found 8: cut it"):
        scored(causal, WORDS, documents_of(["a", " ".join(["a"] * 8)]))
    with pytest.raises(UserError, match=r"^t\.txt:2\.1: .*document .*7.*8: cut it"):
        scored(causal, WORDS, documents_of(["a"], ["a a a a", "a a a a"]), reads="document")


def test_a_text_without_a_word_that_is_read_has_no_score(causal):
    words = scored(causal, WORDS, documents_of(["...", "!"], ["``"]), "bare")
    assert words["word"].tolist() == ["...", "!", "``"]
    assert words["log_prob"].isna().all()
