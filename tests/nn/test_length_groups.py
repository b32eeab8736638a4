"""Rows read in groups against rows read at once, and groups against all ways to cut."""

from itertools import combinations, pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from depgen.nn import length_groups
from depgen.nn.length_groups import encode_by_length, group_bounds


def cost(lengths, bounds, overhead):
    return sum(lengths[begin] * (overhead + end - begin) for begin, end in pairwise(bounds))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=8), st.integers(0, 20))
def test_no_other_cut_costs_less(lengths, overhead):
    lengths = sorted(lengths, reverse=True)
    rows = sum(length > 0 for length in lengths)
    found = group_bounds(lengths, overhead)
    if not rows:
        assert found == [0]
        return
    assert found[0] == 0
    assert found[-1] == rows
    cuts = [cut for count in range(rows) for cut in combinations(range(1, rows), count)]
    assert cost(lengths, found, overhead) == min(cost(lengths, [0, *cut, rows], overhead) for cut in cuts)


@pytest.mark.parametrize("overhead", [0, 3, 1000])
def test_rows_come_back_where_they_were(monkeypatch, overhead):
    monkeypatch.setitem(length_groups.STEP_OVERHEAD, "cpu", overhead)
    torch.manual_seed(0)
    values = torch.randn(7, 6, 2, dtype=torch.double, requires_grad=True)
    lengths = torch.tensor([2, 0, 5, 1, 5, 0, 2])
    sizes = []

    def read(rows, longest):
        sizes.append((len(rows), longest))
        return values[rows, :longest].cumsum(1)

    found = encode_by_length(read, lengths, 6)
    assert sizes == {0: [(2, 5), (2, 2), (1, 1)], 3: [(2, 5), (3, 2)], 1000: [(5, 5)]}[overhead]
    kept = (torch.arange(6) < lengths[:, None])[..., None]
    torch.testing.assert_close(found * kept, values.cumsum(1) * kept, rtol=0, atol=0)
    assert not found[lengths == 0].any()
    (gradient,) = torch.autograd.grad((found * kept).sum(), values)
    (expected,) = torch.autograd.grad((values.cumsum(1) * kept).sum(), values)
    assert torch.equal(gradient, expected)
