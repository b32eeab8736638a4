"""Checkpoints: written whole or not at all, read without running code, kept by phase, and enough to resume exactly."""

import contextlib
import io
import logging
import os
import pickle
import shutil
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO
from torch import Tensor

from depgen.aliases import settings_today
from depgen.errors import UserError
from depgen.locations import file_sha256
from depgen.partial_files import part_of
from depgen.training.runs import WEIGHTS, run_of_checkpoint
from depgen.training.safe_weights import read_weights
from depgen.training.trust import note_written

logger = logging.getLogger(__name__)


def load_checkpoint(path: str | Path, *, map_location: Any = "cpu", mmap: bool = False) -> dict[str, Any]:  # noqa: ANN401
    """The content of a checkpoint file; it is read without running code, whatever the environment says.

    Its settings may name classes of any module, which whoever builds a system from them must not import unseen
    (`depgen.training.trust`).

    Arguments of earlier versions are replaced by those of today.

    Args:
        path: the file.
        map_location: as in `torch.load`.
        mmap: leave the tensors on disk until they are used: quick where only the settings are wanted.

    Raises:
        UserError: no such file; a file that is cut short or damaged; a file that holds code.
    """
    content = _load(Path(path), map_location, mmap)
    if not isinstance(content, dict) or "state_dict" not in content:
        raise UserError(f"{path} is no checkpoint of a training run: it has no weights under 'state_dict'.")
    stored = content.get("hyper_parameters")
    if isinstance(stored, dict):
        content["hyper_parameters"] = settings_today(stored)
    return content


def _load(path: Path, map_location: Any, mmap: bool) -> Any:  # noqa: ANN401
    if not path.is_file():
        raise UserError(f"No checkpoint at {path.absolute()}.")
    if path.suffix == Path(WEIGHTS).suffix:
        return read_weights(path)
    try:
        found = path.stat()
        if not _is_whole(path, found.st_ino, found.st_size, found.st_mtime_ns):
            raise UserError(_damaged(path))
        # explicit: TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD turns the default off, but not this
        content = torch.load(path, map_location=map_location, weights_only=True, mmap=mmap)
    except PermissionError as error:
        raise UserError(f"The checkpoint {path} can't be read ({error.strerror}): change its rights.") from error
    except pickle.UnpicklingError as error:
        if path.stat().st_size >= 4 and ("Unsupported" in str(error) or "GLOBAL" in str(error)):
            raise UserError(
                f"The checkpoint {path} holds objects that can only be rebuilt by running code from the file, "
                "so it is refused: "
                f"{_reason(error)}"
            ) from error
        raise UserError(_damaged(path)) from error
    except UserError:
        raise
    except (RuntimeError, EOFError, OSError, ValueError, KeyError, IndexError) as error:
        raise UserError(_damaged(path)) from error
    return content


@lru_cache(maxsize=64)
def _is_whole(path: Path, inode: int, size: int, changed: int) -> bool:
    """Whether the sums in a zip file, torch's format, are those of its content: torch itself does not compare them."""
    if not zipfile.is_zipfile(path):
        return True  # refused below, or of torch's old format, which has no sums
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is None
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, OSError, EOFError, ValueError):
        return False


@contextlib.contextmanager
def weights_expected(path: Path | None) -> Iterator[None]:
    """Within it, weights that do not fit the system that a checkpoint is of are named in one message.

    Raises:
        UserError: weights are missing, surplus, or of another shape; or the checkpoint lacks an entry.
    """
    try:
        yield
    except RuntimeError as error:
        if path is None or "loading state_dict" not in str(error):
            raise
        lines = [line.strip() for line in str(error).splitlines()[1:]]
        raise UserError(
            f"The weights in the checkpoint {path} do not fit the system that its settings describe: "
            f"{' '.join(lines)[:400]} Take another checkpoint of that folder, or train again."
        ) from error


def _damaged(path: Path) -> str:
    return (
        f"The checkpoint {path} is cut short or damaged ({path.stat().st_size:,} bytes): it can't be read. "
        "Take another checkpoint of that folder, or train again."
    )


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if "GLOBAL" in line or "Unsupported" in line]
    return (lines or str(error).splitlines() or [""])[0][:300]


class CheckpointWriter(TorchCheckpointIO):
    """Writes a checkpoint under another name and moves it there when it is whole; reads it by `load_checkpoint`.

    What could not be read again, and weights that hold NaN, are refused before the file in place is touched.
    """

    def __init__(self) -> None:
        self._settings_checked = False

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: object = None) -> None:
        """Write a checkpoint; a kill at any moment leaves the old file or the new one.

        Raises:
            UserError: NaN among the weights, settings that can't be read back safely, or a disk that is full.
        """
        path = Path(path)
        _refuse_nan(checkpoint.get("state_dict", {}), path)
        if not self._settings_checked:
            _refuse_code(checkpoint)
            self._settings_checked = True
        part = part_of(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with part.open("wb") as stream:
                torch.save(checkpoint, stream)
                stream.flush()
                os.fsync(stream.fileno())
            _note(part, path)
            part.replace(path)
            _sync_folder(path.parent)
        except (OSError, RuntimeError) as error:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
            raise UserError(
                f"The checkpoint {path} can't be written ({error}); the file there before is untouched."
            ) from error

    def load_checkpoint(
        self, path: str | Path, map_location: object = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """The content of a file, read as by `load_checkpoint`; Lightning keeps bare weights in such files too."""
        content = _load(Path(path), map_location or "cpu", mmap=False)
        assert isinstance(content, dict)
        return content


def _note(content: Path, path: Path) -> None:
    """Note in a run's `run.json` that its checkpoint at `path` is about to have the content of a file."""
    run = run_of_checkpoint(path)
    if run is not None:
        note_written(run, {path.absolute().relative_to(run).as_posix(): file_sha256(content)})


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _refuse_nan(weights: Mapping[str, Any], path: Path) -> None:
    broken = [
        name
        for name, value in weights.items()
        if isinstance(value, Tensor) and value.is_floating_point() and bool(torch.isnan(value).any())
    ]
    if broken:
        raise UserError(
            f"{len(broken)} of {len(weights)} weights hold NaN ({', '.join(broken[:3])}), so {path} is not written; "
            "the last good checkpoint stays. Lower the learning rate or clip the gradients."
        )


def _refuse_code(checkpoint: Mapping[str, Any]) -> None:
    """Refuse, by name, settings that `load_checkpoint` would not read back."""
    for part, content in checkpoint.items():
        if part in ("state_dict", "optimizer_states") or _reads_back(content):
            continue
        entries = content.items() if isinstance(content, Mapping) else ()
        names = [str(name) for name, value in entries if not _reads_back(value)]
        raise UserError(
            f"The checkpoint's {part} can't be saved without code: {', '.join(names) or 'all of it'} "
            "is no plain value. Give it as a class path with init_args (as YAML does), or leave it out of "
            "save_hyperparameters."
        )


def _reads_back(value: object) -> bool:
    stream = io.BytesIO()
    try:
        torch.save(value, stream)
        stream.seek(0)
        torch.load(stream, weights_only=True)
    except (pickle.PickleError, AttributeError, TypeError, RuntimeError, ValueError):
        return False
    return True


def link_or_copy(source: Path, target: Path) -> None:
    """Let `target` hold what `source` holds, in one step and, where the file system can, without using room."""
    part = part_of(target)
    part.unlink(missing_ok=True)
    try:
        os.link(source, part)
    except OSError:
        shutil.copyfile(source, part)
    _note(part, target)
    part.replace(target)


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
