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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from depgen.backbones.architectures import Wanted, built, configuration, loaded, new_configuration
from depgen.backbones.backbone import Backbone, BackboneOutput, BackboneState
from depgen.backbones.transformer import AfterLayer, ScoreFunction, TransformerState, joined_padding
from depgen.errors import UserError
from depgen.hub import TRANSFORMERS_MISSING, has_transformers, one_line, quiet_transformers
from depgen.nn.attention import KeyValues, Visibility, attend
from depgen.nn.positions import counted_positions

ATTENTION = "depgen"
"""The name that our attention is registered by."""
READS_AT_ONCE = ("max_position_embeddings", "sliding_window", "attention_chunk_size")
"""What may bound the text in which every query sees all earlier tokens."""


@dataclass
class Attending:
    """What all layers of one pass share, and the keys and the attention that they return.

    Attributes:
        visibility: which keys each query sees.
        past: keys and values of earlier positions, a layer each.
        layer: the layer whose attention is wanted.
        carry: keep the keys.
        score_function: what is added to the scaled scores of each layer.
        log_probs: that layer's attention before dropout.
        carried: the keys and values for later positions, a layer each.
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

    def mix(
        self,
        queries: Float[Tensor, "batch attention_heads length size"],
        keys: Float[Tensor, "batch key_heads length size"],
        values: Float[Tensor, "batch key_heads length value_size"],
        *,
        scaling: float,
        dropout: float,
    ) -> Float[Tensor, "batch attention_heads length value_size"]:
        """The values of the next layer mixed; several heads may share keys and values."""
        index, self.layers = self.layers, self.layers + 1
        present = KeyValues.of(keys, values) if self.past is None else self.past[index].extended(keys, values)
        if self.carry:
            self.carried.append(present)
        usual = queries.size(-1) ** -0.5
        if scaling != usual:
            queries = queries * (scaling / usual)
        wanted = index == self.layer
        mixed, log_probs = attend(
            queries, present, self.visibility, dropout=dropout, with_attention=wanted,
            scores=None if self.score_function is None else partial(self.score_function, index),
        )  # fmt: skip
        self.log_probs = log_probs if wanted else self.log_probs
        return mixed


def _attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    attending: Attending | None = None,
    **others: Any,  # noqa: ANN401 - whatever an architecture hands to its attention
) -> tuple[Tensor, None]:
    """The library's interface of an attention function: values mixed as the pass says, [batch length heads size]."""
    extra = [name for name in ("softcap", "s_aux", "position_bias") if others.get(name) is not None]
    if attending is None or extra:
        found = f"adds {', '.join(extra)} to it" if extra else "does not tell it what the model was called with"
        raise UserError(f"{type(module).__name__} can't be read with the attention that is needed here: it {found}.")
    scale = query.size(-1) ** -0.5 if scaling is None else scaling
    mixed = attending.mix(query, key, value, scaling=scale, dropout=dropout)
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
        tied: the output matrix is the embedding; False gives a tied model its own copy. None: as the model has it.
        settings: further settings of the library's configuration, by its names, such as num_key_value_heads.
        architecture: the whole configuration as JSON; the network is then built from it alone, with random weights. A
            checkpoint carries it, so that it loads where `pretrained` is not.
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
        tied: bool | None = None,
        settings: Mapping[str, Any] | None = None,
        architecture: str | None = None,
    ) -> None:
        super().__init__()
        if not has_transformers():
            raise UserError(f"A pretrained Transformer can't be had: {TRANSFORMERS_MISSING}")
        from transformers import AttentionInterface

        AttentionInterface.register(ATTENTION, _attention)
        wanted = Wanted(
            vocabulary_size,
            model_type,
            sizes={
                "layers": layers, "width": width, "attention_heads": attention_heads, "feedforward": feedforward,
                "max_length": max_length,
            },
            dropouts={"dropout": dropout, "attention_dropout": attention_dropout},
            settings=settings or {},
            tied=tied,
        )  # fmt: skip
        self.network: Any  # untyped in the library
        if pretrained is not None and architecture is None:
            self.network = loaded(pretrained, wanted, attention=ATTENTION)
        else:
            made = new_configuration(wanted) if architecture is None else configuration(json.loads(architecture))
            self.network = built(made, attention=ATTENTION)
        if not self.network._supports_attention_backend:
            raise UserError(
                f"{type(self.network).__name__} computes its attention its own way: it can't be looked into."
            )
        self.config = self.network.config
        self.vocabulary_size, self.width = self.config.vocab_size, self.config.hidden_size
        self.attention_layers = self.config.num_hidden_layers
        bounds = [getattr(self.config, name, None) for name in READS_AT_ONCE]
        self.max_length = min((bound for bound in bounds if bound is not None), default=None)
        self._refuse_other_outputs()

    @torch.no_grad()
    def _refuse_other_outputs(self) -> None:
        """Refuse a network that predicts by something else than its hidden states times its output matrix (D3).

        Raises:
            UserError: it does, not every layer mixes values by self-attention, or its sizes do not go together.
        """
        if self.output_weight.is_meta:
            return
        tokens = torch.zeros(1, 2, dtype=torch.long)
        training, _ = self.training, self.eval()
        try:
            hidden = self(tokens).hidden
        except RuntimeError as error:  # some architectures take sizes that their layers can't compute with
            raise UserError(f"A {self.config.model_type} of these sizes can't be run: {one_line(error)}") from error
        attending = Attending(Visibility.of(2, None, causal=True, context=2, device=tokens.device))
        logits = self.network(input_ids=tokens, use_cache=False, attending=attending).logits
        self.train(training)
        if attending.layers != self.attention_layers:
            raise UserError(
                f"{attending.layers} of the {self.attention_layers} layers of {type(self.network).__name__} mix values "
                "by self-attention: it can't be read layer by layer."
            )
        if not torch.allclose(logits, nn.functional.linear(hidden, self.output_weight, self.output_bias), atol=1e-4):
            raise UserError(
                f"{type(self.network).__name__} changes its logits after the output matrix (it scales or caps them), "
                "which the losses here know nothing of."
            )

    @property
    def embedding(self) -> nn.Module:
        """The embedding of tokens."""
        found: nn.Module = self.network.get_input_embeddings()
        return found

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
        after_layer: AfterLayer | None = None,
    ) -> BackboneOutput:
        """Hidden states of every position, as `depgen.backbones.transformer.Transformer.forward`.

        Of `all_layers` the last is after the final norm, as the library has it. A score function reads queries by whose
        products with the keys, divided by √size, the model weighs its values; keys that several heads share are
        repeated.

        Raises:
            UserError: a text that is longer than the network can read.
            ValueError: an attention layer that does not exist.
        """
        if attention_layer is not None and not -self.attention_layers <= attention_layer < self.attention_layers:
            raise ValueError(f"attention of layer {attention_layer} requested, found {self.attention_layers} layers")
        assert state is None or isinstance(state, TransformerState)
        length = tokens.size(1)
        context = length if state is None else length + state.length
        if self.max_length is not None and context > self.max_length:
            raise UserError(f"a text of {context} tokens does not fit into the {self.max_length} that this model reads")
        whole_padding = joined_padding(padding, state, tokens)
        attending = Attending(
            Visibility.of(length, whole_padding, causal=True, context=context, device=tokens.device),
            past=None if state is None else state.layers,
            layer=None if attention_layer is None else attention_layer % self.attention_layers,
            carry=carry,
            score_function=score_function,
        )
        positions = counted_positions(length, whole_padding, context=context)
        if isinstance(positions, slice):
            positions = torch.arange(positions.start, positions.stop, device=tokens.device)[None]
        with self._hooked(after_layer):
            output = self.network.base_model(
                input_ids=tokens,
                position_ids=positions,
                use_cache=False,
                output_hidden_states=all_layers,
                attending=attending,
            )
        return BackboneOutput(
            hidden=output.last_hidden_state,
            undropped=output.last_hidden_state,
            layers=output.hidden_states if all_layers else None,
            attention=attending.log_probs,
            state=TransformerState(tuple(attending.carried), context, whole_padding) if carry else None,
        )

    @contextmanager
    def _hooked(self, after_layer: AfterLayer | None) -> Iterator[None]:
        """Call a function after each layer, before the library keeps what the layer returned."""
        if after_layer is None:
            yield
            return

        def hook_of(index: int) -> Any:  # noqa: ANN401
            def hook(module: nn.Module, inputs: Any, output: Any) -> Any:  # noqa: ANN401 - a tensor, or a tuple
                if isinstance(output, tuple):
                    return (after_layer(index, output[0]), *output[1:])
                return after_layer(index, output)

            return hook

        stacks = (each for each in self.network.base_model.modules() if isinstance(each, nn.ModuleList))
        layers = next(each for each in stacks if len(each) == self.attention_layers)
        hooks = [layer.register_forward_hook(hook_of(k), prepend=True) for k, layer in enumerate(layers)]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def save(self, folder: Path, *, eos: int | None = None) -> None:
        """Write weights and configuration, so that the library's `AutoModelForCausalLM` loads them.

        Args:
            folder: where to.
            eos: id of the end of sequence, which also begins one.
        """
        if eos is not None:
            for config in (self.config, self.network.generation_config):
                config.bos_token_id = config.eos_token_id = eos
        with quiet_transformers():
            self.network.save_pretrained(folder)
