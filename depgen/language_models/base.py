"""The base of every system: optimiser, phases, callbacks, logging, and one path of validation and test."""

import logging
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from inspect import signature
from pathlib import Path
from typing import Any, Literal

import lightning as L
import numpy as np
import torch
from jaxtyping import Float, Float64
from lightning.pytorch.trainer.states import TrainerFn
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer
from torchmetrics import Metric, MetricCollection

from depgen.data.batch import Batch, ItemBatch, collate_documents, collate_tokens, collate_words
from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError
from depgen.metrics.item_scores import ItemScores, ItemTable, KeptItems, Loss, Perplexity, UnknownRate
from depgen.nn.precise import precise_device
from depgen.training.hyper_parameters import factory, plain_settings
from depgen.training.optimizers import AfterValidation, clip_groups, clips_by_group, optimization
from depgen.training.optimizers import OptimizerFactory as OptimizerFactory
from depgen.training.optimizers import SchedulerFactory as SchedulerFactory
from depgen.training.phases import Phase, Phases
from depgen.training.randomness import StepSeed

logger = logging.getLogger(__name__)

Masking = Literal["original", "within_word_l2r"]
"""What is hidden when a token is predicted: it alone (Salazar et al. 2020, Eq. 1), or also the later tokens of its word
(Kauf & Ivanova 2023), where a word is the tokenizer's own, to most of which punctuation is words of its own."""
Likelihood = Literal["exact", "pseudo", "bound"]
"""What a system's scores of a text are: log-probabilities by the chain rule; pseudo-log-likelihoods, each token hidden
in turn and predicted from all others; or bounds. Figures of different kinds are not comparable."""

_UNKNOWN_UNSAID = 0.01
"""The largest share of `<unk>` in a test split that needs no warning."""

SentenceContext = Literal["none", "previous", "document"]
"""Sentences of a document: none, the one before it, or all before it."""


class LanguageModel(L.LightningModule):
    """Base of all systems.

    A system sets `phases`, gives its own view of a batch by `collate`, computes its loss in `training_step` and the
    scores of a batch's items in `item_scores`, from which validation and test are made. It brings the callbacks that
    it needs, so that any Trainer can train it. Nothing here assumes how a text is scored: `left_to_right` adds an order
    of writing, `masked` masked words, `document` sentences.

    Logged: `train/loss`, and for validation and test `loss` (nats per token), `perplexity` and `unk_rate`, the share of
    targets that are `<unk>`.

    Args:
        optimizer: makes the optimiser from the parameters; None = AdamW as in fairseq's language models (betas 0.9 and
            0.98, decoupled weight decay 0.01, learning rate 5e-4). Each phase gets a fresh one.
        scheduler: makes the learning-rate schedule, stepped every step; None = constant. Torch's ReduceLROnPlateau is
            stepped at every validation, by what the phase is judged by.

    Attributes:
        phases: the objectives, one after the other.
        likelihood: what `sentence_log_probs` returns.
        sentence_context: what the scores of a document's sentence depend on beside it. Of `none`, `predict_step` too
            takes each sentence by itself.
        longest_scored: tokens of the longest sequence that `sentence_log_probs` reads, without beginning and end; None
            for any. Data of whole texts (`depgen.data.text.TextData`) are held against it before training.
        generation_options: the dataclass of its options of generation; None: it does not generate texts.
    """

    likelihood: Likelihood = "exact"
    sentence_context: SentenceContext = "document"
    longest_scored: int | None = None
    generation_options: type[Any] | None = None
    phases: tuple[Phase, ...] = (Phase("language_modeling"),)

    def __init__(self, *, optimizer: OptimizerFactory | None = None, scheduler: SchedulerFactory | None = None) -> None:
        super().__init__()
        self._optimizer = None if optimizer is None else factory(optimizer, OptimizerFactory)
        self._scheduler = None if scheduler is None else factory(scheduler, SchedulerFactory)
        self.phase, self._rate_scale = 0, 1.0
        self._measure_in(passes=1)
        self.test_items = KeptItems()
        self._of_text = True

    @classmethod
    def figures(cls, passes: int = 1) -> dict[str, Metric]:
        """New metrics of a split in which each item is scored some times, by the name that they are logged under."""
        return {"loss": Loss(passes), "perplexity": Perplexity(passes), "unk_rate": UnknownRate()}

    def _measure_in(self, passes: int) -> None:
        self.val_figures, self.test_figures = (
            MetricCollection(self.figures(passes), compute_groups=False) for _ in range(2)
        )

    # -- what a system provides -----------------------------------------------------------------------------------

    @property
    def collate(self) -> Callable[[ItemBatch], Batch]:
        """The function that makes this system's batches; picklable, so that worker processes can run it."""
        raise NotImplementedError(f"{type(self).__name__} has no collate function")

    @property
    def learns_from_trees(self) -> bool:
        """Whether trees of the data have a part in training; by default where a system has batches of its own."""
        return self.collate not in (collate_tokens, collate_words, collate_documents)

    def forward(self, batch: Any) -> Tensor:  # noqa: ANN401, the system's own
        """The log-probability (nats) of each target of a batch, or whatever else the system predicts."""
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def item_scores(self, batch: Any) -> ItemScores:  # noqa: ANN401, the system's own
        """The scores of a batch's items, which validation and test are made from."""
        raise NotImplementedError(f"{type(self).__name__} has no item_scores")

    def sentence_log_probs(
        self,
        documents: Sequence[Sequence[Sequence[int]]],
        *,
        vocabulary: Vocabulary,
        structure: Sequence[Sequence[Any]] | None = None,
    ) -> list[list[Float[np.ndarray, " tokens"]]]:
        """Log-probabilities (nats) of each document's tokens, sentence by sentence; documents are read as one batch.

        A sentence's tokens are its ids and, where the system predicts one there, the `<eos>` after them. In evaluation
        mode; nothing is carried from call to call.

        Args:
            documents: sentences of each as token ids, without beginning and end; none is empty.
            vocabulary: that the system was trained with.
            structure: of each sentence, in the shape of `documents`: heads, edges or whatever else the system scores.
                Then the probabilities are of tokens and structure together. None: of the tokens.
        """
        raise UserError(f"{type(self).__name__} gives texts no likelihood.")

    def refuse_structure(self, structure: object) -> None:
        """Raises UserError if structure is given, which this system doesn't score."""
        if structure is not None:
            raise UserError(f"{type(self).__name__} scores no structure, but some is given: leave it out.")

    @property
    def output_bias(self) -> Float[Tensor, " vocab"] | None:
        """The output bias, where there is one."""
        return None

    @property
    def output_biases(self) -> list[Tensor]:
        """The biases of all outputs over the vocabulary."""
        return [] if self.output_bias is None else [self.output_bias]

    # -- phases and optimisers ------------------------------------------------------------------------------------

    def enter_phase(self, index: int) -> None:
        """Train by the objective of a phase from here on."""
        assert 0 <= index < len(self.phases), f"{type(self).__name__} has {len(self.phases)} phases, not {index + 1}"
        self.phase = index

    def trained_parameters(self) -> list[Parameter]:
        """The parameters that the present phase changes: by default all that require a gradient."""
        return [parameter for parameter in self.parameters() if parameter.requires_grad]

    def parameter_groups(self) -> list[Parameter] | list[dict[str, Any]]:
        """The same as the optimiser is to treat it: in one group unless a system says otherwise.

        A group may have options of the optimiser, such as `lr`; `clip`, the largest norm of its gradient; and
        `clip_name`, a name that groups share whose gradients are clipped together.
        """
        return self.trained_parameters()

    def configure_optimizers(self) -> Any:  # noqa: ANN401
        """A fresh optimiser and schedule; called at the start of every phase."""
        monitor = self.phases[self.phase].monitor
        return optimization(self.parameter_groups(), self._optimizer, self._scheduler, monitor=monitor)

    def configure_gradient_clipping(
        self,
        optimizer: Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clip each group of parameters that has a `clip` by itself, and all others together by the trainer's value.

        Where no group has one, and with optimisers that clip by themselves, the trainer's value holds for all
        parameters together.
        """
        if not clips_by_group(optimizer):
            super().configure_gradient_clipping(optimizer, gradient_clip_val, gradient_clip_algorithm)
            return
        if gradient_clip_val and gradient_clip_algorithm == "value":
            raise UserError(
                f"{type(self).__name__} clips the gradient norm of each of its parts: leave out "
                "trainer.gradient_clip_algorithm: value."
            )
        clip_groups(optimizer, others=gradient_clip_val)

    def setup(self, stage: str) -> None:
        """Refuse, before training, what no checkpoint could be loaded from, and precisions that change batches."""
        precision = getattr(self._attached, "precision", "32-true")
        if precision.endswith("-true") and precision != "32-true":
            raise UserError(
                f"trainer.precision: expected 32-true, bf16-mixed or 16-mixed, found {precision}, for which Lightning "
                "changes batches in place, and those of depgen can't be changed. Take one of these. Scores in double "
                "precision: depgen.load(run, dtype='float64')."
            )
        if stage == "fit":
            if not self.hparams and signature(type(self)).parameters:
                raise UserError(
                    f"{type(self).__name__}: call self.save_hyperparameters() in __init__, as its checkpoints could "
                    "not be loaded otherwise."
                )
            plain_settings(type(self), self.hparams)

    def take_table_sizes(self, **tables: str) -> None:
        """Take constructor arguments that were not given from the data's vocabulary, and store them in `hparams`.

        Each argument is the number of rows of a table of the vocabulary. A checkpoint keeps it, so that it loads
        without the data. A system calls this first in its `configure_model`, and then makes the layers of such sizes,
        unless it has them already.
        """
        vocabulary: Vocabulary | None = getattr(getattr(self._attached, "datamodule", None), "vocabulary", None)
        for argument, table in tables.items():
            size: int | None = self.hparams[argument]
            if vocabulary is None and size is not None:
                continue
            if vocabulary is None or table not in vocabulary.tables:
                raise UserError(
                    f"{argument}: {type(self).__name__} takes it from the table {table!r} of the data's vocabulary, "
                    "but there is none. Set data.init_args.vocabulary to one that makes this table, or give a number."
                )
            rows = len(vocabulary.tables[table])
            if size not in (None, rows):
                raise UserError(f"{argument}: expected {rows}, as the vocabulary's table {table!r} has, found {size}.")
            self.hparams[argument] = rows

    def configure_callbacks(self) -> list[L.Callback]:
        """The callbacks that training needs: phases with their best checkpoints, a seed for each step, optimisers.

        Checkpoints are written into `checkpoints/` of the trainer's `default_root_dir`.
        """
        callbacks: list[L.Callback] = self.trainer.callbacks  # type: ignore[attr-defined]
        if any(isinstance(each, Phases) for each in callbacks):  # from an earlier call of the same trainer
            return []
        folder = Path(self.trainer.default_root_dir) / "checkpoints"
        return [Phases(folder), StepSeed(), AfterValidation()]

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Store the constructor's arguments as plain values, so that the file loads without running code."""
        name = self.CHECKPOINT_HYPER_PARAMS_KEY
        if name in checkpoint:
            checkpoint[name] = plain_settings(type(self), checkpoint[name])

    # -- training -------------------------------------------------------------------------------------------------

    @property
    def _attached(self) -> Any:  # noqa: ANN401, a trainer or None
        """The trainer that runs the system; None in a notebook."""
        try:
            return self.trainer
        except RuntimeError:
            return None

    @property
    def processes(self) -> int:
        """How many processes train together."""
        trainer = self._attached
        return 1 if trainer is None else trainer.world_size

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:  # noqa: ANN401, the system's own
        """Remember by how much the batch scales the learning rate of its step."""
        self._rate_scale = getattr(batch, "learning_rate_scale", 1.0)

    def optimizer_step(self, epoch: int, batch_idx: int, optimizer: Any, *arguments: Any, **options: Any) -> None:  # noqa: ANN401
        """A step at the rates that the batch scales: a shorter segment of a stream gets a smaller step."""
        rates = [group["lr"] for group in optimizer.param_groups]
        for group in optimizer.param_groups:
            group["lr"] *= self._rate_scale
        super().optimizer_step(epoch, batch_idx, optimizer, *arguments, **options)
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate

    def log_train(
        self, nll_sum: Float[Tensor, ""], global_tokens: int | Float64[Tensor, ""], *, name: str = "loss"
    ) -> Float[Tensor, ""]:
        """The loss of this process's share; averaged over processes it is nats per token of the *global* batch."""
        loss = nll_sum * (self.processes / global_tokens)
        if self._attached is not None:
            several = self.processes > 1
            self.log(f"train/{name}", loss.detach(), prog_bar=True, batch_size=1, sync_dist=several)
        return loss

    def compile_network(self, **options: Any) -> None:  # noqa: ANN401, of torch.compile
        """Have torch compile the backbone, in place, so that checkpoints keep their names; options as torch.compile."""
        backbone = getattr(self, "backbone", None)
        if backbone is None:
            raise UserError(f"--compile: {type(self).__name__} takes no backbone that could be compiled: leave it out.")
        backbone.compile(**{"dynamic": True, **options})  # batches of all lengths

    # -- validation and test --------------------------------------------------------------------------------------

    def validation_step(self, batch: Any, batch_idx: int) -> None:  # noqa: ANN401
        """Loss on the validation split, and perplexity where all scores are of the text alone."""
        self._measure("val", self.val_figures, batch)

    def test_step(self, batch: Any, batch_idx: int) -> None:  # noqa: ANN401
        """Loss and perplexity on the test split, and the scores of its items."""
        self.test_items.update(self._measure("test", self.test_figures, batch))

    def _measure(self, stage: str, figures: MetricCollection, batch: Any) -> ItemScores:  # noqa: ANN401
        trainer = self._attached
        fitting = trainer is not None and trainer.state.fn == TrainerFn.FITTING
        # while a model is fitted in the precision of training; else in full precision, since bf16 logits blur log Z
        with nullcontext() if fitting else torch.autocast(self.device.type, enabled=False):
            scores = self.item_scores(batch).to(precise_device(self.device))
        figures.update(scores)
        self._of_text = self._of_text and scores.of_text
        for name, figure in figures.items():
            if not isinstance(figure, Perplexity):
                shown = stage == "val" and name == "loss"
                self.log(f"{stage}/{name}", figure, prog_bar=shown, on_epoch=True, batch_size=1)
        return scores

    def on_validation_epoch_end(self) -> None:
        """Log the perplexities of the validation split; a system of one's own that overrides this calls `super()`."""
        self._log_perplexities("val", self.val_figures)

    def on_test_epoch_end(self) -> None:
        """Log the perplexities of the test split, and warn where many of its words are `<unk>`."""
        self._log_perplexities("test", self.test_figures)
        share = float(self.test_figures["unk_rate"].compute()) if "unk_rate" in self.test_figures else 0.0
        if share > _UNKNOWN_UNSAID and self.trainer.is_global_zero:
            logger.warning(
                "%.2f %% of the test's targets are <unk>, which lowers perplexity: it compares with perplexities over "
                "as many alone.", 100 * share,
            )  # fmt: skip

    def _log_perplexities(self, stage: str, figures: MetricCollection) -> None:
        """Log perplexities, unless a structure takes part in any score of the split: that of a part is not its own."""
        of_text = self.trainer.strategy.reduce_boolean_decision(self._of_text)
        self._of_text = True
        for name, figure in figures.items():
            if isinstance(figure, Perplexity) and figure.update_called:
                if of_text:
                    shown = stage == "val" and name == "perplexity"
                    self.log(f"{stage}/{name}", figure, prog_bar=shown, batch_size=1)
                else:
                    figure.reset()

    def on_test_epoch_start(self) -> None:
        """Forget the scores of an earlier test."""
        self.test_items.begin()

    def test_scores(self) -> ItemTable | None:
        """Place in the split, nats, tokens and words of every item tested last, over all devices; None without any."""
        return self.test_items.compute() if self.test_items.update_called else None
