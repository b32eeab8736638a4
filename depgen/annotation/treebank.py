"""Treebanks made to look like the text that a parser will meet: lower-cased, with placeholders for names."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from depgen.trees.sentence import Sentence
from depgen.trees.text_form import PLACEHOLDERS

NAME_TAGS = frozenset({"PROPN", "NNP"})
NAME_RELATIONS = frozenset({"nsubj", "nsubj:pass", "vocative", "nmod:poss", "iobj"})
"""Relations whose proper nouns are mostly persons; a place or a brand is more often an oblique or a compound."""


def lowercase(sentence: Sentence) -> Sentence:
    """The sentence in lower case, placeholders excepted."""
    words = tuple(word if word in PLACEHOLDERS else word.lower() for word in sentence.words)
    return replace(sentence, words=words)


def replace_names(sentence: Sentence) -> Sentence:
    """The sentence with words that look like first names replaced by `[MALE]`, `[FEMALE]` or `[NEUTRAL]`.

    A treebank does not say which proper nouns are persons, so their place in the tree decides: a proper noun in title
    case that heads a flat name (`Ada Lovelace`), or that is a bare subject, vocative, possessor or recipient. Which
    placeholder it becomes depends on the name's letters alone (a hash): a parser only needs to have met all three.
    """
    words = list(sentence.words)
    for index in range(len(words)):
        if _looks_like_name(sentence, index):
            words[index] = PLACEHOLDERS[hashlib.sha256(words[index].lower().encode()).digest()[0] % len(PLACEHOLDERS)]
    return replace(sentence, words=tuple(words))


def _looks_like_name(sentence: Sentence, index: int) -> bool:
    assert sentence.tags is not None
    assert sentence.heads is not None
    assert sentence.relations is not None
    word = sentence.words[index]
    if sentence.tags[index] not in NAME_TAGS or not (word.isalpha() and word.istitle() and len(word) > 1):
        return False
    children = [child for child, head in enumerate(sentence.heads) if head == index + 1]
    if any(sentence.relations[child] == "flat" for child in children):
        return True
    modifiers = ("det", "compound", "amod", "nummod", "nmod")
    bare = not any(sentence.relations[child].split(":")[0] in modifiers for child in children)
    return bare and sentence.relations[index] in NAME_RELATIONS


def transform(sentences: Sequence[Sentence], *, lower: bool, names: bool) -> list[Sentence]:
    """The sentences with names replaced and then lower-cased, each if chosen; the trees stay as they are."""
    result = list(sentences)
    if names:
        result = [replace_names(sentence) for sentence in result]
    if lower:
        result = [lowercase(sentence) for sentence in result]
    return result
