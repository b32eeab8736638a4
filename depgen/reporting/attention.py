"""Figure 3 of Yang & Wan (2022): the dependency attention of a model while it writes a sentence."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import lightning as L
import torch
from jaxtyping import Float
from torch import Tensor

from depgen.data.vocabulary import AnyVocabulary, encode
from depgen.errors import UserError
from depgen.evaluation.trained import load_trained
from depgen.reporting.jobs import chosen_run
from depgen.reporting.plotting import figure, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

logger = logging.getLogger(__name__)
SENTENCE = "red figures on the screen indicate falling stocks ."


def draw_attention(
    run: str | None = None,
    sentence: str = SENTENCE,
    *,
    table: str | None = None,
    row: str | None = None,
    profile: str | None = None,
    output: Path = Path("attention.png"),
) -> str:
    """Where the picture went: one row for each predicted token, over BOS and the tokens before it.

    Args:
        run: a run of a model with dependency attention; unset: that of `--table`, else the newest run.
        sentence: tokens with spaces between, the paper's by default.
        table: the table whose trained system is drawn, instead of a run.
        row: which system; unset: DM-Transformer.
        profile: at which it was trained; unset: `paper` where a GPU is found, `small` elsewhere.
        output: the PNG.

    Raises:
        UserError: no such run, a row or a profile without a table, a model without dependency attention, an empty
            sentence, or no matplotlib.
    """
    chosen = chosen_run(run, table, row=row, profile=profile, usual="DM-Transformer")
    trained = load_trained(chosen, device="cpu")
    weights, words = sentence_attention(trained.model, trained.vocabulary, sentence)
    save(attention_figure(weights, words), output)
    unknown = [word for word in words if word.endswith(_UNKNOWN)]
    outside = f" {len(unknown)} of its {len(words)} tokens are unknown to the model." if unknown else ""
    return f"{output}: dependency attention over {len(words)} predictions.{outside}"


_UNKNOWN = " (unk)"


def sentence_attention(
    model: L.LightningModule, vocabulary: AnyVocabulary, sentence: str
) -> tuple[Float[Tensor, "length length"], list[str]]:
    """a^(t) for each token x_t of a sentence, row by row over BOS, x_1 .. x_{t-1}; and the tokens' names.

    Row t is the distribution that *predicts* x_t: the paper's left shift, since the model's own row t belongs to the
    token that it reads.

    Raises:
        UserError: the model has no dependency attention, or the sentence no token.
    """
    if not hasattr(model, "dependency_attention"):
        raise UserError(f"{type(model).__name__} has no dependency attention; name a run of a DM model.")
    spelled = sentence.split()
    encoding = encode(vocabulary, spelled)
    ids = [int(index) for index in encoding.ids]
    if not ids:
        raise UserError("There is no token in the sentence to draw.")
    if len(ids) == len(spelled):
        words = [word + (_UNKNOWN if i == vocabulary.unk else "") for word, i in zip(spelled, ids, strict=True)]
    else:
        words = [vocabulary.decode([index]) for index in ids]
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            weights: Tensor = model.dependency_attention(ids, eos=vocabulary.eos)  # type: ignore[operator]
    finally:
        if training:
            model.train()
    assert weights.shape == (len(ids), len(ids)), f"{tuple(weights.shape)} for {len(ids)} tokens"
    return weights.float().cpu(), words


def attention_figure(weights: Float[Tensor, "length length"], words: list[str]) -> "Figure":
    """The heat map, as a matplotlib figure: y = the predicted token, x = BOS and the context."""
    size = max(3.0, 0.55 * len(words) + 1.5)
    drawing = figure(size + 0.8, size)
    axes = drawing.add_subplot()
    hidden = torch.ones_like(weights, dtype=torch.bool).triu(1)
    image = axes.imshow(weights.masked_fill(hidden, float("nan")).numpy(), cmap="Blues", vmin=0.0, vmax=1.0)
    axes.set_xticks(range(len(words)), ["BOS", *words[:-1]], rotation=60, ha="right", rotation_mode="anchor")
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
        if not hasattr(pl_module, "dependency_attention"):
            raise UserError(
                f"AttentionPicture: {type(pl_module).__name__} has no dependency attention; "
                "leave the callback out of trainer.callbacks."
            )

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Draw and log."""
        if trainer.sanity_checking or not trainer.is_global_zero or trainer.current_epoch % self.every_n_epochs:
            return
        vocabulary: AnyVocabulary = trainer.datamodule.vocabulary  # type: ignore[attr-defined]
        drawing = attention_figure(*sentence_attention(pl_module, vocabulary, self.sentence))
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
