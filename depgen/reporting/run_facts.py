"""What a run folder tells a result: data, trees, size, budget and curve."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from depgen.data.record import DataSource, recorded_source
from depgen.errors import UserError
from depgen.hub import names_a_folder
from depgen.reporting.results import Budget, Points, RunFacts
from depgen.training.experiment import Experiment, settings_of
from depgen.training.provenance import hardware_in_words, short_commit
from depgen.training.runs import read_record


def facts_of(run: Path) -> RunFacts:
    """The facts of a finished run, as its folder has kept them.

    Tokens seen are epochs times the tokens of the training split (one eos an item; of documents, one a sentence): each
    epoch sees each item once. They are unknown for a run that names no data or has no `metrics.csv`.
    """
    record, path = read_record(run), run / "metrics.csv"
    tokens, costs = record.get("tokens_per_epoch"), dict[str, Any]()
    if tokens is not None and path.is_file():
        import pandas as pd

        epochs, curve, clock = read_curve(path, tokens_per_epoch=tokens)
        seconds = pd.read_csv(path).get("processor_seconds", pd.Series(dtype=float)).dropna()
        costs = {"budget": Budget(epochs, epochs * tokens), "curve": curve, "clock": clock}
        costs["processor_seconds"] = seconds.max() if len(seconds) else None
    return RunFacts(
        data=recorded_source(run) or DataSource("unknown", reduced=False),
        trees=record.get("trees"),
        parameters=record.get("parameters"),
        beginning=beginning_of(run / "config.yaml"),
        hardware=hardware_in_words(record.get("hardware") or {}),
        commit=short_commit(record.get("commit")),
        **costs,
    )


def beginning_of(config: Path | Experiment) -> str | None:
    """What a network that may begin from pretrained weights began from; None for every other network.

    Of a folder that is its name alone, as results are read on other machines; of a run, its experiment and its size.
    """
    arguments = arguments_at(settings_of(config), "model.init_args.backbone.init_args")
    if "pretrained" not in arguments:
        return None
    if arguments["pretrained"] is None:
        return "random weights"
    name = str(arguments["pretrained"])
    if run := re.fullmatch(r"([^/]+/[^/]+)/seed\d+/[^/]+", name):
        return run[1]
    return Path(name).name if names_a_folder(name) else name


def arguments_at(settings: Mapping[str, Any], place: str) -> Mapping[str, Any]:
    """The arguments at a dotted place; empty where there are none."""
    value: Any = settings
    for name in place.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def other_precision(run: Path, experiment: Experiment) -> str | None:
    """The precision that a run was trained in, where its experiment asks for another one."""
    trained, wanted = (
        (settings_of(config).get("trainer") or {}).get("precision") for config in (run / "config.yaml", experiment)
    )
    return None if trained == wanted else str(trained)


def read_curve(path: Path, *, tokens_per_epoch: int) -> tuple[int, Points, Points]:
    """Epochs trained, (tokens seen, validation perplexity) wherever it was measured, and the clock there.

    Perplexity is per word of the text, where the run has logged that. The curve is empty for systems that validate text
    together with given structures, which log no perplexity. Within an epoch tokens go by its optimiser steps. The clock
    is (optimiser steps, seconds of wall time) at each validation; empty where the run did not log its time.

    Raises:
        UserError: there is no such file, it is damaged, or it holds no epoch.
    """
    import pandas as pd

    names = ["step", "epoch", "val/loss", "val/word_perplexity", "val/perplexity", "seconds"]
    try:
        logged = pd.read_csv(path, dtype=str).reindex(columns=names).astype(float)  # by Python: to the last digit
        ends = logged.dropna(subset="epoch").groupby("epoch")["step"].max() + 1  # of each epoch, in steps
    except (OSError, ValueError) as error:  # that of pandas, too
        raise UserError(f"{path}: expected the log of `depgen fit` ({str(error).strip()}).") from error
    logged = logged.dropna(subset="epoch")
    if logged.empty:
        raise UserError(f"{path} holds no epoch, so that nothing tells what training cost.")
    lengths = (ends - ends.cummax().shift(fill_value=0)).clip(lower=1)
    logged["perplexity"] = logged["val/word_perplexity"].fillna(logged["val/perplexity"])
    figure = "perplexity" if logged["perplexity"].notna().any() else "val/loss"
    points = logged.dropna(subset=figure).sort_values(["epoch", "step"])
    steps, epoch = points["step"] + 1.0, points["epoch"]
    tokens = tokens_per_epoch * (epoch + 1 - (epoch.map(ends) - steps) / epoch.map(lengths))
    curve = tuple(zip(tokens.tolist(), points[figure].tolist(), strict=True)) if figure == "perplexity" else ()
    clock = () if points["seconds"].hasnans else tuple(zip(steps.tolist(), points["seconds"].tolist(), strict=True))
    return int(ends.index.max()) + 1, curve, clock
