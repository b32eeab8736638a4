"""Figure 3 of Yang & Wan (2022): the dependency attention of a model while it writes a sentence."""

from pathlib import Path
from typing import TYPE_CHECKING

import lightning as L
import numpy as np

from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError
from depgen.evaluation.loading import load_run
from depgen.evaluation.trees.attention import BEGIN, Attention, DependencyAttention, sentence_attention
from depgen.reporting.plotting import figure, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SENTENCE = "red figures on the screen indicate falling stocks ."


def draw_attention(
    run: str | None = None,
    sentence: str = SENTENCE,
    *,
    output: Path = Path("attention.png"),
) -> str:
    """Where the picture went: one row for each predicted token, over BOS and the tokens before it.

    Args:
        run: a run of a model with dependency attention; unset: the newest run.
        sentence: tokens with spaces between, the paper's by default.
        output: the picture; its name ends in .png, .pdf or .svg.

    Raises:
        UserError: no such run, a model without dependency attention, an empty sentence, or no matplotlib.
    """
    attention = load_run(run, device="cpu", form="as_is").attention(sentence, kind="dependency")
    save(attention_figure(attention), output)
    words, unknown = len(attention.words), sum(attention.unknown)
    outside = f" {unknown} of its {words} tokens are unknown to the model." if unknown else ""
    return f"{output}: dependency attention over {words} predictions.{outside}"


def attention_figure(attention: Attention) -> "Figure":
    """The heat map, as a matplotlib figure: y = the predicted token, x = BOS and the context."""
    marks = zip(attention.words, attention.unknown, strict=True)
    words = [f"{word} (unk)" if unknown else word for word, unknown in marks]
    size = max(3.0, 0.55 * len(words) + 1.5)
    drawing = figure(size + 0.8, size)
    axes = drawing.add_subplot()
    later = np.triu(np.ones_like(attention.matrix, dtype=bool), 1)
    image = axes.imshow(np.where(later, np.nan, attention.matrix), cmap="Blues", vmin=0.0, vmax=1.0)
    axes.set_xticks(range(len(words)), [BEGIN, *words[:-1]], rotation=60, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(words)), words)
    axes.set_xlabel("context")
    axes.set_ylabel("predicted token")
    drawing.colorbar(image, ax=axes, shrink=0.8)
    return drawing


class AttentionPicture(L.Callback):
    """Draws the dependency attention on one sentence after validation: to W&B, else to a PNG in the run folder.

    Args:
        sentence: tokens with spaces between.
        every_n_epochs: draw after validation of each so many epochs.
    """

    def __init__(self, sentence: str = SENTENCE, every_n_epochs: int = 1) -> None:
        super().__init__()
        if every_n_epochs < 1:
            raise UserError(f"AttentionPicture: every_n_epochs must be at least 1, found {every_n_epochs}.")
        self.sentence, self.every_n_epochs = sentence, every_n_epochs

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        """Refuse before training what could not be drawn after it."""
        figure(1.0, 1.0)
        if not isinstance(pl_module, DependencyAttention):
            raise UserError(
                f"AttentionPicture: {type(pl_module).__name__} has no dependency attention; "
                "leave the callback out of trainer.callbacks."
            )

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Draw and log."""
        if trainer.sanity_checking or not trainer.is_global_zero or trainer.current_epoch % self.every_n_epochs:
            return
        vocabulary: Vocabulary = trainer.datamodule.vocabulary  # type: ignore[attr-defined]
        attention = sentence_attention(pl_module, vocabulary, self.sentence.split(), kind="dependency")
        drawing = attention_figure(attention)
        if not _log_to_wandb(trainer, drawing):
            folder = Path(trainer.log_dir or trainer.default_root_dir) / "attention"
            save(drawing, folder / f"epoch-{trainer.current_epoch:04d}.png")


def _log_to_wandb(trainer: L.Trainer, drawing: "Figure") -> bool:
    """Whether a W&B logger took the picture."""
    from lightning.pytorch.loggers import WandbLogger

    loggers = [logger for logger in trainer.loggers if isinstance(logger, WandbLogger)]
    for one in loggers:
        one.log_image(key="attention", images=[drawing])
    return bool(loggers)
