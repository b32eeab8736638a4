"""`depgen fit`, `validate`, `test` and `predict`: the run is found, LightningCLI does the rest."""

import logging
from collections.abc import Sequence
from contextlib import ExitStack

from lightning.fabric.utilities.exceptions import MisconfigurationException

from depgen.cli.requests import Request
from depgen.cli.run_cli import INTERRUPTED, RunCLI
from depgen.errors import UserError
from depgen.locations import check_writable, runs_root
from depgen.models import import_all
from depgen.training.checkpoints import load_checkpoint
from depgen.training.class_paths import known_classes_alone
from depgen.training.logs import quiet_libraries
from depgen.training.runs import announce_run, forget_run, named_checkpoint, process_rank

logger = logging.getLogger(__name__)


def run_training(verb: str, arguments: Sequence[str]) -> str | None:
    """What to print after one of Lightning's verbs has been run on a run folder.

    Raises:
        UserError: a run, checkpoint or setting that can't be used.
        SystemExit: arguments that do not parse (2), help (0), a stop by Ctrl-C (130).
    """
    quiet_libraries()
    request = Request.of(verb, arguments)
    names = {argument.partition("=")[0] for argument in arguments}
    shows_help = not names.isdisjoint({"-h", "--help"}) or any(name.endswith(".help") for name in names)
    if shows_help or "--print_config" in names:  # no run is needed
        if shows_help:
            import_all()
        with known_classes_alone(*request.run_configs):
            RunCLI(request, request.arguments(), locks=ExitStack())
        return None
    source, checkpoint = request.find()
    initial = None if request.init_from is None else named_checkpoint(request.init_from)
    if process_rank() == 0 and verb == "fit":
        check_writable(runs_root())
    if process_rank() == 0 and source is not None:
        logger.info("Run: %s", source)
        announce_run(source)
    files = [] if source is None or checkpoint is None else [source / "config.yaml", checkpoint]
    try:
        arguments = request.arguments(source)
        if checkpoint is not None:
            load_checkpoint(checkpoint, mmap=True)  # a damaged file is named at once
        with ExitStack() as locks, known_classes_alone(*request.run_configs, *files):
            cli = RunCLI(request, arguments, source=source, checkpoint=checkpoint, initial=initial, locks=locks)
            return cli.output
    except MisconfigurationException as error:  # Lightning's own word for a mistake of the user's
        raise UserError(str(error)) from error
    except SystemExit as stop:
        # Lightning exits with 1 after Ctrl-C
        raise SystemExit(INTERRUPTED if isinstance(stop.__context__, KeyboardInterrupt) else stop.code) from None
    finally:
        forget_run()
