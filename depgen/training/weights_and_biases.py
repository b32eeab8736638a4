"""Runs in Weights & Biases: the whole configuration, the data, a group and tags, so that runs can be filtered by them.

The variables of wandb hold: `WANDB_PROJECT` (by default `depgen`), `WANDB_ENTITY`, `WANDB_MODE` (unless `--wandb` names
one), `WANDB_DIR` (by default the run folder), `WANDB_NAME`, `WANDB_RUN_ID`, `WANDB_RUN_GROUP` (by default the
experiment; a table's rows have the table) and `WANDB_TAGS`, which are added to ours.
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

from depgen.training.runs import experiment_name, read_record

logger = logging.getLogger(__name__)

_NOT_IN_ID = re.compile(r"[^\w.=,@+-]")
_LONGEST_ID = 128
_LONGEST_TAG = 64
DATA_ENTRIES = ("data", "tokens_per_epoch", "trees", "trees_fingerprint")
"""What `run.json` keeps of the data, by the names that it has in W&B's configuration too, under `run`."""


class RunWandbLogger(WandbLogger):
    """Logs a run whose configuration W&B gets whole, when it begins; a model's hyper-parameters are a part of it."""

    @rank_zero_only
    def log_hyperparams(self, params: Any, *args: object, **kwargs: object) -> None:  # noqa: ANN401
        """Does nothing: the configuration holds them."""

    @rank_zero_only
    def note_run(self, entries: Mapping[str, Any]) -> None:
        """Add to what the configuration says under `run`."""
        held = dict(self.experiment.config.get("run") or {})
        self.experiment.config.update({"run": {**held, **entries}}, allow_val_change=True)


def weights_and_biases(
    run: Path, mode: str, *, settings: Mapping[str, Any] | None = None, tags: Iterable[str] = ()
) -> RunWandbLogger:
    """A quiet W&B logger for a run folder; the same W&B run is continued after a resume.

    Args:
        run: the run folder; offline files are written into it.
        mode: "online", "offline", or "auto": as `WANDB_MODE` says, else online where an API key is at hand and offline
            where there is none.
        settings: the resolved configuration of the run.
        tags: such as the system, the corpus and the trees.
    """
    environ = os.environ
    environ.setdefault("WANDB_SILENT", "true")
    environ.setdefault("WANDB_CONSOLE", "off")
    offline = mode == "offline" or (mode == "auto" and not environ.get("WANDB_MODE") and not _has_account())
    if mode == "online":
        environ["WANDB_MODE"] = "online"
    record = read_record(run) if (run / "run.json").is_file() else {}
    name, size = _name_and_size(run)
    identity, folder = environ.get("WANDB_RUN_ID") or name[-_LONGEST_ID:], environ.get("WANDB_DIR") or str(run)
    if offline or environ.get("WANDB_MODE") == "offline":
        logger.info("W&B logs offline. Send it later: wandb sync %s/wandb/offline-run-*-%s", folder, identity)
    own = [*environ.get("WANDB_TAGS", "").split(","), *tags, *([size] if size else [])]
    wandb_logger = RunWandbLogger(
        name=environ.get("WANDB_NAME") or name,
        id=identity,
        save_dir=folder,
        project=environ.get("WANDB_PROJECT") or "depgen",
        offline=offline,
        resume="allow",
        group=environ.get("WANDB_RUN_GROUP") or record.get("experiment") or experiment_name(run),
        tags=list(dict.fromkeys(each.strip()[:_LONGEST_TAG] for each in own if each.strip())),
        config={**(settings or {}), "run": _described(record, size)},
    )
    # a private name, because no argument keeps Lightning from passing `anonymous`, of which wandb warns
    wandb_logger._wandb_init.pop("anonymous", None)
    return wandb_logger


def note_data(trainer: L.Trainer, record: Mapping[str, Any]) -> None:
    """Tell W&B, where it logs, what a run is trained on."""
    for each in trainer.loggers:
        if isinstance(each, RunWandbLogger):
            each.note_run({name: record[name] for name in DATA_ENTRIES if name in record})


def _described(record: Mapping[str, Any], size: str | None) -> dict[str, Any]:
    """What the configuration says under `run`."""
    names = ("experiment", "seed", "commit", *DATA_ENTRIES)
    return {**{name: record[name] for name in names if name in record}, **({"size": size} if size else {})}


def _name_and_size(run: Path) -> tuple[str, str | None]:
    """The name of a run, and its size where its folder is below one (`<experiment>/<size>/seed<k>/<time>`)."""
    parts = run.absolute().parts
    by_size = len(parts) > 4 and re.fullmatch(r"seed\d+", parts[-2]) is not None
    name = "-".join(parts[-4:] if by_size else parts[-2:])
    return _NOT_IN_ID.sub("_", name), parts[-3] if by_size else None


def _has_account() -> bool:
    netrc = Path("~/.netrc").expanduser()
    return bool(os.environ.get("WANDB_API_KEY")) or (
        netrc.is_file() and "api.wandb.ai" in netrc.read_text(errors="ignore")
    )
