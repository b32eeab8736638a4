"""A trained system out of its run folder, with the vocabulary that travels with it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from jsonargparse import ArgumentError

from depgen.data.vocabulary import VOCABULARY_FILE, Vocabulary, load_vocabulary, vocabulary_of_checkpoint
from depgen.errors import UserError, reason_of, user_errors_unwrapped
from depgen.evaluation.reading import Reading, reading_of_run
from depgen.language_models.base import LanguageModel
from depgen.training.checkpoints import as_torch_file, checked_vocabulary_size, load_checkpoint
from depgen.training.class_paths import class_in_run, known_classes_alone
from depgen.training.hyper_parameters import BUILDER
from depgen.training.runs import WEIGHTS, named_checkpoint, newest_run, run_of_checkpoint
from depgen.trees.text_form import FormName


@dataclass(frozen=True)
class Trained:
    """A system in evaluation mode, on the best device at hand.

    Attributes:
        model: the system.
        vocabulary: the run's own.
        run: the run folder, or the folder of a checkpoint that holds its vocabulary and lies in no run.
        checkpoint: the file that the weights come from.
        reading: how the model is given a text.
    """

    model: LanguageModel
    vocabulary: Vocabulary
    run: Path
    checkpoint: Path
    reading: Reading = Reading()  # noqa: RUF009 - frozen

    def check_exact(self) -> None:
        """Raises UserError unless the system's likelihood of a text is exact."""
        if self.model.likelihood != "exact":
            raise UserError(
                f"{self.checkpoint} holds a {type(self.model).__name__}, whose likelihood of a text is "
                f"{self.model.likelihood}, not exact: name a run of a left-to-right system."
            )


def load_trained(reference: str | Path | None, *, device: str | None = None, form: FormName | None = None) -> Trained:
    """The system of a run folder (its best checkpoint), of a checkpoint file, or of the newest run when None.

    Nothing pickled is executed: checkpoints are read with `weights_only`. Classes that a run may name are those of
    `depgen.training.class_paths`.

    Args:
        reference: what names the run.
        device: cpu, cuda, …; None: a GPU where there is one.
        form: what words are brought into; None: the form of the run's corpus.

    Raises:
        UserError: there is no such run or checkpoint, it is damaged, it neither lies in a run folder nor holds its
            vocabulary, the vocabulary has another size than the system, or it names classes that no run may name.
    """
    run, checkpoint, alone = _located(reference)
    vocabulary = vocabulary_of_checkpoint(load_checkpoint(checkpoint, mmap=True)) if alone else None
    if vocabulary is None:
        vocabulary = load_vocabulary((named_checkpoint(checkpoint)[0] if alone else run) / VOCABULARY_FILE)
    checked_vocabulary_size(vocabulary.size, checkpoint)
    content = load_checkpoint(checkpoint, mmap=True)  # a damaged file is refused by name
    where = checked_device(device) or ("cuda" if torch.cuda.is_available() else "cpu")
    model = _model_of(checkpoint, content, where)
    model.enter_phase(int(content.get("phase", 0)))
    reading = reading_of_run(run, checkpoint=checkpoint)
    return Trained(model.eval(), vocabulary, run, checkpoint, replace(reading, form=form or reading.form))


def _model_of(checkpoint: Path, content: Mapping[str, Any], device: str) -> LanguageModel:
    """The system that a checkpoint's settings describe, with its weights.

    Raises:
        UserError: the settings name no class, one that is no system of depgen, or arguments that it does not take.
    """
    arguments = content.get("hyper_parameters") or {}
    path = arguments.get("_class_path")
    if not isinstance(path, str):
        raise UserError(f"{checkpoint}: expected the settings of a system, found none that name its class.")
    kind = class_in_run(path, checkpoint)
    if not issubclass(kind, LanguageModel):
        raise UserError(
            f"{checkpoint}: expected a language model, as depgen's systems are, found {path}. Its own verb is "
            "`depgen test`."
        )
    if arguments.get("_instantiator", BUILDER) != BUILDER:
        raise UserError(f"{checkpoint}: expected a system that {BUILDER} builds, found {arguments['_instantiator']!r}.")
    source = as_torch_file(content) if checkpoint.suffix == Path(WEIGHTS).suffix else checkpoint
    try:
        with known_classes_alone(checkpoint), user_errors_unwrapped():
            return kind.load_from_checkpoint(source, map_location=device, weights_only=True, **arguments)
    except (ArgumentError, TypeError, ValueError, RuntimeError) as error:  # torch's, of weights that do not fit
        if isinstance(error, UserError) or (isinstance(error, RuntimeError) and "state_dict" not in str(error)):
            raise
        reason = " ".join(str(error).split()) if isinstance(error, RuntimeError) else reason_of(error)
        raise UserError(f"{checkpoint}: the settings there do not fit {path}: {reason:.400}") from error


def named_runs(run: str | Path | Sequence[str | Path] | None) -> list[str | Path | None]:
    """The runs that one name or several are of, each as `load_trained` takes it; None, the newest, without a name."""
    return [run] if run is None or isinstance(run, str | Path) else list(run) or [None]


def system_class(reference: str | Path | None) -> type[LanguageModel] | None:
    """The class of the system that `load_trained` would load; None if it is no system, or one that no run may name.

    Raises:
        UserError: there is no such run or checkpoint, or it is damaged.
    """
    _, checkpoint, _ = _located(reference)
    path = (load_checkpoint(checkpoint, mmap=True).get("hyper_parameters") or {}).get("_class_path")
    try:
        kind = class_in_run(str(path), checkpoint)
    except UserError:
        return None
    return kind if issubclass(kind, LanguageModel) else None


def _located(reference: str | Path | None) -> tuple[Path, Path, bool]:
    """The run folder, the checkpoint, and whether the checkpoint lies in no run, so that the folder is just its own."""
    if reference is not None and Path(reference).is_file() and run_of_checkpoint(Path(reference)) is None:
        return Path(reference).parent, Path(reference), True
    return *named_checkpoint(newest_run() if reference is None else reference), False


def checked_device(name: str | None) -> str | None:
    """A device's name, once it is certain that tensors can lie there.

    Raises:
        UserError: there is no such device.
    """
    if name is not None:
        try:
            torch.empty(0, device=name)
        except (RuntimeError, AssertionError) as error:
            raise UserError(f"There is no device {name!r} here; try cpu, or leave the option out.") from error
    return name
