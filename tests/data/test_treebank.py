import pytest

from depgen.data.corpus import SPLITS, Corpus
from depgen.data.treebank import ConlluTreebank, DependencyColumns
from depgen.errors import UserError
from depgen.trees.conllu import write_conllu
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
