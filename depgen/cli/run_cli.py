"""`depgen fit`, `validate`, `test` and `predict`: the run is found, LightningCLI does the rest.

It works on run folders: with our callbacks, writer and loggers, the run's vocabulary, and its settings kept.
"""

import copy
import logging
import math
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Literal

import lightning as L
import torch
import yaml
from jsonargparse.typing import PositiveInt
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.callbacks import LambdaCallback, RichProgressBar
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI

from depgen.cli.requests import Request, add_run_options
from depgen.cli.settings import FREE, SECTIONS, as_list, differing, held_settings, longer, refuse
from depgen.cli.verb_functions import Parser
from depgen.cli.verbs import VERBS, as_sentence
from depgen.data.module import CorpusData
from depgen.data.record import data_tags, other_data, record_data
from depgen.data.vocabulary import VOCABULARY_FILE
from depgen.errors import UserError, checked_seed, reason_of, user_errors_unwrapped
from depgen.evaluation.callback import PredictionWriter
from depgen.evaluation.unit_scores import beam_of
from depgen.locations import below_runs, check_writable, file_sha256, runs_root
from depgen.models import import_all
from depgen.training.callbacks import (
    InitialWeights,
    ItemScoreWriter,
    LossGuard,
    ProgressLines,
    RunRecord,
    takes_everything,
)
from depgen.training.checkpoints import CheckpointWriter, checked_vocabulary_size, load_checkpoint
from depgen.training.class_paths import known_classes_alone
from depgen.training.evaluated import write_numbers
from depgen.training.logs import CurveLogger, quiet_libraries
from depgen.training.provenance import describe_run
from depgen.training.resume import Resume
from depgen.training.runs import (
    BEST,
    CHECKPOINTS,
    RESUME,
    announce_run,
    create_run,
    experiment_name,
    forget_run,
    is_finished,
    lengthen,
    locked_run,
    named_checkpoint,
    process_rank,
    update_record,
    write_settings,
)
from depgen.training.weights_and_biases import weights_and_biases

logger = logging.getLogger(__name__)

INTERRUPTED = 130
"""The exit code after Ctrl-C."""
TRAINER_DEFAULTS = {
    "use_distributed_sampler": False,  # the data module's batches are already shared between ranks
    "reload_dataloaders_every_n_epochs": 1,  # each epoch has its own number of batches
    "enable_model_summary": False,
    "logger": False,
}


def run_training(verb: str, arguments: Sequence[str]) -> str | None:
    """What to print after one of Lightning's verbs has been run on a run folder.

    Raises:
        UserError: a run, checkpoint or setting that can't be used.
        SystemExit: arguments that do not parse (2), help (0), a stop by Ctrl-C (130).
    """
    quiet_libraries()
    if "" not in sys.path:
        sys.path.append("")  # a user's own YAML may name classes of the working folder; no run's may
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


class TrainingParser(Parser, LightningArgumentParser):
    """Lightning's parser with our complaints."""

    def add_subclass_arguments(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        """Add a class's arguments but `collate`, a function that only Python code gives to a data module."""
        kwargs["skip"] = {"collate", *(kwargs.get("skip") or ())}
        return super().add_subclass_arguments(*args, **kwargs)


class RunCLI(LightningCLI):
    """One training verb on one run.

    Attributes:
        source: the existing run that settings, vocabulary and weights come from; None for a fresh one.
        folder: the run folder that is written to; None where nothing is trained.
        output: what to print.
    """

    config: Any
    datamodule: L.LightningDataModule
    trainer: L.Trainer

    def __init__(
        self,
        request: Request,
        arguments: Sequence[str],
        *,
        source: Path | None = None,
        checkpoint: Path | None = None,
        initial: tuple[Path, Path] | None = None,
        locks: ExitStack,
    ) -> None:
        self.request, self.source, self.checkpoint = request, source, checkpoint
        self.folder = source if request.resumes else None
        self.locks, self.initial = locks, initial
        self._resume: Resume | None = None
        self.output = ""
        self._other_data = False
        self._longer: int | None = None
        self._writer: PredictionWriter | None = None
        super().__init__(
            L.LightningModule,
            L.LightningDataModule,
            subclass_mode_model=True,
            subclass_mode_data=True,
            auto_configure_optimizers=False,
            save_config_callback=None,
            seed_everything_default=42,
            trainer_defaults=TRAINER_DEFAULTS,
            parser_class=TrainingParser,
            parser_kwargs={"prog": f"depgen {request.verb}"},
            args=list(arguments),
            run=False,
        )
        getattr(self, request.verb)()

    # -- options and settings -------------------------------------------------------------------------------------

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Our own options, and the vocabulary's size from the data to the model.

        Lightning's own way, a parser of subcommands with one for each verb, would read every configuration twice.
        """
        if not {"-h", "--help"}.isdisjoint(self.request.others):
            add_run_options(parser, self.request.verb)  # which the request has been read from
        parser.description = as_sentence(VERBS[self.request.verb].help)
        parser.usage = f"depgen {self.request.verb} [options]"
        target = "model.init_args.vocabulary_size"
        parser.link_arguments("data", target, compute_fn=self._vocabulary_size, apply_on="instantiate")
        if self.request.verb == "test":
            parser.add_argument(
                "--beam_size",
                type=PositiveInt | None,
                help="structures of a text that are summed over, where scores are bounds",
            )
        parser.add_argument(
            "--wandb",
            nargs="?",
            const="online",
            type=Literal["online", "offline"],
            help="log to W&B too, online (or as WANDB_MODE says) or offline",
        )
        parser.add_argument(
            "--resume_every_n_steps", type=PositiveInt, default=500, help="(fit) steps between saves of resume.ckpt"
        )
        parser.add_argument(
            "--compile",
            nargs="?",
            const=True,
            default=False,
            type=bool,
            help="(fit) compile the backbone; needs a C++ compiler",
        )
        parser.add_argument(
            "--float32_matmul_precision",
            type=Literal["highest", "high", "medium"],
            default="highest",
            help="(fit) of matrix products; high and medium are faster on GPUs, medium on CPUs too",
        )

    def parse_arguments(self, parser: LightningArgumentParser, args: Any) -> None:  # noqa: ANN401
        """Parse; with a checkpoint, its settings hold: `fit` refuses others but more epochs, the others say them."""
        self.config = parser.parse_args(args)
        seed = self.config.get("seed_everything")
        if seed is not None and not isinstance(seed, bool):
            checked_seed(seed, "seed_everything")
        if self.source is None or self.checkpoint is None:
            return
        resumes = self.request.resumes
        held = parser.parse_object(held_settings(self.source, self.checkpoint, resumes=resumes))
        different = differing(self._plain(self.config), self._plain(held), self.source, resumes=resumes)
        if resumes:
            self._longer, different = longer(different)
            refuse(different, self.source)
        for difference in different:
            logger.warning("The checkpoint's setting is used: %s (%s)", difference, self.checkpoint)
        free = {name: self.config[name] for name in FREE if name in self.config and name in held}
        for section in SECTIONS:
            self.config[section] = held[section]
        for name, value in free.items():
            self.config[name] = value

    def _plain(self, config: Any) -> dict[str, Any]:  # noqa: ANN401
        text = self.parser.dump(
            config, skip_link_targets=True, skip_none=False, format="yaml", skip_validation=True
        )  # a parser has read it
        settings: dict[str, Any] = yaml.safe_load(text)
        return settings

    # -- building -------------------------------------------------------------------------------------------------

    def _vocabulary_size(self, data: Any) -> int:  # noqa: ANN401
        """The vocabulary size of the data, which first take the vocabulary of the run where there is one; 0 without."""
        run = self.initial[0] if self.initial is not None else self.source
        if run is not None and hasattr(data, "use_vocabulary"):
            data.use_vocabulary(run / VOCABULARY_FILE)
        return checked_vocabulary_size(int(getattr(data, "vocabulary_size", 0)), self.checkpoint)

    def before_instantiate_classes(self) -> None:
        """Own the run folder before anything is built from it."""
        self.config_dump = self._plain(self.config)  # Lightning takes hyper-parameters from it, or makes its own
        if self.folder is not None and process_rank() == 0:
            self._own(self.folder)

    def instantiate_classes(self) -> None:
        """Build data, model and trainer.

        Raises:
            UserError: they can't be built from these settings, or gradients would be turned round.
        """
        clip = self.config["trainer"].get("gradient_clip_val")
        if clip is not None and clip < 0:
            raise UserError(f"trainer.gradient_clip_val: expected a norm, at least 0, found {clip}.")
        try:
            with user_errors_unwrapped():
                super().instantiate_classes()
        except UserError:
            raise
        except ValueError as error:
            raise UserError(
                f"The system, its data or the trainer can't be built from these settings: {reason_of(error)}."
            ) from error

    def _own(self, folder: Path) -> None:
        self.locks.enter_context(locked_run(folder))
        announce_run(folder)

    def instantiate_trainer(self, **kwargs: Any) -> L.Trainer:  # noqa: ANN401
        """The trainer with our callbacks, checkpoint writer and loggers; a fresh `fit` gets its run folder here."""
        settings = self.config_init["trainer"]
        self._compare_data()
        if (settings.get("accumulate_grad_batches") or 1) > 1:
            logger.warning(
                "accumulate_grad_batches=%d averages the means of that many batches, whatever their numbers of tokens; "
                "a loss by token wants a larger data.init_args.tokens_per_batch (a stream: columns) instead.",
                settings.get("accumulate_grad_batches"),
            )
        fits = self.request.verb == "fit" and not settings.get("fast_dev_run")
        if fits and self.folder is None:
            self._begin()
        elif self.folder is not None and self._longer is not None and process_rank() == 0:
            logger.info("Training continues to %d epochs.", self._longer)
            lengthen(self.folder, self._longer)
        own = [each for each in as_list(settings.get("logger")) if not isinstance(each, bool)]
        return super().instantiate_trainer(
            callbacks=[*as_list(settings.get("callbacks")), *self._callbacks(settings, fits)],
            logger=[*own, *self._loggers(fits)] or False,
            plugins=[*as_list(settings.get("plugins")), CheckpointWriter()],
            default_root_dir=str(self.folder) if self.folder is not None else settings.get("default_root_dir"),
            enable_progress_bar=_shows_bar(settings),
            **kwargs,
        )

    def _compare_data(self) -> None:
        """A run continues with its own data alone; results on other data are printed and not kept.

        Raises:
            UserError: `fit` would continue with other data.
        """
        if self.source is None:
            return
        self._other_data = other_data(self.source, self.datamodule)
        if self._other_data and self.request.resumes:
            raise UserError(f"{self.source} was trained on other data: put those back, or start a new run.")
        if self._other_data:
            logger.warning("%s was trained on other data.", self.source)

    def _begin(self) -> None:
        """Make the run folder and write the configuration and the versions into it."""
        seed = self.config.get("seed_everything")
        seed = None if seed is None or seed is False else int(seed)
        self.folder = create_run(self.request.place(seed or 0) or type(self.model).__name__)
        if process_rank() > 0:
            return
        self._own(self.folder)
        logger.info("Run: %s", self.folder)
        settings = self._settings()
        record = describe_run(experiment_name(self.folder), seed=seed)
        if self.initial is not None:
            _, weights = self.initial
            record["init_from"] = {"checkpoint": below_runs(str(weights)), "sha256": file_sha256(weights)}
        update_record(self.folder, record)
        write_settings(self.folder, settings)
        if hasattr(self.datamodule, "save_into"):
            self.datamodule.save_into(self.folder)

    def _settings(self) -> dict[str, Any]:
        """The resolved configuration, as the run's config.yaml has it."""
        settings = copy.deepcopy(self.config_dump)
        return {name: value for name, value in settings.items() if name not in ("wandb", "beam_size")}

    def _callbacks(self, settings: Any, fits: bool) -> list[L.Callback]:  # noqa: ANN401
        """Callbacks of the run folder; the model brings those that it needs to be trained."""
        folder = self.folder or self.source or Path()
        bar: list[L.Callback] = [RichProgressBar(leave=False)] if _shows_bar(settings) else []
        if fits:
            self._resume = Resume(folder / CHECKPOINTS, every_n_steps=self.config.get("resume_every_n_steps"))
            record: list[L.Callback] = []
            if self.source is None:
                record.append(LambdaCallback(on_fit_start=partial(record_data, folder)))
            if self.initial is not None:
                record.append(InitialWeights(self.initial[1]))
            return [*(bar or [ProgressLines()]), *record, LossGuard(), RunRecord(folder), self._resume]
        if self.request.verb == "test" and self._not_of_the_run() is None:
            return [*bar, ItemScoreWriter(folder)]
        if self.request.verb == "predict" and self.source is not None and isinstance(self.datamodule, CorpusData):
            self._writer = PredictionWriter(self.source, self.datamodule)
            return [*bar, self._writer]
        return bar

    def _loggers(self, fits: bool) -> list[Any]:
        mode, folder = self.config.get("wandb"), self.folder or self.source
        loggers: list[Any] = [CurveLogger(self.folder)] if fits and self.folder is not None else []
        if not mode or folder is None:
            return loggers
        tags = [type(self.model).__name__, *data_tags(self.datamodule, self.model)]
        return [*loggers, weights_and_biases(folder, mode, settings=self._settings(), tags=tags)]

    # -- the verbs ------------------------------------------------------------------------------------------------

    def fit(self) -> None:
        """Train, and say where the result lies.

        Raises:
            SystemExit: code 130 after Ctrl-C.
        """
        torch.set_float32_matmul_precision(self.config["float32_matmul_precision"])
        if self.config["compile"]:
            self.model.compile_network()
        try:
            self.trainer.fit(self.model, datamodule=self.datamodule, ckpt_path=self.checkpoint)
        except SystemExit:
            if self._resume is None or not self._resume.requested:
                raise
            self._say_how_to_go_on()
            raise SystemExit(INTERRUPTED) from None
        if self.folder is None or not self.trainer.is_global_zero:
            return
        self.output = f"run\t{self.folder}"
        if not is_finished(self.folder):
            self._say_how_to_go_on()

    def _say_how_to_go_on(self) -> None:
        step = self.trainer.global_step
        if self.folder is not None and (self.folder / CHECKPOINTS / RESUME).is_file():
            logger.warning("Stopped at step %d. Continue with: depgen fit --resume %s", step, self.folder)
        else:
            logger.warning("Stopped at step %d, before anything was saved.", step)

    def test(self) -> None:
        """Evaluate on the test split."""
        self._evaluate(self.trainer.test)

    def validate(self) -> None:
        """Evaluate on the validation split."""
        self._evaluate(self.trainer.validate)

    def predict(self) -> None:
        """Write the trees or bracketings that the network finds in the test split into the run folder.

        Raises:
            UserError: the system predicts neither.
        """
        if type(self.model).predict_step is L.LightningModule.predict_step:
            raise UserError(f"{type(self.model).__name__} has nothing to predict; `depgen generate` writes texts.")
        self.trainer.predict(
            self.model, datamodule=self.datamodule, ckpt_path=self.checkpoint, return_predictions=False
        )
        if self._writer is not None and self._writer.written and self.trainer.is_global_zero:
            kind, path = self._writer.written
            self.output = f"run\t{self.source}\n{kind}\t{path}"

    def _not_of_the_run(self) -> str | None:
        """Why numbers are not those that the run is judged by; None where they are."""
        if self.source is None or self.checkpoint is None:
            return "no run is evaluated"
        if self.checkpoint.absolute() != self.source.absolute() / CHECKPOINTS / BEST:
            return f"they are not of {BEST}"
        if self._other_data:
            return "the run was trained on other data"
        if self.config.get("beam_size") not in (None, getattr(self.model, "beam_size", None)):
            return "the run's own beam_size is another one"
        return None

    def _evaluate(self, evaluate: Callable[..., Any]) -> None:
        verb, run, checkpoint = self.request.verb, self.source, self.checkpoint
        digest = None if checkpoint is None else file_sha256(checkpoint)
        with beam_of(self.model, self.config.get("beam_size")) as beam:
            results = evaluate(self.model, datamodule=self.datamodule, ckpt_path=checkpoint, verbose=False)
        if not self.trainer.is_global_zero:
            return
        metrics = {name: float(value) for each in results for name, value in each.items()}
        if math.isnan(metrics.get("test/loss", 0.0)):
            raise UserError(f"test/loss: expected a number, found nan: the weights in {checkpoint} are damaged.")
        reason = self._not_of_the_run()
        if reason is None and not takes_everything(self.trainer, verb):
            reason = "they are of a part of the split"
        if reason is not None:
            logger.warning("The numbers are printed only, as %s.", reason)
        elif run is not None and checkpoint is not None and digest is not None:
            write_numbers(run, verb, metrics, checkpoint=checkpoint, sha256=digest)
        shown = {"run": run, "checkpoint": checkpoint} | {k: f"{v:.6g}" for k, v in metrics.items()}
        if verb == "test" and beam is not None:
            shown |= {"likelihood": "bound", "beam_size": str(beam)}
        self.output = "\n".join(f"{name}\t{value}" for name, value in shown.items())


def _shows_bar(settings: Any) -> bool:  # noqa: ANN401
    """A bar is for terminals; elsewhere the log reports progress."""
    return settings.get("enable_progress_bar") is not False and sys.stderr.isatty()
