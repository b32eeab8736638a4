"""Attention scores of pairs that are described by small whole numbers, as depths in a tree or distances in a graph."""

from jaxtyping import Float, Integer
from torch import Tensor


def coded_scores(
    queries: Float[Tensor, "batch attention_heads length size"],
    tables: Float[Tensor, "*features codes attention_heads size"],
    codes: Integer[Tensor, "batch *features length context"],
) -> Float[Tensor, "batch attention_heads length context"]:
    """Each query times the vector that its pair with a key is coded by, summed over features; not scaled.

    One product of the queries with all vectors of the tables, 2·batch·length·features·codes·width operations, and a
    look-up of its results: batch·heads·length·(features·codes + 2·context) numbers are held. The vectors themselves are
    never laid out by pair, which would take batch·length·context·width.

    >>> import torch
    >>> queries, tables = torch.tensor([[[[2.0]]]]), torch.tensor([[[1.0]], [[10.0]]])
    >>> coded_scores(queries, tables, torch.tensor([[[1, 0, 1]]]))
    tensor([[[[20.,  2., 20.]]]])
    """
    batch, heads, length, size = queries.shape
    context, count = codes.size(-1), tables.size(-3)
    vectors = tables.reshape(-1, heads, size).permute(1, 2, 0).to(queries.dtype)
    products = queries.transpose(0, 1).reshape(heads, batch * length, size) @ vectors
    by_code = products.view(heads, batch, length, -1, count)
    scores = products.new_zeros(())
    for feature, of_feature in enumerate(codes.reshape(batch, -1, length, context).unbind(1)):
        scores = scores + by_code[..., feature, :].gather(-1, of_feature.long().expand(heads, -1, -1, -1))
    return scores.transpose(0, 1)
