"""Configurations and networks of the `transformers` library, by the names that backbones have for their sizes."""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from depgen.errors import UserError
from depgen.hub import WeightsError, load_weights, one_line, quiet_transformers, required_folder
from depgen.training.checkpoints import load_checkpoint
from depgen.training.runs import best_checkpoint, run_of_name

logger = logging.getLogger(__name__)

NAMES = {
    "layers": ("num_hidden_layers",),
    "width": ("hidden_size",),
    "attention_heads": ("num_attention_heads",),
    "feedforward": ("intermediate_size", "n_inner", "ffn_dim"),
    "max_length": ("max_position_embeddings",),
    "dropout": ("embd_pdrop", "resid_pdrop", "embedding_dropout", "resid_dropout", "hidden_dropout", "dropout"),
    "attention_dropout": ("attn_pdrop", "attention_dropout"),
}
"""Our arguments by the names that the library's configurations give them; an architecture has one or some of them."""


@dataclass(frozen=True)
class Wanted:
    """What a backbone's arguments say of its network; None: the model's own, or the library's default.

    Attributes:
        vocabulary_size: rows of the embedding.
        model_type: the library's name of the architecture.
        sizes: layers, width and the like, by our names.
        dropouts: the same of dropouts.
        settings: further ones by the library's names.
        tied: whether the output matrix is the embedding.
    """

    vocabulary_size: int
    model_type: str | None
    sizes: Mapping[str, int | None]
    dropouts: Mapping[str, float | None]
    settings: Mapping[str, Any]
    tied: bool | None


def configuration(values: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """The library's configuration of an architecture (`model_type`) with some values.

    Raises:
        UserError: the library knows no such architecture, or refuses the values.
    """
    from huggingface_hub.errors import StrictDataclassError
    from transformers import AutoConfig

    rest = {name: value for name, value in values.items() if name != "model_type"}
    try:
        with quiet_transformers():
            return AutoConfig.for_model(values["model_type"], **rest)
    except (ValueError, StrictDataclassError) as error:  # an unknown architecture; values that do not go together
        raise UserError(f"No {values['model_type']} can be made: {one_line(error)}") from error


def new_configuration(wanted: Wanted) -> Any:  # noqa: ANN401
    """The configuration of a network that is trained from scratch: GPT-2's unless another is named.

    Raises:
        UserError: the architecture is unknown, lacks what is given, or can't have such sizes.
    """
    model_type = wanted.model_type or "gpt2"
    usual = configuration({"model_type": model_type})
    width = wanted.sizes["width"] or usual.hidden_size
    heads = wanted.sizes["attention_heads"] or usual.num_attention_heads
    values: dict[str, Any] = {"vocab_size": wanted.vocabulary_size}
    values |= dict.fromkeys(
        ("bos_token_id", "eos_token_id", "pad_token_id")
    )  # the defaults lie beyond small embeddings
    values |= {} if wanted.tied is None else {"tie_word_embeddings": wanted.tied}
    values |= {each: 4 * width for each in NAMES["feedforward"] if hasattr(usual, each)}
    values |= _named(usual, {**_given(wanted.sizes), **_given(wanted.dropouts)})
    values |= {"num_key_value_heads": heads} if hasattr(usual, "num_key_value_heads") else {}
    return configuration({"model_type": model_type, **values, **_known(usual, wanted.settings)})


def built(config: Any, *, attention: str) -> Any:  # noqa: ANN401
    """A network with random weights."""
    from transformers import AutoModelForCausalLM

    try:
        with quiet_transformers():
            return AutoModelForCausalLM.from_config(config, attn_implementation=attention, dtype=torch.float32)
    except KeyError as error:
        if attention not in error.args:  # an activation, or another part that is named in the configuration
            raise UserError(f"No {config.model_type} can be made: the library has no {error}.") from error
        # its layers know the library's own kinds of attention alone
        raise UserError(
            f"A {config.model_type} computes its attention its own way: it can't be looked into."
        ) from error
    except ValueError as error:  # no causal language model, or sizes that do not go together
        raise UserError(f"No {config.model_type} can be made: {one_line(error)}") from error


def loaded(name: str, wanted: Wanted, *, attention: str) -> Any:  # noqa: ANN401
    """A pretrained network with as many rows as the vocabulary: of a folder of the library, or of a run.

    Raises:
        UserError: it can't be had, or is not of the sizes or the vocabulary wanted.
    """
    from transformers import AutoModelForCausalLM

    if (run := run_of_name(name)) is not None:
        return _of_run(run, wanted, name, attention=attention)
    folder = required_folder(name, holding="config.json")
    config = _read_configuration(folder, name)
    _refuse_other_sizes(config, wanted, name)
    _refuse_other_vocabulary(folder, config.vocab_size, wanted.vocabulary_size, name)
    _set(config, {**_named(config, _given(wanted.dropouts)), **_known(config, wanted.settings)}, name)
    options: dict[str, Any] = {"attn_implementation": attention, "dtype": torch.float32, "local_files_only": True}
    try:
        network = load_weights(AutoModelForCausalLM, folder, config=config, **options)
    except WeightsError as error:
        raise UserError(f"The pretrained model {name} ({folder}) can't be used: {error}") from error
    if config.vocab_size != wanted.vocabulary_size:
        logger.info("%s: %d rows without a token are cut off.", name, config.vocab_size - wanted.vocabulary_size)
        network.resize_token_embeddings(wanted.vocabulary_size)
    _tie(network, wanted.tied)
    return network


def _of_run(run: Path, wanted: Wanted, name: str, *, attention: str) -> Any:  # noqa: ANN401
    """The network of a run's best checkpoint, without what its system adds to it."""
    content = load_checkpoint(best_checkpoint(run))
    backbone: Any = content["hyper_parameters"].get("backbone")
    architecture = backbone.get("init_args", {}).get("architecture") if isinstance(backbone, Mapping) else None
    if architecture is None:
        raise UserError(
            f"pretrained: expected a run of a network of transformers (PretrainedTransformer), found another, {run}."
        )
    config = configuration(json.loads(architecture))
    _refuse_other_sizes(config, wanted, name)
    if config.vocab_size != wanted.vocabulary_size:
        raise UserError(
            f"The run {run} has {config.vocab_size} token types, but the data's vocabulary has "
            f"{wanted.vocabulary_size}. Take the run's own: under data.init_args.vocabulary the class path "
            f"depgen.data.vocabulary.SubwordPieces with tokenizer: {name}."
        )
    _set(config, {**_named(config, _given(wanted.dropouts)), **_known(config, wanted.settings)}, name)
    network = built(config, attention=attention)
    place = "backbone.network."
    weights = {key.removeprefix(place): value for key, value in content["state_dict"].items() if key.startswith(place)}
    network.load_state_dict(weights)
    _tie(network, wanted.tied)
    return network


def _read_configuration(folder: Path, name: str) -> Any:  # noqa: ANN401
    from huggingface_hub.errors import StrictDataclassError
    from transformers import AutoConfig

    try:
        with quiet_transformers():
            return AutoConfig.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, StrictDataclassError) as error:  # no JSON; an unknown architecture; wrong values
        raise UserError(
            f"The config.json of the pretrained model {name} ({folder}) can't be read: {one_line(error)}"
        ) from error


def _set(config: Any, values: Mapping[str, Any], name: str) -> None:  # noqa: ANN401
    from huggingface_hub.errors import StrictDataclassError

    try:
        for key, value in values.items():
            setattr(config, key, value)
    except StrictDataclassError as error:
        raise UserError(f"The pretrained model {name} can't have these settings: {one_line(error)}") from error


def _refuse_other_sizes(config: Any, wanted: Wanted, name: str) -> None:  # noqa: ANN401
    expected = {"model_type": wanted.model_type} if wanted.model_type else {}
    expected |= _named(config, _given(wanted.sizes))
    wrong = [
        f"{key} {getattr(config, key)}, not {value}" for key, value in expected.items() if getattr(config, key) != value
    ]
    if wrong:
        raise UserError(f"The pretrained model {name} has {'; '.join(wrong)}: leave out what it settles itself.")


def _refuse_other_vocabulary(folder: Path, rows: int, vocabulary_size: int, name: str) -> None:
    if rows == vocabulary_size:
        return
    path, own = folder / "tokenizer.json", rows
    if path.is_file():
        from tokenizers import Tokenizer

        own = 1 + max(Tokenizer.from_file(str(path)).get_vocab(with_added_tokens=True).values())
    if own != vocabulary_size or own > rows:
        raise UserError(
            f"The pretrained model {name} has {rows} rows for the {own} tokens of its tokenizer, but the data's "
            f"vocabulary has {vocabulary_size}. Take the model's own: under data.init_args.vocabulary the class path "
            f"depgen.data.vocabulary.SubwordPieces with tokenizer: {name} and its eos_token."
        )


def _tie(network: Any, tied: bool | None) -> None:  # noqa: ANN401
    """Give a tied network a separate output matrix, if `tied` is false.

    Raises:
        UserError: `tied` is true, but the network is not tied.
    """
    weight = network.get_output_embeddings().weight
    is_tied = weight is network.get_input_embeddings().weight
    if tied and not is_tied:
        raise UserError(f"{type(network).__name__} was trained with its own output matrix: tied can't be true.")
    if tied is False and is_tied:
        network.config.tie_word_embeddings = False
        network.get_output_embeddings().weight = nn.Parameter(weight.detach().clone())


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _named(config: Any, given: Mapping[str, float | int]) -> dict[str, Any]:  # noqa: ANN401
    """Our arguments under the names that an architecture gives them.

    Raises:
        UserError: it has none for one of them.
    """
    found = {name: [each for each in NAMES[name] if hasattr(config, each)] for name in given}
    for name, value in given.items():
        if not found[name] and value:
            raise UserError(f"The architecture {config.model_type} has no {name}: leave it out.")
    return {each: given[name] for name, names in found.items() for each in names}


def _known(config: Any, settings: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ANN401
    for name in settings:
        if not hasattr(config, name):
            raise UserError(f"The architecture {config.model_type} has no setting {name!r}.")
    return dict(settings)
