"""Plots of what systems do: the values that are drawn of attention, and trees and graphs in SVG that parses."""

import re
from dataclasses import replace
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from depgen.cli import main
from depgen.data.corpora import ConlluTreebank, SdpTreebank
from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError
from depgen.evaluation.correlations import DIRECTIONS
from depgen.evaluation.reading import Reading
from depgen.evaluation.system import System
from depgen.evaluation.trained import Trained
from depgen.models.udgn import UDGN
from depgen.reporting import system_plots
from depgen.reporting.system_plots import (
    attention_figure,
    dependency_svg,
    heat_map_figure,
    plot_trees,
    svg_of,
)
from depgen.trees.conllu import write_conllu
from depgen.trees.sentence import Document, Sentence

# -- surprisal ----------------------------------------------------------------------------------------------------


def test_bars_are_the_surprisals_of_each_sentence_by_run(monkeypatch, tmp_path, capsys):
    values = {"one": ((1.0, 2.5), (1.0, 6.0, 0.5)), "two": ((3.0, 4.0), (3.0, 4.5, 0.25))}
    sentences = ("he runs", "he run .")

    def frame(run):
        rows = [(number, word, value) for number, (text, scores) in enumerate(zip(sentences, values[run], strict=True))
                for word, value in zip(text.split(), scores, strict=True)]  # fmt: skip
        return pd.DataFrame(rows, columns=["document", "word", "surprisal"]).assign(unit="nats", likelihood="exact")

    drawn = []
    monkeypatch.setattr(system_plots, "load", lambda run, **_: SimpleNamespace(score=lambda *_, **__: frame(run)))
    monkeypatch.setattr(system_plots, "save", lambda drawing, path: drawn.append(drawing))
    command = ["plot", "surprisal", "--runs", "one", "two", "--sentences", *sentences]
    assert main([*command, "--output", str(tmp_path / "a.png")]) == 0
    for axes, (run, scores) in zip(drawn[0].axes, values.items(), strict=True):
        assert [[bar.get_height() for bar in bars] for bars in axes.containers] == [[*each] for each in scores]
        centres = [bar.get_x() + bar.get_width() / 2 for bars in axes.containers for bar in bars]
        np.testing.assert_allclose(centres, [-0.2, 0.8, 0.2, 1.2, 2.2])
        assert [tick.get_text() for tick in axes.get_xticklabels()] == ["he", "runs\nrun", "."]
        sums = [text.get_text() for text in axes.get_legend().get_texts()]
        assert sums == [f"{text} ({sum(each):.1f})" for text, each in zip(sentences, scores, strict=True)]
        assert (axes.get_title(), axes.get_ylabel()) == (f"{run} (exact)", "surprisal in nats")


# -- attention ----------------------------------------------------------------------------------------------------

WORDS = ("red", "blue", "fall")
WEIGHTS = np.array([[1.0, 0.0, 0.0], [0.25, 0.75, 0.0], [0.5, 0.125, 0.375]])


def attention_of(context):
    begins = context[0] == "BOS"
    frame = pd.DataFrame(
        {"position": row + 1, "word": word, "unknown": word == "blue", "context_position": column + (not begins),
         "context": context[column], "weight": WEIGHTS[row, column]}
        for row, word in enumerate(WORDS) for column in range(row + 1 if begins else 3)
    )  # fmt: skip
    frame.attrs["kind"] = "self"
    return frame


@pytest.mark.parametrize(
    ("context", "axis", "hidden"),
    [(("BOS", "red", "blue"), "predicted token", 3), (WORDS, "word", 0)],
)
def test_rows_are_the_predicted_tokens_and_columns_what_they_see(context, axis, hidden):
    axes, _ = attention_figure(attention_of(context)).axes
    assert axes.get_ylabel() == axis
    marked = {"blue": "blue (unk)"}
    assert [tick.get_text() for tick in axes.get_yticklabels()] == [marked.get(word, word) for word in WORDS]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == [marked.get(word, word) for word in context]
    values = axes.images[0].get_array()
    assert axes.images[0].get_clim() == (0, WEIGHTS[~values.mask].max()), "weak attention is seen too"
    assert values.mask.sum() == hidden, "nothing is drawn over tokens that come later"
    np.testing.assert_array_equal(values[~values.mask], WEIGHTS[~values.mask])


@pytest.fixture
def loaded(monkeypatch):
    """Stands in for a loaded run; the runs that were asked for, with their options."""
    runs = []

    def load(run, **options):
        runs.append((run, options))
        return SimpleNamespace(attention=lambda sentence, **options: attention_of(("BOS", "red", "blue")))

    monkeypatch.setattr(system_plots, "load", load)
    return runs


def test_unknown_words_are_marked_and_counted(loaded, tmp_path, capsys):
    path = tmp_path / "deep" / "a.svg"
    assert main(["plot", "attention", "--run", "some/run", "--output", str(path)]) == 0
    assert path.read_text().count("blue (unk)</text>") == 2
    assert "self attention over 3 predictions. 1 of its 3 tokens are unknown" in capsys.readouterr().out
    assert loaded == [("some/run", {"device": "cpu"})], "in the form of the run's corpus"


# -- attention heads and relations --------------------------------------------------------------------------------


def correlations_of(values, relations):
    """The items of `correlations`, from values over directions, relations, layers and attention heads."""
    _, _, layers, heads = values.shape
    places = pd.MultiIndex.from_product(
        [DIRECTIONS, relations, range(layers), range(heads)],
        names=["direction", "relation", "layer", "attention_head"],
    ).to_frame(index=False)
    return places.assign(edges=places["relation"].map(relations), correlation=values.ravel())


def test_cells_are_the_correlations_of_both_directions():
    values = np.random.default_rng(0).random((2, 2, 3, 4)) - 0.5
    frame = correlations_of(values, {"det": 30, "aux": 10})
    *panels, _ = heat_map_figure(frame, label="correlation").axes
    assert [panel.get_title() for panel in panels] == ["child to parent", "parent to child"]
    assert [tick.get_text() for tick in panels[0].get_yticklabels()] == ["det  30", "aux  10"]
    limit = np.abs(values).max()
    for direction, panel in enumerate(panels):
        (image,) = panel.images
        assert image.get_clim() == (-limit, limit)
        dots = panel.lines[0].get_xydata()
        for row in range(2):
            expected = values[direction, row].ravel()
            assert image.get_array()[row].tolist() == expected.tolist()
            assert dots[row].tolist() == [expected.argmax(), row]
        assert [tick.get_text() for tick in panel.get_xticklabels()] == ["0", "1", "2"]
        assert panel.get_xticks().tolist() == [1.5, 5.5, 9.5]


def test_heads_that_go_with_nothing_are_drawn_too():
    drawing = heat_map_figure(correlations_of(np.zeros((2, 1, 1, 1)), {"det": 3}), label="correlation")
    assert drawing.axes[0].images[0].get_clim() == (-1, 1)


def test_a_heat_map_is_of_a_run_and_a_treebank(tmp_path, monkeypatch, capsys):
    sentence = Sentence(("the", "cat", "saw", "it"), (2, 3, 0, 3), ("det", "nsubj", "root", "obj"))
    write_conllu([Document((sentence,), "d")], tmp_path / "en_ewt-ud-test.conllu")
    known = Vocabulary.of_words(["the", "cat", "saw"], specials=["mask_id"])
    model = UDGN(known.size, width=8, layers=2, attention_heads=2, head_size=4, parser_layers=1).eval()
    runs = []
    monkeypatch.setattr(
        system_plots, "load", lambda run, **_: runs.append(run) or Trained(model, known, tmp_path, tmp_path)
    )
    command = ["plot", "heat-map", "--corpus", "depgen.data.corpora.Ewt", "--corpus.folder", str(tmp_path)]
    path = tmp_path / "deep" / "heat.png"
    assert main([*command, "--run", "some/run", "--output", str(path)]) == 0, capsys.readouterr().err
    assert path.read_bytes().startswith(b"\x89PNG")
    text = capsys.readouterr().out
    assert "3 relations, 1 sentences of " in text
    assert text.endswith("; 25.0 % of the words are unknown to the model.\n")
    assert runs == ["some/run"]
    assert main([*command, "--output", "a.gif"]) == 2
    assert len(runs) == 1, "refused before the work"


# -- trees and graphs ---------------------------------------------------------------------------------------------

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
GRAPH = (
    (2, 1, "nsubj"), (4, 1, "nsubj"), (0, 2, "top"), (4, 2, "x"), (0, 4, "top"), (2, 4, "x"), (2, 4, "xcomp"),
    (4, 4, "loop"),
)  # fmt: skip


def write(path, sentences):
    write_conllu([Document((sentence,), f"d{number}") for number, sentence in enumerate(sentences, 1)], path)
    return path


@pytest.fixture
def files(tmp_path):
    return [write(tmp_path / "gold.conllu", GOLD), write(tmp_path / "predicted.conllu", PREDICTED)]


def texts(element, kind):
    return [part.text or "" for part in element.iter() if part.get("class") == f"displacy-{kind}"]


def captions(element):
    return [part.text for part in element if part.tag.endswith("text")]


def drawn_arcs(svg):
    """(head, dependent, label) of each arc of a displaCy picture, read off its ends and its arrowhead."""
    element = ElementTree.fromstring(svg)
    places = [float(part.get("x")) for part in element.iter() if part.get("class") == "displacy-word"]
    arcs = set()
    for arrow in (part for part in element.iter() if part.get("class") == "displacy-arrow"):
        curve, _, head = (part for part in arrow if not part.tag.endswith("textPath"))
        (label,) = texts(arrow, "label")
        numbers = [float(number) for number in re.findall(r"[\d.]+", curve.get("d"))]
        start, end = (1 + int(np.abs(np.array(places) - x).argmin()) for x in (numbers[0] - 20, numbers[-2]))
        points_at_start = float(re.match(r"M([\d.]+)", head.get("d"))[1]) == numbers[0]
        arcs.add((end, start, label) if points_at_start else (start, end, label))
    return arcs


def test_a_tree_has_its_words_its_arcs_and_its_root_under_the_word():
    heads, relations = (2, 0, 2, 5, 3), ("det", "root", "x", "y", "z")
    edges = [(head, word, label) for word, (head, label) in enumerate(zip(heads, relations, strict=True), start=1)]
    svg = dependency_svg("abcde", edges)
    assert drawn_arcs(svg) == {edge for edge in edges if edge[0]}
    element = ElementTree.fromstring(svg)
    assert texts(element, "word") == list("abcde")
    assert texts(element, "tag") == ["", "root", "", "", ""]
    long = dependency_svg(("a", "considerably", "cat"), ())
    first, second, _ = re.findall(r'displacy-word" fill="currentColor" x="(\d+)"', long)
    assert int(second) - int(first) >= 9 * len("considerably"), "words have room"


def test_a_graph_has_words_of_several_heads_self_loops_and_one_arc_marked_as_both_ways():
    svg = dependency_svg(("she", "tried", "and", "sang"), GRAPH)
    assert drawn_arcs(svg) == {(2, 1, "nsubj"), (4, 1, "nsubj"), (4, 2, "x ↔"), (2, 4, "xcomp")}
    assert texts(ElementTree.fromstring(svg), "tag") == ["", "top", "", "top, itself: loop"]
    assert drawn_arcs(dependency_svg(("a", "b"), ())) == set()


def test_pictures_lie_below_each_other():
    pictures = [("one", dependency_svg("abc", [(1, 3, "x")])), ("<two>", dependency_svg("ab", []))]
    element = ElementTree.fromstring(svg_of(pictures))
    inner = [part for part in element if part.tag.endswith("svg")]
    tops, heights = ([float(part.get(name)) for part in inner] for name in ("y", "height"))
    assert tops[1] >= tops[0] + heights[0]
    assert float(element.get("height")) == tops[1] + heights[1]
    assert float(element.get("width")) == max(float(part.get("width")) for part in inner)
    assert captions(element) == ["one", "<two>"]


def test_gold_is_drawn_above_predicted_for_every_sentence(files, tmp_path, capsys):
    path = tmp_path / "deep" / "trees.svg"
    assert main(["plot", "trees", *map(str, files), "--output", str(path)]) == 0, capsys.readouterr().err
    assert "trees of 3 sentences" in capsys.readouterr().out
    root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    assert texts(root, "word") == [*["a", "cat", "slept"] * 2, *['<b>&"', "{0}"] * 2, *["yes"] * 2]
    assert texts(root, "label") == ["det", "nsubj", "", "", "a<b&c", ""], "nothing but root and dep is no label"
    places = [f"{files[0]}, sentence {number} (d{number}-1)" for number in (1, 2, 3)]
    assert captions(root) == [f"{place}: {name}" for place in places for name in ("gold", "predicted")]


def test_a_page_holds_the_chosen_sentences_and_needs_nothing_else(files, tmp_path):
    plot_trees(files, first=2, number=1, output=tmp_path / "trees.html")
    page = (tmp_path / "trees.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert re.findall(r"sentence 2 \(d2-1\): (\w+)</text>", page) == ["gold", "predicted"]
    assert not re.findall(r"<(?:script|link|img|iframe)|url\(|@import", page)
    assert texts(ElementTree.fromstring(re.search(r"<svg.*</svg>", page, re.DOTALL)[0]), "word") == ['<b>&"', "{0}"] * 2


@pytest.fixture
def run(monkeypatch):
    """Stands in for a run that makes chains to the right; in which form it read, and by which options."""
    asked = []

    def annotate(sentences):
        return [sentence.with_heads([*range(2, len(sentence) + 1), 0]) for sentence in sentences]

    def parser(systems, **options):
        (system,) = systems
        asked.append((system.reading.form, *options.values()))
        return SimpleNamespace(annotate=annotate, structure="tree")

    monkeypatch.setattr(system_plots, "load", lambda run: System(None, None, run, None, Reading()))
    monkeypatch.setattr(system_plots, "SystemParser", parser)
    monkeypatch.setattr(system_plots, "warn_of_another_form", lambda *given: asked.append(given))
    return asked


@pytest.mark.parametrize("of_corpus", [False, True])
def test_a_runs_trees_stand_below_a_files_and_a_treebanks(files, tmp_path, run, of_corpus):
    corpus = ConlluTreebank(str(tmp_path), test=["gold.conllu"], name="Invented")
    source = {"corpus": corpus} if of_corpus else {"files": files[:1]}
    text = plot_trees(**source, run="some/run", number=2, output=tmp_path / "a.svg")
    root = ElementTree.fromstring((tmp_path / "a.svg").read_text(encoding="utf-8"))
    assert [caption.split(": ")[-1] for caption in captions(root)] == ["gold", "induced"] * 2
    assert drawn_arcs(ElementTree.tostring(root[3], encoding="unicode")) == {(2, 1, ""), (3, 2, "")}
    assert text.endswith(f"trees of 2 sentences of {'Invented, test' if of_corpus else files[0]}.")
    assert run == [(None, None)]


def test_text_without_trees_shows_the_runs_alone_and_text_in_a_form_is_read_as_it_is(tmp_path, run):
    documents = [Document((Sentence(("a", "N")),), "raw")]
    corpus = SimpleNamespace(
        name="Raw", published={}, fingerprint=str, form="ptb", documents=lambda split: iter(documents)
    )
    plot_trees(corpus=corpus, run="some/run", output=tmp_path / "a.svg", attention_head=(1, 2))
    root = ElementTree.fromstring((tmp_path / "a.svg").read_text(encoding="utf-8"))
    assert captions(root) == ["Raw, test, sentence 1 (raw): induced"]
    assert run == [(None, corpus), ("as_is", (1, 2))]


def test_graphs_of_files_and_corpora(tmp_path):
    (tmp_path / "a.sdp").write_text("#20000281\n1\tShe\tshe\tPRP\t-\t-\tARG1\n2\tran\trun\tVBD\t+\t+\t_\n\n")
    corpus = SdpTreebank(str(tmp_path), test="a.sdp")
    sources = ({"files": [tmp_path / "a.sdp"]}, {"corpus": corpus, "structure": "graph"})
    for number, source in enumerate(sources):
        path = tmp_path / f"{number}.svg"
        assert "graphs of 1 sentences" in plot_trees(**source, output=path)
        root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
        assert (texts(root, "label"), texts(root, "tag")) == (["ARG1"], ["", "top"])
    with pytest.raises(UserError, match=r"sentence 1 \(20000281\): expected heads, found none"):
        plot_trees(corpus=corpus, output=tmp_path / "a.svg")


@pytest.mark.parametrize(
    ("sentences", "first", "message"),
    [
        ([GOLD[0], PREDICTED[2]], 1, r"sentence 2 \(d2-1\): expected its words in .*predicted.* found 'yes'"),
        (PREDICTED[:2], 1, r"sentence 3 .*predicted\.conllu has no such sentence"),
        ([Sentence(GOLD[0].words), *PREDICTED[1:]], 1, r"sentence 1 .*: predicted: expected heads, found none"),
    ],
)
def test_files_of_other_sentences_or_without_trees_are_refused(files, tmp_path, sentences, first, message):
    write(files[1], sentences)
    with pytest.raises(UserError, match=message):
        plot_trees(files, first=first, output=tmp_path / "a.svg")
    assert not (tmp_path / "a.svg").exists()


def test_cycles_and_missing_graphs_are_refused(files, tmp_path):
    cyclic = Document((Sentence(("a", "b", "c"), (2, 1, 0)),), "d")
    corpus = SimpleNamespace(name="Odd", published={}, fingerprint=str, documents=lambda split: iter([cyclic]))
    with pytest.raises(UserError, match=r"Odd, test, sentence 1 \(d\): tokens 1 \(a\) .* in a cycle"):
        plot_trees(corpus=corpus)
    graphs = write(tmp_path / "g.conllu", [replace(GOLD[0], edges=((2, 1, "x"),))])
    with pytest.raises(UserError, match=r"sentence 1 .*: predicted: expected a graph, found none"):
        plot_trees([graphs, files[0]], structure="graph", number=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "Name one file of gold trees, --corpus"),
        (["gold.conllu", "predicted.conllu", "--run", "r"], "a second file or --run"),
        (["gold.conllu", "--output", "a.pdf"], r"ends in .html or .svg, found a.pdf"),
        (["gold.conllu", "--first", "4"], "gold.conllu: there is no sentence 4"),
        (["--sentence", "a cat"], "with --run"),
    ],
)
def test_wrong_options_are_refused(files, tmp_path, monkeypatch, capsys, options, message):
    monkeypatch.chdir(tmp_path)
    assert main(["plot", "trees", *options]) == 2
    assert re.search(message, capsys.readouterr().err)
