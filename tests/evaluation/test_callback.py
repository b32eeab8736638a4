"""A measure in training: the numbers of the verb, and the same weights as without it."""

import csv

import lightning as L
import pytest
import torch
import yaml

from depgen.cli import main
from depgen.data.corpora import Ewt
from depgen.data.steps import BareWords, SingleSentences
from depgen.data.text import TextData
from depgen.errors import UserError
from depgen.evaluation.callback import TEST_TREES, PredictionWriter
from depgen.evaluation.induced import InducedTrees
from depgen.evaluation.minimal_pairs import PairOptions, minimal_pairs
from depgen.evaluation.system import load
from depgen.evaluation.trained import load_trained
from depgen.training.checkpoints import load_checkpoint
from depgen.trees.conllu import read_conllu
from depgen.trees.sentence import Document, Sentence
from tests.evaluation.oracles_of_stories import write_experiment


@pytest.mark.slow
def test_a_measure_is_logged_as_the_verb_gives_it_and_changes_no_weight(tmp_path, monkeypatch):
    monkeypatch.setenv("DEPGEN_RUNS", str(tmp_path / "runs"))
    pairs = tmp_path / "pairs.tsv"
    rows = ["the king sleeps .\tthe king sleep .", "the girls sleep .\tthe girls sleeps .", "she runs .\tshe run ."]
    pairs.write_text("\n".join(["good\tbad", *rows]) + "\n")
    config = write_experiment(tmp_path / "plain.yaml")
    settings = yaml.safe_load(config.read_text())
    evaluate = {
        "class_path": "depgen.evaluation.callback.Evaluate",
        "init_args": {"measure": "minimal-pairs", "options": {"pairs": str(pairs), "tokens": "whitespace"}},
    }
    settings["trainer"]["callbacks"].append(evaluate)
    (tmp_path / "measured.yaml").write_text(yaml.safe_dump(settings))
    for name in ("plain", "measured"):
        assert main(["fit", "--config", str(tmp_path / f"{name}.yaml"), "--trainer.max_epochs", "2"]) == 0
    plain, measured = (next((tmp_path / "runs" / name).iterdir()) for name in ("plain", "measured"))
    weights = [load_checkpoint(run / "checkpoints/resume.ckpt")["state_dict"] for run in (plain, measured)]
    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())
    with (measured / "metrics.csv").open() as stream:
        logged = [row for row in csv.DictReader(stream) if row.get("minimal-pairs/accuracy")]
    assert len(logged) == 2
    last = minimal_pairs(load(measured / "checkpoints/resume.ckpt"), PairOptions(pairs=pairs, tokens="whitespace"))
    for name in ("accuracy", "pairs", "chance"):
        assert float(logged[-1][f"minimal-pairs/{name}"]) == pytest.approx(last.rows.iloc[-1][name])


# -- `depgen predict` -------------------------------------------------------------------------------------------------

CORPUS = Ewt(steps=[SingleSentences(), BareWords()])


def predict(run, folder, corpus=CORPUS, **limits):
    data = TextData(corpus, eval_tokens_per_batch=40)
    data.use_vocabulary(run / "vocabulary.json")
    writer = PredictionWriter(folder, data)
    quiet = {"logger": False, "enable_progress_bar": False}
    trainer = L.Trainer(accelerator="cpu", callbacks=[writer], **quiet, **limits)
    trainer.predict(load_trained(run, device="cpu").model, datamodule=data, return_predictions=False)
    return writer.written


@pytest.mark.slow
def test_the_command_writes_the_trees_of_the_test_split(parsing_run, capsys):
    assert main(["predict", "--run", str(parsing_run)]) == 0
    assert capsys.readouterr().out == f"run\t{parsing_run}\ntrees\t{parsing_run / TEST_TREES}\n"
    written, corpus = list(read_conllu(parsing_run / TEST_TREES)), list(CORPUS.documents("test"))
    assert [document.identifier for document in written] == [document.identifier for document in corpus]
    sentences = [sentence for document in corpus for sentence in document.sentences]
    expected = InducedTrees(str(parsing_run), form="as_is").annotate([Sentence(each.words) for each in sentences])
    found = [sentence for document in written for sentence in document.sentences]
    assert [each.words for each in found] == [each.words for each in expected]
    assert [each.heads for each in found] == [each.heads for each in expected]
    assert [each.relations for each in found] == [each.relations for each in expected]
    assert [each.tags for each in found] == [each.tags for each in sentences]
    assert any(each.heads != gold.heads for each, gold in zip(found, sentences, strict=True))


def test_documents_of_several_sentences_are_parsed_sentence_by_sentence(parsing_run, tmp_path):
    corpus = Ewt()
    assert predict(parsing_run, tmp_path, corpus) == ("trees", tmp_path / TEST_TREES)
    written, documents = list(read_conllu(tmp_path / TEST_TREES)), list(corpus.documents("test"))
    assert max(len(document.sentences) for document in documents) > 1
    parser = InducedTrees(str(parsing_run), form="as_is", tokens_per_batch=1)
    for found, document in zip(written, documents, strict=True):
        trees = parser.annotate(document.sentences)
        assert [each.heads for each in found.sentences] == [each.heads for each in trees]
        assert [each.words for each in found.sentences] == [each.words for each in document.sentences]


def test_nothing_is_written_of_a_part_of_the_split(parsing_run, tmp_path):
    with pytest.raises(UserError, match=r"found \d+: leave trainer\.limit_predict_batches"):
        predict(parsing_run, tmp_path, limit_predict_batches=1)
    assert not (tmp_path / TEST_TREES).exists()


class WithAnEmptySentence(Ewt):
    def documents(self, split):
        yield Document((Sentence(("dogs", "ran")), Sentence(())), "first")

    def fingerprint(self, split):
        return "with an empty sentence"


def test_an_empty_sentence_is_refused(parsing_run, tmp_path):
    with pytest.raises(UserError, match="first:2: expected words, found an empty document"):
        predict(parsing_run, tmp_path, WithAnEmptySentence())
