"""The parser of Lightning's verbs, and our own options beside Lightning's."""

from collections.abc import Callable
from typing import Any, Literal

from jsonargparse.typing import PositiveInt
from lightning.pytorch.cli import LightningArgumentParser

from depgen.cli.verb_functions import Parser

TRAINER_DEFAULTS = {
    "use_distributed_sampler": False,  # the data module's batches are already shared between ranks
    "reload_dataloaders_every_n_epochs": 1,  # each epoch has its own number of batches
    "enable_model_summary": False,
    "logger": False,
}


class TrainingParser(Parser, LightningArgumentParser):
    """Lightning's parser with our complaints."""

    def add_subclass_arguments(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        """Add a class's arguments but `collate`, a function that only Python code gives to a data module."""
        kwargs["skip"] = {"collate", *(kwargs.get("skip") or ())}
        return super().add_subclass_arguments(*args, **kwargs)


def add_own_options(parser: LightningArgumentParser, verb: str, *, vocabulary_size: Callable[[Any], int]) -> None:
    """Add those of this package, and the link of the vocabulary's size from the data to the model."""
    target = "model.init_args.vocabulary_size"
    parser.link_arguments("data", target, compute_fn=vocabulary_size, apply_on="instantiate")
    if verb == "test":
        parser.add_argument(
            "--beam_size",
            type=PositiveInt | None,
            help="structures of a text that are summed over, where scores are bounds",
        )
    parser.add_argument(
        "--wandb",
        nargs="?",
        const="online",
        type=Literal["online", "offline"],
        help="log to W&B too, online (or as WANDB_MODE says) or offline",
    )
    parser.add_argument(
        "--resume_every_n_steps", type=PositiveInt, default=500, help="(fit) steps between saves of resume.ckpt"
    )
    parser.add_argument(
        "--compile",
        nargs="?",
        const=True,
        default=False,
        type=bool,
        help="(fit) compile the backbone; needs a C++ compiler",
    )
    parser.add_argument(
        "--float32_matmul_precision",
        type=Literal["highest", "high", "medium"],
        default="highest",
        help="(fit) of matrix products; high and medium are faster on GPUs, medium on CPUs too",
    )
