"""`depgen fit`, `validate`, `test` and `predict`: the run is found, LightningCLI does the rest."""

import logging
from collections.abc import Sequence
from contextlib import ExitStack

from lightning.fabric.utilities.exceptions import MisconfigurationException

from depgen.cli.requests import Request, with_parser, with_settings
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
    arguments = with_parser(verb, arguments)
    request = Request.of(verb, arguments)
    if _only_looks(arguments):
        if "--print_config" not in arguments:
            import_all()
        with known_classes_alone(*request.run_configs):
            RunCLI(Request(verb), with_settings(verb, arguments), source=None, checkpoint=None, locks=ExitStack())
        return None
    source, checkpoint = request.find()
    first = process_rank() == 0
    if first and verb == "fit":
        check_writable(runs_root())
    if first and source is not None:
        logger.info("Run: %s", source)
        announce_run(source)
    initial = None if request.init_from is None else named_checkpoint(request.init_from)
    configured = source or (None if initial is None else initial[0])
    given = {argument.partition("=")[0] for argument in arguments} & {"-c", "--config"}
    config = ["--config", str(configured / "config.yaml")] if configured is not None and not given else []
    files = [] if source is None or checkpoint is None else [source / "config.yaml", checkpoint]
    try:
        arguments = with_settings(verb, [*config, *arguments])
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


def _only_looks(arguments: Sequence[str]) -> bool:
    """Whether help or settings are to be printed, for which no run is needed."""
    names = {each.split("=")[0] for each in arguments}
    return bool(names & {"-h", "--help", "--print_config"}) or any(name.endswith(".help") for name in names)
