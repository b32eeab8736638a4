"""Which dependencies connect a word with those before it, and how many: the scorer of GiLT.

Huang, Zhao, Zhou & Tu (2026), "GiLT: Augmenting Transformer Language Models with Dependency Graphs", sections 3.1 and
3.2. For the word i and each earlier word j, 0 = root, it scores j -> i, i -> j, and c_i, the number of such arcs:

    par_ij = MLP2_par(MLP1_par(o_i) + pe_ij),  chd_ij alike            `PairSide`
    j -> i    par_ji . B chd_ii                                        `from_earlier`
    i -> j    par_ii . B chd_ji                                        `to_earlier`
    s_i = sum_{j<i} par_ji * S chd_ii + sum_{1<=j<i} par_ii * S chd_ji + par_ii * S chd_ii
    c_i       W s_i / sqrt(2 i) + b                                    `counts`

pe_ij is a projection of the sinusoid of |i - j| plus one of the embeddings of j's features in the graph of the words
before i; the current word's own features are 0. The root has a vector in place of o, and is a parent alone.

The representations of pairs are never computed. MLP2's first product is a sum of rows: of MLP1(o_j), of the distance
and of each feature, scaled by the deviation that its normalisation finds. Each row is multiplied once, and a pair adds
rows. What follows MLP2's hidden layer is linear, so it is applied to the current word's vector and to sums over pairs.
On each side a pair then costs about 11 operations for each of 2d elements, in place of products of about 20 d^2 FLOP.
With gradients by autograd in place of `_PairScores`, a step of training GiLT took 1.12 (width 128) and 1.07 times as
long (the paper's size) on a CPU.

Deviations from the paper (P) and the authors' code (C)
    D1. B and S are diagonal as they are in C, whose einsum takes the diagonal of whole matrices. Only what is used is a
        parameter: at d = 1024 and C = 29 there are 51,568,926 parameters. C has 53,666,079: its matrices are
        1025 x 1025 and 1024 x 1024, and 2 x 1024 of their entries are trained. They start from U[0, 1).
    D2. Impossible counts (> 2i - 1, all arcs that word i can have) get the logit -inf in training and in search.
        Targets are always possible, so a masked softmax loses nothing. C trains without a mask, and cuts to the best
        few counts before it drops the impossible ones, which can leave no hypothesis.
    D3. sqrt(2 i) as in C; P has sqrt(2 i - 1).
    D4. The self-loop i -> i is scored and trained as a negative, as in C; no search uses it. Its pair is in s_i. The
        root is no child, as in C; the first sum of Eq. 3 in P has it as one.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Integer
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from depgen.nn.feature_tapes import FEATURES, LARGEST
from depgen.nn.lengths import mask_of
from depgen.nn.positions import sinusoids
from depgen.nn.rows import Rows
from depgen.nn.vocabulary import full_precision

VALUES = LARGEST + 1
"""Of a feature."""
CHUNK_ELEMENTS = {"cpu": 1 << 19, "cuda": 1 << 26}
"""Elements of hidden layers computed at once: 2 MiB in fp32 stay in a CPU's caches, 256 MiB fill a GPU."""


# -- 1. Hidden layers of pairs ----------------------------------------------------------------------------------------


class Pairs(NamedTuple):
    """An entry for each pair of a word with an earlier one.

    Attributes:
        current: the number of the current word.
        earlier: the row of the earlier word in the table of words.
        codes: the rows of the pair's features and distance in the side's tables.
    """

    current: Int[Tensor, " pairs"]
    earlier: Int[Tensor, " pairs"]
    codes: Int[Tensor, "pairs codes"]

    def part(self, rows: slice | Int[Tensor, " some"]) -> "Pairs":
        """Some of the pairs."""
        return Pairs(*(column[rows] for column in self))


def pair_scores(
    words: Float[Tensor, "words hidden"],
    relative: Float[Tensor, "codes hidden"],
    bias: Float[Tensor, " hidden"],
    *,
    scale: Float[Tensor, " pairs"],
    queries: Float[Tensor, "current hidden"],
    pairs: Pairs,
) -> tuple[Float[Tensor, " pairs"], Float[Tensor, "current hidden"]]:
    """The product of each pair's hidden layer with its current word's query, and the sum of each current word's layers.

    A pair's hidden layer is relu(scale * (word + sum of its relative rows) + bias). Memory is O(`CHUNK_ELEMENTS`)
    beyond arguments and results, in the backward pass too, which costs a second forward pass. No gradient of second
    order.

    >>> pairs = Pairs(torch.tensor([0, 0]), torch.tensor([0, 1]), torch.tensor([[0], [0]]))
    >>> words, ones = torch.tensor([[1.0, -3.0], [2.0, 5.0]]), torch.ones(2)
    >>> pair_scores(words, torch.ones(1, 2), -ones, scale=ones, queries=torch.tensor([[1.0, 10.0]]), pairs=pairs)
    (tensor([ 1., 52.]), tensor([[3., 5.]]))
    """
    scores, sums = _PairScores.apply(words, relative, bias, scale, queries, pairs)  # type: ignore[no-untyped-call]
    return scores, sums


class _PairScores(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        words: Tensor,
        relative: Tensor,
        bias: Tensor,
        scale: Tensor,
        queries: Tensor,
        pairs: Pairs,
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(words, relative, bias, scale, queries)
        ctx.pairs = pairs
        scores, sums = torch.empty_like(scale), torch.zeros_like(queries)
        for rows in _chunks(pairs, words):
            part = pairs.part(rows)
            hidden = _hidden(words, relative, bias, scale[rows], part)
            sums.index_add_(0, part.current, hidden)
            torch.sum(hidden.mul_(queries.index_select(0, part.current)), -1, out=scores[rows])
        return scores, sums

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_scores: Tensor, of_sums: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        words, relative, bias, scale, queries = ctx.saved_tensors
        d_words, d_relative, d_bias, d_queries = map(torch.zeros_like, (words, relative, bias, queries))
        d_scale = torch.empty_like(scale)
        for rows in _chunks(ctx.pairs, words):
            part = ctx.pairs.part(rows)
            hidden = _hidden(words, relative, bias, scale[rows], part)
            d_hidden = queries.index_select(0, part.current).mul_(of_scores[rows, None])
            d_hidden.add_(of_sums.index_select(0, part.current))
            torch.ops.aten.threshold_backward.grad_input(d_hidden, hidden, 0, grad_input=d_hidden)
            d_bias += d_hidden.sum(0)
            # where the gradient is not 0, hidden = scale * sum + bias
            d_scale[rows] = ((d_hidden * hidden).sum(-1) - d_hidden @ bias) / scale[rows]
            d_queries.index_add_(0, part.current, hidden.mul_(of_scores[rows, None]))
            d_hidden.mul_(scale[rows, None])
            d_words.index_add_(0, part.earlier, d_hidden)
            for codes in part.codes.unbind(1):
                d_relative.index_add_(0, codes, d_hidden)
        return d_words, d_relative, d_bias, d_scale, d_queries, None


def _chunks(pairs: Pairs, words: Tensor) -> Iterator[slice]:
    step, number = max(1, CHUNK_ELEMENTS.get(words.device.type, 1 << 24) // words.size(1)), len(pairs.current)
    return (slice(first, min(first + step, number)) for first in range(0, number, step))


def _hidden(words: Tensor, relative: Tensor, bias: Tensor, scale: Tensor, pairs: Pairs) -> Tensor:
    summed = F.embedding_bag(pairs.codes, relative, mode="sum").add_(words.index_select(0, pairs.earlier))
    return summed.mul_(scale[:, None]).add_(bias).relu_()


# -- 2. A word as a parent, or as a child -----------------------------------------------------------------------------


class SideTables(NamedTuple):
    """What a side derives from its weights alone; values of features and distances have a row each, values first.

    Attributes:
        weight: of MLP2's first product, which takes in the gain of the normalisation before it.
        bias: of the same, with the normalisation's bias.
        centred: what is added for values and distances, less its mean.
        projected: centred rows times the weight.
        products: of centred rows with one another.
    """

    weight: Float[Tensor, "hidden hidden"]
    bias: Float[Tensor, " hidden"]
    centred: Float[Tensor, "codes hidden"]
    projected: Float[Tensor, "codes hidden"]
    products: Float[Tensor, "codes codes"]


class WordRows(NamedTuple):
    """What pairs take from a word.

    Attributes:
        projected: the centred output of MLP1 times MLP2's first matrix.
        square: its squared norm before that product.
        products: of the centred output with the centred rows of the side's tables.
    """

    projected: Float[Tensor, "*words hidden"]
    square: Float[Tensor, "*words"]
    products: Float[Tensor, "*words codes"]

    def followed_by(self, others: "WordRows") -> "WordRows":
        """The rows of these words and then those of others."""
        return WordRows(*map(torch.cat, zip(self, others, strict=True)))


class PairSide(nn.Module):
    """MLP2(MLP1(o_j) + pe_ij), Eq. 2: the representation of word j, seen from word i, as a parent or as a child.

    Args:
        width: of the representation (d); MLP1 reads 3d and returns 2d.
        feature_size: of all features' embeddings together; 0 for none.
    """

    def __init__(self, width: int, *, feature_size: int) -> None:
        super().__init__()
        hidden = 2 * width
        self.of_word = nn.Sequential(
            nn.LayerNorm(3 * width), nn.Linear(3 * width, 3 * width), nn.ReLU(), nn.Linear(3 * width, hidden)
        )
        self.norm = nn.LayerNorm(hidden)
        self.hidden = nn.Linear(hidden, hidden)
        self.output = nn.Linear(hidden, width)
        self.position = nn.Linear(width, hidden, bias=False)
        self.features = nn.Linear(feature_size, hidden, bias=False) if feature_size else None
        for first in (self.of_word[1], self.hidden):
            assert isinstance(first, nn.Linear)
            nn.init.kaiming_normal_(first.weight, nonlinearity="relu")
            nn.init.zeros_(first.bias)

    def tables(
        self, features: Float[Tensor, "features values size"], positions: Float[Tensor, "distances width"]
    ) -> SideTables:
        """The tables for all values of all features, and for the distances 0, 1, … in words."""
        rows = self.position(positions)
        if self.features is not None:
            weight = self.features.weight.view(rows.size(1), features.size(0), -1)
            of_values = torch.bmm(features, weight.permute(1, 2, 0))  # the projection of a concatenation is a sum
            rows = torch.cat((of_values.flatten(0, 1), rows))
        centred = _centred(rows)
        with torch.autocast(centred.device.type, enabled=False):
            products = centred @ centred.T
        weight = self.hidden.weight * self.norm.weight
        bias = self.hidden.bias + self.hidden.weight @ self.norm.bias
        return SideTables(weight, bias, centred, full_precision(F.linear(centred, weight)), products)

    def words(
        self, vectors: Float[Tensor, "words inputs"], tables: SideTables, itself: Int[Tensor, " codes"]
    ) -> tuple[WordRows, Float[Tensor, "words width"]]:
        """What pairs take from words, and the words' representations seen from themselves.

        `itself`: the codes of a word's own features and of the distance 0.
        """
        centred = _centred(self.of_word(vectors))
        with torch.autocast(centred.device.type, enabled=False):
            products = centred @ tables.centred.T
        projected = full_precision(F.linear(centred, tables.weight))
        scale = self._scale((centred + tables.centred[itself].sum(0)).square().sum(-1))
        hidden = ((projected + tables.projected[itself].sum(0)) * scale[:, None] + tables.bias).relu()
        return WordRows(projected, centred.square().sum(-1), products), full_precision(self.output(hidden))

    def pairs(
        self, words: WordRows, tables: SideTables, queries: Float[Tensor, "current width"], pairs: Pairs
    ) -> tuple[Float[Tensor, " pairs"], Float[Tensor, "current width"]]:
        """The product of each pair's representation with its current word's query; representations summed by word."""
        through = full_precision(queries @ self.output.weight)
        with torch.autocast(through.device.type, enabled=False):
            scale = self._scale(_squares(words, tables, pairs))
            scores, sums = pair_scores(
                words.projected, tables.projected, tables.bias, scale=scale, queries=through, pairs=pairs
            )
            constant = (queries @ self.output.bias).index_select(0, pairs.current)
        number = scores.new_zeros(queries.size(0)).index_add(0, pairs.current, torch.ones_like(scale))
        summed = full_precision(F.linear(sums, self.output.weight))
        return scores + constant, torch.addcmul(summed, number[:, None], self.output.bias)

    def _scale(self, squares: Tensor) -> Tensor:
        """1 / deviation, from the squared norm of centred vectors."""
        return (squares.clamp(min=0) / self.hidden.in_features + self.norm.eps).rsqrt()


def _centred(rows: Tensor) -> Tensor:
    full = full_precision(rows)
    return full - full.mean(-1, keepdim=True)


def _squares(words: WordRows, tables: SideTables, pairs: Pairs) -> Tensor:
    """The squared norm of the centred sum of each pair's rows, from products of the rows."""
    codes = tables.products.size(0)
    among = tables.products.take(pairs.codes[:, :, None] * codes + pairs.codes[:, None]).sum((1, 2))
    between = words.products.take((pairs.earlier * codes)[:, None] + pairs.codes).sum(1)
    return words.square.index_select(0, pairs.earlier) + 2 * between + among


# -- 3. Scores of arcs and counts -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GraphScores:
    """Logits for each word; -inf where there is no pair, and in the rows of padding.

    In an incremental pass there is one word a hypothesis, and no axis of words.

    Attributes:
        from_earlier: of j -> i at [i - 1, j].
        to_earlier: of i -> j at [i - 1, j]; whole sentences have the self-loop i -> i too.
        counts: of 0, 1, … arcs between word i and earlier ones; -inf where i can't have that number, 0 else in padding.
    """

    from_earlier: Float[Tensor, "*words nodes"]
    to_earlier: Float[Tensor, "*words nodes"]
    counts: Float[Tensor, "*words counts"]


@dataclass(frozen=True)
class ScorerState(Rows):
    """The words that hypotheses have read. A word is stored once, and the hypotheses that share it have its place.

    Attributes:
        lengths: number of words of each hypothesis.
        places: of each hypothesis's words among all that are stored, the root's first; 0 after its last word.
        parents: all stored words as parents, the root first.
        children: all stored words as children; the root is none, so that a word's place here is one less.
        tables: of the side of parents and that of children.
    """

    shared: ClassVar[frozenset[str]] = frozenset({"parents", "children", "tables"})

    lengths: Int[Tensor, " rows"]
    places: Int[Tensor, "rows nodes"]
    parents: WordRows
    children: WordRows
    tables: tuple[SideTables, SideTables]

    def with_words(self, rows: Int[Tensor, " chosen"], words: "_Words", longest: int) -> "ScorerState":
        """The state with one word more of some hypotheses, the longest of which then have so many."""
        lengths = self.lengths.index_add(0, rows, torch.ones_like(rows))
        places = F.pad(self.places, (0, max(0, longest + 1 - self.places.size(1))))
        new = len(self.parents.square) + torch.arange(rows.size(0), device=rows.device)
        places = places.index_put((rows, lengths[rows]), new)
        parents, children = self.parents.followed_by(words.as_parents), self.children.followed_by(words.as_children)
        return ScorerState(lengths, places, parents, children, self.tables)


class _Words(NamedTuple):
    """Words as later ones take them, and their representations towards themselves."""

    as_parents: WordRows
    as_children: WordRows
    par: Tensor
    chd: Tensor


class GraphScorer(nn.Module):
    """The arc scorer and the count head of GiLT.

    A sentence of 24 words costs 2.7 GFLOP at d = 1024, once features and distances are known, in place of 28.

    Args:
        width: d of the language model; a word is represented by 3d numbers.
        max_count: the largest number of arcs between a word and earlier ones (C).
        features: those of `FEATURES` that are read; with none of them, pairs know their distance in words alone.
        feature_size: of a feature's embedding.
    """

    feature_rows: Tensor

    def __init__(
        self,
        width: int,
        *,
        max_count: int = 29,
        features: Sequence[str] = FEATURES,
        feature_size: int = 256,
    ) -> None:
        super().__init__()
        self.width = width
        rows = torch.tensor([FEATURES.index(feature) for feature in features], dtype=torch.long)
        self.register_buffer("feature_rows", rows, persistent=False)
        self.parent, self.child = (PairSide(width, feature_size=feature_size * len(features)) for _ in range(2))
        self.embeddings = nn.ModuleList(nn.Embedding(VALUES, feature_size) for _ in features)
        self.root = nn.Parameter(nn.init.xavier_uniform_(torch.empty(1, 3 * width)))
        self.arc, self.sum = (nn.Parameter(torch.rand(width)) for _ in range(2))  # the diagonals of B and S (D1)
        self.count = nn.Linear(width, max_count + 1)

    def tables(self, words: int) -> tuple[SideTables, SideTables]:
        """The tables of both sides for sentences of at most `words` words."""
        positions = sinusoids(words + 1, self.width, fairseq=False, dtype=self.root.dtype)
        positions = positions.to(self.root.device, non_blocking=True)
        features = positions.new_empty(0, VALUES, 0)
        if self.embeddings:
            features = torch.stack([embedding.weight for embedding in self.embeddings])  # type: ignore[misc]
        return self.parent.tables(features, positions), self.child.tables(features, positions)

    def forward(
        self,
        vectors: Float[Tensor, "batch words inputs"],
        tapes: Integer[Tensor, "batch features nodes nodes"],
        lengths: Integer[Tensor, " batch"],
    ) -> GraphScores:
        """Logits of all words, each in the graph of the words before it. O(words^2) pairs.

        Args:
            vectors: o_1, o_2, ….
            tapes: of the features of `FEATURES` after t words at [feature, t, word].
            lengths: of the sentences, in words; where they lie on a GPU, it is waited for.
        """
        batch, longest, _ = vectors.shape
        nodes, device = longest + 1, vectors.device
        is_word, node = mask_of(lengths.cpu(), longest), torch.arange(nodes)
        is_pair = is_word[..., None] & (node < node[1:, None])
        # words are numbered through the batch, without padding, and so are the pairs of each
        places = is_word.flatten().nonzero()[:, 0]
        number = (is_word.flatten().cumsum(0) - 1).view(batch, longest)
        sentence, before, earlier = is_pair.nonzero().unbind(1)
        current = number[sentence, before]
        rows = torch.where(earlier > 0, number[sentence, earlier - 1] + 1, 0)  # the root's is 0
        rootless = earlier.nonzero()[:, 0]
        places, sentence, before, earlier, current, rows, rootless = (
            each.to(device, non_blocking=True) for each in (places, sentence, before, earlier, current, rows, rootless)
        )
        tables = self.tables(longest)
        words = self._encoded(vectors.flatten(0, 1).index_select(0, places), tables)
        features = tapes.index_select(1, self.feature_rows)[sentence, :, before, earlier]
        numbers = places % longest + 1
        from_earlier, to_earlier, counts = self._scores(
            words, numbers, tables,
            parents=self._root(tables).followed_by(words.as_parents), children=words.as_children,
            pairs=Pairs(current, rows, self._codes(features, before + 1 - earlier)), rootless=rootless,
            cells=places[current] * nodes + earlier, shape=(batch * longest, nodes),
        )  # fmt: skip
        self_loops = (words.par * (words.chd * self.arc)).sum(-1)
        to_earlier = to_earlier.flatten().index_copy(0, places * nodes + numbers, self_loops)
        of_places = counts.new_zeros(batch * longest, counts.size(1)).index_copy(0, places, counts)
        return GraphScores(
            from_earlier.view(batch, longest, nodes),
            to_earlier.view(batch, longest, nodes),
            of_places.view(batch, longest, counts.size(1)),
        )

    def root_state(self, rows: int, *, words: int) -> ScorerState:
        """The state of some hypotheses before the first of at most `words` words."""
        tables = self.tables(words)
        root, lengths = self._root(tables), torch.zeros(rows, dtype=torch.long, device=self.root.device)
        return ScorerState(lengths, lengths[:, None], root, WordRows(*(column[:0] for column in root)), tables)

    def step(
        self,
        state: ScorerState,
        vectors: Float[Tensor, "rows inputs"],
        features: Integer[Tensor, "features rows nodes"],
        *,
        numbers: Int[Tensor, " rows"],
    ) -> tuple[GraphScores, ScorerState]:
        """Logits of the next word of each hypothesis, as `forward` returns them, and the state with that word.

        Args:
            state: of the words before it.
            vectors: o of the next word.
            features: those of `FEATURES` of the root and the earlier words, in the graph of these.
            numbers: of the next word of each hypothesis, from 1, on the CPU; 0 for those without one now, which stay as
                they are, with -inf for all arcs and all counts but 0.
        """
        rows, nodes = features.shape[1:]
        longest, chosen = int(numbers.max()), numbers.nonzero()[:, 0]
        numbers = numbers[chosen]
        row, earlier = (torch.arange(nodes) < numbers[:, None]).nonzero().unbind(1)
        rootless = earlier.nonzero()[:, 0]
        chosen, numbers, row, earlier, rootless = (
            each.to(vectors.device, non_blocking=True) for each in (chosen, numbers, row, earlier, rootless)
        )
        words = self._encoded(vectors[chosen], state.tables)
        of_pairs = features.index_select(0, self.feature_rows)[:, chosen[row], earlier].T
        codes = self._codes(of_pairs, numbers[row] - earlier)
        from_earlier, to_earlier, counts = self._scores(
            words, numbers, state.tables, parents=state.parents, children=state.children,
            pairs=Pairs(row, state.places[chosen[row], earlier], codes), rootless=rootless,
            cells=chosen[row] * nodes + earlier, shape=(rows, nodes),
        )  # fmt: skip
        none = counts.new_full((rows, counts.size(1)), -math.inf)
        none[:, 0] = 0
        return (
            GraphScores(from_earlier, to_earlier, none.index_copy(0, chosen, counts)),
            state.with_words(chosen, words, longest),
        )

    def _encoded(self, vectors: Tensor, tables: tuple[SideTables, SideTables]) -> _Words:
        as_parents, par = self.parent.words(vectors, tables[0], self._itself)
        as_children, chd = self.child.words(vectors, tables[1], self._itself)
        return _Words(as_parents, as_children, par, chd)

    def _root(self, tables: tuple[SideTables, SideTables]) -> WordRows:
        return self.parent.words(self.root, tables[0], self._itself)[0]

    @property
    def _itself(self) -> Int[Tensor, " codes"]:
        """The codes of a word's own features, which are 0, and of the distance 0."""
        zero = torch.zeros(len(self.embeddings) + 1, dtype=torch.long, device=self.root.device)
        return self._codes(zero[1:], zero[0])

    def _scores(
        self,
        words: _Words,
        numbers: Int[Tensor, " current"],
        tables: tuple[SideTables, SideTables],
        *,
        parents: WordRows,
        children: WordRows,
        pairs: Pairs,
        rootless: Int[Tensor, " some"],
        cells: Int[Tensor, " pairs"],
        shape: tuple[int, int],
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Logits of arcs from parents and to children, in grids, and of the counts of current words (Eq. 2 and 3).

        `words` are the current ones, `numbers` their i from 1; `rootless` the pairs whose earlier word is not the root;
        `cells` the place of each pair in a flattened grid of `shape`.
        """
        of_children = pairs.part(rootless)
        of_children = of_children._replace(earlier=of_children.earlier - 1)
        # par_ji . B chd_ii for all j, and par_ii . B chd_ji
        from_earlier, par = self.parent.pairs(parents, tables[0], words.chd * self.arc, pairs)
        to_earlier, chd = self.child.pairs(children, tables[1], words.par * self.arc, of_children)
        # s_i = sum_j par_ji * S chd_ii + par_ii * S (sum_j chd_ji + chd_ii)
        sums = par * (words.chd * self.sum) + words.par * ((chd + words.chd) * self.sum)
        counts = full_precision(self.count(sums * (2 * numbers[:, None]).to(sums.dtype).rsqrt()))
        most = 2 * numbers - 1
        impossible = torch.arange(counts.size(1), device=counts.device) > most[:, None]
        return (
            _placed(from_earlier, cells, shape),
            _placed(to_earlier, cells[rootless], shape),
            counts.masked_fill(impossible, -math.inf),
        )

    def _codes(self, features: Tensor, distances: Tensor) -> Tensor:
        """The rows of tables that belong to the values of features, on the last axis, and to distances in words."""
        starts = VALUES * torch.arange(len(self.embeddings), device=features.device)
        return torch.cat((features.long() + starts, distances[..., None] + VALUES * len(self.embeddings)), -1)


def _placed(values: Tensor, places: Tensor, shape: tuple[int, int]) -> Tensor:
    """Values at places of a flattened grid, and -inf elsewhere."""
    return values.new_full((math.prod(shape),), -math.inf).index_copy(0, places, values).view(shape)
