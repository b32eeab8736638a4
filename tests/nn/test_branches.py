"""Keys that hypotheses share: equal to concatenation however they branch, and not copied when rows are chosen."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from depgen.nn.attention import KeyValues, Visibility, attend
from depgen.nn.branches import Places

HEADS, KEY_HEADS, SIZE = 4, 2, 3


def entries(rows, columns, generator):
    return torch.randn(rows, KEY_HEADS, columns, SIZE, generator=generator, dtype=torch.float64)


class Concatenated:
    """Keys and values as plain tensors."""

    def __init__(self, keys, values):
        self.keys, self.values = keys, values

    def select(self, rows):
        return Concatenated(self.keys[rows], self.values[rows])

    def extended(self, keys, values):
        return Concatenated(torch.cat((self.keys, keys), 2), torch.cat((self.values, values), 2))


@st.composite
def histories(draw):
    """Numbers of rows and columns at the beginning, and what is done: rows chosen, columns added, a state left."""
    rows = draw(st.integers(1, 4))
    found, steps = (rows, draw(st.integers(1, 3))), []
    for _ in range(draw(st.integers(1, 7))):
        chosen = draw(st.one_of(st.none(), st.lists(st.integers(0, rows - 1), min_size=1, max_size=6)))
        rows = rows if chosen is None else len(chosen)
        steps.append((chosen, draw(st.integers(0, 2)), draw(st.booleans())))
    return *found, steps


@pytest.mark.slow
@given(histories(), st.booleans())
@settings(max_examples=200, deadline=None)
def test_it_equals_concatenation_however_it_branches(history, gradients):
    rows, columns, steps = history
    generator = torch.Generator().manual_seed(1)
    parts = [entries(rows, columns, generator) for _ in range(4)]
    with torch.set_grad_enabled(gradients):
        layers = [KeyValues.of(*parts[:2]), KeyValues.of(*parts[2:])]
        expected = [Concatenated(*parts[:2]), Concatenated(*parts[2:])]
        seen = []
        for chosen, added, goes_on_twice in steps:
            seen.append((layers, expected))
            if chosen is not None:
                numbers = torch.tensor(chosen)
                first = layers[0].select(numbers)
                layers = [first, layers[1].select(numbers, like=first)]
                expected = [each.select(numbers) for each in expected]
                assert layers[0].places is layers[1].places
            if added:
                new = [entries(len(expected[0].keys), added, generator) for _ in range(4)]
                if goes_on_twice:
                    for layer in layers:
                        layer.extended(new[1] + 1, new[0])
                layers = [layers[0].extended(*new[:2]), layers[1].extended(*new[2:])]
                expected = [expected[0].extended(*new[:2]), expected[1].extended(*new[2:])]
        for states, others in [*seen, (layers, expected)]:
            for state, other in zip(states, others, strict=True):
                assert torch.equal(state.keys, other.keys)
                assert torch.equal(state.values, other.values)


def test_choosing_rows_copies_no_keys():
    keys = torch.randn(2, KEY_HEADS, 5, SIZE)
    with torch.no_grad():
        state = KeyValues.of(keys, -keys).select(torch.tensor([0, 0, 1, 1, 1]))
        pool = state._keys.tensor
        assert pool.shape == (10, KEY_HEADS, SIZE)
        for _ in range(3):
            chosen = state.select(torch.tensor([4, 4, 0, 2, 2, 2]))
            assert chosen._keys is state._keys
            assert chosen._values is state._values
            state = chosen.extended(keys[[0] * 6, :, :1], keys[[0] * 6, :, :1])
        assert state._keys.tensor.shape == (10 + 3 * 6, KEY_HEADS, SIZE)  # each entry once


def test_rows_that_are_not_repeated_lie_as_they_did():
    keys = torch.randn(4, KEY_HEADS, 5, SIZE)
    state = KeyValues.of(keys, -keys).select(torch.tensor([3, 0, 1]))
    assert state.places is None
    assert state.keys.is_contiguous()


def test_slots_and_rows_of_each_text():
    begun = Places.of(2, 2, torch.tensor([1, 0, 1, 1]))
    assert begun.extended(4, 2).table.tolist() == [[2, 3, 4, 5], [0, 1, 6, 7], [2, 3, 8, 9], [2, 3, 10, 11]]


def test_gradients_are_those_of_copies():
    found = []
    for shared in (True, False):
        generator = torch.Generator().manual_seed(2)
        keys, new = entries(2, 3, generator).requires_grad_(), entries(4, 1, generator)
        queries = torch.randn(4, HEADS, 1, SIZE, generator=generator, dtype=torch.float64)
        rows = torch.tensor([1, 1, 0, 1])
        state = KeyValues.of(keys, -keys) if shared else Concatenated(keys, -keys)
        state = state.select(rows).extended(new, new)
        if not shared:
            state = KeyValues.of(state.keys, state.values)
        mixed, _ = attend(queries, state, Visibility(None, False))
        found += torch.autograd.grad(mixed.square().sum(), keys)
    torch.testing.assert_close(*found, rtol=1e-9, atol=1e-9)
