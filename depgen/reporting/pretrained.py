"""Experiments begun from pretrained weights at hand, in place of random ones or of those that they name."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from depgen.errors import UserError
from depgen.hub import required_folder
from depgen.locations import json_object
from depgen.training.experiment import PAPER, Experiment

SIZES = ("model_type", "layers", "width", "attention_heads", "feedforward", "max_length")
"""The arguments of a backbone that weights decide."""
RECIPE = ("optimizer", "scheduler")
"""What is taken from the paper's size, which begins from weights too."""
_MODEL, BACKBONE, _VOCABULARY = (
    "model.init_args",
    "model.init_args.backbone.init_args",
    "data.init_args.vocabulary.init_args",
)


def can_be_pretrained(experiment: Experiment) -> bool:
    """Whether the network may begin from pretrained weights, and reads their tokenizer's pieces."""
    settings = experiment.settings
    return "pretrained" in arguments_at(settings, BACKBONE) and "tokenizer" in arguments_at(settings, _VOCABULARY)


def begun_from(experiment: Experiment, weights: str) -> Experiment:
    """The same experiment begun from pretrained weights, by options.

    Network and pieces are those of the weights, the recipe is that of the paper's size. The rest, the budget above all,
    stays.

    Args:
        experiment: one that can be.
        weights: a folder, one under `$DEPGEN_MODELS`, or a hub name in the local cache.

    Raises:
        UserError: there is no such model, or it lacks its tokenizer or the end of a text.
    """
    folder = Path(weights).expanduser()
    name = str(folder.absolute()) if folder.is_dir() else weights
    network, recipe = (arguments_at(each.settings, _MODEL) for each in (experiment, replace(experiment, size=PAPER)))
    held = network["backbone"]["init_args"]
    arguments = {**held, **{argument: None for argument in SIZES if argument in held}, "pretrained": name}
    options = {
        f"{_MODEL}.backbone": {**network["backbone"], "init_args": arguments},
        **{f"{_MODEL}.{part}": recipe[part] for part in RECIPE if part in recipe},
        f"{_VOCABULARY}.tokenizer": name,
        f"{_VOCABULARY}.eos_token": end_of_text(name),
    }
    return replace(experiment, options={**experiment.options, **options})


def end_of_text(name: str) -> str:
    """The token that ends a text of a pretrained model.

    Raises:
        UserError: there is no such model, or it has no tokenizer, or names no such token.
    """
    from tokenizers import Tokenizer

    configuration = required_folder(name, holding="config.json") / "config.json"
    pieces = required_folder(name, holding="tokenizer.json") / "tokenizer.json"
    unclear = f"{configuration} and {pieces} do not tell what ends a text"
    end = json_object(configuration, remedy="It names the token that ends a text.").get("eos_token_id")
    first = end[0] if isinstance(end, list) and end else end
    if not isinstance(first, int):
        raise UserError(f"{unclear}: expected eos_token_id to be the number of a token, found {end!r}.")
    try:
        token = Tokenizer.from_file(str(pieces)).id_to_token(first)
    except Exception as error:  # the library of tokenizers raises nothing narrower
        raise UserError(f"{unclear}: {error}.") from error
    if token is None:
        raise UserError(f"{configuration}: eos_token_id {end} is no token of {pieces}: name the one that ends a text.")
    return str(token)


def arguments_at(settings: Mapping[str, Any], place: str) -> Mapping[str, Any]:
    """The arguments at a dotted place; empty where there are none."""
    found: Any = settings
    for name in place.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}
