"""A device, with float64 as a GPU or without as that of a Mac: its tensors lie on the CPU, and are not plain ones.

Tensors of two devices in one operation are refused too. The device's name is `simple`; torch allows one such name a
process, so tests that need it run in a subprocess: `python -m tests.single_precision FOLDER with|without`.
"""

import copy
import json
import sys
import traceback
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import lightning as L
import numpy as np
import torch
from lightning.pytorch.accelerators import Accelerator
from lightning.pytorch.strategies import SingleDeviceStrategy
from torch.utils._pytree import tree_map
from torch.utils.backend_registration import _DummyBackendModule, _setup_privateuseone_for_python_backend

from depgen.data.batch import ItemBatch, TokenItem
from depgen.decoding.beam import pruned
from depgen.decoding.settings import Sampling
from depgen.language_models.masked import HeadNetwork
from depgen.models.masked_transformer import MaskedTransformer
from depgen.nn.precise import WITHOUT_FLOAT64
from tests.contract.batches import vocabulary_of
from tests.contract.runs import built, fit
from tests.contract.systems import SYSTEMS, VOCABULARY, System, abilities
from tests.contract.writing import written
from tests.fixtures.kinds import EXPERIMENTS, LSTM, TRANSFORMER_XL, Settings, named, stream
from tests.fixtures.make import write_inputs
from tests.models.documents import CONTEXTS

NAME = "simple"
PACKING = "aten::_pack_padded_sequence"
MOVES = frozenset(
    {"aten::copy_", "aten::_to_copy", PACKING, f"{PACKING}_backward", "aten::_pad_packed_sequence", "aten::lstm"}
)
"""Operations that may see tensors of two devices."""
INDEXED = frozenset({"aten::index", "aten::index_put_", "aten::_index_put_impl_", "aten::index_put"})
"""Operations whose indices may lie on the CPU."""


class RefusedError(RuntimeError):
    """What the device can't do."""


class SimpleTensor(torch.Tensor):
    """A tensor of the device; its numbers are those of `raw`, a tensor on the CPU."""

    raw: torch.Tensor

    @staticmethod
    def of(raw: torch.Tensor) -> "SimpleTensor":
        if raw.dtype in (torch.float64, torch.complex128) and NAME in WITHOUT_FLOAT64:
            raise RefusedError(
                "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64."
            )
        with torch.inference_mode(False):
            made = torch.Tensor._make_wrapper_subclass(
                SimpleTensor, raw.shape, raw.stride(), raw.storage_offset(), dtype=raw.dtype, device=f"{NAME}:0"
            )
        made.raw = raw
        return made

    @classmethod
    def __torch_dispatch__(cls, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run(op, *args, **(kwargs or {}))

    __torch_function__ = torch._C._disabled_torch_function_impl

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.raw.__reduce_ex__(protocol)  # checkpoints hold plain tensors

    def new_tensor(self, data: Any, **options: Any) -> torch.Tensor:
        return made(data, **{"dtype": self.dtype, "device": self.device, **options})

    def tolist(self) -> Any:
        count_wait("tolist")
        return self.raw.tolist()

    def __repr__(self) -> str:  # type: ignore[override]
        return f"SimpleTensor({self.raw!r})"


def fused_lstm_cell(
    given: torch.Tensor, carried: torch.Tensor, cell: torch.Tensor, *biases: torch.Tensor | None
) -> tuple[torch.Tensor, ...]:
    """What torch fuses on devices that are neither CPU nor CUDA: the new hidden state, cell and gates."""
    total = given + carried + sum(each for each in biases if each is not None)
    enter, forget, value, leave = total.chunk(4, 1)
    gates = torch.cat((enter.sigmoid(), forget.sigmoid(), value.tanh(), leave.sigmoid()), 1)
    enter, forget, value, leave = gates.chunk(4, 1)
    new = forget * cell + enter * value
    return leave * new.tanh(), new, gates


def fused_lstm_cell_backward(
    d_hidden: torch.Tensor | None, d_cell: torch.Tensor | None, cell: torch.Tensor, new: torch.Tensor,
    gates: torch.Tensor, has_bias: bool,
) -> tuple[torch.Tensor | None, ...]:  # fmt: skip
    """The gradients of the gates, of the cell and of the bias."""
    enter, forget, value, leave = gates.chunk(4, 1)
    out = torch.zeros_like(new) if d_hidden is None else d_hidden
    inner = (0 if d_cell is None else d_cell) + out * leave * (1 - new.tanh() ** 2)
    d_gates = torch.cat(
        (
            inner * value * enter * (1 - enter), inner * cell * forget * (1 - forget), inner * enter * (1 - value**2),
            out * new.tanh() * leave * (1 - leave),
        ), 1,
    )  # fmt: skip
    return d_gates, inner * forget, d_gates.sum(0) if has_bias else None


FUSED = {
    "aten::_thnn_fused_lstm_cell": fused_lstm_cell,
    "aten::_thnn_fused_lstm_cell_backward_impl": fused_lstm_cell_backward,
}
"""Operations that the CPU does not have."""


WAITS = frozenset(
    {
        "aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::equal", "aten::is_nonzero",
        "aten::bincount", "aten::_unique2", "aten::unique_dim", "aten::unique_consecutive",
    }
)  # fmt: skip
waits: list[str] = []
"""Operations so far for which a GPU would have to be waited for, and where each was called."""


def waits_for(name: str, args: Any, kwargs: Any) -> bool:
    """Whether an operation on tensors of the device ends only when all before it have.

    Its result is on the CPU, or has a size that depends on what tensors hold, or it copies to the device and does not
    say `non_blocking`, as indices on the CPU do.
    """
    if name in ("aten::_to_copy", "aten::copy_"):
        source = args[1] if name == "aten::copy_" else args[0]
        there = (
            args[0].device.type if name == "aten::copy_" else torch.device(kwargs.get("device") or source.device).type
        )
        blocks = not (kwargs.get("non_blocking") or (name == "aten::copy_" and args[2:3] == (True,)))
        return (there != NAME) if isinstance(source, SimpleTensor) else (there == NAME and blocks)
    if name in INDEXED:
        indices = [each for each in args[1] if each is not None]
        masks = any(each.dtype in (torch.bool, torch.uint8) for each in indices)
        return masks or not all(isinstance(each, SimpleTensor) for each in indices)
    if name == "aten::repeat_interleave":
        return kwargs.get("output_size") is None
    return name in WAITS


def count_wait(name: str) -> None:
    """Notes an operation that is waited for, with the line of depgen that called it."""
    frames = [frame for frame in traceback.extract_stack() if "/depgen/" in frame.filename]
    waits.append(f"{name} {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else name)


def tensors_in(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    """The tensors among the arguments of an operation, alone or in lists; torch's own walk takes ten times as long."""
    for each in values:
        if isinstance(each, torch.Tensor):
            yield each
        elif isinstance(each, (list, tuple)):
            yield from tensors_in(each)


def on_cpu(value: Any) -> Any:
    """An argument of an operation with the tensors of the device as those of the CPU."""
    if isinstance(value, SimpleTensor):
        return value.raw
    return type(value)(map(on_cpu, value)) if type(value) in (list, tuple) else value


def run(op: Any, *args: Any, **kwargs: Any) -> Any:
    """An operation of the device, on the CPU."""
    name = op._schema.name
    tensors = [*tensors_in(args), *tensors_in(kwargs.values())]
    ours = [each for each in tensors if isinstance(each, SimpleTensor)]
    others = [each for each in tensors if not isinstance(each, SimpleTensor) and each.dim()]
    if name in INDEXED:
        others = [each for each in others if each is args[0]]
    if ours and others and name not in MOVES:
        raise RefusedError(f"{name}: Expected all tensors to be on the same device, found the CPU and {NAME}.")
    target = kwargs.get("device")
    if (ours or target is not None) and waits_for(name, args, kwargs):
        count_wait(name)
    here = bool(ours) if target is None else torch.device(target).type == NAME
    if target is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    kwargs.pop("pin_memory", None)
    refuses = NAME in WITHOUT_FLOAT64
    if refuses and name == "aten::_to_copy" and ours and kwargs.get("dtype") == torch.float64:
        raise RefusedError("Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64.")
    if name == "aten::copy_":
        here = isinstance(args[0], SimpleTensor)
        if (
            refuses
            and not here
            and isinstance(args[1], SimpleTensor)
            and args[0].dtype == torch.float64 != args[1].dtype
        ):
            raise RefusedError(f"{name}: from {NAME} to float64 at once")
    plain, named = on_cpu(args), {key: on_cpu(value) for key, value in kwargs.items()}
    found = FUSED.get(name, op)(*plain, **named)
    return _wrapped(op, found, args, kwargs, plain, here=here)


def _wrapped(op: Any, found: Any, args: Any, kwargs: Any, plain: Any, *, here: bool) -> Any:
    name, returns = op._schema.name, op._schema.returns
    if (
        returns and returns[0].alias_info is not None and returns[0].alias_info.is_write
    ):  # in place: the argument itself
        written = []
        for number, argument in enumerate(op._schema.arguments):
            if argument.alias_info is not None and argument.alias_info.is_write:
                value = kwargs.get(argument.name) if argument.kwarg_only else args[number]
                written.append(value)
        return written[0] if len(returns) == 1 else tuple(written)
    if not here:
        return found
    if name == PACKING:
        return SimpleTensor.of(found[0]), found[1]  # the sizes of batches lie on the CPU
    if isinstance(found, torch.Tensor):
        return SimpleTensor.of(found)
    return tree_map(lambda each: SimpleTensor.of(each) if isinstance(each, torch.Tensor) else each, found)


class Module(_DummyBackendModule):
    """What `torch.simple` has."""

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.float16, torch.bfloat16]


class SimpleAccelerator(Accelerator):
    """Lightning's view of the device."""

    def setup_device(self, device: torch.device) -> None:
        pass

    def teardown(self) -> None:
        pass

    def get_device_stats(self, device: Any) -> dict[str, Any]:
        return {}

    @staticmethod
    def parse_devices(devices: Any) -> Any:
        return [0]

    @staticmethod
    def get_parallel_devices(devices: Any) -> list[torch.device]:
        return [torch.device(NAME, 0)]

    @staticmethod
    def auto_device_count() -> int:
        return 1

    @staticmethod
    def is_available() -> bool:
        return True

    @staticmethod
    def name() -> str:
        return NAME


def made(data: Any, **options: Any) -> torch.Tensor:
    """`torch.tensor`, whose own way to the device fails for devices that are written in Python."""
    device = options.pop("device", None)
    found: torch.Tensor = plain_tensor(data, **options)
    return found if device is None else found.to(device)


def ranged(*ends: Any, **options: Any) -> torch.Tensor:
    """`torch.arange`, whose own way to the device resizes a tensor that is there: one of the device keeps its shape."""
    device = options.pop("device", None)
    found: torch.Tensor = plain_arange(*ends, **options)
    return found if device is None else found.to(device, non_blocking=True)


plain_tensor, plain_arange = torch.tensor, torch.arange


def register(*, doubles: bool) -> torch.library.Library:
    """Make the device known to torch, with or without float64; it is so while what is returned is kept."""
    _setup_privateuseone_for_python_backend(NAME, backend_module=Module())
    if not doubles:
        WITHOUT_FLOAT64.add(NAME)
    torch.tensor, torch.arange = made, ranged
    library = torch.library.Library("_", "IMPL")
    library.fallback(run, "PrivateUse1")
    return library


# -- every system on it -----------------------------------------------------------------------------------------------


class Waits(L.Callback):
    """Keeps what the device has to be waited for in each step, from the batch on the device to the gradients."""

    def __init__(self) -> None:
        self.found: list[list[str]] = []

    def on_fit_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        assert module.device.type == NAME
        module.on_train_batch_start = lambda *_: waits.clear()  # after all callbacks, one of which may begin a phase

    def on_after_backward(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        self.found.append(waits.copy())


def train(settings: Settings, folder: Path) -> list[list[str]]:
    """What the device is waited for, in an epoch of each phase of at most three batches, validated and tested."""
    settings = copy.deepcopy(settings)
    data = built(settings["data"])
    model = built(settings["model"], vocabulary_size=data.vocabulary_size)
    trainer = L.Trainer(
        default_root_dir=folder, accelerator=SimpleAccelerator(), devices=1, logger=False, max_epochs=len(model.phases),
        strategy=SingleDeviceStrategy(torch.device(NAME, 0)), enable_progress_bar=False, limit_train_batches=3,
        enable_model_summary=False, callbacks=[counted := Waits()],
        gradient_clip_val=settings["trainer"].get("gradient_clip_val"),
    )  # fmt: skip
    trainer.fit(model, data)
    trainer.validate(model, data, verbose=False)
    trainer.test(model, data, verbose=False)
    assert all(value.isfinite() for name, value in trainer.callback_metrics.items() if name.endswith("loss"))
    if isinstance(model, MaskedTransformer):
        model.parse_by((0, 0))
    if "parses" in abilities(model):
        trainer.predict(model, data)
    return counted.found


def train_pairs(folder: Path) -> list[list[str]]:
    """Train an encoder on the CPU, and on the device a similarity with it."""
    (folder / "encoder").mkdir()
    run = fit(folder / "encoder", EXPERIMENTS["udgn"], "--trainer.max_epochs=1")
    settings = copy.deepcopy(EXPERIMENTS["similarity"])
    settings["data"]["init_args"]["encoder"] = str(run)
    return train(settings, folder / "similarity")


def use(system: System) -> None:
    """Score, write and parse."""
    torch.manual_seed(0)
    model = system.make(VOCABULARY)
    model.configure_model()
    model.enter_phase(len(model.phases) - 1)
    model.eval()
    vocabulary, texts = vocabulary_of(model), [[[5, 6, 7, 8], [9, 4]], [[4, 5, 6]]]
    scores = bool(system.claims) and "levels" not in system.claims  # those score texts with their trees alone
    expected = model.sentence_log_probs(texts, vocabulary=vocabulary) if scores else None
    model.to(NAME)
    if expected is not None:
        for one, other in zip(model.sentence_log_probs(texts, vocabulary=vocabulary), expected, strict=True):
            for found, score in zip(one, other, strict=True):
                np.testing.assert_allclose(found, score, rtol=1e-4, atol=1e-5)
    if "generates" in system.claims:
        for sampling in (Sampling(), Sampling(top_p=0.9, top_k=3)):
            written(model, sampling, batch_size=2)
    if isinstance(model, HeadNetwork):
        tokens = torch.tensor([[4, 5, 6], [7, 8, 0]]).to(NAME)
        assert model.head_probabilities(tokens, torch.tensor([3, 2])).cpu().isfinite().all()


def others() -> dict[str, Settings]:
    """Experiments with the networks and options that no kind of small run has."""

    def changed(kind: str, **of_model: Any) -> Settings:
        settings = copy.deepcopy(EXPERIMENTS[kind])
        settings["model"]["init_args"].update(of_model)
        return settings

    contexts = {
        f"DCLM, {name}": changed("adclm", context=named(f"models.dclm.{kind.func.__name__}", size=8, **kind.keywords))
        for name, kind in ((name, partial(each)) for name, each in CONTEXTS.items())
    }
    lstm = changed("dmlm", backbone=named("backbones.awd_lstm.AWDLSTM", **LSTM), window=4)
    lstm["data"] = stream(annotator=named("annotation.controls.GoldTrees"))
    lstm["model"]["init_args"]["attention"] = "depgen.models.dmlm.QueryKeyAttention"
    return contexts | {
        "dm_lstm": lstm,
        "transformer_xl": changed("transformer", backbone=TRANSFORMER_XL),
        "udgn, kirchhoff": changed("udgn", marginals="kirchhoff"),
        "gilt, no features": changed("gilt", features=[]),
    }


def write(system: System) -> list[dict[str, Any]]:
    """What the device is waited for while texts are written, few and many, by how many levels.

    Texts that end leave the device all at once.
    """
    torch.manual_seed(0)
    model: Any = system.make(VOCABULARY)
    model.configure_model()
    model.to(NAME).eval()
    found = []
    for texts in (2, 12):
        options, vocabulary = model.generation_options(levels=6), vocabulary_of(model)
        with torch.no_grad(), mock.patch.object(model, "_written", wraps=model._written) as levels:
            waits.clear()
            model.generate.__wrapped__(  # inference mode would hide operations
                model, [[]] * texts, vocabulary=vocabulary, options=options, seeds=range(texts), max_new_tokens=30
            )
        found.append({"texts": texts, "steps": levels.call_count, "waits": waits.copy()})
    return found


def search(system: System) -> list[dict[str, Any]]:
    """What the device is waited for in a search with a narrow and a wide beam, and how often hypotheses are pruned."""
    torch.manual_seed(0)
    model: Any = system.make(VOCABULARY)
    model.to(NAME).eval()
    texts = [[5, 6, 7, 8, 9, 4], [5, 6, 8, 4, 10, 11], [4, 5, 6], [12, 4, 7, 9]]
    items = [TokenItem(place, np.array(ids)) for place, ids in enumerate(texts)]
    found = []
    for beam_size in (2, 12):
        batch = model.collate(ItemBatch(items, 1, vocabulary_of(model))).to(model.device)
        prunings: list[Any] = []

        def counted(*args: Any, prunings: list[Any] = prunings, **options: Any) -> Any:
            prunings.append(pruned(*args, **options))
            return prunings[-1]

        with torch.no_grad(), mock.patch("depgen.decoding.beam.pruned", counted):
            waits.clear()
            model.search(batch, beam_size=beam_size)
        found.append({"beam": beam_size, "steps": len(prunings), "waits": waits.copy()})
    return found


def outcomes(folder: Path, *, trained_only: bool) -> dict[str, Any]:
    """What the device is waited for in each system's steps and searches, or the error that the system ends with."""
    write_inputs(folder)
    found: dict[str, Any] = {}
    runs = {name: partial(train, each, folder / name) for name, each in EXPERIMENTS.items()}
    runs["similarity"] = partial(train_pairs, folder)
    uses = {f"{name}, used": partial(use, each) for name, each in SYSTEMS.items()}
    searches = {f"{name}, searched": partial(search, each) for name, each in SYSTEMS.items() if each.structures}
    runs_of_others = {name: partial(train, each, folder / name) for name, each in others().items()}
    levels = {f"{name}, written": partial(write, SYSTEMS[name]) for name in SYSTEMS if name.startswith("ITEXP")}
    counted = runs | runs_of_others | searches | levels
    for name, act in (counted if trained_only else runs | uses).items():
        try:
            found[name] = act()
        except Exception:  # noqa: BLE001, whatever it is, the test reports it
            found[name] = traceback.format_exc()
    return found


if __name__ == "__main__":
    doubles = sys.argv[2] == "with"
    kept = register(doubles=doubles)
    ended = outcomes(Path(sys.argv[1]), trained_only=doubles)
    (Path(sys.argv[1]) / "outcomes.json").write_text(json.dumps(ended), encoding="utf-8")
