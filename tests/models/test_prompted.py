"""Prompts answered by a trained system, against the library of its network and figures by hand."""

import json
from functools import partial

import numpy as np
import pytest
import torch
import yaml
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

from depgen.backbones.transformer import Transformer
from depgen.cli import main
from depgen.data.glue import GluePrompts
from depgen.data.prompts import Prompts
from depgen.errors import UserError
from depgen.evaluation.export import export_pretrained
from depgen.evaluation.trained import load_trained
from depgen.evaluation.trees.induced_graphs import InducedGraphs
from depgen.metrics.similarity import PairScores
from depgen.models.gilt import GiLT
from depgen.models.prompted import PromptedModel, class_figures, similarity_figures
from depgen.trees.annotator import Annotator, structure_of
from depgen.trees.sentence import Sentence
from tests.invented_glue import write_glue
from tests.invented_models import write_gpt2_run

STORIES = {
    "class_path": "depgen.data.generated.GeneratedLanguage",
    "init_args": {"train": 6, "valid": 2, "test": 2, "sentences": [5, 5]},
}

WORDS = ("the", "cat")
"""Verbalisers: the small vocabularies here begin all numbers with the same piece."""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Runs of a GPT-2 and a GiLT, and the files of GLUE."""
    folder = tmp_path_factory.mktemp("prompted")
    write_gpt2_run(folder / "runs", corpus=STORIES)
    write_gpt2_run(folder / "runs", corpus=STORIES, experiment="gilt", graphs=True)
    write_glue(folder / "glue", train=20, dev=7)
    return folder


@pytest.fixture(autouse=True)
def environment(place, monkeypatch):
    monkeypatch.setenv("DEPGEN_RUNS", str(place / "runs"))


def data_of(place, task, *, encoder="gpt2", **options):
    corpus = GluePrompts(task, str(place / "glue"), verbalisers=None if task == "stsb" else WORDS)
    return Prompts(corpus, encoder, **options)


def system(data, **options):
    """A system on the run that the data name, as a trainer makes it."""
    model = PromptedModel(data.vocabulary_size, **options)
    model._data = lambda: data
    model.configure_model()
    data.collate = model.collate
    return model.eval()


def batches(data, split="test"):
    data.setup("test")
    return list(data._batched(split, None))


# -- scores against the library alone ---------------------------------------------------------------------------------


@pytest.mark.slow
@torch.no_grad()
def test_answers_are_those_of_the_library_alone(place, tmp_path):
    folder = tmp_path / "exported"
    export_pretrained(to=folder, run="gpt2")
    network = AutoModelForCausalLM.from_pretrained(folder).eval()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    data = data_of(place, "rte")
    model = system(data)
    ids = [tokenizer.encode(f" {word}").ids[0] for word in WORDS]
    prompts, answered = list(data.prompt_corpus.prompts("test")), 0
    (batch,) = batches(data)
    classes, words = model.verbaliser_log_probs(model.last_states(batch))
    found = model(batch)
    for row, item in enumerate(batch.items.tolist()):
        read = [network.config.bos_token_id, *tokenizer.encode(" " + " ".join(prompts[item].words)).ids]
        expected = network(torch.tensor([read])).logits[0, -1].log_softmax(-1)
        torch.testing.assert_close(words[row], expected, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(classes[row], expected[ids], rtol=1e-4, atol=1e-5)
        assert found[row] == expected[ids].argmax()
        assert batch.answers[row] == prompts[item].answer
        answered += 1
    assert answered == 7
    nll = -classes.gather(1, batch.answers.long()[:, None]).sum()
    model.log_train = lambda loss, count: loss / count
    torch.testing.assert_close(model.training_step(batch, 0), nll / 7)


@torch.no_grad()
def test_padding_and_the_other_prompts_of_a_batch_change_nothing(place):
    data = data_of(place, "stsb", eval_tokens_per_batch=1)
    model = system(data, selected_by="correlation")
    alone = {batch.items.item(): model(batch).item() for batch in batches(data)}
    data.eval_tokens_per_batch = 100_000
    (batch,) = batches(data)
    assert len(alone) == len(batch.items) == 7
    lengths = batch.sequences.lengths
    assert len(set(lengths.tolist())) > 1
    found = dict(zip(batch.items.tolist(), model(batch).tolist(), strict=True))
    assert found == pytest.approx(alone, abs=1e-5)
    assert found == pytest.approx(
        {
            item: min(max(float(model.regression(state)), 0), 5)
            for item, state in zip(batch.items.tolist(), model.last_states(batch), strict=True)
        },
        abs=1e-5,
    )


@torch.no_grad()
def test_a_word_of_no_class_counts_as_class_0_where_all_words_are_answers(place):
    data = data_of(place, "rte")
    model = system(data, answers_among="vocabulary")
    (batch,) = batches(data)
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


# -- graphs -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_graphs_of_prompts_are_the_best_of_the_beam_and_move_answers(place):
    annotator = InducedGraphs("gilt", beam_size=3)
    assert isinstance(annotator, Annotator)
    assert structure_of(annotator) == "graph"
    assert annotator.fingerprint() != InducedGraphs("gilt", beam_size=2).fingerprint()
    trained = load_trained("gilt")
    words = ("A", "fox;", "Label:")
    ids = [piece for word in words for piece in trained.vocabulary.pieces(word)]
    (expected,) = trained.model.parse([ids], vocabulary=trained.vocabulary, beam_size=3)
    parse, beams = annotator.trained.model.parse, []
    annotator.trained.model.parse = lambda ids, *, beam_size, **others: (
        beams.append(beam_size) or parse(ids, beam_size=beam_size, **others)
    )
    (found,) = annotator.annotate([Sentence(words)])
    assert beams == [3]
    assert sorted(found.edges) == sorted(expected)
    with pytest.raises(UserError, match="found CausalLM, gpt2"):
        InducedGraphs("gpt2").annotate([Sentence(words)])
    data = data_of(place, "rte", encoder="gilt", annotator=annotator)
    model = system(data)
    (batch,) = batches(data)
    with torch.no_grad():
        first, _ = model.verbaliser_log_probs(model.last_states(batch))
        batch.sequences.tapes.zero_()
        second, _ = model.verbaliser_log_probs(model.last_states(batch))
    assert not torch.allclose(first, second, rtol=0, atol=1e-7)
    assert not any(each.requires_grad for each in model.encoder.scorer.parameters())
    assert all(each.requires_grad for each in model.encoder.backbone.parameters())


def test_no_answer_depends_on_the_scorer_of_either_graph():
    model = PromptedModel(14)
    network = partial(Transformer, layers=1, width=4, attention_heads=1, feedforward=4)
    model.encoder = GiLT(network, 14, graphs=["tree", "content"], feature_size=2)
    unused = {id(each) for each in model._unused()}
    names = {name.split(".")[0] for name, each in model.encoder.named_parameters() if id(each) in unused}
    assert names == {"scorer", "further_scorers"}


# -- figures ----------------------------------------------------------------------------------------------------------


def answers(predicted, judged):
    none = np.zeros(len(judged), np.int64)
    return PairScores(none, np.array(predicted, float), np.array(judged, float), none, none.astype(bool))


def test_accuracy_and_f1_are_those_by_hand():
    found = class_figures(answers([1, 1, 0, 0, 0], [1, 0, 1, 0, 1]))
    assert found == pytest.approx(
        {"accuracy": 40.0, "f1": 100 * 2 / (2 + 1 + 2), "majority_accuracy": 60.0, "majority_f1": 75.0}
    )
    none = class_figures(answers([0, 0], [0, 0]))
    assert (none["f1"], none["majority_f1"], none["majority_accuracy"]) == (0.0, 0.0, 100.0)


def test_correlation_is_the_mean_of_both():
    found = similarity_figures(answers([1, 2, 4], [1, 3, 2]))
    assert found == pytest.approx({"pearson": 32.7327, "spearman": 50.0, "correlation": 41.3663}, rel=1e-4)


# -- whole runs -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("task", "selected_by", "encoder"), [
    ("mrpc", "f1", "gilt"), ("stsb", "correlation", "gpt2"),
])  # fmt: skip
def test_a_run_is_trained_tested_and_loads_without_its_encoder(place, tmp_path, task, selected_by, encoder):
    runs = tmp_path / "runs"
    corpus = {"task": task, "folder": str(place / "glue"), **({"verbalisers": [*WORDS]} if task == "mrpc" else {})}
    init_args = {
        "encoder": str(place / "runs" / encoder),
        "corpus": {"class_path": "depgen.data.glue.GluePrompts", "init_args": corpus},
    }
    if encoder == "gilt":
        graphs = {"run": str(place / "runs" / "gilt"), "beam_size": 2}
        init_args["annotator"] = {
            "class_path": "depgen.evaluation.trees.induced_graphs.InducedGraphs", "init_args": graphs
        }  # fmt: skip
    settings = {
        "trainer": {"max_epochs": 2, "accelerator": "cpu"},
        "model": {"class_path": "depgen.models.prompted.PromptedModel", "init_args": {"selected_by": selected_by}},
        "data": {"class_path": "depgen.data.prompts.Prompts", "init_args": init_args},
    }
    config = tmp_path / "prompted.yaml"
    config.write_text(yaml.safe_dump(settings))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEPGEN_RUNS", str(runs))
        assert main(["fit", "--config", str(config)]) == 0
        (run,) = (runs / "prompted").iterdir()
        assert main(["test", "--run", str(run)]) == 0
        model = load_trained(str(run)).model
    metrics = json.loads((run / "test.json").read_text())["metrics"]
    expected = {"pearson", "spearman", "correlation"} if task == "stsb" else {*PromptedModel.figure_names()[:4]}
    assert {name.removeprefix("test/") for name in metrics} >= expected
    assert type(model.encoder).__name__ == ("GiLT" if encoder == "gilt" else "CausalLM")
    assert model.verbalisers == ([] if task == "stsb" else model.hparams.verbalisers)


def test_words_that_begin_alike_are_refused(place):
    data = data_of(place, "rte")
    data.prompt_corpus.verbalisers = ("0", "1")
    with pytest.raises(UserError, match="verbalisers: expected words of different first pieces"):
        data.verbaliser_ids()


def test_a_figure_of_other_answers_is_refused(place):
    with pytest.raises(UserError, match="selected_by: accuracy is no figure"):
        system(data_of(place, "stsb"))
    with pytest.raises(UserError, match="selected_by: correlation is no figure"):
        system(data_of(place, "rte"), selected_by="correlation")
