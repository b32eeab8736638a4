"""The stream: every token once, columns that go on, and what a resumed epoch sees."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from depgen.data.batch import ItemBatch, collate_tokens
from depgen.data.stream import Segments, StreamColumns, segment_lengths
from depgen.errors import UserError
from depgen.models.dmlm import DependencyCollate
from tests.invented_tables import split_of
from tests.vocabularies import NO_WORDS

EOS = 0


def encoded(lengths, *, trees=False):
    ids = np.arange(1, sum(lengths) + 1, dtype=np.int32)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    heads = np.concatenate([np.arange(n) for n in lengths]).astype(np.int32) if trees else None
    return split_of(ids, offsets, NO_WORDS, heads=heads)


def stream_of(split):
    return [EOS] + [token for item in range(len(split)) for token in (*split[item].ids.tolist(), EOS)]


def batches_of(columns, **options):
    return [columns.__getitems__(segment) for segment in Segments(columns, **options)]


@settings(deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=8), st.integers(1, 5), st.integers(1, 7), st.booleans())
def test_columns_side_by_side_hold_the_stream_with_every_token_predicted_once(lengths, columns, bptt, vary):
    split = encoded(lengths)
    stream = stream_of(split)
    if columns > len(stream) - 1:
        with pytest.raises(UserError, match="can't be cut into"):
            StreamColumns(split, columns)
        return
    data = StreamColumns(split, columns)
    read, predicted, parts_of = ([[] for _ in range(columns)] for _ in range(3))
    for number, items in enumerate(batches_of(data, bptt=bptt, vary=vary)):
        batch = collate_tokens(items)
        assert batch.segment == number
        assert int(batch.lengths.min()) > 0
        assert batch.global_tokens == int(batch.lengths.sum())
        for row in range(columns):
            read[row].extend(batch.inputs[row, : batch.lengths[row]].tolist())
            predicted[row].extend(batch.targets[row, : batch.lengths[row]].tolist())
        parts = np.repeat(batch.parts.items.numpy(), batch.parts.lengths.numpy())
        for row, own in enumerate(np.split(parts, np.cumsum(batch.lengths.numpy())[:-1])):
            parts_of[row].extend(own.tolist())
    assert [token for column in read for token in column] == stream[:-1]
    assert [token for column in predicted for token in column] == stream[1:]
    assert [item for column in parts_of for item in column] == np.repeat(
        range(len(lengths)), np.add(lengths, 1)
    ).tolist()
    sizes = [len(column) for column in read]
    assert max(sizes) - min(sizes) <= 1


def test_ranks_share_numbered_rows_and_agree_on_the_tokens_of_the_whole_batch():
    data = StreamColumns(encoded([5, 0, 7, 3]), 4)
    shares = [batches_of(data, bptt=3, vary=False, world=2, rank=rank) for rank in range(2)]
    whole = batches_of(data, bptt=3, vary=False)
    numbers = []
    for first, second, both in zip(*shares, whole, strict=True):
        together, parts = collate_tokens(both), [collate_tokens(each) for each in (first, second)]
        assert sorted(parts[0].items.tolist() + parts[1].items.tolist()) == together.items.tolist()
        assert parts[0].global_tokens == parts[1].global_tokens == int(together.lengths.sum())
        numbers += together.items.tolist()
    assert sorted(numbers) == list(range(len(numbers)))


def test_an_epoch_can_be_gone_on_with_and_another_epoch_is_cut_otherwise():
    data = StreamColumns(encoded([400] * 10), 2)
    segments = Segments(data, 20, vary=True, seed=3, epoch=1)
    all_of_them = list(segments)
    segments.start = 7
    assert [each.start for each in segments] == [each.start for each in all_of_them[7:]]
    assert len(segments) == len(all_of_them)
    other = Segments(data, 20, vary=True, seed=3, epoch=2)
    assert other.lengths != segments.lengths


def test_the_published_distribution_of_segment_lengths():
    """Merity et al., Sec. 5: 70 with probability 0.95, else 35, and a standard deviation of 5."""
    lengths = np.array(segment_lengths(4_000_000, 70, vary=True, generator=np.random.default_rng(0))[:-1])
    short = lengths < 52
    assert abs(short.mean() - 0.05) < 0.005
    assert abs(lengths[~short].mean() - 69.5) < 0.2  # cut down to whole numbers
    assert abs(lengths[short].mean() - 34.5) < 0.5
    assert abs(lengths[~short].std() - 5) < 0.1


def test_a_short_segment_takes_a_small_step():
    batch = next(iter(batches_of(StreamColumns(encoded([300]), 2), bptt=20, vary=True)))
    assert batch.learning_rate_scale == batch.slices[0].stop / 20
    assert collate_tokens(batch).learning_rate_scale == batch.learning_rate_scale
    assert next(iter(batches_of(StreamColumns(encoded([300]), 2), bptt=20, vary=False))).learning_rate_scale == 1


def test_future_dependents_in_a_stream_are_those_of_each_line():
    """Position by position the same sets as line by line, also where a line is cut."""
    split = encoded([4, 1, 6, 0, 3], trees=True)
    expected = []
    for item in range(len(split)):
        alone = DependencyCollate()(ItemBatch([split[item]], 1, NO_WORDS))
        sets = alone.dependents
        expected += [sets.ids[sets.positions == place].tolist() for place in range(alone.inputs.numel())]
    found = {}
    data = StreamColumns(split, 3)
    for items in batches_of(data, bptt=4, vary=False):
        batch = DependencyCollate()(items)
        width = batch.inputs.shape[1]
        for row, part in enumerate(items.slices):
            begin = int(data.bounds[row]) + 4 * items.segment
            for t in range(part.stop - part.start):
                of_place = batch.dependents.positions == row * width + t
                found[begin + t] = batch.dependents.ids[of_place].tolist()
    assert [found[place] for place in sorted(found)] == expected
