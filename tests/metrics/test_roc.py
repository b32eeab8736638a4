import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torchmetrics.functional.classification import binary_auroc

from depgen.metrics.roc import auc

SCORES = st.lists(st.integers(0, 5).map(float), min_size=1, max_size=12)


@given(SCORES, SCORES)
def test_it_is_the_share_of_pairs_in_order(positive, negative):
    pairs = [(p > n) + 0.5 * (p == n) for p in positive for n in negative]
    assert auc(np.array(positive), np.array(negative)) == pytest.approx(sum(pairs) / len(pairs))


def test_torchmetrics_agrees():
    generator = np.random.default_rng(0)
    positive, negative = generator.normal(1.0, 1.0, 400).round(1), generator.normal(0.0, 1.0, 300).round(1)
    scores, labels = torch.tensor(np.r_[positive, negative]), torch.tensor([1] * 400 + [0] * 300)
    expected = binary_auroc(scores.sigmoid(), labels).item()
    assert auc(positive, negative) == pytest.approx(expected, abs=1e-6)


def test_without_a_side_there_is_none():
    assert math.isnan(auc(np.array([]), np.array([1.0])))
    assert math.isnan(auc(np.array([1.0]), np.array([])))
