"""Bands of square matrices: what each position has to do with the last few up to itself, in O(length x window).

Row t of a band holds the entries at positions t - window + 1 .. t. Rows are aligned at the end: the last query is at
the last key, and where there are more keys than queries, the first ones lie before the first query.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Shaped
from torch import Tensor


def band_products(
    queries: Float[Tensor, "batch length width"], keys: Float[Tensor, "batch context width"], window: int
) -> Float[Tensor, "batch length window"]:
    """The inner products of each query with the last `window` keys up to its own position; 0 where there is no key.

    Blocks of `window` queries meet the keys of the same block and of the one before, so that a product costs two
    small matrix products instead of a row of the square.

    >>> ones = torch.ones(1, 3, 1)
    >>> band_products(ones, ones * torch.tensor([[[1.0], [2.0], [3.0]]]), 2)[0].tolist()
    [[0.0, 1.0], [1.0, 2.0], [2.0, 3.0]]
    """
    batch, length, width = queries.shape
    blocks = -(-length // window)
    rows = F.pad(queries, (0, 0, 0, blocks * window - length)).view(batch, blocks, window, width)
    products = rows @ _pairs_of_blocks(keys, length, window).mT  # row i of a block needs columns i+1 .. i+window
    # read with one column more a row, so that the band becomes vertical
    skewed = F.pad(products.flatten(-2)[..., 1:], (0, window + 1)).view(batch, blocks, window, 2 * window + 1)
    return skewed[..., :window].reshape(batch, blocks * window, window)[:, :length]


def band_sums(
    weights: Float[Tensor, "batch length window"], values: Float[Tensor, "batch context width"]
) -> Float[Tensor, "batch length width"]:
    """The sum of the last `window` values up to each position, weighed by its row; what lies before the first counts 0.

    >>> values = torch.tensor([[[1.0], [2.0], [3.0]]])
    >>> band_sums(torch.ones(1, 3, 2), values)[0, :, 0].tolist()
    [1.0, 3.0, 5.0]
    """
    batch, length, window = weights.shape
    blocks = -(-length // window)
    rows = F.pad(weights, (0, window + 1, 0, blocks * window - length)).view(batch, blocks, window, 2 * window + 1)
    skewed = F.pad(rows.flatten(-2)[..., : -window - 1], (1, 0)).view(batch, blocks, window, 2 * window)
    sums = skewed @ _pairs_of_blocks(values, length, window)
    return sums.reshape(batch, blocks * window, -1)[:, :length]


def _pairs_of_blocks(values: Tensor, length: int, window: int) -> Tensor:
    """For each block of `window` of the last `length` positions, the values of the block before and of this one."""
    before, filled = values.size(1) - length, -(-length // window) * window
    values = F.pad(values[:, max(0, before - window) :], (0, 0, max(0, window - before), filled - length))
    return values.unfold(1, 2 * window, window).mT


def band_of_values(
    values: Shaped[Tensor, "batch context"], length: int, window: int, *, missing: float | bool
) -> Shaped[Tensor, "batch length window"]:
    """The values of the last `window` positions up to each of the last `length`; `missing` where there is none.

    >>> band_of_values(torch.tensor([[1, 2, 3]]), 2, 2, missing=0.0).tolist()
    [[[1, 2], [2, 3]]]
    """
    needed = length + window - 1
    values = F.pad(values[:, max(0, values.size(1) - needed) :], (max(0, needed - values.size(1)), 0), value=missing)
    return values.unfold(1, window, 1)


def band_of_matrix(
    matrix: Float[Tensor, "batch length context"], window: int, *, missing: float
) -> Float[Tensor, "batch length window"]:
    """The band of a square, or of its last rows; `missing` where there is no position."""
    _, length, context = matrix.shape
    place = _places(length, context, window, matrix.device)
    found = matrix.gather(2, place.clamp_min(0).expand(matrix.size(0), -1, -1))
    return found.masked_fill(place < 0, missing)


def matrix_of_band(
    band: Float[Tensor, "batch length window"], context: int, *, missing: float
) -> Float[Tensor, "batch length context"]:
    """The rows over all positions that a band is cut from; `missing` outside of it."""
    batch, length, window = band.shape
    place = _places(length, context, window, band.device)
    # places before the first position go to a column more, which is left out
    wide = band.new_full((batch, length, context + 1), missing)
    wide.scatter_(2, torch.where(place < 0, context, place).expand(batch, -1, -1), band)
    return wide[..., :context]


def _places(length: int, context: int, window: int, device: torch.device) -> Tensor:
    """The position of each entry of a band, [length window]."""
    rows = torch.arange(context - length, context, device=device)[:, None]
    return rows + torch.arange(1 - window, 1, device=device)
