"""Training into the cache, going on after a stop, and scoring by what lies there."""

import csv
import dataclasses
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from depgen.annotation.tagger import SuffixTagger
from depgen.cli import main
from depgen.errors import UserError
from depgen.evaluation.text.measures import TextOptions, text_metrics
from depgen.evaluation.text.outcome import NotComputed
from depgen.evaluation.union.scoring import areas, describe, load_scorer, scorer_folder, union_score
from depgen.evaluation.union.stories import UnionData, text_of
from depgen.evaluation.union.train_union import report, train_union
from depgen.evaluation.union.training import UnionModule, UnionTraining
from depgen.metrics.roc import auc
from tests.evaluation.union.conftest import PetStories, small_encoder

TRAINING = UnionTraining(
    epochs=2, masked_word_epochs=1, learning_rate=3e-3, reconstruction=0.1, detection=0.5, pooling="first_mean_max",
    accelerator="cpu",
)  # fmt: skip


def train(name, **options):
    data = UnionData(PetStories(), SuffixTagger(), tokens_per_batch=200, max_length=60)
    return train_union(data, small_encoder(), TRAINING, name, progress=False, **options)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A cache with a trained scorer, `pets`; its report."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEPGEN_CACHE", str(folder))
        yield train("pets")


def lengthen(curve, seconds):
    """Let what was trained so far have taken more time."""
    with curve.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    with curve.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows({**row, "seconds": float(row["seconds"]) + seconds} for row in rows)


@pytest.fixture
def scorer(cache):
    return load_scorer(scorer_folder("pets"))


def test_the_report_says_how_well_stories_are_told_apart(cache):
    content = json.loads((scorer_folder("pets") / "union.json").read_text())
    assert cache.splitlines()[0].startswith("BERT of 1 x 32, 37 words, from scratch, pets (12 stories)")
    for split in ("valid", "test"):
        assert 0 <= content["auc"][split]["all"] <= 1
        assert f"{content['auc'][split]['all']:.4f}" in cache
    assert [path.name for path in scorer_folder("pets").parent.iterdir() if path.is_dir()] == ["pets"]


def test_a_kind_of_change_without_stories_has_no_figure(cache, tmp_path):
    folder = shutil.copytree(scorer_folder("pets"), tmp_path / "pets")
    content = json.loads((folder / "union.json").read_text())
    content["auc"] = {"valid": {"all": 0.5, "shuffled": 0.25}, "test": {"all": 0.5}}
    (folder / "union.json").write_text(json.dumps(content))
    assert report(folder).splitlines()[3].split() == ["shuffled", "0.2500", "none"]


def test_it_is_trained_once_and_another_of_that_name_is_refused(cache):
    before = (scorer_folder("pets") / "union.json").read_bytes()
    assert "is up to date" in train("pets")
    with pytest.raises(UserError, match="trained otherwise"):
        train("pets", seed=2)
    assert (scorer_folder("pets") / "union.json").read_bytes() == before


def test_a_scorer_is_found_in_a_cache_that_cannot_be_written(cache, tmp_path):
    place = scorer_folder("pets").with_name("pets.lock")
    lock = place.rename(tmp_path / "pets.lock")
    place.mkdir()
    try:
        assert "is up to date" in train("pets")
    finally:
        place.rmdir()
        lock.rename(place)


def test_a_list_of_words_that_is_not_there_is_named(cache, tmp_path):
    data = UnionData(PetStories(), SuffixTagger(), conceptnet_antonyms=tmp_path / "missing.txt")
    with pytest.raises(UserError, match=r"missing\.txt: .*ConceptNet"):
        train_union(data, small_encoder(), TRAINING, "listless", progress=False)


def test_a_name_may_lie_in_a_folder(cache):
    training = dataclasses.replace(TRAINING, epochs=1, masked_word_epochs=0)
    data = UnionData(PetStories(), SuffixTagger(), tokens_per_batch=200, max_length=60)
    assert "pets (12 stories)" in train_union(data, small_encoder(), training, "farm/pets", progress=False)
    assert [path.name for path in scorer_folder("farm").iterdir() if path.is_dir()] == ["pets"]


def test_a_seed_is_no_negative_number(cache):
    with pytest.raises(UserError, match="seed: expected a seed from 0"):
        train("unseeded", seed=-1)


def test_a_stopped_training_goes_on_to_the_same_weights(cache, monkeypatch, scorer):
    def stop(module):
        if module.current_epoch == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(UnionModule, "on_train_epoch_start", stop)
        with pytest.raises(KeyboardInterrupt):
            train("stopped")
    assert not scorer_folder("stopped").exists()
    (curve,) = scorer_folder("stopped").parent.glob(".stopped.*/metrics.csv")
    lengthen(curve, 5000)
    assert "trained in 5,0" in train("stopped")
    assert 5000 < json.loads((scorer_folder("stopped") / "union.json").read_text())["training_seconds"] < 5600
    resumed = load_scorer(scorer_folder("stopped")).network.state_dict()
    unbroken = scorer.network.state_dict()
    used = [name for name in unbroken if "pooler" not in name]  # which is not kept, and read by no score
    assert len(used) > 10
    assert all(torch.equal(resumed[name], unbroken[name]) for name in used)


def test_scores_depend_neither_on_batch_nor_on_order_nor_on_case(scorer):
    data = UnionData(PetStories(), SuffixTagger(), max_length=60)
    texts = [text_of(story) for story in data.stories("train")]
    texts += ["a dog .", texts[0] + " " + texts[1]]
    together = scorer.score(texts)
    assert ((together > 0) & (together < 100)).all()
    assert len(np.unique(together.round(6))) > 3
    assert scorer.score(texts, batch_size=1) == pytest.approx(together, abs=1e-3)
    assert scorer.score(texts[::-1], batch_size=3)[::-1] == pytest.approx(together, abs=1e-3)
    assert scorer.score([text.upper().replace(" ", "  ") for text in texts]) == pytest.approx(together, abs=1e-3)


def test_long_texts_are_cut_with_a_warning(scorer, caplog):
    long = " ".join(["the dog was found ."] * 30)
    cut = " ".join(long.split()[: scorer.max_length - 2])
    assert scorer.score([long]) == pytest.approx(scorer.score([cut]))
    assert "UNION reads no more than 60 tokens" in caplog.text


def test_texts_are_read_after_their_prompts_and_empty_ones_score_zero(scorer):
    prompts, texts = ["[FEMALE] wanted a dog .", "a cat", "x"], ["she paid .", "", "the dog was found ."]
    found = union_score(texts, prompts, scorer="pets")
    whole = scorer.score([f"{prompt} {text}" for prompt, text in zip(prompts, texts, strict=True)])
    assert found.items == pytest.approx([whole[0], 0.0, whole[2]])
    assert found.value == pytest.approx(found.items.mean())
    alone = union_score(texts, scorer=str(scorer_folder("pets")))
    assert alone.items[0] != pytest.approx(found.items[0])
    assert "of our own, not the published one" in found.description
    assert "texts after their prompts" in found.description
    assert "whole stories" in alone.description
    with pytest.raises(UserError, match="one prompt a text"):
        union_score(texts, ["a"], scorer="pets")


def test_a_scorer_of_an_older_fingerprint_is_still_found_by_its_name(cache, scorer):
    older = scorer_folder("older")
    shutil.copytree(scorer_folder("pets"), older)
    content = json.loads((older / "union.json").read_text())
    (older / "union.json").write_text(json.dumps({**content, "fingerprint": "0" * 64}))
    found = union_score(["the dog was found ."], scorer="older")
    assert found.items == pytest.approx(scorer.score(["the dog was found ."]))
    assert found.description.endswith("; 000000000000")
    with pytest.raises(UserError, match="trained otherwise"):
        train("older")


def test_it_is_among_the_text_measures(cache):
    options = TextOptions(bertscore_model=None, perplexity_model=None, union="pets", device="cpu", resamples=20)
    texts, prompts = ["she paid .", "", "a dog ."], ["[FEMALE] wanted a dog ."] * 3
    found = text_metrics(texts, None, options, prompts=prompts)
    assert found.items["union"].tolist() == union_score(texts, prompts, scorer="pets").items.tolist()
    assert "AUC" in found.settings["union"]
    with pytest.raises(UserError, match="3 texts and 1 prompts"):
        text_metrics(texts, None, options, prompts=["a"])


def test_a_scorer_that_is_not_there_is_a_reason(cache):
    found = union_score(["a"], scorer="absent")
    assert isinstance(found, NotComputed)
    assert "no UNION scorer 'absent'" in found.reason
    assert "depgen train-union" in found.reason


def test_areas_are_by_what_was_done(scorer):
    data = UnionData(PetStories(), SuffixTagger(), max_length=60)
    data.tokenizer = scorer.tokenizer
    pairs = data.pairs("train", epoch=0)
    found = areas(scorer, pairs)
    human = scorer.score([text_of(story) for story in pairs.stories])
    samples = [pairs.corrupted(index) for index in range(len(pairs))]
    scores = scorer.score([text_of(sample.story) for sample in samples])
    assert found["all"] == pytest.approx(auc(human, scores))
    two = [score for score, sample in zip(scores, samples, strict=True) if len(sample.forms) == 2]
    assert found["2 operations"] == pytest.approx(auc(human, np.array(two)))
    alone = {sample.forms[0] for sample in samples if len(sample.forms) == 1}
    assert alone <= set(found)


def test_a_description_names_encoder_corpus_and_digest(cache):
    content = json.loads((scorer_folder("pets") / "union.json").read_text())
    said = describe(scorer_folder("pets"), prompted=True)
    assert "trained on pets (12 stories)" in said
    assert content["fingerprint"][:12] in said
    (scorer_folder("pets").parent / "broken").mkdir(exist_ok=True)
    (scorer_folder("pets").parent / "broken" / "union.json").write_text("{")
    with pytest.raises(UserError, match=r"union\.json: expected JSON.*Train the UNION scorer"):
        union_score(["a"], scorer="broken")


@pytest.mark.parametrize("path", sorted(Path("experiments").glob("union_*.yaml")), ids=lambda path: path.stem)
def test_every_experiment_parses(path, cache):
    assert main(["train-union", "--config", os.fspath(path), "--print_config"]) == 0


def test_the_small_experiment_differs_in_sizes_alone():
    large, small = (
        yaml.safe_load(Path(f"experiments/union_rocstories{size}.yaml").read_text()) for size in ("", "_small")
    )
    for part in ("name", "seed", "data"):
        assert large[part] == small[part]
    assert large["encoder"]["class_path"] == small["encoder"]["class_path"]
    for block, sizes in (("encoder", {"layers", "width", "attention_heads", "feedforward"}), ("training", {"epochs"})):
        one, other = (each[block].get("init_args", each[block]) for each in (large, small))
        assert one.keys() == other.keys()
        assert {name for name in one if one[name] != other[name]} <= sizes
