"""The plain causal language model: the base of every dependency-aware twin.

Vaswani et al. (2017), Radford et al. (2019): next-token prediction by one softmax over the vocabulary. Whatever
backbone is named in YAML gives the hidden states; a twin such as `DMLM` takes the very same block.

With `tree_regularization`, training adds the penalty of Nandi et al. (2025), which reads constituents.

Deviations
    D1. Stories are scored whole, context and ending, as in the code of Yang & Wan (2022); nothing is masked.
    D2. Padding has no embedding and no class; fairseq gives it both.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from depgen.backbones.backbone import BackboneFactory, BackboneOutput, BackboneState
from depgen.data.batch import NO_CONSTITUENTS, ItemBatch, TokenBatch, TokenItem, collate_tokens
from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError
from depgen.language_models.left_to_right import LeftToRight
from depgen.nn.lengths import mask_of
from depgen.nn.vocabulary import log_softmax_over_vocabulary, word_log_probs
from depgen.training.hyper_parameters import factory
from depgen.training.tree_regularization import TreeRegularization, bracketing_of_chart, possible_cuts
from depgen.trees.attachments import binary_constituents, with_words
from depgen.trees.sentence import Constituent


@dataclass(frozen=True, kw_only=True)
class CutBatch(TokenBatch):
    """Sequences, and the cuts of their constituents (`possible_cuts`); None without constituents."""

    cuts: Int[Tensor, "cuts 6"] | None = None


def collate_cuts(batch: ItemBatch) -> CutBatch:
    """A padded batch with the cuts of its constituents, where all items have such; see `TreeRegularization`."""
    tokens, first = collate_tokens(batch), 0
    if any(not isinstance(item, TokenItem) or item.spans is None for item in batch.items):
        return CutBatch(**vars(tokens))
    cuts = [np.zeros((0, 6), dtype=np.int64)]
    for row, item in enumerate(batch.items):
        ends = np.ones(len(item.ids), dtype=bool) if item.word_ends is None else item.word_ends
        spans = binary_constituents(with_words([tuple(span) for span in item.spans.tolist()], ends), len(ends))
        cuts.append(possible_cuts(spans, np.roll(ends, 1), row=row, first=first))
        first += int(cuts[-1][:, 5].sum())
    return CutBatch(**vars(tokens), cuts=torch.from_numpy(np.concatenate(cuts)))


class CausalLM(LeftToRight):
    """A backbone and a softmax over the vocabulary.

    Args:
        backbone: makes the network from the vocabulary size; in YAML a class path with all its other arguments.
        vocabulary_size: number of token types; linked from the data.
        tree_regularization: a penalty that reads constituents; they are needed in training alone.
        kwargs: see `LeftToRight`.
    """

    def __init__(
        self,
        backbone: BackboneFactory,
        vocabulary_size: int,
        tree_regularization: TreeRegularization | None = None,
        **kwargs: Any,  # noqa: ANN401, of the base
    ) -> None:
        super().__init__(**kwargs)
        self.save_hyperparameters()
        self.use_backbone(factory(backbone, BackboneFactory)(vocabulary_size))
        self.tree_regularization = tree_regularization
        if tree_regularization is not None and not 0 < tree_regularization.layer <= self.backbone.attention_layers:
            raise UserError(
                f"tree_regularization.layer: expected 1 to {self.backbone.attention_layers}, the layers of the "
                f"backbone that have attention, found {tree_regularization.layer}."
            )

    @property
    def collate(self) -> Callable[[ItemBatch], TokenBatch]:
        """Padded sequences, read from `<eos>` on; with their constituents where a penalty reads them."""
        return collate_tokens if self.tree_regularization is None else collate_cuts

    def log_probs(self, batch: TokenBatch) -> Float[Tensor, "batch length"]:
        """The log-probability (nats) of each target; without meaning at padding, 0 of a token without a score."""
        if self.windows is None:
            return self._log_probs(self.encode(batch), batch)
        length = batch.inputs.size(1)
        starts, log_probs = self.windows.starts(length), [torch.zeros(len(batch.inputs), self.windows.first)]
        for start in np.unique(starts[self.windows.first :]):
            places = np.flatnonzero(starts == start)
            window = slice(start, places[-1] + 1)
            part = replace(batch, inputs=batch.inputs[:, window], targets=batch.targets[:, window])
            log_probs.append(self._log_probs(self.encode(part), part)[:, -len(places) :])
        return torch.cat([part.to(self.device) for part in log_probs], 1)

    def _log_probs(self, output: BackboneOutput, batch: TokenBatch) -> Float[Tensor, "batch length"]:
        weight, bias = self.backbone.output_weight, self.backbone.output_bias
        return word_log_probs(output.hidden, weight, bias, batch.targets)

    def training_step(self, batch: TokenBatch, batch_idx: int) -> Float[Tensor, ""]:
        """Negative log-likelihood, nats per token of the global batch."""
        trees = self.tree_regularization
        is_due = trees is not None and self.global_step % trees.every == 0
        output = self.backbone(batch.inputs, all_layers=True) if is_due else self.encode(batch)
        nll = -self._log_probs(output, batch).masked_fill(~batch.is_word, 0).sum()
        loss = self.log_train(nll, batch.global_tokens) + self.penalty(output, batch)
        return loss + self._tree_penalty(output, batch) if is_due else loss

    def _tree_penalty(self, output: BackboneOutput, batch: TokenBatch) -> Float[Tensor, ""]:
        trees, cuts = self.tree_regularization, getattr(batch, "cuts", None)
        if cuts is None:
            raise UserError(f"tree_regularization reads constituents, {NO_CONSTITUENTS}")
        assert trees is not None
        assert output.layers is not None
        chart = trees.chart(output.layers[trees.layer][:, 1:], batch.is_word[:, 1:])
        penalty = trees(chart, cuts, len(batch.inputs))
        if self._attached is not None:
            self.log("train/tree_loss", penalty.detach(), batch_size=1, sync_dist=self.processes > 1)
        return trees.weight * penalty

    @torch.inference_mode()
    def bracketings(
        self,
        sentences: Sequence[Sequence[int]],
        *,
        vocabulary: Vocabulary,
        word_starts: Sequence[Bool[np.ndarray, " _"]],
        beam_size: int | None = None,
    ) -> list[list[Constituent]]:
        """The spans of each sentence's tree by the scores of `tree_regularization`; there is no beam."""
        trees = self.tree_regularization
        if trees is None:
            raise UserError(
                "A CausalLM brackets sentences by the distances of ON-LSTM or PRPN, or if it was trained with "
                "tree_regularization."
            )
        eos = vocabulary.eos
        inputs = pad_sequence([torch.tensor([eos, *ids]) for ids in sentences], True, eos).to(self.device)
        layers = self.backbone(inputs, all_layers=True).layers
        assert layers is not None
        lengths = torch.tensor([len(ids) for ids in sentences], device=self.device)
        charts = trees.chart(layers[trees.layer][:, 1:], mask_of(lengths, inputs.size(1) - 1)).cpu()
        bracketings = (bracketing_of_chart(chart, starts) for chart, starts in zip(charts, word_starts, strict=True))
        return [[(*span, "") for span in spans] for spans in bracketings]

    def generation_step(
        self,
        tokens: Int[Tensor, "batch length"],
        padding: Bool[Tensor, "batch length"] | None,
        state: BackboneState | None,
    ) -> tuple[Float[Tensor, "batch vocab"], BackboneState]:
        """Log-probabilities of the next token after `tokens`, and the next state."""
        output = self.backbone(tokens, padding=padding, state=state, carry=True)
        assert output.state is not None
        last = output.hidden[:, -1]
        return (
            log_softmax_over_vocabulary(last, self.backbone.output_weight, self.backbone.output_bias),
            output.state,
        )
