"""The options of Lightning's verbs: our own, Lightning's, and a help that shows what the verb at hand takes."""

import argparse
from collections.abc import Callable
from typing import Any, Literal

from jsonargparse.typing import PositiveInt
from lightning.pytorch.cli import LightningArgumentParser

from depgen.cli.verb_functions import Parser
from depgen.cli.verbs import VERBS, as_sentence

TRAINER_DEFAULTS = {
    "use_distributed_sampler": False,  # the data module's batches are already shared between ranks
    "reload_dataloaders_every_n_epochs": 1,  # each epoch has its own number of batches
    "enable_model_summary": False,
    "logger": False,
}
HIDDEN_OF_TRAINER = (
    *TRAINER_DEFAULTS, "barebones", "benchmark", "default_root_dir", "detect_anomaly", "enable_autolog_hparams",
    "enable_checkpointing", "inference_mode", "limit_predict_batches", "min_steps", "model_registry",
    "num_sanity_val_steps", "plugins",
    "profiler", "sync_batchnorm",
)  # fmt: skip
"""What the run folder or the data module settles, and what no experiment here sets; they are read all the same."""
_OF_FIT = ("resume_every_n_steps", "compile", "float32_matmul_precision")
"""Our own options that only `fit` uses; the other verbs read them, as an experiment's YAML may have them."""


class TrainingParser(Parser, LightningArgumentParser):
    """Lightning's parser with our complaints, and a help without some options.

    Attributes:
        hidden: names of options that the help leaves out. They are read and written all the same: jsonargparse would
            leave an option whose help is suppressed for good out of a run's `config.yaml` too.
    """

    hidden: frozenset[str] = frozenset()

    def add_subclass_arguments(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        """Add a class's arguments but `collate`, a function that only Python code gives to a data module."""
        kwargs["skip"] = {"collate", *(kwargs.get("skip") or ())}
        return super().add_subclass_arguments(*args, **kwargs)

    def format_help(self, formatter: argparse.HelpFormatter | None = None) -> str:
        """The help, ready to print."""
        left_out = {action: action.help for action in self._actions if action.dest.removesuffix(".help") in self.hidden}
        for action in left_out:
            action.help = argparse.SUPPRESS
        try:
            return str(super().format_help(formatter))
        finally:
            for action, text in left_out.items():
                action.help = text


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
        "--resume_every_n_steps", type=PositiveInt, default=500, help="steps between saves of resume.ckpt"
    )
    parser.add_argument(
        "--compile",
        nargs="?",
        const=True,
        default=False,
        type=bool,
        help="compile the backbone; needs a C++ compiler",
    )
    parser.add_argument(
        "--float32_matmul_precision",
        type=Literal["highest", "high", "medium"],
        default="highest",
        help="of matrix products; high and medium are faster on GPUs, medium on CPUs too",
    )


def show_what_counts(parser: TrainingParser, verb: str) -> None:
    """Give the help of a verb its own words: what it does, the system and the data first, no option that it refuses."""
    parser.description = as_sentence(VERBS[verb].help)
    parser.usage = f"depgen {verb} [options]"
    parser.hidden = frozenset(f"trainer.{name}" for name in HIDDEN_OF_TRAINER).union(() if verb == "fit" else _OF_FIT)
    titles = {
        "model": "the system (--model.help CLASS lists a class's options)",
        "data": "the data (--data.help CLASS)",
        "trainer": "the trainer (Lightning's; rarer settings are shown by --print_config)",
    }
    for group in parser._action_groups:
        names = {action.dest.partition(".")[0] for action in group._group_actions}
        title = next((title for name, title in titles.items() if name in names), None)
        if title is not None and not str(group.title).startswith("Linked"):
            group.title = title
    groups: list[Any] = parser._action_groups  # type: ignore[assignment]  # argparse's own list
    groups.sort(key=lambda group: group.title == titles["trainer"])
