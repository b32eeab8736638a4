"""A sentence as a picture: its words, and above them the arcs from heads to dependents."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from depgen.reporting.pictures.drawing import BLACK, Drawing, Line, Text, text_width
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
_PLAIN, _RIGHT, _WRONG, _NOT_COUNTED = BLACK, "#1565a8", "#c62828", "#9a9a9a"
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
    for arc in sorted(_arcs(edges), key=lambda arc: (_length(arc), min(arc[:2]), arc[1] < arc[0], arc[2])):
        (start, end), label = _ends(arc), arc[2]
        missing = text_width(label, size=_LABEL_SIZE) + 2 * _ASIDE + _GAP - (middles[end] - middles[start])
        if label and missing > 0:
            middles[end:] = [middle + missing for middle in middles[end:]]
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
    colours, arcs = _colours(edges, gold, left_out), _arcs(edges)
    levels = _levels(arcs)
    highest = max(levels.values(), default=0)
    foot = float(_LABEL + highest * _LEVEL)
    shapes, lowest = list[Text | Line](), foot + _WORD_DROP + _TAG_DROP
    for number, word in enumerate(words, start=1):
        x, y = places.middles[number - 1], foot + _WORD_DROP
        shapes.append(Text(word, x, y, "word", _SIZE))
        y += _TAG_DROP
        for edge in edges:
            if edge[1] == number and edge[0] in (0, number):
                kind, shown = ("itself", f"itself: {edge[2]}") if edge[0] else ("root", edge[2])
                shapes.append(Text(shown, x, y, kind, _SIZE, colours[edge]))
                lowest = max(lowest, y)
                y += _LEVEL
    order = (_NOT_COUNTED, _PLAIN, _RIGHT, _WRONG)
    for arc in sorted(arcs, key=lambda arc: order.index(colours[arc])):
        shapes += _arc_drawn(arc, places, foot, level=levels[arc], highest=highest, colour=colours[arc])
    return Drawing(tuple(shapes), places.middles[-1] + places.widths[-1] / 2, lowest + _MARGIN)


def _colours(edges: Sequence[Edge], gold: Sequence[Edge] | None, left_out: Sequence[bool]) -> dict[Edge, str]:
    """The colour of each edge; labels don't count."""
    if gold is None:
        return dict.fromkeys(edges, _PLAIN)
    right = {edge[:2] for edge in gold}
    return {
        edge: _NOT_COUNTED if any(left_out[edge[1] - 1 : edge[1]]) else _RIGHT if edge[:2] in right else _WRONG
        for edge in edges
    }


def _arcs(edges: Sequence[Edge]) -> list[Edge]:
    """The edges between two words, each once."""
    return [edge for edge in dict.fromkeys(edges) if edge[0] not in (0, edge[1])]


def _ends(arc: Edge) -> tuple[int, int]:
    """The places of its words from left to right, from 0."""
    return min(arc[:2]) - 1, max(arc[:2]) - 1


def _length(arc: Edge) -> int:
    return abs(arc[0] - arc[1])


def _levels(arcs: Sequence[Edge]) -> dict[Edge, int]:
    """The height of each arc, from 1: above all shorter arcs between the same words."""
    heights, levels = [0] * max((max(arc[:2]) for arc in arcs), default=0), dict[Edge, int]()
    for arc in sorted(arcs, key=_length):
        start, end = _ends(arc)
        levels[arc] = max(heights[start:end]) + 1
        heights[start:end] = [levels[arc]] * (end - start)
    return levels


def _arc_drawn(
    arc: Edge, places: WordPlaces, foot: float, *, level: int, highest: int, colour: str
) -> list[Text | Line]:
    """Line, label and arrowhead; lower arcs are further from the word's middle, so that no two share a line."""
    head, word, label = arc
    start, end = _ends(arc)
    lower = (highest - level) / highest
    left = places.middles[start] + _ASIDE + places.widths[start] / 8 * lower
    right = places.middles[end] - places.widths[end] / 4 * lower
    top, tip = foot - level * _LEVEL, left if word < head else right
    text = [Text(label, (left + right) / 2, top - 4, "label", _LABEL_SIZE)] if label else []
    return [
        Line(((left, foot), (left, top), (right, top), (right, foot)), "arc", colour, dashed=colour == _WRONG),
        *text,
        Line(((tip, foot + 2), (tip - _HEAD, foot - 6), (tip + _HEAD, foot - 6)), "arrowhead", colour),
    ]
