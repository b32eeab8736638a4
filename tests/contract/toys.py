"""Toys that keep the contract, and others that break it in one point each."""

from dataclasses import replace

import torch

from depgen.backbones.awd_lstm import AWDLSTM
from depgen.backbones.on_lstm import ONLSTM
from depgen.backbones.transformer import Transformer
from depgen.data.batch import collate_tokens
from depgen.language_models.left_to_right import LeftToRight
from depgen.language_models.masked import LayerAttention, MaskedLanguageModel, MaskedOutput
from depgen.models.causal_lm import CausalLM
from depgen.models.itexp import ITEXP
from depgen.nn.lengths import mask_of
from tests.toys.graph_lm import GraphLM

# -- from left to right -----------------------------------------------------------------------------------------------


class Bigrams(LeftToRight):
    """A table of the logits of each token after each other."""

    def __init__(self, vocabulary_size: int) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.table = torch.nn.Parameter(torch.zeros(vocabulary_size, vocabulary_size))

    collate = property(lambda self: collate_tokens)

    def log_probs(self, batch):
        return self.distributions(batch.inputs).gather(2, batch.targets[..., None])[..., 0]

    def distributions(self, inputs):
        return self.table.log_softmax(-1)[inputs]

    def generation_step(self, tokens, padding, state):
        return self.table.log_softmax(-1)[tokens[:, -1]], Nothing()


class Nothing:
    """The state of a table."""

    def select(self, rows):
        return self


class LooksAhead(Bigrams):
    def distributions(self, inputs):
        return self.table.log_softmax(-1)[inputs.roll(-1, 1)]


class LooksNowhere(Bigrams):
    def distributions(self, inputs):
        return self.table.log_softmax(-1)[torch.zeros_like(inputs)]


class TakesPadding(Bigrams):
    def log_probs(self, batch):
        return super().log_probs(batch) + batch.inputs.double().mean(1, keepdim=True)


class TakesTheBatch(Bigrams):
    def log_probs(self, batch):
        return super().log_probs(batch) * len(batch.inputs)


class IsNotSaved(Bigrams):
    def __init__(self, vocabulary_size: int) -> None:
        super().__init__(vocabulary_size)
        self.shift = torch.rand(())

    def log_probs(self, batch):
        return super().log_probs(batch) + self.shift


class IsNoDistribution(Bigrams):
    def log_probs(self, batch):
        return super().log_probs(batch) - 0.01


class IsNoDistributionInTraining(Bigrams):
    def log_probs(self, batch):
        return super().log_probs(batch) - 0.01 * self.training


class ScoresTextsOtherwise(Bigrams):
    def sentence_log_probs(self, documents, *, vocabulary):
        found = super().sentence_log_probs(documents, vocabulary=vocabulary)
        return [[scores + 0.01 for scores in document] for document in found]


class CountsOtherwise(Bigrams):
    def item_scores(self, batch):
        scores = super().item_scores(batch)
        return replace(scores, nll=scores.nll + 0.01)


class WritesOtherwise(Bigrams):
    def generation_step(self, tokens, padding, state):
        return (self.table[tokens[:, -1]] / 2).log_softmax(-1), Nothing()


class WritesByTheBatch(Bigrams):
    def generation_step(self, tokens, padding, state):
        return (self.table[tokens[:, -1]] * len(tokens)).log_softmax(-1), Nothing()


class WritesTheUnlikely(Bigrams):
    def generation_step(self, tokens, padding, state):
        return (-self.table[tokens[:, -1]]).log_softmax(-1), Nothing()


class SumsOtherwise(Bigrams):
    def generate(self, prompts, **options):
        return [replace(each, log_prob=each.log_prob + 0.01) for each in super().generate(prompts, **options)]


class BoundsTooHigh(GraphLM):
    def search(self, batch, *, beam_size, **options):
        log_probs, structures = super().search(batch, beam_size=beam_size, **options)
        return log_probs + 0.1 * (beam_size < 20), structures


class LeavesStructuresOut(GraphLM):
    def search(self, batch, *, beam_size, **options):
        return super().search(batch, beam_size=min(beam_size, 5), **options)


class ScoresStructuresOtherwise(GraphLM):
    def sentence_log_probs(self, documents, *, vocabulary, structure=None):
        found = super().sentence_log_probs(documents, vocabulary=vocabulary, structure=structure)
        return found if structure is None else [[scores + 0.01 for scores in document] for document in found]


class LosesItsStructure(GraphLM):
    def generate(self, prompts, **options):
        return [replace(each, structure=each.structure[1:]) for each in super().generate(prompts, **options)]


class WritesOtherTrees(ITEXP):
    def generate(self, prompts, **options):
        chains = [
            (each, (tuple(range(len(each.ids))), ("root", *("right",) * (len(each.ids) - 1))))
            for each in super().generate(prompts, **options)
        ]
        return [replace(each, structure=chain) for each, chain in chains]


class SeesItsLevel(ITEXP):
    def forward(self, batch):
        return super().forward(replace(batch, inputs=batch.targets))


class SeesTheLength(ITEXP):
    def sentence_log_probs(self, documents, **options):
        found = super().sentence_log_probs(documents, **options)
        return [[scores + 0.01 * len(scores) for scores in document] for document in found]


class ForgetsItsState(CausalLM):
    def log_probs(self, batch):
        return super().log_probs(replace(batch, segment=None))


class SharesItsState(CausalLM):
    def sentence_log_probs(self, documents, *, vocabulary):
        self._carried[False] = self._carried[False].detached()
        return super().sentence_log_probs(documents, vocabulary=vocabulary)


# -- masked -----------------------------------------------------------------------------------------------------------


class Words(MaskedLanguageModel):
    """Predicts a word from the mean of all words of its sentence, and heads by how alike two words are."""

    def __init__(self, vocabulary_size: int) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.embedding = torch.nn.Embedding(vocabulary_size, 5)
        self.bias = torch.nn.Parameter(torch.zeros(vocabulary_size))

    output_weight = property(lambda self: self.embedding.weight)
    output_bias = property(lambda self: self.bias)

    def encode(self, tokens, lengths, *, heads=None, attention=False):
        return MaskedOutput(self.states(self.embedding(tokens) * mask_of(lengths, tokens.shape[1])[..., None], lengths))

    def states(self, words, lengths):
        return (words.sum(1) / lengths[:, None])[:, None].expand_as(words)

    def head_probabilities(self, tokens, lengths):
        words = self.embedding(tokens)
        known = mask_of(lengths, tokens.shape[1])
        both = known[:, :, None] & known[:, None, :] & ~torch.eye(tokens.shape[1], dtype=torch.bool)
        return (words @ words.mT).masked_fill(~both, -1e9).softmax(-1) * both


class ReadsOneSide(Words):
    def states(self, words, lengths):
        return words.cumsum(1)


class SeesItself(Words):
    def forward(self, batch):
        output = self.encode(batch.tokens, batch.lengths)
        places = batch.is_word.flatten().nonzero()[:, 0]
        found = -self._nll(output, batch.tokens, places)
        return found.new_zeros(batch.tokens.shape).masked_scatter(mask_of(batch.lengths, batch.tokens.shape[1]), found)


class ScoresSentencesOtherwise(Words):
    def sentence_log_probs(self, documents, *, vocabulary):
        found = super().sentence_log_probs(documents, vocabulary=vocabulary)
        return [[scores + 0.01 for scores in document] for document in found]


class AttendsToPadding(Words):
    def encode(self, tokens, lengths, *, heads=None, attention=False):
        weights = torch.ones(len(tokens), 1, tokens.shape[1], tokens.shape[1])
        return replace(super().encode(tokens, lengths), attention=(LayerAttention(weights, weights),))


class HeadsInPadding(Words):
    def head_probabilities(self, tokens, lengths):
        return super().head_probabilities(tokens, torch.full_like(lengths, tokens.shape[1]))


class HeadsOfTheBatch(Words):
    def head_probabilities(self, tokens, lengths):
        return super().head_probabilities(tokens, lengths) / len(tokens)


class TooManyHeads(Words):
    def head_probabilities(self, tokens, lengths):
        return 2 * super().head_probabilities(tokens, lengths)


# -- backbones --------------------------------------------------------------------------------------------------------


class MeanOfTheText(AWDLSTM):
    def forward(self, tokens, **options):
        output = super().forward(tokens, **options)
        return replace(output, hidden=output.hidden + output.hidden.mean(1, keepdim=True))


class MeanOfTheBatch(AWDLSTM):
    def forward(self, tokens, **options):
        output = super().forward(tokens, **options)
        return replace(output, hidden=output.hidden + output.hidden.mean(0, keepdim=True))


class BeginsAfresh(AWDLSTM):
    def forward(self, tokens, *, state=None, **options):
        return super().forward(tokens, **options)


class MakesAnotherState(AWDLSTM):
    def state_of(self, tensors):
        return super().state_of([0 * each for each in tensors])


class HalfAttention(Transformer):
    def forward(self, tokens, **options):
        output = super().forward(tokens, **options)
        return output if output.attention is None else replace(output, attention=output.attention / 2)


class DistancesFromTheEnd(ONLSTM):
    def syntactic_distances(self, tokens, *, padding=None):
        return super().syntactic_distances(tokens.flip(1))


# -- runs -------------------------------------------------------------------------------------------------------------


class LearnsByItsLogger(CausalLM):
    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx) * (1 if self.trainer.loggers else 2)


class LearnsByACount(CausalLM):
    steps = 0

    def training_step(self, batch, batch_idx):
        self.steps += 1
        return super().training_step(batch, batch_idx) / self.steps
