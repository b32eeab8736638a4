"""What a run folder tells a result: data, trees, size, budget and curve."""

import logging
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from depgen.data.record import DataSource, other_data, recorded_source
from depgen.errors import UserError
from depgen.hub import names_a_folder
from depgen.reporting.pretrained import BACKBONE, arguments_at
from depgen.reporting.results import Budget
from depgen.training.experiment import Experiment, settings_of
from depgen.training.provenance import hardware_in_words, short_commit
from depgen.training.runs import read_record

if TYPE_CHECKING:
    from pandas import DataFrame

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunFacts:
    """What results say of a run in addition to its numbers; names as in `Result`."""

    data: DataSource
    trees: str | None
    parameters: int | None
    budget: Budget = field(default_factory=Budget)
    curve: tuple[tuple[float, float], ...] = ()
    clock: tuple[tuple[float, float], ...] = ()
    beginning: str | None = None
    processor_seconds: float | None = None
    hardware: str = "unknown"
    commit: str = "unknown"

    @property
    def in_millions(self) -> dict[str, float]:
        """Sizes as columns may ask for them: `parameters`, and `epoch_tokens` of a pass over the training text."""
        seen, epochs = self.budget.train_tokens, self.budget.epochs
        a_pass = seen / epochs if seen and epochs else None
        sizes = {"parameters": self.parameters, "epoch_tokens": a_pass}
        return {name: size / 1e6 for name, size in sizes.items() if size is not None}


def facts_of(run: Path, data: Any = None) -> RunFacts:  # noqa: ANN401 - any data module
    """The facts of a finished run.

    Data, trees and tokens are those that its `run.json` names. Tokens seen are epochs times the tokens of the training
    split (one eos an item; of documents, one a sentence): each epoch sees each item once.

    Args:
        run: its folder.
        data: its data module (`data_of`): where it gives other data than the run has seen, a warning says so.

    Raises:
        UserError: `metrics.csv` lacks epochs.
    """
    record, path = read_record(run), run / "metrics.csv"
    if data is not None and other_data(run, data):
        logger.warning("%s was trained on other data, which its result names; it is measured on today's.", run)
    costs: dict[str, Any] = {}
    tokens = record.get("tokens_per_epoch")
    if not isinstance(tokens, int):
        logger.warning("%s does not say what data the run has seen: its data and costs are unknown.", run / "run.json")
    elif data is not None or path.is_file():
        epochs, curve, clock = read_curve(path, tokens_per_epoch=tokens)
        seconds = max(_logged(path, "processor_seconds")["processor_seconds"].dropna(), default=None)
        costs = {
            "budget": Budget(epochs, epochs * tokens), "curve": curve, "clock": clock, "processor_seconds": seconds,
        }  # fmt: skip
    return RunFacts(
        recorded_source(run) or DataSource("unknown", reduced=False),
        record.get("trees"),
        record.get("parameters"),
        beginning=beginning_of(run / "config.yaml"),
        hardware=hardware_in_words(record.get("hardware") or {}),
        commit=short_commit(record.get("commit")),
        **costs,
    )


def beginning_of(config: Path | Experiment) -> str | None:
    """What a network that may begin from pretrained weights began from; None for every other network.

    Of a folder that is its name alone, as results are read on other machines; of a run, its experiment and its size.
    """
    arguments = arguments_at(settings_of(config), BACKBONE)
    if "pretrained" not in arguments:
        return None
    if arguments["pretrained"] is None:
        return "random weights"
    name = str(arguments["pretrained"])
    if run := re.fullmatch(r"([^/]+/[^/]+)/seed\d+/[^/]+", name):
        return run[1]
    return Path(name).name if names_a_folder(name) else name


def other_precision(run: Path, experiment: Experiment) -> str | None:
    """The precision that a run was trained in, where its experiment asks for another one."""
    trained, asked = (
        (settings_of(each).get("trainer") or {}).get("precision") for each in (run / "config.yaml", experiment)
    )
    return None if trained == asked else str(trained)


Points = tuple[tuple[float, float], ...]


def read_curve(path: Path, *, tokens_per_epoch: int) -> tuple[int, Points, Points]:
    """Epochs trained, (tokens seen, validation perplexity) wherever it was measured, and the clock there.

    Perplexity is per word of the text, where the run has logged that. The curve is empty for systems that validate text
    together with given structures, which log no perplexity. Within an epoch tokens go by its optimiser steps. The clock
    is (optimiser steps, seconds of wall time) at each validation; empty where the run did not log its time.

    Raises:
        UserError: there is no such file, or it holds no epoch.
    """
    if not path.is_file():
        raise UserError(f"No curve at {path}: expected what `depgen fit` logs.")
    names = ("step", "epoch", "val/loss", "val/word_perplexity", "val/perplexity", "seconds")
    logged = _logged(path, *names).dropna(subset="epoch")
    if logged.empty:
        raise UserError(f"{path} holds no epoch, so that nothing tells what training cost.")
    ends = logged.groupby("epoch")["step"].max() + 1  # of each epoch, in steps
    lengths = (ends - ends.cummax().shift(fill_value=0)).clip(lower=1)
    logged["perplexity"] = logged["val/word_perplexity"].fillna(logged["val/perplexity"])
    figure = "perplexity" if logged["perplexity"].notna().any() else "val/loss"
    points = logged.dropna(subset=figure).sort_values(["epoch", "step"])
    steps, epoch = points["step"] + 1.0, points["epoch"]
    tokens = tokens_per_epoch * (epoch + 1 - (epoch.map(ends) - steps) / epoch.map(lengths))
    curve = tuple(zip(tokens.tolist(), points[figure].tolist(), strict=True)) if figure == "perplexity" else ()
    clock = () if points["seconds"].hasnans else tuple(zip(steps.tolist(), points["seconds"].tolist(), strict=True))
    return int(ends.index.max()) + 1, curve, clock


def _logged(path: Path, *names: str) -> "DataFrame":
    """Columns of what a run has logged, empty where it did not log them.

    Raises:
        UserError: the file is empty or damaged.
    """
    import pandas as pd

    try:
        logged = pd.read_csv(path, dtype=str)
        return logged.reindex(columns=[*names]).astype(float)  # by Python, whose reading of numbers is exact
    except ValueError as error:  # that of pandas, too
        raise UserError(
            f"{path}: expected what `depgen fit` logs ({str(error).strip()}). Copy it again, or train again."
        ) from error
