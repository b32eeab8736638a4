"""Pictures of texts and straight lines, put below each other, and written as SVG or as a figure of matplotlib.

All lengths are pixels, `y` from the top.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Literal

from depgen.reporting.pictures.plotting import figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FONT = "Arial, sans-serif"
PAGE = 1000.0
"""A page's width, landscape."""
BLACK = "#000000"
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_CAPTION, _CAPTION_SIZE, _MARGIN = 24.0, 14, 8
"""Of captions: pixels of the line, font size, pixels around."""
_INCH, _POINT = 96.0, 0.75
"""Pixels of an inch; points of a pixel."""
_DASHES = (2.5, 1.5)
"""Lengths of a dash and of the gap after it, in widths of their line."""
_WIDTHS = {
    0.24: "ijl|'`",
    0.3: "ft.,:;!/\\()[]I- ",
    0.36: 'r"*°',
    0.5: "ckszvxyJ",
    0.66: "ABEKPSVXY&",
    0.72: "CDGHNOQRUTwF",
    0.86: "mM%",
    0.98: "W@…—",
}
_OTHER, _WIDE = 0.56, 1.0
_KNOWN = {letter: width for width, letters in _WIDTHS.items() for letter in letters}


def text_width(text: str, *, size: float) -> float:
    """The width of a text in pixels; letters of scripts such as Chinese are as wide as they are high.

    >>> round(text_width("ill", size=16)), round(text_width("WWW", size=16))
    (12, 47)
    """
    return size * sum(_KNOWN.get(letter, _WIDE if letter > "\u2e7f" else _OTHER) for letter in text)


@dataclass(frozen=True)
class Text:
    """A text on one line.

    Attributes:
        text: its letters.
        x: its middle, or its left end where it is not centred.
        y: its baseline.
        kind: the class of its SVG element.
        size: of the font.
        colour: of the letters.
        bold: whether they are.
        centred: whether `x` is its middle.
    """

    text: str
    x: float
    y: float
    kind: str
    size: float
    colour: str = BLACK
    bold: bool = False
    centred: bool = True


@dataclass(frozen=True)
class Line:
    """Straight lines from point to point.

    Attributes:
        points: (x, y) of each.
        kind: `arc` is a line, `arrowhead` a filled triangle; the class of its SVG element.
        colour: of the line or the triangle.
        dashed: whether the line is.
        width: of the line.
    """

    points: tuple[tuple[float, float], ...]
    kind: Literal["arc", "arrowhead"]
    colour: str
    dashed: bool = False
    width: float = 2.0


@dataclass(frozen=True)
class Drawing:
    """Texts and lines, and the size of what they are drawn on."""

    shapes: tuple[Text | Line, ...]
    width: float
    height: float


def fitted(picture: Drawing) -> Drawing:
    """A drawing scaled down to the width of a page, where it is wider."""
    scale = min(1.0, PAGE / picture.width)
    shapes = tuple(_placed(each, scale=scale) for each in picture.shapes)
    return Drawing(shapes, scale * picture.width, scale * picture.height)


def caption_of(text: str, *, bold: bool = False) -> Drawing:
    """A line of text."""
    shape = Text(text, _MARGIN, 17, "caption", _CAPTION_SIZE, bold=bold, centred=False)
    return Drawing((shape,), 2 * _MARGIN + text_width(text, size=_CAPTION_SIZE), _CAPTION)


def below_each_other(parts: Sequence[Drawing]) -> Drawing:
    """One drawing of several, flush left."""
    shapes, y = list[Text | Line](), 0.0
    for part in parts:
        shapes.extend(_placed(each, down=y) for each in part.shapes)
        y += part.height
    return Drawing(tuple(shapes), max(part.width for part in parts), y)


def _placed(shape: Text | Line, *, scale: float = 1.0, down: float = 0.0) -> Text | Line:
    """A shape scaled about the upper left corner, then moved down."""
    if isinstance(shape, Text):
        return replace(shape, x=scale * shape.x, y=scale * shape.y + down, size=scale * shape.size)
    points = tuple((scale * x, scale * y + down) for x, y in shape.points)
    return replace(shape, points=points, width=scale * shape.width)


def svg_of(picture: Drawing) -> str:
    """A whole `<svg>` on white."""
    size = f'width="{picture.width:g}" height="{picture.height:g}" viewBox="0 0 {picture.width:g} {picture.height:g}"'
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} style="background: #ffffff" font-family="{FONT}">']
    for each in picture.shapes:
        if isinstance(each, Text):
            style = f'fill="{each.colour}" font-size="{each.size:g}"' + (' font-weight="bold"' if each.bold else "")
            style += ' text-anchor="middle"' if each.centred else ""
            text = escape(_NOT_IN_XML.sub("\ufffd", each.text))
            lines.append(f'<text class="{each.kind}" x="{each.x:g}" y="{each.y:g}" {style}>{text}</text>')
        else:
            style = f'fill="none" stroke="{each.colour}" stroke-width="{each.width:g}"'
            if each.kind == "arrowhead":
                style = f'fill="{each.colour}"'
            elif each.dashed:
                style += ' stroke-dasharray="{:g} {:g}"'.format(*(each.width * length for length in _DASHES))
            points = " ".join(f"{x:g},{y:g}" for x, y in each.points)
            lines.append(f'<path class="{each.kind}" d="M{points}" {style}/>')
    return "\n".join([*lines, "</svg>"])


def figure_of(picture: Drawing) -> "Figure":
    """The same as a figure of matplotlib, which writes PNG and PDF.

    Raises:
        UserError: matplotlib is not installed.
    """
    drawing = figure(picture.width / _INCH, picture.height / _INCH)
    drawing.set_layout_engine("none")
    axes = drawing.add_axes((0.0, 0.0, 1.0, 1.0), xlim=(0.0, picture.width), ylim=(picture.height, 0.0))
    axes.set_axis_off()
    for each in picture.shapes:
        if isinstance(each, Text):
            axes.text(
                each.x, each.y, each.text, parse_math=False, color=each.colour, fontsize=_POINT * each.size,
                fontweight="bold" if each.bold else "normal",
                horizontalalignment="center" if each.centred else "left", verticalalignment="baseline",
            )  # fmt: skip
        elif each.kind == "arrowhead":
            axes.fill(*zip(*each.points, strict=True), color=each.colour, linewidth=0)
        else:
            axes.plot(
                *zip(*each.points, strict=True), color=each.colour, linewidth=_POINT * each.width,
                linestyle=(0, _DASHES) if each.dashed else "solid", solid_capstyle="butt", solid_joinstyle="miter",
            )  # fmt: skip
    return drawing
