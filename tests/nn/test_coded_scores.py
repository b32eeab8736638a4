"""Scores by table and look-up against the vectors of all pairs."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from depgen.nn.coded_scores import coded_scores

BATCH, HEADS, LENGTH, CONTEXT, SIZE, CODES = 2, 3, 4, 6, 5, 151


def some(features: tuple[int, ...], dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    queries = torch.randn(BATCH, HEADS, LENGTH, SIZE, dtype=torch.float64, requires_grad=True)
    tables = torch.randn(*features, CODES, HEADS, SIZE, dtype=torch.float64, requires_grad=True)
    return queries, tables, torch.randint(CODES, (BATCH, *features, LENGTH, CONTEXT)).to(dtype)


def naive(queries: torch.Tensor, tables: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
    """By the vector of each feature, query and key."""
    vectors = sum(table[code.long()] for table, code in zip(tables, codes.unbind(1), strict=True))
    return torch.einsum("bhts,btjhs->bhtj", queries, vectors)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64])
@pytest.mark.parametrize("features", [1, 3])
def test_scores_and_gradients_equal_those_of_the_vectors_of_all_pairs(features, dtype):
    queries, tables, codes = some((features,), dtype)
    found, expected = coded_scores(queries, tables, codes), naive(queries, tables, codes)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    weights = torch.randn_like(expected)
    found, expected = (torch.autograd.grad((each * weights).sum(), (queries, tables)) for each in (found, expected))
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_one_table_needs_no_axis_of_features():
    queries, tables, codes = some((), torch.uint8)
    torch.testing.assert_close(
        coded_scores(queries, tables, codes), coded_scores(queries, tables[None], codes[:, None])
    )


def test_no_tensor_of_the_size_of_length_by_context_by_width_is_made():
    torch.manual_seed(0)
    queries, codes = torch.randn(1, 8, 64, 128), torch.randint(16, (1, 1, 64, 64))
    tables = torch.randn(1, 16, 8, 128)
    largest = 0

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            nonlocal largest
            result = function(*args, **(kwargs or {}))
            for each in result if isinstance(result, (list, tuple)) else [result]:
                largest = max(largest, each.untyped_storage().nbytes() // each.element_size())
            return result

    with Watch():
        coded_scores(queries, tables, codes)
    assert largest == 64 * 8 * 128  # the queries
