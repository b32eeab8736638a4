import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from depgen.metrics.attachment import attachment_counts

TOKEN = st.tuples(st.integers(0, 3), st.integers(0, 3), st.booleans(), st.integers(0, 2), st.integers(0, 2))
TOKENS = st.lists(TOKEN, min_size=1, max_size=12)


def columns(tokens):
    predicted, gold, mask, labels, gold_labels = zip(*tokens, strict=True)
    as_tensor = torch.tensor
    relations = {"predicted_relations": as_tensor(labels), "gold_relations": as_tensor(gold_labels)}
    return (as_tensor(predicted), as_tensor(gold), as_tensor(mask)), relations


@given(TOKENS)
def test_equals_a_loop(tokens):
    heads, relations = columns(tokens)
    counts = attachment_counts(*heads, **relations)
    counted = [token for token in tokens if token[2]]
    right = [token for token in counted if token[0] == token[1]]
    assert counts.tokens == len(counted)
    assert counts.heads == len(right)
    assert counts.labels == sum(token[3] == token[4] for token in right)


def test_percentages_and_masked_padding():
    heads = torch.tensor([[2, 0, -1], [0, 1, 1]])
    gold = torch.tensor([[2, 0, -1], [0, 1, 2]])
    counts = attachment_counts(heads, gold, gold >= 0)
    assert counts.uas == pytest.approx(80.0)
    assert counts.labels is None
    assert math.isnan(counts.las)
    assert math.isnan(attachment_counts(heads, gold, torch.zeros_like(gold, dtype=torch.bool)).uas)


def test_unannotated_tokens_under_the_mask_are_refused():
    heads = torch.tensor([1, -1, 0])
    with pytest.raises(ValueError, match="1 tokens under the mask have no gold head"):
        attachment_counts(heads, heads, torch.tensor([True, True, True]))
