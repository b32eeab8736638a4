"""Graphs that a trained GiLT finds in texts: over words of the text, in all formats, and what is refused."""

import numpy as np
import pytest

import depgen
from depgen.cli import main
from depgen.errors import UserError
from depgen.evaluation.trees.attachment import AttachmentOptions, attachment_of_files
from depgen.evaluation.trees.graph_parser import GraphParser, edges_over_words
from depgen.trees.conllu import read_conllu
from depgen.trees.sdp import read_sdp
from depgen.trees.sentence import Sentence

TEXT = "The mother ran , quickly .\n... !\nShe ran ."


@pytest.fixture
def system(graph_runs):
    return depgen.load("gilt", device="cpu", form="bare")


def test_words_that_are_not_read_keep_their_place_and_have_no_arcs(system):
    first, empty, _ = system.parse([TEXT]).sentences
    vocabulary = system.vocabulary
    ids = [*map(vocabulary.pieces, system.reading.words(Sentence(tuple(TEXT.splitlines()[0].split()))))]
    ((*expected,),) = system.model.parse([[each for (each,) in ids]], vocabulary=vocabulary, beam_size=20)
    places = [0, 1, 2, 3, 5]
    assert len(expected) > 2, "a graph with arcs"
    assert first.edges == tuple((places[head], places[dependent], label) for head, dependent, label in expected)
    assert first.read == (True, True, True, False, True, False)
    assert (empty.words, empty.edges, empty.read) == (("...", "!"), (), (False, False))
    with pytest.raises(UserError, match=r"text-1:1: .*a graph"):
        first.heads  # noqa: B018


@pytest.mark.slow
def test_no_graph_depends_on_the_batch_and_the_beam_counts(system, monkeypatch):
    parsed = system.parse([TEXT, "a mother was kind"])
    assert parsed == system.parse([TEXT, "a mother was kind"], batch_size=1)
    monkeypatch.setattr("depgen.decoding.beam.SLOTS", {"cpu": 1})
    assert parsed == system.parse([TEXT, "a mother was kind"])
    sizes = []
    own = type(system.model).parse
    monkeypatch.setattr(
        type(system.model), "parse", lambda *a, beam_size, **k: sizes.append(beam_size) or own(*a, beam_size=1, **k)
    )
    system.parse(["a"], beam_size=3)
    system.parse(["a"])
    assert sizes == [3, 20]


@pytest.mark.slow
def test_rows_and_formats_hold_the_same_graph(system, graph_runs, tmp_path, capsys):
    parsed = system.parse([TEXT])
    own = [sentence.edges for sentence in parsed.sentences]
    rows = parsed.rows()
    assert list(rows[0]) == [
        "document", "sentence", "position", "word", "heads", "labels", "read", "unknown", "start", "end",
    ]  # fmt: skip
    assert [
        (head, row["position"], label)
        for row in rows[:6]
        for head, label in zip(row["heads"], row["labels"], strict=True)
    ] == list(own[0])
    assert len(parsed.to_frame()) == 11
    (tmp_path / "text.txt").write_text(TEXT)
    options = ["--run", "gilt", "--input", str(tmp_path / "text.txt"), "--form", "bare", "--device", "cpu"]
    for name, more in {"a.conllu": (), "a.sdp": ("--format", "sdp")}.items():
        assert main(["parse", *options, *more, "--output", str(tmp_path / name)]) == 0
    documents = list(read_conllu(tmp_path / "a.conllu", by_document=False, graphs=True))
    assert [document.sentences[0].edges or () for document in documents] == own
    tops = [tuple((head, dependent, label if head else "top") for head, dependent, label in edges) for edges in own]
    documents = list(read_sdp(tmp_path / "a.sdp"))
    assert [document.sentences[0].edges for document in documents] == tops
    assert documents[0].sentences[0].words == ("The", "mother", "ran", ",", "quickly", ".")
    options_of_files = AttachmentOptions(tmp_path / "a.sdp", tmp_path / "a.conllu")
    edges = sum(map(len, own))
    assert attachment_of_files(options_of_files).rows.iloc[-1].tolist()[2:] == [edges, edges] + 6 * [100]
    again = ["parse", "--run", "gilt", "--input", str(tmp_path / "a.conllu"), "--form", "bare", "--device", "cpu"]
    assert main(again) == 0
    assert "1\tThe\t_\t_\t_\t_\t_\t_" in capsys.readouterr().out


def test_pieces_are_joined_to_the_words_of_the_text(graph_runs, monkeypatch):
    system, given = depgen.load("pieces", device="cpu"), []

    def parse(sentences, *, vocabulary, beam_size):
        given.extend(vocabulary.word_of_token(ids).max() for ids in sentences)
        return [((3, 1, "dep"), (1, 2, "dep"), (0, 3, "root"))]

    monkeypatch.setattr(system.model, "parse", parse)
    sentence = Sentence(("New York", "unbelievably"))  # a word with a space inside seems to be two
    (found,) = GraphParser(system).annotate([sentence])
    assert given == [3]
    assert found.edges == ((2, 1, "dep"), (0, 2, "root"))


def test_an_untouched_piece_run_parses(graph_runs):
    (sentence, one) = depgen.load("pieces", device="cpu").parse(["The mother ran , unbelievably\nmotherhood"]).sentences
    for each in (sentence, one):
        assert all(0 <= head <= len(each.words) and 1 <= word <= len(each.words) for head, word, _ in each.edges)


def test_edges_within_a_word_go_and_equal_ones_become_one():
    edges = [(0, 1, "root"), (0, 2, "root"), (1, 2, "dep"), (2, 1, "dep"), (1, 3, "dep"), (2, 3, "dep"), (3, 1, "dep")]
    owner, word = np.array([2, 2, 2, 5]), np.array([1, 1, 2, 3])
    assert edges_over_words(edges, word, owner) == ((0, 2, "root"), (5, 2, "dep"), (2, 5, "dep"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decoding": "argmax"}, "GiLT gives graphs: leave"),
        ({"attention_head": (0, 0)}, "GiLT gives graphs: leave"),
        ({"beam_size": 0}, "beam_size"),
    ],
)
def test_what_is_of_trees_is_refused(system, options, message):
    with pytest.raises(UserError, match=message):
        system.parse(["a"], **options)


@pytest.mark.slow
def test_what_is_of_graphs_is_refused_of_trees(system, parsing_run, tmp_path, capsys):
    trees = depgen.load(parsing_run, device="cpu", form="bare")
    with pytest.raises(UserError, match=r"UDGN gives trees: leave"):
        trees.parse(["a"], beam_size=2)
    with pytest.raises(UserError, match="SDP holds graphs"):
        trees.parse(["a"]).to_sdp()
    for method in ("to_spacy", "to_nltk"):
        with pytest.raises(UserError, match="expected a tree"):
            getattr(system.parse(["a"]), method)()
    (tmp_path / "a.txt").write_text("a\n")
    run = str(system.run)
    corpus = ["--corpus", "depgen.data.generated.GeneratedLanguage"]
    assert main(["evaluate", "parsing", "--run", run, *corpus]) == 2
    message = capsys.readouterr().err
    assert "GiLT, which gives graphs" in message
    assert "run of GiLT" not in message, "a run of GiLT has been given"


def test_a_sentence_without_words_is_refused(system):
    with pytest.raises(UserError, match="sentence 2"):
        GraphParser(system).annotate([Sentence(("a",)), Sentence(())])


def test_graphs_have_no_consensus(system):
    with pytest.raises(UserError, match="GiLT gives graphs: name one run"):
        system.parse([TEXT], others=[system])
