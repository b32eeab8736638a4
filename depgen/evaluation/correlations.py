"""Which attention head goes with which dependency relation: Eq. 16, Tables 3 and 7 of Shen et al. (2022).

Every gold edge of a treebank is a data point, roots left out. Sentences are read whole, none of their words masked. A
head's weight from child to parent is that of the query at the parent and the key at the child (Table 3), from parent
to child the other way round (Table 7), before the mask between words (Eq. 12 and 13, the paper's) or after it, where
the authors' last code looks. That code returns the mean weight over a relation's edges in place of a correlation, from
parent to child; it has roots as edges from a word to itself, which changes the figure of the relation `root` alone.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from depgen.data.batch import WordBatch
from depgen.data.corpus import Corpus, Split
from depgen.data.experiment import data_of
from depgen.errors import UserError
from depgen.evaluation.measure import Measured
from depgen.evaluation.reading import in_form
from depgen.evaluation.trained import Trained
from depgen.evaluation.treebank import gold_sentences
from depgen.evaluation.unit_scores import sentence_batches
from depgen.language_models.masked import LayerAttention, MaskedLanguageModel
from depgen.metrics.precise import PreciseMetric
from depgen.models.udgn import UDGN
from depgen.nn.precise import precise
from depgen.trees.sentence import Sentence

DIRECTIONS = ("child_to_parent", "parent_to_child")
TOKENS_PER_BATCH = 2048
"""How many are read at once; no number depends on it."""


@dataclass(frozen=True)
class CorrelationOptions:
    """The options of `correlations`.

    Attributes:
        corpus: a treebank with relations; see `ParsingOptions`.
        splits: parts of the treebank, taken together.
        relations: which; by default all.
        after_mask: take the weights that values are summed by, not those before a mask between words.
    """

    corpus: Corpus
    splits: Sequence[Split] = ("test",)
    relations: Sequence[str] = ()
    after_mask: bool = False


def correlations(system: Trained, options: CorrelationOptions) -> Measured:
    """Pearson's correlation of each relation with what attention heads weigh at edges, over all edges of a treebank.

    An item is an attention head and a relation in a direction; `mean_weight` over the relation's edges is what the
    authors' last code returns. A row is the head of a relation's highest correlation, the lowest and first of equals.
    Relations are in the order of their frequency; layers and heads are counted from 0, layers from the lowest. Where a
    head's weights are constant the correlation is 0.
    """
    corpus = in_form(options.corpus, system.reading)
    sentences = gold_sentences(corpus, options.splits, relations=True)
    along = sentences
    if isinstance(system.model, UDGN) and system.model.mask_from == "trees":  # read as the run has learnt to
        along = data_of(system.run / "config.yaml").annotator.annotate(sentences)
    items, unknown = head_correlations(system, sentences, along, after_mask=options.after_mask)
    known = [*items["relation"].unique()]
    if lacking := [relation for relation in options.relations if relation not in known]:
        raise UserError(f"The treebank has no relation {lacking[0]!r}; it has {', '.join(known)}.")
    items = items[items["relation"].isin(options.relations or known)].reset_index(drop=True)
    best = items.loc[items.groupby(["direction", "relation"], sort=False)["correlation"].idxmax()]
    rows = best.rename(columns={"direction": "level", "relation": "name"}).assign(
        unknown=unknown, corpus=corpus.name, splits="+".join(options.splits), sentences=len(sentences)
    )
    return Measured(items, rows.reset_index(drop=True))


def head_correlations(
    system: Trained, sentences: Sequence[Sentence], along: Sequence[Sentence], *, after_mask: bool = False
) -> tuple[pd.DataFrame, float]:
    """The items of `correlations`, in one pass, and the share of words that the system does not know, per cent.

    Args:
        system: a masked language model.
        sentences: with heads and relations.
        along: the same sentences with the trees that the model reads them by, where it needs such.
        after_mask: see `CorrelationOptions`.
    """
    model = system.model
    if not isinstance(model, MaskedLanguageModel):
        raise UserError(f"{type(model).__name__} is no masked language model: name a run of UDGN or its baselines.")
    relations_of = [_relations(sentence) for sentence in sentences]
    edges = Counter(relation for own in relations_of for relation in own)
    relations = sorted(edges, key=lambda relation: (-edges[relation], relation))
    metric: RelationCorrelation | None = None
    unknown = words = 0
    batches, read_along = (
        sentence_batches(system.vocabulary, each, tokens_per_batch=TOKENS_PER_BATCH) for each in (sentences, along)
    )
    for cpu_batch, trees in zip(batches, read_along, strict=True):
        batch, heads = cpu_batch.to(model.device), trees.to(model.device).heads
        assert isinstance(batch, WordBatch)
        assert batch.heads is not None
        with torch.inference_mode():
            attention = model.encode(batch.tokens, batch.lengths, heads=heads, attention=True).attention
            if attention is None:
                raise UserError(f"{type(model).__name__} does not show what its attention heads weigh.")
            weights = edge_weights(attention, batch.heads, after_mask=after_mask)
            metric = metric or RelationCorrelation(weights.shape[1:], len(relations)).to(model.device)
            numbers = [relations.index(each) for item in cpu_batch.items.tolist() for each in relations_of[item]]
            metric.update(weights, torch.tensor(numbers, dtype=torch.int64, device=model.device))
        unknown += int((batch.is_word & (batch.tokens == batch.unk)).sum())
        words += int(batch.lengths.sum())
    assert metric is not None
    values = {name: value.movedim(-1, 1).cpu().numpy() for name, value in metric.compute().items()}
    _, _, layers, attention_heads = values["pearson"].shape
    places = [DIRECTIONS, relations, range(layers), range(attention_heads)]
    items = pd.MultiIndex.from_product(places, names=["direction", "relation", "layer", "attention_head"]).to_frame(
        index=False
    )
    items.insert(2, "edges", items["relation"].map(edges))
    return (
        items.assign(correlation=values["pearson"].ravel(), mean_weight=values["mean_weight"].ravel()),
        100 * unknown / words,
    )


def edge_weights(
    attention: Sequence[LayerAttention], heads: Int[Tensor, "batch length"], *, after_mask: bool
) -> Float[Tensor, "edges directions layers attention_heads"]:
    """What each head weighs at every edge, sentence by sentence in the order of the dependents.

    Directions are child to parent (the query is the parent) and parent to child.
    """
    rows, children = (heads > 0).nonzero(as_tuple=True)
    parents = heads[rows, children] - 1
    layers = [layer.after if after_mask else layer.before for layer in attention]
    both_ways = ((parents, children), (children, parents))
    return torch.stack(
        [torch.stack([weights[rows, :, query, key] for weights in layers], 1) for query, key in both_ways], 1
    )


def _relations(sentence: Sentence) -> list[str]:
    """Those of the words that have a head among the words."""
    pairs = zip(sentence.heads or (), sentence.relations or (), strict=True)
    return [relation for head, relation in pairs if head > 0]


# -- sums over edges --------------------------------------------------------------------------------------------------

CONSTANT = 1e-12
"""A series whose variance is at most this share of its mean square varies by rounding alone."""


class RelationCorrelation(PreciseMetric):
    """Series of edge weights against the relations of these edges, over all edges seen, on all devices.

    One pass; sums are kept in float64 and counts in int64, so that no figure depends on how edges are batched.

    Args:
        series: the shape of what is weighed at an edge, such as layers and heads.
        relations: how many there are.
    """

    is_differentiable = False
    full_state_update = False

    weights: Tensor
    squares: Tensor
    counts: Tensor
    products: Tensor

    def __init__(self, series: Sequence[int], relations: int) -> None:
        super().__init__()
        shape = tuple(series)
        for name, size in (("weights", shape), ("squares", shape), ("products", (relations, *shape))):
            self.add_state(name, torch.zeros(size, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("counts", torch.zeros(relations, dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, weights: Float[Tensor, "edges *series"], relations: Int[Tensor, " edges"]) -> None:
        """Add edges: what each series weighs at them, and the number of their relation."""
        exact = precise(weights)
        relations = relations.to(exact.device)
        self.weights += exact.sum(0)
        self.squares += exact.square().sum(0)
        self.counts += torch.bincount(relations, minlength=len(self.counts))
        self.products.index_add_(0, relations, exact)

    def compute(self) -> dict[str, Tensor]:
        """`pearson` (Eq. 16) and `mean_weight` (the authors' code's), series by relation, float64.

        A correlation is 0 where a series is constant, or a relation is that of no edge or of all; the mean of a
        relation without edges is 0.
        """
        products, edges = self.products.movedim(0, -1), self.counts.sum()
        spread = edges * self.squares - self.weights.square()
        spread = spread.masked_fill(spread <= CONSTANT * edges * self.squares, 0)[..., None]
        share = (self.counts * (edges - self.counts)).double()
        covariance = edges * products - self.weights[..., None] * self.counts
        scale = (spread * share).sqrt()
        return {
            "pearson": torch.where(scale > 0, covariance / scale, 0.0).clamp(-1, 1),
            "mean_weight": products / self.counts.clamp_min(1),
        }
