"""Sentences as grammar induction reads them: words alone, in lower case, with `N` for digits (Shen et al., 2022).

1. Words stay and punctuation goes, by tags where there are any. Of the Penn Treebank's, its 36 word tags stay, and
   `AUX` and `AUXG` of parsed text; so `$` and `#` go too, which have other tags, while `%` and `&` (tagged as
   nouns and conjunctions), `'s` and `n't` stay. UD English's further tags (`HYPH`, `NFP`, and `ADD`, `AFX`, `GW`, `XX`
   of addresses, affixes and parts of words) are not among those 36 either, and go. Of UPOS's, all stay but `PUNCT`, and
   `SYM` goes by form. Words of other tags, or without, go by form: see `depgen.trees.punctuation.is_bare_word`.
2. Lower case, unless it is to stay as it is.
3. `N` for each run of digits, wherever it is: `190.58` is `N.N`, `30-day` is `N-day`.

The language-modelling Penn Treebank has its own rules: `depgen.trees.normalization`.
"""

import re
from dataclasses import replace

from depgen.trees.normalization import NUMBER
from depgen.trees.punctuation import OTHER_TAGS, UPOS_TAGS, WORD_TAGS, is_bare_word
from depgen.trees.removal import Orphans, keep_words
from depgen.trees.sentence import Sentence

_DIGITS = re.compile(r"[0-9]+")


def bare_words(sentence: Sentence, *, orphans: Orphans = "roots", lowercase: bool = True) -> Sentence:
    """The sentence by the module's rules, its tree without what goes (see `keep_words`); maybe without words.

    >>> tags = ("NNP", "VBD", "$", "CD", "CD", ".")
    >>> sold = Sentence(("Ada", "spent", "$", "1.5", "million", "."), (2, 0, 5, 5, 2, 2), tags=tags)
    >>> bare = bare_words(sold)
    >>> " ".join(bare.words), bare.heads
    ('ada spent N.N million', (2, 0, 4, 2))
    """
    bare = keep_words(sentence, kept_words(sentence), orphans=orphans)
    return replace(bare, words=tuple(map(bare_word if lowercase else without_digits, bare.words)))


def kept_words(sentence: Sentence) -> list[bool]:
    """Whether each word stays: rule 1."""
    if sentence.tags is None:
        return [is_bare_word(word) for word in sentence.words]
    universal = UPOS_TAGS.issuperset(sentence.tags)
    stay = UPOS_TAGS - {"PUNCT", "SYM"} if universal else WORD_TAGS
    go = frozenset({"PUNCT"}) if universal else OTHER_TAGS
    pairs = zip(sentence.words, sentence.tags, strict=True)
    return [tag in stay or (tag not in go and is_bare_word(word)) for word, tag in pairs]


def bare_word(word: str) -> str:
    """The word in lower case, digits as `N`: rules 2 and 3.

    >>> [bare_word(word) for word in ("190.58", "30-Day", "NBC", "'86")]
    ['N.N', 'N-day', 'nbc', "'N"]
    """
    return without_digits(word.lower())


def without_digits(word: str) -> str:
    """The word with digits as `N`: rule 3.

    >>> [without_digits(word) for word in ("190.58", "30-Day", "NBC")]
    ['N.N', 'N-Day', 'NBC']
    """
    return _DIGITS.sub(NUMBER, word)
