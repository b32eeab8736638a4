"""Charts against the trees that they come from."""

from hypothesis import given
from hypothesis import strategies as st

from depgen.trees.charts import NO_CONSTITUENT, chart_of, constituents_of
from depgen.trees.constituency import check_constituents
from tests.trees.trees import constituents


@given(st.data())
def test_a_chart_is_a_binary_tree_that_gives_the_constituents_back(data):
    length = data.draw(st.integers(1, 9))
    own = data.draw(constituents(length))
    chart = chart_of(own, length)
    assert constituents_of(chart) == own
    spans = {(start, end) for start, end, _ in chart}
    assert len(chart) == len(spans) == 2 * length - 1
    check_constituents([(start, end, label or "_") for start, end, label in chart], length, "here")
    for start, end in spans:
        if end - start > 1:
            assert any((start, cut) in spans and (cut, end) in spans for cut in range(start + 1, end))


def test_many_parts_are_made_binary_from_the_right():
    flat = [(0, 4, "S"), (0, 4, "VP"), (1, 2, "NP")]
    assert chart_of(flat, 4) == [
        (0, 4, "S VP"), (0, 1, ""), (1, 4, ""), (1, 2, "NP"), (2, 4, ""), (2, 3, ""), (3, 4, ""),
    ]  # fmt: skip
    assert chart_of([], 1) == [(0, 1, NO_CONSTITUENT)]
