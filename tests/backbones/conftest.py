"""Words of a small vocabulary."""

import torch

VOCABULARY = 11


def words(*shape):
    return torch.randint(0, VOCABULARY, shape, generator=torch.Generator().manual_seed(1))
