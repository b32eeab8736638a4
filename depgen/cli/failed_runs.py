"""A run that ends by a mistake of the user's before anything came of it leaves no folder."""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from lightning.fabric.utilities.exceptions import MisconfigurationException

from depgen.errors import UserError
from depgen.locations import runs_root
from depgen.training.runs import CHECKPOINTS

logger = logging.getLogger(__name__)
Leave = Callable[[type[BaseException] | None, BaseException | None, TracebackType | None], None]


def remove_if_nothing_came(folder: Path) -> Leave:
    """What is to be called when the run is left: for `ExitStack.push`."""

    def leave(kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        mistaken = isinstance(error, UserError | MisconfigurationException | OSError)
        came = any((folder / CHECKPOINTS).iterdir()) or (folder / "metrics.csv").is_file()
        if mistaken and not came:
            shutil.rmtree(folder)
            _remove_if_empty(folder.absolute().parent)
            logger.info("Removed %s: nothing was trained.", folder)

    return leave


def _remove_if_empty(folder: Path) -> None:
    """Remove a folder of runs and those around it, up to the folder of all runs, as long as they hold nothing."""
    while folder.is_relative_to(runs_root().absolute()) and folder != runs_root().absolute():
        try:
            folder.rmdir()
        except OSError:  # it holds other runs, or a lock
            return
        folder = folder.parent
