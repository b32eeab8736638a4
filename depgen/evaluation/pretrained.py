"""Pretrained models and tokenisers from a local folder or the hub, in a way that never hangs without a network.

A name is sought as `depgen.hub` says. Only when it is not found, `download` is true, `HF_HUB_OFFLINE` is not set
and the hub answers within a few seconds is it fetched. What cannot be had is a `NotComputed` with a reason.
"""

import logging
import os
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from depgen.evaluation.text.outcome import NotComputed
from depgen.hub import TRANSFORMERS_MISSING, has_transformers, load_weights, model_folder, names_a_folder, one_line

Kind = Literal["encoder", "causal"]
_REACH_SECONDS = 5.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ModelWithTokenizer:
    """A network of the kinds that transformers has, and its tokeniser.

    Attributes:
        model: the network.
        tokenizer: its tokeniser.
        name: what results call it, without machine paths.
    """

    model: Any
    tokenizer: Any
    name: str


def load_pretrained(
    name: str, kind: Kind, *, device: str = "cpu", download: bool = False
) -> ModelWithTokenizer | NotComputed:
    """The model, in evaluation mode and float32, and the tokeniser of that name, or why they cannot be had.

    Results call them by the hub name, or by the last part of the folder's path.

    Args:
        name: a folder with `config.json`, weights and tokeniser files, or a name on the hub.
        kind: whether hidden states (`encoder`) or next-token logits (`causal`) are wanted.
        device: where the model is put.
        download: whether files that are not on this machine may be downloaded.
    """
    if not has_transformers():
        return NotComputed(TRANSFORMERS_MISSING)
    folder = model_folder(name)
    if folder is None and names_a_folder(name):
        return NotComputed(f"no weights at {name}: no such folder")
    if folder is not None and not (folder / "config.json").is_file():
        return NotComputed(f"no weights at {name}: the folder has no config.json")
    if folder is None and (refusal := _why_no_download(name, download)):
        return NotComputed(refusal)
    if folder is None:
        logger.info("Fetching %s from the hub.", name)
    label = folder.resolve().name if folder is not None and folder == Path(name).expanduser() else name
    try:
        return _load(str(folder or name), label, kind, device=device, local=folder is not None)
    except (OSError, ValueError) as error:  # what transformers raises for missing or unreadable files, and ours
        return NotComputed(f"no weights at {name}: {one_line(error)}")


def _load(source: str, label: str, kind: Kind, *, device: str, local: bool) -> ModelWithTokenizer:
    from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

    auto = AutoModelForCausalLM if kind == "causal" else AutoModel
    model = load_weights(auto, source, bars=not local, local_files_only=local, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(source, local_files_only=local)
    return ModelWithTokenizer(model.to(device).eval(), tokenizer, label)


def _why_no_download(name: str, download: bool) -> str | None:
    """The reason for not using the hub; None when it may be used and answers."""
    absent = f"no weights at {name}: neither a folder nor in the local hub cache"
    if not download:
        return f"{absent}; fetch them with `hf download {name}`, name a folder, or allow the download"
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "TRUE", "YES", "ON"}:
        return f"{absent}, and HF_HUB_OFFLINE forbids the download"
    if not _hub_answers():
        return f"{absent}, and the hub does not answer"
    return None


def _hub_answers() -> bool:
    """Whether the hub answers within a few seconds (the library itself retries for most of a minute)."""
    from huggingface_hub import constants

    try:
        urllib.request.urlopen(constants.ENDPOINT, timeout=_REACH_SECONDS).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True
