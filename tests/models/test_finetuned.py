"""Fine-tuned systems: prompts against the library alone, sentence vectors by closed forms, figures by hand."""

import json
import math
import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import yaml
from scipy import stats
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

from depgen.cli import main
from depgen.data.batch import ItemBatch
from depgen.data.tasks import TEST_SETS, GluePrompts, SimilarityTasks, TaskData
from depgen.errors import UserError
from depgen.evaluation.induced import InducedGraphs
from depgen.evaluation.push import push
from depgen.evaluation.trained import load_trained
from depgen.metrics.similarity import PairScores
from depgen.models.finetuned import (
    PairHead,
    PromptedModel,
    SentenceSimilarity,
    class_figures,
    correlations,
    pair_features,
    sentence_vectors,
    set_correlations,
)
from depgen.models.structformer import StructFormer
from depgen.models.udgn import UDGN
from depgen.training.runs import read_record
from depgen.trees.sentence import Sentence
from tests.fixtures.kinds import named
from tests.invented_glue import write_glue
from tests.invented_models import write_gpt2_run
from tests.invented_similarity import write_similarity

STORIES = named("data.generated.GeneratedLanguage", train=6, valid=2, test=2, sentences=[5, 5])
MASKED_WORDS = named("data.vocabulary.WordVocabulary", masks=True)
BOTH_SIDES = named(
    "backbones.transformer.Transformer",
    layers=1,
    width=8,
    attention_heads=2,
    feedforward=8,
    causal=False,
    output_bias=True,
)
MASKED = {
    "udgn": ("udgn.UDGN", {"width": 8, "layers": 1, "attention_heads": 2, "head_size": 4, "parser_layers": 1}),
    "structformer": ("structformer.StructFormer", {"backbone": BOTH_SIDES}),
    "masked_transformer": ("masked_transformer.MaskedTransformer", {"backbone": BOTH_SIDES}),
}
WORDS = ("the", "cat")
"""Verbalisers: the small vocabularies here begin all numbers with the same piece."""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Files of GLUE and STS, and runs of a GPT-2, a GiLT and of masked language models."""
    folder = tmp_path_factory.mktemp("tasks")
    write_glue(folder / "data" / "glue", train=20, dev=7)
    write_similarity(folder / "data" / "sts")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("data", "cache", "runs"):
            patch.setenv(f"DEPGEN_{name.upper()}", str(folder / name))
        write_gpt2_run(folder / "runs", corpus=STORIES)
        write_gpt2_run(folder / "runs", corpus=STORIES, experiment="gilt", graphs=True)
        for name, (system, arguments) in MASKED.items():
            model = named(f"models.{system}", **arguments)
            text = {"corpus": STORIES, "vocabulary": MASKED_WORDS}
            fit(folder / f"{name}.yaml", model, named("data.text.TextData", **text))
        yield folder


def fit(path, model, data, *, epochs=1):
    trainer = {"max_epochs": epochs, "accelerator": "cpu"}
    path.write_text(yaml.safe_dump({"trainer": trainer, "model": model, "data": data}))
    assert main(["fit", "--config", str(path)]) == 0


def run_of(place, name):
    (run,) = (place / "runs" / name).iterdir()
    return run


def system_of(kind, data, **options):
    """A system on the run that the data name, as a trainer makes it, and its data."""
    model = kind(data.vocabulary_size, **options)
    model._trainer = SimpleNamespace(datamodule=data, world_size=1, global_rank=0)
    model.configure_model()
    model.log = lambda *_, **__: None
    data.collate = model.collate
    return model, data


def prompts_of(task, *, encoder="gpt2", annotator=None, **options):
    corpus = GluePrompts(task, verbalisers=None if task == "stsb" else WORDS)
    model, data = system_of(PromptedModel, TaskData(corpus, encoder, annotator=annotator), **options)
    return model.eval(), data


def pairs_of(place, name="udgn", **options):
    return system_of(SentenceSimilarity, TaskData(SimilarityTasks(), str(run_of(place, name))), **options)


def batch_of(data, split, *places):
    """The examples at some places of a split, as one batch."""
    items = data.test_dataloader().dataset.items if split == "test" else data.train_dataloader(0).dataset.items
    examples = [items[place] for place in places]
    return data.collate(ItemBatch(examples, len(places), data.vocabulary, global_items=len(places)))


# -- prompts ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@torch.no_grad()
def test_answers_are_those_of_the_library_alone(place, tmp_path):
    folder = tmp_path / "exported"
    push("gpt2", to=folder, form="transformers")
    network = AutoModelForCausalLM.from_pretrained(folder).eval()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    model, data = prompts_of("rte")
    ids = [tokenizer.encode(f" {word}").ids[0] for word in WORDS]
    prompts = list(data.corpus.examples("test"))
    (batch,) = data.test_dataloader()
    classes, words = model.verbaliser_log_probs(model.last_states(batch))
    answers = model(batch)
    for row, item in enumerate(batch.items.tolist()):
        (prompt,) = prompts[item].sentences
        read = [network.config.bos_token_id, *tokenizer.encode(" " + " ".join(prompt)).ids]
        expected = network(torch.tensor([read])).logits[0, -1].log_softmax(-1)
        torch.testing.assert_close(words[row], expected, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(classes[row], expected[ids], rtol=1e-4, atol=1e-5)
        assert answers[row] == expected[ids].argmax()
        assert batch.answers[row] == prompts[item].answer
    assert len(answers) == 7
    nll = -classes.gather(1, batch.answers.long()[:, None]).sum()
    torch.testing.assert_close(model.training_step(batch, 0), nll / 7)


@torch.no_grad()
def test_a_word_of_no_class_counts_as_class_0_where_all_words_are_answers(place):
    model, data = prompts_of("rte", answers_among="vocabulary")
    (batch,) = data.test_dataloader()
    none, zero, one = (torch.full((1, data.vocabulary_size), -9.0) for _ in range(3))
    first, second = model.verbalisers
    none[0, 2 if 2 not in model.verbalisers else 3] = zero[0, first] = one[0, second] = 0.0
    none[0, second] = -1.0
    words = torch.cat((none, zero, one))
    model.last_states = lambda batch: words
    model.verbaliser_log_probs = lambda states: (states[:, model.verbalisers], states)
    assert model(batch).tolist() == [0, 0, 1]
    model.answers_among = "verbalisers"
    assert model(batch).tolist() == [1, 0, 1]


@pytest.mark.slow
def test_graphs_of_prompts_are_the_best_of_the_beam_and_move_answers(place):
    annotator = InducedGraphs("gilt", beam_size=3)
    assert annotator.fingerprint() != InducedGraphs("gilt", beam_size=2).fingerprint()
    trained = load_trained("gilt")
    words = ("A", "fox;", "Label:")
    ids = [piece for word in words for piece in trained.vocabulary.pieces(word)]
    (expected,) = trained.model.parse([ids], vocabulary=trained.vocabulary, beam_size=3)
    (annotated,) = annotator.annotate([Sentence(words)])
    assert sorted(annotated.edges) == sorted(expected)
    with pytest.raises(UserError, match="CausalLM, which does not parse"):
        InducedGraphs("gpt2").annotate([Sentence(words)])
    model, data = prompts_of("rte", encoder="gilt", annotator=annotator)
    (batch,) = data.test_dataloader()
    with torch.no_grad():
        first, _ = model.verbaliser_log_probs(model.last_states(batch))
        batch.sequences.tapes.zero_()
        second, _ = model.verbaliser_log_probs(model.last_states(batch))
    assert not torch.allclose(first, second, rtol=0, atol=1e-7)
    assert not any(each.requires_grad for each in model.encoder.scorer.parameters())
    assert all(each.requires_grad for each in model.encoder.backbone.parameters())


# -- pairs ------------------------------------------------------------------------------------------------------------


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


def test_the_encoder_begins_with_the_weights_of_its_run(place):
    model, _ = pairs_of(place)
    weights = load_trained(run_of(place, "udgn"), device="cpu").model.state_dict()
    own = model.encoder.state_dict()
    assert own.keys() == weights.keys()
    assert all(torch.equal(own[name], weights[name]) for name in weights)


def trees_of(model, data):
    """How probable the encoder finds each word as each other's head; nothing where it does not parse."""
    sentences = batch_of(data, "train", 0, 1).sequences
    if not isinstance(model.encoder, (UDGN, StructFormer)):
        return torch.empty(0)
    return model.eval().encoder.head_probabilities(sentences.tokens, sentences.lengths).detach()


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
    model, data = pairs_of(place, name, finetune=finetune)
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


def test_the_loss_is_the_mean_over_the_global_batch(place):
    model, data = pairs_of(place, dropout=0.0)
    share = replace(batch_of(data, "train", 0, 1, 2), global_examples=6)  # half of a batch of six
    expected = (model.eval()(share) - share.answers).square().sum() / 6
    torch.testing.assert_close(model.training_step(share, 0), expected)


# -- figures ----------------------------------------------------------------------------------------------------------


def answers(predicted, judged):
    none = np.zeros(len(judged), np.int64)
    return PairScores(none, np.array(predicted, float), np.array(judged, float), none, none.astype(bool))


def test_accuracy_and_f1_are_those_by_hand():
    assert class_figures(answers([1, 1, 0, 0, 0], [1, 0, 1, 0, 1])) == pytest.approx(
        {"accuracy": 40.0, "f1": 100 * 2 / (2 + 1 + 2), "majority_accuracy": 60.0, "majority_f1": 75.0}
    )
    none = class_figures(answers([0, 0], [0, 0]))
    assert (none["f1"], none["majority_f1"], none["majority_accuracy"]) == (0.0, 0.0, 100.0)


def test_correlation_is_the_mean_of_both():
    found = PromptedModel(9, "correlation", verbalisers=[]).figures_of(answers([1, 2, 4], [1, 3, 2]), "test")
    assert found == pytest.approx({"pearson": 32.7327, "spearman": 50.0, "correlation": 41.3663}, rel=1e-4)
    assert correlations(answers([1, 2, 4], [1, 3, 2])).keys() == {"pearson", "spearman"}


def test_figures_of_pairs_are_correlations_of_each_set_and_their_means():
    generator = np.random.default_rng(0)
    sets = np.repeat(np.arange(7), 30)
    predicted, judged = generator.random(210), generator.integers(0, 6, 210).astype(float)
    seen = generator.random(210) < 0.3
    figures = set_correlations(PairScores(np.arange(210), predicted, judged, sets, seen))
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
    some = set_correlations(PairScores(np.arange(30), predicted[:30], judged[:30], sets[:30], seen[:30]))
    assert math.isnan(some["mean_spearman"])
    assert not any(name.startswith("sick") for name in some)


# -- whole runs -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tuned(place):
    """A fine-tuned run, after the encoder's run has gone."""
    shutil.copytree(place / "runs" / "udgn", place / "runs" / "gone")
    optimizer = named("torch.optim.AdamW", lr=0.003)
    model = named("models.finetuned.SentenceSimilarity", optimizer=optimizer, selected_by="spearman")
    pairs = {"encoder": "gone", "corpus": "depgen.data.tasks.SimilarityTasks", "examples_per_batch": 16}
    data = named("data.tasks.TaskData", **pairs)
    fit(place / "tuned.yaml", model, data, epochs=2)
    parameters = sum(each.numel() for each in load_trained(run_of(place, "gone"), device="cpu").model.parameters())
    shutil.rmtree(place / "runs" / "gone")
    run = run_of(place, "tuned")
    width = 8
    assert read_record(run)["parameters"] == parameters + 2 * width * width + width + width + 1
    return run


@pytest.mark.slow
def test_a_run_is_tested_alone_and_its_numbers_are_its_predictions(tuned):
    assert main(["test", "--run", str(tuned)]) == 0
    content = json.loads((tuned / "test.json").read_text())
    assert not (tuned / "test_items.npz").exists()
    trained = load_trained(tuned, device="cpu")
    data = TaskData(SimilarityTasks(), "gone", collate=trained.model.collate)
    data.use_vocabulary(tuned / "vocabulary.json")
    predicted, judged = [], []
    for batch in data.test_dataloader():
        here = (batch.test_sets == 6).nonzero()[:, 0]
        predicted.append(trained.model(batch)[here])
        judged.append(batch.answers[here])
    expected = stats.spearmanr(torch.cat(predicted).detach(), torch.cat(judged)).statistic
    metrics = content["metrics"]
    assert metrics["test/sick_spearman"] == pytest.approx(100 * expected, abs=1e-3)
    names = [f"test/{name}_{kind}" for name in (*TEST_SETS, "mean") for kind in ("spearman", "pearson")]
    assert set(names) <= metrics.keys()
    means = [metrics[f"test/{name}_spearman"] for name in TEST_SETS]
    assert metrics["test/mean_spearman"] == pytest.approx(np.mean(means), abs=1e-3)


# -- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "named"), [
    (lambda place: prompts_of("stsb"), "selected_by: accuracy is no figure"),
    (lambda place: prompts_of("rte", selected_by="correlation"), "selected_by: correlation is no figure"),
    (lambda place: system_of(PromptedModel, TaskData(GluePrompts("rte"), "gpt2")), "words of different first pieces"),
    (lambda place: system_of(SentenceSimilarity, TaskData(SimilarityTasks(), "gpt2")),
     r"best\.ckpt: expected a MaskedLanguageModel, found depgen\.models\.causal_lm\.CausalLM"),
    (lambda place: system_of(SentenceSimilarity, TaskData(SimilarityTasks(), "nowhere")), "No run at"),
    (lambda place: pairs_of(place, "masked_transformer", finetune="frozen_parser"), "needs an encoder with a parser"),
])  # fmt: skip
def test_what_does_not_fit_is_refused(place, make, named):
    with pytest.raises(UserError, match=named):
        make(place)
