"""SuPar's CRF parser of constituents (Zhang et al., 2020), trained on the bracketed trees of a treebank."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from depgen.annotation.scores import LabelledScores, labelled_scores
from depgen.annotation.supar_network import (
    BOS,
    BiaffineSizes,
    ParserBatch,
    ParserVocabulary,
    SuparNetwork,
    SuparNetworkTraining,
    word_batch,
)
from depgen.decoding.binary_trees import NO_CONSTITUENT, best_binary_trees, chart_of, constituents_of
from depgen.trees.annotator import Structure
from depgen.trees.sentence import Constituent, Sentence


@dataclass(frozen=True)
class ParserChartBatch(ParserBatch):
    """Sentences between two BOS, and their charts: the number of each span's label, -1 where the tree has no span."""

    labels: Int[Tensor, "batch starts ends"]

    @property
    def lengths(self) -> Int[Tensor, " batch"]:
        """Words of each sentence."""
        return self.is_word.sum(1)

    def possible(self) -> Bool[Tensor, "batch starts ends"]:
        """Which pairs are a start and an end of a span."""
        places = torch.arange(self.labels.shape[1], device=self.labels.device)
        return (places[:, None] < places) & (places <= self.lengths[:, None, None])


class ConstituencyParser(SuparNetwork[ParserChartBatch]):
    """Scores spans and their labels by biaffine functions of BiLSTM states; parses by the best binary tree."""

    score = "labelled F1"

    def __init__(self, vocabulary: ParserVocabulary, sizes: BiaffineSizes, learning_rate: float = 2e-3) -> None:
        super().__init__(vocabulary, sizes, learning_rate)
        from supar.models import CRFConstituencyModel

        self.model = CRFConstituencyModel(
            **self.encoder_options(),
            n_labels=len(vocabulary.relations),
            n_span_mlp=sizes.arc_mlp,
            n_label_mlp=sizes.relation_mlp,
            mlp_dropout=sizes.dropout,
        )

    def collate(self, sentences: Sequence[Sentence]) -> ParserChartBatch:
        """A batch; a label unknown to the vocabulary has the number after the last, which is never found."""
        encoded = word_batch(sentences, self.vocabulary)
        batch, length = encoded.words.shape
        words = torch.nn.functional.pad(encoded.words, (0, 1))
        characters = torch.nn.functional.pad(encoded.characters, (0, 0, 0, 1))
        numbers = {label: number for number, label in enumerate(self.vocabulary.relations)}
        labels = torch.full((batch, length, length), -1)
        for row, sentence in enumerate(sentences):
            words[row, len(sentence) + 1] = characters[row, len(sentence) + 1, 0] = BOS
            for start, end, label in () if sentence.spans is None else chart_of(sentence.spans, len(sentence)):
                labels[row, start, end] = numbers.get(label, len(numbers))
        is_word = torch.nn.functional.pad(encoded.is_word, (0, 1))
        return ParserChartBatch(words, characters, is_word, labels)

    def forward(
        self, batch: ParserChartBatch
    ) -> tuple[Float[Tensor, "batch places places"], Float[Tensor, "batch places places labels"]]:
        """Scores of spans [start, end] and of their labels."""
        spans, labels = self.model(batch.words, [batch.characters])
        return spans, labels

    def training_step(self, batch: ParserChartBatch, batch_index: int) -> Tensor:
        """-log p(tree) / words under a CRF over binary trees, plus the mean cross-entropy of its labels; in nats."""
        spans, labels = self(batch)
        loss, _ = self.model.loss(spans, labels, batch.labels, batch.possible(), mbr=False)
        self.log("train/loss", loss, batch_size=len(batch.words))
        return cast(Tensor, loss)

    @torch.no_grad()
    def charts(self, batch: ParserChartBatch) -> list[list[Constituent]]:
        """The spans of each sentence's best binary tree, with their labels."""
        spans, labels = self(batch)
        trees = best_binary_trees(spans.cpu().numpy(), batch.lengths.tolist())
        names, best = self.vocabulary.relations, labels.argmax(-1).tolist()
        return [
            [(start, end, names[own[start][end]]) for start, end in tree] for own, tree in zip(best, trees, strict=True)
        ]

    def counts(self, batch: ParserChartBatch) -> tuple[int, int, int]:
        """Spans with the right label, those found, and gold ones; without those that are no constituent."""
        numbers = {label: number for number, label in enumerate(self.vocabulary.relations)}
        gold = int((batch.labels.ge(0) & batch.labels.ne(numbers[NO_CONSTITUENT])).sum())
        found = [
            (row, start, end, numbers[label])
            for row, chart in enumerate(self.charts(batch))
            for start, end, label in chart
            if label != NO_CONSTITUENT
        ]
        right = sum(int(batch.labels[row, start, end]) == label for row, start, end, label in found)
        return right, len(found), gold

    def parsed(self, sentences: Sequence[Sentence], batch: ParserChartBatch) -> list[Sentence]:
        """The sentences with constituents."""
        pairs = zip(sentences, self.charts(batch), strict=True)
        return [replace(sentence, spans=constituents_of(chart)) for sentence, chart in pairs]

    def evaluate(self, gold: list[Sentence]) -> LabelledScores:
        """Precision, recall and F1 of all constituents, and the speed in words per second.

        The whole sentence and single words count, and punctuation stays, unlike in the program EVALB.
        """
        predicted, seconds = self.timed(gold)
        spans, found = ([sentence.spans or () for sentence in each] for each in (gold, predicted))
        return labelled_scores(spans, found, words=sum(map(len, gold)), seconds=seconds)


class SuparConstituencyTraining(SuparNetworkTraining):
    """Trains SuPar's CRF parser of constituents; see `SuparNetworkTraining` for the options."""

    kind = "SuPar CRF constituency"
    structure: Structure = "constituency"

    def labels(self, sentence: Sentence) -> Iterable[str]:
        """The labels of a chart."""
        return [NO_CONSTITUENT, *(label for _, _, label in chart_of(sentence.spans or (), len(sentence)))]

    def network(self, vocabulary: ParserVocabulary) -> ConstituencyParser:
        """The parser before training."""
        return ConstituencyParser(vocabulary, self.sizes, self.learning_rate)
