"""Sentences and their projective dependency trees as strings of arc-standard actions, of which arcs have two copies.

`DTG` reads them (`depgen.models.dtg`). The token types of ROOT, LEFT and RIGHT follow those of the vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from depgen.data.batch import Batch, ItemBatch, SystemCollate, TokenBatch, TokenItem, collate_tokens
from depgen.data.graph_batch import joined_edges, only_item, words_of
from depgen.data.vocabulary import Vocabulary
from depgen.errors import UserError
from depgen.nn.stack_attention import NEAREST, StackAttention, stack_attention
from depgen.trees.arc_standard import (
    LEFT,
    NO_HEAD,
    RIGHT,
    ROOT,
    SHIFT,
    arc_actions,
    are_built,
    heads_of_actions,
    single_root,
)
from depgen.trees.binarization import lifted
from depgen.trees.graph import sorted_edges
from depgen.trees.sentence import Edge

NEVER = np.iinfo(np.int32).max
"""Later than any position."""
NOTHING = -1
"""No token, no action."""
COLUMNS = ("symbols", "heads", "popped", "composes", "depths", "dependents", "actions", "targets", "possible", "places")


@dataclass(frozen=True)
class Strings(Batch):
    """The strings of actions of a batch; see `string_of` for the columns.

    Attributes:
        symbols: token types.
        heads: of arcs and `ROOT`, the last token of the head; `NOTHING` at all else.
        popped: the position of the COMPOSE that takes each position off the stack; its own where it is never put there.
        composes: whether it is a COMPOSE.
        depths: the height on the stack.
        dependents: whether it belongs to the dependent of the COMPOSE that takes it off.
        actions: what follows: `SHIFT`, `LEFT` or `RIGHT`; `NOTHING` at first copies and padding.
        targets: the token that follows, where one does.
        possible: what may follow: 1 for LEFT, 2 for RIGHT, 4 for ROOT, 8 for `<eos>` alone; sums of these.
        places: the target of the text that what follows belongs to.
        shifts: the places of `SHIFT` among the actions of all rows, one row after the other.
    """

    symbols: Int[Tensor, "batch positions"]
    heads: Int[Tensor, "batch positions"]
    popped: Int[Tensor, "batch positions"]
    composes: Int[Tensor, "batch positions"]
    depths: Int[Tensor, "batch positions"]
    dependents: Int[Tensor, "batch positions"]
    actions: Int[Tensor, "batch positions"]
    targets: Int[Tensor, "batch positions"]
    possible: Int[Tensor, "batch positions"]
    places: Int[Tensor, "batch positions"]
    shifts: Int[Tensor, " shifts"]

    @classmethod
    def of(cls, strings: Sequence[np.ndarray]) -> "Strings":
        """The strings of `string_of`, padded; a position of padding sees itself alone."""
        longest = max(each.shape[1] for each in strings)
        whole = np.zeros((len(COLUMNS), len(strings), longest), np.int64)
        whole[[1, 6]] = NOTHING
        whole[2] = np.arange(longest)
        for row, each in enumerate(strings):
            whole[:, row, : each.shape[1]] = each
        shifts = np.flatnonzero(whole[COLUMNS.index("actions")] == SHIFT)  # found here: a GPU would be waited for
        return cls(**dict(zip(COLUMNS, torch.from_numpy(whole), strict=True)), shifts=torch.from_numpy(shifts))

    @property
    def attention(self) -> StackAttention:
        """What each position sees."""
        return stack_attention(
            self.popped, self.composes.bool(), self.depths, composed_distances=self.dependents * NEAREST
        )


class _String:
    """A string as it is written: positions, and what is on the stack."""

    def __init__(self, eos: int, size: int) -> None:
        self.rows = [[eos, NOTHING, NEVER, 0, 0, 0, NOTHING, 0, 0, 0]]
        self.stack: list[tuple[list[int], int, bool]] = [
            ([0], eos, False)
        ]  # positions, last token, has right dependents
        self.size, self.tokens = size, 0

    def follows(self, action: int, target: int = 0, *, only: bool = False) -> None:
        """Say what comes after the last position."""
        words, has_right = len(self.stack) - 1, self.stack[-1][2]
        two = words > 1
        possible = 8 if only else (two and not has_right) + 2 * two + 4 * (words < 2)
        self.rows[-1][6:] = [action, target, possible, self.tokens]

    def put(self, token: int, *, opens: bool) -> None:
        """A token on the stack."""
        self.follows(SHIFT, token)
        if opens:
            self.stack.append(([], token, False))
        self.stack[-1] = ([*self.stack[-1][0], len(self.rows)], token, False)
        self.tokens += 1
        self.rows.append([token, NOTHING, NEVER, 0, len(self.stack) - 1, 0, NOTHING, 0, 0, 0])

    def join(self, action: int) -> None:
        """An arc, or `ROOT`, which has one copy."""
        self.follows(*((SHIFT, self.size) if action == ROOT else (action, 0)))
        here, symbol = len(self.rows), symbol_of(action, self.size)
        below, top = self.stack[-2:] if len(self.stack) > 1 else (self.stack[0], ([], 0, False))
        head, dependent = (top, below) if action == LEFT else (below, top)
        for position in (*head[0], *dependent[0]):
            self.rows[position][2] = here
        for position in dependent[0]:
            self.rows[position][5] = 1
        self.stack[-2:] = [([here], head[1], action == RIGHT)]
        depth = len(self.stack) - 1
        until = here if action == ROOT else NEVER
        self.rows.append([symbol, head[1], until, 1, depth, 0, NOTHING, 0, 0, 0])
        if action != ROOT:
            self.rows.append([symbol, head[1], here + 1, 0, depth, 0, NOTHING, 0, 0, 0])


def symbol_of(action: int, size: int) -> int:
    """The token type of an arc or of `ROOT`, of a vocabulary of some size (D5)."""
    return size + (action if action != ROOT else 0)


def string_of(
    ids: Sequence[int], opens: Sequence[bool], actions: Sequence[int], *, eos: int, size: int
) -> Int[np.ndarray, "columns positions"]:
    """The string of a text and its arcs: a row for each of `COLUMNS`, which are the fields of `Strings`.

    Args:
        ids: of the text's tokens.
        opens: whether each begins a word.
        actions: of the text's words; where they leave several on the stack, the text does not end.
        eos: begins and ends it.
        size: of the vocabulary.

    >>> string_of([5, 6], [True, True], [0, 0, 1], eos=0, size=9)[:2].tolist()  # <bos> 5 6 LEFT LEFT ROOT, and heads
    [[0, 5, 6, 10, 10, 9], [-1, -1, -1, 6, 6, 0]]
    """
    string, read = _String(eos, size), 0
    for action in actions:
        if action != SHIFT:
            string.join(action)
            continue
        string.put(ids[read], opens=True)
        read += 1
        while read < len(ids) and not opens[read]:
            string.put(ids[read], opens=False)
            read += 1
    if len(string.stack) < 3:
        string.join(ROOT)
        string.follows(SHIFT, eos, only=True)
    return np.array(string.rows, np.int64).T


@dataclass(frozen=True, kw_only=True)
class DerivationBatch(TokenBatch):
    """Sentences, with the strings of their trees where all have one.

    Attributes:
        opens: True at inputs that begin a word.
        strings: None without trees.
        changed: whether a tree was not projective; None without trees.
    """

    on_cpu: ClassVar[frozenset[str]] = TokenBatch.on_cpu | {"changed"}

    opens: Bool[Tensor, "batch length"]
    strings: Strings | None = None
    changed: Bool[Tensor, " batch"] | None = None


@dataclass(frozen=True)
class DerivationCollate(SystemCollate):
    """Makes padded batches, with strings where all sentences have trees.

    Args:
        size: of the vocabulary.
    """

    version: ClassVar[int] = 1
    reads: ClassVar[Literal["heads"]] = "heads"

    size: int

    def view(self, item: TokenItem, vocabulary: Vocabulary) -> dict[str, np.ndarray]:
        """The rows of a sentence's string, one after the other, and whether its tree was not projective."""
        if item.heads is None or (item.heads < 0).any():
            return {"string": np.zeros(0, np.int32), "changed": np.zeros(0, np.uint8)}
        word = words_of(item, vocabulary)
        opens = np.diff(word, prepend=0) > 0
        heads = single_root(np.append(0, word)[item.heads[opens]].tolist())
        actions = arc_actions(heads)
        projective = are_built(heads, actions)
        if not projective:
            actions = arc_actions(lifted(heads).tolist())
        string = string_of(item.ids.tolist(), opens.tolist(), actions, eos=vocabulary.eos, size=self.size)
        return {"string": string.astype(np.int32).ravel(), "changed": np.array([not projective], np.uint8)}

    def __call__(self, batch: ItemBatch) -> DerivationBatch:
        """The batch.

        Raises:
            UserError: rows of a stream.
        """
        tokens = collate_tokens(batch)
        items = [only_item(stretch) for stretch in batch.stretches]
        opens = torch.zeros_like(tokens.inputs, dtype=torch.bool)
        for row, item in enumerate(items):
            word = words_of(item, batch.vocabulary)
            opens[row, 1 : len(word) + 1] = torch.from_numpy(np.diff(word, prepend=0) > 0)
        whole = DerivationBatch(**vars(tokens), opens=opens)
        if any(item.heads is None or (item.heads < 0).any() for item in items):
            return whole
        views = [self.view_of(item, batch.vocabulary) for item in items]
        strings = Strings.of([view["string"].reshape(len(COLUMNS), -1) for view in views])
        return replace(whole, strings=strings, changed=torch.tensor([bool(view["changed"][0]) for view in views]))


def heads_of_text(
    document: Sequence[Sequence[int]], graphs: Sequence[Sequence[Edge]], word: Sequence[int], where: str
) -> list[int]:
    """The head of each word of a text, from the edges of its sentences; `NO_HEAD` where none is given.

    Args:
        document: token ids of the sentences.
        graphs: edges of each.
        word: the number of the word of each token, after a 0 for the beginning.
        where: the text's place, for messages.

    Raises:
        UserError: a word with two heads, an edge to a word that there is not, or arcs that cross.
    """
    words = word[sum(map(len, document))]
    found = [NO_HEAD] * words
    for head, dependent in zip(*(each.tolist() for each in joined_edges(document, graphs, word)), strict=True):
        if not (0 < dependent <= words and 0 <= head <= words):
            raise UserError(f"{where}: expected arcs between {words} words, found {head} -> {dependent}.")
        if found[dependent - 1] != NO_HEAD:
            raise UserError(f"{where}: expected one head a word, found two of word {dependent}: give a tree.")
        found[dependent - 1] = head
    found = single_root(found)
    if not are_built(found, arc_actions(found)):
        raise UserError(f"{where}: its arcs cross or form a cycle: give a projective tree.")
    return found


def edges_of_actions(actions: Sequence[int], *, ended: bool = True) -> tuple[Edge, ...]:
    """The arcs of a tree; where the text has not ended, words that are left on the stack have none.

    >>> edges_of_actions([0, 0, 1])
    ((2, 1, 'dep'), (0, 2, 'root'))
    """
    heads = enumerate(heads_of_actions(actions), start=1)
    arcs = [(max(head, 0), word, "dep" if head > 0 else "root") for word, head in heads if head > 0 or ended]
    return sorted_edges(arcs)


def choices_of_text(ids: Sequence[int], actions: Sequence[int], vocabulary: Vocabulary, *, size: int) -> list[int]:
    """The tokens of a text with the token types of arcs between them, once each.

    Args:
        ids: of the tokens.
        actions: of its words.
        vocabulary: says which tokens begin words.
        size: of the vocabulary.
    """
    words = np.split(np.asarray(ids, np.int64), np.flatnonzero(np.diff(vocabulary.word_of_token(ids))) + 1)
    rest = iter(each.tolist() for each in words)
    return [choice for action in actions for choice in (next(rest) if action == SHIFT else [size + action])]
