"""One side of a scorer of pairs of words: the representation of a word as a parent, or as a child, of another word.

The representation of word j, seen from word i, is MLP2(MLP1(o_j) + pe_ij), Eq. 2 of GiLT. It is never computed for all
pairs: the first product of MLP2 is a sum of products with MLP1(o_j), with the position and with each feature, scaled by
the deviation that its normalisation finds. Each of these is computed once; a pair adds rows. What follows the hidden
layer of MLP2 is linear, so it is applied to the current word's vector and to sums over pairs.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from depgen.nn.growing import Growing
from depgen.nn.pair_scores import Pairs, pair_scores
from depgen.nn.vocabulary import full_precision


class SideTables(NamedTuple):
    """What a side derives from its weights alone.

    The first product of MLP2 takes in the gain and bias of the normalisation before it. Features' values and distances
    have a row each, values first.

    Attributes:
        weight: of the first product of MLP2.
        bias: of the same.
        centred: what is added for values and distances, less its mean.
        projected: centred rows times the weight.
        products: of centred rows with one another.
    """

    weight: Float[Tensor, "hidden hidden"]
    bias: Float[Tensor, " hidden"]
    centred: Float[Tensor, "codes hidden"]
    projected: Float[Tensor, "codes hidden"]
    products: Float[Tensor, "codes codes"]


@dataclass(frozen=True)
class WordRows:
    """What pairs take from a word, a row a word.

    Attributes:
        projected: the centred output of MLP1 times the first matrix of MLP2.
        square: its squared norm before that product.
        products: of the centred output with the centred rows of the side's tables.
    """

    projected: Float[Tensor, "words hidden"]
    square: Float[Tensor, " words"]
    products: Float[Tensor, "words codes"]

    def followed_by(self, other: "WordRows") -> "WordRows":
        """The rows of these and of further words."""
        return WordRows(
            torch.cat((self.projected, other.projected)),
            torch.cat((self.square, other.square)),
            torch.cat((self.products, other.products)),
        )


@dataclass(frozen=True)
class KeptRows:
    """Rows of words that grow in number, as caches do."""

    projected: Growing
    square: Growing
    products: Growing

    @classmethod
    def of(cls, words: WordRows) -> "KeptRows":
        """The rows of some words, to which others may be added."""
        return cls(*(Growing.of(each, dim=0) for each in (words.projected, words.square, words.products)))

    @property
    def rows(self) -> WordRows:
        """All rows, without a copy."""
        return WordRows(self.projected.tensor, self.square.tensor, self.products.tensor)

    def __len__(self) -> int:
        return len(self.square)

    def extended(self, words: WordRows) -> "KeptRows":
        """These and further words."""
        return KeptRows(
            self.projected.extended(words.projected),
            self.square.extended(words.square),
            self.products.extended(words.products),
        )


class PairSide(nn.Module):
    """The two MLPs of a side and what it makes of positions and features.

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
        self, features: Float[Tensor, "features codes size"], positions: Float[Tensor, "distances width"]
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
        codes: Int[Tensor, " features"],
    ) -> Float[Tensor, "words width"]:
        """The representation of words seen from themselves.

        Args:
            centred: outputs of MLP1.
            projected: the same words' projected rows.
            tables: of this side.
            codes: of the rows of tables that each word has towards itself.
        """
        scale = self._scale((centred + tables.centred[codes].sum(0)).square().sum(-1))
        summed = projected + tables.projected[codes].sum(0)
        representation: Tensor = self.output((summed * scale[:, None] + tables.bias).relu())
        return full_precision(representation)

    def pairs(
        self,
        words: WordRows,
        tables: SideTables,
        queries: Float[Tensor, "current width"],
        pairs: Pairs,
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
