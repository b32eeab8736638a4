"""The settings that a checkpoint was trained with, compared with the given ones."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from depgen.errors import UserError
from depgen.training.checkpoints import load_checkpoint
from depgen.yaml_files import read_settings

SECTIONS = ("model", "data", "seed_everything")
"""What makes a model and its training data; the trainer's other settings may change with the machine."""
COURSE = (
    "max_epochs", "max_steps", "min_epochs", "precision", "gradient_clip_val", "gradient_clip_algorithm",
    "accumulate_grad_batches", "limit_train_batches", "limit_val_batches", "overfit_batches", "val_check_interval",
    "check_val_every_n_epoch",
)  # fmt: skip
"""The trainer's settings that a resumed run must keep, as they shape its weights; early stopping does too."""
FREE = ("data.init_args.workers", "data.init_args.eval_tokens_per_batch")
"""Settings that change no number, so that the command line's hold."""
STATE = ("callbacks", "epoch", "global_step", "loops", "lr_schedulers", "optimizer_states")
"""What a checkpoint holds together with the weights. Without it training would restart without a word."""
LINKED = "vocabulary_size"
"""Filled in from the data, so no setting."""
OF_FIT = ("resume_every_n_steps", "compile", "float32_matmul_precision")
"""Our own options that a resumed run takes from its YAML."""
WRITERS = ("logger", "plugins", "profiler", "default_root_dir")
"""The trainer's settings that may write anywhere, also where they are no more than a name."""
PATHLESS = (
    "depgen.training.phases.PhaseEarlyStopping", "depgen.training.frequency_bias.FrequencyBias",
    "depgen.evaluation.callback.Evaluate",
    "lightning.pytorch.callbacks.GradientAccumulationScheduler",
    "lightning.pytorch.callbacks.StochasticWeightAveraging",
)  # fmt: skip
"""The callbacks that a resumed run takes from its YAML: they write no file of their own."""


def settings_of_run(path: Path, verb: str) -> tuple[dict[str, Any], list[str]]:
    """What a verb takes of a run's `config.yaml`, and what it leaves out of `trainer`, as it may write elsewhere.

    All verbs take the system, the data and the seed. `fit` adds the plain values of `trainer`, the `PATHLESS` callbacks
    and the options `OF_FIT`. The others add `trainer.precision` and need nothing else.

    Raises:
        UserError: the file can't be read.
    """
    settings = read_settings(path)
    trainer = settings.get("trainer") or {}
    if not isinstance(trainer, Mapping):
        raise UserError(f"{path}: expected settings of the trainer, each a `name: value`, found {trainer!r}.")
    if verb != "fit":
        precision = {"precision": trainer["precision"]} if _is_plain(trainer.get("precision")) else {}
        return {**_part(settings, SECTIONS), "trainer": precision}, []
    plain = {name: value for name, value in trainer.items() if name not in WRITERS and _is_plain(value)}
    callbacks = as_list(trainer.get("callbacks"))
    shaping = [each for each in callbacks if isinstance(each, Mapping) and each.get("class_path") in PATHLESS]
    left_out = [f"trainer.{name}" for name in trainer if name not in (*plain, "callbacks") and trainer[name]]
    left_out += [f"trainer.callbacks: {each}" for each in callbacks if each not in shaping]
    return {**_part(settings, (*SECTIONS, *OF_FIT)), "trainer": {**plain, "callbacks": shaping or None}}, left_out


def _part(settings: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: settings[name] for name in names if name in settings}


def _is_plain(value: object) -> bool:
    """Whether a setting is a number, a text, a yes or no, or a list of these."""
    return not isinstance(value, Mapping) and all(map(_is_plain, value if isinstance(value, list) else ()))


def held_settings(run: Path, checkpoint: Path, *, resumes: bool = False) -> dict[str, Any]:
    """The run's YAML, with the model's settings as its checkpoint holds them.

    Args:
        run: its folder.
        checkpoint: a file in it.
        resumes: whether training continues from the checkpoint, for which it must hold a whole state.

    Raises:
        UserError: a damaged checkpoint or YAML.
    """
    settings, _ = settings_of_run(run / "config.yaml", "fit" if resumes else "test")
    content = load_checkpoint(checkpoint, mmap=True)
    if resumes and (missing := [name for name in STATE if name not in content]):
        raise UserError(
            f"{checkpoint}: expected the state of a training, found none of {', '.join(missing)}. Copy the run again, "
            "or start a new one (without --resume)."
        )
    stored = content.get("hyper_parameters") or {}
    if "_class_path" in stored:
        arguments = {name: value for name, value in stored.items() if not name.startswith("_") and name != LINKED}
        settings["model"] = {"class_path": stored["_class_path"], "init_args": arguments}
    return settings


class Difference(NamedTuple):
    """A setting, by its dotted name, that differs; None where one side does not have it."""

    name: str
    given: Any
    held: Any

    def __str__(self) -> str:
        return f"{self.name}: {self.given!r} given, {self.held!r} in the checkpoint"


def flatten(settings: object, prefix: str = "") -> dict[str, Any]:
    """Nested settings as one level of dotted names; lists by position.

    >>> flatten({"a": {"b": 1, "c": [2, {"d": 3}], "e": {}}})
    {'a.b': 1, 'a.c.0': 2, 'a.c.1.d': 3, 'a.e': {}}
    """
    if isinstance(settings, (list, tuple)) and settings:
        settings = dict(enumerate(settings))
    if not isinstance(settings, Mapping) or not settings:
        return {prefix: settings} if prefix else {}
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        flat.update(flatten(value, f"{prefix}.{name}" if prefix else str(name)))
    return flat


def differing(
    asked: Mapping[str, Any], held: Mapping[str, Any], run: Path, *, resumes: bool = False
) -> list[Difference]:
    """What differs in the settings that make a model and its data; if training continues, in its course too.

    What neither is asked for nor was set in the run's YAML has been found out by the system, as the size of a table.

    Args:
        asked: the settings that are given.
        held: those of `held_settings`.
        run: its folder.
        resumes: whether training continues.
    """
    written = flatten(read_settings(run / "config.yaml"))
    given, kept = flatten(_compared(asked, resumes)), flatten(_compared(held, resumes))
    names = (name for name in sorted(given.keys() | kept.keys()) if given.get(name) != kept.get(name))
    different = [Difference(name, given.get(name), kept.get(name)) for name in names]
    return [
        each
        for each in different
        if each.name not in FREE and not (each.given is None and written.get(each.name) is None)
    ]


def _compared(settings: Mapping[str, Any], resumes: bool) -> dict[str, Any]:
    compared = {name: settings.get(name) for name in SECTIONS}
    if resumes:
        trainer = settings.get("trainer") or {}
        callbacks = as_list(trainer.get("callbacks"))
        stops = [callback for callback in callbacks if callback["class_path"].endswith("EarlyStopping")]
        compared["trainer"] = {**{name: trainer.get(name) for name in COURSE}, "early_stopping": stops or None}
    return compared


def longer(different: list[Difference]) -> tuple[int | None, list[Difference]]:
    """The `trainer.max_epochs` of a run that is to have more epochs than it had, and the other differences."""
    epochs = next((each for each in different if each.name == "trainer.max_epochs"), None)
    if epochs is None or not (epochs.given or 0) > (epochs.held if epochs.held is not None else -1) >= 0:
        return None, different
    return epochs.given, [each for each in different if each is not epochs]


def refuse(different: list[Difference], run: Path) -> None:
    """Raises UserError, which names each difference, where a run would continue with other settings."""
    if different:
        listed = "\n".join(f"  {difference}" for difference in different)
        raise UserError(
            f"The given settings differ from those that {run} was trained with:\n{listed}\n"
            "Take these changes back, or start a new run (without --resume)."
        )


def as_list(value: Any) -> list[Any]:  # noqa: ANN401
    """A setting that may be one value or a list of values, as a list; empty for None."""
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]
