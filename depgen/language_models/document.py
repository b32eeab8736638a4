"""The base of the systems that encode a document sentence by sentence."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
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
