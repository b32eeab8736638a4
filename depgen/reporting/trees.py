"""Dependency trees drawn by displaCy, the gold one above the induced one: Appendix A.5 of Shen et al. (2022)."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import islice, zip_longest
from pathlib import Path
from typing import cast

from depgen.data.corpus import Corpus, Split, form_of
from depgen.errors import UserError
from depgen.evaluation.forms import warn_of_another_form
from depgen.evaluation.induced_trees import InducedTrees
from depgen.locations import write_atomically
from depgen.trees.conllu import read_conllu
from depgen.trees.sentence import Document, Sentence
from depgen.trees.text_form import FormName
from depgen.trees.tree import check_tree

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_FONT = "Arial, sans-serif"
_LETTER, _LABEL_LETTER = 9.5, 8.0
"""Pixels that a letter of a word and of a relation take, with room to spare."""
_CAPTION, _LABEL, _WORD_DROP, _TAG_DROP, _MARGIN = 24.0, 20, 24, 32, 8
"""Pixels: of a caption's line, of a label's, from arrows down to words, from words to what stands below, around all."""
_BETWEEN_TAGS = re.compile(r">\s+<")
"""White space that would move words out of the middle."""
_LABELS_ABOVE_ARCS = ('dy="1.25em"', 'dy="-0.25em"')
"""Below its arc, where displaCy writes it, a label meets the next arc's line."""
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
        output: `.html` makes one page, with a figure a sentence; `.svg` one picture.

    Raises:
        UserError: nothing or too much is named, files of different sentences, a file without trees or with what is no
            tree, no such run or one that does not parse, no such sentence.
    """
    if output.suffix.lower() not in (".html", ".svg"):
        raise UserError(f"Trees are drawn as .html or .svg: expected a name that ends so, found {output}.")
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
    page = output.suffix.lower() == ".html"
    write_atomically(output, trees_html(drawn, title=origin) if page else trees_svg(drawn))
    return f"{output}: trees of {len(drawn)} sentences of {origin}."


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
            named.append((f"{name}: {same} of {len(sentence)} heads as above", other))
    for caption, each in named:
        if each.heads is None:
            raise UserError(f"{place}: expected heads{f' ({caption})' if caption else ''}, found none.")
        check_tree(each.heads, place, words=each.words)
    return Trees(place, tuple(named))


def trees_html(drawn: Sequence[Trees], *, title: str) -> str:
    """A page that needs nothing else, with one figure a sentence; long ones are scrolled sideways."""
    pictures = [_standing_alone(stacked(trees, number)) for number, trees in enumerate(drawn)]
    figures = [
        f"<figure>\n<figcaption>{escape(trees.place)}</figcaption>\n{picture}\n</figure>"
        for trees, picture in zip(drawn, pictures, strict=True)
    ]
    return _PAGE.format(title=escape(title), font=_FONT, figures="\n".join(figures))


def trees_svg(drawn: Sequence[Trees]) -> str:
    """One picture of all sentences, each below its place."""
    parts = list[Drawing]()
    for number, trees in enumerate(drawn):
        parts.extend((_caption(trees.place, bold=True), stacked(trees, number)))
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{_standing_alone(_below_each_other(parts))}\n'


def stacked(trees: Trees, number: int) -> Drawing:
    """A sentence's trees below each other, word under word.

    Args:
        trees: of one sentence.
        number: sets its parts' names apart from those of other sentences on a page.
    """
    distance = _word_distance([sentence for _, sentence in trees.named])
    parts = list[Drawing]()
    for index, (caption, sentence) in enumerate(trees.named):
        parts.extend([_caption(caption)] if caption else [])
        parts.append(tree_picture(sentence, distance=distance, name=f"tree-{number}-{index}"))
    return _below_each_other(parts)


def tree_picture(sentence: Sentence, *, distance: int, name: str) -> Drawing:
    """A sentence and its arcs from heads to dependents, as displaCy draws them in its compact way, cut to size.

    Args:
        sentence: with heads.
        distance: pixels between two words.
        name: begins the names of its parts, which no other picture on a page may have.
    """
    from spacy.displacy.render import DependencyRenderer

    assert sentence.heads is not None
    size = {"distance": distance, "offset_x": distance // 2, "word_spacing": _WORD_DROP}
    renderer = DependencyRenderer({**size, "compact": True, "font": _FONT, "bg": "none"})
    words = [
        {"text": _NOT_IN_XML.sub("\ufffd", word), "tag": "root" if head == 0 else ""}
        for word, head in zip(sentence.words, sentence.heads, strict=True)
    ]
    arcs = _arcs(sentence)
    levels = max(renderer.get_levels(arcs).values(), default=0)
    # lower arcs end further to the left, at most a quarter of the way to the word before
    renderer.arrow_spacing = min(renderer.arrow_spacing, distance / max(levels, 1))
    svg = cast(str, renderer.render_svg(name, words, arcs))
    svg = _BETWEEN_TAGS.sub("><", svg).replace(*_LABELS_ABOVE_ARCS).strip()
    highest = renderer.offset_y - levels * distance / 6  # the rest above is left empty
    top, bottom = highest - _LABEL, renderer.offset_y + _WORD_DROP + _TAG_DROP + _MARGIN
    width, height = float(len(words) * distance), bottom - top
    cut = f'<svg width="{width:g}" height="{height:g}" viewBox="0 {top:g} {width:g} {height:g}">{svg}</svg>'
    return Drawing(cut, width, height)


def _arcs(sentence: Sentence) -> list[dict[str, object]]:
    labels = _labels(sentence)
    return [
        {
            "start": min(word, head) - 1,
            "end": max(word, head) - 1,
            "label": escape(_NOT_IN_XML.sub("\ufffd", label)),
            "dir": "left" if word < head else "right",
        }
        for word, (head, label) in enumerate(zip(sentence.heads or (), labels, strict=True), start=1)
        if head > 0
    ]


def _labels(sentence: Sentence) -> Sequence[str]:
    """The relations, or nothing where they tell no more than the arcs."""
    if sentence.relations is None or set(sentence.relations) <= {"root", "dep", "_"}:
        return ("",) * len(sentence)
    return sentence.relations


def _word_distance(sentences: Sequence[Sentence]) -> int:
    """Room enough between words for the longest word, and for the longest label over two neighbours."""
    word = max(len(word) for sentence in sentences for word in sentence.words)
    label = max(len(label) for sentence in sentences for label in _labels(sentence))
    return int(max(100 if label else 70, _LETTER * word + 14, _LABEL_LETTER * label + 36))


def _caption(text: str, *, bold: bool = False) -> Drawing:
    weight = ' font-weight="bold"' if bold else ""
    shown = escape(_NOT_IN_XML.sub("\ufffd", text))
    svg = f'<text x="{_MARGIN}" y="17" font-family="{_FONT}" font-size="14"{weight}>{shown}</text>'
    return Drawing(svg, 2 * _MARGIN + _LABEL_LETTER * len(text), _CAPTION)


def _below_each_other(parts: Sequence[Drawing]) -> Drawing:
    lines, y = list[str](), 0.0
    for part in parts:
        lines.append(f'<g transform="translate(0 {y:g})">{part.svg}</g>')
        y += part.height
    return Drawing("\n".join(lines), max(part.width for part in parts), y)


def _standing_alone(picture: Drawing) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'width="{picture.width:g}" height="{picture.height:g}" style="background: #ffffff">\n{picture.svg}\n</svg>'
    )
