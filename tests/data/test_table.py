"""Tables of splits: columns, cache, two processes at once, broken annotators."""

import hashlib
import logging
import multiprocessing
import os
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import given

from depgen.annotation.annotate import annotate_corpus
from depgen.annotation.trivial import GoldTrees, LeftChain, RandomTree
from depgen.data import table as tables
from depgen.data.rows import document_of_row, merge_sentences
from depgen.data.table import AnnotatedSplit, TableSizes, sizes_of
from depgen.errors import UserError
from depgen.trees.sentence import Document, Sentence
from tests.annotation.annotators import Counting, Interrupted, Refusing, Sent
from tests.trees.trees import documents


class Lines:
    """A corpus in a text file: documents separated by blank lines, sentences on lines."""

    published: ClassVar = {}

    def __init__(self, path, name="lines"):
        self.path, self.name = Path(path), name

    def documents(self, split):
        for number, block in enumerate(self.path.read_text().split("\n\n")):
            sentences = tuple(Sentence(tuple(line.split())) for line in block.splitlines())
            yield Document(sentences, f"{split}-{number}")

    def fingerprint(self, split):
        return hashlib.sha256(self.path.read_bytes() + split.encode()).hexdigest()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text("she sang .\nall laughed\n\ngo !")
    return Lines(path)


def calls(log):
    return log.read_text().count("\n") if log.exists() else 0


def test_one_row_a_document_with_heads_within_sentences(corpus):
    table = AnnotatedSplit(corpus, "train", LeftChain()).table()
    assert table[0] == {
        "identifier": "train-0",
        "words": ["she", "sang", ".", "all", "laughed"],
        "sentence_lengths": [3, 2],
        "heads": [0, 1, 2, 0, 1],
        "relations": ["root", "dep", "dep", "root", "dep"],
    }
    assert table[1]["words"] == ["go", "!"]
    assert str(table.features["heads"].feature.dtype) == "int32"


def test_without_annotator_there_are_no_heads(corpus):
    table = AnnotatedSplit(corpus, "train", None).table()
    assert table.column_names == ["identifier", "words", "sentence_lengths"]


def test_whole_documents_are_one_sentence(corpus):
    table = AnnotatedSplit(corpus, "train", LeftChain(), whole_documents=True).table()
    assert table[0]["sentence_lengths"] == [5]
    assert table[0]["heads"] == [0, 1, 2, 3, 4]


def test_the_cache_follows_text_split_annotator_and_cut(corpus, tmp_path):
    log = tmp_path / "log"
    AnnotatedSplit(corpus, "train", Counting(log)).table()
    AnnotatedSplit(corpus, "train", Counting(log)).table()
    assert calls(log) == 1
    AnnotatedSplit(corpus, "valid", Counting(log)).table()
    AnnotatedSplit(corpus, "train", Counting(log), whole_documents=True).table()
    corpus.path.write_text("another text")
    assert AnnotatedSplit(corpus, "train", Counting(log)).table()[0]["words"] == ["another", "text"]
    assert calls(log) == 4
    fingerprints = {AnnotatedSplit(corpus, "train", RandomTree(seed)).fingerprint() for seed in (1, 2)}
    assert len(fingerprints) == 2


def test_the_table_has_the_annotations_own_fingerprint(corpus):
    digest = AnnotatedSplit(corpus, "train", LeftChain()).fingerprint()
    assert AnnotatedSplit(corpus, "train", LeftChain()).table()._fingerprint == digest


def test_memory_is_bounded_by_chunks(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "DOCUMENTS_PER_CHUNK", 3)
    corpus.path.write_text("\n\n".join(f"word{i} a\nb" for i in range(10)))
    log = tmp_path / "log"
    table = AnnotatedSplit(corpus, "train", Counting(log)).table()
    assert [line.split()[1] for line in log.read_text().splitlines()] == ["6", "6", "6", "2"]
    assert [row["words"][0] for row in table] == [f"word{i}" for i in range(10)]


@pytest.mark.slow
def test_several_processes_keep_the_order(corpus, monkeypatch, tmp_path):
    monkeypatch.setattr(tables, "DOCUMENTS_PER_CHUNK", 2)
    corpus.path.write_text("\n\n".join(f"word{i} a b c" for i in range(9)))
    log = tmp_path / "log"
    parallel = AnnotatedSplit(corpus, "train", Sent(log)).table(processes=2)
    assert {line.split()[0] for line in log.read_text().splitlines()}.isdisjoint({str(os.getpid())})
    assert len(log.read_text().splitlines()) > 2
    assert len((tmp_path / "log.made").read_text().splitlines()) <= 2, "each process loads its annotator once"
    assert parallel.to_list() == AnnotatedSplit(corpus, "train", LeftChain(), whole_documents=True).table().to_list()


def _annotate(path, log):
    AnnotatedSplit(Lines(path), "train", Counting(log)).table()


def test_two_processes_at_once_annotate_once(corpus, tmp_path):
    log = tmp_path / "log"
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_annotate, args=(corpus.path, log)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert calls(log) == 1


class Broken(LeftChain):
    scheme = "broken"

    def __init__(self, change):
        self.change = change

    def annotate(self, sentences):
        return [self.change(sentence) for sentence in super().annotate(sentences)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: Sentence(tuple(w.upper() for w in s.words), s.heads), "train-0, sentence 1: .* changed the words"),
        (lambda s: Sentence(s.words), "train-0, sentence 1: .* gave no heads"),
        (lambda s: replace(s, heads=(2, *range(1, len(s)))), r"train-0, sentence 1 \(broken\): .*no root"),
    ],
)
def test_a_broken_annotator_is_named_and_leaves_nothing(corpus, cache, change, message):
    with pytest.raises(UserError, match=message):
        AnnotatedSplit(corpus, "train", Broken(change)).table()
    assert [path.suffix for path in (cache / "tables").iterdir()] in ([".lock"], [])


def test_sentences_without_a_tree_are_for_annotators_that_say_so(corpus):
    def told(heads):
        return Broken(lambda s: Sentence(s.words, heads if len(s) == 3 else s.heads, ("_",) * len(s)))

    left, partly = told((-1, -1, -1)), told((-1, 0, -1))
    with pytest.raises(UserError, match=r"train-0, sentence 1 .*: token 1 has head -1"):
        AnnotatedSplit(corpus, "train", left).table()
    left.leaves_out = partly.leaves_out = True
    assert AnnotatedSplit(corpus, "train", left).table()[0]["heads"] == [-1, -1, -1, 0, 1]
    with pytest.raises(UserError, match=r"valid-0, sentence 1 .*: token 1 has head -1"):
        AnnotatedSplit(corpus, "valid", partly).table()


def test_an_annotator_that_loses_sentences_is_refused(corpus):
    class Losing(LeftChain):
        def annotate(self, sentences):
            return super().annotate(sentences)[:-1]

    with pytest.raises(UserError, match=r"train-0 .* was given 3 sentences and gave back 2"):
        AnnotatedSplit(corpus, "train", Losing()).table()


def test_an_annotator_that_adds_sentences_is_refused(corpus):
    class Adding(LeftChain):
        def annotate(self, sentences):
            return [*super().annotate(sentences), Sentence(("more",), (0,))]

    with pytest.raises(UserError, match=r"train-0 .* was given 3 sentences and gave back 4"):
        AnnotatedSplit(corpus, "train", Adding()).table()


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_a_refused_sentence_is_named_by_its_document(corpus, processes):
    corpus.path.write_text("go !\n\n" + corpus.path.read_text())
    with pytest.raises(UserError, match=r"^train-1, sentence 2: no laughing\.$"):
        AnnotatedSplit(corpus, "train", Refusing()).table(processes=processes)


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_an_interruption_leaves_nothing_and_is_raised_as_what_it_is(corpus, cache, processes, monkeypatch):
    monkeypatch.setattr(tables, "DOCUMENTS_PER_CHUNK", 1)
    environment = os.environ
    with pytest.raises(KeyboardInterrupt):
        AnnotatedSplit(corpus, "train", Interrupted(os.getpid())).table(processes=processes)
    assert [path.suffix for path in (cache / "tables").iterdir()] in ([".lock"], [])
    assert os.environ is environment
    assert len(AnnotatedSplit(corpus, "train", LeftChain()).table()) == 2


def test_gold_trees_of_whole_documents_name_the_joining(corpus):
    with pytest.raises(UserError, match=r"train-0, sentence 1: .*`joining: whole`.* roots or previous_sentence"):
        AnnotatedSplit(corpus, "train", GoldTrees(), whole_documents=True).table()


def test_a_corpus_that_changes_while_it_is_read_is_refused(corpus, cache):
    class Edited(Lines):
        def documents(self, split):
            yield from super().documents(split)
            self.path.write_text("another text")

    with pytest.raises(UserError, match="lines train changed while it was read"):
        AnnotatedSplit(Edited(corpus.path), "train", LeftChain()).table()
    assert not list(cache.glob("tables/**/*.arrow"))


def test_a_folder_without_its_table_is_made_again(corpus, cache):
    AnnotatedSplit(corpus, "train", LeftChain()).table()
    (path,) = cache.glob("tables/**/*.arrow")
    path.unlink()
    assert len(AnnotatedSplit(corpus, "train", LeftChain()).table()) == 2


def test_empty_documents_are_refused(corpus):
    corpus.path.write_text("a b\n\n\n\nc d")
    with pytest.raises(UserError, match="train-1: expected words"):
        AnnotatedSplit(corpus, "train", None).table()


def test_what_was_left_half_done_is_done_again(corpus, cache):
    digest = AnnotatedSplit(corpus, "train", LeftChain()).fingerprint()
    part = cache / "tables" / f".{digest}.part"
    part.mkdir(parents=True)
    (part / "table.arrow").write_text("cut sh")
    assert len(AnnotatedSplit(corpus, "train", LeftChain()).table()) == 2
    assert not part.exists()


def test_a_damaged_table_is_named(corpus, cache):
    AnnotatedSplit(corpus, "train", LeftChain()).table()
    (path,) = cache.glob("tables/**/*.arrow")
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(UserError, match=r"tables/\w+ is damaged .* Delete the folder"):
        AnnotatedSplit(corpus, "train", LeftChain()).table()


def test_speed_is_logged(corpus, caplog):
    with caplog.at_level(logging.INFO):
        AnnotatedSplit(corpus, "train", LeftChain()).table()
    assert "lines train (left chain): 2 documents in" in caplog.text


def test_the_verb_says_what_it_made_and_what_was_there(corpus):
    first = annotate_corpus(corpus, LeftChain(), ("train", "valid"))
    assert first.splitlines()[0].startswith("lines train: 2 documents, 3 sentences, 7 words; left chain; 0.")
    assert annotate_corpus(corpus, LeftChain(), ("train",)).endswith("already there")


def sentences_annotated(log):
    return sum(int(line.split()[1]) for line in log.read_text().splitlines())


def test_a_limit_annotates_only_what_is_used_and_its_table_is_not_taken_for_all(corpus, tmp_path):
    log = tmp_path / "calls"
    short = AnnotatedSplit(corpus, "train", Counting(log), max_documents=1).table()
    assert short["identifier"] == ["train-0"]
    assert sentences_annotated(log) == 2
    whole = AnnotatedSplit(corpus, "train", Counting(log)).table()
    assert whole["identifier"] == ["train-0", "train-1"]
    assert sentences_annotated(log) == 2 + 3
    assert AnnotatedSplit(corpus, "train", Counting(log), max_documents=1).table().to_list() == short.to_list()
    assert sentences_annotated(log) == 2 + 3


def test_the_table_of_all_serves_every_limit(corpus, tmp_path, cache):
    log = tmp_path / "calls"
    whole = AnnotatedSplit(corpus, "train", Counting(log)).table()
    assert AnnotatedSplit(corpus, "train", Counting(log), max_documents=1).table().to_list() == whole.to_list()[:1]
    assert AnnotatedSplit(corpus, "train", Counting(log), max_documents=9).table().to_list() == whole.to_list()
    assert sentences_annotated(log) == 3
    assert len(list(cache.glob("tables/**/*.arrow"))) == 1


def test_two_limits_have_two_tables(corpus):
    sizes = [len(AnnotatedSplit(corpus, "train", LeftChain(), max_documents=limit).table()) for limit in (1, 2, 1)]
    assert sizes == [1, 2, 1]


def test_the_verb_limits_the_training_split_alone(corpus):
    train, valid = annotate_corpus(corpus, LeftChain(), ("train", "valid"), max_documents=1).splitlines()
    assert train.startswith("lines train: 1 documents, 2 sentences, 5 words; left chain; 0.")
    assert valid.startswith("lines valid: 2 documents")


# `.` hangs on nothing, `she` on two words; the second document has no graph
GRAPHS = [
    Document(
        (
            Sentence(("she", "tried", "singing", "."), edges=((2, 1, "ARG1"), (3, 1, "ARG1"), (0, 2, "top"))),
            Sentence(("all", "laughed"), (2, 0), ("nsubj", "root"), edges=()),
        ),
        "one",
    ),
    Document((Sentence(("go", "!")),), "two"),
]


class Shelf:
    """A corpus in memory."""

    name = "shelf"
    published: ClassVar = {}

    def __init__(self, documents):
        self._documents = documents

    def documents(self, split):
        return iter(self._documents)

    def fingerprint(self, split):
        return hashlib.sha256(repr((split, self._documents)).encode()).hexdigest()


def test_graphs_are_a_ragged_column_beside_heads():
    table = AnnotatedSplit(Shelf(GRAPHS[:1]), "train", GoldTrees(structure="graph")).table()
    assert table.column_names == ["identifier", "words", "sentence_lengths", "heads", "relations", "edges"]
    assert table[0]["heads"] == [-1, -1, -1, -1, 2, 0]
    assert table[0]["relations"] == ["_", "_", "_", "_", "nsubj", "root"]
    edge = {"head": 2, "label": "ARG1"}
    assert table[0]["edges"] == [[edge, {**edge, "head": 3}], [{"head": 0, "label": "top"}], [], [], [], []]
    trees = AnnotatedSplit(Shelf([replace(GRAPHS[0], sentences=GRAPHS[0].sentences[1:])]), "train", GoldTrees()).table()
    assert trees.column_names[-1] == "relations"


def test_sentences_without_a_graph_are_for_annotators_that_say_so():
    class Leaving(GoldTrees):
        leaves_out = True

        def annotate(self, sentences):
            return list(sentences)

    with pytest.raises(UserError, match=r"^two, sentence 1: GoldTrees .*own graphs, but .* 'go !'"):
        AnnotatedSplit(Shelf(GRAPHS), "train", GoldTrees(structure="graph")).table()
    leaving = Leaving(structure="graph")
    table = AnnotatedSplit(Shelf(GRAPHS), "train", leaving).table()
    assert table[1]["edges"] == [[{"head": -1, "label": "_"}]] * 2
    assert sizes_of(table) == TableSizes(documents=2, sentences=3, words=8, without_head=2)
    leaving.leaves_out = False
    with pytest.raises(UserError, match=r"^two, sentence 1: the annotator .* gave no edges"):
        AnnotatedSplit(Shelf(GRAPHS), "valid", leaving).table()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"edges": ((5, 1, "ARG1"),)}, r"token 1 \(she\) has head 5, but the sentence has 4 words"),
        ({"edges": ((1, 1, "ARG1"),)}, r"token 1 \(she\) is its own head"),
        ({"heads": (1, 0, 2, 2)}, "token 1 is its own head"),
        ({"words": ("SHE", *GRAPHS[0].sentences[0].words[1:])}, "changed the words"),
    ],
)
def test_an_annotator_of_broken_graphs_is_named(change, message):
    class Graphs(Broken):
        structure = "graph"

        def annotate(self, sentences):
            return [replace(GRAPHS[0].sentences[0], **change) for _ in sentences]

    with pytest.raises(UserError, match=rf"^one, sentence 1.*{message}"):
        AnnotatedSplit(Shelf([Document(GRAPHS[0].sentences[:1], "one")]), "train", Graphs(None)).table()


SPANS = ((0, 2, "S"), (0, 2, "VP"), (1, 2, "NP"))


def test_constituents_are_a_list_a_sentence():
    class Leaving(GoldTrees):
        leaves_out = True

        def annotate(self, sentences):
            return list(sentences)

    documents = [Document((Sentence(("go", "home"), spans=SPANS), Sentence(("yes",), (0,))), "one")]
    with pytest.raises(UserError, match=r"^one, sentence 2: GoldTrees .*own constituents, but .* 'yes'"):
        AnnotatedSplit(Shelf(documents), "train", GoldTrees(structure="constituency")).table()
    leaving = Leaving(structure="constituency")
    table = AnnotatedSplit(Shelf(documents), "train", leaving).table()
    assert table.column_names == ["identifier", "words", "sentence_lengths", "heads", "relations", "spans"]
    names = ("start", "end", "label")
    rows = [dict(zip(names, span, strict=True)) for span in SPANS]
    assert table[0]["spans"] == [rows, [{"start": -1, "end": -1, "label": "_"}]]
    assert [sentence.spans for sentence in document_of_row(table[0]).sentences] == [SPANS, None]
    assert sizes_of(table) == TableSizes(documents=1, sentences=2, words=3, without_head=1)
    leaving.leaves_out = False
    with pytest.raises(UserError, match=r"^one, sentence 2: the annotator .* gave no spans"):
        AnnotatedSplit(Shelf(documents), "valid", leaving).table()


def test_an_annotator_of_crossing_constituents_is_named():
    class Crossing(Broken):
        structure = "constituency"

        def annotate(self, sentences):
            return [replace(each, spans=((0, 2, "NP"), (1, 3, "VP"))) for each in sentences]

    documents = [Document((Sentence(("a", "b", "c")),), "one")]
    with pytest.raises(UserError, match=r"^one, sentence 1 .*VP over words 2 to 3 \(b c\) crosses NP"):
        AnnotatedSplit(Shelf(documents), "train", Crossing(None)).table()


def test_what_an_annotator_reads_is_all_that_is_known_of_a_sentence():
    class Same(LeftChain):
        def annotate(self, sentences):
            assert list(sentences) == [each for document in known for each in document.sentences]
            return super().annotate(sentences)

    tagged = Sentence(("a", "b"), (0, 1), ("root", "dep"), ("A", "B"), ((1, 1, "conj>ref"), (0, 2, "top")), SPANS)
    known = [*GRAPHS, Document((tagged, Sentence(("c",), (0,))), "three")]
    assert len(AnnotatedSplit(Shelf(known), "train", Same()).table()) == 3


@given(documents())
def test_a_merged_document_has_the_same_words(document):
    merged = merge_sentences(document)
    assert merged.identifier == document.identifier
    (sentence,) = merged.sentences
    assert sentence.words == tuple(document.words())
    assert sentence.heads is None
    assert (sentence.tags is None) == any(part.tags is None for part in document.sentences)
