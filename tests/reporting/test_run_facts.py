import json

import pytest
import yaml

from depgen.data.corpora import Brown
from depgen.data.experiment import data_of
from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError
from depgen.reporting.results import Budget
from depgen.reporting.run_facts import beginning_of, facts_of, processor_seconds, read_curve
from tests.invented_data import write_corpora


def test_the_curve_is_against_tokens_seen(tmp_path):
    path = tmp_path / "metrics.csv"
    path.write_text("step,epoch,train/loss,val/perplexity\n5,0,3.0,\n9,0,,50.5\n15,1,2.5,\n19,1,,40.25\n")
    assert read_curve(path, tokens_per_epoch=1000) == (2, ((1000.0, 50.5), (2000.0, 40.25)), ())


def test_a_curve_has_every_validation_of_an_epoch(tmp_path):
    path = tmp_path / "metrics.csv"
    path.write_text("step,epoch,val/perplexity,seconds\n4,0,80.0,1\n9,0,60.0,2\n14,1,50.0,3\n19,1,45.0,4\n")
    epochs, curve, clock = read_curve(path, tokens_per_epoch=1000)
    assert (epochs, curve) == (2, ((500.0, 80.0), (1000.0, 60.0), (1500.0, 50.0), (2000.0, 45.0)))
    assert clock == ((5.0, 1.0), (10.0, 2.0), (15.0, 3.0), (20.0, 4.0))


def test_a_curve_is_of_perplexity_per_word_where_there_is_one(tmp_path):
    path = tmp_path / "metrics.csv"
    path.write_text("step,epoch,val/perplexity,val/word_perplexity\n9,0,20.0,80.0\n")
    assert read_curve(path, tokens_per_epoch=10)[1] == ((10.0, 80.0),)


def test_a_phase_without_perplexity_still_costs_tokens(tmp_path):
    path = tmp_path / "metrics.csv"
    path.write_text("step,epoch,val/dependency_loss,val/perplexity\n9,0,5.0,\n19,1,,40.0\n")
    assert read_curve(path, tokens_per_epoch=10) == (2, ((20.0, 40.0),), ())


def test_steps_and_wall_time_stand_beside_the_curve(tmp_path):
    path = tmp_path / "metrics.csv"
    path.write_text("step,epoch,val/perplexity,seconds\n5,0,,3.5\n9,0,50.5,7.25\n19,1,40.25,15.5\n")
    assert read_curve(path, tokens_per_epoch=10)[2] == ((10.0, 7.25), (20.0, 15.5))
    path.write_text("step,epoch,val/perplexity,seconds\n9,0,50.5,\n19,1,40.25,15.5\n")
    assert read_curve(path, tokens_per_epoch=10)[2] == ()


def test_a_run_without_perplexity_keeps_its_wall_time(tmp_path):
    path = tmp_path / "metrics.csv"
    path.write_text("step,epoch,val/loss,seconds\n5,0,,3.5\n9,0,5.5,7.25\n19,1,4.5,15.5\n")
    assert read_curve(path, tokens_per_epoch=10) == (2, (), ((10.0, 7.25), (20.0, 15.5)))


def test_missing_curves_are_named(tmp_path):
    with pytest.raises(UserError, match="No curve at"):
        read_curve(tmp_path / "metrics.csv", tokens_per_epoch=1)
    (tmp_path / "metrics.csv").write_text("step,epoch\n")
    with pytest.raises(UserError, match="holds no epoch"):
        read_curve(tmp_path / "metrics.csv", tokens_per_epoch=1)


@pytest.mark.parametrize("content", ["", "step,epoch\n1,2\n1,2,3\n", "step,epoch\n1,first\n"])
def test_damaged_curves_are_named(tmp_path, content):
    (tmp_path / "metrics.csv").write_text(content)
    with pytest.raises(UserError, match=r"metrics\.csv: expected what `depgen fit` logs .* Copy it again"):
        read_curve(tmp_path / "metrics.csv", tokens_per_epoch=1)


@pytest.mark.parametrize(
    ("backbone", "weights"),
    [
        ("{pretrained: null}", "random weights"),
        ("{pretrained: gpt2}", "gpt2"),
        ("{pretrained: /some/where/gpt2}", "gpt2"),
        ("{}", None),
    ],
)
def test_what_a_pretrained_network_began_from_stands_in_its_runs_configuration(tmp_path, backbone, weights):
    path = tmp_path / "config.yaml"
    path.write_text(f"model: {{init_args: {{backbone: {{class_path: Some, init_args: {backbone}}}}}}}\n")
    assert beginning_of(path) == weights
    path.write_text("model: {class_path: Whole}\n")
    assert beginning_of(path) is None


def test_the_data_module_is_made_from_yaml(project):
    data = data_of(project / "experiments/base_toy.yaml")
    assert sum(1 for _ in data.corpus.documents("train")) == 6


def test_bad_data_is_named(project):
    path = project / "experiments/base_toy.yaml"
    path.write_text(path.read_text().replace("train: 6", "trian: 6"))
    with pytest.raises(UserError, match="trian"):
        data_of(path)
    path.write_text("model: {}\n")
    with pytest.raises(UserError, match="expected `data`"):
        data_of(path)


# -- sentences and documents of one corpus -----------------------------------------------------------------------------

BROWN = {"class_path": "depgen.data.corpora.Brown"}
SENTENCES = {**BROWN, "init_args": {"steps": ["depgen.data.steps.SingleSentences"]}}


@pytest.fixture
def facts(tmp_path, monkeypatch):
    """What a run that reads this corpus by this data module says of itself."""
    write_corpora(tmp_path / "data")
    for name in ("data", "cache"):
        monkeypatch.setenv(f"DEPGEN_{name.upper()}", str(tmp_path / name))
    (tmp_path / "metrics.csv").write_text("step,epoch,val/perplexity,seconds\n9,0,50.5,7.0\n19,1,40.25,15.5\n")
    Vocabulary.of_words(["the", "."]).save(tmp_path / "vocabulary.json")

    def of(data, corpus, **options):
        settings = {"data": {"class_path": data, "init_args": {"corpus": corpus, **options}}}
        (tmp_path / "config.yaml").write_text(yaml.safe_dump(settings))
        module = data_of(tmp_path / "config.yaml")
        module.use_vocabulary(tmp_path / "vocabulary.json")
        (tmp_path / "run.json").write_text(json.dumps({"tokens_per_epoch": int(module.target_counts().sum())}))
        return facts_of(tmp_path, module)

    return of


def test_tokens_are_words_and_an_end_a_sentence_whether_documents_are_read_whole_or_not(facts):
    documents = facts("depgen.data.documents.DocumentData", BROWN)
    sentences = facts("depgen.data.text.TextData", SENTENCES)
    lines = [s for document in Brown().documents("train") for s in document.sentences]
    assert documents.budget == sentences.budget == Budget(2, 2 * sum(len(line) + 1 for line in lines))
    assert documents.curve == sentences.curve
    assert facts("depgen.data.text.TextData", BROWN).budget.train_tokens < documents.budget.train_tokens


def test_the_time_on_processors_is_that_of_the_last_line(tmp_path):
    path = tmp_path / "metrics.csv"
    path.write_text("step,epoch,processor_seconds\n9,0,7.0\n19,1,15.5\n29,1,\n")
    assert processor_seconds(path) == 15.5
    path.write_text("step,epoch\n9,0\n")
    assert processor_seconds(path) is None
