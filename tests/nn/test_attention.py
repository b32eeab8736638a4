"""Masks, carried keys and coded scores against literal loops; keys that hypotheses share, against concatenation."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from depgen.nn.attention import KeyValues, Places, Visibility, attend, coded_scores

CPU = torch.device("cpu")


def seen(query: int, key: int, padded: list[bool], *, causal: bool) -> bool:
    if causal:
        return key <= query and (not padded[key] or key == query)
    return not padded[key] or all(padded)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("length", [1, 2, 4])
def test_visibility_by_its_definition(length, causal):
    context = 4 if causal else length
    padding = torch.tensor(list(itertools.product([False, True], repeat=context)))
    visibility = Visibility.of(length, padding, causal=causal, context=context, device=CPU)
    mask = visibility.explicit(length, context, CPU).expand(-1, 1, length, -1)
    for row, padded in enumerate(padding.tolist()):
        for query in range(length):
            place = context - length + query
            expected = [seen(place, key, padded, causal=causal) for key in range(context)]
            assert mask[row, 0, query].tolist() == expected
            assert any(expected)
            assert visibility.padded_queries[row, 0, query, 0] == padded[place]


def test_keys_and_values_grow_as_by_concatenation_and_copies_do_not_disturb_each_other():
    parts = [torch.randn(3, 2, length, 4) for length in (3, 1, 2, 5, 1, 1)]
    with torch.no_grad():
        past, kept = KeyValues.of(parts[0], -parts[0]), []
        for part in parts[1:]:
            kept.append(past)
            past = past.extended(part, -part)
            kept[-1].extended(part + 1, part)  # the same state gone on from once more
        for count, state in enumerate([*kept, past], start=1):
            expected = torch.cat(parts[:count], 2)
            assert torch.equal(state.keys, expected)
            assert torch.equal(state.values, -expected)
        rows = torch.tensor([2, 2, 0])
        chosen = past.select(rows).extended(parts[1], parts[1])
        assert torch.equal(chosen.keys, torch.cat((*(part[rows] for part in parts), parts[1]), 2))


def test_some_rows_get_columns_and_others_a_filler():
    keys, values = torch.randn(2, 3, 2, 4, 5).double()
    kept = torch.tensor([[0, 3], [2, 1], [1, 2]])
    state = KeyValues.of(keys, values).in_new_slots(kept)
    other = KeyValues.of(values, keys).in_new_slots(kept, like=state)
    assert state.context == 3
    assert not state.keys[:, :, 0].any()
    for row, columns in enumerate(kept.tolist()):
        assert torch.equal(state.keys[row, :, 1:], keys[row, :, columns])
        assert torch.equal(other.keys[row, :, 1:], values[row, :, columns])
    rows, new = torch.tensor([2, 0]), torch.randn(2, 2, 1, 5).double()
    longer = state.with_rows(rows, state.select(rows).extended(new, new))
    assert longer.context == 4
    assert torch.equal(longer.keys[:, :, :3], state.keys)
    assert torch.equal(longer.values[rows, :, 3], new[:, :, 0])
    assert not longer.keys[1, :, 3].any()
    assert longer.with_rows(rows, longer.select(rows).extended(new, new), like=state).places is state.places


PADDING = torch.arange(51) >= torch.tensor([51, 30, 7])[:, None]


def relative_errors(found, expected):
    """Euclidean, of the mixed values and the gradients of queries, keys and values."""
    return [float((f.double() - e).norm() / e.norm()) for f, e in zip(found, expected, strict=True)]


@pytest.mark.parametrize("padding", [None, PADDING], ids=["no padding", "padding"])
@pytest.mark.parametrize("causal", [True, False])
def test_training_in_bf16_is_at_least_as_exact_as_torch(causal, padding):
    torch.manual_seed(0)
    visibility = Visibility.of(51, padding, causal=causal, context=51, device=CPU)
    seen = visibility.explicit(51, 51, CPU)
    entries, size = torch.randn(3, 3, 4, 51, 64).mul_(2).bfloat16(), 64
    weighting = torch.randn(3, 4, 51, 64).bfloat16()

    def mixed_and_gradients(mix, dtype):
        inputs = [each.clone().requires_grad_() for each in entries.to(dtype)]
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
            mixed = mix(*inputs)
        assert mixed.dtype == dtype
        mixed.backward(weighting.to(dtype))
        return [mixed.detach(), *(each.grad for each in inputs)]

    def by_its_formula(queries, keys, values):
        scores = queries @ keys.mT / size**0.5
        return (scores if seen is None else scores.masked_fill(~seen, -torch.inf)).softmax(-1) @ values

    def by_torch(queries, keys, values):
        return F.scaled_dot_product_attention(queries, keys, values, attn_mask=seen)

    def by_attend(queries, keys, values):
        return attend(queries, KeyValues.of(keys, values), visibility)[0]

    expected = mixed_and_gradients(by_its_formula, torch.float64)
    torchs = relative_errors(mixed_and_gradients(by_torch, torch.bfloat16), expected)
    errors = relative_errors(mixed_and_gradients(by_attend, torch.bfloat16), expected)
    assert all(error <= other for error, other in zip(errors, torchs, strict=True))
    assert max(errors) < 0.002  # that of rounding a result to bf16; torch's kernel has up to 0.005


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dropout_takes_single_weights_and_scales_the_others(dtype):
    torch.manual_seed(0)
    queries, values = torch.zeros(50, 4, 16, 16, dtype=dtype).requires_grad_(), torch.eye(16, dtype=dtype)
    mixed, _ = attend(
        queries, KeyValues.of(queries, values.expand_as(queries)), Visibility(None, False), dropout=0.25
    )  # fmt: skip
    is_dropped = mixed == 0
    assert is_dropped.double().mean() == pytest.approx(0.25, abs=0.01)
    assert torch.allclose(mixed[~is_dropped].float(), torch.tensor(1 / 16 / 0.75), rtol=0.005)


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


BATCH, LENGTH, CONTEXT, CODES = 2, 4, 6, 151


def coded(features: tuple[int, ...], dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Queries, the vectors of codes, and the codes of pairs."""
    torch.manual_seed(0)
    queries = torch.randn(BATCH, HEADS, LENGTH, SIZE, dtype=torch.float64, requires_grad=True)
    tables = torch.randn(*features, CODES, HEADS, SIZE, dtype=torch.float64, requires_grad=True)
    return queries, tables, torch.randint(CODES, (BATCH, *features, LENGTH, CONTEXT)).to(dtype)


def scores_by_pair(queries: torch.Tensor, tables: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
    """By the vector of each feature, query and key."""
    vectors = sum(table[code.long()] for table, code in zip(tables, codes.unbind(1), strict=True))
    return torch.einsum("bhts,btjhs->bhtj", queries, vectors)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64])
@pytest.mark.parametrize("features", [1, 3])
def test_scores_by_code_and_their_gradients_equal_those_of_the_vectors_of_all_pairs(features, dtype):
    queries, tables, codes = coded((features,), dtype)
    found, expected = coded_scores(queries, tables, codes), scores_by_pair(queries, tables, codes)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    weights = torch.randn_like(expected)
    found, expected = (torch.autograd.grad((each * weights).sum(), (queries, tables)) for each in (found, expected))
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_one_table_needs_no_axis_of_features():
    queries, tables, codes = coded((), torch.uint8)
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
