"""Which attention head a network parses by best: a choice that trees make, on sentences that judge nothing else."""

from collections.abc import Iterator, Sequence

import numpy as np

from depgen.data.batch import ItemBatch, TokenItem, WordBatch, collate_words
from depgen.data.sampler import TokenBudgetBatches
from depgen.data.vocabulary import AnyVocabulary, encode
from depgen.masked_language_model import AttentionParser
from depgen.trees.sentence import Sentence


def choose_attention_head(
    network: AttentionParser, vocabulary: AnyVocabulary, sentences: Sequence[Sentence], *, tokens_per_batch: int = 8192
) -> tuple[int, int]:
    """The layer and attention head (0-based) that the network parses by from here on, by the rule of its own.

    Args:
        network: what parses.
        vocabulary: what it was trained with.
        sentences: with trees, in the form of the text that it has learnt from.
        tokens_per_batch: read at a time, padding included; the choice does not depend on it.
    """
    return network.choose_attention_head(_batches(vocabulary, sentences, tokens_per_batch))


def _batches(vocabulary: AnyVocabulary, sentences: Sequence[Sentence], tokens_per_batch: int) -> Iterator[WordBatch]:
    items = [
        TokenItem(index, np.asarray(encode(vocabulary, sentence.words).ids), np.asarray(sentence.heads))
        for index, sentence in enumerate(sentences)
    ]
    lengths = np.array([len(item.ids) for item in items])
    for share in TokenBudgetBatches(lengths, tokens_per_batch=tokens_per_batch, shuffle=False):
        rows = [items[index] for index in share.indices]
        yield collate_words(ItemBatch(rows, share.global_tokens, unk=vocabulary.unk, mask=vocabulary.mask))
