"""Pretrained models as folders: sought by name without a network, loaded whole or not at all.

A name is a folder, or one under `$DEPGEN_MODELS`, or a model that the local hub cache holds (`hf download NAME` puts it
there). Nothing is fetched here.
"""

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from depgen.errors import UserError
from depgen.locations import models_root

TOKENIZER_FILE = "tokenizer.json"
"""In a folder of a model of the transformers library."""
TOKENIZER_FILES = (TOKENIZER_FILE, "vocab.json", "vocab.txt")
"""One of them is there, in older folders the list of pieces alone."""
TRANSFORMERS_MISSING = "transformers is not installed: pip install 'depgen[text-metrics]'"


class WeightsError(UserError):
    """Weights that cannot be had; the message is the bare reason."""


def has_transformers() -> bool:
    """Whether the library is installed."""
    return importlib.util.find_spec("transformers") is not None


def names_a_folder(name: str) -> bool:
    """Whether a name can only be a path, as hub names are `model` or `owner/model`."""
    return name.startswith((".", "/", "~")) or name.count("/") > 1


def model_folder(name: str) -> Path | None:
    """The folder of a model: as given, under `$DEPGEN_MODELS` or in the local hub cache; None where there is none."""
    for folder in (Path(name).expanduser(), models_root() / name):
        if folder.is_dir():
            return folder
    return None if names_a_folder(name) else cached_folder(name)


def cached_folder(name: str) -> Path | None:
    """The folder of a model, or of a run, in the local hub cache; None where it is not there, whole."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        cached = Path(snapshot_download(name, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError):
        return None
    return cached if any((cached / name).is_file() for name in ("config.json", "run.json")) else None


def required_folder(name: str, *, holding: str) -> Path:
    """The folder of a model that holds a file.

    Raises:
        UserError: there is no such folder, or it lacks the file; how to get the model.
    """
    folder = model_folder(name)
    if folder is None:
        fetch = "" if names_a_folder(name) else f"fetch it where there is a network with `hf download {name}`, or "
        raise UserError(
            f"No pretrained model {name}: it is no folder, none under {models_root()} ($DEPGEN_MODELS) and not in the "
            f"local hub cache; {fetch}name a folder that holds it."
        )
    if not (folder / holding).is_file():
        raise UserError(f"The folder {folder} of the pretrained model {name} has no {holding}: copy it again, whole.")
    return folder


def tokenizer_of(folder: Path) -> Any:  # noqa: ANN401 - slow to import
    """The `tokenizers.Tokenizer` of a model's folder, which neither pads nor cuts a text.

    Of older folders, such as OPT's, transformers makes it from their list of pieces.

    Raises:
        UserError: the folder holds none.
    """
    from tokenizers import Tokenizer

    names = [name for name in TOKENIZER_FILES if (folder / name).is_file()] or [TOKENIZER_FILE]
    if names[0] == TOKENIZER_FILE:
        tokenizer = Tokenizer.from_file(str(required_folder(str(folder), holding=TOKENIZER_FILE) / TOKENIZER_FILE))
    else:
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        ).backend_tokenizer
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def load_weights(auto: Any, source: str | Path, *, bars: bool = False, **options: Any) -> Any:  # noqa: ANN401
    """A network of the library with all its weights; its reports on loading are silenced, as what matters is checked.

    Args:
        auto: a class of the library with `from_pretrained`.
        source: a folder, or a name of the hub.
        bars: show the library's progress bars.
        options: passed on.

    Raises:
        WeightsError: a file is missing or damaged, config.json does not fit the weights, or these lack tensors (the
            library would put random ones).
    """
    from huggingface_hub.errors import StrictDataclassError
    from safetensors import SafetensorError

    options = {**options, "output_loading_info": True, "ignore_mismatched_sizes": True}
    try:
        with quiet_transformers(bars=bars):
            network, loading = auto.from_pretrained(source, **options)
    except (SafetensorError, OSError, ValueError, StrictDataclassError, KeyError) as error:
        # a KeyError is of an activation, or of another part that the configuration names
        reason = f"the library has no {error}" if isinstance(error, KeyError) else one_line(error)
        raise WeightsError(reason) from error
    if loading["mismatched_keys"]:
        name, there, expected = min(loading["mismatched_keys"])
        raise WeightsError(
            f"config.json does not fit the weights: expected {name} of shape {list(expected)}, found {list(there)}"
        )
    missing = sorted(key for key in loading["missing_keys"] if "pooler" not in key)
    if missing:
        raise WeightsError(f"the checkpoint lacks {len(missing)} tensors, such as {missing[0]}")
    return network


@contextmanager
def quiet_transformers(*, bars: bool = False) -> Iterator[None]:
    """Silence the library's reports, and its progress bars unless `bars`."""
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


def one_line(error: Exception) -> str:
    """What an error says, without line breaks and cut short."""
    return " ".join(str(error).split())[:300]
