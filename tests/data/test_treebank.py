from dataclasses import replace

import pytest
from depgen.data.treebank import ConlluTreebank, DependencyColumns, SdpTreebank

from depgen.data.corpus import SPLITS, Corpus
from depgen.errors import UserError
from depgen.trees.conllu import write_conllu
from depgen.trees.sdp import write_sdp
from depgen.trees.sentence import Document, Sentence

DOGS = Sentence(("Dogs", "bark"), (2, 0), ("nsubj", "root"), ("NNS", "VBP"))


def test_conllu_treebank(tmp_path):
    documents = [Document((DOGS, DOGS), "one"), Document((DOGS,), "two")]
    write_conllu(documents[:1], tmp_path / "a.conllu")
    write_conllu(documents[1:], tmp_path / "b.conllu")
    corpus = ConlluTreebank(str(tmp_path), train=["a.conllu", "b.conllu"])
    assert isinstance(corpus, Corpus)
    assert list(corpus.documents("train")) == documents
    lone = ConlluTreebank(str(tmp_path), train=["a.conllu"], documents_by="sentence", lowercase=True)
    assert [document.identifier for document in lone.documents("train")] == ["one-1", "one-2"]
    assert next(lone.documents("train")).sentences[0].words == ("dogs", "bark")
    assert lone.fingerprint("train") != ConlluTreebank(str(tmp_path), train=["a.conllu"]).fingerprint("train")
    with pytest.raises(UserError, match=r"universaldependencies\.org"):
        list(corpus.documents("valid"))


@pytest.fixture
def sample(tmp_path):
    for number in range(10):
        (tmp_path / f"wsj_{number}.dp").write_text(f"Dog{number}\tNN\t2\nbarks\tVBZ\t0\n\nYes\tUH\t0\n")
    return tmp_path


def test_the_seeded_split_takes_each_document_once(sample):
    corpus = DependencyColumns(str(sample), valid_documents=2, test_documents=3)
    assert isinstance(corpus, Corpus)
    found = {split: [document.identifier for document in corpus.documents(split)] for split in SPLITS}
    assert {split: len(names) for split, names in found.items()} == {"train": 5, "valid": 2, "test": 3}
    assert sorted(name for names in found.values() for name in names) == [f"wsj_{number}" for number in range(10)]
    again = DependencyColumns(str(sample), valid_documents=2, test_documents=3)
    other = DependencyColumns(str(sample), valid_documents=2, test_documents=3, seed=1)
    assert again.fingerprint("test") == corpus.fingerprint("test") != other.fingerprint("test")


def test_listed_files(sample):
    corpus = DependencyColumns(str(sample), train=["wsj_3.dp"], valid=[], test=["wsj_4.dp"], lowercase=True)
    (document,) = corpus.documents("train")
    assert document.sentences[0] == Sentence(("dog3", "barks"), (2, 0), tags=("NN", "VBZ"))
    assert list(corpus.documents("valid")) == []


def test_errors(sample):
    with pytest.raises(UserError, match="for train, valid and test or for none"):
        DependencyColumns(str(sample), train=["wsj_3.dp"])
    with pytest.raises(UserError, match=r"\*\.dp: expected more than 40 documents to split, found 10"):
        list(DependencyColumns(str(sample)).documents("train"))


def test_graphs_of_conllu_are_read_where_they_are_wanted(tmp_path):
    walks = replace(DOGS, edges=((2, 1, "nsubj"), (0, 2, "root")))
    write_conllu([Document((walks,), "one")], tmp_path / "a.conllu")
    plain, graphs = (ConlluTreebank(str(tmp_path), train=["a.conllu"], graphs=wanted) for wanted in (False, True))
    assert next(plain.documents("train")).sentences == (DOGS,)
    assert next(graphs.documents("train")).sentences == (walks,)
    strict = ConlluTreebank(str(tmp_path), train=["a.conllu"], graphs=True, empty_nodes="refuse")
    assert len({corpus.fingerprint("train") for corpus in (plain, graphs, strict)}) == 3
    empty = "2.1\tx\t_\t_\t_\t_\t_\t_\t2:conj\t_\n"
    path = tmp_path / "a.conllu"
    path.write_text(path.read_text().rstrip("\n") + f"\n{empty}\n")
    assert next(graphs.documents("train")).sentences == (walks,)
    with pytest.raises(UserError, match=r"empty node 2\.1"):
        next(strict.documents("train"))


def test_sdp_treebank(tmp_path):
    graph = Sentence(("Dogs", "bark"), tags=("NNS", "VBP"), edges=((2, 1, "ARG1"), (0, 2, "top")))
    documents = [Document((graph,) * 2, "20001"), Document((graph,), "20002001")]
    write_sdp(documents, tmp_path / "dm.sdp")
    files = {"train": ["dm.sdp"], "valid": ["dm.sdp"], "test": ["none.sdp"]}
    corpus = SdpTreebank(str(tmp_path), **files, name="DM")
    assert isinstance(corpus, Corpus)
    assert [document.identifier for document in corpus.documents("train")] == ["20001001", "20001002", "20002001"]
    whole = SdpTreebank(str(tmp_path), **files, documents_by="document", lowercase=True)
    assert whole.name == tmp_path.name
    assert [len(document.sentences) for document in whole.documents("train")] == [2, 1]
    assert next(whole.documents("train")).sentences[0] == replace(graph, words=("dogs", "bark"))
    assert whole.fingerprint("train") != corpus.fingerprint("train") == corpus.fingerprint("valid")
    with pytest.raises(UserError, match=r"none\.sdp.*LDC2016T10"):
        list(corpus.documents("test"))


def test_graphs_without_some_relations(tmp_path):
    edges = ((2, 1, "cc:preconj"), (0, 2, "root"), (2, 3, "conj:and>nsubj"), (2, 4, "punct"))
    sentence = Sentence(("Both", "walk", "she", "."), (2, 0, 2, 2), ("cc:preconj", "root", "dep", "punct"), edges=edges)
    (tmp_path / "b.conllu").write_text("1\tYes\t_\t_\t_\t_\t0\troot\t_\t_\n\n")
    write_conllu([Document((sentence,), "one")], tmp_path / "a.conllu")
    whole, content = (
        ConlluTreebank(str(tmp_path), train=["a.conllu", "b.conllu"], graphs=True, without=without)
        for without in ((), ("punct", "cc"))
    )
    assert [each.sentences[0].edges for each in whole.documents("train")] == [edges, None]
    found = [each.sentences[0] for each in content.documents("train")]
    assert [each.edges for each in found] == [edges[1:3], None]
    assert replace(found[0], tags=None) == replace(sentence, edges=edges[1:3])
    assert content.fingerprint("train") != whole.fingerprint("train")
    again = ConlluTreebank(str(tmp_path), train=["a.conllu", "b.conllu"], graphs=True, without=["cc", "punct"])
    assert again.fingerprint("train") == content.fingerprint("train")
    with pytest.raises(UserError, match=r"without: \['punct'\] .*: set graphs: true"):
        ConlluTreebank(str(tmp_path), without=["punct"])


HALF = "1\tup\t_\t_\t_\t_\t{}\t_\t{}\t_\n\n"


def test_sentences_without_a_tree_can_be_left_out(tmp_path, caplog):
    (tmp_path / "a.conllu").write_text(HALF.format("0", "0:root") + HALF.format("_", "0:root") + HALF.format("0", "_"))
    files = {"folder": str(tmp_path), "train": ["a.conllu"], "name": "half"}
    every, trees = ConlluTreebank(**files), ConlluTreebank(**files, with_trees_only=True)
    graphs = ConlluTreebank(**files, graphs=True, with_trees_only=True)
    lines = [[each.identifier for each in corpus.documents("train")] for corpus in (every, trees, graphs)]
    assert lines == [
        ["a.conllu:1", "a.conllu:3", "a.conllu:5"],
        ["a.conllu:1", "a.conllu:5"],
        ["a.conllu:1", "a.conllu:3"],
    ]
    assert caplog.messages == ["half, train: left out 1 sentences without a tree."] * 2
    assert every.fingerprint("train") != trees.fingerprint("train")
    (tmp_path / "a.conllu").write_text(HALF.format("_", "0:root") * 2)
    with pytest.raises(UserError, match="half train: with_trees_only: expected sentences with a tree, found none of 2"):
        list(ConlluTreebank(**files, with_trees_only=True).documents("train"))


def test_a_relation_to_leave_out_that_never_occurs_is_named(tmp_path, caplog):
    (tmp_path / "a.conllu").write_text(HALF.format("0", "0:root") + HALF.format("0", "0:det:poss"))
    corpus = ConlluTreebank(str(tmp_path), train=["a.conllu"], graphs=True, without=["punkt", "det"], name="few")
    assert [document.sentences[0].edges for document in corpus.documents("train")] == [((0, 1, "root"),), ()]
    (warning,) = caplog.messages
    assert warning.startswith("few, train: no edge has a relation punkt, which `without` leaves out")
