"""Trees of one CoNLL-U file against those of another: UAS, LAS and UDA, also by relation or by length of sentences."""

import json as jsonlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Literal

from depgen.errors import UserError
from depgen.trees.conllu import Block, read_blocks
from depgen.trees.punctuation import Punctuation, is_punctuation
from depgen.trees.sentence import Sentence

By = Literal["relation", "length"]
LENGTHS = (10, 20, 30, 40)
"""The most words of the sentences of a group; longer ones are a group too."""


@dataclass(frozen=True)
class _Word:
    """What is known of a word of both files: the gold relation, the length of its sentence, and what is right."""

    relation: str
    length: int
    is_punctuation: bool
    head: bool
    labelled: float  # NaN where a tree has no relations
    pair: bool


def file_scores(
    gold: Path,
    predicted: Path,
    *,
    by: By | None = None,
    punctuation: Punctuation = "relation",
    json: bool = False,
) -> str:
    """Accuracy (per cent) of the trees of a CoNLL-U file against gold trees of the same words; tab-separated.

    UAS is the share of words with the right head (roots count, as in DDA); LAS of those with the right relation too,
    subtypes included, and NaN where a tree has no relations; UDA of those whose gold pair of word and head the other
    tree has in either direction. All are over words, not means over sentences.

    Args:
        gold: the file of gold trees; `.gz` is unpacked.
        predicted: the file of other trees of the same sentences, in the same order.
        by: a line for each gold relation, or for sentences of 1 to 10, 11 to 20, … words (punctuation included).
        punctuation: what the line `without punctuation`, and with `by` every further line, leaves out: words of the
            gold `relation` punct, or those that are punctuation by their `form`.
        json: print JSON.

    Raises:
        UserError: a file is missing or no CoNLL-U, lacks a tree, or has other words than the other file; punctuation
            is left out by relations, and the gold file has none.
    """
    words = [word for pair in _pairs(gold, predicted) for word in _compared(*pair, punctuation)]
    content = [word for word in words if not word.is_punctuation]
    rows = {"all words": _scores(words), "without punctuation": _scores(content)}
    if by == "relation":
        rows |= _grouped(content, lambda word: word.relation, sorted({word.relation for word in content}))
    elif by == "length":
        rows |= _grouped(content, _length, [_length_name(number) for number in range(len(LENGTHS) + 1)])
    if json:
        finite = {
            name: {key: None if value != value else value for key, value in row.items()} for name, row in rows.items()
        }
        return jsonlib.dumps({"gold": str(gold), "predicted": str(predicted), "rows": finite}, allow_nan=False)
    lines = ["trees\twords\tUAS\tLAS\tUDA"]
    for name, row in rows.items():
        lines.append("\t".join([name, str(row["words"]), *(f"{row[each]:.2f}" for each in ("uas", "las", "uda"))]))
    return "\n".join(lines)


def _pairs(gold: Path, predicted: Path) -> Iterator[tuple[Sentence, Sentence]]:
    """The sentences of both files, once it is certain that they have trees over the same words."""
    for number, (one, other) in enumerate(zip_longest(read_blocks(gold), read_blocks(predicted)), start=1):
        if one is None or other is None:
            longer, shorter = (gold, predicted) if other is None else (predicted, gold)
            raise UserError(
                f"{longer} has more sentences than {shorter}, which has {number - 1}: expected the same sentences in "
                "the same order."
            )
        first, second = _with_tree(one), _with_tree(other)
        if first.words != second.words:
            place = next(
                (place for place, (a, b) in enumerate(zip(first.words, second.words, strict=False)) if a != b),
                min(len(first), len(second)),
            )
            found, expected = (each.words[place] if place < len(each) else "its end" for each in (second, first))
            raise UserError(
                f"{other.where(min(place + 1, len(second)))}: sentence {number} has {found!r} as word {place + 1}, in "
                f"{gold} it is {expected!r}: expected the same words in both files."
            )
        yield first, second


def _with_tree(block: Block) -> Sentence:
    sentence = block.sentence()
    if sentence.heads is None:
        raise UserError(f"{block.where(1)}: expected a tree in columns 7 and 8, found none.")
    return sentence


def _compared(gold: Sentence, other: Sentence, punctuation: Punctuation) -> Iterator[_Word]:
    """The words of a sentence that has a tree in both files."""
    assert gold.heads is not None
    assert other.heads is not None
    arcs = {_pair(word, head) for word, head in enumerate(other.heads, start=1)}
    relations, others = (each.relations or ("_",) * len(gold) for each in (gold, other))
    has_relations = gold.relations is not None and other.relations is not None
    left_out = is_punctuation(gold, punctuation)
    for place, (head, found) in enumerate(zip(gold.heads, other.heads, strict=True)):
        yield _Word(
            relation=relations[place],
            length=len(gold),
            is_punctuation=left_out[place],
            head=head == found,
            labelled=head == found and relations[place] == others[place] if has_relations else float("nan"),
            pair=_pair(place + 1, head) in arcs,
        )


def _pair(word: int, head: int) -> tuple[int, int]:
    """A word and its head, whichever is which; a root is paired with 0."""
    return min(word, head), max(word, head)


def _grouped(
    words: Iterable[_Word], key: Callable[[_Word], str], names: Iterable[str]
) -> dict[str, dict[str, float | int]]:
    """The scores of each group that has words."""
    groups: dict[str, list[_Word]] = {name: [] for name in names}
    for word in words:
        groups[key(word)].append(word)
    return {name: _scores(group) for name, group in groups.items() if group}


def _length(word: _Word) -> str:
    return _length_name(sum(word.length > most for most in LENGTHS))


def _length_name(number: int) -> str:
    """The name of a group of lengths.

    >>> _length_name(0), _length_name(4)
    ('1 to 10 words', 'over 40 words')
    """
    if number == len(LENGTHS):
        return f"over {LENGTHS[-1]} words"
    return f"{1 + (LENGTHS[number - 1] if number else 0)} to {LENGTHS[number]} words"


def _scores(words: list[_Word]) -> dict[str, float | int]:
    """Per cent, NaN without any word, and of relations where a tree has none."""

    def share(right: float) -> float:
        return 100 * right / len(words) if words else float("nan")

    return {
        "words": len(words),
        "uas": share(sum(word.head for word in words)),
        "las": share(sum(word.labelled for word in words)),
        "uda": share(sum(word.pair for word in words)),
    }
