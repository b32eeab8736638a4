"""The options of a training verb that decide on the run folder, the checkpoint and the YAML files.

They are read before LightningCLI, which gets all else: it needs to know the files, and no run's YAML may name a run.
"""

import argparse
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from depgen.annotation.annotator import annotator_of
from depgen.cli.settings import settings_of_run
from depgen.errors import UserError
from depgen.locations import below_runs, runs_root
from depgen.training.experiment import PAPER, Experiment, is_composed, newest_of
from depgen.training.runs import (
    BEST,
    CHECKPOINTS,
    RESUME,
    NoRunError,
    announced_run,
    experiment_name,
    find_run,
    named_checkpoint,
    newest_run,
)

logger = logging.getLogger(__name__)

NEWEST = "<newest>"
"""What `--resume` without a name stands for."""
_ANNOTATOR, _INDUCED = "--data.init_args.annotator", "depgen.evaluation.induced.InducedTrees"
_OTHER_ANNOTATORS = (_ANNOTATOR, f"{_ANNOTATOR}.class_path", f"{_ANNOTATOR}.init_args.run")
"""Options that would replace the annotator of `--parser`."""


def add_run_options(parser: argparse.ArgumentParser, verb: str) -> None:
    """Add the options that a `Request` is read from."""
    parser.add_argument("--size", type=str, help="of the experiment: paper (its own) or small (for a laptop)")
    if verb == "fit":
        parser.add_argument("--resume", nargs="?", const=NEWEST, type=str, help="continue this run, or the newest")
        parser.add_argument("--init_from", type=str, help="begin with the weights and the vocabulary of this run")
        parser.add_argument("--name", type=str, help="the run's folder below $DEPGEN_RUNS")
        parser.add_argument("--parser", type=str, help="learn from the trees of this run or trained parser")
        return
    parser.add_argument(
        "--run",
        type=str,
        help="a run folder (its best checkpoint), a checkpoint file or an experiment; by default the newest run",
    )
    parser.add_argument("--ckpt_path", type=str, help="a checkpoint file in a run folder")


@dataclass(frozen=True)
class Request:
    """What a command line asks of `depgen fit` or one of its siblings.

    Attributes:
        verb: of Lightning.
        configs: the YAML files.
        others: the arguments that are LightningCLI's.
    """

    verb: str
    configs: Sequence[str] = ()
    others: Sequence[str] = ()
    size: str | None = None
    resume: str | None = None
    init_from: str | None = None
    name: str | None = None
    parser: str | None = None
    run: str | None = None
    ckpt_path: str | None = None

    @classmethod
    def of(cls, verb: str, arguments: Sequence[str]) -> "Request":
        """Read a command line.

        Raises:
            UserError: options that contradict each other.
        """
        parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, prog=f"depgen {verb}")
        parser.add_argument("-c", "--config", dest="configs", action="append", default=[])
        add_run_options(parser, verb)
        options, others = parser.parse_known_args(list(arguments))
        request = cls(verb, others=others, **vars(options))
        runs = {name: getattr(request, name) for name in ("resume", "init_from", "run", "ckpt_path")}
        if "" in runs.values():
            raise UserError("Expected the name of a run, found an empty one. Is a variable of the shell not set?")
        if sum(name is not None for name in runs.values()) > 1:
            raise UserError("Give only one of --resume, --init_from, --run and --ckpt_path.")
        given = [argument.partition("=")[0] for argument in others]
        if request.parser is not None and (twice := [name for name in given if name in _OTHER_ANNOTATORS]):
            raise UserError(f"Give only one of --parser and {twice[0]}.")
        if request.size is not None and not request.configs:
            raise UserError(f"--size {request.size}: name the experiment that it is of by --config.")
        if request.init_from is not None and not request.configs:
            return replace(request, configs=[str(named_checkpoint(request.init_from)[0] / "config.yaml")])
        return request

    @property
    def resumes(self) -> bool:
        """Whether an existing run's folder is written to."""
        return self.resume is not None

    def find(self) -> tuple[Path | None, Path | None]:
        """The existing run and the checkpoint that are meant; None for what there is not.

        Raises:
            UserError: there is no such run, or it lacks the checkpoint.
        """
        if self.ckpt_path is not None:
            return named_checkpoint(self.ckpt_path)
        told = announced_run()  # in the meantime the newest run may have become another
        if self.verb == "fit":
            if self.resume is None:
                return None, None
            newest = self.resume == NEWEST
            run = told or (self._newest(holding=RESUME) if newest else find_run(self.resume, holding=RESUME))
            return run, run / CHECKPOINTS / RESUME
        asked = self.run if self.run is not None and Path(self.run).is_file() else told or self.run
        return named_checkpoint(asked or self._run_of_config() or self._newest())

    def _newest(self, *, holding: str = BEST) -> Path:
        if self._sized is not None:
            return newest_of(self._sized, holding=holding)
        return newest_run(runs_root() / (self._experiment or ""), holding=holding)

    def place(self, seed: int) -> str | None:
        """Where a new run lies below `$DEPGEN_RUNS`; None where neither a name nor a YAML file says it."""
        return self.name or (self._experiment if self._sized is None else self._sized.place(seed))

    @property
    def _experiment(self) -> str | None:
        """The YAML files' names without ending, joined by "+"; for a run's own YAML, that run's experiment."""
        run = self._run_of_config()
        return experiment_name(run) if run is not None else "+".join(Path(path).stem for path in self.configs) or None

    @property
    def _sized(self) -> Experiment | None:
        """The experiment of the only YAML file, if it has parts or sizes."""
        if len(self.configs) != 1 or self._run_of_config() is not None:
            return None
        file = Path(self.configs[0])
        return Experiment(file, self.size or PAPER) if self.size is not None or is_composed(file) else None

    def _run_of_config(self) -> Path | None:
        return Path(self.configs[0]).parent if self.configs and _is_of_a_run(Path(self.configs[0])) else None

    @property
    def run_configs(self) -> list[Path]:
        """The YAML files that are the configuration of a run."""
        return [path for path in map(Path, self.configs) if _is_of_a_run(path)]

    def arguments(self, run: Path | None = None) -> list[str]:
        """What LightningCLI is to read: the values of the YAML files, the trees of `--parser`, all other options.

        An experiment with parts or sizes is replaced by its values (`Experiment.settings`), at the size that is given
        for the first file. The `config.yaml` of a run is replaced by what the verb takes of it (`settings_of_run`).
        Other files are left to jsonargparse.

        Args:
            run: whose YAML holds where none is named.

        Raises:
            UserError: a YAML file can't be read, or the first one has no such size; there is no such parser.
        """
        files = list(map(Path, self.configs)) or ([] if run is None else [run / "config.yaml"])
        values = [self._values(file, self.size if number == 0 else None) for number, file in enumerate(files)]
        return [*(f"--config={value}" for value in values), *self._annotator(), *self.others]

    def _values(self, file: Path, size: str | None) -> str:
        """A YAML file as it is named, or its values in place of it."""
        if size is None and _is_of_a_run(file):
            settings, left_out = settings_of_run(file, self.verb)
            for name in left_out:
                logger.warning(
                    "%s: %s is left out, as it may write outside the run. To have it, give it on the command line.",
                    file,
                    name,
                )
        elif size is not None or (file.is_file() and is_composed(file)):
            settings = Experiment(file, size or PAPER).settings
        else:
            return str(file)
        return yaml.safe_dump(settings, sort_keys=False)

    def _annotator(self) -> list[str]:
        """The data's annotator, which is what a run has induced, or else a trained parser; paths are absolute."""
        if self.parser is None:
            return []
        try:
            run, checkpoint = named_checkpoint(self.parser)
        except NoRunError as no_run:
            try:
                class_path, argument, value = annotator_of(self.parser)
            except UserError as no_parser:
                raise UserError(f"{no_parser} {no_run}") from no_run
        else:
            weights = checkpoint if Path(self.parser).is_file() else run
            class_path, argument, value = _INDUCED, "run", below_runs(str(weights.absolute()))
        return [f"{_ANNOTATOR}={class_path}", f"{_ANNOTATOR}.init_args.{argument}={value}"]


def _is_of_a_run(config: Path) -> bool:
    return (config.parent / "run.json").is_file()
