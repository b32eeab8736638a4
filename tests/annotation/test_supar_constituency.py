"""SuPar's parser of constituents: its batches, its loss, and training on a toy treebank."""

import json
import random
import re
from dataclasses import replace

import pytest
import torch

from depgen.annotation.annotator import parser_named
from depgen.annotation.supar import BiaffineSizes, ConstituencyParser, ParserVocabulary, SuparConstituencyAnnotator
from depgen.annotation.training import train_parser
from depgen.cli import main
from depgen.data.corpora import PennTreebank
from depgen.data.rows import document_of_row
from depgen.data.table import AnnotatedSplit
from depgen.trees.constituency import check_constituents
from depgen.trees.sentence import Sentence
from tests.annotation.conftest import ANIMALS, tiny_supar
from tests.decoding.test_binary_trees import all_trees

SIZES = BiaffineSizes(4, 4, 4, 4, 8, 1, 4, 4, dropout=0.0)
VOCABULARY = ParserVocabulary({"a": 3, "b": 4}, {"a": 3, "b": 4}, ["", "NP", "S", "S VP"], 2)


def toy_trees(number, seed):
    """Declaratives whose verb phrases are flat or not, and imperatives whose sentence is a verb phrase."""
    generator = random.Random(seed)
    for _ in range(number):
        one, other = (generator.choice(ANIMALS) for _ in range(2))
        noun = f"(NP (DT a) (JJ small) (NN {other}))"
        verb = generator.choice(("sees", "likes"))
        yield generator.choice([
            f"( (S (NP (DT The) (NN {one})) (VP (VBZ {verb}) {noun}) (. .)) )",
            f"( (S (NP (NNP Ada)) (VP (VBZ {verb}) {noun} (NP (NN today))) (. .)) )",
            f"( (S (VP (VB Go) {noun})) )",
        ])  # fmt: skip


@pytest.fixture(scope="module")
def treebank(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mrg")
    for seed, (part, number) in enumerate((("train", 40), ("valid", 10), ("test", 10))):
        (folder / f"{part}.mrg").write_text("\n".join(toy_trees(number, seed)))
    return PennTreebank(str(folder), **{part: [f"{part}.mrg"] for part in ("train", "valid", "test")}, name="Toy")


@pytest.fixture(scope="module")
def trained(tmp_path_factory, treebank):
    """The cache's folder with a parser named `brackets`."""
    folder = tmp_path_factory.mktemp("cache")
    training = tiny_supar(structure="constituency", steps=60)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEPGEN_CACHE", str(folder))
        train_parser(treebank, "brackets", training)
    return folder


@pytest.fixture
def annotator(trained, monkeypatch):
    monkeypatch.setenv("DEPGEN_CACHE", str(trained))
    return SuparConstituencyAnnotator("brackets")


@pytest.mark.slow
def test_it_learns_the_toy_treebank_and_its_constituents_are_read_back(annotator, trained, treebank):
    scores = json.loads((trained / "parsers/brackets/scores.json").read_text())
    assert scores["scheme"] == "Toy, SuPar CRF constituency"
    assert scores["test"]["labelled_f1"] >= 95
    gold = [sentence for document in treebank.documents("test") for sentence in document.sentences]
    found = annotator.annotate([replace(sentence, spans=None) for sentence in gold])
    assert sum(own == sentence for own, sentence in zip(found, gold, strict=True)) >= 9
    assert annotator.structure == "constituency"
    assert isinstance(parser_named("brackets"), SuparConstituencyAnnotator)
    (document,) = (document_of_row(row) for row in AnnotatedSplit(treebank, "test", annotator).table())
    assert [(each.words, each.spans) for each in document.sentences] == [(each.words, each.spans) for each in found]


@pytest.mark.slow
def test_constituents_do_not_depend_on_the_batch(annotator):
    words = [("Go", "a", "small", "cat"), ("Go",), ("The", "dog", "sees", "a", "small", "cat", ".")]
    sentences = [Sentence(each) for each in words]
    found = annotator.annotate(sentences)
    assert found == SuparConstituencyAnnotator("brackets", batch_size=1).annotate(sentences)
    for sentence in found:
        check_constituents(sentence.spans, len(sentence), "here")


def test_a_batch_has_charts_and_counts_labels_that_are_right():
    parser = ConstituencyParser(VOCABULARY, SIZES).eval()
    sentences = [Sentence(("a", "b", "c"), spans=((0, 3, "S"), (0, 3, "VP"), (0, 2, "X"))), Sentence(("b",), spans=())]
    batch = parser.collate(sentences)
    assert batch.words.tolist() == [[2, 3, 4, 1, 2], [2, 4, 2, 0, 0]]
    assert batch.lengths.tolist() == [3, 1]
    assert batch.labels[0].tolist() == [[-1, 0, 4, 3], [-1, -1, 0, -1], [-1, -1, -1, 0], [-1] * 4]
    assert batch.labels[1].tolist() == [[-1, 0, -1, -1], *[[-1] * 4] * 3]
    assert parser.possible(batch).sum((1, 2)).tolist() == [6, 1]
    found = torch.full_like(batch.labels, -1)
    for place, label in {(0, 0, 3): 3, (0, 0, 1): 1, (0, 1, 3): 0, (1, 0, 1): 0}.items():
        found[place] = label
    parser.find = lambda batch: found
    assert parser.counts(batch).tolist() == [1, 2, 2]


def test_the_loss_is_that_of_all_binary_trees():
    parser = ConstituencyParser(VOCABULARY, SIZES)
    sentences = [Sentence(("a", "b", "a"), spans=((0, 3, "S"), (0, 2, "NP"))), Sentence(("b", "a"), spans=())]
    batch = parser.collate(sentences)
    spans, labels = parser(batch)
    expected = torch.zeros(())
    crossed = []
    for row, length in enumerate((3, 2)):
        totals = torch.stack([sum(spans[row, i, j] for i, j in tree) for tree in all_trees(0, length)])
        gold = batch.labels[row].ge(0).nonzero().tolist()
        expected = expected + totals.logsumexp(0) - sum(spans[row, i, j] for i, j in gold)
        crossed += [-labels[row, i, j].log_softmax(-1)[batch.labels[row, i, j]] for i, j in gold]
    expected = expected / 5 + sum(crossed) / len(crossed)
    parser.log = lambda *args, **options: None
    assert parser.training_step(batch, 0).item() == pytest.approx(expected.item(), rel=1e-4)


def test_a_parser_of_constituents_writes_brackets(annotator, tmp_path, capsys):
    (tmp_path / "a.txt").write_text("Go a small cat\n")
    assert main(["parse", "--parser", "brackets", "--input", str(tmp_path / "a.txt")]) == 0
    printed = capsys.readouterr().out.strip()
    assert re.sub(r"\(\S+|\)", "", printed).split() == ["Go", "a", "small", "cat"]
    assert printed.count("(") == printed.count(")") >= 1
