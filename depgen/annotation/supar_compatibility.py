"""What SuPar 1.1.4 (2023) needs so that depgen can load, train and predict with it and today's torch.

`tests/annotation/test_supar_compatibility.py` notices when one is no longer needed. The fixes touch SuPar's own modules
only, never torch's: loading stays safe for everybody else in the process.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Fix:
    """One repair of SuPar.

    Attributes:
        name: a handle for messages.
        reason: what goes wrong without it.
        apply: puts it into place; harmless when repeated.
    """

    name: str
    reason: str
    apply: Callable[[], None]


def apply_fixes() -> None:
    """Repair SuPar for this process; `trusted_loading` is apart, for it is a decision and not a repair."""
    for fix in FIXES:
        fix.apply()


class _TorchThatUnpickles(ModuleType):
    """Torch, but `load` runs the code that a pickle holds."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(torch, name)

    @staticmethod
    def load(path: str, **options: Any) -> Any:  # noqa: ANN401
        return torch.load(path, **{"map_location": "cpu", **options, "weights_only": False})


@contextmanager
def trusted_loading() -> Iterator[None]:
    """Within it, SuPar's `Parser.load` (and the end of `Parser.train`) unpickle: torch >= 2.6 refuses otherwise.

    SuPar's files hold pickled functions. Whoever made such a file can run any code here.
    """
    import supar.parsers.parser as module

    original = module.torch
    module.torch = _TorchThatUnpickles("torch")
    try:
        yield
    finally:
        module.torch = original


def load_supar_file(path: str | Path) -> Any:  # noqa: ANN401  (supar.Parser)
    """SuPar's own parser from its own file, or by the name of one that SuPar downloads. Runs the code in the file."""
    import supar

    apply_fixes()
    with trusted_loading():
        return supar.Parser.load(str(path))


def pad(
    tensors: Sequence[Tensor],
    padding_value: int | float = 0,
    total_length: int | None = None,
    padding_side: str = "right",
) -> Tensor:
    """SuPar's `pad`, indexing by a tuple: lists of slices are deprecated in torch."""
    size = [len(tensors), *(max(tensor.size(axis) for tensor in tensors) for axis in range(tensors[0].dim()))]
    if total_length is not None:
        assert total_length >= size[1]
        size[1] = total_length
    padded = tensors[0].new_full(size, padding_value)
    for row, tensor in zip(padded, tensors, strict=True):
        row[tuple(slice(-n, None) if padding_side == "left" else slice(0, n) for n in tensor.shape)] = tensor
    return padded


def _pad() -> None:
    import supar.modules.pretrained
    import supar.structs.fn
    import supar.utils.field
    import supar.utils.fn

    for module in (supar.utils.fn, supar.structs.fn, supar.utils.field, supar.modules.pretrained):
        module.pad = pad


def _apply_permutation() -> None:
    import supar.modules.lstm

    def apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
        return tensor.index_select(dim, permutation)

    supar.modules.lstm.apply_permutation = apply_permutation


FIXES = (
    Fix("pad", "every padded batch: UserWarning on indexing by a list of slices", _pad),
    Fix("apply_permutation", "LSTM states: FutureWarning, torch's function is deprecated", _apply_permutation),
)
