"""The thin base of every system: optimiser wiring, phases, logging and the resetting of metrics."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

import lightning as L
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torchmetrics import MeanMetric

from depgen.data.batch import Batch, ItemBatch, TokenBatch
from depgen.decoding.generation import State, generate
from depgen.decoding.sampling import Sampling
from depgen.metrics.perplexity import Perplexity
from depgen.training.phases import Phase

OptimizerFactory = Callable[[Iterable[Parameter]], Optimizer]
SchedulerFactory = Callable[[Optimizer], LRScheduler]


class LanguageModel(L.LightningModule):
    """Base of all systems.

    A system sets `phases`, gives its own view of a batch by `collate` and computes its losses in `training_step`,
    `validation_step` and `test_step`. Nothing here assumes an order of writing: `LeftToRight` adds that.

    Args:
        optimizer: makes the optimiser from the parameters; None = Adam as in fairseq's language models (betas 0.9 and
            0.98, decoupled weight decay 0.01, learning rate 5e-4). Each phase gets a fresh one.
        scheduler: makes the learning-rate schedule, stepped every step; None = constant.
    """

    phases: tuple[Phase, ...] = (Phase("language_modeling", None, "val/loss"),)

    def __init__(self, *, optimizer: OptimizerFactory | None = None, scheduler: SchedulerFactory | None = None) -> None:
        super().__init__()
        self._optimizer, self._scheduler = optimizer, scheduler
        self.phase = 0
        self.val_perplexity, self.test_perplexity = Perplexity(), Perplexity()
        self.val_loss, self.test_loss = (MeanMetric().set_dtype(torch.float64) for _ in range(2))

    # -- what a system provides -----------------------------------------------------------------------------------

    @property
    def collate(self) -> Callable[[ItemBatch], Batch]:
        """The function that makes this system's batches; picklable, so that worker processes can run it."""
        raise NotImplementedError(f"{type(self).__name__} has no collate function")

    # -- phases and optimisers ------------------------------------------------------------------------------------

    def enter_phase(self, index: int) -> None:
        """Train by the objective of a phase from here on."""
        assert 0 <= index < len(self.phases), f"{type(self).__name__} has {len(self.phases)} phases, not {index + 1}"
        self.phase = index

    def configure_optimizers(self) -> Any:  # noqa: ANN401
        """A fresh optimiser and schedule; called at the start of every phase."""
        parameters = [parameter for parameter in self.parameters() if parameter.requires_grad]
        make = self._optimizer or _adam
        optimizer = make(parameters)
        if self._scheduler is None:
            return optimizer
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": self._scheduler(optimizer), "interval": "step"}}

    # -- logging --------------------------------------------------------------------------------------------------

    def log_train(self, nll_sum: Float[Tensor, ""], global_tokens: int, *, name: str = "loss") -> Float[Tensor, ""]:
        """The loss of this rank's share; averaged over ranks it is nats per token of the *global* batch."""
        loss = nll_sum * (self.trainer.world_size / global_tokens)
        self.log(f"train/{name}", loss.detach(), prog_bar=True, batch_size=1)
        return loss

    def log_evaluation(self, stage: str, batch: TokenBatch, nll: Float[Tensor, "batch length"]) -> None:
        """Add a batch to the split's loss and perplexity (nats per token; `<eos>` counts, BOS and padding don't)."""
        counted, tokens = nll.masked_fill(~batch.mask, 0).double().sum(), batch.lengths.sum()
        metric, loss = (
            (self.test_perplexity, self.test_loss) if stage == "test" else (self.val_perplexity, self.val_loss)
        )
        metric.update(counted, tokens, (batch.mask & (batch.targets == batch.unk)).sum())
        loss.update(counted / tokens, tokens)
        self.log(f"{stage}/perplexity", metric, prog_bar=stage == "val", on_epoch=True, batch_size=1)
        self.log(f"{stage}/loss", loss, on_epoch=True, batch_size=1)


def _adam(parameters: Iterable[Parameter]) -> Optimizer:
    return torch.optim.AdamW(parameters, lr=5e-4, betas=(0.9, 0.98), weight_decay=0.01)


@runtime_checkable
class Writer(Protocol):
    """Any system that generates, in whatever order it writes."""

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        eos: int,
        sampling: Sampling,
        seeds: Sequence[int],
        max_new_tokens: int,
        batch_size: int = 64,
        progress: bool = False,
    ) -> list[list[int]]:
        """A text for each prompt; see `LeftToRight.generate`."""
        ...


class LeftToRight(LanguageModel):
    """Base of the systems that score and write a text token by token."""

    def log_probs(self, batch: TokenBatch) -> Float[Tensor, "batch length"]:
        """The log-probability (nats) of each target given what stands before it; without meaning at padding."""
        raise NotImplementedError(f"{type(self).__name__} has no log_probs")

    def generation_step(
        self,
        tokens: Int[Tensor, "batch length"],
        padding: Bool[Tensor, "batch length"] | None,
        state: Any,  # noqa: ANN401
    ) -> tuple[Float[Tensor, "batch vocab"], State]:
        """Log-probabilities of the token after `tokens`, which follow those already in `state`; and the new state."""
        raise NotImplementedError(f"{type(self).__name__} has no generation_step")

    def validation_step(self, batch: TokenBatch, batch_idx: int) -> None:
        """Loss and perplexity on the validation split."""
        self.log_evaluation("val", batch, -self.log_probs(batch))

    def test_step(self, batch: TokenBatch, batch_idx: int) -> None:
        """Loss and perplexity on the test split."""
        self.log_evaluation("test", batch, -self.log_probs(batch))

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        eos: int,
        sampling: Sampling,
        seeds: Sequence[int],
        max_new_tokens: int,
        batch_size: int = 64,
        progress: bool = False,
    ) -> list[list[int]]:
        """A continuation of each prompt, without the end of sequence; item k depends on prompt k and seed k alone.

        Args:
            prompts: token ids, without the `<eos>` that stands in front of every sequence.
            eos: its id.
            sampling: how a token is drawn from the distribution.
            seeds: one a prompt.
            max_new_tokens: where a continuation is cut; how many were is logged.
            batch_size: prompts written at once.
            progress: show a progress bar.
        """
        return generate(
            self.generation_step,
            [[eos, *prompt] for prompt in prompts],
            eos=eos,
            sampling=sampling,
            seeds=list(seeds),
            max_new_tokens=max_new_tokens,
            batch_size=batch_size,
            device=self.device,
            progress=progress,
        )
