"""Dependency trees as pictures, the gold one above the induced one: Appendix A.5 of Shen et al. (2022)."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate, islice, zip_longest
from pathlib import Path

from depgen.data.corpus import Corpus, Split, form_of
from depgen.errors import UserError
from depgen.evaluation.forms import warn_of_another_form
from depgen.evaluation.trees.induced_trees import InducedTrees
from depgen.locations import write_atomically
from depgen.reporting.plotting import check_picture, save
from depgen.reporting.svg_figures import figure_of_svg
from depgen.trees.conllu import read_conllu
from depgen.trees.sentence import Document, Sentence
from depgen.trees.text_form import FormName
from depgen.trees.tree import check_tree

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_FONT = "Arial, sans-serif"
_LETTER, _LABEL_LETTER = 9.0, 7.0
"""Pixels that a letter of a word and of a relation take, with room to spare."""
_GAP, _NARROWEST = 14.0, 40.0
"""Pixels between two words, and of the narrowest word, below which `root` has room."""
_CAPTION, _LABEL, _LEVEL, _WORD_DROP, _TAG_DROP, _MARGIN = 24.0, 20, 18, 24, 32, 8
"""Pixels: of a caption's line, of a label's, from an arc to the next higher one, from arrows down to words, from words
to what is below, around all."""
_ASIDE, _HEAD = 10.0, 4
"""Pixels between a word's middle and the arcs that begin there; half the width of an arrowhead."""
_SAME = 'stroke="#000000"'
_OTHER = 'stroke="#b00020" stroke-dasharray="5 3"'
"""The line of an arc that the tree above does not have: dashed, so that it is seen without colour too."""
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
body {{ font-family: {font}; margin: 1.5rem }}
figure {{ margin: 0 0 2.5rem; overflow-x: auto }}
figcaption {{ font-weight: bold; margin-bottom: 0.3rem; position: sticky; left: 0 }}
</style>
</head>
<body>
{figures}
</body>
</html>
"""


@dataclass(frozen=True)
class Trees:
    """The trees of one sentence, to be drawn one below the other.

    Attributes:
        place: where the sentence is from.
        named: a caption, or nothing, and the sentence with its tree, for each.
    """

    place: str
    named: tuple[tuple[str, Sentence], ...]


@dataclass(frozen=True)
class Drawing:
    """A piece of SVG and its size in pixels."""

    svg: str
    width: float
    height: float


def draw_trees(
    files: Sequence[Path] = (),
    *,
    corpus: Corpus | None = None,
    split: Split = "test",
    run: str | None = None,
    attention_head: tuple[int, int] | None = None,
    form: FormName | None = None,
    first: int = 1,
    number: int = 10,
    output: Path = Path("trees.html"),
) -> str:
    """Where the picture went: the trees of sentences, those of a second file or of a run below the first ones.

    Labels are relations; a tree of nothing but `root` and `dep` has none. The root is named below its word.

    Args:
        files: CoNLL-U, with the gold trees; and a second file with the trees of the same sentences to set below them.
        corpus: where the sentences come from in place of a file, with trees or without.
        split: of the corpus.
        run: a run whose trees are set below; words that it does not read, such as punctuation, hang on the word before.
        attention_head: `[layer,head]` that a masked Transformer parses by, both 0-based.
        form: what words are brought into before the run reads them: by default the form of the run's corpus, and none
            for a corpus that is in a form of its own; `bare`, `ptb`, `stories`, `lower`, or `as_is` for none.
        first: the number of the first sentence to be drawn.
        number: how many are drawn.
        output: `.html` makes one page, with a figure a sentence; `.svg`, `.pdf` or `.png` one picture.

    Raises:
        UserError: nothing or too much is named, files of different sentences, a file without trees or with what is no
            tree, no such run or one that does not parse, no such sentence.
    """
    check_picture(output, without_matplotlib=(".html", ".svg"))
    if first < 1 or number < 1:
        raise UserError(f"first and number: expected 1 or more, found {first} and {number}.")
    if bool(files) == (corpus is not None) or len(files) + (run is not None) > 2:
        raise UserError(
            "Name one file of gold trees or --corpus, and for the trees to set below them a second file or --run."
        )
    if run is None and (form, attention_head) != (None, None):
        raise UserError("form and attention_head say how a run reads and parses: name one by --run.")
    origin = str(files[0]) if corpus is None else f"{corpus.name}, {split}"
    documents = read_conllu(files[0], by_document=False) if corpus is None else corpus.documents(split)
    chosen = list(islice(_numbered(documents, origin), first - 1, first - 1 + number))
    if not chosen:
        raise UserError(f"{origin}: there is no sentence {first}.")
    if run is not None:
        trees = _induced(run, corpus, form=form, attention_head=attention_head)
        below = trees.annotate([sentence for _, sentence in chosen])
        drawn = [_trees(*each, ("induced", tree)) for each, tree in zip(chosen, below, strict=True)]
    elif len(files) == 2:
        below = list(_same_sentences(files[0], files[1], first, number))
        drawn = [_trees(*each, ("predicted", tree)) for each, tree in zip(chosen, below, strict=True)]
    else:
        drawn = [_trees(*each) for each in chosen]
    _write(drawn, output, title=origin)
    return f"{output}: trees of {len(drawn)} sentences of {origin}."


def _write(drawn: Sequence[Trees], output: Path, *, title: str) -> None:
    """Write trees in the format that the file's name ends in."""
    ending = output.suffix.lower()
    if ending == ".html":
        write_atomically(output, trees_html(drawn, title=title))
    elif ending == ".svg":
        write_atomically(output, trees_svg(drawn))
    else:
        save(figure_of_svg(trees_svg(drawn)), output)


def _numbered(documents: Iterator[Document], origin: str) -> Iterator[tuple[str, Sentence]]:
    """Each sentence and its place."""
    number = 0
    for document in documents:
        for sentence in document.sentences:
            number += 1
            yield f"{origin}, sentence {number} ({document.identifier})", sentence


def _induced(
    run: str, corpus: Corpus | None, *, form: FormName | None, attention_head: tuple[int, int] | None
) -> InducedTrees:
    """What gives a run's trees; unless told otherwise, a corpus that is in a form of its own is read as it is."""
    if form is None and corpus is not None and form_of(corpus) is not None:
        trees = InducedTrees(run, form="as_is", attention_head=attention_head)
        warn_of_another_form(trees.source[0], corpus)
        return trees
    return InducedTrees(run, form=form, attention_head=attention_head)


def _same_sentences(gold: Path, other: Path, first: int, number: int) -> Iterator[Sentence]:
    """The second file's sentences, from `first` on.

    Raises:
        UserError: the two files differ in their words up to there, or one has fewer sentences.
    """
    pairs = zip_longest(*(_numbered(read_conllu(path, by_document=False), str(path)) for path in (gold, other)))
    for index, (one, another) in enumerate(islice(pairs, first - 1 + number), start=1):
        if one is None or another is None:
            shorter, longer = (gold, other) if one is None else (other, gold)
            raise UserError(f"{shorter} has {index - 1} sentences, but {longer} has more: they are not the same.")
        expected, found = one[1].words, another[1].words
        if expected != found:
            token = next((k for k, pair in enumerate(zip(expected, found, strict=False)) if len({*pair}) > 1), None)
            if token is None:
                difference = f"expected {len(expected)} words, found {len(found)}"
            else:
                difference = f"expected word {token + 1} to be {expected[token]!r}, found {found[token]!r}"
            raise UserError(f"{another[0]}: {difference}, as in {one[0]}.")
        if index >= first:
            yield another[1]


def _trees(place: str, sentence: Sentence, below: tuple[str, Sentence] | None = None) -> Trees:
    """A sentence's trees, with how far they agree; a run's alone where the sentence has none.

    Raises:
        UserError: there is no tree where one is expected.
    """
    named = [("" if below is None else "gold", sentence)]
    if below is not None:
        name, other = below
        if sentence.heads is None and name == "induced":
            named = [below]
        else:
            same = sum(head == its for head, its in zip(sentence.heads or (), other.heads or (), strict=False))
            dashed = ", other arcs dashed" if same < len(sentence) else ""
            named.append((f"{name}: {same} of {len(sentence)} heads as above{dashed}", other))
    for caption, each in named:
        if each.heads is None:
            raise UserError(f"{place}: expected heads{f' ({caption})' if caption else ''}, found none.")
        check_tree(each.heads, place, words=each.words)
    return Trees(place, tuple(named))


def trees_html(drawn: Sequence[Trees], *, title: str) -> str:
    """A page that needs nothing else, with one figure a sentence; long ones are scrolled sideways."""
    pictures = [_standing_alone(stacked(trees)) for trees in drawn]
    figures = [
        f"<figure>\n<figcaption>{escape(trees.place)}</figcaption>\n{picture}\n</figure>"
        for trees, picture in zip(drawn, pictures, strict=True)
    ]
    return _PAGE.format(title=escape(title), font=_FONT, figures="\n".join(figures))


def trees_svg(drawn: Sequence[Trees]) -> str:
    """One picture of all sentences, each below its place."""
    parts = list[Drawing]()
    for trees in drawn:
        parts.extend((_caption(trees.place, bold=True), stacked(trees)))
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{_standing_alone(_below_each_other(parts))}\n'


def stacked(trees: Trees) -> Drawing:
    """A sentence's trees below each other, word under word; arcs that the first tree does not have are dashed."""
    sentences = [sentence for _, sentence in trees.named]
    places, parts = word_places(sentences), list[Drawing]()
    for caption, sentence in trees.named:
        parts.extend([_caption(caption)] if caption else [])
        parts.append(tree_picture(sentence, places=places, above=sentences[0]))
    return _below_each_other(parts)


@dataclass(frozen=True)
class WordPlaces:
    """Where words are drawn, in pixels.

    Attributes:
        middles: the middle of each word.
        widths: of the words, with the gap to the next.
    """

    middles: tuple[float, ...]
    widths: tuple[float, ...]


def word_places(sentences: Sequence[Sentence]) -> WordPlaces:
    """Places for the words of a sentence, by their lengths; words move apart where a label over them needs more room.

    Args:
        sentences: the same words with their trees.
    """
    widths = [max(_NARROWEST, _LETTER * len(word) + _GAP) for word in sentences[0].words]
    middles = [right - width / 2 for right, width in zip(accumulate(widths), widths, strict=True)]
    arcs = {arc for sentence in sentences for arc in _arcs(sentence)}
    for arc in sorted(arcs, key=lambda arc: (arc.end - arc.start, arc)):
        missing = _LABEL_LETTER * len(arc.label) + 2 * _ASIDE + _GAP - (middles[arc.end] - middles[arc.start])
        if arc.label and missing > 0:
            middles[arc.end :] = [middle + missing for middle in middles[arc.end :]]
    return WordPlaces(tuple(middles), tuple(widths))


def tree_picture(sentence: Sentence, *, places: WordPlaces, above: Sentence) -> Drawing:
    """A sentence and its arcs from heads to dependents.

    Args:
        sentence: with heads.
        places: of its words.
        above: the tree that it is compared with.
    """
    assert sentence.heads is not None
    arcs, levels = _arcs(sentence), _levels(_arcs(sentence))
    highest = max(levels.values(), default=0)
    foot = float(_LABEL + highest * _LEVEL)
    parts = list[str]()
    for place, (word, head) in enumerate(zip(sentence.words, sentence.heads, strict=True)):
        x, y = places.middles[place], foot + _WORD_DROP
        parts.append(_text(word, x, y, "word"))
        parts.extend([_text("root", x, y + _TAG_DROP, "root")] if head == 0 else [])
    for arc in arcs:
        new = above.heads is not None and above.heads[arc.dependent] != sentence.heads[arc.dependent]
        parts.append(
            _arc_picture(arc, places, foot, level=levels[arc], highest=highest, style=_OTHER if new else _SAME)
        )
    width = places.middles[-1] + places.widths[-1] / 2
    svg = f'<g font-family="{_FONT}" font-size="16" text-anchor="middle">{"".join(parts)}</g>'
    return Drawing(svg, width, foot + _WORD_DROP + _TAG_DROP + _MARGIN)


@dataclass(frozen=True, order=True)
class _Arc:
    """An arc between two words by their places; `points_left` says that the dependent is the first of them."""

    start: int
    end: int
    points_left: bool
    label: str

    @property
    def dependent(self) -> int:
        return self.start if self.points_left else self.end


def _arcs(sentence: Sentence) -> list[_Arc]:
    words = enumerate(zip(sentence.heads or (), _labels(sentence), strict=True), start=1)
    return [
        _Arc(min(word, head) - 1, max(word, head) - 1, word < head, label) for word, (head, label) in words if head > 0
    ]


def _levels(arcs: Sequence[_Arc]) -> dict[_Arc, int]:
    """The height of each arc, from 1: above all shorter arcs between the same words."""
    heights, levels = [0] * max((arc.end for arc in arcs), default=0), dict[_Arc, int]()
    for arc in sorted(arcs, key=lambda arc: arc.end - arc.start):
        levels[arc] = max(heights[arc.start : arc.end]) + 1
        heights[arc.start : arc.end] = [levels[arc]] * (arc.end - arc.start)
    return levels


def _arc_picture(arc: _Arc, places: WordPlaces, foot: float, *, level: int, highest: int, style: str) -> str:
    """Line, label and arrowhead; lower arcs end further to the left, within the word."""
    left = places.middles[arc.start] + _ASIDE
    right = places.middles[arc.end] - places.widths[arc.end] / 4 * (highest - level) / highest
    top, tip = foot - level * _LEVEL, left if arc.points_left else right
    label = _text(arc.label, (left + right) / 2, top - 4, "label", size=12) if arc.label else ""
    sides = f"L{tip - _HEAD:g},{foot - 6:g} {tip + _HEAD:g},{foot - 6:g}"
    return (
        f'<path class="arc" d="M{left:g},{foot:g} {left:g},{top:g} {right:g},{top:g} {right:g},{foot:g}" fill="none" '
        f'stroke-width="2" {style}/>{label}'
        f'<path class="arrowhead" d="M{tip:g},{foot + 2:g} {sides}"/>'
    )


def _text(text: str, x: float, y: float, kind: str, *, size: int = 16) -> str:
    shown = escape(_NOT_IN_XML.sub("\ufffd", text))
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" font-size="{size}">{shown}</text>'


def _labels(sentence: Sentence) -> Sequence[str]:
    """The relations, or nothing where they tell no more than the arcs."""
    if sentence.relations is None or set(sentence.relations) <= {"root", "dep", "_"}:
        return ("",) * len(sentence)
    return sentence.relations


def _caption(text: str, *, bold: bool = False) -> Drawing:
    weight = ' font-weight="bold"' if bold else ""
    shown = escape(_NOT_IN_XML.sub("\ufffd", text))
    svg = f'<text class="caption" x="{_MARGIN}" y="17" font-family="{_FONT}" font-size="14"{weight}>{shown}</text>'
    return Drawing(svg, 2 * _MARGIN + _LABEL_LETTER * len(text), _CAPTION)


def _below_each_other(parts: Sequence[Drawing]) -> Drawing:
    lines, y = list[str](), 0.0
    for part in parts:
        lines.append(f'<g transform="translate(0 {y:g})">{part.svg}</g>')
        y += part.height
    return Drawing("\n".join(lines), max(part.width for part in parts), y)


def _standing_alone(picture: Drawing) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{picture.width:g}" height="{picture.height:g}" '
        f'style="background: #ffffff">\n{picture.svg}\n</svg>'
    )
