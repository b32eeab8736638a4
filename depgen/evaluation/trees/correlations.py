"""Which attention head goes with which dependency relation: Eq. 16, Tables 3 and 7 of Shen et al. (2022).

Every gold edge of a treebank is a data point, roots left out. Sentences are read whole, none of their words masked. A
head's weight from child to parent is that of the query at the parent and the key at the child (Table 3), from parent
to child the other way round (Table 7), before the mask between words (Eq. 12 and 13, the paper's) or after it, where
the authors' last code looks. That code returns the mean weight over a relation's edges in place of a correlation, from
parent to child; it has roots as edges from a word to itself, which changes the figure of the relation `root` alone.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from json import dumps
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from depgen.data.batch import WordBatch
from depgen.data.corpus import Corpus, Split
from depgen.data.experiment import data_of
from depgen.data.steps import LEAVE_OUT
from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError
from depgen.evaluation.reading import in_form
from depgen.evaluation.sentence_batches import sentence_batches
from depgen.evaluation.trained import Trained, load_trained
from depgen.language_models.base import LanguageModel
from depgen.language_models.masked import LayerAttention, MaskedLanguageModel
from depgen.metrics.correlation import RelationCorrelation
from depgen.models.udgn import UDGN
from depgen.trees.sentence import Sentence
from depgen.trees.text_form import FormName

Direction = Literal["child_to_parent", "parent_to_child"]
Quantity = Literal["pearson", "mean_weight"]

PUBLISHED = ("prep", "pobj", "det", "compound", "nsubj", "amod", "dobj", "aux")
"""The relations of Tables 3 and 7, by frequency."""
TOKENS_PER_BATCH = 2048
"""How many are read at once; no number depends on it."""


@dataclass(frozen=True)
class HeadCorrelations:
    """What a model's attention heads have to do with a treebank's relations.

    Attributes:
        relations: of its edges, the most frequent first.
        edges: how many have each.
        values: of each quantity, over directions (child to parent first), before and after the mask, layers (the lowest
            first), attention heads and relations.
        unknown_words: the share of words that the model does not know.
    """

    relations: tuple[str, ...]
    edges: tuple[int, ...]
    values: Mapping[Quantity, Float[Tensor, "2 2 layers attention_heads relations"]]
    unknown_words: float

    def of(
        self, direction: Direction = "child_to_parent", *, after_mask: bool = False, quantity: Quantity = "pearson"
    ) -> Float[Tensor, "layers attention_heads relations"]:
        """One quantity of every head and relation."""
        return self.values[quantity][get_args(Direction).index(direction), int(after_mask)]


@dataclass(frozen=True)
class BestHeads:
    """The head with a relation's highest value in each of several runs, layers and heads counted from 0."""

    relation: str
    edges: int
    values: tuple[float, ...]
    layers: tuple[int, ...]
    heads: tuple[int, ...]

    @property
    def mean(self) -> float:
        """Over runs."""
        return float(np.mean(self.values))

    @property
    def deviation(self) -> float | None:
        """The standard deviation over runs (n - 1); None for a single one."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else None


def head_correlations(
    corpus: Corpus,
    *,
    run: Sequence[str] = (),
    split: Split = "test",
    relations: Sequence[str] = (),
    direction: Direction = "child_to_parent",
    after_mask: bool = False,
    quantity: Quantity = "pearson",
    form: FormName | None = None,
    device: str | None = None,
    json: bool = False,
) -> str:
    """Pearson's correlation of each relation with the head that goes with it most closely; tab-separated.

    Several runs, such as seeds, give the mean and standard deviation of each one's best value. Layers and heads are
    counted from 0, layers from the lowest. Where a head's weights are constant the correlation is 0.

    Args:
        corpus: a treebank with relations; its name says where it was brought into another form.
        run: run folders (their best checkpoints) or checkpoint files; by default the newest run.
        split: of the treebank.
        relations: which; by default the eight of the published table, the most frequent others in place of those that
            the treebank lacks. Always sorted by frequency.
        direction: `child_to_parent` is the paper's Table 3, `parent_to_child` its Table 7.
        after_mask: take the weights that values are summed by, not those before a mask between words.
        quantity: `pearson`, or the `mean_weight` of a relation's edges, which the authors' last code returns.
        form: what the treebank is brought into: by default the form of the text that the run has learnt from, in which
            a treebank that has it already stays as it is; `bare`, `ptb`, `stories`, `lower`, or `as_is` for none
            (`depgen.trees.text_form`). Words that the form lacks, such as punctuation, are left out, and what hung on
            one hangs on its nearest ancestor that stays.
        device: cpu, cuda, …; by default a GPU where there is one.
        json: print JSON.

    Raises:
        UserError: no such run or relation, a treebank without relations, a model that shows no attention, or runs that
            have learnt from text in different forms.
    """
    runs, found, read = list[str](), list[HeadCorrelations](), dict[str, list[Sentence]]()
    for reference in run or (None,):
        trained = load_trained(reference, device=device, form=form)
        brought = in_form(corpus, trained.reading)
        if brought.name not in read:
            read[brought.name] = sentences_with_relations(brought, split)
        runs.append(str(trained.run))
        found.append(correlations_of(trained, read[brought.name]))
    if len(read) > 1:
        raise UserError(
            f"Expected runs that read the same sentences, found {'; '.join(read)}: take runs of one form, "
            "or name it by --form."
        )
    ((name, sentences),) = read.items()
    chosen = choose_relations(found[0].relations, relations)
    rows = best_heads(found, chosen, direction=direction, after_mask=after_mask, quantity=quantity)
    facts: dict[str, object] = {
        "run": runs,
        "corpus": name,
        "split": split,
        "sentences": len(sentences),
        "edges": sum(found[0].edges),
        "unknown_share": [each.unknown_words for each in found],
        "direction": direction,
        "weights": "after the mask" if after_mask else "before the mask",
        "quantity": quantity,
    }
    if json:
        listed = [{**asdict(row), "mean": row.mean, "deviation": row.deviation} for row in rows]
        return dumps({**facts, "relations": listed}, indent=2)
    return _as_table(facts, rows)


def sentences_with_relations(corpus: Corpus, split: Split) -> list[Sentence]:
    """The sentences of a treebank's split.

    Raises:
        UserError: there are none, or one has no heads or no relations, or no two words are joined by an edge.
    """
    sentences, without, first = list[Sentence](), 0, ""
    for document in corpus.documents(split):
        for sentence in document.sentences:
            if sentence.heads is None or sentence.relations is None or set(sentence.relations) == {"_"}:
                lacking = "heads" if sentence.heads is None else "relations"
                first = (
                    first or f"{document.identifier} of {corpus.name}: expected heads and relations, found no {lacking}"
                )
                without += 1
            sentences.append(sentence)
    if without:
        both = "Name a treebank that has both, such as one of Universal Dependencies"
        remedy = LEAVE_OUT if without < len(sentences) else both
        raise UserError(f"{first}. {without} of {len(sentences)} sentences lack them. {remedy}.")
    if not any(head > 0 for sentence in sentences for head in sentence.heads or ()):
        raise UserError(f"{corpus.name}, {split}: expected sentences with edges between words, found none.")
    return sentences


def correlations_of(trained: Trained, sentences: Sequence[Sentence]) -> HeadCorrelations:
    """What a run's heads have to do with the sentences' relations, read as it was trained to.

    Where messages go along given trees (`mask_from: trees`), those are of the run's own annotator.

    Raises:
        UserError: the system is none that shows what its attention heads weigh.
    """
    along = None
    if isinstance(trained.model, UDGN) and trained.model.mask_from == "trees":
        along = data_of(trained.run / "config.yaml").annotator.annotate(sentences)
    return correlate_heads(trained.model, trained.vocabulary, sentences, along=along)


def correlate_heads(
    model: LanguageModel,
    vocabulary: Vocabulary,
    sentences: Sequence[Sentence],
    *,
    along: Sequence[Sentence] | None = None,
) -> HeadCorrelations:
    """What a model's heads have to do with the sentences' relations, in one pass; the model is in evaluation mode.

    Args:
        model: a masked language model.
        vocabulary: its own.
        sentences: with heads and relations.
        along: the same sentences with the trees that the model reads them by, where it needs such.

    Raises:
        UserError: the model is none that shows what its attention heads weigh.
    """
    if not isinstance(model, MaskedLanguageModel):
        raise UserError(f"{type(model).__name__} is no masked language model: name a run of UDGN or its baselines.")
    assert not model.training
    counts = Counter(relation for sentence in sentences for _, relation in _edges(sentence))
    relations = tuple(sorted(counts, key=lambda relation: (-counts[relation], relation)))
    numbers = {relation: number for number, relation in enumerate(relations)}
    metric: RelationCorrelation | None = None
    unknown = words = 0
    with torch.inference_mode():
        batches, told = (
            sentence_batches(vocabulary, each, tokens_per_batch=TOKENS_PER_BATCH)
            for each in (sentences, along or sentences)
        )
        for batch, given in zip(batches, told, strict=True):
            here, heads = batch.to(model.device), given.to(model.device).heads
            assert isinstance(here, WordBatch)
            assert here.heads is not None
            attention = model.encode(here.tokens, here.lengths, heads=heads, attention=True).attention
            if attention is None:
                raise UserError(f"{type(model).__name__} does not show what its attention heads weigh.")
            weights = edge_weights(attention, here.heads)
            ids = [numbers[relation] for item in batch.items.tolist() for _, relation in _edges(sentences[item])]
            if metric is None:
                metric = RelationCorrelation(weights.shape[1:], len(relations)).to(model.device)
            metric.update(weights, torch.tensor(ids, dtype=torch.int64, device=model.device))
            unknown += int((batch.is_word & (batch.tokens == batch.unk)).sum())
            words += int(batch.lengths.sum())
    assert metric is not None
    values = {name: value.cpu() for name, value in metric.compute().items()}
    edges = tuple(counts[relation] for relation in relations)
    return HeadCorrelations(relations, edges, values, unknown / words)  # type: ignore[arg-type]


def edge_weights(
    attention: Sequence[LayerAttention], heads: Int[Tensor, "batch length"]
) -> Float[Tensor, "edges directions stages layers attention_heads"]:
    """What each head weighs at every edge, sentence by sentence in the order of the dependents.

    Directions are child to parent (the query is the parent) and parent to child, stages before and after the mask.
    """
    rows, children = (heads > 0).nonzero(as_tuple=True)
    parents = heads[rows, children] - 1

    def both_ways(weights: Float[Tensor, "batch attention_heads queries keys"]) -> Tensor:
        return torch.stack((weights[rows, :, parents, children], weights[rows, :, children, parents]), 1)

    layers = [torch.stack((both_ways(layer.before), both_ways(layer.after)), 2) for layer in attention]
    return torch.stack(layers, 3)


def _edges(sentence: Sentence) -> list[tuple[int, str]]:
    """Head and relation of each word that has a head among the words."""
    pairs = zip(sentence.heads or (), sentence.relations or (), strict=True)
    return [(head, relation) for head, relation in pairs if head > 0]


def choose_relations(relations: Sequence[str], asked: Sequence[str] = ()) -> list[str]:
    """The chosen relations, by frequency; by default the published ones and, for those lacking, the most frequent.

    Args:
        relations: all that there are, the most frequent first.
        asked: some of them.

    Raises:
        UserError: one of them is not there.

    >>> choose_relations(["case", "det", "obl", "aux"], ["aux", "case"])
    ['case', 'aux']
    """
    if lacking := [relation for relation in asked if relation not in relations]:
        raise UserError(f"The treebank has no relation {lacking[0]!r}; it has {', '.join(relations)}.")
    if not asked:
        published = [relation for relation in PUBLISHED if relation in relations]
        others = [relation for relation in relations if relation not in PUBLISHED]
        asked = [*published, *others[: len(PUBLISHED) - len(published)]]
    return [relation for relation in relations if relation in asked]


def best_heads(
    runs: Sequence[HeadCorrelations],
    relations: Sequence[str],
    *,
    direction: Direction = "child_to_parent",
    after_mask: bool = False,
    quantity: Quantity = "pearson",
) -> list[BestHeads]:
    """The head of the highest value for each relation, in each run; the lowest and first of equals.

    Args:
        runs: of models on the same sentences.
        relations: which, in that order.
        direction: see `HeadCorrelations`.
        after_mask: see `HeadCorrelations`.
        quantity: see `HeadCorrelations`.
    """
    rows = list[BestHeads]()
    for relation in relations:
        column = runs[0].relations.index(relation)
        all_heads = [run.of(direction, after_mask=after_mask, quantity=quantity)[..., column] for run in runs]
        places = [divmod(int(values.argmax()), values.shape[1]) for values in all_heads]
        values = tuple(float(values.max()) for values in all_heads)
        layers, heads = zip(*places, strict=True)
        rows.append(BestHeads(relation, runs[0].edges[column], values, layers, heads))
    return rows


def _as_table(facts: Mapping[str, object], rows: Sequence[BestHeads]) -> str:
    lines = [f"{name}\t{_cell(value)}" for name, value in facts.items()]
    lines.append("relation\tedges\tbest head\tdeviation\tlayer\thead")
    for row in rows:
        deviation = "-" if row.deviation is None else f"{row.deviation:.3f}"
        cells = [row.relation, row.edges, f"{row.mean:.3f}", deviation, _cell(row.layers), _cell(row.heads)]
        lines.append("\t".join(map(str, cells)))
    return "\n".join(lines)


def _cell(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_cell, value))
    return f"{value:.4f}" if isinstance(value, float) else str(value)
