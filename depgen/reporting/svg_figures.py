"""SVG as a figure of matplotlib, so that pictures that are made as SVG are written as PNG and PDF too.

Read are the parts that the pictures of trees hold: groups that are moved or scaled, text, and paths of straight lines.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from depgen.reporting.plotting import figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INCH, _POINT = 96.0, 0.75
"""Pixels of an inch; points of a pixel."""
_PLACES = {"start": "left", "middle": "center", "end": "right"}
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
_INHERITED = ("font-size", "font-weight", "text-anchor", "fill", "stroke", "stroke-width", "stroke-dasharray")


def figure_of_svg(svg: str) -> "Figure":
    """The figure of an `<svg>` with a width and height in pixels.

    Raises:
        UserError: matplotlib is not installed.
    """
    root = ElementTree.fromstring(svg)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    drawing = figure(width / _INCH, height / _INCH)
    drawing.set_layout_engine("none")
    axes = drawing.add_axes((0.0, 0.0, 1.0, 1.0), xlim=(0.0, width), ylim=(height, 0.0))
    axes.set_axis_off()
    _draw(root, axes, _Place(), {})
    return drawing


@dataclass(frozen=True)
class _Place:
    """Where an element's own coordinates lie in the picture: moved, and smaller."""

    across: float = 0.0
    down: float = 0.0
    scale: float = 1.0

    def within(self, transform: str) -> "_Place":
        """The place of what is moved by `translate(x y)` or made smaller by `scale(s)` within this one."""
        numbers = [float(each) for each in _NUMBER.findall(transform)]
        if transform.startswith("scale"):
            return _Place(self.across, self.down, self.scale * numbers[0])
        x, y = numbers
        return _Place(self.across + self.scale * x, self.down + self.scale * y, self.scale)

    def of(self, x: float, y: float) -> tuple[float, float]:
        """A point in the picture."""
        return self.across + self.scale * x, self.down + self.scale * y


def _draw(element: ElementTree.Element, axes: "Axes", place: _Place, style: Mapping[str, str]) -> None:
    """Draw an element and those within it in the style that it inherits."""
    style = {**style, **{name: element.attrib[name] for name in _INHERITED if name in element.attrib}}
    place = place.within(element.get("transform", "translate(0 0)"))
    kind = element.tag.rpartition("}")[2]
    if kind == "text":
        _write(element, axes, place, style)
    elif kind == "path":
        _trace(element.attrib["d"], axes, place, style)
    else:
        assert kind in ("svg", "g"), f"no picture of trees has <{kind}>"
        for each in element:
            _draw(each, axes, place, style)


def _write(element: ElementTree.Element, axes: "Axes", place: _Place, style: Mapping[str, str]) -> None:
    axes.text(
        *place.of(float(element.attrib["x"]), float(element.attrib["y"])),
        element.text or "",
        parse_math=False,
        fontsize=_POINT * place.scale * float(style.get("font-size", 16)),
        fontweight=style.get("font-weight", "normal"),
        color=style.get("fill", "#000000"),
        horizontalalignment=_PLACES[style.get("text-anchor", "start")],
        verticalalignment="baseline",
    )


def _trace(path: str, axes: "Axes", place: _Place, style: Mapping[str, str]) -> None:
    """Draw a path of straight lines: a polygon if it is filled, which in SVG it is by default."""
    assert set(re.findall("[A-Za-z]", path)) <= {"M", "L", "Z"}, f"not straight: {path}"
    numbers = [float(each) for each in _NUMBER.findall(path)]
    across, down = zip(*(place.of(*point) for point in zip(numbers[::2], numbers[1::2], strict=True)), strict=True)
    fill, stroke = style.get("fill", "#000000"), style.get("stroke")
    if fill != "none":
        axes.fill(across, down, color=fill, linewidth=0)
    if stroke not in (None, "none"):
        dashes = [float(each) for each in _NUMBER.findall(style.get("stroke-dasharray", ""))]
        width = float(style.get("stroke-width", 1))
        axes.plot(
            across, down, color=stroke, linewidth=_POINT * place.scale * width,
            solid_capstyle="butt", solid_joinstyle="miter",
            linestyle=(0, [each / width for each in dashes]) if dashes else "solid",
        )  # fmt: skip
