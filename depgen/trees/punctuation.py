"""What is a word and what is punctuation: by tags, or by form."""

import re
import unicodedata
from typing import Literal

from depgen.errors import UserError
from depgen.trees.sentence import Sentence

Punctuation = Literal["relation", "form"]
"""How scores tell punctuation: by the `relation` punct, as spaCy's scorer does, or by `form`, as SuPar's does: words of
nothing but Unicode punctuation."""
PUNCTUATION_TAGS = frozenset({",", ".", ":", "``", "''", "-LRB-", "-RRB-", "HYPH", "NFP", "PUNCT"})
"""Of the Penn Treebank, of English UD's XPOS, and UPOS's only one."""
WORD_TAGS = frozenset(
    [
        "CC", "CD", "DT", "EX", "FW", "IN", "JJ", "JJR", "JJS", "LS", "MD", "NN", "NNS", "NNP", "NNPS", "PDT", "POS",
        "PRP", "PRP$", "RB", "RBR", "RBS", "RP", "SYM", "TO", "UH", "VB", "VBD", "VBG", "VBN", "VBP", "VBZ", "WDT",
        "WP", "WP$", "WRB", "AUX", "AUXG",
    ]
)  # fmt: skip
OTHER_TAGS = PUNCTUATION_TAGS | {"$", "#", "-NONE-", "ADD", "AFX", "GW", "XX"}
UPOS_TAGS = frozenset(
    [
        "ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON", "PROPN", "PUNCT", "SCONJ",
        "SYM", "VERB", "X",
    ]
)  # fmt: skip
PENN_TAGS = WORD_TAGS | OTHER_TAGS
"""With English UD's further ones."""

_BRACKET = re.compile(r"-[LR][RCS]B-")
_KEPT_SYMBOLS = frozenset("%&")


def is_punctuation(sentence: Sentence, by: Punctuation = "relation") -> list[bool]:
    """Whether each word of a sentence is punctuation, by its relation (`punct` or a subtype of it) or by its form.

    >>> sentence = Sentence(("Mr", ".", "'s"), (0, 1, 1), ("root", "dep", "punct:x"))
    >>> is_punctuation(sentence), is_punctuation(sentence, "form")
    ([False, False, True], [False, True, False])
    """
    if by == "form":
        return [all(unicodedata.category(character).startswith("P") for character in word) for word in sentence.words]
    if sentence.relations is None:
        raise UserError(
            "Expected relations, by which punctuation is left out, found a tree without them: take punctuation: form."
        )
    return [relation.split(":")[0] == "punct" for relation in sentence.relations]


def is_bare_word(word: str) -> bool:
    """Whether a word without a tag stays: one of nothing but Unicode punctuation goes.

    So do quotes of backticks, the Penn Treebank's names of brackets (`-LRB-`), and currency signs, alone or after
    capitals (`$`, `US$`). `%` and `&` stay.

    >>> [word for word in "( n't , ... `` '' -- -LRB- % & # $ US$ $5 - = 's 3-2 ’".split() if is_bare_word(word)]
    ["n't", '%', '&', '$5', '=', "'s", '3-2']
    """
    if word in _KEPT_SYMBOLS:
        return True
    if _BRACKET.fullmatch(word) or is_currency(word):
        return False
    return not all(character == "`" or unicodedata.category(character).startswith("P") for character in word)


def is_currency(word: str) -> bool:
    """Whether a word is a currency sign, alone or after capitals, as the Penn Treebank's tag `$` marks them.

    >>> [is_currency(word) for word in ("$", "US$", "£", "$5", "5$")]
    [True, True, True, False, False]
    """
    return unicodedata.category(word[-1]) == "Sc" and (len(word) == 1 or (word[:-1].isalpha() and word.isupper()))
