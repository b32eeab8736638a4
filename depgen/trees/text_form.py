"""The forms in which models read text: what is left out of a sentence, and how the words that stay are spelt."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from depgen.trees.bare_words import bare_word, is_bare_word, is_currency, kept_words
from depgen.trees.normalization import NUMBER, PUNCTUATION_TAGS, normalize_word
from depgen.trees.sentence import Sentence

FormName = Literal["bare", "ptb", "lower", "as_is"]


@dataclass(frozen=True)
class TextForm:
    """How running text becomes the text that a model has learnt from.

    Attributes:
        kept: whether each word of a sentence stays.
        spelt: a word that stays, as the model's vocabulary has it.
    """

    kept: Callable[[Sentence], list[bool]]
    spelt: Callable[[str], str]


def _kept_in_ptb(sentence: Sentence) -> list[bool]:
    """By tags, or else by form, where `#` and currency signs stay, as they do by tags."""
    if sentence.tags is None:
        return [word == "#" or is_currency(word) or is_bare_word(word) for word in sentence.words]
    return [tag not in PUNCTUATION_TAGS for tag in sentence.tags]


def _all_kept(sentence: Sentence) -> list[bool]:
    return [True] * len(sentence)


FORMS: Mapping[FormName, TextForm] = {
    "bare": TextForm(kept_words, bare_word),
    "ptb": TextForm(_kept_in_ptb, lambda word: normalize_word(word, (word.lower(), NUMBER))),
    "lower": TextForm(_all_kept, str.lower),
    "as_is": TextForm(_all_kept, str),
}
"""`bare`: `depgen.trees.bare_words`. `ptb`: `depgen.trees.normalization`. `lower`: all words, lower-cased. `as_is`:
what has its form already."""
