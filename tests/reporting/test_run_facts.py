import json

import pytest
import yaml

from depgen.data.corpora import Brown
from depgen.data.experiment import data_of
from depgen.data.vocabulary import Vocabulary
from depgen.reporting.results import Budget, beginning_of, facts_of, read_curve
from tests.invented_data import write_corpora


@pytest.mark.parametrize(
    ("logged", "curve", "clock"),
    [
        (
            "epoch,train/loss,val/perplexity\n5,0,3.0,\n9,0,,50.5\n19,1,,40.25",
            ((1000, 50.5), (2000, 40.25)),
            (),
        ),
        (
            "epoch,val/perplexity,seconds\n4,0,80.0,1\n9,0,60.0,2\n14,1,50.0,3\n19,1,45.0,4",  # two in each epoch
            ((500, 80), (1000, 60), (1500, 50), (2000, 45)),
            ((5, 1), (10, 2), (15, 3), (20, 4)),
        ),
        ("epoch,val/perplexity,val/word_perplexity\n9,0,20.0,80.0\n19,1,,", ((1000, 80),), ()),
        ("epoch,val/dependency_loss,val/perplexity\n9,0,5.0,\n19,1,,40.0", ((2000, 40),), ()),  # a phase without it
        ("epoch,val/perplexity,seconds\n9,0,50.5,\n19,1,40.25,15.5", ((1000, 50.5), (2000, 40.25)), ()),
        ("epoch,val/loss,seconds\n5,0,,3.5\n9,0,5.5,7.25\n19,1,4.5,15.5", (), ((10, 7.25), (20, 15.5))),
    ],
)
def test_a_curve_is_against_tokens_and_the_clock_against_steps(tmp_path, logged, curve, clock):
    path = tmp_path / "metrics.csv"
    path.write_text(f"step,{logged}\n")
    assert read_curve(path, tokens_per_epoch=1000) == (2, curve, clock)


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
        return facts_of(tmp_path)

    return of


def test_tokens_are_words_and_an_end_a_sentence_whether_documents_are_read_whole_or_not(facts, tmp_path):
    documents = facts("depgen.data.documents.DocumentData", BROWN)
    sentences = facts("depgen.data.text.TextData", SENTENCES)
    lines = [s for document in Brown().documents("train") for s in document.sentences]
    assert documents.budget == sentences.budget == Budget(2, 2 * sum(len(line) + 1 for line in lines))
    assert documents.curve == sentences.curve
    assert documents.processor_seconds is None
    path = tmp_path / "metrics.csv"
    path.write_text("step,epoch,val/perplexity,processor_seconds\n9,0,50.5,3.0\n19,1,40.25,6.5\n19,1,,\n")
    assert facts("depgen.data.text.TextData", SENTENCES).processor_seconds == 6.5
    assert facts("depgen.data.text.TextData", BROWN).budget.train_tokens < documents.budget.train_tokens
