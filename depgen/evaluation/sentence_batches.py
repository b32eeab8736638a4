"""Sentences as padded batches, for networks that read them whole."""

from collections.abc import Iterator, Sequence

import numpy as np

from depgen.data.batch import ItemBatch, TokenItem, WordBatch, collate_words
from depgen.data.vocabulary import Vocabulary, encode
from depgen.evaluation.unit_scores import batches_of_lengths
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
    for batch in batches_of_lengths(lengths[filled], tokens_per_batch=tokens_per_batch, batch_size=batch_size):
        items = []
        for place in filled[batch].tolist():
            heads = sentences[place].heads
            items.append(TokenItem(place, encoded[place], None if heads is None else np.array(heads)))
        yield collate_words(ItemBatch(items, int(lengths[filled[batch]].sum()), vocabulary))
