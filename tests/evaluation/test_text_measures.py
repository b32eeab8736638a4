"""Measures of a frame of texts, of files by the verb, and of samples of texts."""

import json
import logging
import random
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from depgen.cli import main
from depgen.data.corpora import TextLines
from depgen.errors import UserError
from depgen.evaluation.text_measures import (
    TEXT_MEASURES,
    TextFiles,
    TextOptions,
    measure_texts,
    moses_texts,
    sample_scores,
    text,
)
from depgen.metrics.bleu import ReferencePool, bleu, corpus_bleu, corpus_self_bleu, distinct, self_bleu
from depgen.metrics.significance import bootstrap_interval

TEXTS = ["the old dog slept .", "it was late and the cat ran", "they saw a dog by the river .", "it was late"]
REFERENCES = ["the old cat slept .", "it was late and they ran", "a dog saw a cat .", "the river was late"]
PAIRS = pd.DataFrame({"text": TEXTS, "reference": REFERENCES})
NO_MODELS = TextOptions(bertscore_model=None, perplexity_model=None, device="cpu")


def measured(texts, options=NO_MODELS):
    """The rows by name, and the items."""
    found = measure_texts(texts if isinstance(texts, pd.DataFrame) else pd.DataFrame({"text": texts}), options)
    assert list(found.rows["name"]) == list(TEXT_MEASURES)
    rows = found.rows.set_index("name")
    assert (rows["value"].isna() == rows["not_computed"].notna()).all(), "a value or a reason"
    return rows, found.items


def test_figures_are_those_of_the_single_measures():
    rows, items = measured(PAIRS)
    assert rows["value"].dropna().to_dict() == pytest.approx(
        {
            **{f"bleu{order}": bleu(TEXTS, REFERENCES)[order].mean() for order in (1, 2)},
            "sacrebleu": corpus_bleu(TEXTS, REFERENCES)[0],
            **{f"distinct{order}": distinct(TEXTS, order) for order in (2, 3)},
            **{f"selfbleu{order}": self_bleu(TEXTS)[order].mean() for order in (2, 3)},
        }
    )
    assert items["selfbleu3"].tolist() == self_bleu(TEXTS)[3].tolist()
    interval = bootstrap_interval(bleu(TEXTS, REFERENCES)[1])
    assert rows.loc["bleu1", ["low", "high", "left_out"]].tolist() == [interval.low, interval.high, 0]
    with_items = {"bleu1", "bleu2", "selfbleu2", "selfbleu3"}
    assert {*rows.index[rows["low"].notna()]} == {*items} - {*PAIRS} == with_items
    assert "version:" in rows.loc["sacrebleu", "settings"]


def test_distinct_may_be_of_ngrams_inside_texts():
    rows, _ = measured(TEXTS, replace(NO_MODELS, within_texts=True))
    assert rows.loc["distinct2", "value"] == distinct(TEXTS, 2, within_items=True) != distinct(TEXTS, 2)
    assert rows.loc["distinct2", "settings"] == "n-grams inside texts only"


def test_reasons(monkeypatch, tmp_path):
    reasons = measured(["late"])[0]["not_computed"]
    assert reasons["bleu1"] == reasons["bertscore"] == "no references were given"
    assert reasons["distinct2"] == "the texts hold no 2-gram"
    assert "only one" in reasons["selfbleu3"]
    assert "no model was named" in reasons["lm_perplexity"]
    absent = str(tmp_path / "absent")
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics", None)
    reasons = measured(PAIRS, TextOptions(bertscore_model=absent, perplexity_model=absent))[0]["not_computed"]
    assert "pip install" in reasons["sacrebleu"]
    assert absent in reasons["bertscore"]
    assert absent in reasons["lm_perplexity"]


def test_models_are_used_and_their_settings_kept(tiny_bert, tiny_gpt2):
    options = TextOptions(bertscore_model=str(tiny_bert), perplexity_model=str(tiny_gpt2), device="cpu")
    rows, items = measured(PAIRS, options)
    assert {*rows.index[rows["value"].isna()]} == {"union", "lm", "rlm", "oracle_perplexity"}
    assert "tiny-bert_L3" in rows.loc["bertscore", "settings"]
    assert items["lm_perplexity"].notna().all()
    low, value, high = rows.loc["lm_perplexity", ["low", "value", "high"]]
    assert low < value < high


def test_empty_texts_score_zero_or_are_dropped_with_their_reference(tiny_gpt2, caplog):
    with_empty = pd.DataFrame({"text": [*TEXTS, " "], "reference": [*REFERENCES, "a cat"]})
    options = TextOptions(bertscore_model=None, perplexity_model=str(tiny_gpt2), device="cpu")
    with caplog.at_level(logging.WARNING):
        zero, _ = measured(with_empty, options)
        drop, items = measured(with_empty, replace(options, empty="drop"))
    full, full_items = measured(PAIRS, options)
    assert zero.loc["bleu1", "value"] == pytest.approx(full.loc["bleu1", "value"] * 4 / 5)
    assert {*zero.index[zero["left_out"] == 1]} == {"lm_perplexity"}
    assert drop["value"].equals(full["value"])
    assert {*drop["left_out"][drop["low"].notna()]} == {1}
    np.testing.assert_array_equal(items["bleu1"], [*full_items["bleu1"], np.nan])
    assert {*drop["empty"]} == {1}
    assert "1 of 5 texts are empty; each scores zero" in caplog.text
    assert "left out of every measure" in caplog.text


def test_nothing_to_measure_is_refused():
    with pytest.raises(UserError, match="2 items, all of them empty"):
        measured(["", " "])


# -- files ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n")
    (tmp_path / "references.txt").write_text("\n".join(REFERENCES) + "\n")
    lines = "".join(f"{json.dumps({'prompt': 'x', 'text': each})}\n" for each in TEXTS)
    (tmp_path / "texts.jsonl").write_text(lines)
    return tmp_path


def test_files_have_the_rows_and_items_of_their_texts(here, capsys):
    files, options = [here / "texts.txt", here / "texts.jsonl"], vars(NO_MODELS)
    found = text(TextFiles(texts=files, references=here / "references.txt", prompts=files[1], **options))
    expected, items = measured(PAIRS)
    for file in files:
        rows = found.rows[found.rows["level"] == file.name].set_index("name")
        assert rows["value"].equals(expected["value"])
        assert found.items["bleu1"][found.items["file"] == file.name].tolist() == items["bleu1"].tolist()
        assert "over the border" in rows.loc["distinct2", "settings"]
        assert pd.isna(rows.loc["bertscore", "settings"])
    named = ["--references", "references.txt", "--bertscore_model", "null", "--perplexity_model", "null"]
    assert main(["evaluate", "text", "--texts", "texts.txt", "texts.jsonl", *named, "--device", "cpu", "--json"]) == 0
    printed = [json.loads(line)["value"] for line in capsys.readouterr().out.splitlines()]
    assert printed == pytest.approx([None if np.isnan(value) else value for value in found.rows["value"]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--references", "short.txt"], "texts.txt has 4 texts and short.txt has 3"),
        (["--reverse"], "--oracle"),
        (["--seed", "-1"], "seed: expected"),
        (["--device", "abacus"], "no device 'abacus' here"),
    ],
)
def test_what_can_not_be_measured_is_refused(here, capsys, options, message):
    (here / "short.txt").write_text("one\ntwo\nthree\n")
    assert main(["evaluate", "text", "--texts", "texts.txt", *options]) == 2
    assert message in capsys.readouterr().err


# -- samples ----------------------------------------------------------------------------------------------------------


def test_samples_are_consecutive_texts():
    texts = [f"the {word} ran to the {other} today" for word in "abcd" for other in "efgh"]
    pools = {"first": ReferencePool(texts[:3]), "last": ReferencePool(texts[5:])}
    scores = sample_scores(texts, pools, per_sample=5)  # the last text fills no sample
    samples = [texts[:5], texts[5:10], texts[10:15]]
    for name, pool in pools.items():
        assert scores[name].tolist() == [pool.bleu(sample) for sample in samples]
    assert scores["self_bleu"].tolist() == [corpus_self_bleu(sample) for sample in samples]
    with pytest.raises(UserError, match="at least as many"):
        sample_scores(texts, {}, per_sample=17)


def test_moses_gets_raw_text_and_escapes_nothing():
    assert moses_texts(["they ' re here , & it did n't cost 50 , 000"]) == ["they 're here , & it didn 't cost 50,000"]


@pytest.mark.real_data
@pytest.mark.slow
def test_real_news_have_the_quality_that_was_measured_before():
    corpus = TextLines("emnlp_news")
    valid, test = (
        moses_texts(" ".join(sentence.words) for document in corpus.documents(split) for sentence in document.sentences)
        for split in ("valid", "test")
    )
    pool, generator = ReferencePool(test), random.Random(0)
    assert np.mean([pool.bleu(generator.sample(valid, 400)) for _ in range(20)]) == pytest.approx(20.98, abs=0.6)
