"""Vocabularies without a word, for ids that are no word's, and documents with given counts of words."""

from collections import Counter

from depgen.data.vocabulary import Vocabulary
from depgen.trees.sentence import Document, Sentence

NO_WORDS = Vocabulary.of_words([])
NO_WORDS_BUT_MASK = Vocabulary.of_words([], specials=["mask_id"])
NO_WORDS_BUT_START = Vocabulary.of_words([], specials=["start"])


def documents_of(counts):
    """One document in which each word occurs as often as its count says."""
    return [Document((Sentence(tuple(Counter(counts).elements())),), "counted")]
