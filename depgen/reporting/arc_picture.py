"""A sentence as a picture: its words, and above them the arcs from heads to dependents."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from depgen.reporting.drawing import FONT, Drawing, escaped, text_width
from depgen.trees.annotator import Structure
from depgen.trees.sentence import Edge, Sentence

_SIZE, _LABEL_SIZE = 16, 12
"""Font sizes of words and relations."""
_GAP, _NARROWEST = 12.0, 34.0
"""Pixels between two words, and of the narrowest word, below which `root` has room."""
_LABEL, _LEVEL, _WORD_DROP, _TAG_DROP, _MARGIN = 20, 18, 24, 32, 8
"""Pixels: of a label's line, from an arc to the next higher one, from arrows down to words, from words
to what is below, around all."""
_ASIDE, _HEAD = 10.0, 4
"""Pixels between a word's middle and the arcs that begin there; half the width of an arrowhead."""
_PLAIN, _RIGHT, _WRONG, _NOT_COUNTED = "#000000", "#1565a8", "#c62828", "#9a9a9a"
"""Colours of arcs: without a gold tree, right, wrong (dashed too, for print without colour), and of punctuation."""


@dataclass(frozen=True)
class WordPlaces:
    """Where words are drawn, in pixels.

    Attributes:
        middles: the middle of each word.
        widths: of the words, with the gap to the next.
    """

    middles: tuple[float, ...]
    widths: tuple[float, ...]


def edges_of(sentence: Sentence, structure: Structure = "tree") -> tuple[Edge, ...]:
    """Head, dependent and label of each arc of a sentence's tree or graph; nothing where it has none.

    A tree of nothing but `root` and `dep` has no other labels.

    >>> edges_of(Sentence(("so", "what"), (2, 0), ("dep", "root")))
    ((2, 1, ''), (0, 2, 'root'))
    """
    if structure == "graph":
        return sentence.edges or ()
    relations = sentence.relations
    if relations is None or set(relations) <= {"root", "dep", "_"}:
        relations = ("",) * len(sentence)
    words = enumerate(zip(sentence.heads or (), relations, strict=False), start=1)
    return tuple((head, word, label if head else "root") for word, (head, label) in words)


def word_places(words: Sequence[str], edges: Sequence[Edge]) -> WordPlaces:
    """Places for the words of a sentence, by their widths; words move apart where a label over them needs more room.

    Args:
        words: of the sentence.
        edges: all that are drawn over them, in one picture or in several below each other.
    """
    widths = [max(_NARROWEST, text_width(word, size=_SIZE) + _GAP) for word in words]
    middles = [right - width / 2 for right, width in zip(accumulate(widths), widths, strict=True)]
    for arc in sorted({*_arcs(edges)}, key=lambda arc: (arc.end - arc.start, arc)):
        room = text_width(arc.label, size=_LABEL_SIZE) + 2 * _ASIDE + _GAP
        missing = room - (middles[arc.end] - middles[arc.start])
        if arc.label and missing > 0:
            middles[arc.end :] = [middle + missing for middle in middles[arc.end :]]
    return WordPlaces(tuple(middles), tuple(widths))


def arc_picture(
    words: Sequence[str],
    edges: Sequence[Edge],
    *,
    places: WordPlaces,
    gold: Sequence[Edge] | None = None,
    left_out: Sequence[bool] = (),
) -> Drawing:
    """A sentence and its arcs; below words, the labels of edges from the root and of self-loops.

    Args:
        words: of the sentence.
        edges: of its tree or graph.
        places: of the words.
        gold: the edges that these are compared with.
        left_out: whether each word is punctuation.
    """
    colours = _colours(edges, gold, left_out)
    arcs = {arc: colours[edge] for edge in edges for arc in _arcs([edge])}
    levels = _levels([*arcs])
    highest = max(levels.values(), default=0)
    foot = float(_LABEL + highest * _LEVEL)
    below = defaultdict[int, list[Edge]](list)
    for edge in edges:
        below[edge[1]].extend([edge] if edge[0] in (0, edge[1]) else [])
    parts = list[str]()
    for place, word in enumerate(words):
        x, y = places.middles[place], foot + _WORD_DROP
        parts.append(_text(word, x, y, "word"))
        for head, dependent, label in below[place + 1]:
            kind = "root" if head == 0 else "itself"
            shown = label if head == 0 else f"itself: {label}"
            y += _TAG_DROP if y == foot + _WORD_DROP else _LEVEL
            parts.append(_text(shown, x, y, kind, colour=colours[head, dependent, label]))
    order = (_NOT_COUNTED, _PLAIN, _RIGHT, _WRONG)
    for arc in sorted(arcs, key=lambda arc: order.index(arcs[arc])):
        parts.append(_arc_drawn(arc, places, foot, level=levels[arc], highest=highest, colour=arcs[arc]))
    width = places.middles[-1] + places.widths[-1] / 2
    svg = f'<g font-family="{FONT}" font-size="{_SIZE}" text-anchor="middle">{"".join(parts)}</g>'
    more = max(0, *(len(each) - 1 for each in below.values()), 0) * _LEVEL
    return Drawing(svg, width, foot + _WORD_DROP + _TAG_DROP + more + _MARGIN)


def _colours(edges: Sequence[Edge], gold: Sequence[Edge] | None, left_out: Sequence[bool]) -> dict[Edge, str]:
    """The colour of each edge; labels don't count."""
    if gold is None:
        return dict.fromkeys(edges, _PLAIN)
    right = {edge[:2] for edge in gold}
    return {
        edge: _NOT_COUNTED if any(left_out[edge[1] - 1 : edge[1]]) else _RIGHT if edge[:2] in right else _WRONG
        for edge in edges
    }


@dataclass(frozen=True, order=True)
class _Arc:
    """An arc between two words by their places; `points_left` says that the dependent is the first of them."""

    start: int
    end: int
    points_left: bool
    label: str


def _arcs(edges: Sequence[Edge]) -> list[_Arc]:
    """The arcs between two words."""
    return [
        _Arc(min(word, head) - 1, max(word, head) - 1, word < head, label)
        for head, word, label in edges
        if head not in (0, word)
    ]


def _levels(arcs: Sequence[_Arc]) -> dict[_Arc, int]:
    """The height of each arc, from 1: above all shorter arcs between the same words."""
    heights, levels = [0] * max((arc.end for arc in arcs), default=0), dict[_Arc, int]()
    for arc in sorted(arcs, key=lambda arc: arc.end - arc.start):
        levels[arc] = max(heights[arc.start : arc.end]) + 1
        heights[arc.start : arc.end] = [levels[arc]] * (arc.end - arc.start)
    return levels


def _arc_drawn(arc: _Arc, places: WordPlaces, foot: float, *, level: int, highest: int, colour: str) -> str:
    """Line, label and arrowhead; lower arcs are further from the word's middle, so that no two share a line."""
    lower = (highest - level) / highest
    left = places.middles[arc.start] + _ASIDE + places.widths[arc.start] / 8 * lower
    right = places.middles[arc.end] - places.widths[arc.end] / 4 * lower
    top, tip = foot - level * _LEVEL, left if arc.points_left else right
    label = _text(arc.label, (left + right) / 2, top - 4, "label", size=_LABEL_SIZE) if arc.label else ""
    dashes = ' stroke-dasharray="5 3"' if colour == _WRONG else ""
    sides = f"L{tip - _HEAD:g},{foot - 6:g} {tip + _HEAD:g},{foot - 6:g}"
    return (
        f'<path class="arc" d="M{left:g},{foot:g} {left:g},{top:g} {right:g},{top:g} {right:g},{foot:g}" fill="none" '
        f'stroke-width="2" stroke="{colour}"{dashes}/>{label}'
        f'<path class="arrowhead" fill="{colour}" d="M{tip:g},{foot + 2:g} {sides}"/>'
    )


def _text(text: str, x: float, y: float, kind: str, *, size: int = _SIZE, colour: str = _PLAIN) -> str:
    shown = escaped(text)
    fill = "" if colour == _PLAIN else f' fill="{colour}"'
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" font-size="{size}"{fill}>{shown}</text>'
