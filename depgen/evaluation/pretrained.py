"""Pretrained models and tokenisers from a local folder or the hub, in a way that never hangs without a network.

A name is sought first as a folder, then in the local hub cache. Only when `download` is asked for, `HF_HUB_OFFLINE` is
not set and the hub answers within a few seconds is it fetched. What cannot be had is a `NotComputed` with a reason.
"""

import importlib.util
import logging
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from depgen.evaluation.outcome import NotComputed

Kind = Literal["encoder", "causal"]
INSTALL = "transformers is not installed: pip install 'depgen[text-metrics]'"
_REACH_SECONDS = 5.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Pretrained:
    """A model in evaluation mode and float32, and its tokeniser.

    Attributes:
        model: the network, on the device asked for.
        tokenizer: its tokeniser.
        name: the hub name, or the last part of the folder's path (so that results hold no machine paths).
    """

    model: Any
    tokenizer: Any
    name: str


def load_pretrained(name: str, kind: Kind, *, device: str = "cpu", download: bool = False) -> Pretrained | NotComputed:
    """The model and tokeniser of that name, or why they cannot be had.

    Args:
        name: a folder with `config.json`, weights and tokeniser files, or a name on the hub.
        kind: whether hidden states (`encoder`) or next-token logits (`causal`) are wanted.
        device: where the model is put.
        download: whether the hub may be asked for what is not on this machine.
    """
    if importlib.util.find_spec("transformers") is None:
        return NotComputed(INSTALL)
    folder = Path(name).expanduser()
    if folder.is_dir():
        source, local = str(folder), True
        if not (folder / "config.json").is_file():
            return NotComputed(f"no weights at {name}: the folder has no config.json")
    elif name.startswith((".", "/", "~")) or name.count("/") > 1:
        return NotComputed(f"no weights at {name}: no such folder")
    else:
        source, local = name, False
    label = folder.resolve().name if local else name
    try:
        return _load(source, label, kind, device=device, local=True)
    except (OSError, ValueError) as error:  # what transformers raises for missing or unreadable files
        if local:
            return NotComputed(f"no weights at {name}: {_first_line(error)}")
        refusal = _why_no_download(name, download)
    if refusal:
        return NotComputed(refusal)
    logger.info("Fetching %s from the hub.", name)
    try:
        return _load(source, label, kind, device=device, local=False)
    except (OSError, ValueError) as error:
        return NotComputed(f"no weights at {name}: {_first_line(error)}")


def _load(source: str, label: str, kind: Kind, *, device: str, local: bool) -> Pretrained | NotComputed:
    """Load both; a `NotComputed` when weights that matter are missing (the library would put random ones)."""
    from safetensors import SafetensorError
    from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

    auto = AutoModelForCausalLM if kind == "causal" else AutoModel
    try:
        with _quiet(bars=not local):
            tokenizer = AutoTokenizer.from_pretrained(source, local_files_only=local)
            model, loading = auto.from_pretrained(
                source, local_files_only=local, dtype=torch.float32, output_loading_info=True
            )
    except SafetensorError as error:
        return NotComputed(f"no weights at {label}: the weights file is damaged ({_first_line(error)})")
    missing = sorted(key for key in loading["missing_keys"] if "pooler" not in key)
    if missing:
        return NotComputed(f"no weights at {label}: the checkpoint lacks {len(missing)} tensors, such as {missing[0]}")
    return Pretrained(model.to(device).eval(), tokenizer, label)


@contextmanager
def _quiet(*, bars: bool) -> Iterator[None]:
    """Silence the library's reports on loading, and its progress bars unless `bars`; what matters is checked here."""
    from transformers.utils import logging as transformers_logging

    verbosity, enabled = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    if not bars:
        transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(verbosity)
        if enabled:
            transformers_logging.enable_progress_bar()


def _why_no_download(name: str, download: bool) -> str | None:
    """The reason for not asking the hub; None when it may be asked and answers."""
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


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
