r"""Constituents as spans of words: from treebank files, from syntactic distances, and how well two bracketings agree.

A span (start, end) covers the words from `start` up to, not including, `end`, 0-based. A bracketing is the set of its
spans of two words or more; constituents over the same words are one span, whatever their labels.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from depgen.errors import UserError
from depgen.trees.removal import keep_words
from depgen.trees.sentence import Constituent, Sentence
from depgen.trees.text_files import read_lines

Span = tuple[int, int]
Bracketing = frozenset[Span]

TRACE_TAGS = frozenset({"-NONE-"})
_PART = re.compile(r"[()]|[^\s()]+", re.ASCII)
"""Brackets and what is between them and blanks; a no-break space is part of a word, such as `10 000`."""
_LABEL = re.compile(r"[^-=]+")
"""The category at the beginning of labels such as `NP-SBJ-1` and `NP=2`."""
UNNAMED = "TOP"
"""The label of a constituent without one that has several parts."""
_ESCAPED = str.maketrans({"(": "-LRB-", ")": "-RRB-"})


def bracketing(constituents: Sequence[Constituent]) -> Bracketing:
    """The spans of two words or more.

    >>> sorted(bracketing([(0, 2, "S"), (0, 2, "VP"), (1, 2, "NP")]))
    [(0, 2)]
    """
    return frozenset((start, end) for start, end, _ in constituents if end - start > 1)


def check_constituents(
    constituents: Sequence[Constituent], length: int, where: str, *, words: Sequence[str] = ()
) -> None:
    """Raises UserError unless constituents are in top-down order and none crosses another. O(constituents).

    Messages name the sentence's place, `where`, and its `words`.

    >>> check_constituents([(0, 3, "S"), (1, 3, "VP")], 3, "here")
    >>> check_constituents([(0, 2, "NP"), (1, 3, "VP")], 3, "here", words="the cat sat".split())
    Traceback (most recent call last):
    depgen.errors.UserError: here: constituent VP over words 2 to 3 (cat sat) crosses NP over words 1 to 2 (the cat)
    """

    def named(constituent: Constituent) -> str:
        start, end, label = constituent
        text = f" ({' '.join(words[start:end])})" if words else ""
        return f"{label} over words {start + 1} to {end}{text}"

    around: list[Constituent] = []
    for before, constituent in zip((None, *constituents), constituents, strict=False):
        start, end, label = constituent
        if not 0 <= start < end <= length:
            raise UserError(f"{where}: constituent {named(constituent)}, but the sentence has {length} words")
        if not label.strip():
            raise UserError(f"{where}: constituent {named(constituent)} has no label")
        if before is not None and _top_down(before) > _top_down(constituent):
            raise UserError(
                f"{where}: constituent {named(constituent)} comes after {named(before)}: expected top-down order"
            )
        while around and around[-1][1] <= start:
            around.pop()
        if around and around[-1][1] < end:
            raise UserError(f"{where}: constituent {named(constituent)} crosses {named(around[-1])}")
        around.append(constituent)


def _top_down(constituent: Constituent) -> tuple[int, int]:
    return constituent[0], -constituent[1]


# -- treebank files -----------------------------------------------------------------------------------------------


def read_bracketed(path: Path) -> Iterator[Sentence]:
    """The sentences of a file such as the Penn Treebank's `.mrg`: `( (S (NP (DT the) (NN cat)) (VP (VBD sat))))`.

    With tags and constituents, whose labels are categories alone; these may cover one word too, but not for its tag.
    Lines between trees that begin with `#` are comments. `(())`, which parsers write where they fail, has no words.
    """
    trees, number = 0, 0
    opened: list[tuple[int, list[str]]] = []  # of each open bracket the first word, and symbols directly within
    words, tags, constituents = list[str](), list[str](), list[Constituent]()
    for number, line in read_lines(path):
        if not opened and line.lstrip().startswith("#"):
            continue
        for part in filter(None, map(str.strip, _PART.findall(line))):
            if part == "(":
                opened.append((len(words), []))
            elif not opened:
                raise UserError(f"{path}:{number}: expected an opening bracket, found {part}")
            elif part != ")":
                opened[-1][1].append(part)
            else:
                start, symbols = opened.pop()
                span = start, len(words)
                if len(symbols) == 2 and start == len(words):
                    tags.append(symbols[0])
                    words.append(symbols[1])
                elif len(symbols) > 1 or (symbols and start == len(words)):
                    raise UserError(
                        f"{path}:{number}: expected (TAG word) or (LABEL constituents), found ({' '.join(symbols)} ...)"
                    )
                elif symbols:
                    category = _LABEL.match(symbols[0])
                    constituents.append((*span, category[0] if category else symbols[0]))
                elif start < len(words) and (not constituents or constituents[-1][:2] != span):
                    constituents.append((*span, UNNAMED))
                if not opened:
                    constituents.reverse()  # the last closed is the outermost
                    yield Sentence(tuple(words), tags=tuple(tags), spans=tuple(sorted(constituents, key=_top_down)))
                    trees, words, tags, constituents = trees + 1, [], [], []
    if opened:
        raise UserError(f"{path}:{number}: expected {len(opened)} closing brackets more, found the end of the file")
    if not trees:
        raise UserError(f"{path}: expected bracketed trees, found none.")


def without_tags(sentence: Sentence, tags: Collection[str]) -> Sentence:
    """The sentence without the words of some tags; constituents of nothing else go with them."""
    return keep_words(sentence, [tag not in tags for tag in sentence.tags or ()])


# -- bracketings --------------------------------------------------------------------------------------------------


def bracketing_of_distances(distances: Float[np.ndarray, " words"], *, lone_word: bool = True) -> Bracketing:
    """The binary tree that is cut, from the top down, where the distance is largest; of equal ones, at the leftmost.

    Shen et al. (2018, 2019) cut x into ((x_<i) (x_i (x_>i))), i being where the distance is largest, and then cut
    x_<i and x_>i. O(n^2).

    Args:
        distances: one a word, between it and the word before; the first is that before the whole.
        lone_word: cut x_i from what follows too, whatever the distances there, as published. That leans to the right
            (Dyer et al., 2019); without it, x is cut into ((x_<i) (x_>=i)), and the first distance is not used.

    >>> distances = np.array([0.0, 0.9, 0.1, 0.2])
    >>> sorted(bracketing_of_distances(distances)), sorted(bracketing_of_distances(distances, lone_word=False))
    ([(0, 4), (1, 4), (2, 4)], [(0, 4), (1, 3), (1, 4)])
    """
    spans, waiting = set[Span](), [(0, len(distances))]
    while waiting:
        start, end = waiting.pop()
        if end - start < 2:
            continue
        spans.add((start, end))
        if lone_word:
            cut = start + int(distances[start:end].argmax())
            if end - cut > 1:
                spans.add((cut, end))
            waiting += [(start, cut), (cut + 1, end)]
        else:
            cut = start + 1 + int(distances[start + 1 : end].argmax())
            waiting += [(start, cut), (cut, end)]
    return frozenset(spans)


def right_branching(length: int) -> Bracketing:
    """(a (b (c d))).

    >>> sorted(right_branching(3))
    [(0, 3), (1, 3)]
    """
    return frozenset((start, length) for start in range(length - 1))


def left_branching(length: int) -> Bracketing:
    """(((a b) c) d).

    >>> sorted(left_branching(3))
    [(0, 2), (0, 3)]
    """
    return frozenset((0, end) for end in range(2, length + 1))


def random_bracketing(length: int, generator: np.random.Generator) -> Bracketing:
    """A binary tree each of whose constituents is cut at a place drawn evenly: some trees are likelier than others."""
    return bracketing_of_distances(generator.random(length), lone_word=False)


def format_bracketing(words: Sequence[str], bracketing: Bracketing) -> str:
    """The words with a pair of brackets around each span; brackets among the words as in the Penn Treebank.

    >>> format_bracketing(["the", "cat", "sat"], frozenset({(0, 2), (0, 3)}))
    '((the cat) sat)'
    """
    return format_constituents(words, [(*span, "") for span in bracketing])


def format_constituents(words: Sequence[str], constituents: Iterable[Constituent]) -> str:
    """The words with a pair of brackets around each constituent and its label, as in the Penn Treebank without tags.

    Brackets among the words are written as in the Penn Treebank. Constituents come in any order, but of several over
    the same words the outermost first; "" is no label.

    >>> format_constituents(["the", "dog", "barks"], [(0, 3, "S"), (0, 2, "NP"), (2, 3, "VP")])
    '(S (NP the dog) (VP barks))'
    """
    opened, closed = [""] * len(words), [0] * len(words)
    for start, end, label in sorted(constituents, key=_top_down):
        opened[start] += f"({label} " if label else "("
        closed[end - 1] += 1
    parts = zip(opened, (word.translate(_ESCAPED) for word in words), closed, strict=True)
    return " ".join(f"{before}{word}{')' * after}" for before, word, after in parts)


# -- agreement ----------------------------------------------------------------------------------------------------


def unlabelled_spans(
    gold: Sequence[Bracketing], predicted: Sequence[Bracketing], lengths: Sequence[int]
) -> Int[np.ndarray, "sentences 2"]:
    """Twice the spans that both bracketings of a sentence have, and the spans of either: their ratio is F1.

    As in the code of PRPN and ON-LSTM, neither the span of the whole sentence nor single words count.
    """
    counts = np.zeros((len(lengths), 2), dtype=np.int64)
    for place, (one, other, length) in enumerate(zip(gold, predicted, lengths, strict=True)):
        own, found = ({span for span in spans if 1 < span[1] - span[0] < length} for spans in (one, other))
        counts[place] = 2 * len(own & found), len(own) + len(found)
    return counts
