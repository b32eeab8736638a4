"""The trained run that an annotation source takes its structures from."""

from functools import cached_property
from pathlib import Path
from typing import Any

from depgen.errors import UserError
from depgen.evaluation.trained import Trained, load_trained
from depgen.locations import below_runs
from depgen.training.runs import named_checkpoint
from depgen.trees.text_form import FormName


class AnnotatingRun:
    """A run that annotates; sent to another process, it is loaded there again.

    Args:
        run: a run folder (its best checkpoint), a checkpoint file, a folder of runs or an experiment (the newest).
        device: cpu, cuda, …; None: a GPU where there is one.
        form: what words are brought into; None: the form of the run's corpus.
    """

    remedy = ""
    """Said to a user whose run is missing."""

    def __init__(self, run: str, device: str | None, form: FormName | None) -> None:
        self.run, self.device, self.form = run, device, form

    def __getstate__(self) -> dict[str, Any]:
        assert self.source  # the newest run may be another one later
        return {name: value for name, value in self.__dict__.items() if name != "trained"}

    @cached_property
    def source(self) -> tuple[Path, Path]:
        """The run folder and the checkpoint.

        Raises:
            UserError: there is no such run.
        """
        try:
            return named_checkpoint(self.run)
        except UserError as error:
            raise UserError(f"{error}{self.remedy}") from error

    @cached_property
    def trained(self) -> Trained:
        """The system, in evaluation mode."""
        return load_trained(self.source[1], device=self.device, form=self.form)


def called(run: str) -> str:
    """What results call a run: its path below `$DEPGEN_RUNS`, elsewhere its name without folders of the machine."""
    found = below_runs(run)
    return Path(found).name if Path(found).is_absolute() else found
