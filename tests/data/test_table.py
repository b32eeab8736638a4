"""Annotated tables: columns, cache, several processes, limits, what is left after a failure."""

import multiprocessing
import os
from dataclasses import replace

import pytest

from depgen.annotation.controls import GoldTrees, LeftChain, RandomTree
from depgen.data import table as tables
from depgen.data.table import AnnotatedSplit, TableSizes, sizes_of
from depgen.errors import UserError
from depgen.trees.sentence import Document, Sentence
from tests.annotation.annotators import Counting, Interrupted, Refusing, Sent
from tests.shelves import Shelf


def shelf(*texts):
    """Documents, their sentences between slashes."""
    return Shelf(
        [
            Document(tuple(Sentence(tuple(part.split())) for part in text.split("/")), f"d{number}")
            for number, text in enumerate(texts)
        ]
    )


TALK = shelf("she sang . / all laughed", "go !")


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log"


def calls(log):
    """How many sentences an annotator was given, call by call."""
    return [int(line.split()[1]) for line in log.read_text().splitlines()]


def test_one_row_a_document_with_heads_within_sentences():
    table = AnnotatedSplit(TALK, "train", LeftChain()).table()
    assert table.to_list() == [
        {
            "identifier": "d0", "words": ["she", "sang", ".", "all", "laughed"], "sentence_lengths": [3, 2],
            "heads": [0, 1, 2, 0, 1], "relations": ["root", "dep", "dep", "root", "dep"],
        },
        {"identifier": "d1", "words": ["go", "!"], "sentence_lengths": [2], "heads": [0, 1],
         "relations": ["root", "dep"]},
    ]  # fmt: skip
    assert AnnotatedSplit(TALK, "train", None).table().column_names == ["identifier", "words", "sentence_lengths"]


def test_graphs_and_constituents_are_ragged_columns_beside_heads():
    class Leaving(GoldTrees):
        leaves_out = True

        def annotate(self, sentences):
            return list(sentences)

    graph = Sentence(("she", "tried", "singing", "."), edges=((2, 1, "ARG1"), (3, 1, "ARG1"), (0, 2, "top")))
    bare = Sentence(("all", "laughed"), (2, 0), ("nsubj", "root"))
    table = AnnotatedSplit(Shelf([Document((graph, bare), "one")]), "train", Leaving(structure="graph")).table()
    assert table[0]["heads"] == [-1, -1, -1, -1, 2, 0]
    assert table[0]["relations"] == ["_", "_", "_", "_", "nsubj", "root"]
    edge, none = {"head": 2, "label": "ARG1"}, {"head": -1, "label": "_"}
    edges = [[edge, {**edge, "head": 3}], [{"head": 0, "label": "top"}], [], [], [none], [none]]
    assert table[0]["edges"] == edges
    assert sizes_of(table) == TableSizes(documents=1, sentences=2, words=6, without_head=2)
    spans = replace(bare, spans=((0, 2, "S"), (1, 2, "VP")))
    document = Document((spans, Sentence(("yes",), (0,))), "one")
    table = AnnotatedSplit(Shelf([document]), "train", Leaving(structure="constituency")).table()
    names = ("start", "end", "label")
    rows = [dict(zip(names, span, strict=True)) for span in spans.spans]
    assert table[0]["spans"] == [rows, [{"start": -1, "end": -1, "label": "_"}]]
    assert sizes_of(table) == TableSizes(documents=1, sentences=2, words=3, without_head=1)


def test_the_cache_follows_text_split_annotator_and_cut(log):
    for _ in range(2):
        table = AnnotatedSplit(TALK, "train", Counting(log)).table()
        assert table._fingerprint == AnnotatedSplit(TALK, "train", LeftChain()).fingerprint()
    assert calls(log) == [3]
    AnnotatedSplit(TALK, "valid", Counting(log)).table()
    assert AnnotatedSplit(shelf("another text"), "train", Counting(log)).table()[0]["words"] == ["another", "text"]
    assert calls(log) == [3, 3, 1]
    fingerprints = {AnnotatedSplit(TALK, "train", RandomTree(seed)).fingerprint() for seed in (1, 2)}
    assert len(fingerprints) == 2


def test_memory_is_bounded_by_chunks(log, monkeypatch):
    monkeypatch.setattr(tables, "DOCUMENTS_PER_CHUNK", 3)
    table = AnnotatedSplit(shelf(*(f"word{i} a / b" for i in range(10))), "train", Counting(log)).table()
    assert calls(log) == [6, 6, 6, 2]
    assert [row["words"][0] for row in table] == [f"word{i}" for i in range(10)]


@pytest.mark.slow
def test_several_processes_keep_the_order(log, monkeypatch):
    monkeypatch.setattr(tables, "DOCUMENTS_PER_CHUNK", 2)
    corpus = shelf(*(f"word{i} a b c" for i in range(9)))
    parallel = AnnotatedSplit(corpus, "train", Sent(log)).table(processes=2)
    assert {line.split()[0] for line in log.read_text().splitlines()}.isdisjoint({str(os.getpid())})
    assert len(log.read_text().splitlines()) > 2
    assert len(log.with_name("log.made").read_text().splitlines()) <= 2, "each process loads its annotator once"
    assert parallel.to_list() == AnnotatedSplit(corpus, "train", LeftChain()).table().to_list()


def _annotate(log):
    AnnotatedSplit(TALK, "train", Counting(log)).table()


def test_two_processes_at_once_annotate_once(log):
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_annotate, args=(log,)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert calls(log) == [3]


class Edited(Shelf):
    """A corpus that is another one after it was read."""

    reads = 0

    def documents(self, split):
        yield from super().documents(split)
        self.reads += 1

    def fingerprint(self, split):
        return f"read {self.reads} times"


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize(
    ("corpus", "annotator", "error", "message"),
    [
        (TALK, Refusing(), UserError, r"^d0, sentence 2: no laughing\.$"),
        (TALK, Interrupted(os.getpid()), KeyboardInterrupt, ""),
        (Edited(list(TALK.documents("train"))), LeftChain(), UserError, "shelf train changed while it was read"),
        (Shelf([]), LeftChain(), UserError, "shelf train: expected documents, found none"),
    ],
    ids=["refused", "interrupted", "edited", "empty"],
)
def test_a_failure_is_raised_as_what_it_is_and_leaves_nothing(cache, processes, corpus, annotator, error, message):
    environment = dict(os.environ)
    with pytest.raises(error, match=message):
        AnnotatedSplit(corpus, "train", annotator).table(processes=processes)
    assert [path.suffix for path in (cache / "tables").iterdir()] in ([".lock"], [])
    assert dict(os.environ) == environment
    assert len(AnnotatedSplit(TALK, "train", LeftChain()).table()) == 2


def test_what_a_cache_has_lost_is_made_again_and_what_is_damaged_is_named(cache):
    digest = AnnotatedSplit(TALK, "train", LeftChain()).fingerprint()
    part = cache / "tables" / f".{digest}.part"
    part.mkdir(parents=True)
    (part / "table.arrow").write_text("cut sh")
    assert len(AnnotatedSplit(TALK, "train", LeftChain()).table()) == 2
    assert not part.exists()
    (path,) = cache.glob("tables/**/*.arrow")
    path.unlink()
    assert len(AnnotatedSplit(TALK, "train", LeftChain()).table()) == 2
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(UserError, match=r"tables/\w+ is damaged .* Delete the folder"):
        AnnotatedSplit(TALK, "train", LeftChain()).table()


def test_a_limit_annotates_only_what_is_used(log):
    short = AnnotatedSplit(TALK, "train", Counting(log), max_documents=1).table()
    assert (short["identifier"], calls(log)) == (["d0"], [2])
    assert AnnotatedSplit(TALK, "train", Counting(log)).table()["identifier"] == ["d0", "d1"]


def test_what_an_annotator_reads_is_all_that_is_known_of_a_sentence():
    class Same(LeftChain):
        def annotate(self, sentences):
            assert list(sentences) == [tagged, Sentence(("c",), (0,))]
            return super().annotate(sentences)

    edges, spans = ((1, 1, "conj>ref"), (0, 2, "top")), ((0, 2, "S"),)
    tagged = Sentence(("a", "b"), (0, 1), ("root", "dep"), ("A", "B"), edges, spans)
    document = Document((tagged, Sentence(("c",), (0,))), "three")
    assert len(AnnotatedSplit(Shelf([document]), "train", Same()).table()) == 1
