"""Systems by name: a run, a checkpoint or a pretrained model that is on this machine. Nothing is fetched."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

import torch

from depgen.data.vocabulary import TOKENIZER_FILE, Vocabulary
from depgen.errors import UserError, check_one_of, did_you_mean
from depgen.evaluation.reading import Reading, reading_of_run
from depgen.evaluation.system import System
from depgen.evaluation.trained import Trained, checked_device, load_trained
from depgen.hub import cached_folder, names_a_folder, required_folder
from depgen.locations import models_root, runs_root
from depgen.models.causal_lm import CausalLM
from depgen.training.runs import all_runs, experiment_name, newest_run
from depgen.trees.text_form import FormName

Kind = Literal["run", "pretrained"]
_PROBE = ("The", "cat", "sat.")
"""Words by which a tokenizer shows whether it cuts each by itself."""


def load(
    name: str | Path | None = None,
    *,
    device: str | None = None,
    dtype: torch.dtype | str | None = None,
    form: FormName | None = None,
    first_word_space: bool | None = None,
) -> System:
    """The system of a run or checkpoint, or a pretrained causal language model, in evaluation mode.

    A name is looked up as a path, a run under `$DEPGEN_RUNS`, a folder under `$DEPGEN_MODELS` and a model or run in
    the local hub cache (`hf download NAME`). A name that is found in several of these places is refused. Nothing is
    fetched.

    Args:
        name: a run folder (its best checkpoint), an experiment (its newest run), a checkpoint file, or a folder or hub
            name of a pretrained model; by default the newest run.
        device: cpu, cuda, …; by default a GPU where there is one.
        dtype: of the weights, such as `torch.bfloat16` or its name; by default as in the checkpoint.
        form: what words are brought into before the system sees them; by default the form of the run's corpus.
        first_word_space: whether the first word of a text is encoded with a space before it, by tokenizers like
            GPT-2's. By default runs have the space, as in their training, and pretrained models have none.

    Raises:
        UserError: no such system, or several of that name; no such device or dtype.
    """
    check_one_of(form=(form, FormName))
    if name == "":
        raise UserError("Expected the name of a system, found an empty one.")
    kind, where = ("run", None) if name is None else located(name)
    if kind == "pretrained":
        system = load_pretrained(str(where), device=device, form=form, first_word_space=first_word_space)
    else:
        system = load_run(where, device=device, form=form, first_word_space=first_word_space)
    if dtype is not None:
        system.model.to(_dtype(dtype))
    return system


def load_run(
    run: str | Path | None,
    *,
    device: str | None = None,
    form: FormName | None = None,
    first_word_space: bool | None = None,
) -> System:
    """The system of a run, as `depgen.evaluation.trained.load_trained` finds it; see `load`."""
    trained = load_trained(run, device=device)
    reading = reading_of_run(trained.run, form, checkpoint=trained.checkpoint)
    if first_word_space is not None:
        reading = replace(reading, first_word_space=first_word_space)
    return System(trained, reading, form)


def load_pretrained(
    name: str, *, device: str | None = None, form: FormName | None = None, first_word_space: bool | None = None
) -> System:
    """A causal language model of the transformers library that was not trained here; see `load`.

    Raises:
        UserError: no such model, several of that name, or one that can't be given a text word by word.
    """
    from depgen.backbones.pretrained import PretrainedTransformer

    _the_one_of(name, [each for each in _places(name) if each[0] == "pretrained"])
    folder = required_folder(name, holding="config.json")
    vocabulary = _vocabulary(required_folder(str(folder), holding=TOKENIZER_FILE))
    model = CausalLM(partial(PretrainedTransformer, pretrained=str(folder)), vocabulary.size)
    model.to(checked_device(device) or ("cuda" if torch.cuda.is_available() else "cpu"))
    reading = Reading(form or "as_is", first_word_space=bool(first_word_space))
    return System(Trained(model.eval(), vocabulary, folder, folder), reading, form)


def load_system(
    run: str | None,
    pretrained: str | None,
    *,
    device: str | None = None,
    form: FormName | None = None,
    first_word_space: bool | None = None,
) -> System:
    """The system of a run, or a pretrained one where that is named.

    Raises:
        UserError: both are named, or there is no such system.
    """
    if pretrained is None:
        return load_run(run, device=device, form=form, first_word_space=first_word_space)
    if run is not None:
        raise UserError(f"Give only one of --run {run} and --pretrained {pretrained}.")
    return load_pretrained(pretrained, device=device, form=form, first_word_space=first_word_space)


def _vocabulary(folder: Path) -> Vocabulary:
    """The tokenizer of a pretrained model, with the token that begins and ends a text.

    Raises:
        UserError: texts begin and end by two different tokens, or a word's pieces depend on the words before it.
    """
    from tokenizers import Tokenizer

    content = (folder / TOKENIZER_FILE).read_text(encoding="utf-8")
    tokenizer = Tokenizer.from_str(content)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    begin, end = config.get("bos_token_id"), config.get("eos_token_id")
    if end is None or begin not in (None, end):
        raise UserError(
            f"{folder / 'config.json'}: expected one token that begins and ends a text, as GPT-2 has, found "
            f"bos_token_id {begin} and eos_token_id {end}. Train a run on top of such a model, or take another."
        )
    vocabulary = Vocabulary(content, specials={"eos": str(tokenizer.id_to_token(end))})
    first, *others = _PROBE
    found = [*vocabulary.pieces(first, space=False), *(piece for word in others for piece in vocabulary.pieces(word))]
    if found != tokenizer.encode(" ".join(_PROBE), add_special_tokens=False).ids:
        raise UserError(
            f"{folder / TOKENIZER_FILE}: expected a tokenizer that cuts each word by itself, with the space before it, "
            "as GPT-2's does, found one that does not. Train a run on top of such a model, or take another."
        )
    return vocabulary


# -- names ------------------------------------------------------------------------------------------------------------


def located(name: str | Path) -> tuple[Kind, Path]:
    """What a name means and where it is.

    Raises:
        UserError: nothing has that name, or several have.
    """
    if (found := _the_one_of(name, _places(name))) is not None:
        return found
    meant = did_you_mean(str(name), dict.fromkeys(experiment_name(run) for run in all_runs()))
    raise UserError(
        f"There is no system {name}: looked for a path, a run under {runs_root().absolute()} ($DEPGEN_RUNS), a model "
        f"under {models_root().absolute()} ($DEPGEN_MODELS) and the local hub cache.{meant} Train a run by `depgen "
        "fit`, or fetch a model where there is a network with `hf download NAME`."
    )


def _the_one_of(name: str | Path, places: list[tuple[Kind, Path]]) -> tuple[Kind, Path] | None:
    """The only one of the places that have a name; None where there is none."""
    found = {path.resolve(): (kind, path) for kind, path in places}
    if len(found) > 1:
        listed = "; ".join(f"{path.absolute()} ({kind})" for kind, path in found.values())
        raise UserError(f"Expected one system of the name {name}, found several: {listed}. Name one by its whole path.")
    return next(iter(found.values()), None)


def _places(name: str | Path) -> list[tuple[Kind, Path]]:
    """All that has the name; of several runs of an experiment or a folder, the newest."""
    path, text = Path(name).expanduser(), str(name)
    if path.is_file():
        return [("run", path)]
    found = _in_folder(path)
    if isinstance(name, Path) or path.is_absolute() or text.startswith((".", "~")):
        return found
    found += _in_folder(runs_root() / text, "run")
    found += _in_folder(models_root() / text, "pretrained")
    cached = None if names_a_folder(text) else cached_folder(text)
    return found if cached is None else [*found, *_in_folder(cached)]


def _in_folder(folder: Path, only: Kind | None = None) -> list[tuple[Kind, Path]]:
    """The run, the newest of the runs or the pretrained model that a folder holds."""
    if only != "pretrained" and (folder / "run.json").is_file():
        return [("run", folder)]
    if only != "run" and (folder / "config.json").is_file():
        return [("pretrained", folder)]
    return [("run", newest_run(folder))] if only != "pretrained" and all_runs(folder) else []


def _dtype(dtype: torch.dtype | str) -> torch.dtype:
    found = dtype if isinstance(dtype, torch.dtype) else getattr(torch, dtype, None)
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise UserError(f"dtype: expected float32, float64, bfloat16 or float16, found {dtype}.")
    return found
