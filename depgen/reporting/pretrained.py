"""Rows begun from pretrained weights at hand, in place of random ones or of those that their experiments name."""

import copy
import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from depgen.errors import UserError
from depgen.hub import required_folder
from depgen.locations import write_atomically
from depgen.reporting.definition import Row
from depgen.reporting.jobs import Job
from depgen.training.experiment import PAPER

SIZES = ("model_type", "layers", "width", "attention_heads", "feedforward", "max_length")
"""What weights settle themselves of a backbone's arguments."""
RECIPE = ("optimizer", "scheduler")
"""What weights are trained by: as the experiment of the paper's size, which begins from weights too."""


def can_be_pretrained(row: Row, *, profile: str) -> bool:
    """Whether a row's network may begin from pretrained weights, and reads their tokenizer's pieces."""
    if row.experiment is None:
        return False
    content = row.experiment_at(profile).settings
    backbone, vocabulary = _backbone(content), _vocabulary(content)
    return "pretrained" in backbone and "tokenizer" in vocabulary


def with_weights(job: Job, name: str) -> Job:
    """The same row begun from pretrained weights, by an experiment of its own beside its runs.

    Network and pieces are those of the weights, the recipe is that of the experiment of the paper's size, and the rest,
    the budget above all, is that of the job's profile.

    Args:
        job: of a row that can be.
        name: a folder, one under `$DEPGEN_MODELS`, or a hub name in the local cache.

    Raises:
        UserError: there is no such model, or it lacks its tokenizer or the end of a text.
    """
    assert job.row.experiment is not None
    folder = Path(name).expanduser()
    name = str(folder.absolute()) if folder.is_dir() else name
    content = copy.deepcopy(job.config.settings)
    theirs = job.row.experiment_at(PAPER).settings["model"]["init_args"]
    content["model"]["init_args"] |= {part: theirs[part] for part in RECIPE if part in theirs}
    backbone, vocabulary = _backbone(content), _vocabulary(content)
    for argument in SIZES:
        backbone.pop(argument, None)
    backbone["pretrained"] = name
    vocabulary.clear()
    vocabulary |= {"tokenizer": name, "eos_token": end_of_text(name)}
    found = dataclasses.replace(job, pretrained=name)
    text = f"# {job.config}, begun from pretrained weights.\n{yaml.safe_dump(content, sort_keys=False)}"
    if not found.config.file.is_file() or found.config.file.read_text(encoding="utf-8") != text:
        write_atomically(found.config.file, text)
    return found


def end_of_text(name: str) -> str:
    """The token that ends a text of a pretrained model.

    Raises:
        UserError: there is no such model, or it has no tokenizer, or names no such token.
    """
    from tokenizers import Tokenizer

    configuration = required_folder(name, holding="config.json") / "config.json"
    pieces = required_folder(name, holding="tokenizer.json") / "tokenizer.json"
    unclear = f"{configuration} and {pieces} do not tell what ends a text"
    try:
        end = json.loads(configuration.read_text(encoding="utf-8")).get("eos_token_id")
    except (OSError, ValueError, AttributeError) as error:
        raise UserError(f"{unclear}: {error}.") from error
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


def _backbone(content: Mapping[str, Any]) -> dict[str, Any]:
    """A backbone's arguments, to be changed in place; empty where there are none."""
    return _at(content, "model", "init_args", "backbone", "init_args")


def _vocabulary(content: Mapping[str, Any]) -> dict[str, Any]:
    return _at(content, "data", "init_args", "vocabulary", "init_args")


def _at(content: Any, *names: str) -> dict[str, Any]:  # noqa: ANN401
    for name in names:
        content = content.get(name) if isinstance(content, dict) else None
    return content if isinstance(content, dict) else {}
