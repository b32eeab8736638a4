"""Pretrained models as judges, against their definitions pair by pair and text by text."""

import itertools
import json
import logging
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from depgen.errors import UserError
from depgen.evaluation import text_judges as module
from depgen.evaluation.text_judges import (
    LAYERS,
    Embedded,
    NotComputedError,
    bertscore,
    corpus_perplexity,
    greedy_f1,
    lm_perplexity,
    load_pretrained,
)
from depgen.hub import TRANSFORMERS_MISSING

TEXTS = ["the old dog slept", "it was late .", "cat", "they saw a river by the hill and ran quickly", "a zebra ran"]
REFERENCES = ["the cat slept quickly and ran by a river", "late it was", "dog", "a hill .", "the dog ran"]


def by_hand(folder, text, reference, layer):
    """The F1 of one pair with loops: special tokens may be matched but are not averaged over."""
    loaded = load_pretrained(str(folder), "encoder")
    sides = []
    for words in (text, reference):
        ids = loaded.tokenizer(words, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            states = loaded.model(ids, output_hidden_states=True).hidden_states[layer][0]
        sides.append(states / states.norm(dim=1, keepdim=True))
    precision = np.mean([max(float(a @ b) for b in sides[1]) for a in sides[0][1:-1]])
    recall = np.mean([max(float(a @ b) for a in sides[0]) for b in sides[1][1:-1]])
    return 100 * 2 * precision * recall / (precision + recall)


@pytest.mark.parametrize("layer", [1, 3])
def test_equals_the_definition_pair_by_pair_in_any_batch(tiny_bert, layer):
    expected = [by_hand(tiny_bert, text, ref, layer) for text, ref in zip(TEXTS, REFERENCES, strict=True)]
    assert max(expected) - min(expected) > 5
    texts, references = [*TEXTS, TEXTS[0], "", TEXTS[1]], [*REFERENCES, TEXTS[0], TEXTS[1], " "]
    expected += [100, 0, 0]
    for batch_size in (1, 3, 8):
        score = bertscore(texts, references, model=str(tiny_bert), layer=layer, batch_size=batch_size)
        assert score.items.tolist() == pytest.approx(expected, rel=1e-5, abs=1e-4)
        assert score.value == pytest.approx(np.mean(expected), rel=1e-5)


def test_agrees_with_torchmetrics_one_pair_at_a_time(tiny_bert):
    """Torchmetrics does not let special tokens be matched."""
    from torchmetrics.functional.text.bert import bert_score

    options = {"model_name_or_path": str(tiny_bert), "num_layers": 3, "max_length": 24}
    loaded = load_pretrained(str(tiny_bert), "encoder")
    for pair in zip(TEXTS, REFERENCES, strict=True):
        sides = []
        for words in pair:
            ids = loaded.tokenizer(words, return_tensors="pt")["input_ids"]
            with torch.no_grad():
                states = loaded.model(ids, output_hidden_states=True).hidden_states[3]
            words_only = torch.ones_like(ids, dtype=torch.bool)
            words_only[:, [0, -1]] = False
            sides.append(Embedded(states, words_only, words_only))
        text, reference = pair
        expected = float(bert_score([text], [reference], **options)["f1"])
        assert greedy_f1(*sides).item() == pytest.approx(expected, rel=1e-4)


def test_padding_never_matches_even_when_everything_else_is_opposite():
    text = torch.tensor([[[1.0, 0.0], [0.0, 0.0001]]])
    reference = torch.tensor([[[-1.0, 0.0], [-1.0, 0.0]]])
    first, both = torch.tensor([[True, False]]), torch.tensor([[True, True]])
    assert greedy_f1(Embedded(text, first, first), Embedded(reference, both, both)).item() == pytest.approx(-1.0)


def test_layers(tiny_bert, caplog, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setitem(LAYERS, tiny_bert.name, 2)
        assert "_L2_" in bertscore(["a"], ["a"], model=str(tiny_bert)).settings
    assert LAYERS["roberta-large"] == 17
    with caplog.at_level(logging.WARNING):
        assert "_L3_" in bertscore(["a"], ["a"], model=str(tiny_bert)).settings
    assert "takes the last, 3" in caplog.text
    with pytest.raises(UserError, match="layers 0 to 3, found 4"):
        bertscore(["a"], ["a"], model=str(tiny_bert), layer=4)


def test_rescaling_takes_the_row_of_the_layer(tiny_bert, tmp_path):
    baseline = tmp_path / "tiny.tsv"
    baseline.write_text("LAYER,P,R,F\n" + "".join(f"{layer},0.5,0.5,{layer / 10}\n" for layer in range(3)))
    plain = bertscore(TEXTS, REFERENCES, model=str(tiny_bert), layer=2)
    rescaled = bertscore(TEXTS, REFERENCES, model=str(tiny_bert), layer=2, baseline=baseline)
    assert rescaled.items.tolist() == pytest.approx(((plain.items - 20.0) / 0.8).tolist())
    assert plain.settings.endswith("-unrescaled")
    assert rescaled.settings.endswith("-rescaled(tiny.tsv)")
    with pytest.raises(UserError, match="no baseline for layer 3"):
        bertscore(["a"], ["a"], model=str(tiny_bert), layer=3, baseline=baseline)


def test_overlong_texts_are_cut_with_a_warning(tiny_bert, caplog):
    long = " ".join(itertools.islice(itertools.cycle(["old", "dog"]), 60))
    with caplog.at_level(logging.WARNING):
        outcome = bertscore([long], [long], model=str(tiny_bert))
    assert outcome.value == pytest.approx(100)
    assert "the first 24 of the 62 tokens" in caplog.text


# -- perplexity -------------------------------------------------------------------------------------------------------

STORIES = ["The old dog slept .", "it was late", "A cat ran quickly by the river and they saw it .", "  dog and cat "]


def one_by_one(folder, texts):
    """The definition, a text at a time: no BOS, first token unscored, exp(mean nll)."""
    from transformers import AutoTokenizer, GPT2LMHeadModel

    tokenizer, model = AutoTokenizer.from_pretrained(folder), GPT2LMHeadModel.from_pretrained(folder).eval()
    perplexities = []
    for text in texts:
        ids = tokenizer.encode(text.lower().strip(), add_special_tokens=False)
        with torch.no_grad():
            log_probs = model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
        nll = [-log_probs[place, token].item() for place, token in enumerate(ids[1:])]
        perplexities.append(math.exp(sum(nll) / len(nll)))
    return perplexities


@pytest.mark.parametrize("batch_size", [1, 3, 8])
def test_equals_the_definition_in_any_batch_and_averages_arithmetically(tiny_gpt2, batch_size):
    outcome = lm_perplexity(STORIES, model=str(tiny_gpt2), batch_size=batch_size)
    expected = one_by_one(tiny_gpt2, STORIES)
    assert outcome.items.tolist() == pytest.approx(expected, rel=1e-5)
    assert outcome.value == pytest.approx(np.mean(expected), rel=1e-5)
    assert max(expected) / min(expected) > 1.5  # the texts differ, so the order is tested too
    assert "tiny-gpt2" in outcome.settings
    assert "/" not in outcome.settings


def test_a_corpus_is_over_all_tokens_after_bos(tiny_gpt2):
    from transformers import AutoTokenizer, GPT2LMHeadModel

    tokenizer, model = AutoTokenizer.from_pretrained(tiny_gpt2), GPT2LMHeadModel.from_pretrained(tiny_gpt2).eval()
    nll = []
    for text in STORIES:
        ids = [tokenizer.bos_token_id, *tokenizer.encode(text, add_special_tokens=False)]
        with torch.no_grad():
            log_probs = model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
        nll += [-log_probs[place, token].item() for place, token in enumerate(ids[1:])]
    found = corpus_perplexity([*STORIES, ""], model=str(tiny_gpt2), batch_size=3)
    assert found.value == pytest.approx(math.exp(np.mean(nll)), rel=1e-5)
    assert "4 texts" in found.settings
    with pytest.raises(NotComputedError, match="none of the texts"):
        corpus_perplexity([""], model=str(tiny_gpt2))


def test_texts_without_a_perplexity_are_left_out_and_counted(tiny_gpt2, caplog):
    long = "the old dog " * 30
    with caplog.at_level(logging.WARNING):
        outcome = lm_perplexity(["", "it was late", ".", long], model=str(tiny_gpt2))
    assert np.isnan(outcome.items).tolist() == [True, False, True, True]
    assert outcome.value == pytest.approx(outcome.items[1])
    assert "3 of 4 texts: 2 have fewer than two tokens, 1 are too long" in caplog.text


# -- pretrained models by name ----------------------------------------------------------------------------------------


def reason(*args, **kwargs):
    with pytest.raises(NotComputedError) as refused:
        load_pretrained(*args, **kwargs)
    return str(refused.value)


def copy(folder, target):
    return Path(shutil.copytree(folder, target / folder.name))


def test_a_folder_is_loaded_in_float32_and_evaluation_mode(tiny_gpt2, tmp_path):
    from transformers import GPT2LMHeadModel

    half = copy(tiny_gpt2, tmp_path)
    GPT2LMHeadModel.from_pretrained(half).half().save_pretrained(half)
    loaded = load_pretrained(str(half), "causal")
    assert {parameter.dtype for parameter in loaded.model.parameters()} == {torch.float32}
    assert not loaded.model.training
    assert loaded.name == "tiny-gpt2"


def test_reasons_for_folders(tiny_gpt2, tmp_path):
    assert "no such folder" in reason(str(tmp_path / "absent"), "causal")
    assert "no such folder" in reason("./absent", "causal")
    assert "no config.json" in reason(str(tmp_path), "causal")
    bare = copy(tiny_gpt2, tmp_path)
    (bare / "model.safetensors").unlink()
    assert reason(str(bare), "causal").startswith(f"no weights at {bare}")


def test_damaged_weights_are_a_reason(tiny_gpt2, tmp_path):
    cut = copy(tiny_gpt2, tmp_path)
    weights = cut / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    assert "damaged" in reason(str(cut), "causal")


@pytest.mark.parametrize(("change", "said"), [
    ({"n_embd": 8}, "config.json does not fit the weights"), ({"n_embd": "16"}, "expected int, got str"),
])  # fmt: skip
def test_a_configuration_that_does_not_fit_is_a_reason(tiny_gpt2, tmp_path, change, said):
    path = copy(tiny_gpt2, tmp_path) / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    assert said in reason(str(path.parent), "causal")


def test_weights_that_the_checkpoint_lacks_are_not_made_up(tiny_bert):
    assert "the checkpoint lacks" in reason(str(tiny_bert), "causal")


def test_a_hub_name_is_not_fetched_unasked(monkeypatch):
    monkeypatch.setattr("socket.socket.connect", None)
    found = reason("depgen-tests/no-such-model", "causal")
    assert found.startswith("no weights at depgen-tests/no-such-model")
    assert "hf download depgen-tests/no-such-model" in found


def test_without_transformers_says_what_to_install(monkeypatch):
    monkeypatch.setattr(module, "has_transformers", lambda: False)
    assert reason("gpt2", "causal") == TRANSFORMERS_MISSING
