"""Pieces of SVG that are put below each other: text of a known width, captions, drawings scaled to a page."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

FONT = "Arial, sans-serif"
PAGE = 1000.0
"""Pixels of a page's width, landscape."""
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_CAPTION, _CAPTION_SIZE, _MARGIN = 24.0, 14, 8
"""Of captions: pixels of the line, font size, pixels around."""
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
class Drawing:
    """A piece of SVG and its size in pixels."""

    svg: str
    width: float
    height: float


def escaped(text: str) -> str:
    """A text that XML may hold."""
    return escape(_NOT_IN_XML.sub("\ufffd", text))


def fitted(picture: Drawing) -> Drawing:
    """A drawing scaled down to the width of a page, where it is wider."""
    scale = PAGE / picture.width
    if scale >= 1:
        return picture
    return Drawing(f'<g transform="scale({scale:.4f})">{picture.svg}</g>', PAGE, picture.height * scale)


def caption_of(text: str, *, bold: bool = False) -> Drawing:
    """A line of text."""
    weight = ' font-weight="bold"' if bold else ""
    style = f'font-family="{FONT}" font-size="{_CAPTION_SIZE}"{weight}'
    svg = f'<text class="caption" x="{_MARGIN}" y="17" {style}>{escaped(text)}</text>'
    return Drawing(svg, 2 * _MARGIN + text_width(text, size=_CAPTION_SIZE), _CAPTION)


def below_each_other(parts: Sequence[Drawing]) -> Drawing:
    """One drawing of several, flush left."""
    lines, y = list[str](), 0.0
    for part in parts:
        lines.append(f'<g transform="translate(0 {y:g})">{part.svg}</g>')
        y += part.height
    return Drawing("\n".join(lines), max(part.width for part in parts), y)


def standing_alone(picture: Drawing) -> str:
    """A whole `<svg>` on white."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{picture.width:g}" height="{picture.height:g}" '
        f'viewBox="0 0 {picture.width:g} {picture.height:g}" style="background: #ffffff">\n{picture.svg}\n</svg>'
    )
