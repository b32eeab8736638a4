"""Sizes of graphs: of graphs and trees, of a corpus without any, and of a run's training sentences."""

from types import SimpleNamespace

import numpy as np
import pytest
import yaml

from depgen.data.experiment import data_of
from depgen.reporting.measures.graphs import ARCS, WITHOUT_HEAD, WORDS_OF_GRAPHS, GraphStatistics, numbers_of_graphs
from depgen.trees.sentence import Sentence
from tests.fixtures.kinds import named

GRAPH = Sentence(("a", "b", "c"), edges=((0, 1, "root"), (1, 2, "x"), (2, 2, "z"), (3, 2, "y")))
TREE = Sentence(("d",), heads=(0,), relations=("root",))
EXPERIMENT = {
    "model": {"class_path": "depgen.models.gilt.GiLT"},
    "data": named(
        "data.text.TextData",
        corpus=named("data.generated.GeneratedLanguage", train=6, valid=2, test=2, sentences=[5, 5]),
        max_documents=4,
    ),
}


def test_arcs_and_words_a_sentence():
    found = numbers_of_graphs([GRAPH, TREE, Sentence(("e", "f"))])
    assert found.metrics == {ARCS: 2.5, WORDS_OF_GRAPHS: 2.0, WITHOUT_HEAD: 25.0}
    assert not found.not_computed
    assert numbers_of_graphs([GRAPH]).metrics[WITHOUT_HEAD] == pytest.approx(100 / 3), "a word with two heads has one"
    assert {*numbers_of_graphs([Sentence(("e",))]).not_computed} == {ARCS, WORDS_OF_GRAPHS, WITHOUT_HEAD}


def test_those_of_a_run_are_of_the_training_sentences_that_it_sees(tmp_path, monkeypatch):
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path / "cache"))
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(EXPERIMENT))
    row = SimpleNamespace(trained=SimpleNamespace(run=tmp_path))
    assert GraphStatistics().measure(row).not_computed[ARCS] == "it learns from no graphs"

    EXPERIMENT["data"]["init_args"]["annotator"] = {"class_path": "depgen.annotation.controls.LeftChain"}
    config.write_text(yaml.safe_dump(EXPERIMENT))
    documents = list(data_of(config).corpus.documents("train"))[:4]
    words = np.mean([len(sentence) for document in documents for sentence in document.sentences])
    found = GraphStatistics().measure(row).metrics
    assert found == pytest.approx({ARCS: words, WORDS_OF_GRAPHS: words, WITHOUT_HEAD: 0})
