"""A run that ends by a mistake of the user's before anything came of it leaves no folder."""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from lightning.fabric.utilities.exceptions import MisconfigurationException

from depgen.errors import UserError
from depgen.training.runs import checkpoint_folder

logger = logging.getLogger(__name__)
Leave = Callable[[type[BaseException] | None, BaseException | None, TracebackType | None], None]


def remove_if_nothing_came(folder: Path) -> Leave:
    """What is to be called when the run is left: for `ExitStack.push`."""

    def leave(kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        mistaken = isinstance(error, UserError | MisconfigurationException | OSError)
        came = any(checkpoint_folder(folder).iterdir()) or (folder / "metrics.csv").is_file()
        if mistaken and not came:
            shutil.rmtree(folder)
            logger.info("Removed %s: nothing was trained.", folder)

    return leave
