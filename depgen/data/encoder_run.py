"""What data take from the run whose system is fine-tuned on them."""

from functools import cached_property
from pathlib import Path
from typing import Any

from depgen.data.saved_vocabulary import load_vocabulary
from depgen.data.vocabulary import Vocabulary
from depgen.training.checkpoints import load_checkpoint
from depgen.training.runs import named_checkpoint


class EncoderRun:
    """The weights and the vocabulary of the run that is fine-tuned, for a data module that names it.

    Attributes:
        encoder: the run: its folder, its experiment's name (its newest run) or a checkpoint in it.
    """

    encoder: str

    @cached_property
    def encoder_checkpoint(self) -> Path:
        """The file that the encoder's weights lie in.

        Raises:
            UserError: there is no such run, or it holds no checkpoint.
        """
        return named_checkpoint(self.encoder)[1]

    def encoder_content(self) -> dict[str, Any]:
        """The content of that file: `hyper_parameters` and `state_dict` among it.

        Raises:
            UserError: it is no checkpoint, or damaged.
        """
        return load_checkpoint(self.encoder_checkpoint)

    def _own_vocabulary(self) -> Vocabulary:
        """The encoder's; a run takes it over and needs the encoder's no more."""
        return load_vocabulary(named_checkpoint(self.encoder_checkpoint)[0] / "vocabulary")
