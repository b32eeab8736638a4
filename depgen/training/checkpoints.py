"""Checkpoints: written whole or not at all, without NaN, and read without running code.

Training writes Lightning's own, `depgen push` weights and settings alone, as one safetensors file of tensors and text.
"""

import io
import json
import os
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO
from torch import Tensor

from depgen.errors import UserError
from depgen.locations import json_value
from depgen.training.files import CheckpointFile, WeightsFile, check
from depgen.training.runs import WEIGHTS

_ENTRY = "depgen"
"""Where the metadata of a safetensors file keeps what is no tensor."""
_KEPT = ("hyper_parameters", "hparams_name", "phase", "epoch", "global_step", "pytorch-lightning_version")
"""What of a checkpoint a system is built from. Optimisers, loops and callbacks, which training needs, are left out."""


def load_checkpoint(path: str | Path, *, mmap: bool = False) -> dict[str, Any]:
    """The content of a checkpoint file; it is read without running code, whatever the environment says.

    With `mmap` the tensors stay on disk until they are used, which is quick where only the settings are wanted.

    Raises:
        UserError: no such file; a file that is damaged, holds code or is no checkpoint.
    """
    content = _content(Path(path), "cpu", mmap)
    if not isinstance(content, dict) or "state_dict" not in content:
        raise UserError(f"{path} is no checkpoint of a training run: it has no weights under 'state_dict'.")
    check(CheckpointFile, content, str(path), remedy="Copy the run again.")
    return content


def _content(path: Path, map_location: Any, mmap: bool) -> Any:  # noqa: ANN401
    if not path.is_file():
        raise UserError(f"No checkpoint at {path.absolute()}.")
    if path.suffix == Path(WEIGHTS).suffix:
        return _read_weights(path)
    try:
        # explicit: TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD turns the default off, but not this
        return torch.load(path, map_location=map_location, weights_only=True, mmap=mmap)
    except (pickle.UnpicklingError, RuntimeError, EOFError, OSError, ValueError, LookupError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(
            f"The checkpoint {path} can't be read: it is damaged, or holds what could only be rebuilt by running code "
            f"({reason:.200}). Take another checkpoint of that folder, or train again."
        ) from error


class CheckpointWriter(TorchCheckpointIO):
    """Writes a checkpoint beside its place and moves it there when it is whole; reads it by `load_checkpoint`."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: object = None) -> None:
        """Write a checkpoint; a kill at any moment leaves the old file or the new one.

        Raises:
            UserError: weights that hold NaN, or a disk that is full; the file there before stays.
        """
        path = Path(path)
        weights = checkpoint.get("state_dict", {})
        broken = [name for name, value in weights.items() if isinstance(value, Tensor) and bool(value.isnan().any())]
        if broken:
            raise UserError(
                f"{len(broken)} of {len(weights)} weights hold NaN ({', '.join(broken[:3])}), so {path} is not "
                "written; the last good checkpoint stays. Lower the learning rate or clip the gradients."
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.part")
        try:
            with part.open("wb") as stream:
                torch.save(checkpoint, stream)
                stream.flush()
                os.fsync(stream.fileno())
            part.replace(path)
        except (OSError, RuntimeError) as error:  # torch's own, of a full disk
            part.unlink(missing_ok=True)
            raise UserError(f"{path} can't be written ({error}); the file there before is untouched.") from error

    def load_checkpoint(
        self, path: str | Path, map_location: object = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """The content of a file, read as by `load_checkpoint`; Lightning keeps bare weights in such files too."""
        content: dict[str, Any] = _content(Path(path), map_location or "cpu", mmap=False)
        return content


def checked_vocabulary_size(size: int, checkpoint: Path | None) -> int:
    """The number of token types, once it is certain that the system of a checkpoint has an embedding for as many.

    Systems whose hyper-parameters do not say the number are not checked, nor is it without a checkpoint.

    Raises:
        UserError: the system was trained with another number.
    """
    settings = {} if checkpoint is None else load_checkpoint(checkpoint, mmap=True).get("hyper_parameters") or {}
    expected = settings.get("vocabulary_size", size)
    if size != expected:
        raise UserError(
            f"{checkpoint}: expected the vocabulary that it was trained with, of {expected} token types, found one of "
            f"{size}. Copy the run's own vocabulary folder again."
        )
    return size


def write_weights(content: Mapping[str, Any], path: Path) -> None:
    """Write the weights and settings of a checkpoint as safetensors; tensors that share their memory only once."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    tensors, same, owners = dict[str, Tensor](), dict[str, str](), dict[tuple[Any, ...], str]()
    for name, value in content["state_dict"].items():
        owner = owners.setdefault((value.data_ptr(), value.shape, value.stride(), value.dtype), name)
        if owner != name and value.numel():
            same[name] = owner
        else:
            tensors[name] = value.detach().cpu().contiguous().clone()
    others = {name: content[name] for name in _KEPT if name in content}
    try:
        save_file(tensors, path, metadata={"format": "pt", _ENTRY: json.dumps({**others, "same": same})})
    except SafetensorError as error:  # its own, of a full disk
        raise UserError(f"{path} can't be written ({error}).") from error


def _read_weights(path: Path) -> dict[str, Any]:
    """The content of a checkpoint that `write_weights` has written, on the CPU."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as stored:
            text = (stored.metadata() or {}).get(_ENTRY)
            weights = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 - no mapping
    except SafetensorError as error:
        raise UserError(f"The weights {path} are cut short or damaged ({error}): copy the folder again.") from error
    if text is None:
        raise UserError(f"{path}: expected weights that `depgen push` has written, found those of another kind.")
    content = json_value(text, str(path), remedy="Copy the folder again.")
    content = {**content, "state_dict": weights} if isinstance(content, dict) else content
    check(WeightsFile, content, str(path), remedy="Copy the folder again.")
    same = content.pop("same")
    if lost := set(same.values()) - weights.keys():
        raise UserError(f"{path} lacks the weights {', '.join(sorted(lost)[:3])}: copy the folder again.")
    return {**content, "state_dict": weights | {name: weights[owner] for name, owner in same.items()}}


def as_torch_file(content: Mapping[str, Any]) -> io.BytesIO:
    """A checkpoint's content in torch's own format, from which Lightning builds a system."""
    stream = io.BytesIO()
    torch.save(dict(content), stream)
    stream.seek(0)
    return stream
