"""Plots of what systems do with sentences: surprisal, attention, and the trees and graphs that they find."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from html import escape
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from depgen.data.corpus import Corpus, Split, form_of
from depgen.data.tokenization import Tokens
from depgen.errors import UserError
from depgen.evaluation.activations import BEGIN
from depgen.evaluation.correlations import CorrelationOptions, correlations
from depgen.evaluation.parsing import SystemParser
from depgen.evaluation.reading import warn_of_another_form
from depgen.evaluation.system import load
from depgen.evaluation.text_documents import document_of
from depgen.locations import write_atomically
from depgen.reporting.jobs import chosen_run, picture_path
from depgen.reporting.plots import check_name, figure, save
from depgen.trees.annotator import Structure
from depgen.trees.conllu import read_conllu
from depgen.trees.sdp import read_sdp
from depgen.trees.sentence import Document, Edge, Sentence, check_tree
from depgen.trees.text_files import format_of
from depgen.trees.text_form import FormName

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

# -- surprisal ----------------------------------------------------------------------------------------------------


def plot_surprisal(
    runs: Sequence[str], sentences: Sequence[str], *, tokens: Tokens | None = None, output: Path = Path("surprisal.png")
) -> str:
    """Where the plot of the surprisal of each word went: a panel a run, a colour a sentence, such as a minimal pair's.

    Args:
        runs: runs, or folders of pretrained models.
        sentences: a few lines, which share most of their words.
        tokens: words of the sentences are separated by white space, or by `rules` for English. Unset: as in each run's
            corpus.
        output: the plot, .png, .pdf or .svg.
    """
    check_name(output)
    scores = {run: load(run, device="cpu").score(list(sentences), tokens=tokens) for run in runs}
    save(surprisal_figure(scores, sentences), output)
    return f"{output}: {len(sentences)} sentences, {', '.join(scores)}."


def surprisal_figure(scores: Mapping[str, "DataFrame"], sentences: Sequence[str]) -> "Figure":
    """Bars of the words' surprisals, grouped by position; a legend with the sum of each sentence.

    Args:
        scores: by the name of the panel, frames of words as `System.score` gives them, a document a sentence.
        sentences: how the legend names them.
    """
    longest = max(frame.groupby("document").size().max() for frame in scores.values())
    drawing = figure(max(4.0, 0.5 * longest + 1), 2.6 * len(scores))
    panels = drawing.subplots(len(scores), 1, sharey=True, squeeze=False)[:, 0]
    for axes, (run, frame) in zip(panels, scores.items(), strict=True):
        places, labels = frame.groupby("document").cumcount(), dict[int, list[str]]()
        width = 0.8 / len(sentences)
        for number, (_, words) in enumerate(frame.groupby("document", sort=False)):
            left = places[words.index] + width * (number - (len(sentences) - 1) / 2)
            total = f"{sentences[number]} ({words['surprisal'].sum():.1f})"
            axes.bar(left, words["surprisal"], width, label=total)
            for place, word in zip(places[words.index], words["word"], strict=True):
                labels.setdefault(place, []).append(word)
        axes.set_xticks([*labels], ["\n".join(dict.fromkeys(words)) for words in labels.values()])
        axes.set_ylabel(f"surprisal in {frame['unit'].iloc[0]}")
        axes.set_title(f"{run} ({frame['likelihood'].iloc[0]})", fontsize=10)
        axes.margins(y=0.3)  # for the legend
        axes.legend(fontsize=8, loc="upper left")
    return drawing


# -- attention ----------------------------------------------------------------------------------------------------

SENTENCE = "red figures on the screen indicate falling stocks ."


def plot_attention(
    run: str | None = None,
    sentence: str = SENTENCE,
    *,
    table: str | None = None,
    row: str | None = None,
    size: str | None = None,
    layer: int | None = None,
    attention_head: int | None = None,
    tokens: Tokens | None = None,
    output: Path | None = None,
) -> str:
    """Where the plot went: one row for each predicted token, over BOS and the tokens before it.

    Figures 3 of Yang & Wan (2022) and of Huang et al. (2026). Drawn is dependency attention of models that have it,
    unless a layer or an attention head is named; else self-attention. Of models that search for a structure, it is that
    with the likeliest one.

    Args:
        run: a run; unset: that of `--table`, else the newest run.
        sentence: one line, by default that of Yang & Wan.
        table: the table whose trained system is drawn, instead of a run.
        row: which system; unset: DM-Transformer.
        size: at which it was trained; unset: `small`, or the only one of the table.
        layer: of self-attention, from 0; negative from the top. Unset: the last.
        attention_head: of self-attention, from 0. Unset: the mean over all.
        tokens: words of the sentence are separated by white space, or by `rules` for English. Unset: as in the run's
            corpus.
        output: the plot, .png, .pdf or .svg; unset: `attention.png`, of a table `results/<table>/attention-<row>.png`.
    """
    usual = "DM-Transformer"
    system = load(chosen_run(run, table, row=row, size=size, usual=usual), device="cpu")
    path = output or picture_path("attention.png", table, row=row or usual)
    check_name(path)
    attention = system.attention(sentence, layer=layer, attention_head=attention_head, tokens=tokens)
    save(attention_figure(attention), path)
    unknown = attention.drop_duplicates("position")["unknown"]
    outside = f" {unknown.sum()} of its {len(unknown)} tokens are unknown to the model." if unknown.any() else ""
    return f"{path}: {attention.attrs['kind']} attention over {len(unknown)} predictions.{outside}"


def attention_figure(attention: "DataFrame") -> "Figure":
    """The heat map of a frame of `System.attention`; nothing is drawn over tokens that come later."""
    by_position = attention.drop_duplicates("position").set_index("position")
    words = by_position["word"] + by_position["unknown"].map({True: " (unk)", False: ""})
    weights = attention.pivot(index="position", columns="context_position", values="weight")
    context = words.reindex(weights.columns, fill_value=BEGIN)
    size = max(3.0, 0.55 * len(words) + 1.5)
    drawing = figure(size + 0.8, size)
    axes = drawing.add_subplot()
    image = axes.imshow(weights, cmap="Blues", vmin=0.0)
    axes.set_xticks(range(len(context)), context, rotation=60, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(words)), words)
    axes.set_xlabel("context")
    axes.set_ylabel("predicted token" if context.iloc[0] == BEGIN else "word")
    drawing.colorbar(image, ax=axes, shrink=0.8, label="weight of the context token")
    return drawing


# -- attention heads and relations --------------------------------------------------------------------------------


def plot_heat_map(
    *,
    run: str | None = None,
    form: FormName | None = None,
    device: str | None = None,
    output: Path = Path("heat-map.png"),
    **options: Any,  # noqa: ANN401
) -> str:
    """Where the plot went: Pearson's correlation of each head with each relation, in both directions.

    Figure 5 of Shen et al. (2022). Weights are those before a mask between words. Relations are sorted by frequency,
    heads by layer; the head of a relation's highest value has a dot.

    Args:
        run: a run folder (its best checkpoint) or a checkpoint file; by default the newest run.
        form: what the treebank is brought into, as in `depgen evaluate`.
        device: cpu, cuda, …; by default a GPU where there is one.
        output: the plot; its name ends in .png, .pdf or .svg.
        options: of the measure `correlations`.
    """
    check_name(output)
    chosen = CorrelationOptions(**options)
    measured = correlations(load(run, device=device, form=form), chosen)
    stage = "after" if chosen.after_mask else "before"
    save(heat_map_figure(measured.items, label=f"Pearson's correlation, weights {stage} the mask"), output)
    row = measured.rows.iloc[0]
    return (
        f"{output}: {measured.rows['name'].nunique()} relations, {row['sentences']} sentences of {row['corpus']}; "
        f"{row['unknown']:.1f} % of the words are unknown to the model."
    )


def heat_map_figure(correlations: "DataFrame", *, label: str) -> "Figure":
    """One panel a direction: relations downwards, heads from left to right, layer by layer.

    Args:
        correlations: the items of the measure.
        label: of the colours.
    """
    layers, heads = (int(correlations[name].max()) + 1 for name in ("layer", "attention_head"))
    names = correlations.drop_duplicates("relation")
    width, height = 2 * max(2.2, 0.13 * layers * heads) + 2.6, max(2.4, 0.17 * len(names) + 1.4)
    drawing = figure(width, height)
    limit = float(correlations["correlation"].abs().max()) or 1.0
    panels = drawing.subplots(1, 2, sharey=True)
    for axes, (direction, own) in zip(panels, correlations.groupby("direction", sort=False), strict=True):
        values = own["correlation"].to_numpy().reshape(len(names), layers * heads)
        image = axes.imshow(values, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
        axes.plot(values.argmax(1), range(len(names)), "o", color="black", markeredgecolor="white", markersize=3.5)
        for layer in range(1, layers):
            axes.axvline(layer * heads - 0.5, color="black", linewidth=0.5)
        axes.set_xticks([(layer + 0.5) * heads - 0.5 for layer in range(layers)], map(str, range(layers)), fontsize=8)
        axes.tick_params(axis="x", length=0)
        axes.set_xlabel(f"layer, {heads} heads each", fontsize=8)
        axes.set_title(str(direction).replace("_", " "), fontsize=10)
    labels = [f"{relation}  {edges}" for relation, edges in zip(names["relation"], names["edges"], strict=True)]
    panels[0].set_yticks(range(len(names)), labels, fontsize=7)
    scale = drawing.colorbar(image, ax=[*panels], fraction=0.03, pad=0.01)
    scale.set_label(label, fontsize=8)
    scale.ax.tick_params(labelsize=7)
    return drawing


# -- trees and graphs -------------------------------------------------------------------------------------------------

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title></head><body>
{picture}</body></html>
"""


def plot_trees(
    files: Sequence[Path] = (),
    *,
    corpus: Corpus | None = None,
    split: Split = "test",
    run: str | None = None,
    sentence: str | None = None,
    tokens: Tokens | None = None,
    attention_head: tuple[int, int] | None = None,
    structure: Structure | None = None,
    table: str | None = None,
    row: str | None = None,
    size: str | None = None,
    first: int = 1,
    number: int = 10,
    output: Path | None = None,
) -> str:
    """Where the plot went: the trees or graphs of sentences, those of a second file or of a run below the first ones.

    Drawn by spaCy's displaCy. Labels are relations; a tree of nothing but `root` and `dep` has none. The root is named
    below its word.

    Args:
        files: CoNLL-U or SDP, with the gold trees or graphs; and a second file with those of the same sentences to set
            below them.
        corpus: where the sentences come from in place of a file, with trees or without.
        split: of the corpus.
        run: a run whose trees or graphs are set below, or drawn alone where there are no gold ones. Words that it does
            not read, such as punctuation, depend on the word before in a tree, and have no arcs in a graph.
        sentence: what a run parses, in place of a file or corpus; each line is a sentence.
        tokens: (sentence) words are separated by white space, or by `rules` for English; by default as in the run's
            corpus.
        attention_head: `[layer,head]` that a masked Transformer parses by, both 0-based.
        structure: whether trees or graphs are drawn: DEPS of CoNLL-U, or the graphs of a corpus; by default what the
            run gives, and without one graphs of SDP and trees of others.
        table: the table whose trained system is the run.
        row: which system of the table; unset: UDGN.
        size: at which it was trained; unset: `small`, or the only one of the table.
        first: the number of the first sentence to be drawn.
        number: how many are drawn.
        output: `.html` or `.svg`; unset: `trees.html`, of a table `results/<table>/trees-<row>.svg`.
    """
    path = output or picture_path("trees.html" if table is None else "trees.svg", table, row=row or "UDGN")
    check_name(path, (".html", ".svg"))
    run = chosen_run(run, table, row=row, size=size, usual="UDGN")
    sources = bool(files) + (corpus is not None) + (sentence is not None)
    if sources != 1 or len(files) + (run is not None) > 2 or (sentence is not None and run is None):
        raise UserError(
            "Name one file of gold trees, --corpus or (with --run) --sentence, and for the trees to set below them a "
            "second file or --run."
        )
    parser, of_graphs = None, any(format_of(file) == "sdp" for file in files)
    if run is not None:
        system = load(run)
        if corpus is not None and form_of(corpus) not in (None, "lower"):  # normalised already
            warn_of_another_form(system.reading.form, corpus)
            system = replace(system, reading=replace(system.reading, form="as_is"))
        parser = SystemParser([system], attention_head=attention_head)
        of_graphs = parser.structure == "graph"
    structure = structure or ("graph" if of_graphs else "tree")
    if sentence is not None:
        origin, documents = (
            "sentence",
            iter([Document(document_of(sentence, tokens=tokens or system.reading.tokens).sentences, "text")]),
        )
    elif corpus is not None:
        origin, documents = f"{corpus.name}, {split}", corpus.documents(split)
    else:
        origin, documents = str(files[0]), _read(files[0], structure)
    chosen = _sentences(documents, origin, first, number)
    if not chosen:
        raise UserError(f"{origin}: there is no sentence {first}.")
    above, below, others = "", "", list[Sentence]()
    if parser is not None:
        above, below, others = "gold", "induced", parser.annotate([gold for _, gold in chosen])
    elif len(files) == 2:
        above, below = "gold", "predicted"
        others = [other for _, other in _sentences(_read(files[1], structure), str(files[1]), first, number)]
    drawings = list[tuple[str, str]]()
    for (place, gold), other in zip_longest(chosen, others[: len(chosen)]):
        if parser is None or _edges(gold, structure) is not None:
            drawings.append(drawing_of(place, gold, structure, name=above))
        if other is not None:
            if parser is None and other.words != gold.words:
                raise UserError(f"{place}: expected its words in {files[1]} too, found {' '.join(other.words)!r}.")
            drawings.append(drawing_of(place, other, structure, name=below))
        elif others:
            raise UserError(f"{place}: {files[1]} has no such sentence.")
    picture = svg_of(drawings)
    if path.suffix.lower() == ".html":
        picture = _PAGE.format(title=escape(origin), picture=picture)
    write_atomically(path, picture)
    return f"{path}: {structure}s of {len(chosen)} sentences of {origin}."


def _read(path: Path, structure: Structure) -> Iterator[Document]:
    if format_of(path) == "sdp":
        return read_sdp(path)
    return read_conllu(path, by_document=False, graphs=structure == "graph")


def _sentences(documents: Iterator[Document], origin: str, first: int, number: int) -> list[tuple[str, Sentence]]:
    """Some successive sentences, each with its place."""
    sentences = ((document.identifier, sentence) for document in documents for sentence in document.sentences)
    return [
        (f"{origin}, sentence {place} ({identifier})", sentence)
        for place, (identifier, sentence) in islice(enumerate(sentences, start=1), first - 1, first - 1 + number)
    ]


def drawing_of(place: str, sentence: Sentence, structure: Structure = "tree", *, name: str = "") -> tuple[str, str]:
    """The caption of a sentence's tree or graph, and its picture as SVG."""
    edges, caption = _edges(sentence, structure), f"{place}: {name}" if name else place
    if edges is None:
        raise UserError(
            f"{caption}: expected {'heads' if structure == 'tree' else 'a graph'}, found none. Draw other sentences "
            "(--first), or leave those of a corpus out by the step depgen.data.steps.WithTreesOnly."
        )
    if structure == "tree" and sentence.heads is not None:
        check_tree(sentence.heads, place, words=sentence.words)
    return caption, dependency_svg(sentence.words, edges)


def _edges(sentence: Sentence, structure: Structure) -> tuple[Edge, ...] | None:
    """The arcs of a sentence's tree or graph; None where it has none.

    A tree of nothing but `root` and `dep` has no other labels.
    """
    if structure == "graph" or sentence.heads is None:
        return sentence.edges if structure == "graph" else None
    relations = sentence.relations
    if relations is None or {*relations} <= {"root", "dep", "_"}:
        relations = ("",) * len(sentence)
    arcs = zip(sentence.heads, relations, strict=True)
    return tuple((head, word, label if head else "root") for word, (head, label) in enumerate(arcs, start=1))


def dependency_svg(words: Sequence[str], edges: Sequence[Edge]) -> str:
    """Words with the arcs between them, drawn by displaCy; roots and self-loops are written under their word.

    Of two opposite arcs with one label, which displaCy would draw over each other, one is drawn and marked by `↔`.
    """
    from spacy import displacy

    notes: list[list[str]] = [[] for _ in words]
    arcs = dict[tuple[int, int, str], set[str]]()
    for head, dependent, label in edges:
        if head in (0, dependent):
            notes[dependent - 1].append(f"itself: {label}" if head else label)
        else:
            start, end = sorted((head - 1, dependent - 1))
            arcs.setdefault((start, end, label), set()).add("right" if head < dependent else "left")
    drawn = {
        "words": [{"text": word, "tag": escape(", ".join(below))} for word, below in zip(words, notes, strict=True)],
        "arcs": [
            {
                "start": start,
                "end": end,
                "label": escape(f"{label} ↔" if len(directions) == 2 else label),
                "dir": min(directions),
            }
            for (start, end, label), directions in sorted(arcs.items())
        ],
    }
    widest = max(len(text) for text in (*words, *(label for _, _, label in arcs)))
    options = {"distance": max(90, 10 * widest + 20)}  # letters of displaCy's 16 pixels are about 9 pixels wide
    return str(displacy.render(drawn, style="dep", manual=True, jupyter=False, options=options))


def svg_of(drawings: Sequence[tuple[str, str]]) -> str:
    """Pictures below each other in one, each under its caption."""
    parts, widest, height = list[str](), 0.0, 0.0
    for caption, svg in drawings:
        opening = svg[: svg.index(">")]
        of_picture = {name: float(opening.split(f' {name}="')[1].split('"')[0]) for name in ("width", "height")}
        parts.append(f'<text x="10" y="{height + 24}" font-family="Arial" font-weight="bold">{escape(caption)}</text>')
        parts.append(svg.replace("<svg ", f'<svg y="{height + 30}" ', 1))
        widest = max(widest, of_picture["width"], 9.0 * len(caption) + 20)
        height += 30 + of_picture["height"]
    size = f'width="{widest:g}" height="{height:g}" viewBox="0 0 {widest:g} {height:g}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n' + "\n".join(parts) + "\n</svg>\n"
