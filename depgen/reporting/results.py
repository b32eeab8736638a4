"""One result: a row of a table at one size and seed, as a JSON file that a stranger can read."""

import base64
import binascii
import dataclasses
import json
import logging
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from depgen.data.record import DataSource
from depgen.errors import UserError
from depgen.locations import json_object, results_root, write_atomically
from depgen.reporting.definition import Row
from depgen.reporting.fields import read_as
from depgen.reporting.generation import Generation

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Budget:
    """What training cost: passes over the data, and tokens seen over all phases."""

    epochs: int | None = None
    train_tokens: int | None = None


UNKNOWN = "_unk_rate"
"""How names of metrics end that are shares of words which the judge of a measure reads as `<unk>`."""
BOUND = "_bound"
"""The name of a measure's setting that says of what its scores are bounds ends so; systems compare all the same."""
OF_DOCUMENTS = "_unk_rate_of_documents"
"""How names of metrics end that are shares of words which a system reads as `<unk>` in the documents it judges."""
DOCUMENTS = "_documents"
"""How the items of a measure are named that number the documents which its items are pieces of."""
REMEDY = " Delete it to make it again."


@dataclass(frozen=True)
class Result:
    """One row at one size and seed.

    Attributes:
        table: the table's name.
        row: the system's name, as in the paper.
        size: `small` or `paper`.
        seed: of training.
        metrics: numbers by measure.
        not_computed: reasons by measure.
        items: per-item scores by measure, as `packed` makes them.
        settings: what a measure depends on (model, layer, version), by measure.
        data: what it was trained on.
        trees: the annotation scheme, or None for a system without trees.
        parameters: trained numbers in the model.
        budget: passes and tokens.
        hardware: in words.
        date: ISO, in UTC.
        commit: of the code that trained, `+` where the tree had changes.
        config_sha256: of the experiment's resolved configuration (`depgen.training.configuration_digest`).
        curve: (training tokens seen, validation perplexity), in order; empty where validation gives no perplexity.
        clock: (optimiser steps, seconds of wall time) at each validation; empty where they were not kept.
        generation: how its texts were made; None where there are none, or where an older version did not keep it.
        measured_commit: of the code that measured, as in `commit`; None where an older version did not keep it.
        processor_seconds: what training took on processors, validation included; None where that was not logged.
        weights_sha256: of the checkpoint that was measured; None where there is none, or where an older version did not
            keep it.
        run: that was measured, below `$DEPGEN_RUNS`; None as above.
        beginning: what a network that may be pretrained began from: `random weights`, or the name of others; None for
            every other network, or where an older version did not keep it.
        precision: that it was trained in where its experiment asks for another one.
        made_before: a correction of the code after which the row is to be made again; None for all others.
    """

    table: str
    row: str
    size: str
    seed: int
    metrics: Mapping[str, float]
    data: DataSource
    hardware: str
    date: str
    commit: str
    config_sha256: str
    not_computed: Mapping[str, str] = field(default_factory=dict)
    items: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    trees: str | None = None
    parameters: int | None = None
    budget: Budget = Budget()
    curve: tuple[tuple[float, float], ...] = ()
    generation: Generation | None = None
    measured_commit: str | None = None
    clock: tuple[tuple[float, float], ...] = ()
    beginning: str | None = None
    weights_sha256: str | None = None
    run: str | None = None
    processor_seconds: float | None = None
    precision: str | None = None
    made_before: str | None = None

    @classmethod
    def from_dict(cls, content: object, *, where: str) -> "Result":
        """The checked result.

        Raises:
            UserError: a name is missing, unknown, or its value of another kind; `where` is named.
        """
        return read_as(cls, content, where, remedy=REMEDY)

    def scores(self, name: str) -> Float[np.ndarray, " items"] | None:
        """Per-item scores, in single precision; None where there are none.

        Raises:
            UserError: they are damaged.
        """
        if name not in self.items:
            return None
        try:
            content = zlib.decompress(base64.b64decode(self.items[name].removeprefix(_PACKED), validate=True))
            return np.frombuffer(content, "<f4").astype(np.float64)
        except (binascii.Error, zlib.error, ValueError) as error:
            raise UserError(
                f"{self.table}, {self.row}, seed {self.seed}: {name}: expected packed scores of single items "
                f"({error}). Measure the row again (depgen reproduce ... --remeasure), or restore a tracked file (git "
                "checkout experiments/measured)."
            ) from error


def row_folder(table: str, row_slug: str) -> Path:
    """The folder of a row's results: `results/<table>/<row>`."""
    return results_root() / table / row_slug


def result_path(table: str, row_slug: str, *, size: str, seed: int) -> Path:
    """`results/<table>/<row>/<size>-seed<k>.json`."""
    return row_folder(table, row_slug) / f"{size}-seed{seed}.json"


def write_result(result: Result, path: Path) -> None:
    """Write the JSON in one step, so that no reader sees half of it.

    Raises:
        UserError: a measure is not finite (JSON has no word for that, and a table no use).
    """
    endless = [name for name, value in result.metrics.items() if not math.isfinite(value)]
    if endless:
        raise UserError(f"{path}: {', '.join(endless)} of {result.row} are not finite, so no result is written.")
    write_atomically(path, json.dumps(dataclasses.asdict(result), indent=2, allow_nan=False) + "\n")


def read_result(path: Path) -> Result:
    """The result in a JSON file.

    Raises:
        UserError: the file is not there, no JSON, or no result.
    """
    content = json_object(path, remedy=REMEDY.strip())
    if isinstance(items := content.get("items"), dict):
        content["items"] = {name: held for name, each in items.items() if (held := _packed_now(path, each)) is not None}
    return Result.from_dict(content, where=str(path))


def _packed_now(path: Path, held: Any) -> Any:  # noqa: ANN401 - whatever the file says
    """Item scores as results hold them; those of earlier versions lie in files, and are None where these are gone."""
    if not isinstance(held, str) or not held.endswith(".npy"):
        return held
    try:
        return packed(np.atleast_1d(np.load(path.parent / held, allow_pickle=False).astype(np.float64)))
    except (OSError, EOFError, ValueError, AttributeError) as error:
        logger.warning("%s: the scores of single items in %s can't be read (%s) and are left out.", path, held, error)
        return None


def read_results(table: str, row_slug: str, *, size: str) -> list[Result]:
    """Every seed's result of a row at a size, by seed.

    Raises:
        UserError: a file does not read as a result, or holds another one than its place says.
    """
    found = {path: read_result(path) for path in row_folder(table, row_slug).glob(f"{size}-seed*.json")}
    for path, result in found.items():
        held = result_path(result.table, Row(result.row).slug, size=result.size, seed=result.seed)
        if held != path:
            raise UserError(f"{path} holds a result that belongs at {held}: move it there, or delete it.")
    return sorted(found.values(), key=lambda result: result.seed)


def seed_scores(results: Sequence[Result], name: str) -> Float[np.ndarray, "items seeds"] | None:
    """Per-item scores, a column a seed; None where a seed lacks them.

    Raises:
        UserError: the seeds differ in the number of items.
    """
    scores = _scores(results, name)
    if scores is None:
        return None
    if len({len(array) for array in scores}) != 1:
        found = "; ".join(f"{len(array)} of seed {each.seed}" for each, array in zip(results, scores, strict=True))
        raise UserError(
            f"{results[0].row} of {results[0].table}, size {results[0].size}: the seeds differ in the number of "
            f"{name} items: {found}. All seeds are tested on one test split: measure again those that are not "
            "(depgen reproduce ... --remeasure); a run that was tested on another split is tested again once its "
            "folder's test.json is deleted."
        )
    return np.stack(scores, axis=1)


def item_scores(results: Sequence[Result], name: str) -> Float[np.ndarray, " items"] | None:
    """Per-item scores averaged over seeds, NaN where a seed has no score; None where a seed lacks them.

    Raises:
        UserError: the seeds differ in the number of items.
    """
    scores = seed_scores(results, name)
    return None if scores is None else np.asarray(scores.mean(axis=1))


def item_documents(results: Sequence[Result], name: str) -> Int[np.ndarray, " items"] | None:
    """What document each item is a piece of; None where a seed lacks it, or the seeds' items are of others."""
    found = seed_scores(results, name + DOCUMENTS)
    if found is None or (found != found[:, :1]).any():
        return None
    return np.asarray(found[:, 0].astype(np.int64))


def pooled_scores(results: Sequence[Result], name: str) -> Float[np.ndarray, " items"] | None:
    """Per-item scores of all seeds, one after the other, where items of two seeds have nothing to do with each other.

    None where a seed lacks them.
    """
    scores = _scores(results, name)
    return None if scores is None else np.concatenate(scores)


def _scores(results: Sequence[Result], name: str) -> list[Float[np.ndarray, " items"]] | None:
    """The scores of each seed; None where there is no seed, or one that lacks them."""
    found = [scores for each in results if (scores := each.scores(name)) is not None]
    return found if found and len(found) == len(results) else None


_PACKED = "zlib:"
"""The beginning of packed scores: float32, compressed, in base64."""


def packed(scores: Float[np.ndarray, " items"]) -> str:
    """Per-item scores as the text that a result holds; in single precision."""
    return _PACKED + base64.b64encode(zlib.compress(scores.astype("<f4").tobytes(), 9)).decode()
