"""The forms in which models read text: what is left out of a sentence, and how the words that stay are spelt.

Text that has a form already is not changed by it, so callers need not know whether it has. One thing can't be
known: `Now` may be a capital or, in `bare`, what has become of `5ow`. A capital N replaces digits unless a letter
follows; of those, only the endings of ordinals, decades and the like (`Nth`, `Ns`) are taken for a number's.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from depgen.trees import bare_words, normalization
from depgen.trees.bare_words import bare_word, without_digits
from depgen.trees.normalization import NUMBER, normalize_word
from depgen.trees.punctuation import is_bare_word
from depgen.trees.sentence import Sentence

FormName = Literal["bare", "bare_cased", "ptb", "stories", "lower", "as_is"]

PLACEHOLDERS = ("[MALE]", "[FEMALE]", "[NEUTRAL]")
"""What replaces people's names in the stories of Kong et al. (2021)."""

_PLACEHOLDER = re.compile(r"\[[A-Z]+\]")
_BARE_NUMBER = re.compile(r"(?<!N)N(?:st|nd|rd|th|s|d)?(?![^\W_])")


@dataclass(frozen=True)
class TextForm:
    """How running text becomes the text that a model has learnt from.

    Attributes:
        kept: whether each word of a sentence stays.
        spelt: a word that stays, as the model's vocabulary has it.
    """

    kept: Callable[[Sentence], list[bool]]
    spelt: Callable[[str], str]


def _kept_in_bare(sentence: Sentence) -> list[bool]:
    """By `bare_words.kept_words`; `N$`, once `5$`, is no sign of a currency."""
    if sentence.tags is not None:
        return bare_words.kept_words(sentence)
    return [is_bare_word(word) or _BARE_NUMBER.search(word) is not None for word in sentence.words]


def _all_kept(sentence: Sentence) -> list[bool]:
    return [True] * len(sentence)


def _spelt_in_ptb(word: str) -> str:
    """With typewriter apostrophes, as all of its text."""
    word = word.replace("’", "'")
    return word if word == NUMBER else normalize_word(word, (word.lower(), NUMBER))


def _spelt_in_bare(word: str) -> str:
    rest = _BARE_NUMBER.sub("", word)
    return word if rest != word and rest == bare_word(rest) else bare_word(word)


FORMS: Mapping[FormName, TextForm] = {
    "bare": TextForm(_kept_in_bare, _spelt_in_bare),
    "bare_cased": TextForm(_kept_in_bare, without_digits),
    "ptb": TextForm(normalization.kept_words, _spelt_in_ptb),
    "stories": TextForm(_all_kept, lambda word: word if _PLACEHOLDER.fullmatch(word) else word.lower()),
    "lower": TextForm(_all_kept, str.lower),
    "as_is": TextForm(_all_kept, str),
}
"""`bare`: `depgen.trees.bare_words`; `bare_cased`: the same with capitals. `ptb`: `depgen.trees.normalization`.
`lower`: all words, lower-cased; `stories`: the same but for placeholders of names, which are capitals in square
brackets. `as_is`: nothing changes."""
