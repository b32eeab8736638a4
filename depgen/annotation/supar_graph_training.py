"""SuPar's biaffine parser of semantic dependency graphs (Dozat & Manning, 2018), trained on the graphs of a treebank.

Every pair of words is an edge or not, by itself: a word may have several heads or none, and the root several
dependents. An edge has one label; of several labels between the same two words it learns the first. A word is never
its own head.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from depgen.annotation.scores import LabelledScores, labelled_scores
from depgen.annotation.supar_network import (
    BiaffineSizes,
    ParserBatch,
    ParserVocabulary,
    SuparNetwork,
    SuparNetworkTraining,
    word_batch,
)
from depgen.errors import UserError
from depgen.trees.annotator import Structure
from depgen.trees.graph import sorted_edges
from depgen.trees.sentence import Edge, Sentence

EDGES = 2**11
"""Edges whose labels are scored at a time: with 400 labels and vectors of 50 numbers they take 160 MB."""


@dataclass(frozen=True)
class ParserGraphBatch(ParserBatch):
    """Sentences and their graphs: the number of each edge's label, -1 where there is no edge; head 0 is the root."""

    labels: Int[Tensor, "batch dependents heads"]

    def possible(self) -> Bool[Tensor, "batch dependents heads"]:
        """Which pairs may be edges: those of a word and another word, or the root."""
        heads = self.is_word.clone()
        heads[:, 0] = True
        loops = torch.eye(heads.shape[1], dtype=torch.bool, device=heads.device)
        return self.is_word.unsqueeze(2) & heads.unsqueeze(1) & ~loops


def graph_loss(
    edges: Float[Tensor, "batch dependents heads"],
    labels: Float[Tensor, "edges labels"],
    gold: Int[Tensor, "batch dependents heads"],
    possible: Bool[Tensor, "batch dependents heads"],
    *,
    label_share: float,
) -> Float[Tensor, ""]:
    """Cross-entropy of edges (a mean over possible pairs) and of gold edges' labels, in nats, weighted.

    share * labels + (1 - share) * edges (Dozat & Manning, 2018). A batch without edges has no label loss.

    Args:
        edges: scores of all pairs, positive for an edge.
        labels: scores of the gold edges' labels, edges in row-major order.
        gold: number of each edge's label, -1 where there is none.
        possible: pairs that may be edges.
        label_share: weight of the labels.
    """
    is_edge = gold.ge(0) & possible
    edge_loss = F.binary_cross_entropy_with_logits(edges[possible], is_edge[possible].to(edges.dtype))
    label_loss = F.cross_entropy(labels, gold[is_edge], reduction="sum") / is_edge.sum().clamp_min(1)
    return label_share * label_loss + (1 - label_share) * edge_loss


class GraphParser(SuparNetwork[ParserGraphBatch]):
    """Scores each pair of words as an edge, and the labels of each, by biaffine functions of BiLSTM states.

    Args:
        vocabulary: sizes the embeddings and names the labels.
        sizes: of the network.
        learning_rate: at the first step.
        label_share: weight of the labels in the loss; the edges have the rest.
    """

    score = "labelled F1"
    betas = (0.0, 0.95)

    def __init__(
        self,
        vocabulary: ParserVocabulary,
        sizes: BiaffineSizes,
        learning_rate: float = 1e-3,
        label_share: float = 0.1,
    ) -> None:
        super().__init__(vocabulary, sizes, learning_rate)
        from supar.models import BiaffineSemanticDependencyModel

        self.label_share = label_share
        self.model = BiaffineSemanticDependencyModel(
            **self.encoder_options(),
            n_labels=len(vocabulary.relations),
            n_edge_mlp=sizes.arc_mlp,
            n_label_mlp=sizes.relation_mlp,
            char_dropout=sizes.dropout,
            edge_mlp_dropout=sizes.dropout,
            label_mlp_dropout=sizes.dropout,
        )

    def collate(self, sentences: Sequence[Sentence]) -> ParserGraphBatch:
        """A batch; a label unknown to the vocabulary has the number after the last, which is never found."""
        encoded = word_batch(sentences, self.vocabulary)
        unknown = len(self.vocabulary.relations)
        numbers = {label: number for number, label in enumerate(self.vocabulary.relations)}
        labels = torch.full((*encoded.words.shape, encoded.words.shape[1]), -1)
        for row, sentence in enumerate(sentences):
            for head, dependent, label in reversed(sentence.edges or ()):
                labels[row, dependent, head] = numbers.get(label, unknown)
        return ParserGraphBatch(encoded.words, encoded.characters, encoded.is_word, labels)

    def forward(
        self, batch: ParserGraphBatch
    ) -> tuple[Float[Tensor, "batch length length"], Float[Tensor, "batch length states"]]:
        """Scores of edges [dependent, head], positive where one is likelier than none, and the BiLSTM's states."""
        states = self.model.encode(batch.words, [batch.characters])
        edges = self.model.edge_attn(self.model.edge_mlp_d(states), self.model.edge_mlp_h(states))
        return edges[:, 1] - edges[:, 0], states

    def label_scores(
        self, states: Float[Tensor, "batch length states"], wanted: Bool[Tensor, "batch dependents heads"]
    ) -> Float[Tensor, "edges labels"]:
        """Scores of the labels of the wanted pairs alone; of all pairs they would take most of the time and memory."""
        rows, dependents, heads = wanted.nonzero(as_tuple=True)
        of_dependents, of_heads = self.model.label_mlp_d(states), self.model.label_mlp_h(states)
        parts = (
            self.model.label_attn(of_dependents[row, dependent].unsqueeze(1), of_heads[row, head].unsqueeze(1))
            for row, dependent, head in zip(
                *(torch.split(index, EDGES) for index in (rows, dependents, heads)), strict=True
            )
        )
        return torch.cat([part.flatten(1) for part in parts])

    def training_step(self, batch: ParserGraphBatch, batch_index: int) -> Tensor:
        """See `graph_loss`."""
        possible = batch.possible()
        edges, states = self(batch)
        labels = self.label_scores(states, batch.labels.ge(0) & possible)
        loss = graph_loss(edges, labels, batch.labels, possible, label_share=self.label_share)
        self.log("train/loss", loss, batch_size=len(batch.words))
        return loss

    @torch.no_grad()
    def graphs(self, batch: ParserGraphBatch) -> Int[Tensor, "batch dependents heads"]:
        """The number of each found edge's label, -1 where there is no edge."""
        edges, states = self(batch)
        is_edge = edges.gt(0) & batch.possible()
        found = torch.full_like(batch.labels, -1)
        found[is_edge] = self.label_scores(states, is_edge).argmax(-1)
        return found

    def counts(self, batch: ParserGraphBatch) -> tuple[int, int, int]:
        """Edges with the right label, edges found, and gold edges, of several between the same two words one."""
        found = self.graphs(batch)
        right = found.eq(batch.labels) & found.ge(0)
        return int(right.sum()), int(found.ge(0).sum()), int(batch.labels.ge(0).sum())

    def parsed(self, sentences: Sequence[Sentence], batch: ParserGraphBatch) -> list[Sentence]:
        """The sentences with edges."""
        found = self.graphs(batch)
        edges: list[list[Edge]] = [[] for _ in sentences]
        places = found.ge(0).nonzero()
        labels = found[places.unbind(1)].tolist()
        for (row, dependent, head), label in zip(places.tolist(), labels, strict=True):
            edges[row].append((head, dependent, self.vocabulary.relations[label]))
        return [replace(sentence, edges=sorted_edges(own)) for sentence, own in zip(sentences, edges, strict=True)]

    def evaluate(self, gold: list[Sentence]) -> LabelledScores:
        """Precision, recall and F1 of edges, root edges included, and the speed in words per second."""
        predicted, seconds = self.timed(gold)
        gold_edges, edges = ([sentence.edges or () for sentence in each] for each in (gold, predicted))
        return labelled_scores(gold_edges, edges, words=sum(map(len, gold)), seconds=seconds)


class SuparGraphTraining(SuparNetworkTraining):
    """Trains SuPar's biaffine parser of graphs; see `SuparNetworkTraining` for the other options.

    Args:
        label_share: weight of the labels in the loss; the edges have the rest.
    """

    kind = "SuPar biaffine graph"
    structure: Structure = "graph"

    def __init__(self, *, label_share: float = 0.1, learning_rate: float = 1e-3, **options: Any) -> None:  # noqa: ANN401
        super().__init__(learning_rate=learning_rate, **options)
        self.label_share = label_share
        if not 0 < label_share < 1:
            raise UserError(f"label_share: expected a number between 0 and 1, found {label_share}.")

    def labels(self, sentence: Sentence) -> Iterable[str]:
        """The labels of a graph."""
        return [label for _, _, label in sentence.edges or ()]

    def network(self, vocabulary: ParserVocabulary) -> GraphParser:
        """The parser before training.

        Raises:
            UserError: no graph of the training split has an edge.
        """
        if not vocabulary.relations:
            raise UserError("train: expected graphs with edges, found none: choose other labels or another treebank.")
        return GraphParser(vocabulary, self.sizes, self.learning_rate, self.label_share)
