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

from lightning.pytorch.loggers import WandbLogger

from depgen.training.runs import place_of_run, read_record

logger = logging.getLogger(__name__)

_LONGEST_ID, _LONGEST_TAG = 128, 64
"""What wandb takes, in characters."""
_NOTED = ("experiment", "seed", "commit", "data", "tokens_per_epoch", "trees", "parameters", "optimizer")


def noted(run: Path) -> dict[str, Any]:
    """What the configuration in W&B has of a run under `run`: its size, and facts of its `run.json` as far as known."""
    record = read_record(run) if (run / "run.json").is_file() else {}
    _, *size_and_seed, _ = place_of_run(run)
    size = {"size": size_and_seed[0]} if size_and_seed else {}
    return {**{name: record[name] for name in _NOTED if name in record}, **size}


def weights_and_biases(
    run: Path, mode: str, *, settings: Mapping[str, Any] | None = None, tags: Iterable[str] = ()
) -> WandbLogger:
    """A quiet W&B logger for a run folder; the same W&B run is continued after a resume.

    Args:
        run: the run folder; offline files are written into it.
        mode: "offline", or "online", where `WANDB_MODE` may still say otherwise.
        settings: the resolved configuration of the run.
        tags: such as the system, the corpus and the trees.
    """
    environ, facts = os.environ, noted(run)
    environ.setdefault("WANDB_SILENT", "true")
    environ.setdefault("WANDB_CONSOLE", "off")
    place = place_of_run(run)
    name = re.sub(r"[^\w.=,@+-]", "_", "-".join(place))
    identity, folder = environ.get("WANDB_RUN_ID", name[-_LONGEST_ID:]), environ.get("WANDB_DIR", str(run))
    if "offline" in (mode, environ.get("WANDB_MODE")):
        logger.info("W&B logs offline. Send it later: wandb sync %s/wandb/offline-run-*-%s", folder, identity)
    all_tags = [*environ.get("WANDB_TAGS", "").split(","), *tags, facts.get("size", "")]
    return WandbLogger(
        name=environ.get("WANDB_NAME", name),
        id=identity,
        save_dir=folder,
        project=environ.get("WANDB_PROJECT", "depgen"),
        offline=mode == "offline",
        group=environ.get("WANDB_RUN_GROUP", facts.get("experiment", place[0])),
        tags=list(dict.fromkeys(tag.strip()[:_LONGEST_TAG] for tag in all_tags if tag.strip())),
        config={**(settings or {}), "run": facts},
    )
