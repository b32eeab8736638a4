"""A small backbone and a small batch with trees, shared by the tests of the systems."""

from functools import partial

import numpy as np
import pytest

from depgen.backbones.pretrained import PretrainedTransformer
from depgen.backbones.transformer import Transformer
from depgen.data.batch import ItemBatch, TokenItem
from tests.vocabularies import NO_WORDS

VOCABULARY = 13

SENTENCES = [
    ([2, 3, 4, 5, 6, 7, 8, 9, 10], [2, 6, 2, 5, 3, 0, 8, 6, 6]),
    ([3, 3, 1], [2, 0, 2]),
    ([7], [0]),
    ([], []),
]


SIZES = {"layers": 3, "width": 16, "attention_heads": 4, "feedforward": 32, "dropout": 0.1}


@pytest.fixture
def transformer():
    return partial(Transformer, **SIZES)


@pytest.fixture(params=["Transformer", "GPT-2"])
def backbone(request, transformer):
    gpt2 = partial(PretrainedTransformer, **SIZES, attention_dropout=0.1)
    return gpt2 if request.param == "GPT-2" else transformer


def items(*rows):
    chosen = [SENTENCES[row] for row in rows]
    tokens = [
        TokenItem(k, np.array(ids, dtype=np.int32), np.array(h, dtype=np.int32)) for k, (ids, h) in enumerate(chosen)
    ]
    return ItemBatch(tokens, sum(len(ids) + 1 for ids, _ in chosen), NO_WORDS)
