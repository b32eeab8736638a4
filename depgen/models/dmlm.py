"""Dependency-based Mixture Language Models. Yang & Wan (2022), ACL, "Dependency-based Mixture Language Models".

A language model first learns to predict each token's *future dependents* (its later children and its later head), then
predicts the next token as a mixture of all those predictions so far, weighed by self-attention.

    paper             here
    Z_t               `Dependents`: of the position that reads x_{t-1}
    p_dep(w | x_<t)   softmax of `hidden[t]` over the vocabulary
    a^(t)             exp(`log_attention[t]`): row t over positions <= t; of a layer, or Eq. 2 (`QueryKeyAttention`)
    L_DM, Eq. 1       `dependency_nll`
    p(w | x_<t)       Eq. 3, `mixture_log_probs`
    L_LM, Eq. 4       phase 2's loss: the mixture's negative log-likelihood

Positions count from 0: position 0 reads `<eos>` (which is also BOS), position j reads word j and predicts word j + 1.

Deviations
    D1. Eq. 3 mixes probabilities (the default, `mixture_space="probability"`). The authors' DM-LSTM mixed logits until
        March 2022, after the paper's experiments; `"logit"` is that: the attention pools hidden states before one
        softmax.
    D2. Eq. 1's Z_t names children and parents only. As in the authors' code the root is also a target of position 0 and
        `<eos>` of the last word.
    D3. Z_t is a set of word *types*, as in the authors' code: a type that depends twice on a token counts once.
    D4. The loss is computed in log space from gathers: log p(y_t) = logsumexp_tau(log a + h_tau.W[y_t] - log Z_tau). It
        equals the dense mixture; the authors clamp probabilities at 1e-10, which we don't.
    D5. The attention distribution is the head mean *before* attention dropout, so that Eq. 3 is a distribution in
        training too; the code takes what its library returns, which for GPT-2 is after dropout.
    D6. The authors' DM-Transformer holds a second, unused decoder whose output is multiplied by zero; we don't.
    D7. The phase-1 loss is a sum over Z_t, divided by the number of positions, empty ones counted (as the code).
    D8. Eq. 2's projections have biases, as in the authors' code, and are trained from phase 2 on, where they are used.
    D9. In a stream the recurrent state is carried from segment to segment, but the mixture begins again in each, as in
        the authors' code.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Int32, Int64
from torch import Tensor, nn
from torch.nn import Parameter

from depgen.backbones.backbone import BackboneFactory, BackboneOutput, BackboneState
from depgen.data.batch import Batch, ItemBatch, StreamSlice, SystemCollate, TokenBatch, TokenItem, collate_tokens
from depgen.data.vocabulary import EOS, Vocabulary
from depgen.decoding.sampling import Mixture
from depgen.errors import UserError
from depgen.language_models.left_to_right import LeftToRight
from depgen.metrics.precise import PreciseMean
from depgen.nn.precise import precise
from depgen.nn.rows import Growing, Rows
from depgen.nn.vocabulary import (
    Bias,
    Weight,
    full_precision,
    log_softmax_over_vocabulary,
    vocabulary_logsumexp,
    word_log_probs,
    word_scores,
)
from depgen.training.hyper_parameters import Factory, factory
from depgen.training.phases import Phase, after

MixtureSpace = Literal["probability", "logit"]


# -- 1. Future dependents (Sec. 2.1) ----------------------------------------------------------------------------------


def future_dependents(
    heads: Sequence[int] | np.ndarray,
) -> tuple[Int64[np.ndarray, " positions_plus_one"], Int32[np.ndarray, " targets"]]:
    """The set Z of each input position in CSR form, Sec. 2.1 of Yang & Wan (2022).

    The targets of position j are `targets[offsets[j] : offsets[j + 1]]`; position 0 reads BOS and position j
    word j, so n words make n+1 positions. An arc between words i < j makes j a target of position i, whichever of the
    two is the head. As in the authors' code, root words are targets of position 0, and eos, as index n+1, is one of the
    last word. Targets ascend within a position. O(n log n).

    Args:
        heads: one head a word, 1-based, 0 = root, -1 = not annotated (no arc).

    Raises:
        UserError: a word that is its own head, or a head beyond the sentence.

    >>> offsets, targets = future_dependents([2, 0, 2])
    >>> [targets[a:b].tolist() for a, b in zip(offsets, offsets[1:])]
    [[2], [2], [3], [4]]
    """
    head = np.asarray(heads, dtype=np.int64)
    count = len(head)
    word = np.arange(1, count + 1)
    if (wrong := (head == word) | (head > count)).any():
        token = int(wrong.argmax()) + 1
        raise UserError(f"Expected a tree over {count} words, found token {token} with head {head[token - 1]}")
    arc = head >= 0
    position = np.append(np.minimum(head, word)[arc], count)
    target = np.append(np.maximum(head, word)[arc], count + 1)
    offsets = np.concatenate(([0], np.bincount(position, minlength=count + 1).cumsum())).astype(np.int64)
    return offsets, target[np.lexsort((target, position))].astype(np.int32)


@dataclass(frozen=True)
class Dependents(Batch):
    """The sets Z_t of a batch; position t of item b counts as `b * length + t`.

    Attributes:
        positions: of each dependent, ascending.
        ids: the word that each is.
        occupied: the positions that have any.
        counts: how many each of these has.
    """

    positions: Int[Tensor, " dependents"]
    ids: Int[Tensor, " dependents"]
    occupied: Int[Tensor, " occupied"]
    counts: Int[Tensor, " occupied"]


@dataclass(frozen=True, kw_only=True)
class DependencyBatch(TokenBatch):
    """Sequences and the future dependents of each position; None without trees."""

    dependents: Dependents | None = None


@dataclass(frozen=True)
class DependencyCollate(SystemCollate):
    """Makes padded batches with the set Z_t of each position, as word ids (Sec. 2.1; D2, D3)."""

    version: ClassVar[int] = 1
    reads: ClassVar[Literal["heads"]] = "heads"

    def view(self, item: TokenItem, vocabulary: Vocabulary) -> dict[str, np.ndarray]:
        """Position and future dependent (a word id) of each arc, in the order of positions."""
        assert item.heads is not None
        if (item.heads < 0).any():
            raise UserError(
                "Dependency modelling needs a tree of every sentence, but the annotator leaves some out: name one "
                "under data.init_args.annotator that gives each a tree (KnownTrees: `otherwise` in place of "
                "`leave_unknown`)."
            )
        offsets, places = future_dependents(item.heads)
        positions = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        ids = np.append(item.ids, vocabulary.eos)[places - 1]
        positions, ids = np.unique(np.stack((positions, ids)), axis=1)  # D3
        return {"positions": positions.astype(np.int32), "dependents": ids.astype(np.int32)}

    def __call__(self, batch: ItemBatch) -> DependencyBatch:
        """The batch, without dependents where an item has no tree."""
        tokens = collate_tokens(batch)
        if any(item.heads is None for row in batch.slices for item in row.items):
            return DependencyBatch(**vars(tokens))
        width, rows = tokens.inputs.shape[1], []
        for number, row in enumerate(batch.slices):
            positions, ids = _within_slice(row, [self.view_of(item, batch.vocabulary) for item in row.items])
            rows.append((positions + number * width, ids))
        positions, ids = (np.concatenate(each).astype(np.int64) for each in zip(*rows, strict=True))
        arrays = positions, ids, *np.unique(positions, return_counts=True)
        return DependencyBatch(**vars(tokens), dependents=Dependents(*map(torch.from_numpy, arrays)))


def _within_slice(row: StreamSlice, views: Sequence[Mapping[str, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Positions and dependents of some items, of positions in the slice; the dependents may lie beyond its end."""
    begins = np.cumsum([0, *(len(item.ids) + 1 for item in row.items[:-1])]) - row.start
    positions = np.concatenate([view["positions"] + begin for view, begin in zip(views, begins, strict=True)])
    inside = (positions >= 0) & (positions < row.stop - row.start)
    return positions[inside], np.concatenate([view["dependents"] for view in views])[inside]


def dependency_nll(
    hidden: Float[Tensor, "batch length width"], weight: Weight, bias: Bias, dependents: Dependents
) -> Float[Tensor, ""]:
    """The summed negative log-likelihood (nats) of all future dependents, Eq. 1.

    sum_t (|Z_t| log Z_t - sum_{z in Z_t} h_t . W_z): positions without dependents, and padding, cost nothing.
    """
    flat = hidden.flatten(0, 1)
    # in this order: the backward pass is in reverse order, and frees Z's temporaries before it holds W's
    # gradient from the scores
    scores = word_scores(flat[dependents.positions], weight, bias, dependents.ids)
    log_z = vocabulary_logsumexp(flat[dependents.occupied], weight, bias)
    return (dependents.counts * log_z).sum() - scores.sum()


# -- 2. The mixture (Sec. 2.2) ----------------------------------------------------------------------------------------


def unseen(length: int, context: int, *, window: int | None, device: torch.device) -> Bool[Tensor, "length context"]:
    """Whether query i, one of the last `length` positions, does not see key j: later than itself, or before its window.

    >>> unseen(2, 3, window=2, device=torch.device("cpu")).int().tolist()
    [[0, 0, 1], [1, 0, 0]]
    """
    distance = torch.arange(context - length, context, device=device)[:, None] - torch.arange(context, device=device)
    return distance < 0 if window is None else (distance < 0) | (distance >= window)


def log_dependency_attention(
    log_attention: Float[Tensor, "batch attention_heads length context"], *, window: int | None = None
) -> Float[Tensor, "batch length context"]:
    """Log a^(t): the logarithm of the head mean of a layer's attention, fp32; very low, not -inf, at unseen positions.

    With a window, rows are normalised again over its positions.
    """
    lowest = torch.finfo(log_attention.dtype).min / 4
    mean = log_attention.clamp_min(lowest).logsumexp(1) - math.log(log_attention.shape[1])
    if window is None:
        return mean
    near = mean.masked_fill(unseen(*mean.shape[1:], window=window, device=mean.device), lowest)
    return near - near.logsumexp(-1, keepdim=True)


@dataclass(frozen=True)
class SeenKeys(Rows):
    """The keys that later queries of an attention attend to, and which of them are padding.

    Attributes:
        keys: one a position, [batch position width].
        padding: True at positions that are no tokens, [batch position].
    """

    keys: Growing
    padding: Growing

    def extended(self, other: "SeenKeys") -> "SeenKeys":
        """These keys followed by those of later positions."""
        return SeenKeys(self.keys.extended(other.keys.tensor), self.padding.extended(other.padding.tensor))

    def last(self, count: int) -> "SeenKeys":
        """The last `count` keys, or all if there are fewer."""
        return SeenKeys(self.keys.last(count), self.padding.last(count))


class QueryKeyAttention(nn.Module):
    """a^(t), Eq. 2: the attention of one head over the hidden states, for backbones without self-attention.

    Weights are initialised from U(-0.1, 0.1), biases (D8) with zeros.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        for projection in (self.query, self.key):
            nn.init.uniform_(projection.weight, -0.1, 0.1)
            nn.init.zeros_(projection.bias)

    def forward(
        self,
        hidden: Float[Tensor, "batch length width"],
        *,
        padding: Bool[Tensor, "batch length"] | None = None,
        past: SeenKeys | None = None,
        window: int | None = None,
    ) -> tuple[Float[Tensor, "batch length context"], SeenKeys]:
        """Log a^(t) in fp32, very low at unseen positions and at padding, and the keys for the next call.

        a^(t) = softmax over tau of (W_Q h_t + b_Q) . (W_K h_tau + b_K) / sqrt(width). Rows run over all positions,
        those of `past` (what an earlier call returned) first; with a window, these are as many at most.
        """
        if padding is None:
            padding = torch.zeros(hidden.shape[:2], dtype=torch.bool, device=hidden.device)
        present = SeenKeys(Growing.of(self.key(hidden), dim=1), Growing.of(padding, dim=1))
        seen = present if past is None else past.extended(present)
        keys, hidden_keys = seen.keys.tensor, seen.padding.tensor
        length, context = hidden.size(1), keys.size(1)
        scores = self.query(hidden) @ keys.mT
        scores = full_precision(scores) / math.sqrt(keys.size(-1))  # Eq. 2: a^(t) = softmax(e^(t) / sqrt(H))
        others = ~torch.eye(context, dtype=torch.bool, device=hidden.device)[-length:]  # a position always sees itself
        masked = unseen(length, context, window=window, device=hidden.device) | (hidden_keys[:, None] & others)
        log_attention = scores.masked_fill(masked, torch.finfo(scores.dtype).min / 4).log_softmax(-1)
        return log_attention, seen if window is None else seen.last(window)


AttentionFactory = Factory[int, QueryKeyAttention]
"""From the width of the hidden states to the attention of the mixture, Eq. 2."""


def mixture_log_probs(
    log_attention: Float[Tensor, "batch length context"],
    hidden: Float[Tensor, "batch context width"],
    weight: Weight,
    bias: Bias,
    targets: Int[Tensor, "batch length"],
) -> Float[Tensor, "batch length"]:
    """Log p(x_t | x_<t) of the targets, Eq. 3 in log space (D4).

    log p(y_t) = logsumexp_tau (log a_tau^(t) + h_tau . W[y_t] - log Z_tau): O(length x context x width) apart from the
    vocabulary.
    """
    log_z = vocabulary_logsumexp(hidden, weight, bias)[:, None]
    with torch.autocast(hidden.device.type, enabled=False):
        scores = full_precision(F.embedding(targets, weight)) @ full_precision(hidden).mT
        if bias is not None:
            scores = scores + bias[targets][..., None]
        return (log_attention + scores - log_z).logsumexp(-1)


def pooled_log_probs(
    log_attention: Float[Tensor, "batch length context"],
    hidden: Float[Tensor, "batch context width"],
    weight: Weight,
    bias: Bias,
    targets: Int[Tensor, "batch length"],
) -> Float[Tensor, "batch length"]:
    """Log p(x_t | x_<t) of the targets when *logits* are mixed (D1).

    The mixture is linear in the hidden states, so they are pooled before the one softmax.
    """
    with torch.autocast(hidden.device.type, enabled=False):
        pooled = log_attention.exp() @ full_precision(hidden)
    return word_log_probs(pooled, weight, bias, targets)


# -- 3. Inference (end of Sec. 2.2) -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class MixtureState(Rows):
    """The state of generation: the backbone's state and the mixture's components, one row a position so far.

    Attributes:
        backbone: the backbone's own state.
        components: p_dep of each position, or its hidden states when logits are mixed: [batch position size]. With a
            window, of the positions within it.
        keys: those of `QueryKeyAttention`, where it weighs the mixture.
    """

    backbone: BackboneState
    components: Growing
    keys: SeenKeys | None = None


# -- 4. The system ----------------------------------------------------------------------------------------------------


class DMLM(LeftToRight):
    """A Dependency-based Mixture Language Model over any backbone.

    Trained in two phases: dependency modelling (Eq. 1), then language modelling by the mixture (Eq. 4) from the best
    weights of the first, with a fresh optimiser and schedule.

    Args:
        backbone: makes the network from the vocabulary size; the very block that the base model has.
        vocabulary_size: number of token types; linked from the data.
        dependency_modeling_share: the first phase's part of `trainer.max_epochs`, below 1 (paper: half; for LSTMs a
            fifth); 0: there is no such phase.
        attention_layer: the layer whose head-averaged attention weighs the mixture (paper: the penultimate, -2).
        attention: for backbones without self-attention, what weighs the mixture instead, made from the width:
            `depgen.models.dmlm.QueryKeyAttention` (paper: for LSTMs, over their undropped outputs).
        window: mix only the last positions, this many; None: all (paper: none for Transformers; for LSTMs 56 on
            ROCStories, 36 on news, 16 on PTB).
        mixture_space: "probability" (Eq. 3) or "logit" (D1).
        kwargs: see `LeftToRight`; the regulariser is used in both phases, as in the authors' code.
    """

    def __init__(
        self,
        backbone: BackboneFactory,
        vocabulary_size: int,
        dependency_modeling_share: float = 0.5,
        attention_layer: int = -2,
        attention: AttentionFactory | None = None,
        window: int | None = None,
        mixture_space: MixtureSpace = "probability",
        **kwargs: Any,  # noqa: ANN401, of the base
    ) -> None:
        super().__init__(**kwargs)
        self.save_hyperparameters()
        self.use_backbone(factory(backbone, BackboneFactory)(vocabulary_size))
        width = self.backbone.width
        self.attention: QueryKeyAttention | None = (
            None if attention is None else factory(attention, AttentionFactory)(width)
        )
        layers = self.backbone.attention_layers
        if self.attention is None and not layers:
            raise UserError(
                f"{type(self.backbone).__name__} has no self-attention that could weigh DMLM's mixture. "
                "Add one: model.init_args.attention: depgen.models.dmlm.QueryKeyAttention"
            )
        if self.attention is None and not -layers <= attention_layer < layers:
            raise UserError(
                f"DMLM mixes by the attention of layer {attention_layer}, but the backbone has {layers} layers: add "
                "layers, or set model.init_args.attention_layer."
            )
        if window is not None and window < 1:
            raise UserError(f"The mixture's window must hold at least the present position, found {window}.")
        self.attention_layer, self.window, self.mixture_space = attention_layer, window, mixture_space
        first = Phase("dependency_modeling", dependency_modeling_share, "val/dependency_loss")
        self.phases = after(first, Phase("language_modeling"))
        self.dependency_loss = PreciseMean()

    @property
    def collate(self) -> Callable[[ItemBatch], TokenBatch]:
        """Sequences; in the first phase with the future dependents of each position."""
        return DependencyCollate() if self.models_dependencies else collate_tokens

    @property
    def models_dependencies(self) -> bool:
        """Whether the present phase is the first, dependency modelling."""
        return self.phases[self.phase].name == "dependency_modeling"

    # Phase 1, Eq. 1

    def _dependency_nll(self, output: BackboneOutput, batch: TokenBatch) -> Float[Tensor, ""]:
        if not isinstance(batch, DependencyBatch) or batch.dependents is None:
            raise UserError("Dependency modelling needs trees: name an annotator under data.init_args.annotator.")
        weight, bias = self.backbone.output_weight, self.backbone.output_bias
        nll = dependency_nll(output.hidden, weight, bias, batch.dependents)
        # without effect: data-parallel training waits for a gradient of every parameter
        return nll + sum((0 * each.sum() for each in self._mixing_parameters()), start=nll.new_zeros(()))

    def _mixing_parameters(self) -> list[Parameter]:
        """The parameters that only the mixture has."""
        return [] if self.attention is None else list(self.attention.parameters())

    def trained_parameters(self) -> list[Parameter]:
        """All parameters; in phase 1, which mixes nothing, without the mixture's own: they would only decay."""
        spared = set(self._mixing_parameters()) if self.models_dependencies else set()
        return [parameter for parameter in super().trained_parameters() if parameter not in spared]

    # Phase 2, Eqs. 3 and 4

    @property
    def mixing_layer(self) -> int | None:
        """The backbone's layer whose attention weighs the mixture; None where `attention` does."""
        return self.attention_layer if self.attention is None else None

    def _attend(
        self, output: BackboneOutput, padding: Bool[Tensor, "batch length"] | None = None, past: SeenKeys | None = None
    ) -> tuple[Float[Tensor, "batch length context"], SeenKeys | None]:
        """Log a^(t), and the keys for the next call where the backbone's state does not hold them."""
        if self.attention is not None:
            log_attention, keys = self.attention(output.undropped, padding=padding, past=past, window=self.window)
            return log_attention, keys
        assert output.attention is not None, f"{type(self.backbone).__name__} returned no attention"
        return log_dependency_attention(output.attention, window=self.window), None

    def _mixed_log_probs(self, output: BackboneOutput, batch: TokenBatch) -> Float[Tensor, "batch length"]:
        log_attention, _ = self._attend(output)
        mix = mixture_log_probs if self.mixture_space == "probability" else pooled_log_probs
        weight, bias = self.backbone.output_weight, self.backbone.output_bias
        return mix(log_attention, output.hidden, weight, bias, batch.targets)

    def log_probs(self, batch: TokenBatch) -> Float[Tensor, "batch length"]:
        """The mixture's log-probability (nats) of each target, Eq. 3; without meaning at padding."""
        return self._mixed_log_probs(self.encode(batch, attention_layer=self.mixing_layer), batch)

    def training_step(self, batch: TokenBatch, batch_idx: int) -> Float[Tensor, ""]:
        """Phase 1: dependents' nll a position (Eq. 1, D7); phase 2: nll a token (Eq. 4); of the global batch."""
        if self.models_dependencies:
            output = self.encode(batch)
            loss = self.log_train(self._dependency_nll(output, batch), batch.global_tokens, name="dependency_loss")
        else:
            output = self.encode(batch, attention_layer=self.mixing_layer)
            nll = -self._mixed_log_probs(output, batch).masked_fill(~batch.is_word, 0).sum()
            loss = self.log_train(nll, batch.global_tokens)
        return loss + self.penalty(output, batch)

    def validation_step(self, batch: TokenBatch, batch_idx: int) -> None:
        """The phase's own loss on the validation split."""
        if not self.models_dependencies:
            super().validation_step(batch, batch_idx)
            return
        positions = batch.lengths.sum()
        nll = self._dependency_nll(self.encode(batch), batch)
        exact = precise(nll)
        self.dependency_loss.update(exact / positions, positions.to(exact.device))
        self.log("val/dependency_loss", self.dependency_loss, prog_bar=True, on_epoch=True, batch_size=1)

    # Inference

    def generation_step(
        self,
        tokens: Int[Tensor, "batch length"],
        padding: Bool[Tensor, "batch length"] | None,
        state: MixtureState | None,
    ) -> tuple[Float[Tensor, "batch vocab"], MixtureState]:
        """Log-probabilities of the next token by the exact trained mixture, and the next state."""
        distribution, state = self.drawing_step(tokens, padding, state)
        return distribution.log_probs if isinstance(distribution, Mixture) else distribution, state

    def drawing_step(
        self,
        tokens: Int[Tensor, "batch length"],
        padding: Bool[Tensor, "batch length"] | None,
        state: MixtureState | None,
    ) -> tuple[Float[Tensor, "batch vocab"] | Mixture, MixtureState]:
        """The mixture of Eq. 3 over the positions so far, and the next state."""
        carried, past = (None, None) if state is None else (state.backbone, state.keys)
        output = self.backbone(tokens, padding=padding, state=carried, attention_layer=self.mixing_layer, carry=True)
        assert output.state is not None
        weight, bias = self.backbone.output_weight, self.backbone.output_bias
        probability = self.mixture_space == "probability"
        hidden = output.hidden if self.window is None else output.hidden[:, -self.window :]
        new = log_softmax_over_vocabulary(hidden, weight, bias).exp() if probability else hidden
        components = Growing.of(new, dim=1) if state is None else state.components.extended(new)
        if self.window is not None:
            components = components.last(self.window)
        log_attention, keys = self._attend(output, padding, past)
        log_weights, next_state = log_attention[:, -1, -len(components) :], MixtureState(output.state, components, keys)
        if probability:
            return Mixture(log_weights, components.tensor), next_state
        pooled = (log_weights[:, None].exp() @ components.tensor)[:, 0]
        return log_softmax_over_vocabulary(pooled, weight, bias), next_state

    @torch.no_grad()
    def dependency_attention(self, tokens: Sequence[int], *, eos: int = EOS) -> Float[Tensor, "length length"]:
        """a^(t) for a sentence, Figure 3: row t when predicting token t + 1, over `<eos>` and the tokens before it."""
        inputs = torch.tensor([[eos, *tokens[:-1]]], device=self.device)
        log_attention, _ = self._attend(self.backbone(inputs, attention_layer=self.mixing_layer))
        return log_attention[0].exp()
