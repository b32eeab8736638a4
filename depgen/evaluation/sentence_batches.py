"""Sentences as padded batches, for networks that read them whole."""

from collections.abc import Iterator, Sequence

import numpy as np

from depgen.data.batch import ItemBatch, TokenItem, WordBatch, collate_words
from depgen.data.sampler import TokenBudgetBatches
from depgen.data.vocabulary import Vocabulary, encode
from depgen.trees.sentence import Sentence


def sentence_batches(
    vocabulary: Vocabulary,
    sentences: Sequence[Sentence],
    *,
    tokens_per_batch: int,
    batch_size: int | None = None,
) -> Iterator[WordBatch]:
    """Sentences of like length together, with their trees where all of a batch have one; those without words are left
    out.

    Args:
        vocabulary: of whole words, with `<mask>`.
        sentences: in the form of the text that the network has learnt from; `items` of a batch are places among them.
        tokens_per_batch: padding included; a longer sentence is a batch by itself.
        batch_size: the most sentences in a batch; None: any number.
    """
    encoded = [encode(vocabulary, sentence.words).ids for sentence in sentences]
    lengths = np.array([len(ids) for ids in encoded], dtype=np.int64)
    assert lengths.tolist() == [len(sentence) for sentence in sentences], "heads are those of whole words"
    filled = np.flatnonzero(lengths)
    for share in TokenBudgetBatches(lengths[filled], tokens_per_batch=tokens_per_batch, shuffle=False):
        alike = filled[share.indices].tolist()
        most = batch_size or len(alike)
        for places in (alike[first : first + most] for first in range(0, len(alike), most)):
            items = [_item(place, encoded[place], sentences[place].heads) for place in places]
            tokens = int(lengths[places].sum())
            yield collate_words(ItemBatch(items, tokens, vocabulary))


def _item(place: int, ids: np.ndarray, heads: Sequence[int] | None) -> TokenItem:
    return TokenItem(place, ids, None if heads is None else np.array(heads))
