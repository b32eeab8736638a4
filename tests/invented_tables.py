"""Encoded splits of arrays in memory."""

from itertools import pairwise

import numpy as np
from datasets import Dataset

from depgen.data.table import EncodedSplit


def split_of(ids, offsets, vocabulary, *, heads=None, word_ends=None, sentences=None):
    """The items whose tokens lie between offsets; of each, where its sentences begin and end, by default one."""
    parts = [slice(begin, end) for begin, end in pairwise(offsets)]
    columns = {"ids": np.asarray(ids, np.int32), "heads": heads, "word_ends": word_ends}
    columns = {name: np.asarray(column) for name, column in columns.items() if column is not None}
    if heads is not None:
        columns["heads"] = columns["heads"].astype(np.int32)
    if word_ends is not None:
        columns["word_ends"] = columns["word_ends"].astype(np.uint8)
    rows = {name: [column[part] for part in parts] for name, column in columns.items()}
    rows["sentences"] = sentences or [[0, part.stop - part.start] for part in parts]
    return EncodedSplit(Dataset.from_dict(rows), vocabulary)
