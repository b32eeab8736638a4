import dataclasses
import logging
import sys

import numpy as np
import pytest

from depgen.errors import UserError
from depgen.evaluation.text.measures import NAMES, TextOptions, text_metrics
from depgen.metrics.bleu import bleu, corpus_bleu, self_bleu
from depgen.metrics.ngrams import distinct
from depgen.metrics.significance import bootstrap_interval

TEXTS = ["the old dog slept .", "it was late and the cat ran", "they saw a dog by the river .", "it was late"]
REFERENCES = ["the old cat slept .", "it was late and they ran", "a dog saw a cat .", "the river was late"]
NO_MODELS = TextOptions(bertscore_model=None, perplexity_model=None)


def test_figures_are_those_of_the_single_measures():
    found = text_metrics(TEXTS, REFERENCES, NO_MODELS)
    assert found.metrics["bleu2"] == pytest.approx(bleu(TEXTS, REFERENCES)[2].mean())
    assert found.metrics["sacrebleu"] == pytest.approx(corpus_bleu(TEXTS, REFERENCES).score)
    assert found.metrics["distinct3"] == distinct(TEXTS, 3)
    assert found.items["selfbleu3"].tolist() == self_bleu(TEXTS)[3].tolist()
    assert found.intervals["bleu1"] == bootstrap_interval(bleu(TEXTS, REFERENCES)[1])
    assert set(found.items) == set(found.intervals) == {"bleu1", "bleu2", "selfbleu2", "selfbleu3"}
    assert "version:" in found.settings["sacrebleu"]
    assert found.excluded == {}


@pytest.mark.parametrize("references", [None, REFERENCES])
@pytest.mark.parametrize("texts", [TEXTS, ["it"] + [""] * 3])
def test_every_measure_has_a_figure_or_a_reason(texts, references, tmp_path):
    options = TextOptions(bertscore_model=str(tmp_path / "absent"), perplexity_model=str(tmp_path / "absent"))
    found = text_metrics(texts, references, options)
    assert sorted([*found.metrics, *found.not_computed]) == sorted(NAMES)
    assert all(np.isfinite(value) for value in found.metrics.values())


def test_distinct_may_be_of_ngrams_inside_texts():
    options = dataclasses.replace(NO_MODELS, within_texts=True)
    found = text_metrics(TEXTS, None, options)
    assert found.metrics["distinct2"] == distinct(TEXTS, 2, within_items=True) != distinct(TEXTS, 2)
    assert found.settings == dict.fromkeys(("distinct2", "distinct3"), "n-grams inside texts only")
    assert text_metrics(["a", "b"], None, options).not_computed["distinct2"] == "the texts hold no 2-gram"


def test_reasons():
    found = text_metrics(["late"], None, NO_MODELS).not_computed
    assert found["bleu1"] == found["bertscore"] == "no references were given"
    assert found["distinct2"] == "the texts hold no 2-gram"
    assert "only one" in found["selfbleu3"]
    assert "no model was named" in found["lm_perplexity"]


def test_models_are_used_and_their_settings_kept(tiny_bert, tiny_gpt2):
    options = TextOptions(bertscore_model=str(tiny_bert), perplexity_model=str(tiny_gpt2), device="cpu")
    found = text_metrics(TEXTS, REFERENCES, options)
    assert set(found.not_computed) == {"union", "lm", "rlm", "oracle_perplexity"}
    assert "tiny-bert_L3" in found.settings["bertscore"]
    assert found.items["lm_perplexity"].shape == (4,)
    assert found.intervals["lm_perplexity"].low < found.metrics["lm_perplexity"] < found.intervals["lm_perplexity"].high


def test_empty_texts_score_zero_or_are_dropped_with_their_reference(tiny_gpt2, caplog):
    texts, references = [*TEXTS, " "], [*REFERENCES, "a cat"]
    model = {"bertscore_model": None, "perplexity_model": str(tiny_gpt2), "device": "cpu"}
    with caplog.at_level(logging.WARNING):
        zero = text_metrics(texts, references, TextOptions(**model))
        drop = text_metrics(texts, references, TextOptions(empty="drop", **model))
    full = text_metrics(TEXTS, REFERENCES, TextOptions(**model))
    assert zero.metrics["bleu1"] == pytest.approx(full.metrics["bleu1"] * 4 / 5)
    assert zero.excluded == {"lm_perplexity": 1}
    assert drop.metrics == full.metrics
    assert set(drop.excluded.values()) == {1}
    assert drop.items["bleu1"][:4].tolist() == full.items["bleu1"].tolist()
    assert np.isnan(drop.items["bleu1"][4])
    assert drop.empty == 1
    assert "1 of 5 texts are empty; each scores zero" in caplog.text
    assert "left out of every measure" in caplog.text


def test_missing_sacrebleu_is_a_reason(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics", None)
    found = text_metrics(TEXTS, REFERENCES, NO_MODELS)
    assert "pip install" in found.not_computed["sacrebleu"]
    assert "bleu1" in found.metrics


def test_a_device_that_is_not_here_is_named():
    with pytest.raises(UserError, match="no device 'abacus' here; try cpu"):
        text_metrics(TEXTS, None, dataclasses.replace(NO_MODELS, device="abacus"))


def test_nothing_to_evaluate_and_unequal_numbers_are_refused():
    with pytest.raises(UserError, match="2 items, all of them empty"):
        text_metrics(["", " "])
    with pytest.raises(UserError, match="4 texts and 1 references"):
        text_metrics(TEXTS, ["a"])
