"""Pictures in each format: the ending decides, text stays text, and the data do not change."""

import re
from pathlib import Path

import numpy as np
import pytest

from depgen.cli import main
from depgen.errors import UserError
from depgen.reporting.pictures.drawing import figure_of, svg_of
from depgen.reporting.pictures.plotting import ENDINGS, check_picture, figure, save
from depgen.reporting.pictures.trees import stacked
from depgen.trees.conllu import write_conllu
from depgen.trees.sentence import Document, Sentence

BEGINNINGS = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml"}
SENTENCE = Sentence(("a", "cat", "slept"), (2, 3, 0), ("det", "nsubj", "root"))
INDUCED = Sentence(("a", "cat", "slept"), (3, 3, 0), ("dep", "dep", "root"))


def drawn():
    picture = figure(3.0, 2.0)
    picture.add_subplot().plot([1, 2, 3], [4.0, 1.0, 2.5], label="a line")
    picture.axes[0].set_title("words over it")
    return picture


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_ending_decides_and_the_figure_stays_as_it_is(tmp_path, ending):
    picture = drawn()
    save(picture, tmp_path / "deep" / f"a{ending.upper()}")
    assert (tmp_path / "deep" / f"a{ending.upper()}").read_bytes().startswith(BEGINNINGS[ending])
    save(picture, tmp_path / "b.png")
    save(drawn(), tmp_path / "c.png")
    assert (tmp_path / "b.png").read_bytes() == (tmp_path / "c.png").read_bytes()
    np.testing.assert_array_equal(picture.axes[0].lines[0].get_xydata(), [[1, 4.0], [2, 1.0], [3, 2.5]])


def test_an_svg_holds_text_and_the_points_of_the_line(tmp_path):
    save(drawn(), tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    assert "words over it</text>" in text
    line = re.search(r'id="line2d_\d+">\s*<path d="([^"]+)" clip-path', text)[1]
    (x1, y1), (x2, y2), (x3, y3) = (map(float, pair) for pair in re.findall(r"[ML] ([\d.]+) ([\d.]+)", line))
    assert (x2 - x1) == pytest.approx(x3 - x2, rel=1e-3)
    assert (y2 - y1) / (y2 - y3) == pytest.approx(3.0 / 1.5, rel=1e-3)


def test_other_endings_are_refused():
    with pytest.raises(UserError, match=r"ends in \.png, \.pdf or \.svg, found a\.jpg"):
        check_picture(Path("a.jpg"))


@pytest.fixture
def trees(tmp_path):
    for name, sentence in (("gold", SENTENCE), ("other", INDUCED)):
        write_conllu([Document((sentence,), "d")], tmp_path / f"{name}.conllu")
    return [tmp_path / "gold.conllu", tmp_path / "other.conllu"]


@pytest.mark.parametrize("ending", [".pdf", ".png"])
def test_trees_are_drawn_in_the_other_formats_too(tmp_path, trees, ending):
    assert main(["draw", *map(str, trees), "--output", str(tmp_path / f"a{ending}")]) == 0
    assert (tmp_path / f"a{ending}").read_bytes().startswith(BEGINNINGS[ending])


def test_trees_hold_the_same_words_arcs_and_places():
    from xml.etree import ElementTree

    trees = stacked("somewhere", SENTENCE, INDUCED, name="predicted")
    root, picture = ElementTree.fromstring(svg_of(trees)), figure_of(trees)
    (axes,) = picture.axes
    assert (picture.get_size_inches() * 96).tolist() == pytest.approx(
        [float(root.get("width")), float(root.get("height"))]
    )
    assert axes.get_xlim() == (0, float(root.get("width")))
    assert axes.get_ylim() == (float(root.get("height")), 0)
    namespace = "{http://www.w3.org/2000/svg}"
    assert [text.get_text() for text in axes.texts] == [each.text for each in root.iter(f"{namespace}text")]
    arcs = [each for each in root.iter(f"{namespace}path") if each.get("class") == "arc"]
    assert len(axes.lines) == len(arcs) == 4
    for line, arc in zip(axes.lines, arcs, strict=True):
        expected = [float(each) for each in re.findall(r"[\d.]+", arc.get("d"))]
        assert line.get_xdata() == pytest.approx(expected[::2])
        assert line.get_color() == arc.get("stroke")
        assert line.is_dashed() == ("stroke-dasharray" in arc.attrib)
    words_above = next(text.get_position()[1] for text in axes.texts if text.get_text() == "slept")
    assert min(min(line.get_ydata()) for line in axes.lines[2:]) > words_above, "the second tree is below the first"
    assert len(axes.patches) == 4
