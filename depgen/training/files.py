"""What the files of a run hold: one model for each, by which it is checked where it is read.

Files may hold more than is named here. A name may be missing where training has not come so far.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from depgen.errors import UserError


class _Part(BaseModel):
    model_config = ConfigDict(strict=True)


class Hardware(_Part):
    """The machine of a run."""

    host: str | None = None
    machine: str | None = None
    cpus: int | None = None
    threads: int | None = None
    gpus: list[str] = []


class Data(_Part):
    """What a run was trained on: `depgen.data.record.DataSource`."""

    model_config = ConfigDict(extra="forbid")
    corpus: str
    reduced: bool
    train_documents: int | None = None
    fingerprint: str | None = None


class RunFile(_Part):
    """`run.json`."""

    experiment: str | None = None
    started: str | None = None
    finished: str | None = None
    command: str | None = None
    seed: int | None = None
    commit: str | None = None
    versions: dict[str, str] | None = None
    hardware: Hardware | None = None
    init_from: dict[str, str] | None = None
    data: Data | None = None
    equal_documents: int | None = None
    tokens_per_epoch: int | None = None
    trees: str | None = None
    parameters: int | None = None
    optimizer: dict[str, Any] | None = None
    steps: int | None = None


class NumbersFile(_Part):
    """`test.json` and `validate.json`."""

    checkpoint: str
    checkpoint_sha256: str
    metrics: dict[str, float]


class _Settings(_Part):
    class_path: str | None = Field(None, alias="_class_path")
    instantiator: str | None = Field(None, alias="_instantiator")
    vocabulary_size: int | None = None


class _State(_Part):
    best: float


class _Callbacks(_Part):
    phases: _State | None = Field(None, alias="Phases")


class CheckpointFile(_Part):
    """A checkpoint: of what Lightning writes, that which is read here too."""

    state_dict: dict[str, Any]
    hyper_parameters: _Settings | None = None
    phase: int = 0
    epoch: int | None = None
    global_step: int | None = None
    callbacks: _Callbacks | None = None


class WeightsFile(CheckpointFile):
    """`model.safetensors` of `depgen push`, with its metadata."""

    same: dict[str, str]


def check(kind: type[BaseModel], content: object, where: str, *, remedy: str) -> None:
    """Raises UserError, which names each slip and the remedy, where a file does not hold what it should."""
    try:
        kind.model_validate(content)
    except ValidationError as error:
        slips = [f"{'.'.join(map(str, slip['loc']))}: {slip['msg']}" for slip in error.errors()]
        raise UserError(f"{where}: {'; '.join(slips)}. {remedy}") from None
