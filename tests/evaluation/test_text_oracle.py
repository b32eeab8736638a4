import json
import math
import random
from collections import Counter

import numpy as np
import pandas as pd
import pytest
import torch

from depgen.errors import UserError
from depgen.evaluation.text_measures import TextOptions, measure_texts
from depgen.evaluation.text_oracle import (
    find_oracle,
    lm_score,
    on_samples,
    reverse_lm_score,
    text_losses,
    trained_oracle,
)
from depgen.evaluation.trained import load_trained
from tests.evaluation.oracles_of_stories import STORIES, in_process, texts, write_experiment

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("oracle")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEPGEN_CACHE", str(folder / "cache"))
        patch.setenv("DEPGEN_RUNS", str(folder / "runs"))
        yield folder


@pytest.fixture(scope="module")
def config(place):
    return write_experiment(place / "oracle_stories.yaml")


@pytest.fixture(scope="module")
def run(config):
    return trained_oracle(config, depgen=in_process)


@pytest.fixture(scope="module")
def loss_on_test(run):
    in_process(["test", "--run", str(run)], {})
    return json.loads((run / "test.json").read_text())["metrics"]["test/loss"]


def score(texts, run):
    """The LM score."""
    return lm_score("oracle", text_losses(texts, run, device="cpu")).value


def nats_per_token(texts, run):
    """Over all tokens, as a test loss."""
    losses = text_losses(texts, run, device="cpu")
    return losses["nll"].sum() / losses["tokens"].sum()


def measured(texts, **options):
    """Measures by name, and items, with an oracle."""
    given = TextOptions(bertscore_model=None, perplexity_model=None, resamples=50, **options)
    found = measure_texts(pd.DataFrame({"text": texts}), given)
    return found.rows.set_index("name"), found.items


def no_command(arguments, environment):
    raise AssertionError(f"depgen {arguments} was not to be run")


def test_an_oracle_is_trained_once_and_another_yaml_makes_another_one(config, run, place):
    assert run.is_relative_to(place / "runs" / "oracle_stories")
    assert trained_oracle(config, depgen=no_command) == find_oracle(str(config)) == find_oracle(str(run)) == run
    other = place / "other.yaml"
    other.write_text(config.read_text() + "# another\n")
    with pytest.raises(UserError, match=r"other\.yaml .*depgen fit --config .*other\.yaml"):
        find_oracle(str(other))


def test_the_score_of_texts_is_what_the_model_says_word_by_word(run):
    """Against a loop that reads each text's beginning anew for every token."""
    given = [*texts(STORIES, "test")[:3], "zebra unheard of"]
    trained = load_trained(run, device="cpu")
    losses = text_losses(given, run, device="cpu")
    for text, nll, tokens in zip(given, losses["nll"], losses["tokens"], strict=True):
        ids = [trained.vocabulary.eos, *(i for word in text.split() for i in trained.vocabulary.pieces(word)), 0]
        expected = 0.0
        for end in range(1, len(ids)):
            with torch.inference_mode():
                log_probs, _ = trained.model.generation_step(torch.tensor([ids[:end]]), None, None)
            expected -= log_probs[0, ids[end]].item()
        assert nll == pytest.approx(expected, rel=1e-5)
        assert tokens == len(ids) - 1
    own = losses["nll"] / losses["tokens"]
    rows, items = measured(given, oracle=str(run), device="cpu")
    assert rows.loc["lm", "value"] == pytest.approx(own.mean())
    assert rows.loc["oracle_perplexity", "value"] == pytest.approx(np.exp(own).mean())
    assert rows.loc["oracle_perplexity", "low"] < rows.loc["oracle_perplexity", "value"]
    assert items["lm"].tolist() == pytest.approx(own.tolist())
    assert "oracle oracle_stories" in rows.loc["lm", "settings"]
    assert rows.loc["rlm", "not_computed"] == "off by default: it trains a network on the texts"


def test_the_sources_own_samples_cost_what_its_test_split_costs_and_never_less_than_under_the_source(run, loss_on_test):
    fresh = type(STORIES)(train=60, seed=77, sentences=(5, 5))
    own = nats_per_token(texts(fresh, "train"), run)
    assert own == pytest.approx(loss_on_test, abs=0.05)
    assert own > fresh.floor("train")
    assert nats_per_token(texts(STORIES, "test"), run) == pytest.approx(loss_on_test, rel=1e-5)


def test_a_text_without_a_word_has_no_score(run, caplog):
    given = ["she sleeps .", "", " "]
    _, items = measured(given, oracle=str(run))
    for name in ("lm", "oracle_perplexity"):
        assert items[name].isna().tolist() == [False, True, True]
    assert score(given, run) == pytest.approx(text_losses(given, run)["nll"][0] / 4)
    assert "2 of 3 texts have no word" in caplog.text
    assert math.isnan(score(["", " "], run))


def test_words_that_the_oracle_does_not_know_are_counted_and_said(run, caplog):
    caplog.set_level("INFO")
    given = ["zebra unheard she", "", "she sleeps . <unk>"]
    rows, _ = measured(given, oracle=str(run))
    assert rows["unknown"].dropna().to_dict() == pytest.approx({"lm": 3 / 7, "oracle_perplexity": 3 / 7})
    assert "3 of the texts' 7 words are unknown to the oracle and read as <unk>" in caplog.text


def test_a_limit_on_the_oracles_own_sentences_cuts_no_samples(tmp_path):
    arguments = {"corpus": {"class_path": "Corpus"}, "tokens_per_batch": 8}
    settings = {"model": {}, "data": {"class_path": "Data", "init_args": {**arguments, "max_documents": 3}}}
    assert on_samples(settings, tmp_path / "samples.txt", tmp_path)["data"]["init_args"]["max_documents"] is None
    settings["data"]["init_args"] = arguments
    assert "max_documents" not in on_samples(settings, tmp_path / "samples.txt", tmp_path)["data"]["init_args"]


def test_trained_on_the_real_sentences_again_it_is_the_oracle_itself(run, config):
    given = texts(STORIES, "train")
    expected = reverse_lm_score(given, run, depgen=in_process)
    assert expected.value == pytest.approx(score(texts(STORIES, "test"), run), rel=1e-6)
    assert reverse_lm_score(given, run, depgen=no_command).value == expected.value
    rows, items = measured(given, oracle=str(config), reverse=True)
    assert rows.loc["rlm", "value"] == pytest.approx(expected.value)
    assert items["text"].notna().sum() == len(given)
    assert items["rlm"][items["text"].isna()].tolist() == expected.items.tolist()
    assert len(expected.items) == STORIES.sizes["test"]


def test_samples_that_are_all_alike_teach_little_though_each_is_likely(run, loss_on_test, place):
    """The mode collapse that the LM score does not see."""
    real = texts(STORIES, "train")
    costs = text_losses(real, run)
    best = real[int(np.argmin(costs["nll"] / costs["tokens"]))]
    assert score([best] * 200, run) < loss_on_test
    found = reverse_lm_score([best] * 199 + [""], run, depgen=in_process)
    assert found.value > loss_on_test + 2
    assert "trained again on 200 samples but for empty ones" in found.settings
    kept = {path.suffix for path in (place / "cache" / "reverse_lm").iterdir()}
    assert kept == {".npz", ".lock"}, "runs are removed"
    with pytest.raises(UserError, match="none of them has a word"):
        reverse_lm_score(["", " "], run, depgen=in_process)


def test_worse_texts_cost_more(run):
    """Real stories, the same words shuffled, words by their frequency alone."""
    generator = random.Random(1)
    real = texts(STORIES, "test")
    shuffled = [" ".join(generator.sample(text.split(), len(text.split()))) for text in real]
    counts = Counter(word for text in texts(STORIES, "train") for word in text.split())
    drawn = [" ".join(generator.choices(list(counts), list(counts.values()), k=len(text.split()))) for text in real]
    scores = [score(each, run) for each in (real, shuffled, drawn)]
    assert scores[0] + 1 < scores[1]
    assert scores[0] + 1 < scores[2]
