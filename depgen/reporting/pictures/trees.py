"""Dependency trees and graphs as pictures, the gold one above the other: Appendix A.5 of Shen et al. (2022)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from html import escape
from itertools import islice, zip_longest
from pathlib import Path

from depgen.data.corpus import Corpus, Split, form_of
from depgen.errors import UserError
from depgen.evaluation.reading import warn_of_another_form
from depgen.evaluation.system import load
from depgen.evaluation.text_documents import Tokens, document_of
from depgen.evaluation.trees.graph_parser import GraphParser, parser_of_system
from depgen.evaluation.trees.induced_parser import SystemParser
from depgen.locations import write_atomically
from depgen.reporting.jobs import chosen_run, picture_path
from depgen.reporting.pictures.arc_picture import arc_picture, edges_of, word_places
from depgen.reporting.pictures.drawing import FONT, Drawing, below_each_other, caption_of, figure_of, fitted, svg_of
from depgen.reporting.pictures.plotting import check_picture, save
from depgen.trees.annotator import Structure
from depgen.trees.conllu import read_conllu
from depgen.trees.punctuation import Punctuation, is_punctuation
from depgen.trees.sdp import read_sdp
from depgen.trees.sentence import Document, Edge, Sentence
from depgen.trees.text_files import format_of
from depgen.trees.text_form import FormName
from depgen.trees.tree import check_tree

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


def draw_trees(
    files: Sequence[Path] = (),
    *,
    corpus: Corpus | None = None,
    split: Split = "test",
    run: str | None = None,
    sentence: str | None = None,
    tokens: Tokens | None = None,
    attention_head: tuple[int, int] | None = None,
    beam_size: int | None = None,
    form: FormName | None = None,
    punctuation: Punctuation | None = None,
    structure: Structure | None = None,
    table: str | None = None,
    row: str | None = None,
    size: str | None = None,
    first: int = 1,
    number: int = 10,
    output: Path | None = None,
) -> str:
    """Where the picture went: the trees of sentences, those of a second file or of a run below the first ones.

    Labels are relations; a tree of nothing but `root` and `dep` has none. The root is named below its word. Where there
    are gold trees, arcs of the other tree are blue if they are right, red and dashed if they are wrong, and grey if
    their word is punctuation, which is not counted. Sentences wider than a page are scaled down to it.

    Args:
        files: CoNLL-U or SDP, with the gold trees or graphs; and a second file with those of the same sentences to set
            below them.
        corpus: where the sentences come from in place of a file, with trees or without.
        split: of the corpus.
        run: a run whose trees or graphs are set below, or drawn alone where there are no gold ones. Words that it does
            not read, such as punctuation, depend on the word before in a tree, and have no arcs in a graph.
        sentence: what a run parses, in place of a file or corpus; each line is a sentence.
        tokens: (sentence) words are separated by white space, the default, or by `rules` for English.
        attention_head: `[layer,head]` that a masked Transformer parses by, both 0-based.
        beam_size: (run of GiLT) hypotheses about the graph of a sentence; by default 20.
        form: what words are brought into before the run reads them: by default the form of the run's corpus, and none
            for a corpus that is already normalised; `bare`, `ptb`, `stories`, `lower`, or `as_is` for none.
        punctuation: what is not counted: words whose gold `relation` is punct, or words of punctuation by their `form`;
            unset: by relation where the gold tree has relations, else by form. The caption says which.
        structure: whether trees or graphs are drawn: DEPS of CoNLL-U, or the graphs of a corpus; by default what the
            run gives, and without one graphs of SDP and trees of others.
        table: the table whose trained system is the run.
        row: which system of the table; unset: UDGN.
        size: at which it was trained; unset: `small`, or the only one of the table.
        first: the number of the first sentence to be drawn.
        number: how many are drawn.
        output: `.html` makes one page, with a figure a sentence; `.svg`, `.pdf` or `.png` one picture; unset:
            `trees.html`, of a table `results/<table>/trees-<row>.svg`.

    Raises:
        UserError: nothing or too much is named, files of different sentences, a file without trees or with what is no
            tree, no such run or one that does not parse, no such sentence.
    """
    path = output or picture_path("trees.html" if table is None else "trees.svg", table, row=row or "UDGN")
    check_picture(path, without_matplotlib=(".html", ".svg"))
    run = chosen_run(run, table, row=row, size=size, usual="UDGN")
    if first < 1 or number < 1:
        raise UserError(f"first and number: expected 1 or more, found {first} and {number}.")
    _check_sources(files, corpus, run, sentence, tokens)
    parser = None
    if run is not None:
        parser = _parser(run, corpus, form=form, attention_head=attention_head, beam_size=beam_size)
    elif (form, attention_head, beam_size) != (None, None, None):
        raise UserError("form, attention_head and beam_size say how a run reads and parses: name one by --run.")
    graphs = isinstance(parser, GraphParser) if parser is not None else any(map(_is_sdp, files))
    given: Structure = "graph" if graphs else "tree"
    if parser is not None and structure not in (None, given):
        raise UserError(f"structure: {structure}, but the run gives {given}s: leave it out, or name another run.")
    structure = structure or given
    if sentence is not None:
        found = document_of(sentence, tokens=tokens or "whitespace").sentences
        origin, documents = "sentence", iter([Document(found, "text")])
    elif corpus is None:
        origin, documents = str(files[0]), _read(files[0], structure)
    else:
        origin, documents = f"{corpus.name}, {split}", corpus.documents(split)
    chosen = list(islice(_numbered(documents, origin), first - 1, first - 1 + number))
    if not chosen:
        raise UserError(f"{origin}: there is no sentence {first}.")
    name, below = "", list[Sentence | None]([None]) * len(chosen)
    if parser is not None:
        name, below = "induced", [*parser.annotate([each for _, each in chosen])]
    elif len(files) == 2:
        name, below = "predicted", [*_same_sentences(files[0], files[1], structure, first=first, number=number)]
    pictures = {
        place: stacked(place, each, other, name=name, by=punctuation, structure=structure)
        for (place, each), other in zip(chosen, below, strict=True)
    }
    _write(pictures, path, title=origin)
    return f"{path}: {structure}s of {len(pictures)} sentences of {origin}."


def _check_sources(
    files: Sequence[Path], corpus: Corpus | None, run: str | None, sentence: str | None, tokens: Tokens | None
) -> None:
    """Raises UserError unless one source of sentences is named, and one of trees to set below at most."""
    if sentence is not None and (files or corpus is not None or run is None):
        raise UserError("--sentence is what a run parses: name it by --run, and neither a file nor --corpus.")
    if sentence is None and tokens is not None:
        raise UserError(f"--tokens {tokens} cuts a --sentence into words, and there is none: leave it out.")
    if sentence is None and (bool(files) == (corpus is not None) or len(files) + (run is not None) > 2):
        raise UserError(
            "Name one file of gold trees, --corpus or --sentence, and for the trees to set below them a second file or "
            "--run."
        )


def _write(pictures: Mapping[str, Drawing], output: Path, *, title: str) -> None:
    """Write the pictures of sentences in the format that the file's name ends in."""
    ending = output.suffix.lower()
    if ending == ".html":
        figures = [
            f"<figure>\n<figcaption>{escape(place)}</figcaption>\n{svg_of(each)}\n</figure>"
            for place, each in pictures.items()
        ]
        write_atomically(output, _PAGE.format(title=escape(title), font=FONT, figures="\n".join(figures)))
    elif ending == ".svg":
        write_svg(pictures, output)
    else:
        save(figure_of(_one_picture(pictures)), output)


def write_svg(pictures: Mapping[str, Drawing], output: Path) -> None:
    """Write one SVG file of pictures, each below its name."""
    write_atomically(output, f'<?xml version="1.0" encoding="UTF-8"?>\n{svg_of(_one_picture(pictures))}\n')


def _one_picture(pictures: Mapping[str, Drawing]) -> Drawing:
    return below_each_other([part for name, each in pictures.items() for part in (caption_of(name, bold=True), each)])


def _read(path: Path, structure: Structure) -> Iterator[Document]:
    if _is_sdp(path):
        return read_sdp(path)
    return read_conllu(path, by_document=False, graphs=structure == "graph")


def _is_sdp(path: Path) -> bool:
    return format_of(path) == "sdp"


def _numbered(documents: Iterator[Document], origin: str) -> Iterator[tuple[str, Sentence]]:
    """Each sentence and its place."""
    number = 0
    for document in documents:
        for sentence in document.sentences:
            number += 1
            yield f"{origin}, sentence {number} ({document.identifier})", sentence


def _parser(
    run: str,
    corpus: Corpus | None,
    *,
    form: FormName | None,
    attention_head: tuple[int, int] | None,
    beam_size: int | None,
) -> SystemParser:
    """The parser of graphs or trees that a run is; without `form`, a corpus that is already normalised stays as it is.

    Raises:
        UserError: there is no such run, it does not parse, or lacks an option.
    """
    system = load(run, form=form)
    if form is None and corpus is not None and form_of(corpus) not in (None, "lower"):
        warn_of_another_form(system.reading.form, corpus)
        system = replace(system, reading=replace(system.reading, form="as_is"))
    return parser_of_system(system, attention_head=attention_head, beam_size=beam_size)


def _same_sentences(gold: Path, other: Path, structure: Structure, *, first: int, number: int) -> Iterator[Sentence]:
    """The second file's sentences, from `first` on.

    Raises:
        UserError: the two files differ in their words up to there, or one has fewer sentences.
    """
    pairs = zip_longest(*(_numbered(_read(path, structure), str(path)) for path in (gold, other)))
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


def stacked(
    place: str,
    sentence: Sentence,
    below: Sentence | None = None,
    *,
    name: str = "",
    by: Punctuation | None = None,
    structure: Structure = "tree",
) -> Drawing:
    """A sentence's trees or graphs below each other, word under word, at most as wide as a page.

    Args:
        place: of the sentence, for messages.
        sentence: with its own tree or graph; one that is `induced` is drawn alone where the sentence has none.
        below: the sentence with the other one; its caption says how far it agrees.
        name: of the other one.
        by: what punctuation is told by, which counts neither as right nor as wrong.
        structure: whether trees or graphs are drawn.

    Raises:
        UserError: there is no tree or graph where one is expected, or no relation to tell punctuation by.
    """
    trees = {"": sentence} if below is None else {"gold": sentence, name: below}
    if name == "induced" and not _has(sentence, structure):
        del trees["gold"]
    for title, each in trees.items():
        if not _has(each, structure):
            needed = "heads" if structure == "tree" else "a graph"
            of = f" ({title})" if title else ""
            raise UserError(
                f"{place}: expected {needed}{of}, found none. Draw other sentences (--first), or leave "
                "those of a corpus out that have none, by the step depgen.data.steps.WithTreesOnly."
            )
        if structure == "tree" and each.heads is not None:
            check_tree(each.heads, place, words=each.words)
    edges = {title: edges_of(each, structure) for title, each in trees.items()}
    places = word_places(sentence.words, [edge for each in edges.values() for edge in each])
    left_out, parts = list[bool](), list[Drawing]()
    for caption, found in edges.items():
        gold = None if caption == "gold" else edges.get("gold")
        if gold is not None:
            rule = by or ("form" if sentence.relations is None else "relation")
            left_out = is_punctuation(sentence, rule)
            caption += f": {_agreement(gold, found, left_out, structure)}"
            caption += f", without punctuation (by {rule})" if any(left_out) else ""
        parts.extend([caption_of(caption)] if caption else [])
        parts.append(fitted(arc_picture(sentence.words, found, places=places, gold=gold, left_out=left_out)))
    return below_each_other(parts)


def _has(sentence: Sentence, structure: Structure) -> bool:
    return (sentence.heads if structure == "tree" else sentence.edges) is not None


def _agreement(gold: Sequence[Edge], found: Sequence[Edge], left_out: Sequence[bool], structure: Structure) -> str:
    """How many edges of words that count are right, in words; labels don't count."""
    pairs, right = ({edge[:2] for edge in each if not left_out[edge[1] - 1]} for each in (found, gold))
    counts = f"{len(pairs & right)} of {len(pairs)}"
    return f"{counts} heads right" if structure == "tree" else f"{counts} edges right, {len(right)} are gold"
