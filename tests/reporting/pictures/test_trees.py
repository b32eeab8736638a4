"""Pictures of trees: what stands where, in XML that parses."""

import re
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from depgen.cli import main
from depgen.data.corpora import ConlluTreebank, SdpTreebank
from depgen.errors import UserError
from depgen.evaluation.reading import Reading
from depgen.evaluation.system import System
from depgen.reporting.pictures import trees
from depgen.reporting.pictures.arc_picture import arc_picture, edges_of, word_places
from depgen.reporting.pictures.drawing import PAGE, svg_of, text_width
from depgen.reporting.pictures.trees import draw_trees
from depgen.trees.conllu import write_conllu
from depgen.trees.sentence import Document, Sentence

SVG = "{http://www.w3.org/2000/svg}"
GOLD = [
    Sentence(("a", "cat", "slept"), (2, 3, 0), ("det", "nsubj", "root")),
    Sentence(('<b>&"', "{0}"), (0, 1), ("root", "a<b&c")),
    Sentence(("yes",), (0,), ("root",)),
]
PREDICTED = [
    Sentence(("a", "cat", "slept"), (2, 0, 2), ("dep", "root", "dep")),
    Sentence(('<b>&"', "{0}"), (2, 0), ("dep", "root")),
    Sentence(("yes",), (0,), ("root",)),
]


def write(path, sentences):
    write_conllu([Document((sentence,), f"d{number}") for number, sentence in enumerate(sentences, 1)], path)
    return path


@pytest.fixture
def files(tmp_path):
    return [write(tmp_path / "gold.conllu", GOLD), write(tmp_path / "predicted.conllu", PREDICTED)]


def texts(element, kind):
    return [each.text or "" for each in element.iter() if each.get("class") == kind]


def picture_of(sentence, gold=None, left_out=()):
    """The places of the words, the drawing, and the drawing as XML."""
    edges = edges_of(sentence)
    places = word_places(sentence.words, edges)
    gold = None if gold is None else edges_of(gold)
    picture = arc_picture(sentence.words, edges, places=places, gold=gold, left_out=left_out)
    return places, picture, ElementTree.fromstring(svg_of(picture))


def drawn_arcs(svg, places):
    """(head, dependent) of each arc, read off its ends and its arrowhead, its colour, and whether it is dashed."""
    arcs = {}
    kinds = ([each for each in svg.iter(f"{SVG}path") if each.get("class") == kind] for kind in ("arc", "arrowhead"))
    for arc, head in zip(*kinds, strict=True):
        ends = [float(re.match(r"[\d.]+", part)[0]) for part in (arc.get("d")[1:], arc.get("d").split()[-1])]
        start, end = (
            1 + min(range(len(places.middles)), key=lambda place, x=x: abs(places.middles[place] - x)) for x in ends
        )
        points_at_start = float(head.get("d")[1:].split(",")[0]) == ends[0]
        arcs[(end, start) if points_at_start else (start, end)] = (
            arc.get("stroke"),
            arc.get("stroke-dasharray") is not None,
        )
    return arcs


def test_a_picture_has_the_words_the_labels_and_the_arcs():
    sentence = Sentence(tuple("abcde"), (2, 0, 2, 5, 3), ("det", "root", "x", "y", "z"))
    places, _, element = picture_of(sentence)
    assert texts(element, "word") == list("abcde")
    assert texts(element, "root") == ["root"]
    assert sorted(texts(element, "label")) == ["det", "x", "y", "z"]
    assert drawn_arcs(element, places).keys() == {(2, 1), (2, 3), (5, 4), (3, 5)}


def test_right_and_wrong_arcs_have_two_colours_and_punctuation_a_third():
    gold = Sentence(tuple("abc."), (2, 0, 2, 2))
    other = replace(gold, heads=(3, 0, 2, 3))
    places, _, element = picture_of(other, gold=gold, left_out=(False, False, False, True))
    arcs = drawn_arcs(element, places)
    assert (arcs[3, 1], arcs[2, 3]) == (("#c62828", True), ("#1565a8", False))
    assert arcs[3, 4] not in (arcs[3, 1], arcs[2, 3])
    assert not arcs[3, 4][1]
    (root,) = (each for each in element.iter() if each.get("class") == "root")
    assert root.get("fill") == "#1565a8"
    _, _, element = picture_of(replace(gold, heads=(0, 1, 1, 1)), gold=gold)
    assert next(each for each in element.iter() if each.get("class") == "root").get("fill") == "#c62828"
    places, _, element = picture_of(other)
    assert set(drawn_arcs(element, places).values()) == {("#000000", False)}


@pytest.mark.parametrize(("rule", "caption", "colours"), [
    (None, "predicted: 1 of 2 heads right, without punctuation (by relation)", 3),
    ("form", "predicted: 2 of 3 heads right, without punctuation (by form)", 4),
])  # fmt: skip
def test_punctuation_is_told_by_the_rule_that_the_caption_names(tmp_path, rule, caption, colours):
    words = ("a", "cat", "'", "$")
    gold = write(tmp_path / "gold.conllu", [Sentence(words, (2, 0, 2, 2), ("det", "root", "punct", "punct"))])
    other = write(tmp_path / "other.conllu", [Sentence(words, (4, 0, 1, 2), ("dep", "root", "dep", "dep"))])
    options = [] if rule is None else ["--punctuation", rule]
    assert main(["draw", str(gold), str(other), *options, "--output", str(tmp_path / "a.svg")]) == 0
    root = ElementTree.fromstring((tmp_path / "a.svg").read_text(encoding="utf-8"))
    assert caption in texts(root, "caption")
    strokes = [each.get("stroke") for each in root.iter(f"{SVG}path") if each.get("class") == "arc"]
    assert len(set(strokes)) == colours


def test_without_gold_relations_punctuation_is_told_by_its_form(tmp_path):
    words = ("it", "slept", ".")
    gold = write(tmp_path / "gold.conllu", [Sentence(words, (2, 0, 2))])
    other = write(tmp_path / "other.conllu", [Sentence(words, (2, 0, 1))])
    draw_trees([gold, other], output=tmp_path / "a.svg")
    caption = "predicted: 2 of 2 heads right, without punctuation (by form)"
    assert caption in texts(ElementTree.fromstring((tmp_path / "a.svg").read_text(encoding="utf-8")), "caption")
    with pytest.raises(UserError, match="punctuation: form"):
        draw_trees([gold, other], punctuation="relation", output=tmp_path / "a.svg")


def test_long_sentences_fit_a_page(tmp_path):
    words = tuple(f"somewhat-longer{number}" for number in range(60))
    gold = write(tmp_path / "gold.conllu", [Sentence(words, (0, *range(1, 60))), Sentence(("yes",), (0,))])
    for name in ("a.svg", "a.html"):
        draw_trees([gold], output=tmp_path / name)
        (width, *_) = re.findall(r'<svg [^>]*width="([\d.]+)"', (tmp_path / name).read_text(encoding="utf-8"))
        assert float(width) == PAGE
    root = ElementTree.fromstring((tmp_path / "a.svg").read_text(encoding="utf-8"))
    *long, short = (each for each in root.iter(f"{SVG}text") if each.get("class") == "word")
    assert [each.text for each in long] == list(words)
    assert 0.9 * PAGE < float(long[-1].get("x")) < PAGE
    assert float(long[0].get("font-size")) < 16 == float(short.get("font-size")), "the short sentence is not scaled"


def test_words_take_the_room_of_their_letters_and_labels():
    words = ("a", "considerably", "cat", "of", "it")
    tree = edges_of(Sentence(words, (2, 0, 2, 3, 4)))
    bare = word_places(words, tree)
    gaps = [right - left for left, right in pairwise(bare.middles)]
    assert max(gaps) < 80
    assert min(gaps) == gaps[-1] == 34
    assert bare.middles[1] - bare.middles[0] > text_width("considerably", size=16) / 2
    assert text_width("illicit", size=16) < text_width("mammoth", size=16) / 2
    relations = ("det", "root", "nsubj:outer", "x", "y")
    labelled = word_places(words, tree + edges_of(Sentence(words, (2, 0, 2, 3, 4), relations)))
    assert labelled.middles[2] - labelled.middles[1] > text_width("nsubj:outer", size=12)
    assert labelled.middles[1] == bare.middles[1]


def test_arcs_of_a_deep_tree_end_at_their_words():
    heads = (30, *range(1, 29), 0)  # a chain under an arc over all, and below it one arc more a level
    star = (0, *[1] * 29)
    for each in (heads, star, tuple(reversed([0, *range(30, 1, -1)]))):
        places, _, element = picture_of(Sentence(tuple(f"w{number}" for number in range(30)), each))
        assert drawn_arcs(element, places).keys() == {(head, word) for word, head in enumerate(each, 1) if head}


def test_nothing_is_cut_off_above_or_below():
    _, picture, _ = picture_of(Sentence(tuple("abcdef"), (6, 1, 2, 3, 4, 0), ("l",) * 6))
    svg = svg_of(picture)
    curves = [float(y) for d in re.findall(r' d="M[^"]*"', svg) for y in re.findall(r",(-?[\d.]+)", d)]
    words = [float(y) for y in re.findall(r'class="word" x="[\d.]+" y="([\d.]+)"', svg)]
    assert min(curves) >= 16
    assert max(curves) < max(words) < picture.height - 32


def test_an_svg_holds_gold_above_predicted_for_every_sentence(files, tmp_path, capsys):
    path = tmp_path / "deep" / "trees.svg"
    assert main(["draw", *map(str, files), "--output", str(path)]) == 0, capsys.readouterr().err
    assert "trees of 3 sentences" in capsys.readouterr().out
    root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    assert texts(root, "word") == [*["a", "cat", "slept"] * 2, *['<b>&"', "{0}"] * 2, *["yes"] * 2]
    assert texts(root, "label") == ["det", "nsubj", "a<b&c"]
    captions = texts(root, "caption")
    assert [each for each in captions if each.startswith(("gold", "pred"))] == [
        "gold", "predicted: 1 of 3 heads right",
        "gold", "predicted: 0 of 2 heads right",
        "gold", "predicted: 1 of 1 heads right",
    ]  # fmt: skip
    assert f"{files[0]}, sentence 2 (d2-1)" in captions


def test_a_page_needs_nothing_else(files, tmp_path):
    path = tmp_path / "trees.html"
    draw_trees(files, first=2, number=1, output=path)
    page = path.read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert page.count("<figure>") == 1
    assert "sentence 2 (d2-1)" in page
    assert '<b>&"' not in page
    assert not re.findall(r"<(?:script|link|img|iframe)|url\(|@import", page)
    assert set(re.findall(r'https?://[^"]*', page)) == {"http://www.w3.org/2000/svg"}
    (picture,) = re.findall(r"<figure>.*?(<svg.*</svg>)\n</figure>", page, flags=re.DOTALL)
    assert texts(ElementTree.fromstring(picture), "word") == ['<b>&"', "{0}"] * 2


def test_the_same_trees_make_the_same_file(files, tmp_path):
    for name in ("a.svg", "b.svg"):
        draw_trees(files, output=tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_one_file_is_drawn_alone(files, tmp_path):
    draw_trees(files[:1], output=tmp_path / "a.svg")
    content = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert texts(ElementTree.fromstring(content), "word") == ["a", "cat", "slept", '<b>&"', "{0}", "yes"]
    assert ">gold<" not in content


# -- a run ----------------------------------------------------------------------------------------------------------


class RightChain:
    """Stands in for the parser of a run."""

    def annotate(self, sentences):
        return [
            Sentence(each.words, (*range(2, len(each) + 1), 0), (*["dep"] * (len(each) - 1), "root"))
            for each in sentences
        ]


forms, parsers, compared = [], [], []


@pytest.fixture
def run(monkeypatch):
    for each in (forms, parsers, compared):
        each.clear()

    def load(run, *, form):
        return System(None, None, run, None, Reading(form))

    monkeypatch.setattr(trees, "load", load)

    def parser(system, *, attention_head, beam_size):
        forms.append(system.reading.form)
        parsers.append((attention_head, beam_size))
        return RightChain()

    monkeypatch.setattr(trees, "parser_of_system", parser)
    monkeypatch.setattr(trees, "warn_of_another_form", lambda *given: compared.append(given))
    return "some/run"


def test_a_runs_trees_stand_below_a_files_and_a_treebanks(files, tmp_path, run):
    for name, source in {
        "file": {"files": files[:1]},
        "corpus": {"corpus": ConlluTreebank(str(tmp_path), test=["gold.conllu"], name="Invented")},
    }.items():
        text = draw_trees(**source, run=run, number=2, output=tmp_path / f"{name}.svg")
        root = ElementTree.fromstring((tmp_path / f"{name}.svg").read_text(encoding="utf-8"))
        captions = texts(root, "caption")
        assert "induced: 3 of 3 heads right" in captions
        assert "induced: 0 of 2 heads right" in captions
        assert len(texts(root, "word")) == 10
    assert text.endswith("trees of 2 sentences of Invented, test.")
    assert forms == [None, None]
    assert not compared


def test_text_without_trees_shows_the_runs_alone_and_text_in_a_form_is_read_as_it_is(tmp_path, run):
    documents = [Document((Sentence(("a", "N")),), "raw")]
    corpus = SimpleNamespace(
        name="Raw", published={}, fingerprint=str, form="ptb", documents=lambda split: iter(documents)
    )
    draw_trees(corpus=corpus, run=run, output=tmp_path / "a.svg", attention_head=(1, 2), beam_size=3)
    content = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert texts(ElementTree.fromstring(content), "word") == ["a", "N"]
    assert ">induced<" in content
    assert (forms, parsers) == (["as_is"], [((1, 2), 3)])
    assert compared == [(None, corpus)]


# -- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        ([GOLD[0], PREDICTED[2]], r"sentence 2 \(d2-1\): expected word 1 to be '<b>&\"', found 'yes', as in .*gold"),
        ([Sentence(("a", "cat"), (2, 0), ("x", "y"))], "sentence 1 .*: expected 3 words, found 2"),
        (PREDICTED[:2], r"predicted\.conllu has 2 sentences, but .*gold\.conllu has more"),
        ([*PREDICTED, GOLD[0]], r"gold\.conllu has 3 sentences, but .*predicted\.conllu has more"),
        ([Sentence(GOLD[0].words), *PREDICTED[1:]], r"sentence 1 .*: expected heads \(predicted.*\), found none"),
    ],
)
def test_files_of_other_sentences_or_without_trees_are_refused(files, tmp_path, sentences, message):
    write(files[1], sentences)
    with pytest.raises(UserError, match=message):
        draw_trees(files, output=tmp_path / "a.svg")
    assert not (tmp_path / "a.svg").exists()


def test_sentences_that_are_not_drawn_count_too(files, tmp_path):
    write(files[1], [PREDICTED[2], *PREDICTED[1:]])
    with pytest.raises(UserError, match=r"sentence 1 .*found 'yes'"):
        draw_trees(files, first=3, output=tmp_path / "a.svg")


def test_a_cycle_is_refused_by_its_line(files, tmp_path):
    files[0].write_text(
        "1\ta\t_\t_\t_\t_\t2\tx\t_\t_\n2\tb\t_\t_\t_\t_\t1\ty\t_\t_\n3\tc\t_\t_\t_\t_\t0\troot\t_\t_\n\n"
    )
    with pytest.raises(UserError, match=r"gold\.conllu:1: .*1 \(a\) -> 2 \(b\) -> 1 \(a\)"):
        draw_trees(files[:1], output=tmp_path / "a.svg")
    cyclic = Document((Sentence(("a", "b", "c"), (2, 1, 0)),), "d")
    corpus = SimpleNamespace(name="Odd", published={}, fingerprint=str, documents=lambda split: iter([cyclic]))
    with pytest.raises(UserError, match=r"Odd, test, sentence 1 \(d\): tokens 1 \(a\) .* in a cycle"):
        draw_trees(corpus=corpus, output=tmp_path / "a.svg")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "Name one file of gold trees, --corpus"),
        (["gold.conllu", "predicted.conllu", "--run", "r"], "a second file or --run"),
        (["gold.conllu", "gold.conllu", "gold.conllu"], "Name one file"),
        (["gold.conllu", "--output", "a.jpg"], r"ends in .html, .svg, .png or .pdf, found a.jpg"),
        (["gold.conllu", "--first", "4"], "gold.conllu: there is no sentence 4"),
        (["gold.conllu", "-n", "0"], "expected 1 or more, found 1 and 0"),
        (["nowhere.conllu"], "nowhere.conllu"),
    ],
)
def test_wrong_options_are_refused(files, tmp_path, monkeypatch, capsys, options, message):
    monkeypatch.chdir(tmp_path)
    assert main(["draw", *options]) == 2
    error = capsys.readouterr().err
    assert re.search(message, error)
    assert len(error.splitlines()) < 6


# -- graphs ---------------------------------------------------------------------------------------------------------

WORDS = ("she", "tried", "and", "sang", ".")
GRAPH = (
    (2, 1, "nsubj"), (4, 1, "nsubj"), (0, 2, "top"), (4, 2, "back"), (0, 4, "top"), (2, 4, "conj"), (2, 4, "xcomp"),
)  # fmt: skip
LOOP = (4, 4, "loop")


def test_a_graph_has_words_of_several_heads_and_of_none():
    places = word_places(WORDS, (*GRAPH, LOOP))
    picture = arc_picture(WORDS, (*GRAPH, LOOP), places=places)
    svg = svg_of(picture)
    element = ElementTree.fromstring(svg)
    assert drawn_arcs(element, places).keys() == {(2, 1), (4, 1), (4, 2), (2, 4)}
    assert sorted(texts(element, "label")) == ["back", "conj", "nsubj", "nsubj", "xcomp"]
    assert (texts(element, "root"), texts(element, "itself")) == (["top", "top"], ["itself: loop"])
    legs = [leg for d in re.findall(r'class="arc" d="M([^"]*)"', svg) for leg in (d.split()[0], d.split()[-1])]
    assert len({*legs}) == len(legs) == 10
    bottom = max(float(y) for y in re.findall(r'class="(?:root|itself)" x="[\d.]+" y="([\d.]+)"', svg))
    assert bottom < picture.height
    assert svg_of(arc_picture(("a", "b"), (), places=word_places(("a", "b"), ()))).count("<path") == 0


def graph_files(folder):
    other = (*GRAPH[:2], (4, 3, "cc"), *GRAPH[5:6], (4, 5, "punct"))
    trees = {"heads": (2, 0, 4, 2, 2), "relations": ("nsubj", "root", "cc", "conj", "punct")}
    return [
        write(folder / f"{k}.conllu", [Sentence(WORDS, **trees, edges=edges)]) for k, edges in enumerate((GRAPH, other))
    ]


def test_a_graph_is_compared_with_the_gold_one(tmp_path, capsys):
    paths = graph_files(tmp_path)
    path = tmp_path / "a.svg"
    assert main(["draw", *map(str, paths), "--structure", "graph", "--output", str(path)]) == 0, capsys.readouterr().err
    assert "graphs of 1 sentences" in capsys.readouterr().out
    root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    assert "predicted: 3 of 4 edges right, 6 are gold, without punctuation (by relation)" in texts(root, "caption")
    strokes = [each.get("stroke") for each in root.iter(f"{SVG}path") if each.get("class") == "arc"]
    assert sorted(strokes[5:]) == ["#1565a8", "#1565a8", "#1565a8", "#9a9a9a", "#c62828"]


def test_graphs_of_sdp_are_drawn_without_being_named(tmp_path):
    path = tmp_path / "a.sdp"
    path.write_text("#20000281\n1\tShe\tshe\tPRP\t-\t-\tARG1\n2\tran\trun\tVBD\t+\t+\t_\n\n")
    assert "graphs of 1 sentences" in draw_trees([path], output=tmp_path / "graph.svg")
    assert "ARG1" in (tmp_path / "graph.svg").read_text()


def test_the_graphs_of_a_corpus_are_drawn(tmp_path):
    (tmp_path / "a.sdp").write_text("#1\nAda\n".replace("Ada", "1\tAda\t_\tNNP\t+\t-") + "\n", encoding="utf-8")
    corpus = SdpTreebank(str(tmp_path), test="a.sdp")
    draw_trees(corpus=corpus, structure="graph", output=tmp_path / "a.svg")
    assert texts(ElementTree.fromstring((tmp_path / "a.svg").read_text(encoding="utf-8")), "root") == ["top"]
    with pytest.raises(UserError, match=r"sentence 1 \(1\): expected heads, found none"):
        draw_trees(corpus=corpus, output=tmp_path / "a.svg")


def test_a_graph_that_is_not_there_is_refused(files, tmp_path, run):
    with pytest.raises(UserError, match=r"sentence 1 .*: expected a graph \(predicted\), found none"):
        draw_trees(
            [write(tmp_path / "g.conllu", [replace(GOLD[0], edges=((2, 1, "x"),))]), files[0]],
            structure="graph",
            number=1,
        )
    with pytest.raises(UserError, match=r"structure: graph.* leave it out"):
        draw_trees(files[:1], structure="graph", run=run)
