"""Raw text from tokens, for judges that have learnt from raw text: what `depgen.data.tokenization` cuts is joined.

Rules for English, in the manner of the Penn Treebank. Case, `<unk>` and numbers that are written as `N` stay as they
are. A hyphen or slash that is a token keeps the spaces around it, because tokens do not say whether it had any.
"""

import re
from collections.abc import Iterator, Sequence

_SPELT = {
    "``": '"', "''": '"', "-lrb-": "(", "-rrb-": ")", "-lsb-": "[", "-rsb-": "]", "-lcb-": "{", "-rcb-": "}",
}  # fmt: skip
"""Quotes and brackets that the Penn Treebank spells in another way."""
_JOINS_LEFT = re.compile(r"[.,;:?!%)\]}”…]|\.{2,}|[?!]{2,}|n['’]t|['’](?:s|re|ve|ll|d|m)|’", re.IGNORECASE)
_JOINS_RIGHT = re.compile(r"[(\[{“‘#]|\w*[$£€]")
_JOINS_BOTH = re.compile(r"@([-.,])@")
"""How WikiText spells a character between two parts of a word."""
_APART_CLITIC = re.compile(r"(\w) ' (s|t|re|ve|ll|d|m)\b", re.IGNORECASE)
_APART_THOUSANDS = re.compile(r"(\d) , (?=\d{3}\b)")
_APART_DECIMALS = re.compile(r"(\d) \. (\d)")
"""How the EMNLP 2017 news spell what is one token elsewhere."""
_CONTRACTED = {("can", "not"), ("gon", "na"), ("got", "ta"), ("wan", "na"), ("gim", "me"), ("lem", "me")}


def detokenize(text: str) -> str:
    """A text whose tokens are separated by white space, as it would be written.

    >>> detokenize("Mr. Lee 's dog did n't eat ( the U.S. team won ) !")
    "Mr. Lee's dog didn't eat (the U.S. team won)!"
    >>> detokenize('it cost $ 5 , " or so " : a well @-@ known price')
    'it cost $5, "or so": a well-known price'
    """
    tokens = text.split()
    parts, joined = list[str](), True
    for place, (token, opens) in enumerate(zip(tokens, _opening_quotes(tokens), strict=True)):
        both = _JOINS_BOTH.fullmatch(token)
        contracted = place > 0 and (tokens[place - 1].lower(), token.lower()) in _CONTRACTED
        left = opens is False or both or contracted or _JOINS_LEFT.fullmatch(_SPELT.get(token.lower(), token))
        parts.append("" if joined or left else " ")
        parts.append(both[1] if both else _SPELT.get(token.lower(), token))
        joined = bool(opens or both or _JOINS_RIGHT.fullmatch(parts[-1]))
    return "".join(parts)


def rejoined(text: str) -> str:
    """A text of the EMNLP 2017 news with clitics and numbers as other corpora have them.

    >>> rejoined("I don ' t know if Trump ' s 50 , 000 is 4 . 5 %")
    "I don't know if Trump's 50,000 is 4.5 %"
    """
    text = _APART_CLITIC.sub(r"\1'\2", text)
    text = _APART_THOUSANDS.sub(r"\1,", text)
    return _APART_DECIMALS.sub(r"\1.\2", text)


def _opening_quotes(tokens: Sequence[str]) -> Iterator[bool | None]:
    """Whether each token is a quote that opens, one that closes, or (None) no quote.

    Straight quotes open and close in turn; one that no other follows closes, as an apostrophe does.
    """
    opened = set[str]()
    for place, token in enumerate(tokens):
        if token in ("``", "''"):
            yield token == "``"
        elif token in ('"', "'"):
            opens = token not in opened and token in tokens[place + 1 :]
            (opened.add if opens else opened.discard)(token)
            yield opens
        else:
            yield None
