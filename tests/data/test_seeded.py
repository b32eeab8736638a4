"""Documents drawn into splits, and the draw kept in the run folder."""

import json
import os

import pytest
from depgen.data.document_lines import DocumentLines
from depgen.data.json_documents import JsonDocuments
from depgen.data.seeded import SeededSplits
from depgen.data.sentences import SingleSentences
from depgen.data.treebank import DependencyColumns

from depgen.data.corpus import DrawnSplits
from depgen.data.text import TextData
from depgen.errors import UserError

SPLITS = ("train", "valid", "test")


@pytest.fixture
def lines(tmp_path, monkeypatch):
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path / "cache"))
    rows = (json.dumps({"id": f"d{n}", "text": f"Document {n} . It ends ."}) for n in range(12))
    (tmp_path / "all.jsonl").write_text("\n".join(rows))
    return JsonDocuments(os.fspath(tmp_path), train="all.jsonl")


def drawn(corpus, **options):
    return SeededSplits(corpus, **{"valid_documents": 3, "test_documents": 2, **options})


def names(corpus, split):
    return [document.identifier for document in corpus.documents(split)]


def test_each_document_is_in_one_split_in_the_corpuss_order(lines):
    corpus = drawn(lines)
    assert isinstance(corpus, DrawnSplits)
    found = {split: names(corpus, split) for split in SPLITS}
    assert found == corpus.drawn()
    assert [len(found[split]) for split in SPLITS] == [7, 3, 2]
    assert sorted(name for part in found.values() for name in part) == sorted(f"d{n}" for n in range(12))
    assert all(each == sorted(each, key=lambda name: int(name[1:])) for each in found.values())
    assert any(names(drawn(lines, seed=seed), "test") != found["test"] for seed in range(1, 6))
    assert drawn(lines, seed=1).fingerprint("train") != corpus.fingerprint("train") != corpus.fingerprint("valid")


def test_a_document_more_moves_no_other(lines, tmp_path):
    before = drawn(lines).drawn()
    with (tmp_path / "all.jsonl").open("a") as stream:
        stream.write('\n{"id": "late", "text": "One more ."}\n')
    after = drawn(lines).drawn()
    moved = set(before["test"]) ^ set(after["test"]) | set(before["valid"]) ^ set(after["valid"])
    assert len(moved - {"late"}) <= 2, "at most one falls out of each of the two splits"


def test_documents_of_one_name_are_refused(tmp_path):
    (tmp_path / "train.txt").write_text("a\n\nb\n")
    assert len(names(drawn(DocumentLines(str(tmp_path)), valid_documents=0, test_documents=1), "train")) == 1
    (tmp_path / "twice.jsonl").write_text('{"id": 1, "text": "a"}\n{"id": 1, "text": "b"}\n{"id": 2, "text": "c"}\n')
    corpus = drawn(JsonDocuments(str(tmp_path), train="twice.jsonl"), valid_documents=1, test_documents=1)
    with pytest.raises(UserError, match="two documents are called 1"):
        corpus.drawn()


@pytest.mark.parametrize("sizes", [{"valid_documents": -1}, {"test_documents": -2}])
def test_fewer_than_no_documents_are_refused(lines, sizes):
    with pytest.raises(UserError, match="expected 0 or more documents to validate and to test on, found"):
        drawn(lines, **sizes).drawn()


def test_a_run_folder_says_which_document_is_where(lines, tmp_path):
    corpus = drawn(lines)
    TextData(corpus).save_into(tmp_path / "run")
    assert json.loads((tmp_path / "run" / "splits.json").read_text()) == corpus.drawn()
    assert (tmp_path / "run" / "vocabulary" / "vocabulary.json").is_file()
    TextData(SingleSentences(corpus)).save_into(tmp_path / "sentences")
    assert json.loads((tmp_path / "sentences" / "splits.json").read_text()) == corpus.drawn(), "of what they are from"
    TextData(lines).save_into(tmp_path / "official")
    assert not (tmp_path / "official" / "splits.json").exists(), "official splits are the files' own"
    assert DependencyColumns(train=["a.dp"], valid=["b.dp"], test=["c.dp"]).drawn() == {}
