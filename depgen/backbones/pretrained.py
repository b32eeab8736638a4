"""Causal Transformers of the `transformers` library: GPT-2, Llama, Qwen and their like, pretrained or from scratch.

The library gives projections, positions and feed-forward networks. Between queries and mixed values the code is our
own function, registered with it as servers of such models do: so that one layer's attention is had before dropout while
the others stay fused, and the keys are carried as those of every other Transformer here.

Deviations
    D1. Each query sees all earlier tokens. A model with a sliding window, or chunks, reads no text longer than those.
    D2. Rows of the embedding beyond the model's own tokenizer (published models round their number up) are cut off.
    D3. Refused are models whose attention is not a softmax of scaled inner products alone (it is capped, has sinks or
        biases by position), is computed by the model's own code or is missing in some layers: its weights before
        dropout can't be read layer by layer; and models that scale or cap their logits, which the losses here do not.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from depgen.backbones.backbone import Backbone, BackboneOutput, BackboneState
from depgen.backbones.transformer import ScoreFunction, TransformerState, joined_padding
from depgen.errors import UserError
from depgen.hub import (
    TOKENIZER_FILES,
    TRANSFORMERS_MISSING,
    WeightsError,
    has_transformers,
    load_weights,
    quiet_transformers,
    required_folder,
    tokenizer_of,
)
from depgen.nn.attention import KeyValues, Visibility, attend
from depgen.nn.positions import counted_positions
from depgen.training.checkpoints import load_checkpoint
from depgen.training.runs import best_checkpoint, run_of_name

logger = logging.getLogger(__name__)

ATTENTION = "depgen"
"""The name that our attention is registered by."""
READS_AT_ONCE = ("max_position_embeddings", "sliding_window", "attention_chunk_size")
"""What may bound the text in which every query sees all earlier tokens."""
NAMES = {
    "model_type": ("model_type",),
    "layers": ("num_hidden_layers",),
    "width": ("hidden_size",),
    "attention_heads": ("num_attention_heads",),
    "feedforward": ("intermediate_size", "n_inner", "ffn_dim"),
    "max_length": ("max_position_embeddings",),
    "dropout": ("embd_pdrop", "resid_pdrop", "embedding_dropout", "resid_dropout", "hidden_dropout", "dropout"),
    "attention_dropout": ("attn_pdrop", "attention_dropout"),
}
"""Our arguments by the names that the library's configurations give them; an architecture has one or some of them."""
DROPOUTS = ("dropout", "attention_dropout")
"""What of a pretrained model may be changed."""


@dataclass
class AttentionCall:
    """What all layers of one pass share, and the keys and the attention that they return.

    Attributes:
        visibility: which keys each query sees.
        past: keys and values of earlier positions, a layer each.
        layer: the layer whose attention is wanted, `log_probs`.
        carry: keep the keys and values for later positions, a layer each in `carried`.
        score_function: what is added to the scaled scores of each layer.
        layers: how many layers have mixed values.
    """

    visibility: Visibility
    past: Sequence[KeyValues] | None = None
    layer: int | None = None
    carry: bool = False
    score_function: ScoreFunction | None = None
    log_probs: Float[Tensor, "batch attention_heads length context"] | None = None
    carried: list[KeyValues] = field(default_factory=list)
    layers: int = 0


def _attention(
    module: nn.Module,
    query: Float[Tensor, "batch attention_heads length size"],
    key: Float[Tensor, "batch key_heads length size"],
    value: Float[Tensor, "batch key_heads length value_size"],
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    attending: AttentionCall | None = None,
    **others: Any,  # noqa: ANN401 - whatever an architecture hands to its attention
) -> tuple[Float[Tensor, "batch length attention_heads value_size"], None]:
    """The library's interface of an attention function: values of the next layer mixed as the pass says."""
    extra = [name for name in ("softcap", "s_aux", "position_bias") if others.get(name) is not None]
    if attending is None or extra:
        found = f"adds {', '.join(extra)} to it" if extra else "does not tell it what the model was called with"
        raise UserError(f"{type(module).__name__} can't be read with the attention that is needed here: it {found}.")
    call, index = attending, attending.layers
    call.layers += 1
    present = KeyValues.of(key, value) if call.past is None else call.past[index].extended(key, value)
    if call.carry:
        call.carried.append(present)
    usual = query.size(-1) ** -0.5
    if scaling not in (None, usual):
        query = query * (scaling / usual)
    mixed, log_probs = attend(
        query, present, call.visibility, dropout=dropout, with_attention=index == call.layer,
        scores=None if call.score_function is None else partial(call.score_function, index),
    )  # fmt: skip
    call.log_probs = call.log_probs if log_probs is None else log_probs
    return mixed.transpose(1, 2).contiguous(), None


class PretrainedTransformer(Backbone):
    """A causal language model of the library: its weights, or its architecture alone, trained from scratch.

    Sizes that are None are the model's own, or the library's defaults for the architecture (GPT-2: 12 x 768, 12 heads).
    Beside `pretrained` they must be those of the model.

    Args:
        vocabulary_size: number of token types; a pretrained model must have as many, or its own tokenizer must.
        pretrained: a folder, one under `$DEPGEN_MODELS`, a hub name in the local cache, or a run of such a network (its
            folder, or an experiment: the newest), whose best weights are taken. None: random weights.
        model_type: the library's name of the architecture; None: the pretrained one's, or gpt2.
        layers: number of layers.
        width: size of a hidden state.
        attention_heads: number of heads a layer.
        feedforward: size of the feed-forward networks' inner layer; None without `pretrained`: four times the width.
        max_length: number of positions.
        dropout: of embeddings and of what each part of a layer adds; None: the model's own.
        attention_dropout: of attention probabilities; None: the model's own.
        architecture: the whole configuration as JSON, by the library's names; the network is then built from it alone,
            with random weights. A checkpoint carries it, so that it loads where `pretrained` is not.
    """

    def __init__(
        self,
        vocabulary_size: int,
        *,
        pretrained: str | None = None,
        model_type: str | None = None,
        layers: int | None = None,
        width: int | None = None,
        attention_heads: int | None = None,
        feedforward: int | None = None,
        max_length: int | None = None,
        dropout: float | None = None,
        attention_dropout: float | None = None,
        architecture: str | None = None,
    ) -> None:
        super().__init__()
        if not has_transformers():
            raise UserError(f"A pretrained Transformer can't be had: {TRANSFORMERS_MISSING}")
        from transformers import AttentionInterface

        AttentionInterface.register(ATTENTION, _attention)
        self.network: Any  # untyped in the library
        arguments = {
            "model_type": model_type, "layers": layers, "width": width, "attention_heads": attention_heads,
            "feedforward": feedforward, "max_length": max_length, "dropout": dropout,
            "attention_dropout": attention_dropout,
        }  # fmt: skip
        if architecture is not None:
            self.network = network_of(json.loads(architecture))
        elif pretrained is None:
            self.network = new_network(vocabulary_size, arguments)
        else:
            self.network = loaded(pretrained, vocabulary_size, arguments)
        self.config = self.network.config
        self.vocabulary_size, self.width = self.config.vocab_size, self.config.hidden_size
        self.attention_layers = self.config.num_hidden_layers
        bounds = [getattr(self.config, name, None) for name in READS_AT_ONCE]
        self.max_length = min((bound for bound in bounds if bound is not None), default=None)
        self._check_outputs()

    @torch.no_grad()
    def _check_outputs(self) -> None:
        """Refuse a network that predicts by something else than its hidden states times its output matrix (D3)."""
        if self.output_weight.is_meta:
            return
        training, tokens = self.training, torch.zeros(1, 2, dtype=torch.long)
        hidden = self.eval()(tokens).hidden
        call = AttentionCall(Visibility.of(2, None, causal=True, context=2, device=tokens.device))
        logits = self.network(input_ids=tokens, use_cache=False, attending=call).logits
        self.train(training)
        same = torch.allclose(logits, nn.functional.linear(hidden, self.output_weight, self.output_bias), atol=1e-4)
        if call.layers != self.attention_layers or not same:
            raise UserError(
                f"{type(self.network).__name__} can't be read here: {call.layers} of its {self.attention_layers} "
                f"layers mix values by self-attention, its logits are {'' if same else 'not '}those of its output "
                "matrix alone."
            )

    @property
    def embedding(self) -> nn.Module:
        """The embedding of tokens."""
        embedding: nn.Module = self.network.get_input_embeddings()
        return embedding

    @property
    def output_weight(self) -> Float[Tensor, "vocab width"]:
        """The output matrix (tied to the embedding or its own)."""
        weight: Tensor = self.network.get_output_embeddings().weight
        return weight

    @property
    def output_bias(self) -> Float[Tensor, " vocab"] | None:
        """The output bias, where there is one."""
        bias: Tensor | None = self.network.get_output_embeddings().bias
        return bias

    @property
    def arguments_found(self) -> dict[str, Any]:
        """The whole configuration: a checkpoint then needs neither the pretrained model nor the library's defaults."""
        values = {name: value for name, value in self.config.to_dict().items() if name != "_name_or_path"}
        return {"architecture": json.dumps(values, sort_keys=True)}

    def forward(
        self,
        tokens: Int[Tensor, "batch length"],
        *,
        padding: Bool[Tensor, "batch length"] | None = None,
        state: BackboneState | None = None,
        attention_layer: int | None = None,
        all_layers: bool = False,
        carry: bool = False,
        score_function: ScoreFunction | None = None,
    ) -> BackboneOutput:
        """Hidden states of every position, as `depgen.backbones.transformer.Transformer.forward`.

        Of `all_layers` the last is after the final norm, as the library has it. A score function reads queries by whose
        products with the keys, divided by √size, the model weighs its values.
        """
        self.check_attention(attention_layer)
        assert state is None or isinstance(state, TransformerState)
        length = tokens.size(1)
        context = length if state is None else length + state.length
        if self.max_length is not None and context > self.max_length:
            raise UserError(f"a text of {context} tokens does not fit into the {self.max_length} that this model reads")
        whole_padding = joined_padding(padding, state, tokens)
        call = AttentionCall(
            Visibility.of(length, whole_padding, causal=True, context=context, device=tokens.device),
            past=None if state is None else state.layers,
            layer=None if attention_layer is None else attention_layer % self.attention_layers,
            carry=carry,
            score_function=score_function,
        )
        positions = counted_positions(length, whole_padding, context=context)
        if isinstance(positions, slice):
            positions = torch.arange(positions.start, positions.stop, device=tokens.device)[None]
        output = self.network.base_model(
            input_ids=tokens,
            position_ids=positions,
            use_cache=False,
            output_hidden_states=all_layers,
            attending=call,
        )
        return BackboneOutput(
            hidden=output.last_hidden_state,
            undropped=output.last_hidden_state,
            layers=output.hidden_states if all_layers else None,
            attention=call.log_probs,
            state=TransformerState(tuple(call.carried), context, whole_padding) if carry else None,
        )

    def save(self, folder: Path, *, eos: int | None = None) -> None:
        """Write weights and configuration, so that the library's `AutoModelForCausalLM` loads them.

        `eos` is the id of the end of sequence, which also begins one.
        """
        if eos is not None:
            for config in (self.config, self.network.generation_config):
                config.bos_token_id = config.eos_token_id = eos
        with quiet_transformers():
            self.network.save_pretrained(folder)


# -- networks and their configurations --------------------------------------------------------------------------------


def network_of(values: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """A network with random weights from the values of its whole configuration, its `model_type` among them."""
    from transformers import AutoConfig, AutoModelForCausalLM

    values = dict(values)
    with quiet_transformers():
        config = AutoConfig.for_model(values.pop("model_type"), **values)
        return AutoModelForCausalLM.from_config(config, attn_implementation=ATTENTION, dtype=torch.float32)


def new_network(vocabulary_size: int, arguments: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """A network with random weights of an architecture (GPT-2's unless another is named) and some sizes."""
    from transformers import AutoConfig

    usual = AutoConfig.for_model(arguments["model_type"] or "gpt2")
    width = arguments["width"] or usual.hidden_size
    no_ids = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"))  # the defaults lie beyond small embeddings
    values = {"model_type": usual.model_type, "vocab_size": vocabulary_size, **no_ids}
    values |= {name: 4 * width for name in NAMES["feedforward"] if hasattr(usual, name)}
    if hasattr(usual, "num_key_value_heads"):
        values["num_key_value_heads"] = arguments["attention_heads"] or usual.num_attention_heads
    return network_of({**values, **_by_library_names(usual, arguments)})


def loaded(name: str, vocabulary_size: int, arguments: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """A pretrained network with as many rows as the vocabulary: of a folder of the library, or of a run."""
    from transformers import AutoConfig, AutoModelForCausalLM

    run = run_of_name(name)
    if run is None:
        folder = required_folder(name, holding="config.json")
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    else:
        config, state = _of_run(run)
    tokens = config.vocab_size
    if run is None and any((folder / file).is_file() for file in TOKENIZER_FILES):
        tokens = 1 + max(tokenizer_of(folder).get_vocab(with_added_tokens=True).values())
    sizes = _by_library_names(config, {name: value for name, value in arguments.items() if name not in DROPOUTS})
    wrong = [
        f"{name} {getattr(config, name)}, not {size}" for name, size in sizes.items() if getattr(config, name) != size
    ]
    if wrong:
        raise UserError(f"The pretrained model {name} has {'; '.join(wrong)}: leave out what it settles itself.")
    if vocabulary_size not in (config.vocab_size, tokens) or vocabulary_size > config.vocab_size:
        raise UserError(
            f"The pretrained model {name} has {config.vocab_size} rows for the {tokens} tokens of its tokenizer, but "
            f"the data's vocabulary has {vocabulary_size}. Take the model's own: under data.init_args.vocabulary the "
            f"class path depgen.data.vocabulary.SubwordPieces with tokenizer: {name}, of a folder also its eos_token."
        )
    config.update(_by_library_names(config, {name: arguments[name] for name in DROPOUTS}))
    if run is not None:
        network = network_of(config.to_dict())
        network.load_state_dict(state)
        return network
    options: dict[str, Any] = {"attn_implementation": ATTENTION, "dtype": torch.float32, "local_files_only": True}
    try:
        network = load_weights(AutoModelForCausalLM, folder, config=config, **options)
    except WeightsError as error:
        raise UserError(f"The pretrained model {name} ({folder}) can't be used: {error}") from error
    if config.vocab_size != vocabulary_size:
        logger.info("%s: %d rows without a token are cut off.", name, config.vocab_size - vocabulary_size)
        network.resize_token_embeddings(vocabulary_size)
    return network


def _of_run(run: Path) -> tuple[Any, dict[str, Tensor]]:
    """Configuration and weights of the network in a run's best checkpoint, without what its system adds to it."""
    from transformers import AutoConfig

    content = load_checkpoint(best_checkpoint(run))
    backbone: Any = content["hyper_parameters"].get("backbone")
    architecture = backbone.get("init_args", {}).get("architecture") if isinstance(backbone, Mapping) else None
    if architecture is None:
        raise UserError(
            f"pretrained: expected a run of a network of transformers (PretrainedTransformer), found another, {run}."
        )
    values, place = json.loads(architecture), "backbone.network."
    state = {key.removeprefix(place): value for key, value in content["state_dict"].items() if key.startswith(place)}
    return AutoConfig.for_model(values.pop("model_type"), **values), state


def _by_library_names(config: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ANN401
    """Our arguments, those that are given, under the names that an architecture has for them."""
    values: dict[str, Any] = {}
    for name, value in arguments.items():
        own = [each for each in NAMES[name] if hasattr(config, each)]
        if not own and value:
            raise UserError(f"The architecture {config.model_type} has no {name}: leave it out.")
        values |= {} if value is None else dict.fromkeys(own, value)
    return values
