"""Scores of pretrained models against minicons and loops over transformers' networks: windows, begins, corrections.

Both sides compute in float64, so that what differs is no rounding.
"""

import json
import shutil
from itertools import product

import numpy as np
import pandas as pd
import pytest
import torch

import depgen
from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError
from depgen.evaluation.system import System
from depgen.language_models.left_to_right import Windows
from depgen.models.causal_lm import CausalLM
from tests.invented_models import END, PretrainedTransformer, write_gpt2

TEXTS = ["the cat sat on the mat again", "The naïve platypus 🙂, again!", "mat", "it's the cat"]
LONG = " ".join(f"{word}, naïve mat" for word in TEXTS[0].split() * 2)
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "initializer_range": 0.5}
ARCHITECTURES = {
    "gpt2": {"n_positions": 40},
    "llama": {"intermediate_size": 24, "num_key_value_heads": 1, "max_position_embeddings": 40},
    "gpt_neox": {"intermediate_size": 24, "max_position_embeddings": 40},
    "qwen2": {"intermediate_size": 24, "num_key_value_heads": 1, "max_position_embeddings": 40},
    "opt": {"ffn_dim": 24, "word_embed_proj_dim": 16, "max_position_embeddings": 40, "init_std": 0.5},
}
EXACT = {"rtol": 0, "atol": 1e-9}


@pytest.fixture(scope="module", params=ARCHITECTURES)
def folder(request, tmp_path_factory):
    """A model with random weights that reads 40 tokens at once, over the pieces of an invented GPT-2.

    Qwen's has no BOS. OPT's puts its own before a text, and its folder holds lists of pieces alone, as published.
    """
    from transformers import AutoConfig, AutoModelForCausalLM

    place = tmp_path_factory.mktemp("models") / request.param
    write_gpt2(place)
    size = AutoConfig.from_pretrained(place).vocab_size
    (place / "model.safetensors").unlink()
    (place / "generation_config.json").unlink()
    torch.manual_seed(1)
    tokens = {"bos_token_id": None if request.param == "qwen2" else 0, "eos_token_id": 0}
    config = AutoConfig.for_model(request.param, vocab_size=size, **tokens, **SIZES, **ARCHITECTURES[request.param])
    AutoModelForCausalLM.from_config(config).save_pretrained(place)
    names = dict.fromkeys(("bos_token", "eos_token", "pad_token"), END)
    if request.param == "qwen2":
        names["bos_token"] = None
    if request.param == "opt":
        pieces = json.loads((place / "tokenizer.json").read_text())["model"]
        (place / "tokenizer.json").unlink()
        (place / "vocab.json").write_text(json.dumps(pieces["vocab"]))
        (place / "merges.txt").write_text("\n".join(["#version: 0.2", *map(" ".join, pieces["merges"])]))
        names |= {"unk_token": END, "add_bos_token": True, "tokenizer_class": "GPT2Tokenizer"}
    (place / "tokenizer_config.json").write_text(json.dumps(names))
    return place


@pytest.fixture(scope="module")
def scorer(folder):
    from minicons.scorer import IncrementalLMScorer
    from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

    if folder.name == "opt":
        tokenizer = AutoTokenizer.from_pretrained(folder)
    else:
        names = json.loads((folder / "tokenizer_config.json").read_text())
        tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), **names)
    network = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64).eval()
    return IncrementalLMScorer(network, "cpu", tokenizer=tokenizer)


@pytest.fixture(scope="module")
def system(folder):
    return depgen.load(folder, device="cpu", dtype="float64")


def of_words(scorer, text, *, begins=True, **options):
    """minicons' scores of one text, summed over the tokens of each word; without a begin the first word has none."""
    whole = END + text if begins else text
    encoded = scorer.tokenizer([whole], add_special_tokens=False, return_tensors="pt")
    (pairs,) = scorer.token_score(encoded, **options)
    pairs = pairs[1:] if begins else pairs
    ids = scorer.tokenizer(text, add_special_tokens=False).input_ids
    opens = [scorer.tokenizer.convert_ids_to_tokens(token).startswith("Ġ") for token in ids]
    owner = np.cumsum([False, *opens[1:]])
    return np.bincount(owner, [score for _, score in pairs])[0 if begins else 1 :]


def words(table):
    """The scores of words, text by text."""
    rows = table[~table["is_end"]]
    return [part["log_prob"].dropna().to_numpy() for _, part in rows.groupby("document")]


@pytest.mark.parametrize("begin", [None, END, "none", "the"])
def test_words_are_those_of_minicons(system, scorer, begin):
    table = system.score(TEXTS, begin=begin)
    assert set(table["begin"]) == {END if begin is None else begin}
    if begin == "the":
        assert not np.allclose(table["log_prob"], system.score(TEXTS)["log_prob"])
        return
    for text, ours in zip(TEXTS, words(table), strict=begin != "none"):
        np.testing.assert_allclose(ours, of_words(scorer, text, begins=begin != "none"), **EXACT)
    if begin == "none":
        assert table.loc[table["position"] == 1, "tokens"].eq(0).all()
        assert system.score(TEXTS, by="all", begin="none")["words"][0] == len(" ".join(TEXTS).split()) - len(TEXTS)


def test_a_blank_at_the_beginning_is_read_as_minicons_reads_it(folder, scorer):
    system = depgen.load(folder, device="cpu", dtype="float64", first_word_space=True)
    for text, ours in zip(TEXTS, words(system.score(TEXTS)), strict=True):
        np.testing.assert_allclose(ours, of_words(scorer, f" {text}"), **EXACT)


def one_window_after_another(network, ids, *, context, stride):
    """The loop of transformers' guide to perplexities: nats of each token, and the number of windows."""
    scores, done, windows = [], 0, 0
    for begin in range(0, len(ids) - 1, stride):
        end = min(begin + context, len(ids) - 1)
        with torch.no_grad():
            log_probs = network(torch.tensor([ids[begin:end]])).logits[0].log_softmax(-1)
        targets = torch.tensor(ids[begin + 1 : end + 1])
        scores += log_probs.gather(1, targets[:, None])[done - begin :, 0].tolist()
        done, windows = end, windows + 1
        if end == len(ids) - 1:
            break
    return scores, windows


@pytest.mark.parametrize("stride", [None, 1, 7, 40])
def test_a_window_slides_over_texts_beyond_the_context(system, scorer, stride):
    ids = [0, *scorer.tokenizer(LONG, add_special_tokens=False).input_ids, 0]
    assert len(ids) > 3 * 40
    nats, windows = one_window_after_another(scorer.model, ids, context=40, stride=stride or 20)
    table = system.score([TEXTS[0], LONG], stride=stride, next_words=True)
    ours = table[table["document"] == 2]
    assert ours["tokens"].sum() == len(nats)
    assert ours["windows"].sum() == windows
    bounds = np.cumsum([0, *ours["tokens"]])[:-1]
    np.testing.assert_allclose(ours["log_prob"], np.add.reduceat(nats, bounds), **EXACT)
    likeliest = ours["tokens"] == 1
    assert (ours["first_token_rank"] == 1)[likeliest].tolist() == ours["likeliest"][likeliest].tolist()
    fits = table[table["document"] == 1]
    assert fits["windows"].tolist() == [1] + [0] * (len(fits) - 1)
    assert system.score(LONG, by="all", stride=stride)["windows"].tolist() == [windows]


def test_figures_of_next_words_follow_the_window(system, scorer):
    ids = [0, *scorer.tokenizer(LONG, add_special_tokens=False).input_ids, 0]
    table = system.score(LONG, next_words=True)
    firsts = np.cumsum([0, *table["tokens"]])[:-1]
    starts = Windows(40, 20).starts(len(ids) - 1)
    for row in (0, len(table) // 2, len(table) - 1):
        place = firsts[row]
        with torch.no_grad():
            log_probs = scorer.model(torch.tensor([ids[starts[place] : place + 1]])).logits[0, -1].log_softmax(-1)
        assert table["first_token_entropy"][row] == pytest.approx(-(log_probs.exp() * log_probs).sum().item(), abs=1e-9)
        assert table["first_token_rank"][row] == 1 + (log_probs > log_probs[ids[place + 1]]).sum()


def test_corrected_words_are_those_of_minicons(system, scorer, monkeypatch):
    """minicons does not count the end of a text among the ends of words: here it does."""
    monkeypatch.setattr(scorer, "bow_subword_idx", [*scorer.bow_subword_idx, 0])
    table = system.score(TEXTS, bow_correction=True)
    for text, ours in zip(TEXTS, words(table), strict=True):
        np.testing.assert_allclose(ours, of_words(scorer, text, bow_correction=True), **EXACT)
    assert table["bow_correction"].all()
    plain = system.score(TEXTS)
    assert (table["log_prob"] - plain["log_prob"]).abs().max() > 0.1
    sums = (each.groupby("document")["log_prob"].sum() for each in (table, plain))
    np.testing.assert_allclose(*sums, **EXACT)


def test_corrected_words_and_the_end_are_all_that_can_follow():
    """Over all words of two letters up to a length, those that go on beyond it, and the end."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(
        models.Unigram([(piece, -1.0) for piece in ("</s>", "<unk>", "▁a", "▁b", "a", "b")], unk_id=1)
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    torch.manual_seed(0)
    network = PretrainedTransformer(6, layers=1, width=8, attention_heads=2, max_length=16)
    norm = network.network.transformer.ln_f
    with torch.no_grad():  # the first unit is always 1, and rules out <unk>
        norm.weight[0], norm.bias[0] = 0, 1
        network.output_weight.normal_()[:, 0] = torch.tensor([0, -100, 0, 0, 0, 0])
    vocabulary = Vocabulary(tokenizer.to_str(), specials={"eos": "</s>"})
    system = System(CausalLM(lambda size: network, 6).eval(), vocabulary, "run", "checkpoint")
    most = 5
    strings = ["".join(letters) for length in range(1, most + 2) for letters in product("ab", repeat=length)]
    plain, corrected = (
        system.score([f"ab {word}" for word in strings], bow_correction=correction) for correction in (False, True)
    )
    second = plain["position"] == 2
    longest = np.array([len(word) > most for word in strings])
    (end, end_corrected) = (
        system.score("ab", bow_correction=correction)["log_prob"].iloc[-1] for correction in (False, True)
    )
    before = end - end_corrected
    finished = np.exp(corrected.loc[second, "log_prob"].to_numpy()[~longest]).sum()
    unfinished = np.exp(plain.loc[second, "log_prob"].to_numpy()[longest] - before).sum()
    assert unfinished > 1e-3
    assert finished + unfinished + np.exp(end_corrected) == pytest.approx(1, abs=1e-5)


def test_windows_score_each_position_once():
    for context, stride, first, length in product((1, 3, 8), (1, 2, 3), (0, 1), range(2, 20)):
        starts = Windows(context, min(stride, context), first).starts(length)
        places = np.arange(length)[first:]
        assert (starts[first:] <= places).all()
        assert (places - starts[first:] < context).all()
        assert (np.diff(starts[first:]) >= 0).all()


@pytest.mark.parametrize("options", [{"stride": 0}, {"begin": "no such token"}])
def test_wrong_begins_and_strides_are_refused(system, options):
    with pytest.raises(UserError, match=r"stride|no such token"):
        system.score("the cat", **options)


def test_damaged_weights_are_an_error(folder):
    system = depgen.load(folder, device="cpu")
    with torch.no_grad():
        system.model.backbone.output_weight[5] = float("nan")
    with pytest.raises(UserError, match="found nan: the system's weights are damaged"):
        system.score("the cat")


def test_rows_of_a_table_are_the_same_by_batches(system):
    texts = [*TEXTS, LONG]
    alone = pd.concat([system.score(text)["log_prob"] for text in texts])
    np.testing.assert_allclose(system.score(texts, tokens_per_batch=4096)["log_prob"], alone, **EXACT)


def test_special_tokens_in_a_text_are_those_of_minicons(system, scorer):
    texts = [f"the cat {END} sat", f"{END} the cat", f"mat{END}again on"]
    table = system.score(texts)
    assert table["tokens"][2] == 2, "a blank and the token"
    for text, ours in zip(texts, words(table), strict=True):
        np.testing.assert_allclose(ours, of_words(scorer, text), **EXACT)


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_changes_no_score(folder, system, scorer, side):
    """That of a batch, and that which a tokenizer's file asks for."""
    ids = [[0, *scorer.tokenizer(text, add_special_tokens=False).input_ids] for text in TEXTS]
    longest = max(map(len, ids))
    padded = [[0] * (longest - len(row)) + row if side == "left" else row + [0] * (longest - len(row)) for row in ids]
    padding = torch.tensor([[place < longest - len(row) for place in range(longest)] for row in ids])
    padding = padding if side == "left" else padding.flip(1)
    backbone = system.model.backbone
    with torch.no_grad():
        hidden = backbone(torch.tensor(padded), padding=padding).hidden
        log_probs = torch.nn.functional.linear(hidden, backbone.output_weight, backbone.output_bias).log_softmax(-1)
    for row, own, mask, text in zip(log_probs, ids, padding, TEXTS, strict=True):
        ours = row[~mask][:-1].gather(1, torch.tensor(own[1:])[:, None]).sum().item()
        assert ours == pytest.approx(of_words(scorer, text).sum(), abs=1e-9)


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_and_truncation_of_a_tokenizer_are_left_out(folder, system, side, tmp_path):
    if folder.name == "opt":
        pytest.skip("its folder has no tokenizer.json")
    from tokenizers import Tokenizer

    copy = shutil.copytree(folder, tmp_path / "model")
    tokenizer = Tokenizer.from_file(str(copy / "tokenizer.json"))
    tokenizer.enable_padding(direction=side, length=12, pad_token=END)
    tokenizer.enable_truncation(4)
    tokenizer.save(str(copy / "tokenizer.json"))
    table = depgen.load(copy, device="cpu", dtype="float64").score(TEXTS)
    assert table["log_prob"].tolist() == system.score(TEXTS)["log_prob"].tolist()


def test_without_bos_and_eos_the_first_token_and_the_end_have_no_score(folder, scorer, tmp_path):
    if folder.name == "opt":
        pytest.skip("its tokenizer puts a token before a text")
    copy = shutil.copytree(folder, tmp_path / "model")
    (copy / "tokenizer_config.json").unlink()
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {"bos_token_id": None, "eos_token_id": None}))
    system = depgen.load(copy, device="cpu", dtype="float64")
    table = system.score([*TEXTS, LONG], next_words=True)
    assert set(table["begin"]) == {"none"}
    assert not table["is_end"].any()
    assert table.loc[table["position"] == 1, "tokens"].eq(0).all()
    for text, ours in zip(TEXTS, words(table)[: len(TEXTS)], strict=False):
        np.testing.assert_allclose(ours, of_words(scorer, text, begins=False), **EXACT)
    begun, usual = (each.score(TEXTS, begin=END) for each in (system, depgen.load(folder, dtype="float64")))
    np.testing.assert_allclose(begun["log_prob"], usual.loc[~usual["is_end"], "log_prob"], **EXACT)
    for refused in (system.generate, lambda: system.score("a cat", bow_correction=True), lambda: system.states("a")):
        with pytest.raises(UserError, match="eos_token, found neither"):
            refused()
