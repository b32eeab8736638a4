"""Training of a UNION scorer: masked words first where an encoder starts from nothing, then human against corrupted."""

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import lightning as L
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Int
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR
from torchmetrics.classification import BinaryAUROC

from depgen.errors import UserError, check_at_least
from depgen.evaluation.pretrained import ModelWithTokenizer
from depgen.evaluation.union.network import Pooling, TokenHead, UnionNetwork
from depgen.evaluation.union.stories import StoryBatch, UnionData
from depgen.training.callbacks import LossGuard
from depgen.training.checkpoints import CheckpointWriter, load_checkpoint
from depgen.training.logs import CurveLogger, quiet_libraries
from depgen.training.phases import Phase, Phases
from depgen.training.randomness import StepSeed
from depgen.training.resume import Resume
from depgen.training.runs import BEST, RESUME
from depgen.training.schedules import warmup_factor

MASKED = 0.15
"""Share of the words that masked-word training asks for; of these 80 % are masked, 10 % random, 10 % as they are."""
IGNORED = -100

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class UnionTraining:
    """How a scorer is trained; the defaults are the published ones, for a pretrained encoder.

    Attributes:
        epochs: of telling human stories from corrupted ones, each with new negative samples. Published are at most
            40,000 steps of 10 texts and one negative sample a story: 2.5 epochs of the official training split.
        masked_word_epochs: of masked-word training on the human stories before that, for an encoder from scratch.
        learning_rate: the peak of AdamW's rate.
        masked_word_learning_rate: the same in masked-word training.
        warmup: share of each phase over which the rate rises; it then falls to 0 in a line.
        weight_decay: of AdamW.
        reconstruction: weight of the loss of predicting each human word from the corrupted story; 0.1 in the paper,
            0 by default in the authors' code.
        detection: weight of the loss of telling which words the human did not write, for an encoder from scratch; see
            `depgen.evaluation.union.alteration`.
        pooling: what the classifier sees of the encoder's states.
        gradient_clip: largest norm of the gradient.
        precision: of the trainer, such as `32-true` or `bf16-mixed`.
        accelerator: where it trains.
        devices: how many of these; one, as the scorer is tested and written by the process that trains it.

    Raises:
        UserError: another number of devices, no epoch, or fewer than none of masked words.
    """

    epochs: int = 3
    masked_word_epochs: int = 0
    learning_rate: float = 5e-5
    masked_word_learning_rate: float = 1e-3
    warmup: float = 0.1
    weight_decay: float = 0.01
    reconstruction: float = 0.1
    detection: float = 0.0
    pooling: Pooling = "first"
    gradient_clip: float = 1.0
    precision: Any = "32-true"
    accelerator: str = "auto"
    devices: int = 1

    def __post_init__(self) -> None:
        check_at_least(1, epochs=self.epochs)
        check_at_least(0, masked_word_epochs=self.masked_word_epochs)
        if self.devices != 1:
            raise UserError(f"training.devices: a scorer is trained on one device, found {self.devices}.")

    def options(self) -> dict[str, Any]:
        """What the scorer depends on: everything but where it is trained."""
        return {name: value for name, value in asdict(self).items() if name not in ("accelerator", "devices")}


class UnionModule(L.LightningModule):
    """Trains an encoder to tell human stories from corrupted ones.

    Args:
        encoder: what is trained.
        training: how.
    """

    def __init__(self, encoder: ModelWithTokenizer, training: UnionTraining) -> None:
        super().__init__()
        self.network = UnionNetwork(encoder.model, pooling=training.pooling)
        self.token_head = TokenHead(encoder.model)
        self.detector = nn.Linear(int(encoder.model.config.hidden_size), 1) if training.detection else None
        self.training_options = training
        self.mask_token, self.special = encoder.tokenizer.mask_token_id, list(encoder.tokenizer.all_special_ids)
        if training.masked_word_epochs and self.mask_token is None:
            raise UserError(f"{encoder.name} has no mask token, so masked_word_epochs must be 0.")
        telling = Phase("telling_apart", training.epochs, "val/auc_shortfall")
        masked = Phase("masked_words", training.masked_word_epochs or 1, "val/masked_word_nll")
        self.phases = (masked, telling) if training.masked_word_epochs else (telling,)
        self.phase = 0
        self.auc = BinaryAUROC()

    def enter_phase(self, index: int) -> None:
        """Continue with the objective of a phase."""
        self.phase = index

    @property
    def masks_words(self) -> bool:
        """Whether the phase at hand is masked-word training."""
        return self.phases[self.phase].name == "masked_words"

    def training_step(self, batch: StoryBatch, batch_idx: int) -> Tensor:
        """The loss of the phase at hand."""
        if self.masks_words:
            loss = self._masked_word_loss(batch, None)
        else:
            states = self.network.states(batch.tokens, batch.is_word)
            loss = F.cross_entropy(self.network.classify(states, batch.is_word).float(), batch.human.long())
            if self.training_options.reconstruction:
                loss = loss + self.training_options.reconstruction * self._reconstruction_loss(states, batch)
            if self.training_options.detection:
                loss = loss + self.training_options.detection * self._detection_loss(states, batch)
        self.log("train/loss", loss, prog_bar=True, batch_size=len(batch.tokens))
        return loss

    def validation_step(self, batch: StoryBatch, batch_idx: int) -> None:
        """Masked words' nats, or the area under the ROC curve."""
        if self.masks_words:
            generator = torch.Generator(batch.tokens.device).manual_seed(batch_idx)
            nll = self._masked_word_loss(batch, generator)
            self.log("val/masked_word_nll", nll, prog_bar=True, batch_size=len(batch.items), sync_dist=True)
            return
        logits = self.network(batch.tokens, batch.is_word).float()
        self.log("val/loss", F.cross_entropy(logits, batch.human.long()), batch_size=len(logits), sync_dist=True)
        self.auc.update(logits.softmax(-1)[:, 1], batch.human.long())

    def on_validation_epoch_end(self) -> None:
        """Log the area, and what it lacks to 1, by which the best weights are known."""
        if not self.masks_words:
            auc = self.auc.compute()
            self.auc.reset()
            self.log("val/auc", auc, prog_bar=True)
            self.log("val/auc_shortfall", 1 - auc)
            if not self.trainer.sanity_checking:
                logger.info("Epoch %d: validation AUC %.4f", self.current_epoch, float(auc))

    def _masked_word_loss(self, batch: StoryBatch, generator: torch.Generator | None) -> Tensor:
        stories = len(batch.items)
        tokens, is_word = batch.tokens[:stories], batch.is_word[:stories]
        embedding = self.network.encoder.get_input_embeddings().weight
        words = is_word & ~torch.isin(tokens, torch.tensor(self.special, device=tokens.device))
        read, asked = mask_words(
            tokens, words, mask_token=int(self.mask_token), vocabulary_size=len(embedding), generator=generator
        )
        states = self.network.states(read, is_word)
        return F.cross_entropy(self.token_head(states[asked], embedding).float(), tokens[asked])

    def _reconstruction_loss(self, states: Tensor, batch: StoryBatch) -> Tensor:
        """Mean over texts of the mean nats of the human words after the first sentence, each at its own place.

        Places that either version lacks are not scored. The authors' code scores padding too, where the corrupted
        version is the shorter one.
        """
        targets = reconstruction_targets(batch.tokens, batch.is_word, batch.untouched)
        scored = targets != IGNORED
        embedding = self.network.encoder.get_input_embeddings().weight
        nll = F.cross_entropy(self.token_head(states[scored], embedding).float(), targets[scored], reduction="none")
        share = scored / scored.sum(1, keepdim=True).clamp(min=1)
        return (nll * share[scored]).sum() / len(targets)

    def _detection_loss(self, states: Tensor, batch: StoryBatch) -> Tensor:
        """Mean over tokens of the nats of predicting whether the human wrote them at their place."""
        assert self.detector is not None
        assert batch.altered is not None, "the data mark altered words before they are read"
        logits = self.detector(states[batch.is_word])[:, 0].float()
        return F.binary_cross_entropy_with_logits(logits, batch.altered[batch.is_word].float())

    def configure_optimizers(self) -> Any:  # noqa: ANN401  (Lightning's dictionary)
        """AdamW, with a rate that rises over the first share of the phase and falls to 0 in a line."""
        options, phase = self.training_options, self.phases[self.phase]
        rate = options.masked_word_learning_rate if self.masks_words else options.learning_rate
        decayed = [each for each in self.parameters() if each.ndim > 1]
        others = [each for each in self.parameters() if each.ndim <= 1]
        groups = [{"params": decayed, "weight_decay": options.weight_decay}, {"params": others, "weight_decay": 0.0}]
        optimizer = torch.optim.AdamW(groups, lr=rate)
        all_epochs = sum(each.share for each in self.phases)
        total = max(1, int(self.trainer.estimated_stepping_batches * phase.share / all_epochs))
        rising = int(options.warmup * total)

        def factor(step: int) -> float:
            falling = max(0.0, (total - step) / max(1, total - rising))
            return warmup_factor(step, rising) if step < rising else falling

        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": LambdaLR(optimizer, factor), "interval": "step"}}


def mask_words(
    tokens: Int[Tensor, "batch length"],
    words: Bool[Tensor, "batch length"],
    *,
    mask_token: int,
    vocabulary_size: int,
    generator: torch.Generator | None = None,
) -> tuple[Int[Tensor, "batch length"], Bool[Tensor, "batch length"]]:
    """What is read instead of the tokens, and True where a word is to be predicted (Devlin et al., 2019, section 3.1).

    Args:
        tokens: token ids.
        words: True where a word may have to be predicted.
        mask_token: id of the mask.
        vocabulary_size: random words are drawn from this number.
        generator: None = torch's global one.
    """
    drawn, fate = torch.rand(2, *tokens.shape, generator=generator, device=tokens.device)
    random_tokens = torch.randint(vocabulary_size, tokens.shape, generator=generator, device=tokens.device)
    asked = words & (drawn < MASKED)
    if not bool(asked.any()):
        asked = words & (drawn == drawn.masked_fill(~words, 1.0).min())
    read = torch.where(asked & (fate < 0.8), mask_token, tokens)
    return torch.where(asked & (fate >= 0.9), random_tokens, read), asked


def reconstruction_targets(
    tokens: Int[Tensor, "texts length"], is_word: Bool[Tensor, "texts length"], untouched: Int[Tensor, " texts"]
) -> Int[Tensor, "texts length"]:
    """The human story's token at each place of each text after the first sentence, -100 where there is none.

    Args:
        tokens: human stories, then their corrupted versions.
        is_word: True at tokens.
        untouched: tokens of the first sentence of each, the mark in front included.
    """
    half = len(tokens) // 2
    human, there = tokens[:half].repeat(2, 1), is_word[:half].repeat(2, 1)
    later = torch.arange(tokens.size(1), device=tokens.device) >= untouched[:, None]
    return human.masked_fill(~(there & is_word & later), IGNORED)


def fit(module: UnionModule, data: UnionData, folder: Path, *, seed: int, progress: bool = True) -> float:
    """Train, or continue what is in `folder`, and leave the module with its best weights.

    Returns:
        the wall time that it took, in seconds, over all its sessions.

    Raises:
        KeyboardInterrupt: stopped by Ctrl-C; the state is kept.
    """
    quiet_libraries()
    options, resume = module.training_options, folder / "checkpoints" / RESUME
    data.seed, data.marked = seed, bool(options.detection)
    curve = CurveLogger(folder)
    callbacks = [LossGuard(), Resume(resume.parent, every_n_steps=200), Phases(resume.parent), StepSeed()]
    trainer = L.Trainer(
        max_epochs=options.epochs + options.masked_word_epochs, accelerator=options.accelerator,
        devices=options.devices, precision=options.precision, gradient_clip_val=options.gradient_clip,
        logger=curve, callbacks=callbacks, plugins=[CheckpointWriter()], default_root_dir=folder,
        reload_dataloaders_every_n_epochs=1, use_distributed_sampler=False, num_sanity_val_steps=0,
        enable_model_summary=False, enable_progress_bar=progress, log_every_n_steps=20, enable_checkpointing=True,
    )  # fmt: skip
    if resume.is_file():
        logger.info("Continuing from %s.", resume)
    module.train()  # a pretrained encoder comes in evaluation mode, and Lightning leaves modes as they are
    try:
        trainer.fit(module, data, ckpt_path=resume if resume.is_file() else None)
    except SystemExit as stop:  # Lightning's way after Ctrl-C
        logger.warning("Stopped; the same command continues from %s.", resume)
        raise KeyboardInterrupt from stop
    seconds = curve.seconds
    best: Mapping[str, Any] = load_checkpoint(resume.parent / BEST)
    module.load_state_dict(best["state_dict"])
    module.eval()
    return seconds
