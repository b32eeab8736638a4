"""The base of the systems that score and write a text token by token."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from inspect import isfunction
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from lightning.pytorch.trainer.states import TrainerFn
from torch import Tensor
from torchmetrics import Metric

from depgen.backbones.backbone import Backbone, BackboneOutput, DistanceNetwork, StreamState
from depgen.data.batch import ItemBatch, TokenBatch, TokenItem
from depgen.data.vocabulary import Vocabulary
from depgen.decoding.generation import Generated, StepState, generate
from depgen.decoding.sampling import Mixture
from depgen.decoding.settings import BeamOptions, Sampling, TokenOptions
from depgen.errors import UserError
from depgen.language_models.base import LanguageModel
from depgen.metrics.item_scores import ItemScores, WordPerplexity
from depgen.nn.lengths import mask_of
from depgen.nn.precise import precise
from depgen.training.activation import ActivationRegularizer
from depgen.trees.sentence import Edge


@dataclass(frozen=True)
class Windows:
    """Windows that slide over a sequence, the token that begins it and those of a text; a text that fits needs one.

    Each position is predicted once, by the first window that holds it. So each window but the first gives the last
    `stride` of its positions, and the tokens before these are context alone
    (https://huggingface.co/docs/transformers/perplexity).

    Attributes:
        context: positions that are read at once; None for any number.
        stride: positions from the beginning of a window to that of the next.
        first: 0; or 1 where the token that begins sequences is not read, so that a text's first token has no score.

    >>> Windows(context=4, stride=2).starts(9)
    array([0, 0, 0, 0, 2, 2, 4, 4, 6])
    """

    context: int | None
    stride: int
    first: int = 0

    def starts(self, length: int) -> Int[np.ndarray, " length"]:
        """Where the window begins that each position of a sequence is predicted in."""
        positions = np.arange(length)
        beyond = np.maximum(0, positions + 1 - self.first - (self.context or length))
        starts: Int[np.ndarray, " length"] = np.minimum(positions, self.first) + self.stride * -(-beyond // self.stride)
        return starts

    def begun(self, sentences: Sequence[Sequence[int]]) -> list[Int[np.ndarray, " tokens"]]:
        """Of each token of a text, and of its end, how many windows begin with its prediction: 1 or 0."""
        ends = np.cumsum([len(ids) for ids in sentences], dtype=np.int64)
        starts = self.starts(int(ends[-1]) + 1)
        return np.split(np.diff(starts, prepend=self.first - 1).astype(bool).astype(int), ends[:-1])


@runtime_checkable
class GraphNetwork(Protocol):
    """A system that finds a graph over the words of a sentence as it reads it."""

    def parse(
        self, sentences: Sequence[Sequence[int]], *, vocabulary: Vocabulary, beam_size: int = 20
    ) -> list[tuple[Edge, ...]]:
        """The likeliest graph of each sentence of token ids, by a beam of hypotheses about it.

        Words are those of `Vocabulary.word_of_token`; sentences are without beginning and end, and none is empty.
        """
        ...


class LeftToRight(LanguageModel):
    """Base of the systems that score and write a text token by token.

    Args:
        regularizer: a penalty on the backbone's outputs, added to the loss in training:
            `depgen.training.activation.ActivationRegularizer` for LSTMs.
        kwargs: see `LanguageModel`.

    Attributes:
        backbone: the network from tokens to hidden states, in systems that take one.
        windows: how a pretrained model reads texts that may be longer than its context; None in runs.
    """

    backbone: Backbone
    windows: Windows | None = None
    generation_options: type[BeamOptions] = TokenOptions

    def __init__(
        self,
        *,
        regularizer: ActivationRegularizer | None = None,
        **kwargs: Any,  # noqa: ANN401, of the base
    ) -> None:
        super().__init__(**kwargs)
        self.regularizer = regularizer
        self._carried: dict[bool, StreamState | None] = {}

    @classmethod
    def figures(cls, passes: int = 1) -> dict[str, Metric]:
        """The figures of every system, and the perplexity per word, equal to that per token where tokens are words."""
        return {**super().figures(passes), "word_perplexity": WordPerplexity(passes)}

    def use_backbone(self, backbone: Backbone) -> None:
        """Set `backbone`, which must be causal; constructor arguments that it found out become hyper-parameters."""
        if not backbone.causal:
            raise UserError(f"{type(self).__name__} writes from left to right: its backbone needs causal: true.")
        self.backbone = backbone
        self.longest_scored = None if backbone.max_length is None else backbone.max_length - 1  # <eos> in front
        if backbone.arguments_found and "backbone" in self.hparams:
            self.hparams["backbone"] = _with(self.hparams["backbone"], backbone)

    @property
    def output_bias(self) -> Float[Tensor, " vocab"] | None:
        """The output bias, where there is one."""
        backbone = getattr(self, "backbone", None)
        return None if backbone is None else backbone.output_bias

    # -- reading --------------------------------------------------------------------------------------------------

    def encode(self, batch: TokenBatch, *, attention_layer: int | None = None) -> BackboneOutput:
        """The backbone's output over a batch; in a stream, from the state after the segment before.

        Training and evaluation carry a state each.
        """
        streams = batch.segment is not None
        state = self._carried.get(self.training) if batch.segment else None
        couples = self.training and self.backbone.couples_batch
        padding = ~mask_of(batch.lengths, batch.inputs.size(1)) if couples else None
        output: BackboneOutput = self.backbone(
            batch.inputs, padding=padding, state=state, attention_layer=attention_layer, carry=streams
        )
        if not streams:
            return output
        if not isinstance(output.state, StreamState):
            raise UserError(
                f"A {type(self.backbone).__name__} carries no state from segment to segment, so it can't read a "
                "stream: take depgen.data.text.TextData instead of depgen.data.stream.StreamData."
            )
        self._carried[self.training] = output.state.detached()
        return output

    def penalty(self, output: BackboneOutput, batch: TokenBatch) -> Float[Tensor, ""]:
        """The regulariser's term of the loss; 0 without one."""
        if self.regularizer is None:
            return output.hidden.new_zeros(())
        return self.regularizer(output.hidden, output.undropped, batch.is_word)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep the state that training carries through a stream, of every device."""
        super().on_save_checkpoint(checkpoint)
        state = self._carried.get(True)
        if state is None:
            return
        shares: list[list[Tensor]] = [[each.cpu() for each in state.tensors()]]
        if self.trainer.world_size > 1:
            shares = shares * self.trainer.world_size
            torch.distributed.all_gather_object(shares, shares[0])
        checkpoint["carried"] = shares

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Restore the carried state, with as many devices as before."""
        shares = checkpoint.get("carried")
        trainer = self._attached
        if shares is None or trainer is None or trainer.state.fn != TrainerFn.FITTING:
            return
        if len(shares) != self.trainer.world_size:
            raise UserError(
                f"The checkpoint's stream has the states of {len(shares)} devices, found {self.trainer.world_size}: "
                f"resume with trainer.devices: {len(shares)}."
            )
        share = shares[self.trainer.global_rank]
        device = self.trainer.strategy.root_device  # the model is moved there only after its checkpoint is loaded
        self._carried[True] = self.backbone.state_of([each.to(device) for each in share])

    # -- scoring --------------------------------------------------------------------------------------------------

    def log_probs(self, batch: TokenBatch) -> Float[Tensor, "batch length"]:
        """The log-probability (nats) of each target given all tokens before it; without meaning at padding."""
        raise NotImplementedError(f"{type(self).__name__} has no log_probs")

    @torch.inference_mode()
    def sentence_log_probs(
        self,
        documents: Sequence[Sequence[Sequence[int]]],
        *,
        vocabulary: Vocabulary,
        structure: Sequence[Sequence[Any]] | None = None,
    ) -> list[list[Float[np.ndarray, " tokens"]]]:
        """See `LanguageModel`; a document is one sequence, so that only its last sentence has an `<eos>`, if any.

        `<eos>` precedes the document and is nowhere between its sentences. The state that a stream carries is neither
        used nor changed.
        """
        items = [TokenItem(place, np.concatenate(document)) for place, document in enumerate(documents)]
        tokens = sum(len(item.ids) + 1 for item in items)
        batch = self.collate(ItemBatch(items, tokens, vocabulary)).to(self.device)
        assert isinstance(batch, TokenBatch)
        log_probs = self.log_probs(batch) if structure is None else self.joint_log_probs(batch, documents, structure)
        return [
            np.split(
                row[: len(item.ids) + vocabulary.has_end],
                np.cumsum([len(ids) for ids in document[:-1]], dtype=np.int64),
            )
            for row, item, document in zip(log_probs.cpu().numpy(), items, documents, strict=True)
        ]

    def joint_log_probs(
        self,
        batch: TokenBatch,
        documents: Sequence[Sequence[Sequence[int]]],
        structure: Sequence[Sequence[Any]],
    ) -> Float[Tensor, "batch length"]:
        """The log-probability (nats) of each target together with its part of the structure, given all before it.

        Called by `sentence_log_probs` with structure. A system with a joint distribution overrides this method alone.
        """
        self.refuse_structure(structure)
        raise NotImplementedError

    def generation_step(
        self,
        tokens: Int[Tensor, "batch length"],
        padding: Bool[Tensor, "batch length"] | None,
        state: Any,  # noqa: ANN401
    ) -> tuple[Float[Tensor, "batch vocab"], StepState]:
        """Log-probabilities of the token after `tokens`, which follow those already in `state`; and the new state."""
        raise UserError(f"{type(self).__name__} does not write texts: it has no generation_step.")

    def drawing_step(
        self,
        tokens: Int[Tensor, "batch length"],
        padding: Bool[Tensor, "batch length"] | None,
        state: Any,  # noqa: ANN401
    ) -> tuple[Float[Tensor, "batch vocab"] | Mixture, StepState]:
        """The same distribution, in the form that is quickest to draw from."""
        return self.generation_step(tokens, padding, state)

    def forward(self, batch: TokenBatch) -> Float[Tensor, "batch length"]:
        """See `log_probs`."""
        return self.log_probs(batch)

    def item_scores(self, batch: TokenBatch) -> ItemScores:
        """The scores of a batch's items: `<eos>` counts as a token and as a word, BOS and padding don't.

        Of a stream, those of the parts of items in its segment.
        """
        nll = precise(-self.log_probs(batch).masked_fill(~batch.is_word, 0))
        scores, parts = self.scores_of_items(batch, nll.sum(1)), batch.parts
        if parts is None:
            return scores
        sums = parts.sums(nll[batch.is_word.to(nll.device)])
        return replace(scores, items=parts.items, nll=sums[:, None], tokens=parts.lengths[:, None], words=parts.words)

    def scores_of_items(self, batch: TokenBatch, nll: Float[Tensor, " batch"], *, of_text: bool = True) -> ItemScores:
        """The scores of a batch's items from the nats of each, of text and given structure unless `of_text`."""
        return ItemScores(
            items=batch.items,
            nll=nll[:, None],
            tokens=batch.lengths[:, None],
            words=batch.words,
            unknown=(batch.is_word & (batch.targets == batch.unk)).sum(),
            targets=batch.lengths.sum(),
            of_text=of_text,
        )

    def predict_step(self, batch: TokenBatch, batch_idx: int) -> Float[Tensor, "layers batch words"]:
        """The syntactic distance before each word, of backbones that have such; without meaning at padding."""
        backbone = getattr(self, "backbone", self)
        if not isinstance(backbone, DistanceNetwork):
            name = type(backbone).__name__
            raise UserError(f"A {name} has no syntactic distances to predict: take ON-LSTM or PRPN, or depgen parse.")
        with torch.autocast(self.device.type, enabled=False):
            return backbone.syntactic_distances(batch.inputs, padding=~batch.is_word)[:, :, 1:]

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        vocabulary: Vocabulary,
        options: Sampling,
        seeds: Sequence[int],
        max_new_tokens: int,
        number: int = 1,
        batch_size: int = 64,
        progress: bool = False,
    ) -> list[Generated]:
        """Continuations of each prompt, without the end of sequence; each depends on its prompt and seed alone.

        Prompts are token ids without the token that begins every sequence; all else as
        `depgen.decoding.generation.generate` has it.
        """
        self.refuse_longer_texts(prompts, max_new_tokens)
        return generate(
            self.drawing_step,
            [[vocabulary.start, *prompt] for prompt in prompts],
            eos=vocabulary.eos,
            unk=vocabulary.unk,
            options=options,
            seeds=seeds,
            max_new_tokens=max_new_tokens,
            number=number,
            batch_size=batch_size,
            device=self.device,
            progress=progress,
        )

    def refuse_longer_texts(self, prompts: Sequence[Sequence[int]], max_new_tokens: int) -> None:
        """Raises UserError if prompts and texts after them would not fit into what the system can read."""
        if self.longest_scored is None:
            return
        longest = 1 + max(map(len, prompts), default=0)
        room = max(0, self.longest_scored + 2 - longest)  # the last token drawn is not read again
        if max_new_tokens > room:
            raise UserError(
                f"The longest prompt has {longest} tokens, <eos> in front included; with {max_new_tokens} new ones it "
                f"does not fit into the {self.longest_scored + 1} positions of this model: ask for at most {room}."
            )


def _with(made_from: Any, backbone: Backbone) -> Any:  # noqa: ANN401
    """A backbone's hyper-parameter, a block or a callable, with the arguments that the network has found out."""
    arguments = backbone.arguments_found
    if isinstance(made_from, str):
        made_from = {"class_path": made_from}
    if isinstance(made_from, Mapping):
        return {**made_from, "init_args": {**(made_from.get("init_args") or {}), **arguments}}
    return partial(type(backbone) if isfunction(made_from) else made_from, **arguments)
