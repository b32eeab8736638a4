"""Batches of sentences for masked language models."""

import numpy as np
import pytest
import torch

from depgen.data.batch import ItemBatch, TokenItem, collate_words
from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError
from tests.vocabularies import NO_WORDS, NO_WORDS_BUT_MASK


def item(index, ids, heads=None):
    given = None if heads is None else np.array(heads, dtype=np.int32)
    return TokenItem(index, np.array(ids, dtype=np.int32), given)


def test_sentences_stand_as_they_are_and_are_padded_with_the_end_of_sequence():
    batch = collate_words(ItemBatch([item(7, [3, 4, 5]), item(2, [6])], 6, NO_WORDS_BUT_MASK))
    assert batch.tokens.tolist() == [[3, 4, 5], [6, 0, 0]]
    assert batch.tokens.dtype == batch.lengths.dtype == torch.int64
    assert batch.lengths.tolist() == [3, 1]
    assert batch.items.tolist() == [7, 2]
    assert batch.is_word.tolist() == [[True, True, True], [True, False, False]]
    assert (batch.unk, batch.mask_id, batch.heads) == (1, 2, None)


def test_padding_is_a_token_where_a_ready_tokenizer_names_no_unknown_one():
    vocabulary = Vocabulary(NO_WORDS_BUT_MASK.tokenizer, specials={"eos": "<eos>", "mask_id": "<mask>"})
    batch = collate_words(ItemBatch([item(0, [3, 4]), item(1, [6])], 3, vocabulary))
    assert (batch.unk, batch.tokens.tolist()) == (-1, [[3, 4], [6, 0]])
    assert batch.known.tolist() == [[True, True], [True, False]]


def test_trees_come_along_where_all_have_one():
    both = [item(0, [3, 4, 5], [2, 0, 2]), item(1, [6], [0])]
    assert collate_words(ItemBatch(both, 6, NO_WORDS_BUT_MASK)).heads.tolist() == [[2, 0, 2], [0, -1, -1]]
    assert collate_words(ItemBatch([both[0], item(1, [6])], 6, NO_WORDS_BUT_MASK)).heads is None


def test_a_batch_moves_but_for_what_a_step_needs_on_the_cpu():
    batch = collate_words(ItemBatch([item(0, [3, 4], [0, 1])], 3, NO_WORDS_BUT_MASK)).to("meta")
    assert all(each.device.type == "meta" for each in (batch.tokens, batch.heads))
    assert all(each.device.type == "cpu" for each in (batch.lengths, batch.items, batch.known))
    assert (batch.unk, batch.mask_id) == (1, 2)


def test_a_vocabulary_without_a_mask_is_told_how_to_get_one():
    with pytest.raises(UserError, match=r"<mask>: .*data\.init_args\.vocabulary.* masks"):
        collate_words(ItemBatch([item(0, [3])], 2, NO_WORDS))
