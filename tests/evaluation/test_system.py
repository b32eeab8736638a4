"""Systems used from Python: scores of strings, of contexts' continuations, entropies and ranks against brute force."""

import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from pandas import DataFrame

from depgen.backbones.transformer import Transformer
from depgen.data.tokenization import detokenize
from depgen.data.vocabulary import Vocabulary
from depgen.evaluation.reading import Reading
from depgen.evaluation.system import System
from depgen.evaluation.text_documents import document_of
from depgen.models.causal_lm import CausalLM
from depgen.models.dclm import DCLM, ContextToContext
from depgen.models.dmlm import DMLM
from depgen.models.masked_transformer import MaskedTransformer
from tests.models.encoders import encoder, spread

WORDS = ("the", "cat", "dogs", "ran", "a", ".")
VOCABULARY = Vocabulary.of_words(WORDS, specials=["mask_id"])
SIZES = {"layers": 2, "width": 8, "attention_heads": 2, "feedforward": 8, "positions": "learned", "max_length": 40}
BACKBONE = partial(Transformer, **SIZES)
MODELS = {
    "causal": partial(CausalLM, BACKBONE),
    "mixture": partial(DMLM, BACKBONE),
    "documents": partial(DCLM, context=partial(ContextToContext, size=6), embedding_size=6),
    "masked": partial(MaskedTransformer, encoder(), parses_by=(0, 1)),
}
TEXTS = ["the cat ran .", "dogs  ran\n\n the xylophone ran .", "cat"]


@pytest.fixture(scope="module")
def systems():
    return {name: system_of(make) for name, make in MODELS.items()}


def system_of(make, reading=Reading("as_is")):  # noqa: B008 - frozen
    model = spread(make(VOCABULARY.size))
    model.enter_phase(len(model.phases) - 1)
    return System(model.eval(), VOCABULARY, Path("run"), Path("run/best.ckpt"), reading)


def in_form(system, form):
    return replace(system, reading=Reading(form))


def sums(scores):
    """The log-probability of each text."""
    return scores.groupby("document")["log_prob"].sum().tolist()


@pytest.mark.parametrize("name", MODELS)
def test_words_have_their_characters_and_texts_their_order(systems, name):
    scores = systems[name].score(TEXTS)
    words = scores[~scores["is_end"]]
    for number, text in enumerate(TEXTS, start=1):
        own = words[words["document"] == number]
        assert own["word"].tolist() == text.split()
        assert [text[start:end] for start, end in zip(own["start"], own["end"], strict=True)] == text.split()
    assert (scores["surprisal"] == -scores["log_prob"]).all()
    assert words.loc[words["unknown"], "word"].tolist() == ["xylophone"]
    assert scores.groupby("document")["sentence"].nunique().tolist() == [1, 2, 1]


def test_rules_cut_words_and_keep_their_characters(systems):
    text = "(the cat\n dogs' .)"
    words = systems["masked"].score(text, tokens="rules")
    assert words["word"].tolist() == ["(", "the", "cat", "dogs", "'", ".", ")"]
    assert [text[start:end] for start, end in zip(words["start"], words["end"], strict=True)] == words["word"].tolist()


@pytest.mark.parametrize("name", ["causal", "mixture", "documents"])
def test_a_continuation_is_scored_after_its_context(systems, name):
    system, contexts, texts = systems[name], ["a cat .", "dogs ran"], ["the dogs ran .", "a cat"]
    found = system.score(texts, given=contexts)
    for number, (context, text) in enumerate(zip(contexts, texts, strict=True), start=1):
        whole, own = system.score(f"{context}\n{text}", reads="document"), found[found["document"] == number]
        np.testing.assert_allclose(own["log_prob"], whole.loc[whole["sentence"] == 2, "log_prob"], atol=1e-5)
        assert set(own["sentence"]) == {1}
        words = own[~own["is_end"]]
        assert [text[start:end] for start, end in zip(words["start"], words["end"], strict=True)] == text.split()
    alone, shared = system.score(texts, reads="document"), system.score(texts, given="a cat .")
    assert sums(found) != pytest.approx(sums(alone), abs=1e-3)
    assert sums(shared)[0] == pytest.approx(sums(found)[0], abs=1e-5)
    assert sums(system.score(texts, given=""))[1] == pytest.approx(sums(alone)[1], abs=1e-5)


@pytest.mark.parametrize("method", ["score", "parse", "states"])
def test_a_string_is_a_list_of_one(systems, method):
    call = getattr(in_form(systems["masked"], "bare"), method)
    one, other = (
        found if isinstance(found, DataFrame) else found.to_frame() for found in (call("a cat"), call(["a cat"]))
    )
    assert one.equals(other)


@pytest.mark.parametrize("name", MODELS)
def test_texts_without_words_and_generators_are_texts_too(systems, name):
    system = systems[name]
    assert system.score(["", " \n\t\u2003"]).empty
    (everything,) = system.score("", by="all").to_dict("records")
    assert (everything["documents"], everything["words"]) == (1, 0)
    assert math.isnan(everything["log_prob"])
    assert system.score(["", "cat"], by="document")["words"].tolist() == [0, 1]
    assert system.score(text for text in TEXTS).equals(system.score(TEXTS))
    assert system.states(text for text in ["", "the cat"])["word"].tolist() == ["the", "cat"]
    long = " ".join(["the dogs ran"] * 10 + ["cat"])
    words = system.score(long)
    words = words[~words["is_end"]]
    assert [long[start:end] for start, end in zip(words["start"], words["end"], strict=True)] == long.split()


def test_characters_are_those_of_the_string_whatever_is_in_it(systems):
    text = "the na\u00efve\u00a0\U0001f600\u2028z\u0301 \tcat\r\nran"
    words = systems["masked"].score(text)
    spelt = [text[start:end] for start, end in zip(words["start"], words["end"], strict=True)]
    assert spelt == text.split() == words["word"].tolist()
    assert len(words) == 6
    (doc,) = in_form(systems["masked"], "as_is").parse(text).to_spacy()
    assert [token.text for token in doc] == text.split()


@pytest.mark.parametrize("by", ["word", "sentence", "document", "all"])
def test_a_table_without_rows_has_the_columns_of_others(systems, by):
    named = [{"text": text, "item": number} for number, text in enumerate(TEXTS)]
    for texts, without in ((TEXTS, [""]), (TEXTS, []), (named, [{"text": "", "item": 1}])):
        full, empty = (systems["causal"].score(each, by=by) for each in (texts, without))
        assert list(empty.columns.difference(["start", "end"])) == list(full.columns.difference(["start", "end"]))
        assert by in ("document", "all") or empty.empty
        assert len(full) == {"word": 11 + 4, "sentence": 4, "document": 3, "all": 1}[by]


def test_fields_of_texts_are_columns(systems, caplog):
    texts = [{"text": TEXTS[0], "item": 1, "condition": "a"}, TEXTS[1], {"item": 2, "text": TEXTS[2]}]
    frame, without = (systems["causal"].score(each, given="a cat .") for each in (texts, TEXTS))
    assert frame.drop(columns=["item", "condition"]).equals(without)
    assert frame.groupby("document")["item"].first().dropna().to_dict() == {1: 1, 3: 2}
    assert set(frame.loc[frame["document"] == 1, "condition"]) == {"a"}
    assert systems["causal"].score({"text": "a", "word": 1})["word"][0] == "a"
    assert "called word: those of the texts are left out" in caplog.text
    assert systems["causal"].score({"text": "a", "start": 7})["start"][0] == 0
    assert "called start: those of the texts are left out" in caplog.text
    rows = [{name: TEXTS[0], "item": 1} for name in ("text", "sentence")]  # as a table's column is called
    called = [systems["causal"].score([row]) for row in rows]
    assert called[0].equals(called[1])


@pytest.mark.parametrize(("name", "method"), [("causal", "score"), ("masked", "parse")])
def test_unknown_words_with_punctuation_are_warned_of(systems, caplog, name, method):
    call, raw = getattr(systems[name], method), ["the cat ran.", 'dogs saw "a cat."', "the cat"]
    call(raw, tokens="rules")
    call(["the cat saw the U.S."], tokens="rules")
    call(["the cat ran .", "dogs ran", "the cat."])
    call([replace(document_of(text), by_spaces=False) for text in raw])  # as of CoNLL-U
    assert "punctuation" not in caplog.text
    call(raw)
    assert "2 of 3 sentences end in an unknown word with punctuation, such as 'ran.'" in caplog.text
    assert "tokens='rules'" in caplog.text


def states_alone(system, text, layer):
    """The states of a sentence that is encoded by itself, without padding."""
    ids, model = [i for word in text.split() for i in system.vocabulary.pieces(word)], system.model
    with torch.no_grad():
        if isinstance(model, DCLM):
            return model.step(torch.tensor([[system.vocabulary.start, *ids]]), None)[0][0, 1:].numpy()
        if isinstance(model, MaskedTransformer):
            output = model.backbone(torch.tensor([ids]), all_layers=True)
            first = 0
        else:
            output, first = model.backbone(torch.tensor([[system.vocabulary.eos, *ids]]), all_layers=True), 1
    return [*output.layers[:-1], output.hidden][layer][0, first:].numpy()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("layer", [0, 1, 2, -1])
def test_states_are_those_of_the_sentence_alone_whatever_the_batch(systems, name, layer):
    system = systems[name]
    if name == "documents" and layer != -1:
        pytest.skip("such systems have the states of their last layer alone")
    texts = ["the cat ran .", "", "dogs", "the xylophone ran"]
    together, apart = system.states(texts, layer), system.states(texts, layer, tokens_per_batch=1)
    assert together["word"].tolist() == " ".join(texts).split()
    np.testing.assert_allclose(matrix(together), matrix(apart), atol=1e-6)
    for number, text in enumerate(texts, start=1):
        if text:
            own = matrix(together[together["document"] == number])
            np.testing.assert_allclose(own, states_alone(system, text, layer), atol=1e-6)


def matrix(states):
    """The states of words, a row each."""
    return states.filter(like="state_").to_numpy()


def test_states_of_documents_depend_on_the_sentences_before(systems, monkeypatch):
    system, text = systems["documents"], "a cat ran .\nthe dogs"
    both = system.states([text, "the"])
    second = both[(both["document"] == 1) & (both["sentence"] == 2)]
    assert np.abs(matrix(second) - matrix(system.states("the dogs"))).max() > 1e-3
    monkeypatch.setattr("depgen.evaluation.activations.PADDED_AT_ONCE", 3)
    np.testing.assert_allclose(matrix(both), matrix(system.states([text, "the"])), atol=1e-6)
    causal = systems["causal"]
    whole = matrix(causal.states(text, reads="document"))
    np.testing.assert_allclose(whole, states_alone(causal, text, -1), atol=1e-6)


def test_words_that_are_not_read_have_no_state(systems):
    bare = in_form(systems["masked"], "bare")
    text, alone = bare.states(["( the cat .", "!"]), bare.states("the cat")
    assert text["tokens"].tolist() == [0, 1, 1, 0, 0]
    assert np.isnan(matrix(text)[[0, 3, 4]]).all()
    np.testing.assert_allclose(matrix(text)[1:3], matrix(alone), atol=1e-6)


def weights_of(attention):
    """The weights of a frame of attention: a row a word, a column a position of its context."""
    return attention.pivot(index="position", columns="context_position", values="weight").fillna(0).to_numpy()


def test_dependency_attention_weighs_the_mixture_of_each_word(systems):
    system, sentence = systems["mixture"], "the cat ran ."
    attention = system.attention(sentence)
    assert attention.attrs == {"kind": "dependency", "layer": -2, "attention_head": None}
    assert attention["context_position"].tolist() == [0, 0, 1, 0, 1, 2, 0, 1, 2, 3]
    assert attention["word"].tolist() == ["the", *["cat"] * 2, *["ran"] * 3, *["."] * 4]
    assert attention["context"].tolist()[-4:] == ["BOS", "the", "cat", "ran"]
    weights = weights_of(attention)
    np.testing.assert_allclose(weights.sum(1), 1, atol=1e-6)
    backbone, ids = system.model.backbone, [3, 4, 6, 8]
    assert ids == [i for word in sentence.split() for i in system.vocabulary.pieces(word)]
    with torch.no_grad():
        hidden = backbone(torch.tensor([[0, *ids[:-1]]])).hidden[0]
        components = (hidden @ backbone.output_weight.T).softmax(-1)
        mixture = torch.tensor(weights, dtype=torch.float) @ components
    expected = [mixture[place, token].log().item() for place, token in enumerate(ids)]
    np.testing.assert_allclose(system.score(sentence)["log_prob"][:4], expected, atol=1e-5)


def test_self_attention_is_that_of_a_layer(systems):
    for name in ("causal", "mixture"):
        heads = [weights_of(systems[name].attention("the cat ran", layer=0, attention_head=head)) for head in (0, 1)]
        mean = systems[name].attention("the cat ran", kind="self", layer=-2)
        assert mean.attrs == {"kind": "self", "layer": 0, "attention_head": None}
        np.testing.assert_allclose(weights_of(mean), (heads[0] + heads[1]) / 2, atol=1e-6)
        assert np.abs(heads[0] - heads[1]).max() > 1e-3
        with torch.no_grad():
            log_probs = systems[name].model.backbone(torch.tensor([[0, 3, 4]]), attention_layer=0).attention
        np.testing.assert_allclose(heads[1], log_probs[0, 1].exp().numpy(), atol=1e-6)
    masked = systems["masked"].attention("the cat xylophone", layer=1, attention_head=0)
    assert masked["word"].tolist()[::3] == masked["context"].tolist()[:3] == ["the", "cat", "xylophone"]
    assert masked["unknown"].tolist()[::3] == [False, False, True]
    assert masked["context_position"].tolist() == [1, 2, 3] * 3
    lengths = torch.tensor([3])
    with torch.no_grad():
        layers = systems["masked"].model.encode(torch.tensor([[3, 4, 1]]), lengths, attention=True).attention
    np.testing.assert_allclose(weights_of(masked), layers[1].after[0, 0].numpy(), atol=1e-6)


# -- raw text ---------------------------------------------------------------------------------------------------------

RAW = ["the cat ran. dogs ran.", "(dogs ran.)\na cat."]
CUT = ["the cat ran .\ndogs ran .", "( dogs ran . )\na cat ."]
RULES = {"tokens": "rules", "splitter": "sentencizer"}


@pytest.mark.parametrize("name", MODELS)
def test_texts_are_cut_as_the_runs_corpus_was(name):
    """Python's methods; the characters are those of the raw text."""
    system = system_of(MODELS[name])
    raw = replace(system, reading=replace(system.reading, **RULES))
    words, cut = raw.score(RAW), system.score(CUT)
    assert words.drop(columns=["start", "end"]).equals(cut.drop(columns=["start", "end"]))
    own = words[~words["is_end"]]
    texts = [
        RAW[document - 1][int(start) : int(end)]
        for document, start, end in zip(own["document"], own["start"], own["end"], strict=True)
    ]
    assert texts == own["word"].tolist() == " ".join(CUT).split()
    assert raw.states(RAW)["word"].tolist() == system.states(CUT)["word"].tolist()
    assert raw.score(RAW, tokens="whitespace")["unknown"].sum() > words["unknown"].sum()


def test_prompts_are_cut_and_texts_are_joined_as_people_write():
    system = system_of(MODELS["causal"])
    raw = replace(system, reading=replace(system.reading, **RULES))
    options = {"number": 20, "max_new_tokens": 8, "seed": 1}
    cut = system.generate(["the cat ran ."], **options)
    joined, apart = (raw.generate(["the cat ran."], detokenized=each, **options) for each in (True, False))
    assert apart["text"].equals(cut["text"])
    assert joined["log_prob"].equals(cut["log_prob"])
    assert joined["text"].tolist() == [detokenize(text) for text in cut["text"]] != cut["text"].tolist()
    assert set(joined["prompt"]) == {"the cat ran."}
    assert "<unk>" not in " ".join(joined["text"])
    assert "<unk>" in " ".join(raw.generate(["the cat ran."], unknown=True, **options)["text"])
