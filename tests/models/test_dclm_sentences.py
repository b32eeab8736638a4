"""Contexts from sentence to sentence, beside reading every document by itself, sentence by sentence."""

import torch
from torch import nn

from depgen.models.dclm import encode_each, encode_in_turn, last_states, sentence_end_states

LENGTHS = torch.tensor([[3, 1, 2], [2, 0, 4], [1, 4, 0]])
LONGEST, SIZE = 5, 2


def read(words, context):
    """States that depend on the words so far and on the context."""
    return words.cumsum(-2) + 10 * context[..., None, :]


def by_hand(words, first):
    """Each document's states and what its sentences have left."""
    states, left = [], []
    for document, lengths in zip(words, LENGTHS.tolist(), strict=True):
        context = first
        for sentence, length in zip(document, lengths, strict=True):
            if length:
                found = read(sentence[:length], context)
                states.append(found)
                context = found[-1]
            left.append(context)
    return torch.cat(states), torch.stack(left)


def test_sentences_are_read_in_turn_as_by_hand():
    torch.manual_seed(0)
    words, first = torch.randn(3, 3, LONGEST, SIZE), torch.randn(SIZE)
    found = encode_in_turn(
        lambda sentence, longest, context: read(words[:, sentence, :longest], context), LENGTHS, LONGEST, first
    )
    states, left = by_hand(words, first)
    assert found.shape == words.shape
    filled = torch.arange(LONGEST) < LENGTHS[:, :, None]
    assert torch.allclose(found[filled], states)
    behind = sentence_end_states(found, LENGTHS, first)
    assert torch.equal(behind[:, 0], first.expand(3, -1))
    assert torch.allclose(behind[:, 1:][LENGTHS > 0], left.view(3, 3, SIZE)[LENGTHS > 0])


def test_a_row_without_words_keeps_what_was_given():
    states, given = torch.randn(3, 4, SIZE), torch.randn(3, SIZE)
    found = last_states(states, torch.tensor([0, 1, 4]), otherwise=given)
    assert torch.equal(found, torch.stack((given[0], states[1, 0], states[2, 3])))


class Sums(nn.Module):
    """Running sums, and the shape of all that is read."""

    def __init__(self):
        super().__init__()
        self.shapes = []

    def forward(self, inputs, *, constant):
        self.shapes.append(tuple(inputs.shape[:2]))
        return inputs.cumsum(1) + constant[:, None], None


def test_sentences_that_are_read_in_groups_come_back_where_they_were():
    torch.manual_seed(0)
    words = torch.randn(4, 2, 6, SIZE, dtype=torch.double, requires_grad=True)
    constant, lengths, sums = torch.randn(4, 2, SIZE).double(), torch.tensor([[2, 0], [5, 1], [5, 3], [2, 0]]), Sums()
    found = encode_each(sums, words, lengths, constant=constant)
    assert sums.shapes == [(3, 5), (2, 2), (1, 1)]  # 5, 5, 3; 2, 2; 1
    filled = (torch.arange(6) < lengths[..., None])[..., None]
    expected = words.cumsum(2) + constant[:, :, None]
    torch.testing.assert_close(found * filled, expected * filled, rtol=0, atol=0)
    assert not found[lengths == 0].any()
    (gradient,) = torch.autograd.grad((found * filled).sum(), words)
    (of_all,) = torch.autograd.grad((expected * filled).sum(), words)
    assert torch.equal(gradient, of_all)
