r"""Treebank sentences as the language-modelling Penn Treebank (Mikolov et al., 2010) writes them.

Its rules are not published; these are read off the text. Of the 3,914 sentences of the Wall Street Journal sample they
turn 3,910 into the lines 2 to 3,911 of `ptb.train.txt`, word for word and in that order; the other four, lists of fined
brokers (wsj_0096), are in none of the three files.

1. Punctuation goes, by its *tag* and not by its form: commas, stops, colons, dashes, brackets and quotation marks. The
   apostrophe of a possessive (tag `POS`), `$`, `#` and `&` stay. UD English-EWT has two more such tags, for hyphens
   within words (`HYPH`) and for emoticons and rules (`NFP`). Tags of neither the Penn Treebank nor UPOS tell nothing:
   their words go by form, and so do words without tags.
2. Lower case, with the Treebank's own tokens: `n't`, `'s`, `us$`, `property\/casualty`.
3. `N` for what is written in digits, with commas, stops, colons, hyphens and slashes among them (`1,234.5`, `3\/4`,
   `1:30`, `1989-90`), and for `%`: `$ N million`, `N N`. Digits next to letters or an apostrophe are words (`30-day`).
4. `<unk>` for whatever is not among the 9,999 types of the training text.
"""

import re
from collections.abc import Collection
from dataclasses import replace

from depgen.trees.punctuation import PENN_TAGS, PUNCTUATION_TAGS, UPOS_TAGS, is_bare_word, is_currency
from depgen.trees.removal import keep_words
from depgen.trees.sentence import Sentence

NUMBER, UNKNOWN = "N", "<unk>"

_NUMERAL = re.compile(r"[\d.,:/\\-]*\d[\d.,:/\\-]*|%")


def normalize(sentence: Sentence, vocabulary: Collection[str]) -> Sentence:
    r"""The sentence by the module's rules, its tree without the punctuation (see `keep_words`); maybe without words.

    Args:
        sentence: tagged by the Penn Treebank's tags or by UPOS, which tell what is punctuation; else form does.
        vocabulary: the words that are known.

    >>> tags = ("NNP", "VBD", "CD", "NN", ".")
    >>> sold = Sentence(("Ada", "sold", r"3\/4", "%", "."), (2, 0, 4, 2, 2), tags=tags)
    >>> bare = normalize(sold, {"sold", "N"})
    >>> " ".join(bare.words), bare.heads
    ('<unk> sold N N', (2, 0, 4, 2))
    """
    assert sentence.tags is not None
    bare = keep_words(sentence, kept_words(sentence))
    return replace(bare, words=tuple(normalize_word(word, vocabulary) for word in bare.words))


def kept_words(sentence: Sentence) -> list[bool]:
    """Whether each word stays: rule 1. By form, `#`, currency signs and a lone apostrophe stay, as they do by tags."""
    tags = sentence.tags or ("",) * len(sentence)
    known = PENN_TAGS | UPOS_TAGS
    return [
        tag not in PUNCTUATION_TAGS if tag in known else word in ("#", "'") or is_currency(word) or is_bare_word(word)
        for word, tag in zip(sentence.words, tags, strict=True)
    ]


def normalize_word(word: str, vocabulary: Collection[str]) -> str:
    r"""The word in lower case, `N` or `<unk>`: rules 2 to 4.

    >>> [normalize_word(word, {"N", "the", "30-day"}) for word in ("The", "1,000", "30-DAY", "'86", "%")]
    ['the', 'N', '30-day', '<unk>', 'N']
    """
    written = lowered(word)
    return written if written in vocabulary else UNKNOWN


def lowered(word: str) -> str:
    r"""The word in lower case, or `N`: rules 2 and 3.

    >>> [lowered(word) for word in ("The", "1,000", "30-DAY", "'86", "%")]
    ['the', 'N', '30-day', "'86", 'N']
    """
    return NUMBER if _NUMERAL.fullmatch(word) else word.lower()
