"""Masks and carried keys, against literal loops."""

import itertools

import pytest
import torch
import torch.nn.functional as F

from depgen.nn.attention import KeyValues, Visibility, attend

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
