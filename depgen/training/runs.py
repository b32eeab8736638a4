"""Run folders: `runs/<experiment>/<time>`, or `runs/<experiment>/<size>/seed<k>/<time>`; described in `run.json`.

A run folder holds `config.yaml`, `run.json`, `vocabulary.json`, `metrics.csv`, `lock` and `checkpoints/`.
"""

import json
import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock, Timeout

from depgen.errors import UserError, did_you_mean
from depgen.hub import model_folder
from depgen.locations import json_object, runs_root, write_atomically
from depgen.yaml_files import read_settings

logger = logging.getLogger(__name__)

CHECKPOINTS = "checkpoints"
BEST = "best.ckpt"
"""The best checkpoint of a run's last phase."""
RESUME = "resume.ckpt"
"""The latest state of a run, from which training continues."""
WEIGHTS = "model.safetensors"
"""The weights of a run that `depgen push` has written as a folder, in that folder itself."""
RUN_VARIABLE = "DEPGEN_RUN"
"""Tells the other processes of a run which folder the first one has made."""


class NoRunError(UserError):
    """Nothing that a name could mean is a run."""


# -- the processes of a run -------------------------------------------------------------------------------------------


def process_rank() -> int:
    """This process's number within a distributed run; 0 is the first, or the only one.

    The variables are read in Lightning's order: within an interactive SLURM shell, those of a launched process hold.
    """
    for variable in ("RANK", "LOCAL_RANK", "SLURM_PROCID"):
        if os.environ.get(variable, "").isdigit():
            return int(os.environ[variable])
    return 0


@contextmanager
def locked_run(run: Path) -> Iterator[None]:
    """Holds the lock of a run folder, which the kernel gives back when the process ends.

    Raises:
        UserError: another process trains the run.
    """
    try:
        with FileLock(run / "lock", timeout=0):
            yield
    except Timeout as error:
        raise UserError(f"The run {run} is being trained by another process. Wait for it, or stop it.") from error


def create_run(place: str) -> Path:
    """A new run folder at a place below `$DEPGEN_RUNS`, the same for all processes of a run.

    It is named by the time, which the first process tells those that it starts (`announce_run`). Processes that SLURM
    or torchrun starts don't know the first one's time, but all know their job, by which the folder is named there.
    """
    folder, job, first = runs_root() / place, _job(), process_rank() == 0
    if not first:
        return Path(os.environ[RUN_VARIABLE]) if job is None else folder / job
    if job is None:
        stamp = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
        names = (stamp if number == 1 else f"{stamp}_{number}" for number in count(1))
        run = next(folder / name for name in names if _is_made(folder / name))
    else:
        run = folder / job
        run.mkdir(parents=True)
    (run / CHECKPOINTS).mkdir()
    return run


def _is_made(run: Path) -> bool:
    """Whether this call made a folder: several runs may start in the same second."""
    try:
        run.mkdir(parents=True)
    except FileExistsError:
        return False
    return True


def announce_run(run: Path) -> None:
    """Announce the folder to the processes of this run that are started from here."""
    os.environ[RUN_VARIABLE] = str(run.absolute())


def forget_run() -> None:
    """Let the next run of this process have its own folder."""
    os.environ.pop(RUN_VARIABLE, None)


def announced_run() -> Path | None:
    """The run that the first process works on, if this is another process of it."""
    announced = os.environ.get(RUN_VARIABLE)
    return Path(announced) if announced is not None and process_rank() > 0 else None


def _job() -> str | None:
    """A name that all processes of a job started by SLURM or torchrun know, and no other job has."""
    environ = os.environ
    if "SLURM_JOB_ID" in environ and int(environ.get("SLURM_NTASKS", "1")) > 1:
        return f"slurm-{environ['SLURM_JOB_ID']}-{environ.get('SLURM_STEP_ID', '0')}"
    if "TORCHELASTIC_RUN_ID" in environ:
        parts = [environ.get(f"TORCHELASTIC_{name}", "") for name in ("RUN_ID", "RESTART_COUNT")]
        if environ.get("GROUP_WORLD_SIZE", "1") == "1":  # on one machine: torchrun's own process
            parts.append(str(os.getppid()))
        return "torchrun-" + "-".join(parts).replace("/", "_")
    return None


# -- from a name to a run ---------------------------------------------------------------------------------------------


def all_runs(folder: Path | None = None) -> list[Path]:
    """The run folders in a folder, by default `$DEPGEN_RUNS`, at any depth, or it itself; the latest start first.

    One with a damaged `run.json` is named in the log alone.
    """
    started: dict[Path, str] = {}
    for path, below, files in os.walk(folder or runs_root()):
        if "run.json" in files:
            below.clear()
            try:
                started[Path(path)] = str(read_record(Path(path)).get("started"))
            except UserError as error:
                logger.warning("Passing over %s: %s", path, error)
    return sorted(started, key=lambda run: (started[run], run.name), reverse=True)


def newest_run(folder: Path | None = None, *, holding: str = BEST) -> Path:
    """The first of `all_runs` that holds a checkpoint; those passed over are named in the log.

    Raises:
        UserError: there is none.
    """
    for run in all_runs(folder):
        if (run / CHECKPOINTS / holding).is_file():
            return run
        logger.info("Passing over %s: it holds no %s.", run, holding)
    raise UserError(
        f"No run under {(folder or runs_root()).absolute()} holds a {holding}. "
        "Train one (depgen fit --config ...), or set DEPGEN_RUNS."
    )


def find_run(name: str | Path, *, holding: str = BEST) -> Path:
    """The run that a path means, from here or below `$DEPGEN_RUNS`: a run folder, or the newest run in a folder.

    Thus an experiment's name means its newest run, `<experiment>/small/seed1` that of a size and seed. The newest of
    several runs must hold the checkpoint `holding`.

    Raises:
        NoRunError: there is no such run.
        UserError: no run in the folder holds the checkpoint.
    """
    folders = (Path(name), runs_root() / name)
    for folder in folders:
        if (folder / "run.json").is_file():
            return folder
    for folder in folders:
        if all_runs(folder):
            return newest_run(folder, holding=holding)
    meant = did_you_mean(str(name), dict.fromkeys(experiment_name(run) for run in all_runs()))
    places = dict.fromkeys(str(folder.absolute()) for folder in folders)
    raise NoRunError(
        f"No run at {' nor at '.join(places)}.{meant} Name a run folder, which "
        "holds a run.json, or an experiment that has been trained (depgen fit --config ...); DEPGEN_RUNS says where "
        "runs lie."
    )


def named_checkpoint(name: str | Path) -> tuple[Path, Path]:
    """A run folder and a checkpoint in it: a checkpoint file itself, or the best one of what `find_run` finds.

    Raises:
        UserError: there is no such run or checkpoint, or it lies in no run folder.
    """
    path = Path(name)
    if not path.is_file():
        run = find_run(path)
        return run, best_checkpoint(run)
    holding = run_of_checkpoint(path)
    if holding is None:
        raise UserError(
            f"The checkpoint {path} lies in no run folder, so that its settings and vocabulary are not known. "
            "Name a run folder, or the file within it (RUN/checkpoints/best.ckpt)."
        )
    return holding, path


def run_of_name(name: str) -> Path | None:
    """The run that weights are named by, as `find_run` finds it; None for a folder of weights, or where there is none.

    Pretrained models that `depgen.hub.model_folder` finds come before runs of the same name.

    Raises:
        UserError: it names a run that can't be used.
    """
    path, folder = Path(name).expanduser(), model_folder(name)
    if path.is_file() or (folder is not None and (folder / "config.json").is_file()):
        return None
    try:
        return find_run(path)
    except NoRunError:
        return None


def run_of_checkpoint(checkpoint: Path) -> Path | None:
    """The run folder that a checkpoint lies in; None when it lies elsewhere."""
    folder = checkpoint.absolute().parent.parent
    return folder if (folder / "run.json").is_file() else None


# -- what a run folder holds ------------------------------------------------------------------------------------------


def place_of_run(run: Path) -> tuple[str, ...]:
    """A run's folders from that of its experiment on.

    >>> place_of_run(Path("runs/a/2026-01-01")), place_of_run(Path("runs/a/small/seed1/2026-01-01"))
    (('a', '2026-01-01'), ('a', 'small', 'seed1', '2026-01-01'))
    """
    parts = run.absolute().parts
    return parts[-4:] if len(parts) > 4 and re.fullmatch(r"seed[0-9]+", parts[-2]) else parts[-2:]


def experiment_name(run: Path) -> str:
    """The experiment that a run is of, with its options where it has any, as in `a--size-4-ab12cd`."""
    return place_of_run(run)[0]


def best_checkpoint(run: Path) -> Path:
    """The best checkpoint of a run's last phase; the weights of a folder that `depgen push` has written.

    Raises:
        UserError: there is none.
    """
    path = run / CHECKPOINTS / BEST
    if path.exists():
        return path
    if (run / WEIGHTS).is_file():
        return run / WEIGHTS
    raise UserError(
        f"The run {run} holds no best checkpoint of its last phase ({path} does not exist). "
        f"Train it further: depgen fit --resume {run}. If it has diverged, that says so: begin a new run then."
    )


def read_record(run: Path) -> dict[str, Any]:
    """The content of a run's `run.json`.

    Raises:
        UserError: it is missing or damaged.
    """
    from depgen.training.files import RunFile, check  # pydantic, which help has no need of

    path, remedy = run / "run.json", f"Is {run} a run folder? If so, copy it again."
    record = json_object(path, remedy=remedy)
    check(RunFile, record, str(path), remedy=remedy)
    return record


def update_record(run: Path, entries: Mapping[str, Any]) -> None:
    """Add to a run's `run.json`, or begin it."""
    content = read_record(run) if (run / "run.json").exists() else {}
    write_atomically(run / "run.json", json.dumps({**content, **entries}, indent=2) + "\n")


def is_finished(run: Path) -> bool:
    """Whether a run's training has come to its end."""
    return bool(read_record(run).get("finished"))


def write_settings(run: Path, settings: Mapping[str, Any]) -> None:
    """Write a run's `config.yaml`."""
    write_atomically(run / "config.yaml", yaml.safe_dump(dict(settings), sort_keys=False))


def lengthen(run: Path, max_epochs: int) -> None:
    """Let a run, finished or not, train for more epochs."""
    settings = read_settings(run / "config.yaml")
    settings["trainer"]["max_epochs"] = max_epochs
    write_settings(run, settings)
    update_record(run, {"finished": None})
