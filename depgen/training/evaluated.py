"""What `depgen test` and `depgen validate` leave in a run folder: its numbers, and the scores of every test item."""

import json
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from depgen.errors import UserError
from depgen.locations import file_sha256, json_object, write_atomically
from depgen.training.files import NumbersFile, check
from depgen.training.runs import best_checkpoint

logger = logging.getLogger(__name__)

NUMBERS = {"validate": "validate.json", "test": "test.json"}
"""What each verb leaves: `checkpoint`, `checkpoint_sha256`, and `metrics` with their stage (`test/perplexity`)."""
TEST_ITEMS = "test_items.npz"
"""Arrays `items` (places in the split), `nll` (nats), `tokens` and `words`; where the data module has a corpus also
`data` and `sentences`, the digests of the test split (files and reading options) and of its sentences alone."""
AGREEMENT = 1e-3
"""How far, relative, the perplexity of the items may lie from the one in `test.json`."""


def write_numbers(run: Path, verb: str, metrics: Mapping[str, float], *, checkpoint: Path, sha256: str) -> None:
    """Write the numbers of an evaluation, as they are logged.

    `sha256` is the digest of the checkpoint when it was read: numbers of weights that were replaced meanwhile are known
    by it.
    """
    content = {"checkpoint": str(checkpoint), "checkpoint_sha256": sha256, "metrics": metrics}
    write_atomically(run / NUMBERS[verb], json.dumps(content, indent=2) + "\n")


@dataclass(frozen=True)
class SplitNumbers:
    """What a run's test left.

    Attributes:
        metrics: named without their stage (`perplexity`, …).
        item_nll: each item's mean nats per token, by its place in the split; NaN for one that was not scored, None
            where single items were not kept.
        item_tokens: how many tokens each of them has; 0 for one that was not scored.
        item_words: how many words.
        data: the digest of the split; None where the data module has no corpus.
        sentences: that of its sentences alone, whatever the format of their files; None likewise.
    """

    metrics: dict[str, float]
    item_nll: NDArray[np.float64] | None = None
    item_tokens: NDArray[np.float64] | None = None
    item_words: NDArray[np.float64] | None = None
    data: str | None = None
    sentences: str | None = None


def are_kept(run: Path, verb: str) -> bool:
    """Whether there are numbers of a verb for the run's best checkpoint as it is now."""
    path = run / NUMBERS[verb]
    return path.is_file() and read_numbers(path)["checkpoint_sha256"] == file_sha256(best_checkpoint(run))


def kept_numbers(run: Path, verb: str) -> dict[str, float]:
    """The numbers that a verb left for the run's best checkpoint, named without their stage."""
    path = run / NUMBERS[verb]
    if not are_kept(run, verb):
        raise UserError(
            f"{path} was not written, or the run was trained further since. Write it by depgen {verb} --run {run}, "
            "with the data that it was trained on: numbers of other data are not kept. Or train again (--redo)."
        )
    return {name.partition("/")[2]: float(value) for name, value in read_numbers(path)["metrics"].items()}


def read_numbers(path: Path) -> dict[str, Any]:
    """The content of one of the files of `NUMBERS`."""
    content = json_object(path, remedy="Delete it to go on.")
    check(NumbersFile, content, str(path), remedy="Delete it to go on.")
    return content


def kept_test(run: Path) -> SplitNumbers:
    """The numbers of the test, with those of the items and the digest of the split as far as they are kept."""
    import pandas as pd

    metrics, path = kept_numbers(run, "test"), run / TEST_ITEMS
    if not path.is_file():
        return SplitNumbers(metrics)
    with np.load(path, allow_pickle=False) as arrays:
        scores = pd.DataFrame({name: arrays[name] for name in ("items", "nll", "tokens", "words")})
        data, sentences = (str(arrays[name]) if name in arrays else None for name in ("data", "sentences"))
    scores = scores.drop_duplicates("items").set_index("items").sort_index()  # what two devices scored counts once
    perplexity = metrics.get("perplexity")
    of_items = math.exp(scores["nll"].sum() / scores["tokens"].sum())
    if perplexity is not None and not math.isclose(of_items, perplexity, rel_tol=AGREEMENT):
        logger.warning(
            "%s: the items have perplexity %.4f, %s says %.4f; they are of another test and stay unused.",
            path, of_items, NUMBERS["test"], perplexity,
        )  # fmt: skip
        return SplitNumbers(metrics)
    scores = scores.reindex(range(scores.index[-1] + 1), fill_value=0).astype(np.float64)
    # a device that has no more of a stream scores empty stretches
    means = (scores["nll"] / scores["tokens"]).where(scores["tokens"] > 0)
    return SplitNumbers(
        metrics, means.to_numpy(), scores["tokens"].to_numpy(), scores["words"].to_numpy(), data, sentences
    )
