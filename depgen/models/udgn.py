"""Unsupervised Dependency Graph Network. Shen, Tan, Sordoni, Li, Zhou & Courville (2022), ACL, "Unsupervised Dependency
Graph Network".

A parser gives each word a distribution over heads; a network of competitive attention heads passes messages along these
soft dependencies to predict masked words. Both are trained by that prediction alone, and the parser's trees come out.

    paper             here
    p_ij              `head_log_probs`, Eq. 2 to 5: word i depends on word j (`depgen.nn.head_selection`)
    m_ij              `undirected`, Eq. 6
    DGN               `depgen.nn.competitive_attention`, Eq. 7 to 15
    L_MLM             `MaskedLanguageModel.training_step`: the mean nll of masked words

Deviations
    D1. Six tag embeddings (`tags: 5`, the sixth is zero) stand in the paper's Table 6 and are gone from the authors'
        last code; the paper's rows have them, the default has not: 49,928,878 parameters at 10,798 types.
    D2. A word's own place stays in the softmax of Eq. 5 and is set to 0 after it, not normalised again: its mass means
        "no head". There is no root in training.
    D3. 1e-6 is added to every m_ij (`mask_floor`), as in the code, whose product is taken in log space; ours is a plain
        product of the same value.
    D4. Eq. 12 adds the direction's bias after the scaling by the root of the head size, the code before it
        (`scaled_bias`).
    D5. The inner width of a layer is heads times head size, 1,024, wider than the states; there is no layer
        normalisation inside the stack, and one after it.
    D6. `<unk>` is never masked and never predicted, as in the code.
    D7. Batches are cut anew each epoch from sentences of like length, by a budget that counts padding and an end a
        sentence; in the code their composition never changes, and the budget counts words.
    D8. The Kirchhoff variant: marginals of trees with a single root; how that root is scored is not stated, ours takes
        each word's own place, which the softmax reads as "no head". Its mass is the root's marginal. An arc
        counts as at most 24 nats below its word's best.
    D9. Beyond the paper: `supervised_weight` adds the parser's cross-entropy against given trees, the mean over the
        words of the batch that have one; a root's target is its own place, by which roots are then found, too.
        `mask_from: trees` lets messages pass along given trees instead of the parser's. Without either, trees never
        reach the model.
    D10. The paper has dropout before all linear layers; as in the code, there is none before the projection of Eq. 7.
    D11. The parser reads the masked sentence in training, as in the code, and the whole one where it parses.
    D12. Under mixed precision the products behind p_ij and, on a CPU, the competition are in bf16 in training and its
        validation, as is the masked Transformer's attention, where StructFormer's is in full precision; tests and
        parses are in full precision. The gradients of trained networks stay as they are (cosines above 0.999).
    D13. The paper's dropout on attention "drops heads"; ours, as the code's, drops each pair of words of each head by
        itself.
"""

import inspect
import logging
from collections.abc import Iterator
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from depgen.data.batch import WordBatch
from depgen.decoding.matrix_tree import tree_marginals
from depgen.errors import UserError
from depgen.language_models.base import OptimizerFactory, SchedulerFactory
from depgen.language_models.masked import LayerAttention, MaskedLanguageModel, MaskedOutput, word_mask
from depgen.nn.competitive_attention import CompetitiveAttention, directions_of
from depgen.nn.dropout import dropped
from depgen.nn.head_selection import HeadSelection, head_log_softmax, undirected, without_own_place
from depgen.nn.vocabulary import full_precision

log = logging.getLogger(__name__)

TINY = 1e-30


def supervised_nll(
    head_log_probs: Float[Tensor, "batch dependents heads"], heads: Int[Tensor, "batch length"]
) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
    """The nats of given heads, summed, and how many there are; a root's head is its own place, -1 is none given."""
    own = torch.arange(heads.shape[1], device=heads.device)
    annotated = heads >= 0
    targets = torch.where(heads > 0, heads - 1, own)
    nll = -head_log_probs.gather(2, targets[:, :, None])[:, :, 0]
    return nll.masked_fill(~annotated, 0).sum(), annotated.sum()


def mask_of_trees(heads: Int[Tensor, "batch length"]) -> Float[Tensor, "batch length length"]:
    """1 between a word and its head, in both directions; 0 elsewhere."""
    places = torch.arange(1, heads.shape[1] + 1, device=heads.device)
    arcs = (heads[:, :, None] == places).float()
    return torch.maximum(arcs, arcs.mT)


class UDGN(MaskedLanguageModel):
    """A parser, a dependency graph network over its soft trees, and the prediction of masked words.

    Args:
        vocabulary_size: number of token types; linked from the data.
        width: of word states, embeddings and the parser's vectors.
        layers: of the dependency graph network.
        attention_heads: kinds of dependency.
        head_size: of each.
        parser_layers: of the parser's LSTM.
        parser_hidden_size: of that LSTM in each direction; None = `width`.
        tags: trainable tag embeddings of the parser (D1).
        dropout: of embeddings, around output projections and of the last states.
        attention_dropout: of the masked weights.
        parser_dropout: of the parser.
        competition: heads compete for each pair; false: the ablation.
        gates: sums are gated; false: the ablation.
        nonlinear: values pass through tanh; false: the ablation.
        relative_bias: a bias of direction; false: the ablation.
        scaled_bias: see D4.
        positions: learned absolute positions, added to the embeddings, for the ablation that trades the bias for them.
        max_length: of these positions.
        marginals: `softmax` of Eq. 5, or `kirchhoff`: the marginals of single-rooted trees (D8).
        mask_from: whose arcs the messages pass along: `parser`, or `trees` that the data's annotator gives (gold,
            silver, right chain); name it under data.init_args.annotator, with trees_for: [train, valid, test].
        mask_floor: see D3.
        supervised_weight: of the parser's cross-entropy against the annotator's trees in training (D9), which need not
            be of all sentences.
        mask_rate: see `MaskedLanguageModel`.
        evaluation_masks: see `MaskedLanguageModel`.
        evaluation_seed: see `MaskedLanguageModel`.
        optimizer: see `LanguageModel`.
        scheduler: see `LanguageModel`.
    """

    def __init__(
        self,
        vocabulary_size: int,
        width: int = 512,
        layers: int = 8,
        attention_heads: int = 8,
        head_size: int = 128,
        parser_layers: int = 3,
        parser_hidden_size: int | None = None,
        tags: int = 0,
        dropout: float = 0.2,
        attention_dropout: float = 0.1,
        parser_dropout: float = 0.2,
        competition: bool = True,
        gates: bool = True,
        nonlinear: bool = True,
        relative_bias: bool = True,
        scaled_bias: bool = True,
        positions: bool = False,
        max_length: int = 500,
        marginals: Literal["softmax", "kirchhoff"] = "softmax",
        mask_from: Literal["parser", "trees"] = "parser",
        mask_floor: float = 1e-6,
        supervised_weight: float = 0.0,
        mask_rate: float = 0.3,
        evaluation_masks: int = 5,
        evaluation_seed: int = 0,
        optimizer: OptimizerFactory | None = None,
        scheduler: SchedulerFactory | None = None,
    ) -> None:
        super().__init__(
            mask_rate=mask_rate, evaluation_masks=evaluation_masks, evaluation_seed=evaluation_seed,
            optimizer=optimizer, scheduler=scheduler,
        )  # fmt: skip
        if supervised_weight < 0:
            raise UserError(f"supervised_weight: expected 0 or more, found {supervised_weight}.")
        self.save_hyperparameters()
        self.parser = HeadSelection(
            vocabulary_size, width=width, layers=parser_layers, hidden_size=parser_hidden_size or width, tags=tags,
            dropout=parser_dropout,
        )  # fmt: skip
        self.embedding = nn.Embedding(vocabulary_size, width)
        self.positions = nn.Embedding(max_length, width) if positions else None
        self.longest_scored = max_length if positions else None
        for embedding in filter(None, (self.embedding, self.positions)):
            nn.init.uniform_(embedding.weight, -0.1, 0.1)
        self.layers = nn.ModuleList(
            CompetitiveAttention(
                width, attention_heads=attention_heads, head_size=head_size, dropout=dropout,
                attention_dropout=attention_dropout, competition=competition, gates=gates, nonlinear=nonlinear,
                relative_bias=relative_bias, scaled_bias=scaled_bias,
            )
            for _ in range(layers)
        )  # fmt: skip
        self.norm = nn.LayerNorm(width)
        self.bias = nn.Parameter(torch.zeros(vocabulary_size))
        self.dropout, self.marginals, self.mask_from, self.mask_floor = dropout, marginals, mask_from, mask_floor
        self.supervised_weight, self.needs_trees = supervised_weight, mask_from == "trees"
        if not self._parser_learns:
            self.parser.requires_grad_(False)  # no loss depends on it: devices would wait for its gradients

    @property
    def output_weight(self) -> Float[Tensor, "vocab width"]:
        """Tied to the embedding."""
        return self.embedding.weight

    @property
    def output_bias(self) -> Float[Tensor, " vocab"]:
        """The output's own."""
        return self.bias

    # -- the parser, Eq. 2 to 5 -----------------------------------------------------------------------------------

    def parser_parameters(self) -> Iterator[nn.Parameter]:
        """The parser's, which has embeddings of its own."""
        yield from self.parser.parameters()

    @property
    def learns_from_trees(self) -> bool:
        """Whether messages pass along given trees, or the parser learns from them."""
        return self.needs_trees or self.supervised_weight > 0

    @property
    def _parser_learns(self) -> bool:
        return self.mask_from == "parser" or self.supervised_weight > 0

    def head_log_probs(
        self, tokens: Int[Tensor, "batch length"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch dependents heads"]:
        """Log p_ij, at least in fp32; a word's own place is "no head"."""
        words = word_mask(tokens, lengths)
        scores = full_precision(self.parser(tokens, lengths))
        if self.marginals == "softmax":
            return head_log_softmax(scores, words)
        arcs, roots = tree_marginals(scores, scores.diagonal(dim1=1, dim2=2), words)
        return (arcs + torch.diag_embed(roots)).clamp_min(TINY).log()

    def head_probabilities(
        self, tokens: Int[Tensor, "batch length"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch dependents heads"]:
        """p_ij (`HeadNetwork`), without the diagonal unless trees have taught the parser its roots (D9).

        Raises:
            UserError: the parser has not been trained.
        """
        if not self._parser_learns:
            raise UserError(
                "This UDGN was told its trees (mask_from: trees) and its parser has learnt nothing (supervised_weight: "
                "0), so that it has no trees of its own. Take a run with model.init_args.mask_from: parser, or with "
                "model.init_args.supervised_weight above 0."
            )
        probabilities, words = self.head_log_probs(tokens, lengths).exp(), word_mask(tokens, lengths)
        if self.supervised_weight:
            return probabilities.masked_fill(~(words[:, :, None] & words[:, None, :]), 0)
        return without_own_place(probabilities, words)

    # -- the dependency graph network, Eq. 6 to 15 ------------------------------------------------------------------

    def read(
        self,
        tokens: Int[Tensor, "batch length"],
        lengths: Int[Tensor, " batch"],
        *,
        heads: Int[Tensor, "batch length"] | None = None,
        attention: bool = False,
    ) -> MaskedOutput:
        """States that have gathered what the other words know; see `MaskedLanguageModel.read`."""
        words = word_mask(tokens, lengths)
        parsed = self.head_log_probs(tokens, lengths) if self._parses else None
        mask = (self._mask(parsed, heads, words) + self.mask_floor) * words[:, None, :]
        states = self.embedding(tokens)
        if self.positions is not None:
            states = states + self._positions(tokens.shape[1])
        states = dropped(states, self.dropout, training=self.training)
        directions, seen = directions_of(tokens.shape[1], like=states), []
        for layer in self.layers:
            gathered = layer(states, mask, directions=directions)
            states = states + gathered.output
            if attention:
                seen.append(LayerAttention(gathered.before, gathered.before * mask[:, None]))
        hidden = dropped(self.norm(states), self.dropout, training=self.training)
        return MaskedOutput(hidden, parsed, tuple(seen) if attention else None)

    @property
    def _parses(self) -> bool:
        return self.mask_from == "parser" or (self.training and self._parser_learns)

    def _mask(
        self,
        parsed: Float[Tensor, "batch dependents heads"] | None,
        heads: Int[Tensor, "batch length"] | None,
        words: Bool[Tensor, "batch length"],
    ) -> Float[Tensor, "batch length length"]:
        if self.mask_from == "parser":
            assert parsed is not None
            return undirected(without_own_place(parsed.exp(), words))
        given = _given(heads, "mask_from: trees", splits="[train, valid, test]")
        if (words & (given < 0)).any():
            raise UserError(
                "mask_from: trees needs a tree of every sentence, but the annotator leaves some out: name one under "
                "data.init_args.annotator that gives each a tree, or take mask_from: parser."
            )
        return mask_of_trees(given)

    def _positions(self, length: int) -> Float[Tensor, "length width"]:
        assert self.positions is not None
        if length > self.positions.num_embeddings:
            raise UserError(
                f"A sentence has {length} words, but there are {self.positions.num_embeddings} positions: set "
                f"model.init_args.max_length to at least {length}."
            )
        return self.positions.weight[:length]

    # -- training ---------------------------------------------------------------------------------------------------

    def on_fit_start(self) -> None:
        """Warn of settings that others leave without effect, too; see `MaskedLanguageModel.on_fit_start`."""
        super().on_fit_start()
        defaults = inspect.signature(type(self)).parameters
        for cause, names in self._ignored():
            if told := [name for name in names if self.hparams[name] != defaults[name].default]:
                log.warning("Without effect with %s: %s.", cause, ", ".join(told))

    def _ignored(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """What leaves which settings without effect."""
        if self.positions is None:
            yield "positions: false", ("max_length",)
        if not self.hparams["relative_bias"]:
            yield "relative_bias: false", ("scaled_bias",)
        if not self._parser_learns:
            names = ("marginals", "tags", "parser_layers", "parser_hidden_size", "parser_dropout")
            yield "mask_from: trees and supervised_weight: 0", names

    def extra_loss(self, output: MaskedOutput, batch: WordBatch) -> Float[Tensor, ""] | None:
        """The weighted cross-entropy of given heads (D9)."""
        if not self.supervised_weight:
            return None
        assert output.head_log_probs is not None
        nll, count = supervised_nll(output.head_log_probs, _given(batch.heads, "supervised_weight", splits="[train]"))
        return self.supervised_weight * self.log_train(nll, self.summed_over_devices(count), name="head_nll")


def _given(heads: Int[Tensor, "batch length"] | None, option: str, *, splits: str) -> Int[Tensor, "batch length"]:
    if heads is None:
        raise UserError(
            f"{option} needs trees: name an annotator under data.init_args.annotator, and the splits that get trees "
            f"under data.init_args.trees_for: {splits}."
        )
    return heads
