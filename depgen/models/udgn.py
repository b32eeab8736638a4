"""Unsupervised Dependency Graph Network. Shen, Tan, Sordoni, Li, Zhou & Courville (2022), ACL, "Unsupervised Dependency
Graph Network".

A parser gives each word a distribution over heads; a network of competitive attention heads passes messages along these
soft dependencies to predict masked words. Both are trained by that prediction alone, and the parser's trees come out.

    paper             here
    p_ij              the probability that word i depends on word j, Eq. 1 to 5: `HeadSelection`, `head_log_softmax`
    m_ij              Eq. 6: `undirected`
    q, k, v, g        `query`, `key`, `value`, `gate`, Eq. 7
    a_ijk             how much flows from word j to word i in attention head k, Eq. 8 to 15: `CompetitiveAttention`
    L_MLM             the mean nll of masked words: `MaskedLanguageModel.training_step`

Deviations
    D1. Six tag embeddings (`tags: 5`, the sixth is zero) are in the paper's Table 6 and no longer in the authors'
        last code; the paper's rows have them, the default has not: 49,928,878 parameters at 10,798 types.
    D2. A word's own place stays in the softmax of Eq. 5 and is set to 0 after it, not normalised again: its mass means
        "no head". There is no root in training.
    D3. 1e-6 is added to every m_ij (`MASK_FLOOR`), as in the code, whose product is taken in log space; ours is a plain
        product of the same value.
    D4. Eq. 12 adds the direction's bias after the scaling by the root of the head size, ours as the code before it.
    D5. The inner width of a layer is heads times head size, 1,024, wider than the states; there is no layer
        normalisation inside the stack, and one after it.
    D6. `<unk>` is never masked, as in the paper, and never predicted, as in the code.
    D7. Batches are cut again each epoch from sentences of like length, by a budget that counts padding and an end a
        sentence; in the code their composition never changes, and the budget counts words.
    D8. The Kirchhoff variant: marginals of trees with a single root; how that root is scored is not stated, ours takes
        each word's own place, which the softmax reads as "no head". Its mass is the root's marginal. An arc
        counts as at most 24 nats below its word's best (`DEPTH`).
    D9. Beyond the paper: `supervised_weight` adds the parser's cross-entropy against given trees, the mean over the
        words of the batch that have one; a root's target is its own place, by which roots are then found, too.
        `mask_from: trees` lets messages pass along given trees instead of the parser's. Without either, trees never
        reach the model.
    D10. The paper has dropout before all linear layers; as in the code, there is none before the projection of Eq. 7.
    D11. The parser reads the masked sentence in training, as in the code, and the whole one where it parses.
    D12. Under mixed precision the products of Eq. 1 to 4 and, on a CPU, the competition are in bf16 in training and its
        validation, as is the masked Transformer's attention, where StructFormer's is in full precision; tests and
        parses are in full precision. The gradients of trained networks stay as they are (cosines above 0.999).
    D13. The paper's dropout on attention "drops heads"; ours, as the code's, drops each pair of words of each head by
        itself.
"""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from depgen.data.batch import WordBatch
from depgen.errors import UserError
from depgen.language_models.masked import (
    HeadScores,
    LayerAttention,
    Lengths,
    MaskedLanguageModel,
    MaskedOutput,
    Tokens,
    without_own_place,
)
from depgen.nn.lengths import mask_of
from depgen.nn.precise import precise, restored
from depgen.nn.recurrent import call_lstm
from depgen.nn.vocabulary import full_precision

TINY = 1e-30
"""The least probability whose logarithm is taken."""
MASK_FLOOR = 1e-6
"""What is added to every m_ij (D3)."""
DEPTH = 24.0
"""Nats below its word's best arc from where on an arc counts as being just so far below. Two words that take each other
for heads by more than 36 would make a matrix that is singular in float64, as no tree has such a cycle."""


# -- 1. The parser (Sec. 3.1), Eq. 1 to 5 ---------------------------------------------------------------------------


class HeadSelection(nn.Module):
    """The score e_ij of every word j as the head of every word i, from words alone; arguments as of `UDGN`."""

    def __init__(
        self, vocabulary_size: int, *, width: int, layers: int = 3, tags: int = 0, dropout: float = 0.2
    ) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.embedding = nn.Embedding(vocabulary_size, width)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        self.tag_logits: nn.Parameter | None = None
        if tags:
            self.tag_logits = nn.Parameter(torch.zeros(vocabulary_size, tags + 1))
            self.tag_vectors = nn.Parameter(torch.empty(tags, width).uniform_(-0.1, 0.1))
        self.lstm = nn.LSTM(
            width, width, layers, batch_first=True, bidirectional=True, dropout=dropout if layers > 1 else 0.0
        )
        self.arcs = nn.Linear(2 * width, 2 * width)
        nn.init.xavier_uniform_(self.arcs.weight)
        nn.init.zeros_(self.arcs.bias)

    def forward(self, tokens: Tokens, lengths: Lengths) -> HeadScores:
        """The scores e_ij; at padding they mean nothing."""
        embedded = self.embedding(tokens)
        if self.tag_logits is not None:
            embedded = embedded + F.embedding(tokens, self.tag_logits).softmax(-1)[..., 1:] @ self.tag_vectors
        states = self.dropout(self._lstm_states(self.dropout(embedded), lengths))  # Eq. 1: h_i = BiLSTM(x_i)
        head, dependent = self.arcs(states).chunk(2, -1)  # Eq. 2, 3: h^H_i = W_H h_i + b_H, h^D_i = W_D h_i + b_D
        scores: Tensor = dependent @ head.mT * head.shape[-1] ** -0.5  # Eq. 4: e_ij = h^D_i . h^H_j / sqrt(D)
        return scores

    def _lstm_states(
        self, embedded: Float[Tensor, "batch length width"], lengths: Lengths
    ) -> Float[Tensor, "batch length states"]:
        """The LSTM's states; packed only on a GPU, and only where sentences differ in length."""
        length = embedded.shape[1]
        if bool((lengths == length).all()):
            return call_lstm(self.lstm, embedded)[0]  # type: ignore[no-any-return]
        if embedded.device.type == "cpu":
            return self._padded_lstm(embedded, lengths)
        descending, order = lengths.cpu().sort(descending=True)
        back, order = (each.to(embedded.device, non_blocking=True) for each in (order.argsort(), order))
        packed = pack_padded_sequence(embedded[order], descending, batch_first=True)
        states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=length)
        return states[back]

    def _padded_lstm(
        self, embedded: Float[Tensor, "batch length width"], lengths: Lengths
    ) -> Float[Tensor, "batch length states"]:
        """The LSTM's states, layer by layer: the backward direction runs forward over reversed sentences.

        Padding then comes last in both directions. PyTorch's fused CPU kernel takes no packed sequences; with these, a
        training step takes 1.2 times as long at 128 units in bf16, 1.06 times at the paper's size.
        """
        lstm, places = self.lstm, torch.arange(embedded.shape[1], device=embedded.device)
        last = lengths[:, None] - 1
        rows = torch.arange(len(embedded), device=embedded.device)[:, None] * embedded.shape[1]
        order = rows + torch.where(places <= last, last - places, places)
        start = embedded.new_zeros(1, len(embedded), lstm.hidden_size)
        states = embedded
        for layer in range(lstm.num_layers):
            directions = []
            for suffix in ("", "_reverse"):
                names = (f"{kind}_l{layer}{suffix}" for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
                weights = [getattr(lstm, name) for name in names]
                source = F.embedding(order, states.flatten(0, 1)) if suffix else states
                options = (True, 1, 0.0, self.training, False, True)
                seen = call_lstm(torch.lstm, source, (start, start), weights, *options)[0]
                directions.append(F.embedding(order, seen.flatten(0, 1)) if suffix else seen)
            states = torch.cat(directions, 2)
            if layer + 1 < lstm.num_layers:
                states = F.dropout(states, lstm.dropout, training=self.training)
        return states


def head_log_softmax(scores: HeadScores, is_word: Bool[Tensor, "batch length"]) -> HeadScores:
    """Eq. 5: log p_ij = e_ij - log sum_k exp(e_ik) over the words k of a sentence, i included (D2); -inf at padding.

    At least in fp32.
    """
    return full_precision(scores).masked_fill(~is_word[:, None, :], -torch.inf).log_softmax(-1)


def tree_marginals(
    scores: Float[Tensor, "batch dependents heads"],
    root_scores: Float[Tensor, "batch dependents"],
    is_word: Bool[Tensor, "batch length"],
) -> tuple[Float[Tensor, "batch dependents heads"], Float[Tensor, "batch dependents"]]:
    """How probable each arc and each root is where a tree's weight is exp of its arcs' and its one root's scores (D8).

    The trees are all non-projective ones with a single root; by Kirchhoff's theorem (Koo, Globerson, Carreras &
    Collins, 2007). In float64, returned in the scores' precision; 0 at padding and on the diagonal. `scores[b, i, j]`
    is that of word i depending on word j; the diagonal is ignored. One inverse a sentence, O(n^3); differentiable.
    """
    length = scores.shape[1]
    arcs, roots = precise(scores), precise(root_scores)
    is_word, diagonal = is_word.to(arcs.device), torch.eye(length, dtype=torch.bool, device=arcs.device)
    possible = is_word[:, :, None] & is_word[:, None, :] & ~diagonal
    arcs, roots = arcs.masked_fill(~possible, -torch.inf), roots.masked_fill(~is_word, -torch.inf)
    # neither a constant a word nor one for all roots changes how probable a tree is: each word's best arc weighs 1, and
    # so does the best root
    highest = arcs.amax(2).detach()
    highest = highest.masked_fill(highest.isneginf(), 0)
    below = arcs - highest[:, :, None]
    weights = torch.where(below.isneginf(), below, below.clamp_min(-DEPTH)).exp()
    roots = roots - highest
    root_weights = (roots - roots.amax(1, keepdim=True).detach()).exp()
    laplacian = torch.diag_embed(weights.sum(2)) - weights
    laplacian = torch.cat((root_weights[:, :, None], laplacian[:, :, 1:]), 2)
    laplacian = laplacian + torch.diag_embed((~is_word).double())
    inverse = torch.linalg.inv(laplacian)
    first = torch.arange(length, device=arcs.device) == 0
    own = inverse.diagonal(dim1=1, dim2=2).masked_fill(first, 0)
    other = inverse.masked_fill(first[:, None], 0)  # [k, i]: 0 in the first row
    marginals = weights * (own[:, :, None] - other.mT)
    return restored(marginals, scores), restored(root_weights * inverse[:, 0], scores)


# -- 2. The dependency mask (Sec. 3.2), Eq. 6 -----------------------------------------------------------------------


def undirected(probabilities: HeadScores) -> Float[Tensor, "batch length length"]:
    """Eq. 6: m_ij = p_ij + p_ji - p_ij p_ji, the probability that either of two words is the other's head."""
    transposed = probabilities.mT
    return probabilities + transposed - probabilities * transposed


# -- 3. The dependency graph network (Sec. 3.3), Eq. 7 to 15 ---------------------------------------------------------


class Competition(NamedTuple):
    """What one layer returns.

    Attributes:
        output: what Eq. 15 adds to the word states.
        before: the share of each attention head in each pair of words (a hat), before the mask and dropout.
    """

    output: Float[Tensor, "batch length width"]
    before: Float[Tensor, "batch attention_heads queries keys"]


class CompetitiveAttention(nn.Module):
    """One layer of the dependency graph network, Eq. 7 to 15: attention heads compete for each pair of words.

    Weights are normalised over attention heads, not over keys, so fused attention kernels do not apply. The arguments
    are those of `UDGN`.
    """

    def __init__(
        self,
        width: int,
        *,
        attention_heads: int,
        head_size: int,
        dropout: float = 0.2,
        attention_dropout: float = 0.1,
        competition: bool = True,
        gates: bool = True,
        nonlinear: bool = True,
        relative_bias: bool = True,
    ) -> None:
        super().__init__()
        self.attention_heads, self.head_size = attention_heads, head_size
        self.dropout, self.attention_dropout = nn.Dropout(dropout), nn.Dropout(attention_dropout)
        self.competition, self.gates, self.nonlinear = competition, gates, nonlinear
        inner = attention_heads * head_size
        self.projection = nn.Linear(width, (3 + gates) * inner)
        self.output = nn.Linear(inner, width)
        for linear in (self.projection, self.output):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)
        self.direction_bias: nn.Parameter | None = None
        if relative_bias:
            self.direction_bias = nn.Parameter(torch.empty(2, attention_heads).uniform_(-0.1, 0.1))

    def forward(
        self,
        states: Float[Tensor, "batch length width"],
        dependency_mask: Float[Tensor, "batch queries keys"],
    ) -> Competition:
        """The update of each word's state h, where m_ij of the mask may flow from word j (key) to word i (query).

        The mask is 0 at keys that are padding.
        """
        batch, length = states.shape[:2]
        attention_heads, size = self.attention_heads, self.head_size
        parts = self.projection(states).view(batch, length, 3 + self.gates, attention_heads, size)
        # each [batch attention_heads length size]
        query, key, value = (part.transpose(1, 2) for part in parts.unbind(2)[:3])  # Eq. 7
        scores = query @ key.mT * size**-0.5  # Eq. 9: e_ijk = q_ik . k_jk / sqrt(D)
        if self.direction_bias is not None:
            # Eq. 13: b^l_k if i > j, b^r_k if i < j
            bias = torch.einsum("dk,dij->kij", self.direction_bias, directions_of(length, like=states))
            scores = scores + bias * size**-0.5  # Eq. 12: e_ijk + b^lr_k (D4)
        before = scores.softmax(1) if self.competition else scores.sigmoid()  # Eq. 10, 12: softmax over k
        weights = self.attention_dropout(before * dependency_mask[:, None])  # Eq. 11: a_ijk = a^_ijk m_ij
        values = value.tanh() if self.nonlinear else value  # Eq. 8: sigma(v_jk)
        gathered = (weights @ values).transpose(1, 2)  # Eq. 14: o_ik = sum_j a_ijk c_ijk
        if self.gates:
            gathered = gathered * parts[:, :, 3].sigmoid()  # Eq. 8: sigmoid(g_ik) is the same for all j
        inner = self.dropout(gathered.reshape(batch, length, attention_heads * size))
        return Competition(self.dropout(self.output(inner)), before)  # Eq. 15: W_o [o_i1 ... o_iN] + b_o


def directions_of(length: int, *, like: Tensor) -> Float[Tensor, "2 queries keys"]:
    """Two matrices for Eq. 13: 1 where the key is left of the query, and 1 where it is right of it; 0 elsewhere."""
    ones = like.new_ones(length, length)
    return torch.stack((ones.tril(-1), ones.triu(1)))


# -- 4. Beyond the paper: trees that are given (D9) ------------------------------------------------------------------


def supervised_nll(head_log_probs: HeadScores, heads: Tokens) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
    """The nats of given heads, summed, and their number; a root's target is its own place, -1 is no head."""
    own = torch.arange(heads.shape[1], device=heads.device)
    annotated = heads >= 0
    targets = torch.where(heads > 0, heads - 1, own)
    nll = -head_log_probs.gather(2, targets[:, :, None])[:, :, 0]
    return nll.masked_fill(~annotated, 0).sum(), annotated.sum()


def mask_of_trees(heads: Tokens) -> Float[Tensor, "batch length length"]:
    """1 between a word and its head, in both directions; 0 elsewhere."""
    places = torch.arange(1, heads.shape[1] + 1, device=heads.device)
    arcs = (heads[:, :, None] == places).float()
    return torch.maximum(arcs, arcs.mT)


# -- 5. The system --------------------------------------------------------------------------------------------------


class UDGN(MaskedLanguageModel):
    """A parser, a dependency graph network over its soft trees, and the prediction of masked words.

    Args:
        vocabulary_size: number of token types; linked from the data.
        width: size of word states, embeddings, head and dependent vectors (D), and the parser's LSTM in each direction.
        layers: number of layers of the dependency graph network.
        attention_heads: attention heads per layer (the paper's N), one per kind of dependency.
        head_size: size of the queries, keys, values and gates of each attention head (D).
        parser_layers: layers of the parser's LSTM.
        tags: trainable tag embeddings of the parser, which word types mix (D1); 0 for none.
        dropout: of embeddings, before and after output projections and of the last states.
        attention_dropout: of the masked weights, independently per query, key and attention head (D13).
        parser_dropout: of the parser's embeddings, between its layers and of its LSTM's output.
        competition: softmax over attention heads (Eq. 10); false, an ablation: a sigmoid per attention head.
        gates: multiply by the gate of Eq. 8; false: the ablation.
        nonlinear: apply tanh to the values (Eq. 8); false: the ablation.
        relative_bias: add the bias of Eq. 13, two numbers per attention head; false: the ablation.
        positions: add learned absolute positions to the embeddings; the ablation with them has `relative_bias: false`.
        max_length: number of these positions.
        marginals: `softmax` of Eq. 5, or `kirchhoff`: the marginals of single-rooted trees (D8).
        mask_from: whose arcs the messages pass along: `parser`, or `trees` that the data's annotator gives (gold,
            silver, right chain); name it under data.init_args.annotator, with trees_for: [train, valid, test]. Or
            `uniform`, a control: every other word of the sentence is as likely a head.
        supervised_weight: of the parser's cross-entropy against the annotator's trees in training (D9), which need not
            be of all sentences.
        kwargs: see `MaskedLanguageModel`.
    """

    def __init__(
        self,
        vocabulary_size: int,
        width: int = 512,
        layers: int = 8,
        attention_heads: int = 8,
        head_size: int = 128,
        parser_layers: int = 3,
        tags: int = 0,
        dropout: float = 0.2,
        attention_dropout: float = 0.1,
        parser_dropout: float = 0.2,
        competition: bool = True,
        gates: bool = True,
        nonlinear: bool = True,
        relative_bias: bool = True,
        positions: bool = False,
        max_length: int = 500,
        marginals: Literal["softmax", "kirchhoff"] = "softmax",
        mask_from: Literal["parser", "trees", "uniform"] = "parser",
        supervised_weight: float = 0.0,
        **kwargs: Any,  # noqa: ANN401, of the base
    ) -> None:
        super().__init__(**kwargs)
        if supervised_weight < 0:
            raise UserError(f"supervised_weight: expected 0 or more, found {supervised_weight}.")
        self.save_hyperparameters()
        self.parser = HeadSelection(
            vocabulary_size, width=width, layers=parser_layers, tags=tags, dropout=parser_dropout
        )
        self.embedding = nn.Embedding(vocabulary_size, width)
        self.positions = nn.Embedding(max_length, width) if positions else None
        self.longest_scored = max_length if positions else None
        for embedding in filter(None, (self.embedding, self.positions)):
            nn.init.uniform_(embedding.weight, -0.1, 0.1)
        self.layers = nn.ModuleList(
            CompetitiveAttention(
                width, attention_heads=attention_heads, head_size=head_size, dropout=dropout,
                attention_dropout=attention_dropout, competition=competition, gates=gates, nonlinear=nonlinear,
                relative_bias=relative_bias,
            )
            for _ in range(layers)
        )  # fmt: skip
        self.norm = nn.LayerNorm(width)
        self.bias = nn.Parameter(torch.zeros(vocabulary_size))
        self.dropout = nn.Dropout(dropout)
        self.marginals, self.mask_from, self.supervised_weight = marginals, mask_from, supervised_weight
        if not self._parser_learns:
            self.parser.requires_grad_(False)  # no loss depends on it: devices would wait for its gradients

    @property
    def output_weight(self) -> Float[Tensor, "vocab width"]:
        """Tied to the embedding."""
        return self.embedding.weight

    @property
    def output_bias(self) -> Float[Tensor, " vocab"]:
        """A parameter of the output alone."""
        return self.bias

    # The parser

    def parser_parameters(self) -> Iterator[nn.Parameter]:
        """All parameters of the parser, its embeddings included."""
        yield from self.parser.parameters()

    @property
    def learns_from_trees(self) -> bool:
        """Whether messages pass along given trees, or the parser learns from them."""
        return self.mask_from == "trees" or self.supervised_weight > 0

    @property
    def _parser_learns(self) -> bool:
        return self.mask_from == "parser" or self.supervised_weight > 0

    def head_log_probs(self, tokens: Tokens, lengths: Lengths) -> HeadScores:
        """Log p_ij, at least in fp32; a word's own place is "no head"."""
        is_word = mask_of(lengths, tokens.shape[1], device=tokens.device)
        scores = full_precision(self.parser(tokens, lengths))
        if self.marginals == "softmax":
            return head_log_softmax(scores, is_word)
        arcs, roots = tree_marginals(scores, scores.diagonal(dim1=1, dim2=2), is_word)
        return (arcs + torch.diag_embed(roots)).clamp_min(TINY).log()

    def head_probabilities(self, tokens: Tokens, lengths: Lengths) -> HeadScores:
        """p_ij (`HeadNetwork`), without the diagonal unless trees have taught the parser its roots (D9)."""
        if not self._parser_learns:
            raise UserError(
                f"This UDGN's parser has learnt nothing (mask_from: {self.mask_from}, supervised_weight: 0), so that "
                "it can't parse. Take a run with model.init_args.mask_from: parser, or with "
                "model.init_args.supervised_weight above 0."
            )
        probabilities = self.head_log_probs(tokens, lengths).exp()
        is_word = mask_of(lengths, tokens.shape[1], device=tokens.device)
        if self.supervised_weight:
            return probabilities.masked_fill(~(is_word[:, :, None] & is_word[:, None, :]), 0)
        return without_own_place(probabilities, is_word)

    # The dependency graph network

    def encode(
        self,
        tokens: Tokens,
        lengths: Lengths,
        *,
        heads: Tokens | None = None,
        attention: bool = False,
        all_layers: bool = False,
    ) -> MaskedOutput:
        """The word states after all layers; see `MaskedLanguageModel.encode`."""
        is_word = mask_of(lengths, tokens.shape[1], device=tokens.device)
        parses = self.mask_from == "parser" or (self.training and self._parser_learns)
        parsed = self.head_log_probs(tokens, lengths) if parses else None
        dependency_mask = (self._dependency_mask(parsed, heads, is_word) + MASK_FLOOR) * is_word[:, None, :]
        states = self.embedding(tokens)
        if self.positions is not None:
            if tokens.shape[1] > self.positions.num_embeddings:
                raise UserError(
                    f"A sentence has {tokens.shape[1]} words, but there are {self.positions.num_embeddings} positions: "
                    f"set model.init_args.max_length to at least {tokens.shape[1]}."
                )
            states = states + self.positions.weight[: tokens.shape[1]]
        states = self.dropout(states)
        seen, every = [], [states]
        for layer in self.layers:
            gathered = layer(states, dependency_mask)
            states = states + gathered.output  # Eq. 15: h^l_i = h^{l-1}_i + W_o [o_i1 ... o_iN] + b_o
            every.append(states)
            if attention:
                seen.append(LayerAttention(gathered.before, gathered.before * dependency_mask[:, None]))
        hidden = self.dropout(self.norm(states))
        return MaskedOutput(hidden, parsed, tuple(seen) if attention else None, tuple(every) if all_layers else None)

    def _dependency_mask(
        self, parsed: HeadScores | None, heads: Tokens | None, is_word: Bool[Tensor, "batch length"]
    ) -> Float[Tensor, "batch length length"]:
        if self.mask_from == "parser":
            assert parsed is not None
            return undirected(without_own_place(parsed.exp(), is_word))
        if self.mask_from == "uniform":
            others = (is_word.sum(1) - 1).clamp_min(1)[:, None, None]
            return undirected(
                without_own_place((is_word[:, None, :] / others).expand(-1, is_word.shape[1], -1), is_word)
            )
        given = _given(heads, "mask_from: trees", splits="[train, valid, test]")
        if (is_word & (given < 0)).any():
            raise UserError(
                "mask_from: trees needs a tree of every sentence, but the annotator leaves some out: name one under "
                "data.init_args.annotator that gives each a tree, or take mask_from: parser."
            )
        return mask_of_trees(given)

    # Training

    def extra_loss(self, output: MaskedOutput, batch: WordBatch) -> Float[Tensor, ""] | None:
        """The weighted cross-entropy of given heads (D9)."""
        if not self.supervised_weight:
            return None
        assert output.head_log_probs is not None
        nll, count = supervised_nll(output.head_log_probs, _given(batch.heads, "supervised_weight", splits="[train]"))
        return self.supervised_weight * self.log_train(nll, self.summed_over_devices(count), name="head_nll")


def _given(heads: Tokens | None, option: str, *, splits: str) -> Int[Tensor, "batch length"]:
    if heads is None:
        raise UserError(
            f"{option} needs trees, which texts that are scored, encoded or paired do not have: take a run without it. "
            "To train, name an annotator under data.init_args.annotator, and the splits that get trees under "
            f"data.init_args.trees_for: {splits}."
        )
    return heads
