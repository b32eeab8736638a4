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

Deviations from the paper (P) and the authors' code (C)
    D1. B and S are diagonal as they are in C, whose einsum takes the diagonal of whole matrices (`bilinear`). Only what
        is used is a parameter: at d = 1024 and C = 29 there are 51,568,926 parameters, 53,664,030 with whole matrices.
        C has 53,666,079: its matrices are 1025 x 1025 and 1024 x 1024, and 2 x 1024 of their entries are trained.
    D2. Whole matrices start as diagonal ones do, from U[0, 1) and zeros elsewhere; P does not say.
    D3. Impossible counts (> 2i - 1, all arcs that word i can have) get the logit -inf in training and in search.
        Targets are always possible, so a masked softmax loses nothing. C trains without a mask, and cuts to the best
        few counts before it drops the impossible ones, which can leave no hypothesis.
    D4. sqrt(2 i) as in C; P has sqrt(2 i - 1) (`count_scale`).
    D5. The self-loop i -> i is scored and trained as a negative, as in C; no search uses it (`self_loops`). Its pair is
        in s_i either way.
    D6. Features above the largest code count as that code, as in C.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from depgen.errors import UserError
from depgen.nn.growing import Growing
from depgen.nn.lengths import mask_of
from depgen.nn.positions import sinusoids
from depgen.nn.rows import Rows
from depgen.nn.vocabulary import full_precision
from depgen.trees.feature_tapes import FEATURES, LARGEST

POSITIONS = 256
"""Words of the longest sentence that an incremental pass takes by default."""

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
        return Pairs(*(each[rows] for each in self))


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
        d_words, d_relative, d_bias, d_queries = (torch.zeros_like(each) for each in (words, relative, bias, queries))
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

    def word_rows(
        self, words: Float[Tensor, "words inputs"], tables: SideTables
    ) -> tuple[Float[Tensor, "words hidden"], WordRows]:
        """The centred outputs of MLP1, and what pairs take from them."""
        centred = _centred(self.of_word(words))
        with torch.autocast(centred.device.type, enabled=False):
            products = centred @ tables.centred.T
        return centred, WordRows(full_precision(F.linear(centred, tables.weight)), centred.square().sum(-1), products)

    def of_current(
        self,
        centred: Float[Tensor, "words hidden"],
        projected: Float[Tensor, "words hidden"],
        tables: SideTables,
        codes: Int[Tensor, " codes"],
    ) -> Float[Tensor, "words width"]:
        """The representation of words seen from themselves, from what `word_rows` returns."""
        scale = self._scale((centred + tables.centred[codes].sum(0)).square().sum(-1))
        summed = projected + tables.projected[codes].sum(0)
        representation: Tensor = self.output((summed * scale[:, None] + tables.bias).relu())
        return full_precision(representation)

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
    among = _taken(tables.products, pairs.codes[:, :, None] * codes + pairs.codes[:, None]).sum((1, 2))
    between = _taken(words.products, (pairs.earlier * codes)[:, None] + pairs.codes).sum(1)
    return words.square.index_select(0, pairs.earlier) + 2 * between + among


def _taken(table: Tensor, places: Tensor) -> Tensor:
    """The entries of a table at places in its flattened form."""
    return table.flatten().index_select(0, places.flatten()).view(places.shape)


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


KeptRows = tuple[Growing, Growing, Growing]
"""The rows of `WordRows`, to which others are added."""


@dataclass(frozen=True)
class ScorerState(Rows):
    """What is kept of earlier words, for hypotheses that share them; a hypothesis is a row of places.

    Attributes:
        lengths: number of words of each hypothesis.
        places: of each hypothesis's words among all that are kept, the root's first; 0 after its last word.
        parents: all words as parents, the root first.
        children: all words as children, one place earlier than as parents.
        tables: of the side of parents and that of children.
    """

    shared: ClassVar[frozenset[str]] = frozenset({"parents", "children", "tables"})

    lengths: Int[Tensor, " rows"]
    places: Int[Tensor, "rows nodes"]
    parents: KeptRows
    children: KeptRows
    tables: tuple[SideTables, SideTables]

    def with_words(self, rows: Int[Tensor, " chosen"], words: "_Words") -> "ScorerState":
        """The state with one word more of some hypotheses."""
        lengths = self.lengths.index_add(0, rows, torch.ones_like(rows))
        places = self.places
        if bool((lengths == places.size(1)).any()):
            places = F.pad(places, (0, 1))
        new = len(self.parents[0]) + torch.arange(rows.size(0), device=rows.device)
        places = places.index_put((rows, lengths[rows]), new)
        parents, children = _extended(self.parents, words.as_parents), _extended(self.children, words.as_children)
        return ScorerState(lengths, places, parents, children, self.tables)


def _kept(words: WordRows) -> KeptRows:
    projected, square, products = (Growing.of(each, dim=0) for each in words)
    return projected, square, products


def _extended(kept: KeptRows, words: WordRows) -> KeptRows:
    projected, square, products = (each.extended(new) for each, new in zip(kept, words, strict=True))
    return projected, square, products


class _Words(NamedTuple):
    """Words as later ones take them, and their representations towards themselves."""

    as_parents: WordRows
    as_children: WordRows
    par: Tensor
    chd: Tensor


class Bilinear(nn.Module):
    """A square matrix B, of which all entries or only the diagonal are parameters."""

    def __init__(self, width: int, *, diagonal: bool) -> None:
        super().__init__()
        entries = torch.rand(width)
        self.weight = nn.Parameter(entries if diagonal else entries.diag())

    def forward(self, vectors: Float[Tensor, "*rows width"]) -> Float[Tensor, "*rows width"]:
        """B times each vector."""
        return vectors * self.weight if self.weight.dim() == 1 else full_precision(F.linear(vectors, self.weight))

    def transposed(self, vectors: Float[Tensor, "*rows width"]) -> Float[Tensor, "*rows width"]:
        """The transpose of B times each vector."""
        return vectors * self.weight if self.weight.dim() == 1 else full_precision(vectors @ self.weight)


class GraphScorer(nn.Module):
    """The arc scorer and the count head of GiLT.

    A sentence of 24 words costs 2.7 GFLOP at d = 1024, once features and distances are known, in place of 28.

    Args:
        width: d of the language model; a word is represented by 3d numbers.
        bilinear: which entries of B and S are parameters; the paper's is full, the authors' code's diagonal.
        self_loops: whether the self-loop of each word is among the pairs that are trained (code).
        count_scale: sums are divided by sqrt(2 i) ("code") or sqrt(2 i - 1) ("paper").
        max_count: the largest number of arcs between a word and earlier ones (C).
        features: those of `FEATURES` that are read; with none of them, pairs know their distance in words alone.
        codes: the number of values that a feature has.
        feature_size: of a feature's embedding.
    """

    def __init__(
        self,
        width: int,
        *,
        bilinear: Literal["diagonal", "full"] = "diagonal",
        self_loops: bool = True,
        count_scale: Literal["code", "paper"] = "code",
        max_count: int = 29,
        features: Sequence[str] = FEATURES,
        codes: int = LARGEST + 1,
        feature_size: int = 256,
    ) -> None:
        super().__init__()
        if len(set(features)) < len(features) or not set(features) <= set(FEATURES):
            raise UserError(f"features are {list(features)}; choose from {list(FEATURES)}, each at most once")
        self.feature_rows = [FEATURES.index(each) for each in features]
        self.self_loops, self.count_scale = self_loops, count_scale
        self.codes, self.width = codes, width
        self.parent, self.child = (PairSide(width, feature_size=feature_size * len(features)) for _ in range(2))
        self.embeddings = nn.ModuleList(nn.Embedding(codes, feature_size) for _ in features)
        self.root = nn.Parameter(nn.init.xavier_uniform_(torch.empty(1, 3 * width)))
        self.arc, self.sum = (Bilinear(width, diagonal=bilinear == "diagonal") for _ in range(2))
        self.count = nn.Linear(width, max_count + 1)

    def tables(self, words: int) -> tuple[SideTables, SideTables]:
        """The tables of both sides for sentences of at most `words` words."""
        positions = sinusoids(words + 1, self.width, fairseq=False, dtype=self.root.dtype).to(self.root.device)
        features = positions.new_empty(0, self.codes, 0)
        if self.embeddings:
            features = torch.stack([each.weight for each in self.embeddings])  # type: ignore[misc]
        return self.parent.tables(features, positions), self.child.tables(features, positions)

    def forward(
        self,
        words: Float[Tensor, "batch words inputs"],
        tapes: Integer[Tensor, "batch features nodes nodes"],
        lengths: Integer[Tensor, " batch"],
    ) -> GraphScores:
        """Logits of all words, each in the graph of the words before it. O(words^2) pairs.

        Args:
            words: o_1, o_2, ….
            tapes: of the features of `FEATURES` after t words at [feature, t, word].
            lengths: of the sentences, in words; where they lie on a GPU, it is waited for.
        """
        batch, longest, _ = words.shape
        nodes, device = longest + 1, words.device
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
        known = self._encoded(words.flatten(0, 1).index_select(0, places), tables)
        _, root = self.parent.word_rows(self.root, tables[0])
        parents = WordRows(*(torch.cat(each) for each in zip(root, known.as_parents, strict=True)))
        features = _rows(tapes, self.feature_rows, dim=1)[sentence, :, before, earlier]
        pairs = Pairs(current, rows, self._codes(features, before + 1 - earlier))
        some = pairs.part(rootless)
        word = places % longest + 1
        from_earlier, to_earlier, counts = self._scores(
            known, word, tables,
            parents=(parents, pairs), children=(known.as_children, some._replace(earlier=some.earlier - 1)),
        )  # fmt: skip
        at_pairs = places[current] * nodes + earlier
        at_children = at_pairs[rootless]
        if self.self_loops:
            loops = (known.par * self.arc(known.chd)).sum(-1)
            to_earlier = torch.cat((to_earlier, loops))
            at_children = torch.cat((at_children, places * nodes + word))
        counts = counts.new_zeros(batch * longest, counts.size(1)).index_copy(0, places, counts)
        return GraphScores(
            _placed(from_earlier, at_pairs, (batch, longest, nodes)),
            _placed(to_earlier, at_children, (batch, longest, nodes)),
            self._possible(counts.view(batch, longest, counts.size(1)), torch.arange(1, nodes, device=device)),
        )

    def root_state(self, rows: int, *, words: int = POSITIONS) -> ScorerState:
        """The state before the first word.

        Args:
            rows: number of hypotheses.
            words: of the longest sentence to come.
        """
        tables = self.tables(words)
        _, root = self.parent.word_rows(self.root, tables[0])
        nobody = WordRows(*(each[:0] for each in root))
        lengths = torch.zeros(rows, dtype=torch.long, device=self.root.device)
        return ScorerState(lengths, lengths[:, None], _kept(root), _kept(nobody), tables)

    def step(
        self,
        state: ScorerState,
        words: Float[Tensor, "rows inputs"],
        features: Integer[Tensor, "features rows nodes"],
        *,
        opens: Bool[Tensor, " rows"] | None = None,
    ) -> tuple[GraphScores, ScorerState]:
        """Logits of the next word of each hypothesis, as `forward` returns them, and the state with that word.

        Args:
            state: of the words before it.
            words: o of the next word.
            features: those of `FEATURES` of the root and the earlier words, in the graph of these.
            opens: hypotheses that have a next word now; the others stay as they are, with -inf for all arcs and all
                counts but 0. None: all have one. Waits for a GPU.

        Raises:
            UserError: the sentence is longer than `root_state` expects.
        """
        rows, nodes = features.shape[1:]
        if opens is None:
            opens = torch.ones(rows, dtype=torch.bool, device=words.device)
        chosen = opens.nonzero()[:, 0]
        numbers = state.lengths[chosen] + 1
        longest = state.tables[0].centred.size(0) - self.codes * len(self.embeddings) - 1
        if nodes > longest and bool((numbers > longest).any()):
            raise UserError(f"a sentence has more than {longest} words; pass the longest's as root_state(words=...)")
        known = self._encoded(words[chosen], state.tables)
        row, earlier = (torch.arange(nodes, device=words.device) < numbers[:, None]).nonzero().unbind(1)
        of_pairs = _rows(features, self.feature_rows, dim=0)[:, chosen[row], earlier].T
        pairs = Pairs(row, state.places[chosen[row], earlier], self._codes(of_pairs, numbers[row] - earlier))
        rootless = earlier.nonzero()[:, 0]
        some = pairs.part(rootless)
        parents, children = (WordRows(*(each.tensor for each in kept)) for kept in (state.parents, state.children))
        from_earlier, to_earlier, counts = self._scores(
            known, numbers, state.tables,
            parents=(parents, pairs), children=(children, some._replace(earlier=some.earlier - 1)),
        )  # fmt: skip
        places = chosen[row] * nodes + earlier
        none = counts.new_full((rows, counts.size(1)), -math.inf)
        none[:, 0] = 0
        scores = GraphScores(
            _placed(from_earlier, places, (rows, nodes)),
            _placed(to_earlier, places[rootless], (rows, nodes)),
            none.index_copy(0, chosen, self._possible(counts, numbers)),
        )
        return scores, state.with_words(chosen, known)

    def _encoded(self, words: Tensor, tables: tuple[SideTables, SideTables]) -> _Words:
        zero = torch.zeros(len(self.embeddings) + 1, dtype=torch.long, device=words.device)
        towards_itself = self._codes(zero[1:], zero[0])
        parents, as_parents = self.parent.word_rows(words, tables[0])
        children, as_children = self.child.word_rows(words, tables[1])
        par = self.parent.of_current(parents, as_parents.projected, tables[0], towards_itself)
        chd = self.child.of_current(children, as_children.projected, tables[1], towards_itself)
        return _Words(as_parents, as_children, par, chd)

    def _scores(
        self,
        current: _Words,
        numbers: Int[Tensor, " current"],
        tables: tuple[SideTables, SideTables],
        *,
        parents: tuple[WordRows, Pairs],
        children: tuple[WordRows, Pairs],
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Logits of arcs from parents, of arcs to children, and of counts (Eq. 2 and 3)."""
        # par_ji . B chd_ii for all j, and par_ii . B chd_ji
        from_earlier, par = self.parent.pairs(parents[0], tables[0], self.arc(current.chd), parents[1])
        to_earlier, chd = self.child.pairs(children[0], tables[1], self.arc.transposed(current.par), children[1])
        # s_i = sum_j par_ji * S chd_ii + par_ii * S (sum_j chd_ji + chd_ii)
        sums = par * self.sum(current.chd) + current.par * self.sum(chd + current.chd)
        terms = 2 * numbers - int(self.count_scale == "paper")
        return from_earlier, to_earlier, full_precision(self.count(sums * terms[:, None].to(sums.dtype).rsqrt()))

    def _possible(self, counts: Tensor, numbers: Tensor) -> Tensor:
        """Logits of counts with -inf at those above 2i - 1; i is the word's number."""
        most = 2 * numbers - 1
        return counts.masked_fill(torch.arange(counts.size(-1), device=counts.device) > most[..., None], -math.inf)

    def _codes(self, features: Tensor, distances: Tensor) -> Tensor:
        """The rows of tables that belong to the values of features, on the last axis, and to distances in words."""
        values = features.long().clamp(max=self.codes - 1)
        values = values + self.codes * torch.arange(len(self.embeddings), device=values.device)
        return torch.cat((values, distances[..., None] + self.codes * len(self.embeddings)), -1)


def _rows(tensor: Tensor, rows: Sequence[int], *, dim: int) -> Tensor:
    """Some rows of an axis; a list of numbers as an index would be copied to a GPU at each use."""
    chosen = [tensor.select(dim, row) for row in rows]
    return torch.stack(chosen, dim) if chosen else tensor.narrow(dim, 0, 0)


def _placed(values: Tensor, places: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Values at places of a flattened grid, and -inf elsewhere."""
    return values.new_full((math.prod(shape),), -math.inf).index_copy(0, places, values).view(shape)
