"""Runs, parsers and scorers of an earlier depgen: they load, score, test and write as they did, and train to the end.

`tests/fixtures/make.py` says by which depgen they were made.
"""

import csv
import json
import math
import shutil
import tarfile
from pathlib import Path

import pytest
import torch

from depgen.annotation.named_parser import parser_named
from depgen.annotation.scores import attachment_scores
from depgen.cli import main
from depgen.data.vocabulary import Vocabulary, load_vocabulary
from depgen.evaluation.trained import load_trained
from depgen.training.checkpoints import load_checkpoint
from depgen.trees.conllu import read_conllu

FIXTURES = Path(__file__).parent / "fixtures"
NUMBERS = json.loads((FIXTURES / "numbers.json").read_text(encoding="utf-8"))
SYSTEMS = NUMBERS["systems"]
ROOTS = ("data", "runs", "cache", "models", "results")


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """All fixtures, laid out as a user has them."""
    folder = tmp_path_factory.mktemp("fixtures")
    with tarfile.open(FIXTURES / "runs.tar.xz") as packed:
        packed.extractall(folder, filter="data")
    return folder


@pytest.fixture
def place(unpacked, monkeypatch):
    for root in ROOTS:
        monkeypatch.setenv(f"DEPGEN_{root.upper()}", str(unpacked / root))
    return unpacked


@pytest.mark.slow
@pytest.mark.parametrize("kind", SYSTEMS)
def test_a_run_loads_and_tests_as_it_did(kind, place):
    run = place / "runs" / kind / "finished"
    held = load_checkpoint(run / "checkpoints" / "best.ckpt")["state_dict"]
    loaded = load_trained(run, device="cpu").model.state_dict()
    assert loaded.keys() == held.keys()
    assert all(torch.equal(loaded[name], value) for name, value in held.items())
    assert main(["test", "--run", str(run), "--trainer.accelerator", "cpu"]) == 0
    assert figures_of(run) == pytest.approx(SYSTEMS[kind]["test"], rel=1e-6, abs=1e-9, nan_ok=True)


def figures_of(run):
    return json.loads((run / "test.json").read_text())["metrics"]


@pytest.mark.parametrize("kind", [kind for kind, numbers in SYSTEMS.items() if "score" in numbers])
def test_a_run_scores_as_it_did(kind, place, capsys):
    assert main(["score", str(place / "text.txt"), "--by", "word", "--json", *common(place, kind)]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    words, tokens, scores = zip(*SYSTEMS[kind]["score"], strict=True)
    assert [row["word"] for row in rows] == list(words)
    assert [row["tokens"] for row in rows] == list(tokens)
    assert [row["log_prob"] for row in rows] == pytest.approx(list(scores), abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["generate", "parse"])
def test_a_run_writes_and_parses_as_it_did(verb, place, capsys):
    kinds = [kind for kind, numbers in SYSTEMS.items() if verb in numbers]
    assert kinds
    for kind in kinds:
        if verb == "generate":
            more = ["-n", "2", "--max_new_tokens", "12"]
        else:
            more = ["--input", str(place / "text.txt"), "--form", "as_is"]
            more += ["--attention_head", "[1,0]"] if kind == "masked_transformer" else []
        assert main([verb, *more, *common(place, kind)]) == 0
        assert capsys.readouterr().out.splitlines() == SYSTEMS[kind][verb], kind


REFUSED = {
    "score": ["text.txt", "--device", "cpu"],
    "generate": ["-n", "1", "--device", "cpu"],
    "test": ["--trainer.accelerator", "cpu"],
    "fit": [],
}
"""The options of verbs that need a run's vocabulary; `text.txt` is a file of the fixtures."""


@pytest.mark.slow
@pytest.mark.parametrize("verb", REFUSED)
def test_a_vocabulary_of_another_size_than_the_system_is_refused(verb, place, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(place / "runs" / "transformer" / ("interrupted" if verb == "fit" else "finished"), run)
    vocabulary = load_vocabulary(run / "vocabulary")
    for more, size in ((["xyzzy"], vocabulary.size + 1), ([], vocabulary.size - 2)):
        words = [*vocabulary.types[2:], *more] if more else vocabulary.types[2:-2]
        Vocabulary.of_words(words).save(run / "vocabulary")
        options = [str(place / each) if each == "text.txt" else each for each in REFUSED[verb]]
        assert main([verb, *options, "--resume" if verb == "fit" else "--run", str(run)]) == 2
        (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("depgen: ")]
        assert all(each in line for each in (".ckpt: ", f"of {vocabulary.size} token types", f"found one of {size}."))


def common(place, kind):
    return ["--run", str(place / "runs" / kind / "finished"), "--device", "cpu"]


INTERRUPTED = {
    "dmlm": ("first_phase", "second_phase"),
    "awd_lstm": ("averaging",),
    **dict.fromkeys(("transformer", "dm_gpt2", "adclm", "itexp", "udgn", "similarity"), ("interrupted",)),
}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in INTERRUPTED.items() for name in names])
def test_an_interrupted_run_ends_like_the_finished_one(kind, name, place):
    run, finished = (place / "runs" / kind / each for each in (name, "finished"))
    before = load_checkpoint(run / "checkpoints" / "resume.ckpt")
    if name == "averaging":
        assert before["optimizer_states"][0]["param_groups"][0]["averaged_steps"] > 0
    assert main(["fit", "--resume", str(run)]) == 0
    assert before["global_step"] < load_checkpoint(run / "checkpoints" / "resume.ckpt")["global_step"]
    found, expected = (load_checkpoint(each / "checkpoints" / "best.ckpt") for each in (run, finished))
    assert found["global_step"] == expected["global_step"]
    tolerance = OTHER_MASKS if kind == "udgn" else 1e-5
    assert distance(found["state_dict"], expected["state_dict"]) < 10 * tolerance
    assert curve(run) == pytest.approx(SYSTEMS[kind]["curve"], rel=tolerance)
    assert main(["test", "--run", str(run), "--trainer.accelerator", "cpu"]) == 0
    assert figures_of(run) == pytest.approx(SYSTEMS[kind]["test"], rel=tolerance, abs=1e-9, nan_ok=True)


OTHER_MASKS = 5e-3
"""How far a UDGN may end from the fixture, whose masks were drawn by batch: they are drawn by sentence from here on."""


def distance(weights, others):
    """The norm of the difference of weights over that of the others, without the biases of keys.

    Adam turns the rounding of another machine into steps where a gradient is 0. That is so at all biases of keys, which
    no attention depends on, and at some single weights.
    """
    assert weights.keys() == others.keys()
    difference = size = 0.0
    for name, other in others.items():
        if other.is_floating_point():
            pair = torch.stack((weights[name], other)).double()
            if name.endswith(("attention.projection.bias", "c_attn.bias")):
                pair.view(2, 3, -1)[:, 1] = 0
            difference += float((pair[0] - pair[1]).square().sum())
            size += float(pair[1].square().sum())
    return math.sqrt(difference / size)


def curve(run):
    """Validation losses, in the order in which `numbers.json` has them."""
    with (run / "metrics.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    names = sorted(name for name in rows[0] if name.startswith("val/") and name.endswith("loss"))
    return [float(row[name]) for name in names for row in rows if row[name]]


@pytest.mark.parametrize("cache", ["cache", "cache_interrupted"])
def test_a_story_scorer_is_found_or_trained_to_the_end(cache, place, monkeypatch, capsys):
    monkeypatch.setenv("DEPGEN_CACHE", str(place / cache))
    assert main(["train-union", "--config", str(place / "experiments" / "union.yaml")]) == 0
    assert ("is up to date" in capsys.readouterr().out) is (cache == "cache")
    none = ["--bertscore_model", "null", "--perplexity_model", "null", "--device", "cpu"]
    assert main(["evaluate-text", str(place / "stories.txt"), "--union", "stories", "--json", *none]) == 0
    found, expected = json.loads(capsys.readouterr().out), NUMBERS["union"]["scores"]
    assert found["metrics"]["union"] == pytest.approx(expected["metrics"]["union"], rel=1e-5)


@pytest.mark.parametrize("name", NUMBERS["parsers"])
def test_a_parser_gives_the_trees_that_it_did(name, place, capsys):
    config = place / "experiments" / f"parser_{name}.yaml"
    assert main(["train-parser", "--config", str(config)]) == 0
    assert "is up to date" in capsys.readouterr().out
    documents = read_conllu(place / "data" / "stories" / "test.conllu")
    gold = [sentence for document in documents for sentence in document.sentences]
    found = attachment_scores(gold, list(parser_named(name).annotate(gold))).as_dict()
    expected = NUMBERS["parsers"][name]
    for score in ("uas", "las", "uas_without_punctuation", "las_without_punctuation", "words"):
        assert found[score] == pytest.approx(expected[score]), score
