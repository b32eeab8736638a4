"""Dependency trees as pictures, the gold one above the induced one: Appendix A.5 of Shen et al. (2022)."""

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
from depgen.reporting.drawing import (
    FONT,
    Drawing,
    below_each_other,
    caption_of,
    escaped,
    fitted,
    standing_alone,
    text_width,
)
from depgen.reporting.plotting import check_picture, save
from depgen.reporting.svg_figures import figure_of_svg
from depgen.trees.conllu import read_conllu
from depgen.trees.punctuation import Punctuation, is_punctuation
from depgen.trees.sentence import Document, Sentence
from depgen.trees.text_form import FormName
from depgen.trees.tree import check_tree

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
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
body {{ font-family: {font}; margin: 1.5rem }}
figure {{ margin: 0 0 2.5rem; break-inside: avoid }}
svg {{ max-width: 100%; height: auto }}
@page {{ size: landscape }}
figcaption {{ font-weight: bold; margin-bottom: 0.3rem }}
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
        left_out: whether each word is punctuation, which counts neither as right nor as wrong.
    """

    place: str
    named: tuple[tuple[str, Sentence], ...]
    left_out: tuple[bool, ...] = ()


def draw_trees(
    files: Sequence[Path] = (),
    *,
    corpus: Corpus | None = None,
    split: Split = "test",
    run: str | None = None,
    attention_head: tuple[int, int] | None = None,
    form: FormName | None = None,
    punctuation: Punctuation | None = None,
    first: int = 1,
    number: int = 10,
    output: Path = Path("trees.html"),
) -> str:
    """Where the picture went: the trees of sentences, those of a second file or of a run below the first ones.

    Labels are relations; a tree of nothing but `root` and `dep` has none. The root is named below its word. Where there
    are gold trees, arcs of the other tree are blue if they are right, red and dashed if they are wrong, and grey if
    their word is punctuation, which is not counted. Sentences wider than a page are scaled down to it.

    Args:
        files: CoNLL-U, with the gold trees; and a second file with the trees of the same sentences to set below them.
        corpus: where the sentences come from in place of a file, with trees or without.
        split: of the corpus.
        run: a run whose trees are set below; words that it does not read, such as punctuation, hang on the word before.
        attention_head: `[layer,head]` that a masked Transformer parses by, both 0-based.
        form: what words are brought into before the run reads them: by default the form of the run's corpus, and none
            for a corpus that is already normalised; `bare`, `ptb`, `stories`, `lower`, or `as_is` for none.
        punctuation: what is not counted: words whose gold `relation` is punct, or words of punctuation by their `form`;
            unset: by relation where the gold tree has relations, else by form. The caption says which.
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
        drawn = [_trees(*each, ("induced", tree), by=punctuation) for each, tree in zip(chosen, below, strict=True)]
    elif len(files) == 2:
        below = list(_same_sentences(files[0], files[1], first, number))
        drawn = [_trees(*each, ("predicted", tree), by=punctuation) for each, tree in zip(chosen, below, strict=True)]
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
    """The parser of a run; without `form`, a corpus that is already normalised is read as it is."""
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


def _trees(
    place: str, sentence: Sentence, below: tuple[str, Sentence] | None = None, *, by: Punctuation | None = None
) -> Trees:
    """A sentence's trees, with how far they agree; a run's alone where the sentence has none.

    Raises:
        UserError: there is no tree where one is expected, or no relation to tell punctuation by.
    """
    named, left_out = [("" if below is None else "gold", sentence)], list[bool]()
    if below is not None:
        name, other = below
        if sentence.heads is None and name == "induced":
            named = [below]
        else:
            rule = by or ("form" if sentence.relations is None else "relation")
            left_out = is_punctuation(sentence, rule)
            pairs = zip(sentence.heads or (), other.heads or (), left_out, strict=False)
            counted = [head == its for head, its, skipped in pairs if not skipped]
            without = f", without punctuation (by {rule})" if any(left_out) else ""
            named.append((f"{name}: {sum(counted)} of {len(counted)} heads right{without}", other))
    for caption, each in named:
        if each.heads is None:
            raise UserError(f"{place}: expected heads{f' ({caption})' if caption else ''}, found none.")
        check_tree(each.heads, place, words=each.words)
    return Trees(place, tuple(named), tuple(left_out))


def trees_html(drawn: Sequence[Trees], *, title: str) -> str:
    """A page that needs no other file, with one figure a sentence."""
    pictures = [standing_alone(stacked(trees)) for trees in drawn]
    figures = [
        f"<figure>\n<figcaption>{escape(trees.place)}</figcaption>\n{picture}\n</figure>"
        for trees, picture in zip(drawn, pictures, strict=True)
    ]
    return _PAGE.format(title=escape(title), font=FONT, figures="\n".join(figures))


def trees_svg(drawn: Sequence[Trees]) -> str:
    """One picture of all sentences, each below its place."""
    parts = list[Drawing]()
    for trees in drawn:
        parts.extend((caption_of(trees.place, bold=True), stacked(trees)))
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{standing_alone(below_each_other(parts))}\n'


def stacked(trees: Trees) -> Drawing:
    """A sentence's trees below each other, word under word, at most as wide as a page."""
    sentences = [sentence for _, sentence in trees.named]
    places, parts = word_places(sentences), list[Drawing]()
    for caption, sentence in trees.named:
        gold = None if sentence is sentences[0] else sentences[0]
        parts.extend([caption_of(caption)] if caption else [])
        parts.append(fitted(tree_picture(sentence, places=places, gold=gold, left_out=trees.left_out)))
    return below_each_other(parts)


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
    """Places for the words of a sentence, by their widths; words move apart where a label over them needs more room.

    Args:
        sentences: the same words with their trees.
    """
    widths = [max(_NARROWEST, text_width(word, size=_SIZE) + _GAP) for word in sentences[0].words]
    middles = [right - width / 2 for right, width in zip(accumulate(widths), widths, strict=True)]
    arcs = {arc for sentence in sentences for arc in _arcs(sentence)}
    for arc in sorted(arcs, key=lambda arc: (arc.end - arc.start, arc)):
        room = text_width(arc.label, size=_LABEL_SIZE) + 2 * _ASIDE + _GAP
        missing = room - (middles[arc.end] - middles[arc.start])
        if arc.label and missing > 0:
            middles[arc.end :] = [middle + missing for middle in middles[arc.end :]]
    return WordPlaces(tuple(middles), tuple(widths))


def tree_picture(
    sentence: Sentence, *, places: WordPlaces, gold: Sentence | None = None, left_out: Sequence[bool] = ()
) -> Drawing:
    """A sentence and its arcs from heads to dependents.

    Args:
        sentence: with heads.
        places: of its words.
        gold: the tree that it is compared with.
        left_out: whether each word is punctuation.
    """
    assert sentence.heads is not None
    arcs, levels = _arcs(sentence), _levels(_arcs(sentence))
    highest = max(levels.values(), default=0)
    foot = float(_LABEL + highest * _LEVEL)
    colours = _colours(sentence, gold, left_out)
    parts = list[str]()
    for place, (word, head) in enumerate(zip(sentence.words, sentence.heads, strict=True)):
        x, y = places.middles[place], foot + _WORD_DROP
        parts.append(_text(word, x, y, "word"))
        parts.extend([_text("root", x, y + _TAG_DROP, "root", colour=colours[place])] if head == 0 else [])
    order = (_NOT_COUNTED, _PLAIN, _RIGHT, _WRONG)
    for arc in sorted(arcs, key=lambda arc: order.index(colours[arc.dependent])):
        parts.append(_arc_picture(arc, places, foot, level=levels[arc], highest=highest, colour=colours[arc.dependent]))
    width = places.middles[-1] + places.widths[-1] / 2
    svg = f'<g font-family="{FONT}" font-size="{_SIZE}" text-anchor="middle">{"".join(parts)}</g>'
    return Drawing(svg, width, foot + _WORD_DROP + _TAG_DROP + _MARGIN)


def _colours(sentence: Sentence, gold: Sentence | None, left_out: Sequence[bool]) -> list[str]:
    """The colour of each word's arc."""
    heads = sentence.heads or ()
    if gold is None or gold.heads is None:
        return [_PLAIN] * len(heads)
    skipped = left_out or [False] * len(heads)
    return [
        _NOT_COUNTED if skip else _RIGHT if head == right else _WRONG
        for head, right, skip in zip(heads, gold.heads, skipped, strict=True)
    ]


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


def _arc_picture(arc: _Arc, places: WordPlaces, foot: float, *, level: int, highest: int, colour: str) -> str:
    """Line, label and arrowhead; lower arcs end further to the left, within the word."""
    left = places.middles[arc.start] + _ASIDE
    right = places.middles[arc.end] - places.widths[arc.end] / 4 * (highest - level) / highest
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


def _labels(sentence: Sentence) -> Sequence[str]:
    """The relations, or nothing where they tell no more than the arcs."""
    if sentence.relations is None or set(sentence.relations) <= {"root", "dep", "_"}:
        return ("",) * len(sentence)
    return sentence.relations
