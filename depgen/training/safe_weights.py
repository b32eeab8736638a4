"""Weights and settings of a checkpoint as one safetensors file, which holds tensors and text, and no code."""

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from depgen.errors import UserError

_ENTRY = "depgen"
"""Where the file's metadata keeps what is no tensor."""
_KEPT = ("hyper_parameters", "hparams_name", "phase", "epoch", "global_step", "pytorch-lightning_version")
"""What of a checkpoint a system is built from. Optimisers, loops and callbacks, which training needs, are left out."""


def write_weights(content: Mapping[str, Any], path: Path) -> None:
    """Write the weights and settings of a checkpoint; tensors that share their memory are written once.

    Args:
        content: of the checkpoint.
        path: the file, whose folder exists.
    """
    from safetensors.torch import save_file

    tensors, same, owners = dict[str, Tensor](), dict[str, str](), dict[tuple[Any, ...], str]()
    for name, value in content["state_dict"].items():
        owner = owners.setdefault((value.data_ptr(), value.shape, value.stride(), value.dtype), name)
        if owner != name and value.numel():
            same[name] = owner
        else:
            tensors[name] = value.detach().cpu().contiguous().clone()
    others = {name: content[name] for name in _KEPT if name in content}
    save_file(tensors, path, metadata={"format": "pt", _ENTRY: json.dumps({**others, "same": same})})


def read_weights(path: Path) -> dict[str, Any]:
    """The content of a checkpoint that `write_weights` has written, on the CPU.

    Raises:
        UserError: the file is damaged, or was written by another program.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as stored:
            text = (stored.metadata() or {}).get(_ENTRY)
            if text is None:
                raise UserError(
                    f"{path}: expected weights that `depgen push` has written, found those of another kind."
                )
            content: dict[str, Any] = json.loads(text)
            weights = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 - no mapping
    except (SafetensorError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"The weights {path} are cut short or damaged ({error}): copy the folder again.") from error
    same = content.pop("same")
    return {**content, "state_dict": weights | {name: weights[owner] for name, owner in same.items()}}


def as_torch_file(content: Mapping[str, Any]) -> io.BytesIO:
    """A checkpoint's content in torch's own format, from which Lightning builds a system."""
    stream = io.BytesIO()
    torch.save(dict(content), stream)
    stream.seek(0)
    return stream
