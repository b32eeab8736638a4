"""Feature vectors for MAUVE, by a pretrained model and by an oracle, and what is said where there are none."""

import json
import logging

import numpy as np
import pytest
import torch

from depgen.cli import main
from depgen.data.detokenization import detokenize
from depgen.errors import UserError
from depgen.evaluation.pretrained import load_pretrained
from depgen.evaluation.text.evaluate_text import evaluate_text
from depgen.evaluation.text.mauve import mauve_score, oracle_features, pretrained_features
from depgen.evaluation.text.measures import TextOptions, text_metrics
from depgen.evaluation.text.oracle import trained_oracle
from depgen.evaluation.text.outcome import MeasuredSet, NotComputed
from depgen.evaluation.trained import load_trained
from depgen.metrics.mauve import mauve
from tests.evaluation.oracles_of_stories import STORIES, in_process, texts, write_experiment

TEXTS = ["the old dog slept .", "it was late and the cat ran", "a dog did n't see a cat .", "it was late"]
REAL = texts(STORIES, "train")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mauve")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEPGEN_CACHE", str(folder / "cache"))
        yield trained_oracle(write_experiment(folder / "oracle_stories.yaml"), depgen=in_process)


@pytest.mark.parametrize("batch_size", [1, 3])
def test_a_pretrained_feature_is_the_last_layers_state_at_the_last_token(tiny_gpt2, batch_size):
    from transformers import AutoTokenizer, GPT2Model

    pretrained = load_pretrained(str(tiny_gpt2), "encoder")
    found = pretrained_features(pretrained, TEXTS, batch_size=batch_size, device="cpu")
    tokenizer, model = AutoTokenizer.from_pretrained(tiny_gpt2), GPT2Model.from_pretrained(tiny_gpt2).eval()
    for text, feature in zip(TEXTS, found, strict=True):
        with torch.no_grad():
            states = model(torch.tensor([tokenizer.encode(text)]), output_hidden_states=True).hidden_states
        np.testing.assert_allclose(feature, states[-1][0, -1].numpy(), atol=1e-5)


def test_long_texts_are_cut_to_what_the_model_can_encode(tiny_gpt2, caplog):
    pretrained = load_pretrained(str(tiny_gpt2), "encoder")
    words = ["dog"] * 60
    with caplog.at_level(logging.WARNING):
        (found,) = pretrained_features(pretrained, [" ".join(words)], batch_size=1, device="cpu")
    assert "the first 40 tokens of 1 of 1 texts" in caplog.text
    ids = pretrained.tokenizer.encode(" ".join(words))[:40]
    with torch.no_grad():
        expected = pretrained.model(torch.tensor([ids])).last_hidden_state[0, -1].numpy()
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.slow
def test_an_oracles_feature_predicts_the_end_of_the_text(run):
    trained = load_trained(run, device="cpu")
    found = oracle_features(run, REAL[:3], device="cpu")
    vocabulary = trained.vocabulary
    for text, feature in zip(REAL, found, strict=False):
        ids = [vocabulary.eos, *(piece for word in text.split() for piece in vocabulary.pieces(word))]
        with torch.inference_mode():
            hidden = trained.model.backbone(torch.tensor([ids])).undropped[0, -1]
        np.testing.assert_allclose(feature, hidden.numpy(), atol=1e-6)


@pytest.mark.slow
def test_the_score_is_that_of_the_features_and_says_what_it_depends_on(run, tiny_gpt2, caplog):
    given, real = REAL[:40], [*REAL[40:90], "  "]
    with caplog.at_level(logging.WARNING):
        found = mauve_score(given, real, model=run, seed=2)
    sides = [oracle_features(run, side, device="cpu") for side in (given, real[:-1])]
    assert isinstance(found, MeasuredSet)
    assert found.value == 100 * mauve(*sides, clusters=4, seed=2)
    assert found.description.startswith("oracle oracle_stories")
    assert found.description.endswith("40 texts, 50 references, 4 clusters, seed 2")
    assert "noisy" in caplog.text
    pretrained = mauve_score(TEXTS, TEXTS[::-1], model=str(tiny_gpt2))
    assert pretrained.value == pytest.approx(100.0)
    assert pretrained.description.startswith("tiny-gpt2, 4 texts")


@pytest.mark.slow
def test_texts_of_the_same_source_are_closer_than_broken_ones(run):
    generator = np.random.default_rng(0)
    shuffled = [" ".join(generator.permutation(text.split())) for text in REAL[:100]]
    same = mauve_score(REAL[:100], REAL[100:], model=run)
    broken = mauve_score(shuffled, REAL[100:], model=run)
    assert same.value > 80 > 40 > broken.value


@pytest.mark.slow
def test_reasons(run, tmp_path):
    assert mauve_score(["a", " "], ["b", "c"], model=run) == NotComputed(
        "it compares two sets of texts, and 1 texts and 2 references have a word"
    )
    assert mauve_score(TEXTS, TEXTS, model=str(tmp_path / "absent")).reason.startswith("no weights at")
    off = {"bertscore_model": None, "perplexity_model": None}
    for references, options, reason in (
        (TEXTS, {}, "no model was named"),
        (None, {"mauve_model": "gpt2"}, "no references were given"),
        (TEXTS, {"mauve_model": "oracle"}, "no oracle was named"),
    ):
        assert text_metrics(TEXTS, references, TextOptions(**off, **options)).not_computed["mauve"] == reason


@pytest.fixture
def files(tmp_path):
    for name, lines in (("texts", REAL[:30]), ("references", REAL[30:60])):
        (tmp_path / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))
    return tmp_path / "texts.txt", tmp_path / "references.txt"


@pytest.mark.slow
def test_the_verb_takes_the_oracle_or_a_folder(run, tiny_gpt2, files, capsys):
    command = ["evaluate-text", str(files[0]), "--references", str(files[1]), "--json", "--bertscore_model", "null"]
    command += ["--perplexity_model", "null", "--device", "cpu"]
    assert main([*command, "--oracle", str(run), "--mauve-model", "oracle"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["metrics"]["mauve"] == mauve_score(REAL[:30], REAL[30:60], model=run).value
    assert main([*command, "--mauve_model", str(tiny_gpt2), "--detokenize"]) == 0
    found = json.loads(capsys.readouterr().out)
    raw = [list(map(detokenize, each)) for each in (REAL[:30], REAL[30:60])]
    assert found["metrics"]["mauve"] == mauve_score(*raw, model=str(tiny_gpt2)).value
    assert found["settings"]["mauve"].endswith("seed 0, texts detokenised")
    with pytest.raises(UserError, match=r"--mauve_model oracle .*by --oracle"):
        evaluate_text(files[0], options=TextOptions(mauve_model="oracle"))


@pytest.mark.slow
def test_pretrained_judges_are_given_raw_text_only_where_that_is_named(tiny_gpt2, tiny_bert, run):
    models = {"bertscore_model": str(tiny_bert), "perplexity_model": str(tiny_gpt2), "mauve_model": str(tiny_gpt2)}
    models |= {"oracle": str(run), "device": "cpu"}
    references = TEXTS[::-1]
    tokens = text_metrics(TEXTS, references, TextOptions(**models))
    raw = text_metrics(TEXTS, references, TextOptions(**models, detokenize=True))
    by_hand = text_metrics(*(list(map(detokenize, side)) for side in (TEXTS, references)), TextOptions(**models))
    assert not any("detokenised" in setting for setting in tokens.settings.values())
    judged = {"bertscore", "lm_perplexity"}
    for name in judged:
        assert raw.metrics[name] == by_hand.metrics[name] != tokens.metrics[name]
        assert raw.settings[name] == f"{tokens.settings[name]}, texts detokenised"
    same = tokens.metrics.keys() - judged - {"mauve"}
    assert {name: raw.metrics[name] for name in same} == {name: tokens.metrics[name] for name in same}
    assert raw.settings["lm"] == tokens.settings["lm"]
