"""Trees that are given with all or some of their words: filled, continued, or completed in their gaps.

Not in Casas et al. (2020). A text is written around a given tree as follows. The given words keep their tree and their
order. A word's expansion is any of the run's that has the given dependents in their order, and others in gaps alone. So
whatever hangs on these others lies in the gap too. Without gaps the whole tree is given (a skeleton); a gap after the
last word continues a text. The root of the given words is the root of the text.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from depgen.errors import UserError, did_you_mean
from depgen.trees.binarization import CLIMB, HEAD, depths, expansions
from depgen.trees.conllu import read_conllu
from depgen.trees.pieces import piece_heads
from depgen.trees.sentence import Sentence

TO_BE_WRITTEN = "_"
"""In place of a word: with a head, one word is to be written; without, there is a gap for any number of them."""


@dataclass(frozen=True)
class GivenTree:
    """A tree over tokens.

    Attributes:
        tokens: those that are given; -1 where one is to be written.
        heads: 1-based, 0 = root.
        relations: empty at later pieces of a word.
        gaps: the number of tokens before each gap.
        name: for messages.
    """

    tokens: tuple[int, ...]
    heads: tuple[int, ...]
    relations: tuple[str, ...]
    gaps: tuple[int, ...]
    name: str

    @property
    def continues(self) -> bool:
        """Whether new words come after all given ones."""
        return self.gaps == (len(self.tokens),) and -1 not in self.tokens


def read_skeletons(path: str | Path) -> list[Sentence]:
    """The sentences of a CoNLL-U file.

    Raises:
        UserError: there is no such file, it is no CoNLL-U, or a sentence has no tree.
    """
    place = Path(path)
    if not place.is_file():
        raise UserError(f"skeletons: expected a file in CoNLL-U, found none at {place}. Check the path.")
    found = [each for document in read_conllu(place, by_document=False) for each in document.sentences]
    for number, sentence in enumerate(found, start=1):
        if sentence.heads is None or sentence.relations is None:
            raise UserError(
                f"{place}: sentence {number}: expected heads and relations, found `_`. Give the whole tree."
            )
    return found


def given_tree(
    sentence: Sentence, pieces: Callable[[str], Sequence[int]], *, unknown: int = -1, name: str
) -> GivenTree:
    """A sentence's tree over tokens; words of head -1 are gaps.

    Args:
        sentence: with its tree.
        pieces: the tokens of a word that is given.
        unknown: the token of words that the vocabulary lacks.
        name: for messages.

    Raises:
        UserError: the vocabulary lacks a word.

    >>> given_tree(Sentence(("a", "_", "b"), (3, -1, 0), ("x", "_", "root")), lambda word: [7, 8], name="a text")
    ... # doctest: +NORMALIZE_WHITESPACE
    GivenTree(tokens=(7, 8, 7, 8), heads=(3, 1, 0, 3), relations=('x', '', 'root', ''), gaps=(2,), name='a text')
    """
    heads = np.array(sentence.heads)
    words = np.flatnonzero(heads >= 0)
    tokens = [[-1] if sentence.words[k] == TO_BE_WRITTEN else list(pieces(sentence.words[k])) for k in words]
    for word, each in zip(words, tokens, strict=True):
        if unknown >= 0 and unknown in each:
            raise UserError(
                f"{name}: the vocabulary of this run lacks {sentence.words[word]!r}, and given words are kept. Take "
                "another word, write `_` for a new one in CoNLL-U, or leave it out."
            )
    counts = np.array([len(each) for each in tokens], np.int64)
    number = np.concatenate([[0], np.cumsum(heads >= 0)])  # of each word, 1-based, and 0 of the root
    relations = np.full(counts.sum(), "", dtype=object)
    starts = np.cumsum(counts) - counts
    relations[starts] = [(sentence.relations or ())[word] for word in words]
    bounds = np.append(starts, counts.sum())
    return GivenTree(
        tuple(token for each in tokens for token in each),
        tuple(
            piece_heads(number[heads[words]], np.repeat(np.arange(len(words)), counts), left_dependents="first_piece")
        ),
        tuple(relations.tolist()),
        tuple(sorted({int(bounds[number[k]]) for k in np.flatnonzero(heads < 0)})),
        name,
    )


def alignment(row: Sequence[str], given: Sequence[str], is_open: Sequence[bool]) -> tuple[int, ...] | None:
    """Of each label of an expansion, the number of its given dependent, or -1 for a new one; None if it does not fit.

    Of several ways to fit, the one whose new labels are furthest to the right.

    Args:
        row: an expansion.
        given: the expansion of the given word.
        is_open: whether new labels may come before each element of `given`, and at the end.

    >>> alignment(["a", "HEAD", "b", "b"], ["a", "HEAD", "b"], [False, False, False, True])
    (0, 1, -1)
    """
    if row:
        last, before = row[-1], len(given)
        if last != HEAD and is_open[before] and (rest := alignment(row[:-1], given, is_open)) is not None:
            return (*rest, -1)
        if not before or given[-1] != last or (rest := alignment(row[:-1], given[:-1], is_open)) is None:
            return None
        return rest if last == HEAD else (*rest, sum(each != HEAD for each in given[:-1]))
    return None if given else ()


@dataclass(frozen=True)
class GivenWords:
    """The words of given trees, and what their expansions may be; numbered over all trees.

    Attributes:
        tokens: of each word; -1 where it is to be written.
        allowed: the expansions that it may have.
        least: of these the one with the fewest dependents.
        children: its given dependents from left to right, padded.
        fits: its row of `slots`.
        slots: of words that may have new dependents, for each expansion: the number of the given dependent at each of
            its places, or -1 for a new one. Row 0 has all given.
        roots: the word at the root of each tree; -1 in a tree without words.
        reserved: of each tree and level, the dependents at least that words below that level have.
        opens_later: of each tree and level, whether words below that level may have new dependents.
        sizes: the words of each tree.
        trees: the tree of each word.
    """

    tokens: Int[Tensor, " words"]
    allowed: Bool[Tensor, "words expansions"]
    least: Int[Tensor, " words"]
    children: Int[Tensor, "words most"]
    fits: Int[Tensor, " words"]
    slots: Int[Tensor, "fits expansions most"]
    roots: Int[Tensor, " trees"]
    reserved: Int[Tensor, "trees levels"]
    opens_later: Bool[Tensor, "trees levels"]
    sizes: Int[Tensor, " trees"]
    trees: Int[Tensor, " words"]

    def with_token(self, token: int) -> Bool[Tensor, " trees"]:
        """Whether each tree has a token."""
        found = torch.zeros_like(self.roots, dtype=torch.bool)
        return found.index_fill(0, self.trees[self.tokens == token], True)

    def with_relations(self, required: Bool[Tensor, "required expansions"]) -> Bool[Tensor, "trees required"]:
        """Whether each text around a tree has a relation, of which the expansions are given, whatever is drawn."""
        found = torch.zeros(len(self.roots), len(required), dtype=torch.int64, device=self.roots.device)
        without = self.allowed.float() @ (~required).T.float() > 0  # [words required]: an expansion without it
        return found.index_add_(0, self.trees, (~without).long()) > 0

    def dependents(
        self, words: Int[Tensor, "*places"], chosen: Int[Tensor, "*places"], place: int
    ) -> Int[Tensor, "*places"]:
        """The given word at a place of the expansion of each word; -1 where it is new, or the word is."""
        known = words.clamp_min(0)
        slot = self.slots[self.fits[known], chosen, place]
        found = self.children[known].gather(-1, slot.clamp_min(0)[..., None])[..., 0]
        return found.where((words >= 0) & (slot >= 0), -1)


@dataclass
class _Columns:
    """What `given_words` gathers, word by word."""

    rows: Sequence[tuple[str, ...]]
    before: Sequence[bool]
    binarizes: bool

    def __post_init__(self) -> None:
        self.most = max(len(row) for row in self.rows)
        self.place = {row: k for k, row in enumerate(self.rows)}
        self.known = {label.partition(CLIMB)[0] for row in self.rows if HEAD in row for label in row}
        plain = np.tile(np.arange(self.most), (len(self.rows), 1))
        self.slots, self.kinds = [plain], dict[tuple[object, ...], tuple[int, np.ndarray]]()

    def kind(self, pattern: tuple[str, ...], is_open: tuple[bool, ...], where: str) -> tuple[int, np.ndarray]:
        """The row of slots of a word, and its expansions, those with the fewest dependents first.

        Raises:
            UserError: there are none.
        """
        found = self.kinds.get((pattern, is_open))
        if found is not None:
            return found
        fits: dict[int, tuple[int, ...]] = {}
        if not any(is_open):
            if pattern in self.place:
                fits[self.place[pattern]] = tuple(range(len(pattern) - 1))
        else:
            for k, row in enumerate(self.rows):
                if HEAD in row and len(row) >= len(pattern) and (slots := alignment(row, pattern, is_open)) is not None:
                    fits[k] = slots
        if not fits:
            missing = next((each for each in pattern if each.partition(CLIMB)[0] not in self.known), None)
            what = f"{' '.join(pattern)}. Change the tree, or train on a treebank that has it."
            if missing:
                what = f"the relation {missing!r}.{did_you_mean(missing, sorted(self.known))}"
            elif any(is_open) and self.binarizes:
                what = (
                    f"{' '.join(pattern)} with words in the gap. This run binarises trees, and given words keep their "
                    "places in the binarised tree: train with binarization none, or change the tree."
                )
            raise UserError(f"{where}: no expansion of this run is {what}")
        drawable = [k for k in fits if self.before[k]]
        if not drawable:
            raise UserError(f"{where}: it has a relation that is forbidden. Leave out forbid, or change the tree.")
        if any(is_open):
            self.slots.append(np.full((len(self.rows), self.most), -1))
            for k, slots in fits.items():
                self.slots[-1][k, : len(slots)] = slots
        number = len(self.slots) - 1 if any(is_open) else 0
        found = number, np.array(sorted(drawable, key=lambda k: (len(self.rows[k]), k)))
        self.kinds[pattern, is_open] = found
        return found


def given_words(
    trees: Sequence[GivenTree],
    rows: Sequence[Sequence[str]],
    drawable: Sequence[bool],
    written: Callable[..., tuple[np.ndarray, list[str]]],
    *,
    levels: int,
    device: torch.device,
    binarizes: bool = False,
) -> GivenWords:
    """The words of trees in the form that is written.

    Args:
        trees: over tokens.
        rows: the table of expansions.
        drawable: which of them may be drawn.
        written: from heads and relations to those of the tree that is written.
        levels: the deepest level.
        device: where to.
        binarizes: whether `written` binarises trees; for messages.

    Raises:
        UserError: a word has no expansion, or a tree is too deep.
    """
    columns = _Columns([tuple(map(str, row)) for row in rows], drawable, binarizes)
    tokens, fits, roots = list[int](), list[int](), list[int]()
    expansions_of, children = list[np.ndarray](), list[list[int]]()
    reserved, later = (np.zeros((len(trees), levels + 1), np.int64) for _ in range(2))
    for number, tree in enumerate(trees):
        first = len(tokens)
        if not tree.tokens:
            roots.append(-1)
            continue
        heads, labels = written(tree.heads, list(tree.relations))
        deep, patterns, boundaries = depths(heads), expansions(heads, labels), _boundaries(heads)
        roots.append(first + int(np.flatnonzero(heads == 0)[0]))
        for word, (pattern, label) in enumerate(zip(patterns, labels, strict=True)):
            is_open = tuple(each in tree.gaps for each in boundaries[word])
            kind, some = columns.kind(pattern, is_open, f"{tree.name}: word {word + 1} ({label})")
            fits.append(kind)
            expansions_of.append(some)
            children.append([first + int(k) for k in np.flatnonzero(heads == word + 1)])
            least = len(columns.rows[some[0]]) - 1
            if deep[word] + (least > 0) > levels:
                raise UserError(f"{tree.name} has {deep.max()} levels, but texts have at most {levels}: set levels.")
            reserved[number, : deep[word]] += least
            later[number, : deep[word]] += len(some) > 1
        tokens += tree.tokens
    allowed = np.zeros((len(tokens), len(rows)), dtype=np.bool_)
    dependents = np.full((len(tokens), columns.most), -1)
    for word, (some, those) in enumerate(zip(expansions_of, children, strict=True)):
        allowed[word, some] = True
        dependents[word, : len(those)] = those
    arrays: Mapping[str, np.ndarray] = {
        "tokens": np.array(tokens), "allowed": allowed, "least": np.array([each[0] for each in expansions_of]),
        "children": dependents, "fits": np.array(fits), "slots": np.stack(columns.slots), "roots": np.array(roots),
        "reserved": reserved, "opens_later": later > 0, "sizes": np.array([len(each.tokens) for each in trees]),
        "trees": np.repeat(np.arange(len(trees)), [len(each.tokens) for each in trees]),
    }  # fmt: skip
    return GivenWords(**{name: torch.from_numpy(each).to(device) for name, each in arrays.items()})


def _boundaries(heads: np.ndarray) -> list[list[int]]:
    """Of each word of a projective tree, the tokens before each element of its expansion, and before its end."""
    first, last = np.arange(len(heads)), np.arange(1, len(heads) + 1)
    for word in np.argsort(-depths(heads), kind="stable"):
        if heads[word] > 0:
            head = heads[word] - 1
            first[head], last[head] = min(first[head], first[word]), max(last[head], last[word])
    found = []
    for word in range(len(heads)):
        own = np.flatnonzero(heads == word + 1)
        sides = [*(int(first[k]) for k in own if k < word), word, *(int(first[k]) for k in own if k > word)]
        found.append([*sides, int(last[word])])
    return found
