"""Pretrained models and tokenisers by name; `NotComputedError` says why one cannot be had.

A name is sought as `depgen.hub` says. Only when it is not found and `download` is true is it fetched from the hub.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from depgen.evaluation.text.outcome import NotComputedError
from depgen.hub import TRANSFORMERS_MISSING, has_transformers, load_weights, model_folder, names_a_folder, one_line

Kind = Literal["encoder", "causal"]


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


def load_pretrained(name: str, kind: Kind, *, device: str = "cpu", download: bool = False) -> ModelWithTokenizer:
    """The model, in evaluation mode and float32, and the tokeniser of that name.

    Results call them by the hub name, or by the last part of the folder's path.

    Args:
        name: a folder with `config.json`, weights and tokeniser files, or a name on the hub.
        kind: whether hidden states (`encoder`) or next-token logits (`causal`) are wanted.
        device: where the model is put.
        download: whether files that are not on this machine may be downloaded.

    Raises:
        NotComputedError: they cannot be had; says why.
    """
    if not has_transformers():
        raise NotComputedError(TRANSFORMERS_MISSING)
    folder = model_folder(name)
    if folder is None and names_a_folder(name):
        raise NotComputedError(f"no weights at {name}: no such folder")
    if folder is not None and not (folder / "config.json").is_file():
        raise NotComputedError(f"no weights at {name}: the folder has no config.json")
    if folder is None and not download:
        raise NotComputedError(
            f"no weights at {name}: neither a folder nor in the local hub cache; fetch them with `hf download {name}`, "
            "name a folder, or allow the download"
        )
    from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

    auto, source = AutoModelForCausalLM if kind == "causal" else AutoModel, str(folder or name)
    try:
        model = load_weights(
            auto, source, bars=folder is None, local_files_only=folder is not None, dtype=torch.float32
        )
        tokenizer = AutoTokenizer.from_pretrained(source, local_files_only=folder is not None)
    except (OSError, ValueError) as error:  # what transformers raises for missing or unreadable files, and ours
        raise NotComputedError(f"no weights at {name}: {one_line(error)}") from error
    label = folder.resolve().name if folder is not None and folder == Path(name).expanduser() else name
    return ModelWithTokenizer(model.to(device).eval(), tokenizer, label)
