"""Runs in Weights & Biases: the whole configuration, the data, a group and tags, so that runs can be filtered by them.

The variables of wandb hold. Where they are not set, `WANDB_PROJECT` is `depgen`, `WANDB_DIR` the run folder,
`WANDB_NAME` and `WANDB_RUN_ID` the run's place below `$DEPGEN_RUNS`, and `WANDB_RUN_GROUP` the experiment. `WANDB_TAGS`
adds to ours.
"""

import logging
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import lightning as L
from lightning.pytorch.loggers import WandbLogger
from lightning.pytorch.utilities import rank_zero_only

from depgen.training.runs import place_of_run, read_record

logger = logging.getLogger(__name__)

_LONGEST_ID, _LONGEST_TAG = 128, 64
"""What wandb takes, in characters."""
_DATA = ("data", "tokens_per_epoch", "trees", "trees_fingerprint")
"""What `run.json` keeps of the data; it has the same names in W&B's configuration, under `run`."""


class RunWandbLogger(WandbLogger):
    """Logs a run whose configuration W&B gets whole, when it begins; a model's hyper-parameters are a part of it."""

    @rank_zero_only
    def log_hyperparams(self, params: Any, *args: object, **kwargs: object) -> None:  # noqa: ANN401
        """Does nothing: the configuration holds them."""

    @rank_zero_only
    def note_data(self, record: Mapping[str, Any]) -> None:
        """Add what a run is trained on to the configuration."""
        held = dict(self.experiment.config.get("run") or {})
        data = {name: record[name] for name in _DATA if name in record}
        self.experiment.config.update({"run": {**held, **data}}, allow_val_change=True)


def weights_and_biases(
    run: Path, mode: str, *, settings: Mapping[str, Any] | None = None, tags: Iterable[str] = ()
) -> RunWandbLogger:
    """A quiet W&B logger for a run folder; the same W&B run is continued after a resume.

    Args:
        run: the run folder; offline files are written into it.
        mode: "offline", or "online", where `WANDB_MODE` may still say otherwise.
        settings: the resolved configuration of the run.
        tags: such as the system, the corpus and the trees.
    """
    environ = os.environ
    environ.setdefault("WANDB_SILENT", "true")
    environ.setdefault("WANDB_CONSOLE", "off")
    record = read_record(run) if (run / "run.json").is_file() else {}
    known = {name: record[name] for name in ("experiment", "seed", "commit", *_DATA) if name in record}
    experiment, *size_and_seed, started = place_of_run(run)
    size = {"size": size_and_seed[0]} if size_and_seed else {}
    name = re.sub(r"[^\w.=,@+-]", "_", "-".join((experiment, *size_and_seed, started)))
    identity, folder = environ.get("WANDB_RUN_ID", name[-_LONGEST_ID:]), environ.get("WANDB_DIR", str(run))
    if "offline" in (mode, environ.get("WANDB_MODE")):
        logger.info("W&B logs offline. Send it later: wandb sync %s/wandb/offline-run-*-%s", folder, identity)
    all_tags = [*environ.get("WANDB_TAGS", "").split(","), *tags, *size.values()]
    wandb_logger = RunWandbLogger(
        name=environ.get("WANDB_NAME", name),
        id=identity,
        save_dir=folder,
        project=environ.get("WANDB_PROJECT", "depgen"),
        offline=mode == "offline",
        group=environ.get("WANDB_RUN_GROUP", record.get("experiment", experiment)),
        tags=list(dict.fromkeys(tag.strip()[:_LONGEST_TAG] for tag in all_tags if tag.strip())),
        config={**(settings or {}), "run": {**known, **size}},
    )
    # a private name, because no argument keeps Lightning from passing `anonymous`, of which wandb warns
    wandb_logger._wandb_init.pop("anonymous", None)
    return wandb_logger


def note_data(trainer: L.Trainer, record: Mapping[str, Any]) -> None:
    """Tell W&B, where it logs, what a run is trained on."""
    for each in trainer.loggers:
        if isinstance(each, RunWandbLogger):
            each.note_data(record)
