"""Figure 5 of Shen et al. (2022): how closely each attention head goes with each dependency relation."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from depgen.data.corpus import Corpus, Split
from depgen.evaluation.reading import in_form
from depgen.evaluation.trained import load_trained
from depgen.evaluation.trees.correlations import (
    Direction,
    HeadCorrelations,
    choose_relations,
    correlations_of,
    sentences_with_relations,
)
from depgen.reporting.pictures.plotting import check_picture, figure, save
from depgen.trees.text_form import FormName

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_heat_map(
    corpus: Corpus,
    *,
    run: str | None = None,
    split: Split = "test",
    relations: Sequence[str] = (),
    after_mask: bool = False,
    form: FormName | None = None,
    device: str | None = None,
    output: Path = Path("heat-map.png"),
) -> str:
    """Where the picture went: Pearson's correlation of each head with each relation, in both directions.

    Relations are sorted by frequency, heads by layer; the head of a relation's highest value has a dot.

    Args:
        corpus: a treebank with relations; its name says where it was brought into another form.
        run: a run folder (its best checkpoint) or a checkpoint file; by default the newest run.
        split: of the treebank.
        relations: which; by default all.
        after_mask: take the weights that values are summed by, not those before a mask between words.
        form: what the treebank is brought into: by default the form of the text that the run has learnt from, in which
            a treebank that has it already stays as it is; `bare`, `ptb`, `stories`, `lower`, or `as_is` for none
            (`depgen.trees.text_form`). Words that the form lacks, such as punctuation, are left out, and what hung on
            one hangs on its nearest ancestor that stays.
        device: cpu, cuda, …; by default a GPU where there is one.
        output: the picture; its name ends in .png, .pdf or .svg.

    Raises:
        UserError: no such run or relation, a treebank without relations, a model that shows no attention, or no
            matplotlib.
    """
    check_picture(output)
    trained = load_trained(run, device=device, form=form)
    corpus = in_form(corpus, trained.reading)
    sentences = sentences_with_relations(corpus, split)
    found = correlations_of(trained, sentences)
    shown = choose_relations(found.relations, relations or found.relations)
    save(heat_map_figure(found, shown, after_mask=after_mask), output)
    edges = sum(found.edges)
    unknown = f"{100 * found.unknown_words:.1f} % of the words are unknown to the model"
    return f"{output}: {len(shown)} relations, {edges} edges of {len(sentences)} sentences of {corpus.name}; {unknown}."


def heat_map_figure(found: HeadCorrelations, relations: Sequence[str], *, after_mask: bool = False) -> "Figure":
    """One panel a direction: relations downwards, heads from left to right, layer by layer."""
    layers, attention_heads = found.of().shape[:2]
    width, height = 2 * max(2.2, 0.13 * layers * attention_heads) + 2.6, max(2.4, 0.17 * len(relations) + 1.4)
    drawing = figure(width, height)
    columns = [found.relations.index(relation) for relation in relations]
    panels = {
        direction: found.of(direction, after_mask=after_mask)[..., columns].flatten(0, 1).T
        for direction in get_args(Direction)
    }
    limit = max(float(values.abs().max()) for values in panels.values()) or 1.0
    all_axes = drawing.subplots(1, len(panels), sharey=True)
    for axes, (direction, values) in zip(all_axes, panels.items(), strict=True):
        image = axes.imshow(values.numpy(), cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
        best = values.argmax(1).tolist()
        axes.plot(best, range(len(best)), "o", color="black", markeredgecolor="white", markersize=3.5)
        _name_layers(axes, layers, attention_heads)
        axes.set_title(direction.replace("_", " "), fontsize=10)
    edges = [f"{relation}  {found.edges[column]}" for relation, column in zip(relations, columns, strict=True)]
    all_axes[0].set_yticks(range(len(relations)), edges, fontsize=7)
    scale = drawing.colorbar(image, ax=list(all_axes), fraction=0.03, pad=0.01)
    stage = "after" if after_mask else "before"
    scale.set_label(f"Pearson's correlation, weights {stage} the mask", fontsize=8)
    scale.ax.tick_params(labelsize=7)
    return drawing


def _name_layers(axes: "Axes", layers: int, attention_heads: int) -> None:
    """A line between layers, and each one's number under its heads."""
    for layer in range(1, layers):
        axes.axvline(layer * attention_heads - 0.5, color="black", linewidth=0.5)
    middles = [(layer + 0.5) * attention_heads - 0.5 for layer in range(layers)]
    axes.set_xticks(middles, [str(layer) for layer in range(layers)], fontsize=8)
    axes.tick_params(axis="x", length=0)
    axes.set_xlabel(f"layer, {attention_heads} heads each", fontsize=8)
