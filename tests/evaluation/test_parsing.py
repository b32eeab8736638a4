"""Trees, graphs and brackets that systems find in texts: over the words of the text, in all formats, and refusals."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from nltk import Tree

import depgen
from depgen.backbones.transformer import Transformer
from depgen.cli import main
from depgen.data.vocabulary import SubwordPieces, Vocabulary
from depgen.errors import UserError
from depgen.evaluation.parsing import SystemParser, edges_over_words
from depgen.evaluation.reading import Reading
from depgen.evaluation.system import System
from depgen.models.causal_lm import CausalLM
from depgen.models.masked_transformer import MaskedTransformer
from depgen.models.pushdown import Pushdown
from depgen.models.tg import TransformerGrammar, symbols_of
from depgen.trees.conllu import read_conllu
from depgen.trees.constituency import format_bracketing
from depgen.trees.sdp import read_sdp
from depgen.trees.sentence import Sentence
from tests.models.encoders import encoder, spread
from tests.vocabularies import documents_of

SIZES = {"layers": 2, "width": 8, "attention_heads": 2, "feedforward": 8, "dropout": 0.0, "positions": "relative"}
WORDS = ("the", "cat", "sat", "ran", "fast")


def system_of(kind, form="bare", **specials):
    """A system with random weights, over words and three labels."""
    torch.manual_seed(5)
    vocabulary = Vocabulary.of_words(WORDS, tables={"labels": ["TOP", "S", "NP"]}, **specials)
    model = spread(kind(vocabulary.size)).eval()
    return System(model, vocabulary, Path("run"), Path("run/best.ckpt"), Reading(form))


PUSHDOWN = partial(Pushdown, partial(Transformer, **SIZES))
TG = partial(TransformerGrammar, partial(Transformer, **SIZES), labels=3, beam_size=5)


# -- trees ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def masked():
    return system_of(partial(MaskedTransformer, encoder(), parses_by=(0, 1)), specials=["mask_id"])


def test_trees_are_in_the_order_of_the_texts_and_do_not_depend_on_the_batch(masked):
    texts = ["the cat ran .\nsat ran", "", "the  cat", "the xylophone ran ."]
    parses = masked.parse(texts)
    assert [[sentence.words for sentence in text] for text in parses.texts] == [
        [("the", "cat", "ran", "."), ("sat", "ran")], [], [("the", "cat")], [("the", "xylophone", "ran", ".")],
    ]  # fmt: skip
    assert parses == masked.parse(texts, batch_size=1) == masked.parse(texts, tokens_per_batch=5)
    assert masked.parse(texts[-1], progress=True).sentences == parses.sentences[-1:]
    assert (parses.read[-1], parses.unknown[-1]) == ((True, True, True, False), (False, True, False, False))
    assert parses.sentences[-1].heads[3] == 3
    frame = parses.to_frame()
    assert frame["head"].tolist() == [head for each in parses.sentences for head in each.heads]
    spelt = [texts[row.document - 1][row.start : row.end] for row in frame.itertuples()]
    assert spelt == frame["word"].tolist()


def test_an_attention_head_is_for_one_call(masked):
    text = " ".join(WORDS * 3)
    heads = [masked.parse(text, attention_head=(1, head)).sentences[0].heads for head in (0, 1)]
    assert heads[0] != heads[1]
    assert masked.model.parses_by == (0, 1)


def test_trees_become_those_of_spacy_and_conllu(masked, tmp_path):
    parses = masked.parse(["(the cat\n cat' .)", "a cat"], tokens="rules")
    first, second = parses.to_spacy()
    assert first.text == "(the cat cat' .) "
    spans = [*first.sents, *second.sents]
    assert [[token.text for token in span] for span in spans[:2]] == [["(", "the", "cat"], ["cat", "'", ".", ")"]]
    for sentence, span in zip(parses.sentences, spans, strict=True):
        heads = [0 if token.head == token else token.head.i - span.start + 1 for token in span]
        assert tuple(heads) == sentence.heads
        assert [token.dep_ for token in span] == ["ROOT" if head == 0 else "dep" for head in heads]
    path = tmp_path / "parsed.conllu"
    path.write_text(parses.to_conllu())
    assert path.read_text().startswith("# sent_id = text-1:1\n# text = (the cat\n1\t(\t")
    assert [sentence for document in read_conllu(path) for sentence in document.sentences] == [*parses.sentences]


# -- graphs -----------------------------------------------------------------------------------------------------------

TEXT = "The mother ran , quickly .\n... !\nShe ran ."


@pytest.fixture
def gilt(graph_runs):
    return depgen.load("gilt", device="cpu", form="bare")


def test_words_that_are_not_read_keep_their_place_and_have_no_arcs(gilt):
    parses, vocabulary = gilt.parse(TEXT), gilt.vocabulary
    ids = [*map(vocabulary.pieces, gilt.reading.words(Sentence(tuple(TEXT.splitlines()[0].split()))))]
    ((*expected,),) = gilt.model.parse([[each for (each,) in ids]], vocabulary=vocabulary, beam_size=20)
    places = [0, 1, 2, 3, 5]
    assert len(expected) > 2, "a graph with arcs"
    first, empty, _ = parses.sentences
    assert first.edges == tuple((places[head], places[dependent], label) for head, dependent, label in expected)
    assert (empty.words, empty.edges) == (("...", "!"), ())
    assert parses.read[:2] == ((True, True, True, False, True, False), (False, False))


@pytest.mark.slow
def test_no_graph_depends_on_the_batch_and_the_beam_counts(gilt, monkeypatch):
    texts = [TEXT, "a mother was kind"]
    parses = gilt.parse(texts)
    assert parses == gilt.parse(texts, batch_size=1)
    monkeypatch.setattr("depgen.decoding.beam.SLOTS", {"cpu": 1})
    assert parses == gilt.parse(texts)
    sizes, own = [], type(gilt.model).parse
    monkeypatch.setattr(
        type(gilt.model), "parse", lambda *a, beam_size, **k: sizes.append(beam_size) or own(*a, beam_size=1, **k)
    )
    for beam_size in (3, None):
        gilt.parse("a", beam_size=beam_size)
    assert sizes == [3, 20]


@pytest.mark.slow
def test_the_frame_and_all_formats_hold_the_same_graph(gilt, tmp_path, capsys):
    parses = gilt.parse(TEXT)
    own, frame = [sentence.edges for sentence in parses.sentences], parses.to_frame()
    assert list(frame) == [
        "document", "sentence", "position", "word", "heads", "labels", "read", "unknown", "start", "end",
    ]  # fmt: skip
    arcs = [
        (head, row.position, label)
        for row in frame[:6].itertuples()
        for head, label in zip(row.heads, row.labels, strict=True)
    ]
    assert arcs == list(own[0])
    (tmp_path / "text.txt").write_text(TEXT)
    options = ["--run", "gilt", "--form", "bare", "--device", "cpu", "--input"]
    for name in ("a.conllu", "a.sdp"):
        assert main(["parse", *options, str(tmp_path / "text.txt"), "--output", str(tmp_path / name)]) == 0
    documents = list(read_conllu(tmp_path / "a.conllu", by_document=False, graphs=True))
    assert [document.sentences[0].edges or () for document in documents] == own
    documents = list(read_sdp(tmp_path / "a.sdp"))
    tops = [tuple((head, dependent, label if head else "top") for head, dependent, label in edges) for edges in own]
    assert [document.sentences[0].edges for document in documents] == tops
    assert documents[0].sentences[0].words == ("The", "mother", "ran", ",", "quickly", ".")
    capsys.readouterr()
    assert main(["parse", *options, str(tmp_path / "a.conllu")]) == 0
    assert "1\tThe\t_\t_\t_\t_\t_\t_" in capsys.readouterr().out


def test_pieces_are_joined_to_the_words_of_the_text(graph_runs, monkeypatch):
    system, given = depgen.load("pieces", device="cpu"), []
    parses = system.parse("The mother ran , unbelievably\nmotherhood")
    for each in parses.sentences:
        assert all(0 <= head <= len(each.words) and 1 <= word <= len(each.words) for head, word, _ in each.edges)

    def parse(sentences, *, vocabulary, beam_size):
        given.extend(vocabulary.word_of_token(ids).max() for ids in sentences)
        return [((3, 1, "dep"), (1, 2, "dep"), (0, 3, "root"))]

    monkeypatch.setattr(system.model, "parse", parse)
    sentence = Sentence(("New York", "unbelievably"))  # a word with a space inside seems to be two
    (graph,) = SystemParser([system]).annotate([sentence])
    assert given == [3]
    assert graph.edges == ((2, 1, "dep"), (0, 2, "root"))


def test_edges_within_a_word_go_and_equal_ones_become_one():
    edges = [(0, 1, "root"), (0, 2, "root"), (1, 2, "dep"), (2, 1, "dep"), (1, 3, "dep"), (2, 3, "dep"), (3, 1, "dep")]
    owner, word = np.array([2, 2, 2, 5]), np.array([1, 1, 2, 3])
    assert edges_over_words(edges, word, owner) == ((0, 2, "root"), (5, 2, "dep"), (2, 5, "dep"))


# -- brackets ---------------------------------------------------------------------------------------------------------

BRACKETED = "The cat , ran ran fast .\n... !\nthe"


def test_words_that_are_not_read_begin_and_end_no_constituent(monkeypatch):
    system, sizes = system_of(PUSHDOWN), []
    ids = [system.vocabulary.pieces(word)[0] for word in ("the", "cat", "ran", "ran", "fast")]
    (spans,) = system.model.bracketings([ids], vocabulary=system.vocabulary, word_starts=[np.ones(5, bool)])
    places, ends = [0, 1, 3, 4, 5], [1, 2, 4, 5, 6]
    wide = {(places[start], ends[end - 1]) for start, end, _ in spans if end - start > 1}
    assert len(wide) == 4, "a binary tree"
    first = format_bracketing(BRACKETED.splitlines()[0].split(), frozenset(wide))
    assert system.parse(BRACKETED).to_brackets().splitlines() == [first, "... !", "the"]
    assert system.parse(BRACKETED, tokens_per_batch=1).to_brackets().splitlines()[0] == first
    own = Pushdown.best_structures
    monkeypatch.setattr(Pushdown, "best_structures", lambda *a, **k: sizes.append(k["beam_size"]) or own(*a, **k))
    for beam_size in (None, 2):
        system.parse("the cat", beam_size=beam_size)
    assert sizes == [300, 2]


def test_a_system_is_told_where_words_begin(monkeypatch):
    pieces, seen = SubwordPieces(size=258).build(documents_of("a")), []
    system = System(PUSHDOWN(pieces.size).eval(), pieces, Path("run"), Path("run/best.ckpt"), Reading("as_is"))

    def bracketings(sentences, *, word_starts, **_):
        seen.extend(each.tolist() for each in word_starts)
        return [
            [(0, len(ids), ""), (0, 1, ""), (int(sum(each)), len(ids), "")]
            for ids, each in zip(sentences, word_starts, strict=True)
        ]

    monkeypatch.setattr(system.model, "bracketings", bracketings)
    words = ["cat", "a", "sat"]
    assert system.parse(" ".join(words)).sentences[0].spans == ((0, 3, ""),), "the others cut a word"
    assert seen == [[place == 0 for word in words for place in range(len(pieces.pieces(word)))]]
    assert len(seen[0]) > 3


def test_labels_are_written_as_in_the_penn_treebank(monkeypatch):
    system, text = system_of(TG), "( The cat ran ran fast .\n... !\nthe"
    ids = [system.vocabulary.pieces(word)[0] for word in ("the", "cat", "ran", "ran", "fast")]
    (expected,) = system.model.bracketings([ids], vocabulary=system.vocabulary, word_starts=[])
    trees = [Tree.fromstring(line) for line in system.parse(text).to_brackets().splitlines()]
    assert [tree.leaves() for tree in trees] == [["-LRB-", *text.split()[1:7]], ["...", "!"], ["the"]]
    words = trees[0].leaves()
    within = [(expected[0][2], words)] + [(label, words[start + 1 : end + 1]) for start, end, label in expected[1:]]
    assert [(tree.label(), tree.leaves()) for tree in trees[0].subtrees()] == within
    wide, lone = [(0, 5, 1), (0, 2, 2), (2, 5, 0), (2, 4, 2), (4, 5, 2)], [(0, 1, 1), (0, 1, 2)]
    best = {5: symbols_of(wide, 5)[:-1], 1: symbols_of(lone, 1)[:-1]}
    monkeypatch.setattr(system.model, "best_structures", lambda sentences, **_: [best[len(each)] for each in sentences])
    assert system.parse(text).to_brackets().splitlines() == [
        "(S -LRB- (NP The cat) (TOP (NP ran ran) (NP fast)) .)",
        "(TOP ... !)",
        "(S (NP the))",
    ]


# -- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "call", "message"),
    [
        (
            "gilt",
            lambda system: system.parse("a", attention_head=(0, 0)),
            "attention_head: leave out, for GiLT gives a graph",
        ),
        ("gilt", lambda system: system.parse("a", others=[system]), "consensus of several runs: leave out"),
        ("gilt", lambda system: system.parse("a", beam_size=0), "beam_size"),
        ("gilt", lambda system: system.parse("a").to_spacy(), "spaCy holds trees, found graph"),
        ("gilt", lambda system: SystemParser([system]).annotate([Sentence(("a",)), Sentence(())]), "sentence 2"),
        ("masked", lambda system: system.parse("a", beam_size=2), "beam_size: leave out, for MaskedTransformer"),
        ("masked", lambda system: system.parse("a").to_sdp(), "sdp holds graph, found tree: take conllu"),
        ("masked", lambda system: system.parse("a", attention_head=(7, 0)), r"below \[2, 2\].*found \[7, 0\]"),
        ("pushdown", lambda system: system.parse("the").to_conllu(), "found constituency: take brackets"),
        ("causal", lambda system: system.parse("a"), "CausalLM, which does not parse.*GiLT or DTG.*Pushdown or TG"),
    ],
)
def test_what_is_refused(name, call, message, request):
    kinds = {"pushdown": PUSHDOWN, "causal": partial(CausalLM, partial(Transformer, **SIZES))}
    system = system_of(kinds[name]) if name in kinds else request.getfixturevalue(name)
    with pytest.raises(UserError, match=message):
        call(system)
