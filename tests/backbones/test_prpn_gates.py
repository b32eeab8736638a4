"""Gates at their edges; their values in between are compared in `tests/backbones/test_prpn.py`."""

import torch

from depgen.backbones.prpn import gated_softmax, open_slots


def test_slots_from_before_a_text_are_closed():
    known = torch.cat((torch.full((1, 2), torch.inf), torch.ones(1, 4)), 1)
    gates = open_slots(torch.ones(1, 4), known, slots=2, resolution=0.1, hard=True)
    assert gates.tolist() == [[[0, 1], [1, 1], [1, 1], [1, 1]]]  # oldest slot first


def test_closed_slots_return_nothing():
    assert not gated_softmax(torch.randn(4, 3), torch.zeros(4, 3)).any()
