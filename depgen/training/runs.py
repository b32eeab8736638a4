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

BEST = "best.ckpt"
"""The best checkpoint of a run's last phase."""
WEIGHTS = "model.safetensors"
"""The weights of a run that `depgen push` has written as a folder, in that folder itself."""
RESUME = "resume.ckpt"
"""The latest state of a run, from which training continues."""
RUN_VARIABLE = "DEPGEN_RUN"
"""Tells the other processes of a run which folder the first one has made."""


class NoRunError(UserError):
    """Nothing that a name could mean is a run."""


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


def checkpoint_folder(run: Path) -> Path:
    """Where a run's checkpoints lie."""
    return run / "checkpoints"


def best_checkpoint(run: Path) -> Path:
    """The best checkpoint of a run's last phase; the weights of a folder that `depgen push` has written.

    Raises:
        UserError: there is none.
    """
    path = checkpoint_folder(run) / BEST
    if not path.exists() and (run / WEIGHTS).is_file():
        return run / WEIGHTS
    if not path.exists():
        raise UserError(
            f"The run {run} holds no best checkpoint of its last phase ({path} does not exist). "
            f"Train it further: depgen fit --resume {run}. If it has diverged, that says so: begin a new run then."
        )
    return path


def resume_checkpoint(run: Path) -> Path:
    """The state to resume from.

    Raises:
        UserError: there is none.
    """
    path = checkpoint_folder(run) / RESUME
    if not path.exists():
        raise UserError(
            f"The run {run} has nothing to resume from ({path} does not exist). Start it afresh, without --resume."
        )
    return path


def create_run(place: str) -> Path:
    """A new run folder at a place below `$DEPGEN_RUNS`, the same for all processes of a run.

    It is named by the time. Processes that SLURM or torchrun starts don't know the first one's time, but all know
    their job, by which the folder is named there.

    Raises:
        UserError: the folder of a job is there already, or another process than the first knows neither folder nor job.
    """
    folder, job, first = runs_root() / place, _job(), process_rank() == 0
    if job is not None:
        run = folder / job
        if first and run.exists():
            raise UserError(f"{run} is there already: give the job another name (torchrun --rdzv-id), or use --name.")
    elif first:
        stamp = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
        names = (stamp if number == 1 else f"{stamp}_{number}" for number in count(1))
        run = next(folder / name for name in names if _is_made(folder / name))
    elif RUN_VARIABLE in os.environ:
        return Path(os.environ[RUN_VARIABLE])
    else:
        raise UserError(f"Process {process_rank()} does not know its run folder: set {RUN_VARIABLE} for all.")
    if first:
        checkpoint_folder(run).mkdir(parents=True)
        announce_run(run)
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


def all_runs(experiment: str | None = None, *, root: Path | None = None) -> list[Path]:
    """Run folders at any depth, the latest start first; one with a damaged `run.json` is named in the log alone.

    Args:
        experiment: only its runs; None = all.
        root: where they lie, by default `$DEPGEN_RUNS`.
    """
    started: dict[Path, str] = {}
    for folder, below, files in os.walk(root or runs_root()):
        if "run.json" not in files:
            continue
        below.clear()
        run = Path(folder)
        if experiment is None or experiment_name(run) == experiment:
            try:
                started[run] = str(read_record(run).get("started"))
            except UserError as error:
                logger.warning("Passing over %s: %s", run, error)
    return sorted(started, key=lambda run: (started[run], run.name), reverse=True)


def experiment_name(run: Path) -> str:
    """The experiment that a run is of, and its options where it has any, by the folders that it lies in.

    >>> [experiment_name(Path(run)) for run in ("runs/a/2026-01-01", "runs/a--size-4-ab12cd/small/seed1/2026-01-01")]
    ['a', 'a--size-4-ab12cd']
    """
    return place_of_run(run)[0]


def place_of_run(run: Path) -> tuple[str, ...]:
    """A run's folders from that of its experiment on.

    >>> place_of_run(Path("runs/a/2026-01-01")), place_of_run(Path("runs/a/small/seed1/2026-01-01"))
    (('a', '2026-01-01'), ('a', 'small', 'seed1', '2026-01-01'))
    """
    parts = run.absolute().parts
    return parts[-4:] if len(parts) > 4 and re.fullmatch(r"seed[0-9]+", parts[-2]) else parts[-2:]


def newest_run(experiment: str | None = None, *, holding: str = BEST, root: Path | None = None) -> Path:
    """The run with the latest start among those that hold a checkpoint; those passed over are named in the log.

    Args:
        experiment: only its runs; None = all.
        holding: the file of the checkpoint that it must hold.
        root: where runs lie, by default `$DEPGEN_RUNS`.

    Raises:
        UserError: there is none.
    """
    for run in all_runs(experiment, root=root):
        if (checkpoint_folder(run) / holding).is_file():
            return run
        logger.info("Passing over %s: it holds no %s.", run, holding)
    which = f"run of {experiment}" if experiment else "run"
    raise UserError(
        f"No {which} under {(root or runs_root()).absolute()} holds a {holding}. "
        "Train one (depgen fit --config ...), or set DEPGEN_RUNS."
    )


def has_size(run: Path) -> bool:
    """Whether a run lies in the folder of a size and a seed, as those of tables do."""
    return len(place_of_run(run)) > 2  # the experiment and the time


def find_run(reference: str | Path, *, holding: str = BEST) -> Path:
    """The run folder meant by a path, by an experiment's name or by a folder of runs: of several, that of `newest_run`.

    Paths are those from here and those under `$DEPGEN_RUNS` (`<experiment>/<timestamp>`,
    `<experiment>/small/seed1`). The newest of several runs must hold the checkpoint `holding`.

    Raises:
        NoRunError: there is no such run.
        UserError: what it names lacks `run.json`, or no run of that name holds the checkpoint.
    """
    folders = (Path(reference), runs_root() / reference)
    for folder in folders:
        if (folder / "run.json").is_file():
            return folder
    if all_runs(str(reference)):
        return newest_run(str(reference), holding=holding)
    for folder in folders:
        if all_runs(root=folder):
            return newest_run(holding=holding, root=folder)
    for folder in folders:
        if (folder / "config.yaml").is_file():
            raise UserError(f"{folder} has no run.json, which says what a run is: copy the run again, whole.")
    meant = did_you_mean(str(reference), dict.fromkeys(experiment_name(run) for run in all_runs()))
    raise NoRunError(
        f"No run at {' nor at '.join(str(folder.absolute()) for folder in folders)}.{meant} Name a run folder or an "
        "experiment that has been trained (depgen fit --config ...); DEPGEN_RUNS says where runs lie."
    )


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


def run_holding(checkpoint: Path) -> Path:
    """The run folder that a checkpoint lies in, with the settings and the vocabulary that it needs.

    Raises:
        UserError: there is no such file, or it lies elsewhere.
    """
    if not checkpoint.is_file():
        raise UserError(f"No checkpoint at {checkpoint.absolute()}. A run folder names its best one.")
    run = run_of_checkpoint(checkpoint)
    if run is None:
        raise UserError(
            f"The checkpoint {checkpoint} lies in no run folder, so that its settings and vocabulary are not known. "
            "Name a run folder, or the file within it (RUN/checkpoints/best.ckpt)."
        )
    return run


def named_checkpoint(reference: str | Path) -> tuple[Path, Path]:
    """A run folder and a checkpoint in it: a checkpoint file itself, or the best one of what `find_run` finds.

    Raises:
        UserError: there is no such run or checkpoint, or it lies in no run folder.
    """
    path = Path(reference)
    if path.is_file():
        return run_holding(path), path
    run = find_run(path)
    return run, best_checkpoint(run)


def read_record(run: Path) -> dict[str, Any]:
    """The content of a run's `run.json`.

    Raises:
        UserError: it is missing or damaged.
    """
    return json_object(run / "run.json", remedy=f"Is {run} a run folder? If so, copy it again.")


def update_record(run: Path, entries: Mapping[str, Any]) -> None:
    """Add to a run's `run.json`, or begin it."""
    content = read_record(run) if (run / "run.json").exists() else {}
    write_atomically(run / "run.json", json.dumps({**content, **entries}, indent=2) + "\n")


def write_settings(run: Path, settings: Mapping[str, Any]) -> None:
    """Write a run's `config.yaml`."""
    write_atomically(run / "config.yaml", yaml.safe_dump(dict(settings), sort_keys=False))


def lengthen(run: Path, max_epochs: int) -> None:
    """Let a run, finished or not, train for more epochs."""
    settings = read_settings(run / "config.yaml")
    settings["trainer"]["max_epochs"] = max_epochs
    write_settings(run, settings)
    update_record(run, {"finished": None})


def is_finished(run: Path) -> bool:
    """Whether a run's training has come to its end."""
    return bool(read_record(run).get("finished"))
