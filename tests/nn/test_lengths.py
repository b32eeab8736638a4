"""Texts moved within their rows, against a loop."""

import torch

from depgen.nn.lengths import LeftAligned

PADDING = torch.tensor([[0, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 1], [1, 1, 1, 1]], dtype=torch.bool)


def test_texts_go_to_the_left_and_back():
    tokens = torch.arange(16).view(4, 4)
    rows = LeftAligned.of(PADDING, PADDING.device)
    moved = rows.moved(tokens)
    assert [moved[row][rows.kept[row]].tolist() for row in range(4)] == [[0, 1, 2, 3], [6, 7], [8], []]
    returned = rows.returned(moved[..., None].float() + 1)[..., 0]
    assert torch.equal(returned, torch.where(PADDING, 0, tokens + 1).float())


def test_the_last_entries_end_with_each_rows_text():
    history = torch.arange(24).view(4, 6, 1)  # two from before, then four
    last = LeftAligned.of(PADDING, PADDING.device).last(history, 2)[..., 0]
    assert last.tolist() == [[4, 5], [8, 9], [13, 14], [18, 19]]
    longer = LeftAligned.of(PADDING, PADDING.device).last(history, 1)[..., 0]
    assert longer.tolist() == [[5], [9], [14], [19]]


def test_without_padding_nothing_moves():
    rows, tokens = LeftAligned.of(None, PADDING.device), torch.arange(4).view(2, 2)
    assert rows.moved(tokens) is tokens
    assert rows.last(tokens[..., None], 1)[..., 0].tolist() == [[1], [3]]


def test_places_are_those_of_moved_tokens():
    rows = LeftAligned.of(PADDING, PADDING.device)
    assert torch.equal(rows.places, rows.kept.flatten().nonzero()[:, 0])
    assert LeftAligned.of(None, PADDING.device).places is None
