"""Where a model attends to in a sentence: Figures 3 of Yang & Wan (2022) and of Huang et al. (2026)."""

from pathlib import Path
from typing import TYPE_CHECKING

import lightning as L
import numpy as np

from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError
from depgen.evaluation.system import load
from depgen.evaluation.text_documents import Tokens
from depgen.evaluation.trees.attention import BEGIN, Attention, DependencyAttention, sentence_attention
from depgen.reporting.jobs import chosen_run, picture_path
from depgen.reporting.pictures.plotting import figure, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SENTENCE = "red figures on the screen indicate falling stocks ."
USUAL = "DM-Transformer"


def draw_attention(
    run: str | None = None,
    sentence: str = SENTENCE,
    *,
    table: str | None = None,
    row: str | None = None,
    size: str | None = None,
    layer: int | None = None,
    attention_head: int | None = None,
    tokens: Tokens = "whitespace",
    output: Path | None = None,
) -> str:
    """Where the picture went: one row for each predicted token, over BOS and the tokens before it.

    Drawn is dependency attention of models that have it, unless a layer or an attention head is named; else
    self-attention. Of models that search for a structure, it is that with the likeliest one.

    Args:
        run: a run; unset: that of `--table`, else the newest run.
        sentence: one line, by default that of Yang & Wan.
        table: the table whose trained system is drawn, instead of a run.
        row: which system; unset: DM-Transformer.
        size: at which it was trained; unset: `small`, or the only one of the table.
        layer: of self-attention, from 0; negative from the top. Unset: the last.
        attention_head: of self-attention, from 0. Unset: the mean over all.
        tokens: words of the sentence are separated by white space, or by `rules` for English.
        output: the picture, .png, .pdf or .svg; unset: `attention.png`, of a table
            `results/<table>/attention-<row>.png`.

    Raises:
        UserError: no such run, a row or a size without a table, a model without attention, an empty sentence, or no
            matplotlib.
    """
    chosen = chosen_run(run, table, row=row, size=size, usual=USUAL)
    path = output or picture_path("attention.png", table, row=row or USUAL)
    system = load(chosen, device="cpu", form="as_is")
    attention = system.attention(sentence, layer=layer, attention_head=attention_head, tokens=tokens)
    save(attention_figure(attention), path)
    words, unknown = len(attention.words), sum(attention.unknown)
    outside = f" {unknown} of its {words} tokens are unknown to the model." if unknown else ""
    return f"{path}: {attention.kind} attention over {words} predictions.{outside}"


def attention_figure(attention: Attention) -> "Figure":
    """The heat map, as a matplotlib figure: y = the predicted token, x = BOS and the context; or words by words."""
    marks = zip(attention.words, attention.unknown, strict=True)
    words = [f"{word} (unk)" if unknown else word for word, unknown in marks]
    size = max(3.0, 0.55 * len(words) + 1.5)
    drawing = figure(size + 0.8, size)
    axes = drawing.add_subplot()
    predicts = attention.context[0] == BEGIN
    later = np.triu(np.full_like(attention.matrix, predicts, dtype=bool), 1)
    image = axes.imshow(np.where(later, np.nan, attention.matrix), cmap="Blues", vmin=0.0, vmax=1.0)
    context = [BEGIN, *words[:-1]] if predicts else words
    axes.set_xticks(range(len(words)), context, rotation=60, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(words)), words)
    axes.set_xlabel("context")
    axes.set_ylabel("predicted token" if predicts else "word")
    drawing.colorbar(image, ax=axes, shrink=0.8, label="weight of the context token")
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
        from lightning.pytorch.loggers import WandbLogger

        vocabulary: Vocabulary = trainer.datamodule.vocabulary  # type: ignore[attr-defined]
        attention = sentence_attention(pl_module, vocabulary, self.sentence.split(), kind="dependency")
        drawing = attention_figure(attention)
        loggers = [logger for logger in trainer.loggers if isinstance(logger, WandbLogger)]
        for logger in loggers:
            logger.log_image(key="attention", images=[drawing])
        if not loggers:
            folder = Path(trainer.log_dir or trainer.default_root_dir) / "attention"
            save(drawing, folder / f"epoch-{trainer.current_epoch:04d}.png")
