r"""The forms in which models read text: which words of a sentence stay, and how they are spelt.

**bare**: sentences as grammar induction reads them (Shen et al., 2022).

1. Words stay and punctuation goes, by tags where there are any. Of the Penn Treebank's, its 36 word tags stay, and
   `AUX` and `AUXG` of parsed text; so `$` and `#` go too, which have other tags, while `%` and `&` (tagged as
   nouns and conjunctions), `'s` and `n't` stay. UD English's further tags (`HYPH`, `NFP`, and `ADD`, `AFX`, `GW`, `XX`
   of addresses, affixes and parts of words) are not among those 36 either, and go. Of UPOS's, all stay but `PUNCT`, and
   `SYM` goes by form. Words of other tags, or without, go by form: see `depgen.trees.punctuation.is_bare_word`.
2. Lower case.
3. `N` for each run of digits, wherever it is: `190.58` is `N.N`, `30-day` is `N-day`.

**ptb**: the language-modelling Penn Treebank (Mikolov et al., 2010). Its rules are not published; these are read off
the text. Of the 3,914 sentences of the Wall Street Journal sample they turn 3,910 into the lines 2 to 3,911 of
`ptb.train.txt`, word for word and in that order; the other four, lists of fined brokers (wsj_0096), are in none of the
three files.

1. Punctuation goes, by its *tag* and not by its form: commas, stops, colons, dashes, brackets and quotation marks. The
   apostrophe of a possessive (tag `POS`), `$`, `#` and `&` stay. UD English-EWT has two more such tags, for hyphens
   within words (`HYPH`) and for emoticons and rules (`NFP`). Tags of neither the Penn Treebank nor UPOS tell nothing:
   their words go by form, and so do words without tags.
2. Lower case, with the Treebank's own tokens: `n't`, `'s`, `us$`, `property\/casualty`.
3. `N` for what is written in digits, with commas, stops, colons, hyphens and slashes among them (`1,234.5`, `3\/4`,
   `1:30`, `1989-90`), and for `%`: `$ N million`, `N N`. Digits next to letters or an apostrophe are words (`30-day`).
4. `<unk>` for whatever is not among the 9,999 types of the training text.

**lower**: all words, in lower case. **stories**: the same but for placeholders of names, which are capitals in square
brackets. **as_is**: nothing changes.

Text that has a form already is not changed by it (`FORMS`), so callers need not know whether it has. One thing can't be
known: `Now` may be a capital or, in `bare`, what has become of `5ow`. A capital N replaces digits unless a letter
follows; of those, only the endings of ordinals, decades and the like (`Nth`, `Ns`) are taken for a number's.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from depgen.trees.punctuation import (
    OTHER_TAGS,
    PENN_TAGS,
    PUNCTUATION_TAGS,
    UPOS_TAGS,
    WORD_TAGS,
    is_bare_word,
    is_currency,
)
from depgen.trees.removal import keep_words
from depgen.trees.sentence import Sentence

FormName = Literal["bare", "ptb", "stories", "lower", "as_is"]

NUMBER, UNKNOWN = "N", "<unk>"
PLACEHOLDERS = ("[MALE]", "[FEMALE]", "[NEUTRAL]")
"""What replaces people's names in the stories of Kong et al. (2021)."""

# -- bare -------------------------------------------------------------------------------------------------------------


def bare_words(sentence: Sentence) -> Sentence:
    """The sentence by the rules of `bare`, its tree without what goes (see `keep_words`); maybe without words.

    >>> tags = ("NNP", "VBD", "$", "CD", "CD", ".")
    >>> sold = Sentence(("Ada", "spent", "$", "1.5", "million", "."), (2, 0, 5, 5, 2, 2), tags=tags)
    >>> bare = bare_words(sold)
    >>> " ".join(bare.words), bare.heads
    ('ada spent N.N million', (2, 0, 4, 2))
    """
    bare = keep_words(sentence, kept_in_bare(sentence), orphans="roots")
    return replace(bare, words=tuple(map(bare_word, bare.words)))


def kept_in_bare(sentence: Sentence) -> list[bool]:
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
    return re.sub(r"[0-9]+", NUMBER, word.lower())


# -- ptb --------------------------------------------------------------------------------------------------------------

_NUMERAL = re.compile(r"[\d.,:/\\-]*\d[\d.,:/\\-]*|%")


def normalize(sentence: Sentence, vocabulary: Collection[str]) -> Sentence:
    r"""The sentence by the rules of `ptb`, its tree without the punctuation (see `keep_words`); maybe without words.

    Args:
        sentence: tagged by the Penn Treebank's tags or by UPOS, which tell what is punctuation; else form does.
        vocabulary: the words that are known.

    >>> tags = ("NNP", "VBD", "CD", "NN", ".")
    >>> sold = Sentence(("Ada", "sold", r"3\/4", "%", "."), (2, 0, 4, 2, 2), tags=tags)
    >>> bare = normalize(sold, {"sold", "N"})
    >>> " ".join(bare.words), bare.heads
    ('<unk> sold N N', (2, 0, 4, 2))
    """
    bare = keep_words(sentence, kept_in_ptb(sentence))
    return replace(bare, words=tuple(normalize_word(word, vocabulary) for word in bare.words))


def kept_in_ptb(sentence: Sentence) -> list[bool]:
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
    """The word in lower case, or `N`: rules 2 and 3."""
    return NUMBER if _NUMERAL.fullmatch(word) else word.lower()


# -- all forms --------------------------------------------------------------------------------------------------------

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


def _all_kept(sentence: Sentence) -> list[bool]:
    return [True] * len(sentence)


def _kept_in_bare_text(sentence: Sentence) -> list[bool]:
    """As `kept_in_bare`; `N$`, once `5$`, is no sign of a currency."""
    if sentence.tags is not None:
        return kept_in_bare(sentence)
    return [is_bare_word(word) or _BARE_NUMBER.search(word) is not None for word in sentence.words]


def _spelt_in_bare(word: str) -> str:
    rest = _BARE_NUMBER.sub("", word)
    return word if rest != word and rest == bare_word(rest) else bare_word(word)


def _spelt_in_ptb(word: str) -> str:
    """With typewriter apostrophes, as all of its text."""
    word = word.replace("’", "'")
    return word if word == NUMBER else lowered(word)


def _spelt_in_stories(word: str) -> str:
    return word if _PLACEHOLDER.fullmatch(word) else word.lower()


FORMS: Mapping[FormName, TextForm] = {
    "bare": TextForm(_kept_in_bare_text, _spelt_in_bare),
    "ptb": TextForm(kept_in_ptb, _spelt_in_ptb),
    "stories": TextForm(_all_kept, _spelt_in_stories),
    "lower": TextForm(_all_kept, str.lower),
    "as_is": TextForm(_all_kept, str),
}
