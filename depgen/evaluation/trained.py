"""Systems out of run folders, checkpoints and folders of pretrained models, each with its own vocabulary.

A name is looked up as a path, a run under `$DEPGEN_RUNS`, a folder under `$DEPGEN_MODELS` and a model or run in the
local hub cache (`hf download NAME`). Nothing is fetched.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from jsonargparse import ArgumentError

from depgen.data.vocabulary import (
    VOCABULARY_FILE,
    Vocabulary,
    load_vocabulary,
    vocabulary_of_checkpoint,
)
from depgen.errors import UserError, check_one_of, did_you_mean, user_errors_unwrapped
from depgen.evaluation.reading import Reading, reading_of_run
from depgen.hub import TOKENIZER_FILE, cached_folder, load_weights, names_a_folder, tokenizer_of
from depgen.language_models.base import LanguageModel
from depgen.language_models.document import DocumentLanguageModel
from depgen.language_models.left_to_right import Windows
from depgen.locations import models_root, runs_root
from depgen.training.checkpoints import as_torch_file, checked_vocabulary_size, load_checkpoint
from depgen.training.class_paths import class_in_run, known_classes_alone
from depgen.training.hyper_parameters import BUILDER
from depgen.training.runs import (
    WEIGHTS,
    all_runs,
    best_checkpoint,
    experiment_name,
    newest_run,
    run_of_checkpoint,
)
from depgen.trees.text_form import FormName

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Reads = Literal["sentence", "document"]
"""What a system reads at once."""

Place = Literal["run", "pretrained"]
_ROLE, _TEXT = "<|im_start|>", "<|endoftext|>"
"""What opens a role's turn in a chat; and the token between texts in models that chat so."""
_PROBE = ("The", "cat", "sat.")
"""Words by which a tokenizer shows whether it cuts each by itself."""


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

    def __repr__(self) -> str:
        return f"{type(self.model).__name__} of {self.checkpoint}"

    def check_has_end(self) -> None:
        """Raises UserError unless tokens begin and end a text, as in all but some pretrained models."""
        if not self.vocabulary.has_end:
            raise UserError(
                f"{self.run}: expected a bos_token or eos_token, found neither. It can score texts, "
                "but not generate, show states or attention, or use bow_correction."
            )

    def reads_documents(self, reads: Reads | None = None) -> bool:
        """Whether documents are read as one: by default by systems that know of their sentences."""
        check_one_of(reads=(reads, Reads))
        if reads == "document" and self.model.likelihood == "pseudo":
            raise UserError(
                f"{type(self.model).__name__} predicts each word from the others of its sentence, and reads no "
                "document as one: leave out --reads document, and contexts."
            )
        return isinstance(self.model, DocumentLanguageModel) if reads is None else reads == "document"


def load_trained(name: str | Path | None, *, device: str | None = None, form: FormName | None = None) -> Trained:
    """A system by its name; of a run or an experiment by its best checkpoint, and without a name of the newest run.

    Nothing pickled is executed: checkpoints are read with `weights_only`. Classes that a run may name are those of
    `depgen.training.class_paths`.

    Args:
        name: see `depgen.load`.
        device: cpu, cuda, …; None: a GPU where there is one.
        form: what words are brought into; None: the form of the run's corpus.
    """
    kind, place = located(name)
    if kind == "pretrained":
        trained = _pretrained(place, device=device)
    else:
        run, checkpoint = _checkpoint_of(place)
        content = load_checkpoint(checkpoint, mmap=True)
        vocabulary = vocabulary_of_checkpoint(content) if run is None else load_vocabulary(run / VOCABULARY_FILE)
        if vocabulary is None:
            raise UserError(
                f"The checkpoint {checkpoint} lies in no run folder, so that its vocabulary is not known. Name a run "
                "folder, or the file within it (RUN/checkpoints/best.ckpt)."
            )
        checked_vocabulary_size(vocabulary.size, checkpoint)
        model = _model_of(checkpoint, content, checked_device(device))
        model.enter_phase(int(content.get("phase", 0)))
        run = checkpoint.parent if run is None else run
        trained = Trained(model.eval(), vocabulary, run, checkpoint, reading_of_run(run, content))
    return trained if form is None else replace(trained, reading=replace(trained.reading, form=form))


def _model_of(checkpoint: Path, content: Mapping[str, Any], device: str) -> LanguageModel:
    """The system that a checkpoint's settings describe, with its weights."""
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
    except UserError:
        raise
    except (ArgumentError, TypeError, ValueError, RuntimeError) as error:  # the last is torch's, of other shapes
        raise UserError(
            f"{checkpoint}: the settings there do not fit {path}: {' '.join(str(error).split()):.400}"
        ) from error


def system_class(name: str | Path | None) -> type[LanguageModel] | None:
    """The class of the system that `load_trained` would load; None if it is no system, or one that no run may name."""
    kind, place = located(name)
    if kind == "pretrained":
        from depgen.language_models.masked import PretrainedMaskedLM
        from depgen.models.causal_lm import CausalLM

        return PretrainedMaskedLM if _is_masked(place) else CausalLM
    _, checkpoint = _checkpoint_of(place)
    path = (load_checkpoint(checkpoint, mmap=True).get("hyper_parameters") or {}).get("_class_path")
    try:
        system = class_in_run(str(path), checkpoint)
    except UserError:
        return None
    return system if issubclass(system, LanguageModel) else None


def _checkpoint_of(place: Path) -> tuple[Path | None, Path]:
    """The run folder, None of a checkpoint that lies in no run, and the checkpoint."""
    return (run_of_checkpoint(place), place) if place.is_file() else (place, best_checkpoint(place))


def checked_device(name: str | None) -> str:
    """The device of that name; without one a GPU where there is one."""
    if name is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        raise UserError(f"There is no device {name!r} here; try cpu, or leave the option out.") from error
    return name


# -- pretrained models ------------------------------------------------------------------------------------------------


def _pretrained(folder: Path, *, device: str | None) -> Trained:
    """A causal or masked language model of the transformers library that was not trained here."""
    from depgen.backbones.pretrained import PretrainedTransformer
    from depgen.models.causal_lm import CausalLM

    if _is_masked(folder):
        return _pretrained_masked(folder, device=device)
    vocabulary = _vocabulary_of_pretrained(folder)
    model = CausalLM(partial(PretrainedTransformer, pretrained=str(folder)), vocabulary.size)
    model.to(checked_device(device))
    context = model.backbone.max_length
    model.windows = Windows(context, max(1, (context or 2) // 2), first=int(not vocabulary.specials))
    return Trained(model.eval(), vocabulary, folder, folder, Reading("as_is", first_word_space=False))


def _is_masked(folder: Path) -> bool:
    """Whether a folder holds a model that predicts masked tokens, as its configuration says."""
    names = json.loads((folder / "config.json").read_text(encoding="utf-8")).get("architectures") or ()
    return any(name.endswith("ForMaskedLM") for name in names)


def _pretrained_masked(folder: Path, *, device: str | None) -> Trained:
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    from depgen.language_models.masked import PretrainedMaskedLM

    tokenizer = tokenizer_of(folder)
    named = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    specials = {"eos": named.sep_token or named.eos_token, "unk": named.unk_token, "mask_id": named.mask_token}
    specials = {name: spelling for name, spelling in specials.items() if spelling}
    vocabulary = Vocabulary(tokenizer.to_str(), specials=specials, reads_specials=True)
    _check_cuts_words(vocabulary, tokenizer, folder)
    network = load_weights(AutoModelForMaskedLM, folder, dtype=torch.float32, local_files_only=True)
    model = PretrainedMaskedLM(network, tokenizer).to(checked_device(device))
    return Trained(model.eval(), vocabulary, folder, folder, Reading("as_is", first_word_space=False))


def _vocabulary_of_pretrained(folder: Path) -> Vocabulary:
    """The tokenizer of a pretrained model, with the tokens that begin and end a text, where it has such.

    A text begins with what the tokenizer itself puts there, else with its `bos_token`, else with its `eos_token`. The
    mark of a role in a chat is none: `<|endoftext|>` takes its place.
    """
    tokenizer = tokenizer_of(folder)
    begin, end = (_special_token(name, folder, tokenizer) for name in ("bos", "eos"))
    (plain, *_), (put, *_) = (tokenizer.encode(_PROBE[0], add_special_tokens=more).tokens for more in (False, True))
    begin = (put if put != plain else begin) or end
    if begin == _ROLE and tokenizer.token_to_id(_TEXT) is not None:
        begin = _TEXT
    specials = {} if begin is None else {"start": begin, "eos": end or begin}
    vocabulary = Vocabulary(tokenizer.to_str(), specials=specials, reads_specials=True)
    _check_cuts_words(vocabulary, tokenizer, folder)
    return vocabulary


def _special_token(name: str, folder: Path, tokenizer: "Tokenizer") -> str | None:
    """The token of that name (bos or eos) that the tokenizer's settings name, else config.json; None without one."""
    settings = folder / "tokenizer_config.json"
    named = json.loads(settings.read_text(encoding="utf-8")).get(f"{name}_token") if settings.is_file() else None
    spelling = named.get("content") if isinstance(named, Mapping) else named
    if spelling is not None and tokenizer.token_to_id(spelling) is not None:
        return str(spelling)
    token = json.loads((folder / "config.json").read_text(encoding="utf-8")).get(f"{name}_token_id")
    token = (token or [None])[0] if isinstance(token, list) else token
    return None if token is None else tokenizer.id_to_token(token)


def _check_cuts_words(vocabulary: Vocabulary, tokenizer: "Tokenizer", folder: Path) -> None:
    """Raises UserError if a word's pieces depend on the words before it."""
    first, *others = _PROBE
    pieces = [*vocabulary.pieces(first, space=False), *(piece for word in others for piece in vocabulary.pieces(word))]
    if pieces != tokenizer.encode(" ".join(_PROBE), add_special_tokens=False).ids:
        raise UserError(
            f"{folder / TOKENIZER_FILE}: expected a tokenizer that cuts each word by itself, with the space before it, "
            "as GPT-2's does, found one that does not. Train a run on top of such a model, or take another."
        )


# -- names ------------------------------------------------------------------------------------------------------------


def located(name: str | Path | None) -> tuple[Place, Path]:
    """What a name means and where it is; of several runs of an experiment, and without a name, the newest."""
    if name is None:
        return "run", newest_run()
    if name == "":
        raise UserError("Expected the name of a system, found an empty one.")
    path, text = Path(name).expanduser(), str(name)
    places: list[tuple[Place, Path]] = [("run", path)] if path.is_file() else _in_folder(path)
    is_path = isinstance(name, Path) or path.is_file() or path.is_absolute() or text.startswith((".", "~"))
    if not is_path:
        places += _in_folder(runs_root() / text, "run") + _in_folder(models_root() / text, "pretrained")
        if not names_a_folder(text) and (cached := cached_folder(text)) is not None:
            places += _in_folder(cached)
    systems = {path.resolve(): (kind, path) for kind, path in places}
    if len(systems) > 1:
        listed = "; ".join(f"{path.absolute()} ({kind})" for kind, path in systems.values())
        raise UserError(f"Expected one system of the name {name}, found several: {listed}. Name one by its whole path.")
    if systems:
        return next(iter(systems.values()))
    meant = did_you_mean(text, dict.fromkeys(experiment_name(run) for run in all_runs()))
    raise UserError(
        f"There is no system {name}: looked for a path, a run under {runs_root().absolute()} ($DEPGEN_RUNS), a model "
        f"under {models_root().absolute()} ($DEPGEN_MODELS) and the local hub cache.{meant} Train a run by `depgen "
        "fit`, or fetch a model where there is a network with `hf download NAME`."
    )


def _in_folder(folder: Path, only: Place | None = None) -> list[tuple[Place, Path]]:
    """The run, the newest of the runs or the pretrained model that a folder holds."""
    if only != "pretrained" and (folder / "run.json").is_file():
        return [("run", folder)]
    if only != "run" and (folder / "config.json").is_file():
        return [("pretrained", folder)]
    return [("run", newest_run(folder))] if only != "pretrained" and all_runs(folder) else []
