"""A measure of a system while it is trained, for the run's curve and for W&B."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
from lightning.pytorch.utilities.seed import isolate_rng

from depgen.errors import check_at_least
from depgen.evaluation.measure import measure_function, options_class, takes_system
from depgen.evaluation.reading import Reading
from depgen.evaluation.system import System
from depgen.yaml_files import made_as


class Evaluate(L.Callback):
    """Logs the numbers of a measure's last row as `MEASURE/COLUMN` after validations of `fit`.

    The main process measures. The trained weights are the same as without it: the system is in evaluation mode after a
    validation, and the state of the random generators is put back.

    Args:
        measure: its name, as in `depgen evaluate`.
        options: of the measure, as in its dataclass.
        every_n_epochs: how often.
    """

    def __init__(self, measure: str, options: Mapping[str, Any] | None = None, every_n_epochs: int = 1) -> None:
        check_at_least(1, every_n_epochs=every_n_epochs)
        self.measure, self.every_n_epochs = measure, every_n_epochs
        self.function = measure_function(measure)
        self.options = made_as(options_class(self.function), options or {})

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Measure, and log."""
        due = trainer.state.fn == "fit" and not trainer.sanity_checking
        if not due or not trainer.is_global_zero or (trainer.current_epoch + 1) % self.every_n_epochs:
            return
        data: Any = trainer.datamodule  # type: ignore[attr-defined]
        run = Path(trainer.default_root_dir)
        with isolate_rng():
            if takes_system(self.function):
                system = System(pl_module, data.vocabulary, run, run / "in training", Reading(**data.reading))  # type: ignore[arg-type]
                measured = self.function(system, self.options)
            else:
                measured = self.function(self.options)
        row = measured.rows.iloc[-1].to_dict()
        numbers = {name: float(value) for name, value in row.items() if isinstance(value, int | float | np.number)}
        for logger in trainer.loggers:
            logger.log_metrics(
                {f"{self.measure}/{name}": value for name, value in numbers.items()}, trainer.global_step
            )
