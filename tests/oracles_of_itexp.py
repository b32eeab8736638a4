"""Slow and obvious versions of the arithmetic of iterative expansion, from the paper (Casas et al. 2020) alone.

Heads of words are 1-based and 0 is the root, as everywhere in the package. Trees are nested lists and levels are
lists of strings here. `LIKES` is the sentence of Figures 1 and 2 of the paper.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

LIKES = {
    "words": ["my", "dog", "also", "likes", "eating", "sausage"],
    "heads": [2, 4, 4, 0, 4, 5],
    "relations": ["poss", "nsubj", "advmod", "ROOT", "xcomp", "dobj"],
}

PAD = "[pad]"

Pattern = tuple[tuple[str, ...], tuple[str, ...]]
"""The relations of a word's dependents: those on its left and those on its right, in the order of the words."""


# Trees


@dataclass
class Node:
    """A word with its dependents on each side, in the order of the words."""

    word: int
    left: list["Node"]
    right: list["Node"]


def node(heads: Sequence[int], word: int) -> Node:
    """The tree below `word` (1-based)."""
    dependents = [number for number, head in enumerate(heads, 1) if head == word]
    return Node(
        word,
        [node(heads, dependent) for dependent in dependents if dependent < word],
        [node(heads, dependent) for dependent in dependents if dependent > word],
    )


def yield_of(tree: Node) -> list[int]:
    """The words of a tree: those of the left dependents, the word, those of the right dependents."""
    left = [word for child in tree.left for word in yield_of(child)]
    right = [word for child in tree.right for word in yield_of(child)]
    return [*left, tree.word, *right]


def heads_of(tree: Node) -> dict[int, int]:
    """The head of each word of a tree but the first."""
    found = {}
    for child in [*tree.left, *tree.right]:
        found[child.word] = tree.word
        found |= heads_of(child)
    return found


def is_tree(heads: Sequence[int]) -> bool:
    """Whether every word leads to the one word with head 0."""
    if list(heads).count(0) != 1:
        return False
    for word in range(1, len(heads) + 1):
        seen: set[int] = set()
        while word:
            if word in seen:
                return False
            seen.add(word)
            word = heads[word - 1]
    return True


def ancestors(heads: Sequence[int], word: int) -> list[int]:
    """The head of `word`, the head of that and on, without 0."""
    found = []
    while heads[word - 1]:
        word = heads[word - 1]
        found.append(word)
    return found


def crossed(heads: Sequence[int]) -> list[int]:
    """The words whose arc spans a word that is no descendant of the arc's head."""
    found = []
    for word, head in enumerate(heads, 1):
        between = range(min(word, head) + 1, max(word, head))
        if head and any(head not in ancestors(heads, other) for other in between):
            found.append(word)
    return found


def lifted(heads: Sequence[int]) -> list[int]:
    """The projective tree of Nivre & Nilsson (2005): while an arc is crossed, the shortest one moves up by one head.

    Of equally short arcs the leftmost word's moves first.
    """
    heads = list(heads)
    while words := crossed(heads):
        word = min(words, key=lambda number: (abs(number - heads[number - 1]), number))
        heads[word - 1] = heads[heads[word - 1] - 1]
    return heads


# Binarisation (section 3, "tree binarization")


def last_of(tree: Node) -> Node:
    """The node of the last word of a binarised tree."""
    return last_of(tree.right[0]) if tree.right else tree


def chained(children: Sequence[Node]) -> list[Node]:
    """One tree or none: each child hangs on the right of the last word of the child before it."""
    for before, after in itertools.pairwise(children):
        last_of(before).right.append(after)
    return list(children[:1])


def binarised_tree(tree: Node) -> Node:
    """A tree of the same words in which every word has at most one dependent a side."""
    left, right = ([binarised_tree(child) for child in side] for side in (tree.left, tree.right))
    return Node(tree.word, chained(left), chained(right))


def binarised(heads: Sequence[int], scheme: str = "left-right") -> list[int]:
    """The heads of the binarised tree of a projective tree; `scheme` is left-right or none."""
    if scheme == "none":
        return list(heads)
    root = list(heads).index(0) + 1
    found = heads_of(binarised_tree(node(heads, root)))
    return [found.get(word, 0) for word in range(1, len(heads) + 1)]


def in_pieces(
    heads: Sequence[int], relations: Sequence[str], pieces: Sequence[Sequence[str]], *, subword: str = "subword"
) -> tuple[list[str], list[int], list[str]]:
    """The pieces, heads and relations of a tree of pieces.

    Each later piece of a word depends on the piece before it. The first piece has the word's head and relation. Left
    dependents of the word hang on its first piece, right ones on its last.
    """
    first, last, total = [], [], 0
    for parts in pieces:
        first.append(total + 1)
        total += len(parts)
        last.append(total)
    texts: list[str] = []
    piece_heads: list[int] = []
    piece_relations: list[str] = []
    for word, (head, relation, parts) in enumerate(zip(heads, relations, pieces, strict=True), 1):
        side = first if word < head else last
        attached = side[head - 1] if head else 0
        texts += parts
        piece_heads += [attached, *range(first[word - 1], last[word - 1])]
        piece_relations += [relation] + [subword] * (len(parts) - 1)
    return texts, piece_heads, piece_relations


# Levels (Figure 2)


@dataclass
class Level:
    """One iteration of Figure 2: what the network gets, and the words and expansions that it has to write."""

    inputs: list[str]
    heads: list[int]
    """0-based positions in this level, -1 for the root."""
    words: list[str]
    patterns: list[Pattern | None]


def depth(heads: Sequence[int], word: int) -> int:
    """1 for the root, 2 for its dependents and so on."""
    return 1 + len(ancestors(heads, word))


def pattern(heads: Sequence[int], relations: Sequence[str], word: int) -> Pattern:
    """The relations of the dependents of `word` on its left and on its right."""
    dependents = [number for number, head in enumerate(heads, 1) if head == word]
    return (
        tuple(relations[number - 1] for number in dependents if number < word),
        tuple(relations[number - 1] for number in dependents if number > word),
    )


def levels(words: Sequence[str], heads: Sequence[int], relations: Sequence[str]) -> list[Level]:
    """Every level of a tree, from the root alone to the whole sentence."""
    depths = [depth(heads, word) for word in range(1, len(words) + 1)]
    found = []
    for number in range(1, max(depths) + 1):
        shown = [word for word in range(1, len(words) + 1) if depths[word - 1] <= number]
        level = Level([], [], [], [])
        for word in shown:
            written = depths[word - 1] < number
            head = heads[word - 1]
            placeholder = "[ROOT]" if head == 0 else f"[{relations[word - 1]}]"
            level.inputs.append(words[word - 1] if written else placeholder)
            level.heads.append(shown.index(head) if head else -1)
            level.words.append(PAD if written else words[word - 1])
            level.patterns.append(None if written else pattern(heads, relations, word))
        found.append(level)
    return found


def expanded(
    inputs: Sequence[str], heads: Sequence[int], words: Sequence[str], patterns: Sequence[Pattern | None]
) -> tuple[list[str], list[int]]:
    """The input and the heads of the next level: written words, and a placeholder for every dependent of a new one."""
    texts: list[str] = []
    owners: list[tuple[str, int]] = []
    places: dict[int, int] = {}
    for position, (text, word, found) in enumerate(zip(inputs, words, patterns, strict=True)):
        left, right = found or ((), ())
        for relation in left:
            texts.append(f"[{relation}]")
            owners.append(("dependent", position))
        places[position] = len(texts)
        texts.append(text if found is None else word)
        owners.append(("written", heads[position]))
        for relation in right:
            texts.append(f"[{relation}]")
            owners.append(("dependent", position))
    return texts, [places[owner] if owner >= 0 else -1 for _, owner in owners]


# Probabilities

ExpansionScores = Callable[[Sequence[str], Sequence[int]], Sequence[Mapping[Pattern, float]]]
"""Log-probabilities of patterns at every position, given the inputs and heads of a level."""

WordScores = Callable[[Sequence[str], Sequence[int], Sequence[Pattern | None]], Sequence[Mapping[str, float]]]
"""Log-probabilities of words at every position, given the inputs, heads and patterns of a level."""


def joint_log_prob(found: Sequence[Level], patterns: ExpansionScores, words: WordScores) -> tuple[float, float]:
    """log p of all expansions and of all words of a tree, each position once, at the level where it is written."""
    of_patterns = of_words = 0.0
    for level in found:
        pattern_scores = patterns(level.inputs, level.heads)
        word_scores = words(level.inputs, level.heads, level.patterns)
        for position, gold in enumerate(level.patterns):
            if gold is not None:
                of_patterns += pattern_scores[position][gold]
                of_words += word_scores[position][level.words[position]]
    return of_patterns, of_words


# Sampling (section 3.3 and section 4.2)


def softmax(scores: Sequence[float], temperature: float = 1.0) -> list[float]:
    """Probabilities of scores divided by the temperature; -inf has probability 0."""
    largest = max(scores)
    weights = [math.exp((score - largest) / temperature) for score in scores]
    return [weight / sum(weights) for weight in weights]


def nucleus(probabilities: Sequence[float], share: float) -> list[float]:
    """Probabilities of the fewest likely items that together exceed `share`: the item that crosses it is kept."""
    order = sorted(range(len(probabilities)), key=lambda item: -probabilities[item])
    kept, total = set(), 0.0
    for item in order:
        kept.add(item)
        total += probabilities[item]
        if total > share:
            break
    return renormalised([value if item in kept else 0.0 for item, value in enumerate(probabilities)])


def best(probabilities: Sequence[float], items: int) -> list[float]:
    """Probabilities of the `items` likeliest items alone."""
    order = sorted(range(len(probabilities)), key=lambda item: -probabilities[item])[:items]
    return renormalised([value if item in order else 0.0 for item, value in enumerate(probabilities)])


def renormalised(probabilities: Sequence[float]) -> list[float]:
    """The same proportions with the sum 1."""
    return [value / sum(probabilities) for value in probabilities]


def styled(probabilities: Sequence[float], factors: Sequence[float], share: float) -> list[float]:
    """Probabilities of the nucleus, multiplied by factors."""
    return renormalised([p * k for p, k in zip(nucleus(probabilities, share), factors, strict=True)])
