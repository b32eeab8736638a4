"""The numbers of a validation or a test, kept in the run folder if they are those of its best checkpoint."""

import json
import logging
from collections.abc import Mapping, Sized
from pathlib import Path

import lightning as L

from depgen.locations import file_sha256, write_atomically
from depgen.training.experiment_runs import DEV_NUMBERS, TEST_ITEMS, TEST_NUMBERS
from depgen.training.runs import BEST, checkpoint_folder
from depgen.training.scores import scored_items, takes_everything

logger = logging.getLogger(__name__)

NUMBERS = {"validate": DEV_NUMBERS, "test": TEST_NUMBERS}
"""The files that verbs keep their numbers in."""


def is_best(run: Path | None, checkpoint: Path | None) -> bool:
    """Whether a checkpoint holds the weights that the run is judged by."""
    if run is None or checkpoint is None:
        return False
    return checkpoint.absolute() == checkpoint_folder(run).absolute() / BEST


class KeptNumbers:
    """Keeps the numbers of one evaluation; to be made before it, so that a checkpoint replaced meanwhile is noticed.

    Args:
        verb: `validate` or `test`.
        run: the run that is evaluated; None: a new system.
        checkpoint: the file that its weights are from.
        other_data: whether the data are others than the run's.
        other_beam: whether bounds are summed over a beam of another size than the run's.
    """

    def __init__(
        self, verb: str, run: Path | None, checkpoint: Path | None, *, other_data: bool, other_beam: bool = False
    ) -> None:
        self.verb, self.run, self.checkpoint = verb, run, checkpoint
        self.other_data, self.other_beam = other_data, other_beam
        self._digest_before = self._digest()

    def keep(self, metrics: Mapping[str, float], trainer: L.Trainer) -> None:
        """Write the numbers into the run folder when they are those of its best checkpoint on a whole split."""
        if self.other_data:
            logger.warning("Printed only: %s keeps numbers on the data that the run belongs to.", NUMBERS[self.verb])
            return
        if self.other_beam:
            logger.warning("Printed only: %s keeps numbers of the run's own beam_size.", NUMBERS[self.verb])
            return
        if not is_best(self.run, self.checkpoint) or not takes_everything(trainer, self.verb):
            logger.info("Printed only: %s keeps numbers of %s on a whole split.", NUMBERS[self.verb], BEST)
            return
        assert self.run is not None
        digest = self._digest()
        if digest != self._digest_before:
            logger.warning("Printed only: %s was replaced while it was evaluated. Do it again.", self.checkpoint)
            return
        content = {
            "checkpoint": str(self.checkpoint),
            "checkpoint_sha256": digest,
            "items": self._items_evaluated(self.run / TEST_ITEMS, trainer),
            "metrics": metrics,
        }
        write_atomically(self.run / NUMBERS[self.verb], json.dumps(content, indent=2) + "\n")

    def _digest(self) -> str | None:
        """What tells the checkpoint's content from any other."""
        return None if self.checkpoint is None else file_sha256(self.checkpoint)

    def _items_evaluated(self, scores: Path, trainer: L.Trainer) -> int | None:
        """The number of items in the split; None where neither the model nor the data says it."""
        if self.verb == "test" and scores.is_file():
            return scored_items(scores)
        loaders = trainer.test_dataloaders if self.verb == "test" else trainer.val_dataloaders
        data = getattr(loaders, "dataset", None)
        return len(data) if isinstance(data, Sized) else None
