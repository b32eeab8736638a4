"""The base of the systems that encode a document sentence by sentence."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Float64, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from depgen.data.batch import DocumentBatch, ItemBatch, collate_documents, whole_documents
from depgen.data.vocabulary import Vocabulary
from depgen.decoding.settings import DocumentOptions
from depgen.language_models.base import LanguageModel
from depgen.metrics.item_scores import ItemScores
from depgen.nn.precise import precise
from depgen.nn.vocabulary import word_log_probs

PADDED_AT_ONCE = 1 << 18
"""Positions of a batch that is scored, padding included: with 128 features each, a tensor of 128 MiB."""
CHUNK_ELEMENTS = {"cpu": 1 << 19, "cuda": 1 << 25}
"""Logits held at once, in float64."""
LEAST_SUM = 1e-290
"""Sums below are taken again one by one: float64 ends at 1e-308, and what of a sum vanished there would count."""


@dataclass(frozen=True)
class DocumentOutput:
    """What a network returns for documents.

    Attributes:
        features: of every position, for the output matrix; without meaning at padding.
        bags: states that the bag of words of the next sentence is predicted from, where a network learns by that.
    """

    features: Float[Tensor, "batch sentence word features"]
    bags: Float[Tensor, "batch sentence size"] | None = None


class DocumentLanguageModel(LanguageModel):
    """Base of the systems that read a document sentence by sentence, each from `<s>` to `<eos>`.

    Args:
        loss_per: the loss is the sum over the tokens of a segment, averaged over the segments of a batch, or the mean
            per token of the batch.
        kwargs: see `LanguageModel`.

    Attributes:
        output: from features to the vocabulary.
    """

    output: nn.Linear
    generation_options = DocumentOptions

    def __init__(
        self,
        *,
        loss_per: Literal["segment", "token"] = "token",
        **kwargs: Any,  # noqa: ANN401, of the base
    ) -> None:
        super().__init__(**kwargs)
        self.loss_per = loss_per

    @property
    def collate(self) -> Callable[[ItemBatch], DocumentBatch]:
        """Padded segments of documents."""
        return collate_documents

    # -- what a system provides -----------------------------------------------------------------------------------

    def encode(self, batch: DocumentBatch) -> DocumentOutput:
        """Features of every position, which depend on earlier positions and sentences alone."""
        raise NotImplementedError(f"{type(self).__name__} has no encode")

    def step(
        self,
        inputs: Int[Tensor, "batch word"],
        before: Any,  # noqa: ANN401, the system's own
    ) -> tuple[Float[Tensor, "batch word features"], Any]:
        """The features of one more sentence of each document, in evaluation, and the state after it.

        Args:
            inputs: the sentences from `<s>` on, without padding.
            before: the state after the sentences before: a tensor or (named) tuples of such, a document a row; None
                where documents begin.
        """
        raise NotImplementedError(f"{type(self).__name__} has no step")

    @property
    def output_weight(self) -> Float[Tensor, "vocab features"]:
        """The output matrix."""
        return self.output.weight

    @property
    def output_bias(self) -> Float[Tensor, " vocab"] | None:
        """The output bias, where there is one."""
        return self.output.bias

    def encode_separately(
        self, batch: DocumentBatch
    ) -> tuple[Float[Tensor, "batch sentence word features"], Float[Tensor, "batch before features"]]:
        """Features in two summands, of systems whose sentences depend on the one before alone.

        The first is of every position, whatever precedes its sentence; the second is added to all positions of a
        sentence at the beginning of a document (0) and after each sentence (from 1 on).
        """
        raise NotImplementedError(f"{type(self).__name__} has no encode_separately")

    def extra_nll(self, output: DocumentOutput, batch: DocumentBatch) -> Float[Tensor, ""] | None:
        """An auxiliary loss, summed over the batch (nats); None if there is none."""
        return None

    # -- scoring --------------------------------------------------------------------------------------------------

    def forward(self, batch: DocumentBatch) -> Float[Tensor, "batch sentence word"]:
        """The log-probability (nats) of each target given all before it in the segment; 0 at padding."""
        return self._log_probs(self.encode(batch), batch)

    def _log_probs(self, output: DocumentOutput, batch: DocumentBatch) -> Float[Tensor, "batch sentence word"]:
        places, targets = batch.places, batch.targets.flatten()
        features = output.features.flatten(0, 2)[places]
        log_probs = word_log_probs(features, self.output_weight, self.output_bias, targets[places])
        return log_probs.new_zeros(targets.shape).index_put((places,), log_probs).view(batch.targets.shape)

    @torch.inference_mode()
    def sentence_log_probs(
        self,
        documents: Sequence[Sequence[Sequence[int]]],
        *,
        vocabulary: Vocabulary,
        structure: Sequence[Sequence[Any]] | None = None,
    ) -> list[list[Float[np.ndarray, " tokens"]]]:
        """See `LanguageModel`; every sentence ends with `<eos>`."""
        self.refuse_structure(structure)
        most, longest = max(map(len, documents)), 1 + max(len(ids) for document in documents for ids in document)
        rows, scores = max(1, PADDED_AT_ONCE // (most * longest)), list[list[Float[np.ndarray, " tokens"]]]()
        for first in range(0, len(documents), rows):
            batch = whole_documents(documents[first : first + rows], vocabulary).to(self.device)
            both = zip(self._bounded_log_probs(batch).cpu().numpy(), batch.lengths.tolist(), strict=True)
            scores += [[words[:length] for words, length in zip(*document, strict=True) if length] for document in both]
        return scores

    @torch.inference_mode()
    def pair_log_likelihoods(
        self, sentences: Sequence[Sequence[int]], *, vocabulary: Vocabulary
    ) -> Float64[np.ndarray, "sentences before"]:
        """Nats of each sentence at the beginning of a document (column 0) and after each of these (from 1 on).

        Of systems with `sentence_context: previous`: every order of the sentences is a sum of such entries. For about
        the cost of encoding the sentences once, in evaluation mode.
        """
        own, added, targets, sentence_of = [], [], [], []
        for first, part in _in_parts(sentences):
            batch = whole_documents([part], vocabulary).to(self.device)
            (of_words, of_contexts), is_word = self.encode_separately(batch), batch.is_word
            own.append(of_words[is_word])
            added.append(of_contexts[0, min(first, 1) :])  # the beginning once
            targets.append(batch.targets[is_word])
            sentence_of.append(is_word.nonzero()[:, 1] + first)
        table = pairwise_log_likelihoods(
            torch.cat(own), torch.cat(added), self.output_weight, self.output_bias, torch.cat(targets),
            torch.cat(sentence_of),
        )  # fmt: skip
        return table.cpu().numpy()

    # -- training -------------------------------------------------------------------------------------------------

    def training_step(self, batch: DocumentBatch, batch_idx: int) -> Float[Tensor, ""]:
        """The nll of a segment, or of a token, in the mean over the global batch."""
        output = self.encode(batch)
        nll = -self._log_probs(output, batch).sum()
        self.log_train(nll, batch.global_tokens)
        extra = self.extra_nll(output, batch)
        if extra is not None:
            self.log_train(extra, batch.global_tokens, name="extra_loss")
            nll = nll + extra
        divisor = batch.global_items if self.loss_per == "segment" else batch.global_tokens
        return nll * (self.processes / divisor)

    # -- evaluation -----------------------------------------------------------------------------------------------

    def item_scores(self, batch: DocumentBatch) -> ItemScores:
        """The scores of a batch's segments: words and `<eos>` count as tokens."""
        nll, tokens = -self._bounded_log_probs(batch), batch.lengths.sum(1)
        return ItemScores(
            items=batch.items,
            nll=precise(nll).sum((1, 2))[:, None],
            tokens=tokens[:, None],
            words=tokens,
            unknown=(batch.is_word & (batch.targets == batch.unk)).sum(),
            targets=tokens.sum(),
        )

    def _bounded_log_probs(self, batch: DocumentBatch) -> Float[Tensor, "batch sentence word"]:
        """`forward` of no more than `PADDED_AT_ONCE` positions at once.

        A single document of more positions, such as one with a long line among many short ones, is encoded sentence by
        sentence, each from the state after the one before.
        """
        _, sentences, words = batch.targets.shape
        rows, parts = max(1, PADDED_AT_ONCE // (sentences * words)), []
        for first in range(0, len(batch.targets), rows):
            part = batch.rows(first, first + rows)
            few = part.targets.numel() <= PADDED_AT_ONCE
            log_probs = self(part) if few else self._log_probs_in_turn(part)
            _, least, longest = log_probs.shape
            parts.append(F.pad(log_probs, (0, words - longest, 0, sentences - least)))
        return torch.cat(parts)

    def _log_probs_in_turn(self, batch: DocumentBatch) -> Float[Tensor, "1 sentence word"]:
        """`forward` of a batch of one document, sentence by sentence."""
        before, log_probs = None, []
        for inputs, targets, length in zip(batch.inputs[0], batch.targets[0], batch.lengths[0].tolist(), strict=True):
            features, before = self.step(inputs[None, :length], before)
            log_probs.append(word_log_probs(features[0], self.output_weight, self.output_bias, targets[:length]))
        return pad_sequence(log_probs, batch_first=True)[None]


def _in_parts(sentences: Sequence[Sequence[int]]) -> Iterator[tuple[int, Sequence[Sequence[int]]]]:
    """Sentences in order, as many at once as make no more than `PADDED_AT_ONCE` positions; with the place of the first.

    A longer sentence is a part by itself.
    """
    first, longest = 0, 0
    for place, ids in enumerate(sentences):
        longest = max(longest, len(ids) + 1)
        if place > first and (place + 1 - first) * longest > PADDED_AT_ONCE:
            yield first, sentences[first:place]
            first, longest = place, len(ids) + 1
    yield first, sentences[first:]


def pairwise_log_likelihoods(
    own: Float[Tensor, "words features"],
    added: Float[Tensor, "contexts features"],
    weight: Float[Tensor, "vocab features"],
    bias: Float[Tensor, " vocab"] | None,
    targets: Int[Tensor, " words"],
    sentence_of: Int[Tensor, " words"],
) -> Float64[Tensor, "sentences contexts"]:
    """Sums of `log softmax((own[t] + added[c]) @ weight.T + bias)[targets[t]]` over each sentence's t, for all c; nats.

    Position t is of the sentence `sentence_of[t]`, counted from 0.

    O(words x vocab x (features + contexts)) where one pair after the other is O(words x contexts x vocab x features);
    memory is O((sentences + vocab) x contexts). Exponentials are taken in float64 below the highest logit of each
    factor; where these highest are of words so different that all products vanish, the pair's logits are added first.

    The logits of position t with context c are a_t + b_c, of which a_t is the product of the position's own features
    with the output matrix and b_c that of the context. The normalisers of all pairs, `sum_v exp(a_tv) exp(b_cv)`, are
    then a product of two matrices again.

    >>> two = torch.tensor([0, 1])
    >>> pairwise_log_likelihoods(torch.eye(2), torch.eye(2), torch.eye(2), None, two, two).exp()
    tensor([[0.8808, 0.5000],
            [0.5000, 0.8808]], dtype=torch.float64)
    """
    context = precise(F.linear(added, weight))
    targets, sentence_of = targets.to(context.device), sentence_of.to(context.device)
    highest_context = context.amax(1)
    context_factor = (context - highest_context[:, None]).exp_().T
    rows = max(1, CHUNK_ELEMENTS.get(own.device.type, 1 << 23) // len(weight))
    sums = context.new_zeros(int(sentence_of.max()) + 1 if len(own) else 0, len(added))
    for start in range(0, len(own), rows):
        words = targets[start : start + rows]
        position = precise(F.linear(own[start : start + rows], weight, bias))
        highest = position.amax(1, keepdim=True)
        products = (position - highest).exp_() @ context_factor
        log_z = products.log() + highest + highest_context
        for pairs in torch.split((products < LEAST_SUM).nonzero(), rows):
            word, before = pairs.T
            log_z[word, before] = (position[word] + context[before]).logsumexp(1)
        log_probs = position.gather(1, words[:, None]) + context[:, words].T - log_z
        sums.index_add_(0, sentence_of[start : start + rows], log_probs)
    return sums
