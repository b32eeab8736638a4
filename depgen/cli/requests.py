"""The options of a training verb that decide on the run folder and the checkpoint."""

import argparse
import logging
from collections.abc import Sequence
from dataclasses import dataclass
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

_ANNOTATOR, _INDUCED = "--data.init_args.annotator", "depgen.evaluation.induced.InducedTrees"


@dataclass(frozen=True)
class Request:
    """The options of `depgen fit` and its siblings that name runs; everything else is LightningCLI's."""

    verb: str
    configs: tuple[str, ...] = ()
    resume: str | None = None
    run: str | None = None
    ckpt_path: str | None = None
    size: str | None = None
    name: str | None = None
    init_from: str | None = None

    @classmethod
    def of(cls, verb: str, arguments: Sequence[str]) -> "Request":
        """Look through a command line.

        Raises:
            UserError: options that contradict the verb or each other.
        """
        parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, prog=f"depgen {verb}")
        parser.add_argument("-c", "--config", action="append", default=[])
        parser.add_argument("--resume", nargs="?", const="")
        names = ("--init_from", "--run", "--name", "--ckpt_path", "--size")
        for name in names:
            parser.add_argument(name)
        given = [argument.partition("=")[0] for argument in arguments]
        for name in ("--resume", *names):
            if given.count(name) > 1:
                raise UserError(f"{name}: expected once, found several times: leave out all but one.")
        _refuse_other_verbs(verb, given)
        found, _ = parser.parse_known_args(list(arguments))
        if sum(each is not None for each in (found.resume, found.init_from, found.run, found.ckpt_path)) > 1:
            raise UserError("Give only one of --resume, --init_from, --run and --ckpt_path.")
        if found.size is not None and not found.config:
            raise UserError(f"--size {found.size}: name the experiment that it is of by --config.")
        if found.name is not None and (Path(found.name).is_absolute() or ".." in Path(found.name).parts):
            raise UserError(
                f"--name {found.name}: expected a name below the folder of runs ($DEPGEN_RUNS), found a path."
            )
        configs = tuple(found.config)
        if found.init_from is not None and not configs:
            configs = (str(named_checkpoint(found.init_from)[0] / "config.yaml"),)
        return cls(verb, configs, found.resume, found.run, found.ckpt_path, found.size, found.name, found.init_from)

    @property
    def experiment(self) -> str | None:
        """The YAML files' names without ending, joined by "+"; for a run's own YAML, that run's experiment."""
        run = self._run_of_config()
        if run is not None:
            return experiment_name(run)
        return "+".join(Path(each).stem for each in self.configs) or None

    def place(self, seed: int) -> str | None:
        """Where a new run lies below `$DEPGEN_RUNS`; None where neither a name nor a YAML file says it."""
        return self.name or (self.experiment if self._sized is None else self._sized.place(seed))

    @property
    def _sized(self) -> Experiment | None:
        """The experiment of the only YAML file, if it has parts or sizes."""
        if len(self.configs) != 1 or self._run_of_config() is not None:
            return None
        file = Path(self.configs[0])
        return Experiment(file, self.size or PAPER) if self.size is not None or is_composed(file) else None

    def _newest(self, *, holding: str = BEST) -> Path:
        if self._sized is not None:
            return newest_of(self._sized, holding=holding)
        return newest_run(runs_root() / (self.experiment or ""), holding=holding)

    @property
    def goes_on(self) -> bool:
        """Whether an existing run's folder is written to."""
        return self.verb == "fit" and self.resume is not None

    def find(self) -> tuple[Path | None, Path | None]:
        """The existing run and the checkpoint that are meant; None for what there is not.

        Raises:
            UserError: there is no such run, or it lacks the checkpoint.
        """
        if self.ckpt_path is not None:
            return named_checkpoint(self.ckpt_path)
        if self.verb == "fit" and self.resume is None:
            return None, None
        told = announced_run()  # in the meantime the newest run may have become another
        if self.verb == "fit":
            named = find_run(self.resume, holding=RESUME) if self.resume else None
            run = told or named or self._newest(holding=RESUME)
            return run, run / CHECKPOINTS / RESUME
        asked = self.run if self.run is not None and Path(self.run).is_file() else told or self.run
        return named_checkpoint(asked or self._run_of_config() or self._newest())

    @property
    def run_configs(self) -> list[Path]:
        """The YAML files that are the configuration of a run."""
        return [Path(each) for each in self.configs if (Path(each).parent / "run.json").is_file()]

    def _run_of_config(self) -> Path | None:
        folder = Path(self.configs[0]).parent if self.configs else None
        return folder if folder is not None and (folder / "run.json").is_file() else None


def _refuse_other_verbs(verb: str, given: Sequence[str]) -> None:
    """Raises UserError for an option that the verb would leave unused; the parser has those of all training verbs."""
    if verb == "fit":
        remedies = dict.fromkeys(("--run", "--ckpt_path"), "--resume RUN continues a training")
    else:
        remedies = dict.fromkeys(("--resume", "--init_from"), f"--run RUN names the run to {verb}")
    if verb != "test":
        remedies["--beam_size"] = "--model.init_args.beam_size is the system's"
    for name, remedy in remedies.items():
        if name in given:
            raise UserError(f"depgen {verb} has no option {name}: {remedy}.")


def _apart(option: str, arguments: Sequence[str], verb: str = "") -> tuple[list[str], str | None, list[str]]:
    """The YAML files of a command line, the value of an option, and all that is neither."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, prog=f"depgen {verb}")
    parser.add_argument("-c", "--config", action="append", default=[])
    parser.add_argument(option, dest="value", metavar=option[2:].upper())
    found, others = parser.parse_known_args(list(arguments))
    return found.config, found.value, others


def with_parser(verb: str, arguments: Sequence[str]) -> list[str]:
    """A command line with `--parser` spelt out: the data's annotator is what a run has induced, or a trained parser.

    It follows the YAML files and precedes all options of their annotator. A name of several runs means the newest one
    at this time.

    Raises:
        UserError: the verb reads the trees of the run that it is about; there is no such run or parser; no YAML, or
            another annotator.
    """
    configs, named, others = _apart("--parser", arguments, verb)
    if named is None:
        return list(arguments)
    if verb != "fit":
        raise UserError(f"--parser names the trees that depgen fit learns from; depgen {verb} reads by the run's own.")
    if not configs and "--resume" not in {each.split("=")[0] for each in others}:
        raise UserError("--parser needs --config: it replaces the annotator of that file.")
    for name in (_ANNOTATOR, f"{_ANNOTATOR}.class_path", f"{_ANNOTATOR}.init_args.run"):
        if name in {each.split("=")[0] for each in others}:
            raise UserError(f"Give only one of --parser and {name}.")
    class_path, argument, value = _annotator_of(named)
    files = [f"--config={path}" for path in configs]
    return [*files, f"{_ANNOTATOR}={class_path}", f"{_ANNOTATOR}.init_args.{argument}={value}", *others]


def _annotator_of(parser: str) -> tuple[str, str, str]:
    """Class, argument and value of the annotator that is a run, or else a parser; paths are absolute."""
    try:
        run, checkpoint = named_checkpoint(parser)
    except NoRunError as no_run:
        try:
            return annotator_of(parser)
        except UserError as no_parser:
            raise UserError(f"{no_parser} {no_run}") from no_run
    return _INDUCED, "run", below_runs(str((checkpoint if Path(parser).is_file() else run).absolute()))


def with_settings(verb: str, arguments: Sequence[str]) -> list[str]:
    """A command line in which YAML files are resolved, which come first, and `--size` is gone.

    An experiment with parts or sizes is replaced by its values (`Experiment.settings`), at the size that is given for
    the first file. The `config.yaml` of a run is replaced by what the verb takes of it (`settings_of_run`). Other files
    are left to jsonargparse.

    Raises:
        UserError: a YAML file can't be read, or the first one has no such size.
    """
    configs, size, others = _apart("--size", arguments)
    resolved = list[str]()
    for number, config in enumerate(configs):
        path = Path(config)
        if number == 0 and size is not None:
            settings = Experiment(path, size).settings
        elif (path.parent / "run.json").is_file():
            settings, left_out = settings_of_run(path, verb)
            for setting in left_out:
                logger.warning(
                    "%s: %s is left out, as it may write outside the run. To have it, give it on the command line.",
                    path,
                    setting,
                )
        elif path.is_file() and is_composed(path):  # is read by us: jsonargparse would take the last of two values
            settings = Experiment(path).settings
        else:
            resolved.append(f"--config={config}")
            continue
        resolved.append(f"--config={yaml.safe_dump(settings, sort_keys=False)}")
    return [*resolved, *others]
