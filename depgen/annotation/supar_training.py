"""SuPar's biaffine dependency parser (Dozat & Manning, 2017), trained on the trees of a treebank."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from depgen.annotation.scores import ParserScores, attachment_scores
from depgen.annotation.supar_network import (
    BiaffineSizes,
    ParserBatch,
    ParserVocabulary,
    SuparNetwork,
    SuparNetworkTraining,
    word_batch,
)
from depgen.decoding.projective_trees import ROOT_RELATION, ProjectiveTrees
from depgen.decoding.spanning_tree import maximum_spanning_trees
from depgen.trees.sentence import Sentence


@dataclass(frozen=True)
class ParserTreeBatch(ParserBatch):
    """Sentences and their trees; heads and relations are 0 where there is no word."""

    heads: Int[Tensor, "batch length"]
    relations: Int[Tensor, "batch length"]


class BiaffineParser(SuparNetwork[ParserTreeBatch]):
    """Scores arcs and relations by two biaffine functions of BiLSTM states; parses by the best tree."""

    def __init__(self, vocabulary: ParserVocabulary, sizes: BiaffineSizes, learning_rate: float = 2e-3) -> None:
        super().__init__(vocabulary, sizes, learning_rate)
        from supar.models import BiaffineDependencyModel

        self.model = BiaffineDependencyModel(
            **self.encoder_options(),
            n_rels=len(vocabulary.relations),
            n_arc_mlp=sizes.arc_mlp,
            n_rel_mlp=sizes.relation_mlp,
            mlp_dropout=sizes.dropout,
        )

    def collate(self, sentences: Sequence[Sentence]) -> ParserTreeBatch:
        """A batch; a relation unknown to the vocabulary has number 0, which matters to a validation loss only."""
        encoded = word_batch(sentences, self.vocabulary)
        heads, relations = torch.zeros_like(encoded.words), torch.zeros_like(encoded.words)
        relation_ids = {relation: number for number, relation in enumerate(self.vocabulary.relations)}
        for row, sentence in enumerate(sentences):
            if sentence.heads is not None and sentence.relations is not None:
                heads[row, 1 : len(sentence) + 1] = torch.tensor(sentence.heads)
                ids = [relation_ids.get(relation, 0) for relation in sentence.relations]
                relations[row, 1 : len(sentence) + 1] = torch.tensor(ids)
        return ParserTreeBatch(encoded.words, encoded.characters, encoded.is_word, heads, relations)

    def forward(
        self, batch: ParserTreeBatch
    ) -> tuple[Float[Tensor, "batch length length"], Float[Tensor, "batch length length relations"]]:
        """Scores of arcs [dependent, head] and of their relations; position 0 is the root."""
        arcs, relations = self.model(batch.words, [batch.characters])
        return arcs, relations

    def training_step(self, batch: ParserTreeBatch, batch_index: int) -> Tensor:
        """Cross-entropy of heads and of the gold heads' relations, a mean over words (Dozat & Manning, 2017)."""
        arcs, relations = self(batch)
        loss = self.model.loss(arcs, relations, batch.heads, batch.relations, batch.is_word)
        self.log("train/loss", loss, batch_size=len(batch.words))
        return cast(Tensor, loss)

    def counts(self, batch: ParserTreeBatch) -> tuple[int, int, int]:
        """Words with the right head and relation, and twice the number of words."""
        heads, relations = self.trees(batch)
        right = heads.eq(batch.heads) & relations.eq(batch.relations) & batch.is_word
        words = int(batch.is_word.sum())
        return int(right.sum()), words, words

    @torch.no_grad()
    def trees(self, batch: ParserTreeBatch) -> tuple[Int[Tensor, "batch length"], Int[Tensor, "batch length"]]:
        """Heads and relation numbers of the best tree with a single root; 0 elsewhere."""
        arcs, relations = self(batch)
        heads = single_root_trees(arcs, batch.is_word)
        labels = relations.argmax(-1).gather(-1, heads.unsqueeze(-1)).squeeze(-1)
        return heads, labels * batch.is_word

    def parsed(self, sentences: Sequence[Sentence], batch: ParserTreeBatch) -> list[Sentence]:
        """The sentences with heads and relations."""
        trees = zip(sentences, *(numbers.tolist() for numbers in self.trees(batch)), strict=True)
        return [
            _with_tree(sentence, heads[1:], [self.vocabulary.relations[number] for number in labels[1:]])
            for sentence, heads, labels in trees
        ]

    def distributions(self, sentences: Sequence[Sentence], batch: ParserTreeBatch) -> list[ProjectiveTrees]:
        """The random fields over the projective trees of a batch's sentences whose potentials are the arcs' scores.

        Relations are distributed by the softmax of their scores; `root` is that of roots alone.
        """
        arcs, relations = (each.double().cpu() for each in self(batch))
        names = self.vocabulary.relations
        if len(names) > 1 and ROOT_RELATION in names:
            relations[..., names.index(ROOT_RELATION)] = -torch.inf
        labels = relations.log_softmax(-1).numpy()
        found = []
        for row, sentence in enumerate(sentences):
            words = slice(1, len(sentence) + 1)
            own = arcs[row].numpy()
            found.append(
                ProjectiveTrees(own[words, words].copy(), own[words, 0], labels[row, words, words].copy(), tuple(names))
            )
        return found

    def evaluate(self, gold: list[Sentence]) -> ParserScores:
        """Attachment scores on sentences with gold words, and the speed in words per second."""
        predicted, seconds = self.timed(gold)
        return attachment_scores(gold, predicted, seconds=seconds)


def single_root_trees(
    scores: Float[Tensor, "batch dependents heads"], is_word: Bool[Tensor, "batch dependents"]
) -> Int[Tensor, "batch dependents"]:
    """The heads of each sentence's best tree with a single root, 0 elsewhere; the root precedes the words."""
    arcs = scores.detach().cpu().double().numpy()
    heads = maximum_spanning_trees(arcs[:, 1:, 1:], is_word.sum(1).cpu().numpy(), root_scores=arcs[:, 1:, 0])
    return F.pad(torch.from_numpy(heads).clamp_min(0), (1, 0)).to(scores.device)


def _with_tree(sentence: Sentence, heads: Sequence[int], relations: Sequence[str]) -> Sentence:
    length = len(sentence)
    own = ["root" if head == 0 else rel for head, rel in zip(heads[:length], relations[:length], strict=True)]
    return replace(sentence, heads=tuple(heads[:length]), relations=tuple(own))


class SuparTraining(SuparNetworkTraining):
    """Trains SuPar's biaffine dependency parser; see `SuparNetworkTraining` for the options."""

    kind = "SuPar biaffine"

    def labels(self, sentence: Sentence) -> Iterable[str]:
        """The relations of a tree."""
        return sentence.relations or ()

    def network(self, vocabulary: ParserVocabulary) -> BiaffineParser:
        """The parser before training."""
        return BiaffineParser(vocabulary, self.sizes, self.learning_rate)
