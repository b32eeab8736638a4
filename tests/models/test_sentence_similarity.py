"""Sentence similarity: what stands for a sentence, what is trained, and runs that need their encoder's no more."""

import json
import math
import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import yaml
from jsonargparse import ArgumentError, ArgumentParser
from scipy import stats

from depgen.cli import main
from depgen.data.batch import ItemBatch
from depgen.data.experiment import data_of
from depgen.data.sentence_pairs import EncodedPair, SentencePairs, collate_pairs
from depgen.data.sts import TEST_SETS, SimilarityTasks
from depgen.errors import UserError
from depgen.evaluation.trained import load_trained
from depgen.metrics.similarity import PairScores
from depgen.models.sentence_similarity import (
    PairHead,
    SentenceSimilarity,
    pair_features,
    sentence_vectors,
    similarity_figures,
)
from depgen.models.structformer import StructFormer
from depgen.models.udgn import UDGN
from depgen.reporting.run_facts import facts_of
from depgen.training.runs import read_record
from tests.invented_similarity import write_similarity

BACKBONE = {
    "class_path": "depgen.backbones.transformer.Transformer",
    "init_args": {"layers": 1, "width": 8, "attention_heads": 2, "feedforward": 8},
}
BOTH_SIDES = {**BACKBONE, "init_args": {**BACKBONE["init_args"], "causal": False, "output_bias": True}}
SYSTEMS = {
    "udgn": ("udgn.UDGN", {"width": 8, "layers": 1, "attention_heads": 2, "head_size": 4, "parser_layers": 1}),
    "structformer": ("structformer.StructFormer", {"backbone": BOTH_SIDES}),
    "masked_transformer": ("masked_transformer.MaskedTransformer", {"backbone": BOTH_SIDES}),
    "causal": ("causal_lm.CausalLM", {"backbone": BACKBONE}),
}  # fmt: skip


def test_arguments_of_the_base_are_taken_and_others_refused():
    parser = ArgumentParser(exit_on_error=False)
    parser.add_class_arguments(SentenceSimilarity, "model")
    adam = ["--model.optimizer", "torch.optim.Adam", "--model.optimizer.lr", "0.5"]
    found = parser.parse_args(["--model.vocabulary_size", "3", *adam])
    assert parser.instantiate_classes(found).model._optimizer([torch.zeros(1)]).defaults["lr"] == 0.5
    with pytest.raises(ArgumentError, match="optimiser"):
        parser.parse_args(["--model.vocabulary_size", "3", "--model.optimiser", "torch.optim.Adam"])


def experiment(name, arguments):
    stories = {
        "class_path": "depgen.data.generated.GeneratedLanguage",
        "init_args": {"train": 2, "valid": 1, "test": 1, "sentences": [5, 5]},
    }
    words = {
        "class_path": "depgen.data.vocabulary.WordVocabulary",
        "init_args": {"masks": name != "causal_lm.CausalLM"},
    }
    return {
        "trainer": {"max_epochs": 1, "accelerator": "cpu"},
        "model": {"class_path": f"depgen.models.{name}", "init_args": arguments},
        "data": {"class_path": "depgen.data.text.TextData", "init_args": {"corpus": stories, "vocabulary": words}},
    }  # fmt: skip


def fine_tuning(encoder, **model):
    optimizer = {"class_path": "torch.optim.AdamW", "init_args": {"lr": 3e-3}}
    corpus = {"class_path": "depgen.data.sts.SimilarityTasks"}
    data = {"encoder": encoder, "corpus": corpus, "pairs_per_batch": 16}
    return {
        "trainer": {"max_epochs": 2, "accelerator": "cpu"},
        "model": {
            "class_path": "depgen.models.sentence_similarity.SentenceSimilarity",
            "init_args": {"optimizer": optimizer, **model},
        },
        "data": {"class_path": "depgen.data.sentence_pairs.SentencePairs", "init_args": data},
    }


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Invented files, and a run of each system that can be an encoder, and of one that can't."""
    folder = tmp_path_factory.mktemp("place")
    write_similarity(folder / "data" / "sts")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("data", "cache", "runs"):
            patch.setenv(f"DEPGEN_{name.upper()}", str(folder / name))
        for name, settings in SYSTEMS.items():
            fit(folder / f"{name}.yaml", experiment(*settings))
        yield folder


def fit(path, settings, *options):
    path.write_text(yaml.safe_dump(settings))
    assert main(["fit", "--config", str(path), *options]) == 0


def run_of(place, name):
    (run,) = (place / "runs" / name).iterdir()
    return run


def model_of(place, name="udgn", **arguments):
    """A system with its encoder, and its data, outside a trainer."""
    data = SentencePairs(SimilarityTasks(), str(run_of(place, name)))
    model = SentenceSimilarity(data.vocabulary_size, **arguments)
    model._trainer = SimpleNamespace(datamodule=data, world_size=1)
    model.configure_model()
    model.log = lambda *_, **__: None
    return model, data


def trees_of(model, data):
    """How probable the encoder finds each word as each other's head; nothing where it does not parse."""
    batch = batch_of(data, "train", 0, 1)
    if not isinstance(model.encoder, (UDGN, StructFormer)):
        return torch.empty(0)
    return model.eval().encoder.head_probabilities(batch.tokens, batch.lengths).detach()


def batch_of(data, split, *indices):
    pairs = data.split(split)
    return collate_pairs(share_of([pairs[i] for i in indices], data.vocabulary, len(indices)))


def share_of(pairs, vocabulary, size):
    """Pairs of a global batch of this size."""
    return ItemBatch(pairs, 0, vocabulary, global_items=size)


# -- networks ---------------------------------------------------------------------------------------------------------


def test_a_sentence_is_the_mean_of_its_own_words():
    states, lengths = torch.randn(3, 4, 5), torch.tensor([4, 1, 2])
    states[1, 1:] = torch.nan  # padding
    vectors = sentence_vectors(states, lengths)
    for row, length in enumerate(lengths):
        torch.testing.assert_close(vectors[row], states[row, :length].mean(0))


def test_the_head_is_its_formula():
    head = PairHead(3, dropout=0.5).eval()
    assert head.hidden.bias.abs().max() == head.output.bias.abs().max() == 0
    assert head.hidden.weight.abs().max() <= math.sqrt(6 / 9)
    u, v = torch.randn(4, 3), torch.randn(4, 3)
    features = torch.tensor([[*(a * b).tolist(), *(a - b).abs().tolist()] for a, b in zip(u, v, strict=True)])
    torch.testing.assert_close(pair_features(u, v), features)
    inner = features @ head.hidden.weight.T
    expected = 5 / (1 + torch.exp(-(torch.where(inner > 0, inner, inner.exp() - 1) @ head.output.weight[0])))
    torch.testing.assert_close(head(u, v), expected)
    torch.testing.assert_close(head(v, u), expected)
    assert not torch.equal(head.train()(u, v), expected)


# -- the system -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["udgn", "structformer", "masked_transformer"])
def test_scores_move_neither_with_the_batch_nor_with_the_order_of_a_pair(place, name):
    model, data = model_of(place, name)
    model.eval()
    together = batch_of(data, "test", *range(20))
    found = model(together)
    for index in (0, 7, 19):
        alone = batch_of(data, "test", index)
        torch.testing.assert_close(model(alone)[0], found[index], rtol=1e-5, atol=1e-5)
        swapped = model(replace(alone, tokens=alone.tokens.flip(0), lengths=alone.lengths.flip(0)))
        torch.testing.assert_close(swapped[0], found[index], rtol=1e-5, atol=1e-5)
    assert found.std() > 0


def test_the_encoder_begins_with_the_weights_of_its_run(place):
    model, _ = model_of(place)
    weights = load_trained(run_of(place, "udgn"), device="cpu").model.state_dict()
    found = model.encoder.state_dict()
    assert found.keys() == weights.keys()
    assert all(torch.equal(found[name], weights[name]) for name in weights)


@pytest.mark.parametrize(
    ("name", "finetune", "frozen"),
    [
        ("udgn", "full", ("encoder.bias",)),
        ("udgn", "frozen_parser", ("encoder.bias", "encoder.parser.")),
        (
            "structformer",
            "frozen_parser",
            ("encoder.backbone.bias", "encoder.backbone.embedding.", "encoder.parser.", "encoder.log_scales"),
        ),
        ("masked_transformer", "full", ("encoder.backbone.bias",)),
        ("udgn", "classifier", ("encoder.",)),
    ],
)
def test_what_is_to_be_trained_changes_and_the_rest_does_not(place, name, finetune, frozen):
    model, data = model_of(place, name, finetune=finetune)
    before = {key: value.clone() for key, value in model.named_parameters()}
    trees = trees_of(model, data)
    optimizer = torch.optim.SGD(model.trained_parameters(), lr=1.0)
    torch.manual_seed(0)
    model.train().training_step(batch_of(data, "train", *range(24)), 0).backward()
    optimizer.step()
    changed = {key for key, value in model.named_parameters() if not torch.equal(value, before[key])}
    assert changed
    assert all(any(key.startswith(part) for key in before) for part in frozen)
    trained = {key for key, value in model.named_parameters() if value.requires_grad}
    assert changed <= trained == {key for key in before if not key.startswith(frozen)}
    assert any(key.startswith("encoder.") for key in changed) == (finetune != "classifier")
    if finetune == "frozen_parser":
        torch.testing.assert_close(trees_of(model, data), trees, rtol=0, atol=0)
    if name == "udgn" and finetune == "full":
        assert any(key.startswith("encoder.parser.") for key in changed)
        assert not torch.equal(trees_of(model, data), trees)


@pytest.mark.slow
def test_it_learns_eight_pairs_by_heart(place):
    model, data = model_of(place, dropout=0.0)
    model.encoder.eval()
    generator = np.random.default_rng(0)
    words = generator.integers(3, data.vocabulary_size, (8, 2, 5), dtype=np.int32)
    pairs = [EncodedPair(k, *words[k], float(k % 6), -1, False) for k in range(8)]
    batch = collate_pairs(share_of(pairs, data.vocabulary, 8))
    optimizer = torch.optim.Adam(model.trained_parameters(), lr=1e-2)
    for step in range(80):
        optimizer.zero_grad()
        loss = model.training_step(batch, step)
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.05


def test_the_loss_is_the_mean_over_the_global_batch(place):
    model, data = model_of(place, dropout=0.0)
    model.eval()
    pairs = data.split("train")
    share = collate_pairs(share_of([pairs[k] for k in range(3)], data.vocabulary, 6))  # half of a batch of six
    predicted = model(share)
    expected = (predicted - share.scores).square().sum() / 6
    torch.testing.assert_close(model.training_step(share, 0), expected)


def test_an_encoder_that_is_none_is_refused(place):
    with pytest.raises(UserError, match=r"best\.ckpt: expected a masked language model, .* found .*CausalLM"):
        model_of(place, "causal")
    with pytest.raises(UserError, match="frozen_parser needs an encoder with a parser, found MaskedTransformer"):
        model_of(place, "masked_transformer", finetune="frozen_parser")
    told = json.dumps({"_class_path": "depgen.models.udgn.UDGN", "vocabulary_size": 9, "mask_from": "trees"})
    reading_trees = SentenceSimilarity(9, architecture=told)
    reading_trees.configure_model()
    with pytest.raises(UserError, match=r"mask_from: trees needs trees, which texts that are .* paired do not have"):
        reading_trees.vectors(torch.tensor([[3, 4]]), torch.tensor([2]))
    model = SentenceSimilarity(9)
    model._trainer = SimpleNamespace(datamodule="text")
    with pytest.raises(UserError, match=r"set data to .*SentencePairs, found str"):
        model.configure_model()
    elsewhere = json.dumps({"_class_path": "torch.nn.Linear", "in_features": 1})
    with pytest.raises(UserError, match=r"no MaskedLanguageModel torch\.nn\.Linear"):
        SentenceSimilarity(9, architecture=elsewhere).configure_model()


# -- figures ----------------------------------------------------------------------------------------------------------


def test_figures_are_correlations_of_each_set_and_their_means():
    generator = np.random.default_rng(0)
    sets = np.repeat(np.arange(7), 30)
    predicted, judged = generator.random(210), generator.integers(0, 6, 210).astype(float)
    seen = generator.random(210) < 0.3
    figures = similarity_figures(PairScores(np.arange(210), predicted, judged, sets, seen))
    for kind, function, kept in (
        ("spearman", stats.spearmanr, slice(None)),
        ("pearson", stats.pearsonr, slice(None)),
        ("unseen_spearman", stats.spearmanr, ~seen),
        ("unseen_pearson", stats.pearsonr, ~seen),
    ):
        expected = []
        for number, name in enumerate(TEST_SETS):
            here = np.zeros(210, bool)
            here[kept] = sets[kept] == number
            expected.append(100 * function(predicted[here], judged[here]).statistic)
            assert figures[f"{name}_{kind}"] == pytest.approx(expected[-1])
        assert figures[f"mean_{kind}"] == pytest.approx(np.mean(expected))
    assert figures["sick_spearman_low"] < figures["sick_spearman"] < figures["sick_spearman_high"]
    some = similarity_figures(PairScores(np.arange(30), predicted[:30], judged[:30], sets[:30], seen[:30]))
    assert math.isnan(some["mean_spearman"])
    assert not any(name.startswith("sick") for name in some)


# -- runs -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tuned(place):
    """A fine-tuned run, after the encoder's run has gone."""
    shutil.copytree(place / "runs" / "udgn", place / "runs" / "gone")
    fit(place / "tuned.yaml", fine_tuning("gone", selected_by="spearman"))
    parameters = sum(each.numel() for each in load_trained(run_of(place, "gone"), device="cpu").model.parameters())
    shutil.rmtree(place / "runs" / "gone")
    run = run_of(place, "tuned")
    width = 8
    assert read_record(run)["parameters"] == parameters + 2 * width * width + width + width + 1
    return run


@pytest.mark.slow
def test_a_run_is_tested_alone_and_its_numbers_are_its_predictions(tuned, capsys):
    assert main(["test", "--run", str(tuned)]) == 0
    assert " given, " not in capsys.readouterr().err
    content = json.loads((tuned / "test.json").read_text())
    assert content["items"] == 62
    assert not (tuned / "test_items.npz").exists()
    trained = load_trained(tuned, device="cpu")
    data = SentencePairs(SimilarityTasks(), "gone")
    data.use_vocabulary(tuned / "vocabulary")
    predicted, judged = [], []
    for batch in data.test_dataloader():
        here = (batch.test_sets == 6).nonzero()[:, 0]
        predicted.append(trained.model(batch)[here])
        judged.append(batch.scores[here])
    expected = stats.spearmanr(torch.cat(predicted).detach(), torch.cat(judged)).statistic
    metrics = content["metrics"]
    assert metrics["test/sick_spearman"] == pytest.approx(100 * expected, abs=1e-3)
    names = [f"test/{name}_{kind}" for name in (*TEST_SETS, "mean") for kind in ("spearman", "pearson")]
    assert set(names) <= metrics.keys()
    means = [metrics[f"test/{name}_spearman"] for name in TEST_SETS]
    assert metrics["test/mean_spearman"] == pytest.approx(np.mean(means), abs=1e-3)


def test_the_best_epoch_by_the_chosen_correlation_is_kept(tuned):
    checkpoint = torch.load(tuned / "checkpoints" / "best.ckpt", weights_only=True)
    best = checkpoint["callbacks"]["Phases"]["best"]
    lines = (tuned / "metrics.csv").read_text().splitlines()
    columns = lines[0].split(",")
    rows = [dict(zip(columns, line.split(","), strict=True)) for line in lines[1:]]
    found = [float(row["val/spearman"]) for row in rows if row["val/spearman"]]
    assert len(found) == 2
    assert best == pytest.approx(1 - max(found) / 100, abs=1e-6)
    assert all(float(row["val/loss"]) > 0 for row in rows if row["val/loss"])


def test_a_table_finds_its_facts_in_a_run(tuned):
    facts = facts_of(tuned, data_of(tuned / "config.yaml"))
    assert facts.data.corpus == "STS"
    assert facts.data.train_documents == 48
    assert facts.data.reduced
    assert facts.trees is None
    assert facts.budget.epochs == 2
    assert facts.parameters == read_record(tuned)["parameters"]


def test_a_finished_run_is_gone_on_with_by_its_own_settings(tuned, place, capsys):
    assert main(["fit", "--resume", str(tuned), "--config", str(place / "tuned.yaml")]) == 0
    assert main(["fit", "--resume", str(tuned), "--config", str(place / "tuned.yaml"), "--model.dropout", "0.3"]) == 2
    assert "model.init_args.dropout: 0.3 given, 0.1 in the checkpoint" in capsys.readouterr().err


def test_a_run_without_an_encoder_does_not_begin(place, capsys):
    (place / "lost.yaml").write_text(yaml.safe_dump(fine_tuning("nowhere")))
    assert main(["fit", "--config", str(place / "lost.yaml")]) == 2
    assert "No run at" in capsys.readouterr().err
    (place / "causal_tuned.yaml").write_text(yaml.safe_dump(fine_tuning("causal")))
    assert main(["fit", "--config", str(place / "causal_tuned.yaml")]) == 2
    assert "expected a masked language model" in capsys.readouterr().err


def test_a_pair_of_unknown_words_has_a_similarity(place):
    model, data = model_of(place)
    unknown = np.array([1], dtype=np.int32)
    batch = collate_pairs(share_of([EncodedPair(0, unknown, unknown, 1.0, -1, False)], data.vocabulary, 1))
    found = model.eval()(batch)
    assert 0 < found.item() < 5
