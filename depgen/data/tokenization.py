"""Rules that cut raw English text into sentences and tokens, in the manner of the Penn Treebank."""

import re
from functools import cache
from importlib import metadata
from typing import Any, Literal

SentenceSplitter = Literal["lines", "rules", "sentencizer"]
"""How a text becomes sentences: each line is one, or by `split_sentences`, or by spaCy's sentencizer."""
Tokens = Literal["whitespace", "rules"]
"""How a string becomes tokens: at white space, or by `tokenize`."""
VERSION = 1
"""Raised whenever the rules here may cut a text otherwise."""


def rule_versions(splitter: SentenceSplitter = "lines", tokens: Tokens = "whitespace") -> dict[str, int | str]:
    """The versions of what cuts a text otherwise than at lines and white space, for fingerprints."""
    rules: dict[str, int | str] = {"rules": VERSION} if "rules" in (splitter, tokens) else {}
    return {**rules, "spacy": metadata.version("spacy")} if splitter == "sentencizer" else rules


_TITLES = r"mr|mrs|ms|dr|prof|sr|jr|st|gen|col|lt|capt|sgt|rep|sen|gov|rev|hon"
_ABBREVIATION = re.compile(
    rf"\W*({_TITLES}|[A-Z]|pres|no|vs|etc|inc|ltd|co|corp|dept|fig|vol|mt|ft|ave|a\.m|p\.m|e\.g|i\.e|u\.s|u\.k|u\.n|"
    r"jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)",
    re.IGNORECASE,
)
_END = re.compile(r"(.*?)([.!?]+|…)([\"'”’)\]]*)$", re.DOTALL)
_OPENING = "\"'“‘([`"
_CLOSING = frozenset({'"', "''", "'", "”", "’", ")", "]"})
_TOKEN = re.compile(
    rf"""
    \[[A-Z]+\]                                     # a placeholder
  | (?:https?://|www\.)\S+
  | [^\W\d_]+(?=n['’]t\b)                          # did | n't
  | n['’]t\b
  | ['’](?:s|re|ve|ll|d|m)\b                       # the clitics
  | (?:[^\W\d_]\.){{2,}}                           # U.S.
  | (?:{_TITLES})\.
  | (?<!\S)[,:]\d+\w*(?!\S)                        # ,000  :30pm  already cut off
  | \d+(?:[.,:/]\d+)*\w*                           # 1,000  7:30pm  3rd
  | \w+(?:-\w+)*(?:['’](?!(?:s|re|ve|ll|d|m|t)\b)\w+)*
  | \.{{2,}} | -{{2,}} | `` | ''
  | \S
    """,
    re.VERBOSE | re.IGNORECASE,
)


def tokenize(text: str) -> list[str]:
    """The tokens of a text: punctuation and clitics are split off, hyphenated words, numbers and abbreviations whole.

    >>> tokenize("Mr. Lee's dog didn't eat (the U.S. team won 1,000-0)!")
    ['Mr.', 'Lee', "'s", 'dog', 'did', "n't", 'eat', '(', 'the', 'U.S.', 'team', 'won', '1,000', '-', '0', ')', '!']
    """
    return _TOKEN.findall(text)


def token_spans(text: str) -> list[tuple[int, int]]:
    """The first character of each token of `tokenize`, and the one after its last.

    >>> token_spans("didn't")
    [(0, 3), (3, 6)]
    """
    return [match.span() for match in _TOKEN.finditer(text)]


def words_of(text: str, tokens: Tokens) -> tuple[str, ...]:
    """The tokens of a string."""
    return tuple(tokenize(text) if tokens == "rules" else text.split())


def sentences_of(text: str, splitter: SentenceSplitter) -> list[str]:
    """The sentences of a text, none of them blank; no sentence crosses a line.

    Against the gold sentences of UD English-EWT (dev and test, documents joined by spaces) rules find 70 % of all
    boundaries and 98 % of theirs are right, the sentencizer 74 % and 96 %.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    if splitter == "lines":
        return lines
    if splitter == "rules":
        return split_sentences(text)
    return [each for parsed in _sentencizer().pipe(lines) for each in map(str, parsed.sents) if each.strip()]


@cache
def _sentencizer() -> Any:  # noqa: ANN401, spaCy is untyped here
    """SpaCy's English tokens, with a sentence's end after every stop."""
    import spacy

    pipeline = spacy.blank("en")
    pipeline.add_pipe("sentencizer")
    return pipeline


def split_sentences(text: str) -> list[str]:
    r"""The sentences of a text: each line apart, cut after `.`, `!` or `?` unless a small letter follows.

    Titles, initials and other abbreviations do not end a sentence. Works on raw and on tokenised text.

    >>> split_sentences("Mr. Lee left. He said: 'No!' Nobody\nmoved .")
    ['Mr. Lee left.', "He said: 'No!'", 'Nobody', 'moved .']
    """
    return [sentence for line in text.splitlines() for sentence in _split_line(line.split())]


def _split_line(words: list[str]) -> list[str]:
    sentences: list[str] = []
    start = 0
    for index in range(1, len(words)):
        end = index - 1
        if words[end] in _CLOSING and end > start:  # a closing quote alone, as in tokenised text
            end -= 1
        if _ends(words[end], words[index]):
            sentences.append(" ".join(words[start:index]))
            start = index
    return [*sentences, " ".join(words[start:])] if words else []


def _ends(word: str, following: str) -> bool:
    """Whether a sentence ends with a word, closing quotes included, that another follows."""
    match = _END.match(word)
    if not match or following in _CLOSING:
        return False
    stem, mark, closing = match.groups()
    if mark == "." and not closing and _ABBREVIATION.fullmatch(stem):
        return False
    return not (following.lstrip(_OPENING) or following)[0].islower()
