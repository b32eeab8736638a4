"""SuPar's parser of graphs: its loss, training on a toy treebank, and the graphs that it gives."""

import json
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from depgen.annotation.supar import (
    BiaffineSizes,
    GraphParser,
    ParserVocabulary,
    SuparGraphAnnotator,
    graph_loss,
)
from depgen.annotation.training import train_parser
from depgen.cli import main
from depgen.data.corpora import ConlluTreebank
from depgen.data.formats import Conllu
from depgen.data.rows import document_of_row
from depgen.data.table import AnnotatedSplit
from depgen.trees.conllu import read_conllu, write_conllu
from depgen.trees.graph import check_graph
from depgen.trees.sdp import read_sdp
from depgen.trees.sentence import Document, Sentence
from tests.annotation.conftest import tiny_supar, toy_sentences
from tests.trees.trees import write_sdp

VOCABULARY = ParserVocabulary({"a": 3, "b": 4}, {"a": 3, "b": 4}, ["arg", "top"], 2)
SIZES = BiaffineSizes(4, 4, 4, 4, 8, 1, 4, 4, dropout=0.0)


def graph_of(sentence):
    """The content words' edges: the object is the subject's second head; determiners and punctuation have none."""
    own = [
        (head, word, relation)
        for word, (head, relation) in enumerate(zip(sentence.heads, sentence.relations, strict=True), start=1)
        if relation not in ("det", "punct")
    ]
    subject, thing = (sentence.relations.index(relation) + 1 for relation in ("nsubj", "obj"))
    edges = sorted([*own, (thing, subject, "agent")], key=lambda edge: (edge[1], edge[0], edge[2]))
    return replace(sentence, edges=tuple(edges))


def tiny_graphs(**options):
    return tiny_supar(structure="graph", **options)


@pytest.fixture(scope="module")
def graph_treebank(tmp_path_factory):
    """A treebank of graphs on disk: 40 sentences to train on, 10 for each of the others."""
    folder = tmp_path_factory.mktemp("graphs")
    files = {}
    for seed, (part, number) in enumerate((("train", 40), ("valid", 10), ("test", 10))):
        documents = [Document((graph_of(s),), f"{part}-{i}") for i, s in enumerate(toy_sentences(number, seed))]
        write_conllu(documents, folder / f"{part}.conllu")
        files[part] = [f"{part}.conllu"]
    return ConlluTreebank(str(folder), Conllu(graphs=True), **files, name="Toy graphs")


@pytest.fixture(scope="module")
def trained(tmp_path_factory, graph_treebank):
    """The cache's folder with a graph parser named `graphs`."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEPGEN_CACHE", str(folder))
        train_parser(graph_treebank, "graphs", tiny_graphs(steps=120))
    return folder


@pytest.fixture
def graphs(trained, monkeypatch):
    monkeypatch.setenv("DEPGEN_CACHE", str(trained))
    return SuparGraphAnnotator("graphs")


@pytest.mark.slow
def test_it_learns_the_toy_treebank(trained):
    scores = json.loads((trained / "parsers/graphs/scores.json").read_text())
    assert scores["scheme"] == "Toy graphs, SuPar biaffine graph"
    assert scores["test"]["labelled_f1"] >= 95
    assert scores["test"]["sentences"] == 10


@pytest.mark.slow
def test_it_finds_the_graphs_and_leaves_all_else(graphs):
    gold = [graph_of(sentence) for sentence in toy_sentences(30, seed=9)]
    found = graphs.annotate([replace(sentence, edges=()) for sentence in gold])
    assert sum(own.edges == sentence.edges for own, sentence in zip(found, gold, strict=True)) >= 28
    assert [(own.words, own.tags) for own in found] == [(sentence.words, sentence.tags) for sentence in gold]
    assert all(own.heads is None and own.relations is None for own in found)
    assert (graphs.structure, graphs.self_loops, graphs.leaves_out) == ("graph", False, False)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000), lengths=st.lists(st.integers(1, 12), min_size=1, max_size=5))
def test_whatever_the_weights_it_gives_graphs_without_self_loops(seed, lengths):
    torch.manual_seed(seed)
    parser = GraphParser(VOCABULARY, SIZES).eval()
    for weight in parser.parameters():
        torch.nn.init.normal_(weight)
    parsed = parser.parse([Sentence(("a", "b", "c")[:1] * length) for length in lengths])
    assert [len(sentence) for sentence in parsed] == lengths
    for sentence in parsed:
        check_graph(sentence.edges, len(sentence), "here")
        assert len({edge[:2] for edge in sentence.edges}) == len(sentence.edges)


@pytest.mark.parametrize("bias", [50.0, -50.0])
def test_all_pairs_or_none_may_be_edges(bias, monkeypatch):
    monkeypatch.setattr("depgen.annotation.supar.EDGES", 4)
    parser = GraphParser(VOCABULARY, SIZES)
    torch.nn.init.zeros_(parser.model.edge_attn.weight)
    parser.model.edge_attn.weight.data[1, -1, -1] = bias
    (parsed,) = parser.parse([Sentence(("a", "b", "a"))])
    expected = [(head, word) for word in (1, 2, 3) for head in (0, 1, 2, 3) if head != word]
    assert [edge[:2] for edge in parsed.edges] == (expected if bias > 0 else [])


def test_the_graphs_do_not_depend_on_the_batch(graphs):
    sentences = [Sentence(sentence.words) for sentence in toy_sentences(12, seed=4)] + [Sentence(("Go",))]
    assert graphs.annotate(sentences) == SuparGraphAnnotator("graphs", batch_size=1).annotate(sentences)


def test_labels_of_the_wanted_pairs_are_those_of_all_pairs():
    parser = GraphParser(VOCABULARY, SIZES).eval()
    batch = parser.collate([Sentence(("a", "b", "c")), Sentence(("b",))])
    edges, states = parser(batch)
    wanted = torch.rand(edges.shape, generator=torch.Generator().manual_seed(0)) < 0.5
    all_edges, all_labels = parser.model(batch.words, [batch.characters])
    torch.testing.assert_close(parser.label_scores(states, wanted), all_labels[wanted])
    torch.testing.assert_close(edges.gt(0), all_edges.argmax(-1).bool())


def test_a_batch_has_the_first_of_several_labels_and_a_number_for_unknown_ones():
    parser = GraphParser(VOCABULARY, SIZES)
    edges = ((2, 1, "arg"), (2, 1, "top"), (0, 2, "new"), (2, 2, "arg"))
    batch = parser.collate([Sentence(("a", "b"), edges=edges), Sentence(("a",))])
    assert batch.labels[0].tolist() == [[-1, -1, -1], [-1, -1, 0], [2, -1, 0]]
    assert batch.labels[1].eq(-1).all()
    assert parser.possible(batch)[0].tolist() == [[False] * 3, [True, False, True], [True, True, False]]
    assert parser.possible(batch)[1].tolist() == [[False] * 3, [True, False, False], [False] * 3]


def test_the_loss_by_hand():
    edges = torch.tensor([[[0.0, 9.0], [1.0, -2.0]]])
    gold, possible = torch.tensor([[[1, -1], [0, -1]]]), torch.tensor([[[False, False], [True, True]]])
    labels = torch.tensor([[2.0, 0.0]])
    edge = (math.log(1 + math.exp(-1.0)) + math.log(1 + math.exp(-2.0))) / 2
    label = math.log(1 + math.exp(-2.0))
    loss = graph_loss(edges, labels, gold, possible, label_share=0.1)
    assert float(loss) == pytest.approx(0.1 * label + 0.9 * edge)
    none = graph_loss(edges, labels[:0], torch.full_like(gold, -1), possible, label_share=0.1)
    assert float(none) == pytest.approx(0.9 * (math.log(1 + math.e) + math.log(1 + math.exp(-2.0))) / 2)


def test_annotated_graphs_survive_the_table_conllu_and_sdp(graphs, graph_treebank, tmp_path):
    table = AnnotatedSplit(graph_treebank, "test", graphs).table()
    documents = [document_of_row(row) for row in table]
    sentences = [sentence for document in graph_treebank.documents("test") for sentence in document.sentences]
    expected = [replace(sentence, tags=None) for sentence in graphs.annotate(sentences)]
    assert [sentence for document in documents for sentence in document.sentences] == expected
    assert any(not {word for _, word, _ in sentence.edges} >= {1} for sentence in expected)
    write_conllu(documents, tmp_path / "graphs.conllu")
    assert list(read_conllu(tmp_path / "graphs.conllu", graphs=True)) == documents
    tops = [replace(s, edges=tuple((h, d, "top" if h == 0 else name) for h, d, name in s.edges)) for s in expected]
    write_sdp([Document((sentence,), str(20000001 + i)) for i, sentence in enumerate(tops)], tmp_path / "graphs.sdp")
    read = [sentence for document in read_sdp(tmp_path / "graphs.sdp") for sentence in document.sentences]
    assert [(sentence.words, sentence.edges) for sentence in read] == [(s.words, s.edges) for s in tops]


def test_depgen_parse_writes_graphs_as_deps(graphs, graph_treebank, tmp_path, capsys):
    words = ("The", "cat", "sees", "a", "small", "dog", ".")
    (tmp_path / "a.txt").write_text(f"{' '.join(words)}\n")
    assert main(["parse", "--parser", "graphs", "--input", str(tmp_path / "a.txt")]) == 0
    (tmp_path / "b.conllu").write_text(capsys.readouterr().out)
    (document,) = read_conllu(tmp_path / "b.conllu", graphs=True)
    assert document.sentences == tuple(graphs.annotate([Sentence(words)]))
    (tmp_path / "c.conllu").write_text("\n".join(
        f"{i}\t{word}\t_\t_\t_\t_\t{max(i - 1, 0)}\tdep\t_\t_" for i, word in enumerate(words, 1)
    ) + "\n\n")  # fmt: skip
    assert main(["parse", "--parser", "graphs", "--input", str(tmp_path / "c.conllu")]) == 0
    (tmp_path / "d.conllu").write_text(capsys.readouterr().out)
    (read,) = next(iter(read_conllu(tmp_path / "d.conllu", graphs=True))).sentences
    assert (read.heads, read.edges) == ((0, 1, 2, 3, 4, 5, 6), document.sentences[0].edges)
