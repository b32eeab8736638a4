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

What pairs cost is reduced without approximation: a hidden layer of MLP2 is a scaled sum of rows (`pair_side.py`). On
each side a pair then costs about 11 operations for each of 2d elements, in place of products of about 20 d^2 FLOP.

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
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor, nn

from depgen.errors import UserError
from depgen.nn.earlier_pairs import EarlierPairs
from depgen.nn.pair_scores import Pairs
from depgen.nn.pair_side import KeptRows, PairSide, SideTables, WordRows
from depgen.nn.positions import sinusoids
from depgen.nn.rows import Rows
from depgen.nn.vocabulary import full_precision
from depgen.trees.feature_tapes import FEATURES, LARGEST

POSITIONS = 256
"""Words of the longest sentence that an incremental pass takes by default."""


@dataclass(frozen=True)
class GraphScores:
    """Logits for each word of each sentence; -inf where there is no pair, and in the rows of padding.

    Attributes:
        from_earlier: of j -> i at [i - 1, j].
        to_earlier: of i -> j at [i - 1, j], the self-loop i -> i included.
        counts: of 0, 1, … arcs between word i and earlier ones; -inf where i can't have that number, 0 else in padding.
    """

    from_earlier: Float[Tensor, "batch words nodes"]
    to_earlier: Float[Tensor, "batch words nodes"]
    counts: Float[Tensor, "batch words counts"]


class ScorerTables(NamedTuple):
    """What depends on the weights alone: either side's tables, and what pairs take from the root."""

    parent: SideTables
    child: SideTables
    root: WordRows


@dataclass(frozen=True)
class ScorerState(Rows):
    """What is kept of earlier words, for hypotheses that share them; a hypothesis is a row of places.

    Attributes:
        lengths: number of words of each hypothesis.
        places: of each hypothesis's words among all that are kept, the root's first; 0 after its last word.
        parents: all words as parents, the root first.
        children: all words as children, one place earlier than as parents.
        tables: of features and distances.
    """

    shared: ClassVar[frozenset[str]] = frozenset({"parents", "children", "tables"})

    lengths: Int[Tensor, " rows"]
    places: Int[Tensor, "rows nodes"]
    parents: KeptRows
    children: KeptRows
    tables: ScorerTables

    def with_words(self, rows: Int[Tensor, " chosen"], words: "_Words") -> "ScorerState":
        """The state with one word more of some hypotheses."""
        lengths = self.lengths.index_add(0, rows, torch.ones_like(rows))
        places = self.places
        if bool((lengths == places.size(1)).any()):
            places = F.pad(places, (0, 1))
        new = len(self.parents) + torch.arange(rows.size(0), device=rows.device)
        places = places.index_put((rows, lengths[rows]), new)
        parents, children = self.parents.extended(words.as_parents), self.children.extended(words.as_children)
        return ScorerState(lengths, places, parents, children, self.tables)


class _Words(NamedTuple):
    """Words as later ones take them, and their representations towards themselves."""

    as_parents: WordRows
    as_children: WordRows
    par: Tensor
    chd: Tensor


class StepScores(NamedTuple):
    """Logits for the next word of each hypothesis, and the state with that word.

    Attributes:
        from_earlier: of arcs from the root and each earlier word.
        to_earlier: of arcs to these; -inf at the root.
        counts: as in `GraphScores`.
        state: with which the following word is scored.
    """

    from_earlier: Float[Tensor, "rows nodes"]
    to_earlier: Float[Tensor, "rows nodes"]
    counts: Float[Tensor, "rows counts"]
    state: ScorerState


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
        self.feature_rows = _rows_of(features)
        self.self_loops, self.count_scale = self_loops, count_scale
        self.codes, self.width = codes, width
        self.parent, self.child = (PairSide(width, feature_size=feature_size * len(features)) for _ in range(2))
        self.embeddings = nn.ModuleList(nn.Embedding(codes, feature_size) for _ in features)
        self.root = nn.Parameter(nn.init.xavier_uniform_(torch.empty(1, 3 * width)))
        self.arc, self.sum = (Bilinear(width, diagonal=bilinear == "diagonal") for _ in range(2))
        self.count = nn.Linear(width, max_count + 1)

    def tables(self, words: int) -> ScorerTables:
        """The tables for sentences of at most `words` words; make it once for fixed weights."""
        positions = sinusoids(words + 1, self.width, fairseq=False, dtype=self.root.dtype).to(self.root.device)
        features = positions.new_empty(0, self.codes, 0)
        if self.embeddings:
            features = torch.stack([each.weight for each in self.embeddings])  # type: ignore[misc]
        parent, child = (side.tables(features, positions) for side in (self.parent, self.child))
        return ScorerTables(parent, child, self.parent.word_rows(self.root, parent)[1])

    def forward(
        self,
        words: Float[Tensor, "batch words inputs"],
        tapes: Integer[Tensor, "batch features nodes nodes"],
        lengths: Integer[Tensor, " batch"],
        *,
        tables: ScorerTables | None = None,
    ) -> GraphScores:
        """Logits of all words, each in the graph of the words before it. O(words^2) pairs.

        Args:
            words: o_1, o_2, ….
            tapes: of the features of `FEATURES` after t words at [feature, t, word].
            lengths: of the sentences, in words.
            tables: of at least that many words; None computes them.
        """
        batch, longest, _ = words.shape
        pairs = EarlierPairs.of(lengths, longest, device=words.device)
        tables = tables or self.tables(longest)
        known = self._encoded(words.flatten(0, 1).index_select(0, pairs.places), tables)
        before = pairs.words[pairs.current] - 1
        features = _rows(tapes, self.feature_rows, dim=1)[pairs.sentences, :, before, pairs.earlier]
        codes = self._codes(features, before + 1 - pairs.earlier)
        some = pairs.rootless
        from_earlier, to_earlier, counts = self._scores(
            known, pairs.words, tables,
            parents=(tables.root.followed_by(known.as_parents), Pairs(pairs.current, pairs.rows, codes)),
            children=(known.as_children, Pairs(pairs.current[some], pairs.rows[some] - 1, codes[some])),
        )  # fmt: skip
        nodes, grid = longest + 1, (batch, longest, longest + 1)
        at_pairs = pairs.places[pairs.current] * nodes + pairs.earlier
        at_children = at_pairs[some]
        if self.self_loops:
            loops = (known.par * self.arc(known.chd)).sum(-1)
            to_earlier = torch.cat((to_earlier, loops))
            at_children = torch.cat((at_children, pairs.places * nodes + pairs.words))
        counts = counts.new_zeros(batch * longest, counts.size(1)).index_copy(0, pairs.places, counts)
        numbers = torch.arange(1, nodes, device=words.device)
        return GraphScores(
            _placed(from_earlier, at_pairs, grid),
            _placed(to_earlier, at_children, grid),
            self._possible(counts.view(batch, longest, counts.size(1)), numbers),
        )

    def root_state(self, rows: int, *, words: int = POSITIONS, tables: ScorerTables | None = None) -> ScorerState:
        """The state before the first word.

        Args:
            rows: number of hypotheses.
            words: of the longest sentence to come.
            tables: what `tables` returned for at least that many words; None computes them.
        """
        tables = tables or self.tables(words)
        _, nobody = self.child.word_rows(self.root[:0], tables.child)
        lengths = torch.zeros(rows, dtype=torch.long, device=self.root.device)
        return ScorerState(lengths, lengths[:, None], KeptRows.of(tables.root), KeptRows.of(nobody), tables)

    def step(
        self,
        state: ScorerState,
        words: Float[Tensor, "rows inputs"],
        features: Integer[Tensor, "features rows nodes"],
        *,
        opens: Bool[Tensor, " rows"] | None = None,
    ) -> StepScores:
        """Logits of the next word of each hypothesis, as `forward` returns them.

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
        longest = state.tables.parent.centred.size(0) - self.codes * len(self.embeddings) - 1
        if nodes > longest and bool((numbers > longest).any()):
            raise UserError(f"a sentence has more than {longest} words; pass the longest's as root_state(words=...)")
        known = self._encoded(words[chosen], state.tables)
        column = torch.arange(nodes, device=words.device)
        row, earlier = (column < numbers[:, None]).nonzero().unbind(1)
        of_pairs = _rows(features, self.feature_rows, dim=0)[:, chosen[row], earlier].T
        pairs = Pairs(row, state.places[chosen[row], earlier], self._codes(of_pairs, numbers[row] - earlier))
        some = (earlier > 0).nonzero()[:, 0]
        from_earlier, to_earlier, counts = self._scores(
            known, numbers, state.tables,
            parents=(state.parents.rows, pairs),
            children=(state.children.rows, Pairs(row[some], pairs.earlier[some] - 1, pairs.codes[some])),
        )  # fmt: skip
        places = chosen[row] * nodes + earlier
        none = counts.new_full((rows, counts.size(1)), -math.inf)
        none[:, 0] = 0
        return StepScores(
            _placed(from_earlier, places, (rows, nodes)),
            _placed(to_earlier, places[some], (rows, nodes)),
            none.index_copy(0, chosen, self._possible(counts, numbers)),
            state.with_words(chosen, known),
        )

    def _encoded(self, words: Tensor, tables: ScorerTables) -> _Words:
        zero = torch.zeros(len(self.embeddings) + 1, dtype=torch.long, device=words.device)
        towards_itself = self._codes(zero[1:], zero[0])
        parents, as_parents = self.parent.word_rows(words, tables.parent)
        children, as_children = self.child.word_rows(words, tables.child)
        par = self.parent.of_current(parents, as_parents.projected, tables.parent, towards_itself)
        chd = self.child.of_current(children, as_children.projected, tables.child, towards_itself)
        return _Words(as_parents, as_children, par, chd)

    def _scores(
        self,
        current: _Words,
        numbers: Int[Tensor, " current"],
        tables: ScorerTables,
        *,
        parents: tuple[WordRows, Pairs],
        children: tuple[WordRows, Pairs],
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Logits of arcs from parents, of arcs to children, and of counts (Eq. 2 and 3)."""
        # par_ji . B chd_ii for all j, and par_ii . B chd_ji
        from_earlier, par = self.parent.pairs(parents[0], tables.parent, self.arc(current.chd), parents[1])
        to_earlier, chd = self.child.pairs(children[0], tables.child, self.arc.transposed(current.par), children[1])
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


def _rows_of(features: Sequence[str]) -> list[int]:
    """The place of each feature in tapes.

    Raises:
        UserError: a feature is unknown or there twice.
    """
    if len(set(features)) < len(features) or not set(features) <= set(FEATURES):
        raise UserError(f"features are {list(features)}; choose from {list(FEATURES)}, each at most once")
    return [FEATURES.index(each) for each in features]


def _rows(tensor: Tensor, rows: Sequence[int], *, dim: int) -> Tensor:
    """Some rows of an axis; a list of numbers as an index would be copied to a GPU at each use."""
    chosen = [tensor.select(dim, row) for row in rows]
    return torch.stack(chosen, dim) if chosen else tensor.narrow(dim, 0, 0)


def _placed(values: Tensor, places: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Values at places of a flattened grid, and -inf elsewhere."""
    return values.new_full((math.prod(shape),), -math.inf).index_copy(0, places, values).view(shape)
