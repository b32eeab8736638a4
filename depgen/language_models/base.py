"""The thin base of every system: optimiser wiring, phases, logging and the resetting of metrics."""

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import lightning as L
import numpy as np
import torch
from jaxtyping import Float, Float64, Int, Int64
from lightning.pytorch.trainer.states import TrainerFn
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from depgen.data.batch import Batch, ItemBatch
from depgen.data.vocabulary import AnyVocabulary
from depgen.errors import UserError
from depgen.training.fused import use_fused_kernels
from depgen.training.nt_asgd import NTASGD
from depgen.training.phases import Phase, monitored_value

log = logging.getLogger(__name__)

NEVER = 1 << 60
"""An epoch that is not reached: Lightning steps a plateau's schedule only after an epoch's checkpoint is written, which
would be a step too few after a resume."""

OptimizerFactory = Callable[[Iterable[Parameter] | Iterable[dict[str, Any]]], Optimizer]
SchedulerFactory = Callable[[Optimizer], LRScheduler]
Likelihood = Literal["exact", "pseudo", "bound"]
"""What a system's scores of a text are: log-probabilities by the chain rule; pseudo-log-likelihoods, each token hidden
in turn and predicted from all others; or bounds. Figures of different kinds are not comparable."""


class LanguageModel(L.LightningModule):
    """Base of all systems.

    A system sets `phases`, gives its own view of a batch by `collate` and computes its losses in `training_step`,
    `validation_step` and `test_step`. Nothing here assumes how a text is scored: `left_to_right` adds an order of
    writing, `masked` masked words.

    Args:
        optimizer: makes the optimiser from the parameters; None = Adam as in fairseq's language models (betas 0.9 and
            0.98, decoupled weight decay 0.01, learning rate 5e-4). Each phase gets a fresh one.
        scheduler: makes the learning-rate schedule, stepped every step; None = constant. Torch's ReduceLROnPlateau is
            stepped at every validation, by what the phase is judged by.

    Attributes:
        phases: the objectives, one after the other.
        likelihood: what `sentence_log_probs` returns.
        reads_sentences: whether it knows of a document's sentences; otherwise a document is one sequence of tokens.
        sentences_alone: whether `sentence_log_probs` scores each sentence of a document as if it stood alone.
        sentences_in_pairs: whether a sentence's score depends on the sentence before it alone, and there is a table of
            all pairs, `pair_log_likelihoods`.
        longest_scored: tokens of the longest sequence that `sentence_log_probs` reads, without beginning and end; None
            for any. Data of whole texts (`depgen.data.text.TextData`) are held against it before training.
    """

    likelihood: Likelihood = "exact"
    reads_sentences: bool = False
    sentences_alone: bool = False
    sentences_in_pairs: bool = False
    longest_scored: int | None = None
    phases: tuple[Phase, ...] = (Phase("language_modeling", None, "val/loss"),)

    def __init__(self, *, optimizer: OptimizerFactory | None = None, scheduler: SchedulerFactory | None = None) -> None:
        super().__init__()
        self._optimizer, self._scheduler = optimizer, scheduler
        self.phase = 0
        self._learning_rate_scale = 1.0
        self._item_scores: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []

    # -- what a system provides -----------------------------------------------------------------------------------

    @property
    def collate(self) -> Callable[[ItemBatch], Batch]:
        """The function that makes this system's batches; picklable, so that worker processes can run it."""
        raise NotImplementedError(f"{type(self).__name__} has no collate function")

    def sentence_log_probs(
        self, documents: Sequence[Sequence[Sequence[int]]], *, vocabulary: AnyVocabulary
    ) -> list[list[Float[np.ndarray, " tokens"]]]:
        """Log-probabilities (nats) of each document's tokens, sentence by sentence; documents are read as one batch.

        A sentence's tokens are its ids and, where the system predicts one there, the `<eos>` behind them. In evaluation
        mode; nothing is carried from call to call.

        Args:
            documents: sentences of each as token ids, without beginning and end; none is empty.
            vocabulary: that the system was trained with.

        Raises:
            UserError: the system gives texts no likelihood, or can't read documents of this length.
        """
        raise UserError(f"{type(self).__name__} gives texts no likelihood.")

    def pair_log_likelihoods(
        self, sentences: Sequence[Sequence[int]], *, vocabulary: AnyVocabulary
    ) -> Float64[np.ndarray, "sentences before"] | None:
        """Nats of each sentence at the beginning of a document (column 0) and behind each of these (from 1 on).

        Every order of the sentences is a sum of such entries. None where a sentence depends on more than the one before
        it; `sentences_in_pairs` says so without reading any. In evaluation mode.
        """
        return None

    @property
    def output_biases(self) -> list[Tensor]:
        """The biases of all outputs over the vocabulary; none by default, or `output_bias` where a system has that."""
        bias = getattr(self, "output_bias", None)
        return [] if bias is None else [bias]

    # -- phases and optimisers ------------------------------------------------------------------------------------

    def enter_phase(self, index: int) -> None:
        """Train by the objective of a phase from here on."""
        assert 0 <= index < len(self.phases), f"{type(self).__name__} has {len(self.phases)} phases, not {index + 1}"
        self.phase = index

    def trained_parameters(self) -> list[Parameter]:
        """What the present phase changes: by default all that require a gradient."""
        return [parameter for parameter in self.parameters() if parameter.requires_grad]

    def parameter_groups(self) -> list[Parameter] | list[dict[str, Any]]:
        """The same as the optimiser is to treat it: in one group unless a system says otherwise."""
        return self.trained_parameters()

    def configure_optimizers(self) -> Any:  # noqa: ANN401
        """A fresh optimiser and schedule; called at the start of every phase."""
        make = self._optimizer or _adam
        optimizer = make(self.parameter_groups())
        use_fused_kernels(optimizer)
        if self._scheduler is None:
            return optimizer
        schedule = self._scheduler(optimizer)
        when: dict[str, Any] = {"interval": "step"}
        if isinstance(schedule, ReduceLROnPlateau):  # stepped in on_validation_end
            when = {"interval": "epoch", "frequency": NEVER, "monitor": self.phases[self.phase].monitor}
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, **when}}

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """Take note of how large a step the batch is worth."""
        self._learning_rate_scale = getattr(batch, "learning_rate_scale", 1.0)

    def optimizer_step(
        self,
        epoch: int,
        batch_idx: int,
        optimizer: Any,  # noqa: ANN401
        optimizer_closure: Callable[[], Any] | None = None,
    ) -> None:
        """A step at the batch's share of the learning rate."""
        rates = [group["lr"] for group in optimizer.param_groups]
        for group in optimizer.param_groups:
            group["lr"] *= self._learning_rate_scale
        super().optimizer_step(epoch, batch_idx, optimizer, optimizer_closure)
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate

    # -- averaged weights: validated, and kept by the checkpoints that validation leads to ---------------------------

    def _averaging(self) -> list[NTASGD]:
        fits = self.trainer.state.fn == TrainerFn.FITTING and not self.trainer.sanity_checking
        return [each for each in self.trainer.optimizers if isinstance(each, NTASGD)] if fits else []

    def on_validation_start(self) -> None:
        """Put averaged weights in place, where the optimiser keeps any."""
        for optimizer in self._averaging():
            optimizer.swap()

    def on_validation_end(self) -> None:
        """Go on from the weights themselves, after the callbacks have kept the best; tell who waits for a plateau."""
        if self.trainer.state.fn == TrainerFn.FITTING and not self.trainer.sanity_checking:
            for config in self.trainer.lr_scheduler_configs:
                if isinstance(config.scheduler, ReduceLROnPlateau):
                    config.scheduler.step(monitored_value(self.trainer, self.phases[self.phase]))
        for optimizer in self._averaging():
            optimizer.swap()
            if optimizer.validated(monitored_value(self.trainer, self.phases[self.phase])):
                log.info("Weights are averaged from step %d on.", self.trainer.global_step)

    # -- logging --------------------------------------------------------------------------------------------------

    def log_train(self, nll_sum: Float[Tensor, ""], global_tokens: int, *, name: str = "loss") -> Float[Tensor, ""]:
        """The loss of this rank's share; averaged over ranks it is nats per token of the *global* batch."""
        loss = nll_sum * (self.trainer.world_size / global_tokens)
        several = self.trainer.world_size > 1
        self.log(f"train/{name}", loss.detach(), prog_bar=True, batch_size=1, sync_dist=several)
        return loss

    def evaluation_precision(self) -> AbstractContextManager[None]:
        """That of training while a model is fitted; else full precision, since bf16 logits blur log Z."""
        fitting = self._trainer is not None and self.trainer.state.fn == TrainerFn.FITTING
        return nullcontext() if fitting else torch.autocast(self.device.type, enabled=False)

    # -- the scores of every item tested ----------------------------------------------------------------------------

    def keep_scores(
        self,
        items: Int[Tensor, " batch"],
        nll: Float[Tensor, " batch"],
        tokens: Int[Tensor, " batch"],
        words: Int[Tensor, " batch"] | None = None,
    ) -> None:
        """Keep each item's nll (nats), the tokens that it runs over and their words, for `test_scores`.

        Without words each token is one.
        """
        self._item_scores.append((items, nll, tokens, tokens if words is None else words))

    def on_test_epoch_start(self) -> None:
        """Forget the scores of an earlier test."""
        self._item_scores.clear()

    def test_scores(
        self,
    ) -> (
        tuple[
            Int64[np.ndarray, " items"],
            Float64[np.ndarray, " items"],
            Int64[np.ndarray, " items"],
            Int64[np.ndarray, " items"],
        ]
        | None
    ):
        """Place in the split, nll (nats), tokens and words of every item tested last, over all devices, in order.

        None for a system that has no such scores.
        """
        columns = [torch.cat(column) for column in zip(*self._item_scores, strict=True)]
        if self.trainer.world_size > 1:
            shares: list[list[Tensor]] = [[]] * self.trainer.world_size
            torch.distributed.all_gather_object(shares, [column.cpu() for column in columns])
            columns = [torch.cat(column) for column in zip(*filter(None, shares), strict=True)]
        if not columns:
            return None
        order = columns[0].argsort()
        items, nll, tokens, words = (column[order].cpu().numpy() for column in columns)
        return items, nll, tokens, words


def _adam(parameters: Iterable[Parameter] | Iterable[dict[str, Any]]) -> Optimizer:
    return torch.optim.AdamW(parameters, lr=5e-4, betas=(0.9, 0.98), weight_decay=0.01)
