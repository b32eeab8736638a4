"""Checks of shapes in the place of jaxtyping's own."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from beartype import beartype
from jaxtyping import Float, Int
from torch import Tensor

from depgen.evaluation.coherence import credit
from tests.shape_checks import shapes_checked

wrapped = shapes_checked(typechecker=beartype)


@wrapped
def product(one: Float[Tensor, "rows inner"], other: Float[Tensor, "inner columns"]) -> Float[Tensor, "rows columns"]:
    return (one @ other).T if one.isnan().any() else one @ other


@wrapped
def first(values: Float[Tensor, "length width"], count: int) -> Float[Tensor, "{count} width"]:
    return values[:count]


@wrapped
@dataclass(frozen=True)
class Pair:
    """Two arrays of one length."""

    one: Int[np.ndarray, " length"]
    other: Int[np.ndarray, " length"]


def test_shapes_that_fit_pass():
    assert product(torch.ones(2, 3), torch.ones(3, 4)).shape == (2, 4)
    assert product(torch.ones(5, 1), other=torch.ones(1, 4)).shape == (5, 4)  # each call has sizes of its own
    assert first(torch.ones(3, 4), count=2).shape == (2, 4)


@pytest.mark.parametrize(
    "call",
    [
        lambda: product(torch.ones(2, 3), torch.ones(4, 3)),
        lambda: product(torch.full((2, 3), torch.nan), torch.ones(3, 4)),
        lambda: first(torch.ones(3, 4), 5),
        lambda: Pair(np.arange(3), np.arange(4)),
        lambda: credit(np.ones((2, 3))),  # a function of the package
    ],
)
def test_others_are_refused(call):
    with pytest.raises(Exception, match=r"violates type hint|Type-check error"):
        call()
