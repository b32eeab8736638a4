"""Dependency Transformer Grammars. Zhao, Lou & Tu (2024), ACL, "Dependency Transformer Grammars: Integrating Dependency
Structures into Transformer Language Models".

A Transformer that writes a sentence and its projective dependency tree together, as one string of arc-standard actions:

    the dog barks         ->    <bos> the dog LEFT LEFT' barks LEFT LEFT' ROOT    and then <eos>

A token is put on the stack. LEFT makes the word on top the head of the one below it, RIGHT the one below the head of
the word on top. An arc is read twice. The first copy, COMPOSE, sees the tokens of both words, takes them off the stack,
and is put there as the head. The second copy, STACK (LEFT'), sees the stack and predicts. ROOT takes the last word off.

    paper             here
    string, stack     `strings`: a position for each token, two for each arc; `ArcStack` while a text is read
    attention mask    `stack_attention`: COMPOSE sees two words, all else sees the stack; each position sees itself
    r_{i-j}           distances: how many words deeper a key lies on the stack than the query; in COMPOSE 0 for the head
                      and -1 for the dependent; from -1 to 62
    x_i               emb(token); of arcs emb(arc) + emb(last token of the head); of ROOT the head is <bos>
    p(a_i | s)        softmax of an MLP of the last hidden state: LEFT, RIGHT or a token
    p(x_i | s)        p(token) p(x_i | token): `string_log_probs`
    L                 the sum of both cross-entropies over the string
    p(x)              `log_probs`: sums over the trees that a word-synchronous beam holds, so lower bounds

Deviations
    D1. Probabilities are over what is possible: arcs with two words at least, ROOT (a token in the authors' code) with
        one word at most, `<eos>` after ROOT alone. In the authors' code they are over four actions, one of them for
        padding, and over all token types (`only_possible=False`): what the impossible gets is lost.
    D2. A tree has one string: words take dependents on the left first. The authors train on such strings, too; their
        beam also holds others. A piece that continues a word can't follow an arc; its probability there is lost.
    D3. Trees that are not projective are lifted (`non_projective="lift"`); the authors leave them out (`"leave_out"`).
        Of several roots, the later ones depend on the first.
    D4. The end of a sentence may take more than `max_arcs` arcs: one for each word on the stack.
    D5. The token types of LEFT, RIGHT and ROOT follow those of the vocabulary; `<eos>` is also the beginning.
"""

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import Parameter

from depgen.backbones.transformer import Transformer, TransformerFactory, TransformerState
from depgen.data.batch import (
    Batch,
    ItemBatch,
    SystemCollate,
    TokenBatch,
    TokenItem,
    collate_tokens,
    word_numbers,
)
from depgen.data.vocabulary import Vocabulary
from depgen.decoding.beam import WAIT, Beam, Expansion, with_next_word
from depgen.errors import UserError, check_at_least
from depgen.language_models.structured import StructuredLanguageModel, Writing
from depgen.nn.precise import precise
from depgen.nn.rows import Rows
from depgen.nn.stack_attention import FARTHEST, NEAREST, StackAttention, stack_attention
from depgen.nn.vocabulary import full_precision, vocabulary_logsumexp, word_scores
from depgen.training.hyper_parameters import factory
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
from depgen.trees.graph import joined_edges, sorted_edges
from depgen.trees.sentence import Edge

logger = logging.getLogger(__name__)

NonProjective = Literal["lift", "leave_out"]
DEAD_SHARE = 1.5
"""Columns that are on no stack are dropped once there are this many times as many columns as the fullest stack has."""

# -- Strings of actions, in batches -----------------------------------------------------------------------------------

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
        word = word_numbers(item, vocabulary)
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
        items = batch.sentences
        opens = torch.zeros_like(tokens.inputs, dtype=torch.bool)
        for row, item in enumerate(items):
            word = word_numbers(item, batch.vocabulary)
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


# -- Hypotheses ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ArcStack(Rows):
    """The stack of each hypothesis.

    A hypothesis is a string of columns, of which those on its stack are seen by later ones. A word has a column for
    each of its tokens, or one once it has dependents. At the bottom lies the beginning of the text.

    Attributes:
        heights: of the word that each column belongs to, 1 for the lowest word, 0 for the beginning; -1: not on it.
        words: number of words on the stack.
        last: the last token of the word that each place of the stack holds.
        has_right: whether that word has dependents on its right.
        actions: those taken so far, `WAIT` where there was none.
        arcs: number of arcs since the last token.
    """

    heights: Int[Tensor, "rows columns"]
    words: Int[Tensor, " rows"]
    last: Int[Tensor, "rows places"]
    has_right: Bool[Tensor, "rows places"]
    actions: Int[Tensor, "rows steps"]
    arcs: Int[Tensor, " rows"]

    @classmethod
    def empty(cls, rows: int, *, device: torch.device | str = "cpu") -> "ArcStack":
        """Stacks without columns, to which the beginning is the first to come."""
        none = torch.zeros(rows, 0, dtype=torch.long, device=device)
        nothing = none.new_zeros(rows)
        return cls(none, nothing - 1, none, none.bool(), none, nothing)

    @property
    def may_join(self) -> Bool[Tensor, "rows 2"]:
        """Whether `LEFT` and `RIGHT` are possible; a word takes its dependents on the left first."""
        two = self.words > 1
        if not bool(two.any()):
            return two[:, None].expand(-1, 2)
        return torch.stack((two & ~self.has_right.gather(1, self.words[:, None].clamp_min(0))[:, 0], two), 1)

    @property
    def live_columns(self) -> Int[Tensor, "rows kept"]:
        """The columns on each stack, and others after them where other rows have more."""
        dead = self.heights < 0
        most = int((~dead).sum(1).max()) if dead.numel() else 0
        return dead.int().argsort(dim=1, stable=True)[:, :most]

    @property
    def may_end(self) -> Bool[Tensor, " rows"]:
        """Whether one word at most is on the stack."""
        return self.words <= 1

    def composing(self, actions: Int[Tensor, " rows"]) -> tuple[StackAttention, Int[Tensor, " rows"], "ArcStack"]:
        """A new column for arcs and `ROOT`: what it sees, the last token of the head, and the stack with it.

        Args:
            actions: of each row; the column is padding where it is no arc and not `ROOT`.
        """
        joins, is_left = (actions == LEFT) | (actions == RIGHT) | (actions == ROOT), actions == LEFT
        top, below = self.words.clamp_min(0), (self.words - 1).clamp_min(0)
        head, dependent = torch.where(is_left, top, below), torch.where(is_left, below, top)
        visible = joins[:, None] & (self.heights >= below[:, None])
        is_dependent = (self.heights == dependent[:, None]) & (head != dependent)[:, None]
        last = self.last.gather(1, head[:, None])[:, 0]
        heights = F.pad(self.heights.masked_fill(visible, -1), (0, 1), value=-1)
        heights[:, -1] = torch.where(joins, below, -1)
        here = F.one_hot(below, self.last.size(1)).bool() & joins[:, None]
        stack = replace(
            self, heights=heights, words=torch.where(joins, below, self.words),
            last=torch.where(here, last[:, None], self.last),
            has_right=torch.where(here, (actions == RIGHT)[:, None], self.has_right), arcs=self.arcs + joins,
        )  # fmt: skip
        distances = F.pad(is_dependent, (0, 1))[:, None] * NEAREST
        return StackAttention(_with_itself(visible), distances), last, stack

    def stacking(
        self, actions: Int[Tensor, " rows"], tokens: Int[Tensor, " rows"], opens: Bool[Tensor, " rows"]
    ) -> tuple[StackAttention, "ArcStack"]:
        """A new column for the second copies of arcs, which are not put on the stack, and for tokens, which are.

        Args:
            actions: of each row; the column is padding at `WAIT` and `ROOT`.
            tokens: where the action is `SHIFT`.
            opens: whether each token begins a word; the others belong to the word on top.
        """
        pushes, is_column = actions == SHIFT, (actions != WAIT) & (actions != ROOT)
        words = self.words + (pushes & opens)
        last, has_right = self.last, self.has_right
        if bool((words >= last.size(1)).any()):
            last, has_right = F.pad(last, (0, 1)), F.pad(has_right, (0, 1))
        here = F.one_hot(words.clamp_min(0), last.size(1)).bool() & pushes[:, None]
        heights = F.pad(self.heights, (0, 1))
        heights[:, -1] = torch.where(pushes, words, -1)
        visible, distances = (self.heights >= 0) & is_column[:, None], words[:, None] - self.heights
        attention = StackAttention(_with_itself(visible), F.pad(distances, (0, 1))[:, None].clamp(NEAREST, FARTHEST))
        return attention, replace(
            self, heights=heights, words=words, last=torch.where(here, tokens[:, None], last),
            has_right=has_right & ~(here & opens[:, None]), arcs=self.arcs.masked_fill(pushes, 0),
        )  # fmt: skip

    def recorded(self, actions: Int[Tensor, " rows"], opens: Bool[Tensor, " rows"]) -> "ArcStack":
        """The same, with one more action a row; a token that begins no word is none."""
        action = torch.where((actions == ROOT) | ((actions == SHIFT) & ~opens), WAIT, actions)
        return replace(self, actions=torch.cat((self.actions, action[:, None]), 1))


def _with_itself(visible: Bool[Tensor, "rows columns"]) -> Bool[Tensor, "rows 1 columns+1"]:
    """What a new column sees of those before it, and itself."""
    return F.pad(visible, (0, 1), value=True)[:, None]


@dataclass(frozen=True)
class DerivationState(Rows):
    """The state of each hypothesis.

    Attributes:
        backbone: keys and values of all columns.
        stack: which of them are on the stack.
        hidden: after the last column that predicts.
        ended: True after `ROOT`.
        read: number of new tokens of a text that is generated.
    """

    backbone: TransformerState | None
    stack: ArcStack
    hidden: Float[Tensor, "rows width"]
    ended: Bool[Tensor, " rows"]
    read: Int[Tensor, " rows"]

    def select(self, rows: Int[Tensor, " kept"]) -> "DerivationState":
        """Some hypotheses, in the order given, without most columns that nothing sees any more."""
        return super().select(rows).without_dead_columns()

    def without_dead_columns(self) -> "DerivationState":
        """The same without most columns that are on no stack, which nothing sees any more."""
        kept = self.stack.live_columns
        if self.backbone is None or self.stack.heights.size(1) < DEAD_SHARE * kept.size(1):
            return self
        first, *others = self.backbone.layers
        first = first.columns(kept)
        layers = (first, *(layer.columns(kept, like=first) for layer in others))
        stack = replace(self.stack, heights=self.stack.heights.gather(1, kept))
        return replace(self, stack=stack, backbone=replace(self.backbone, layers=layers, length=kept.size(1)))


# -- The system ------------------------------------------------------------------------------------------------------


class DTG(StructuredLanguageModel):
    """A Transformer-XL over strings of arc-standard actions.

    Args:
        backbone: makes the Transformer, with relative positions, from the number of token types.
        vocabulary_size: number of token types of the text; linked from the data.
        only_possible: probabilities are over what is possible (D1).
        non_projective: whether trees that are not projective are lifted or left out of training (D3).
        action_dropout: within the MLP of actions.
        embedding_learning_rate: of token embeddings (the authors' is twice the others'); None: that of the optimiser.
        beam_size: hypotheses of a sentence while arcs are built (authors 100).
        word_beam_size: hypotheses of a sentence once each has its next token (authors 10); None: as `beam_size`.
        fast_track: hypotheses with the next token that are kept at each action in addition (authors 0).
        max_arcs: the most arcs between two tokens (authors 14: with the token 15 actions).
        kwargs: see `LeftToRight`.
    """

    backbone: Transformer

    def __init__(
        self,
        backbone: TransformerFactory,
        vocabulary_size: int,
        *,
        only_possible: bool = True,
        non_projective: NonProjective = "lift",
        action_dropout: float = 0.0,
        embedding_learning_rate: float | None = None,
        beam_size: int = 100,
        word_beam_size: int | None = 10,
        fast_track: int = 0,
        max_arcs: int = 14,
        **kwargs: Any,  # noqa: ANN401, of the base
    ) -> None:
        super().__init__(**kwargs)
        check_at_least(1, beam_size=beam_size, word_beam_size=word_beam_size)
        check_at_least(0, fast_track=fast_track, max_arcs=max_arcs)
        self.save_hyperparameters()
        self.use_backbone(factory(backbone, TransformerFactory)(vocabulary_size + 3))
        if self.backbone.relative is None:
            raise UserError(
                "DTG tells words on its stack apart by distances: set model.backbone's positions: relative."
            )
        width = self.backbone.width
        self.action_network = nn.Sequential(
            nn.Linear(width, width), nn.ReLU(), nn.Dropout(action_dropout), nn.Linear(width, 4)
        )  # padding, LEFT, RIGHT, token
        self.vocabulary_size, self.only_possible, self.non_projective = vocabulary_size, only_possible, non_projective
        self.embedding_learning_rate = embedding_learning_rate
        self.beam_size, self.word_beam_size, self.fast_track = beam_size, word_beam_size, fast_track
        self.max_arcs = max_arcs
        self._named = False

    @property
    def collate(self) -> Callable[[ItemBatch], DerivationBatch]:
        """Padded sequences with strings."""
        return DerivationCollate(self.vocabulary_size)

    def parameter_groups(self) -> list[Parameter] | list[dict[str, Any]]:
        """The parameters, the embedding with its own learning rate."""
        if self.embedding_learning_rate is None:
            return super().parameter_groups()
        embedding = self.backbone.embedding.weight
        others = [each for each in self.trained_parameters() if each is not embedding]
        groups: list[dict[str, Any]] = [{"params": others}, {"params": [embedding]}]
        groups[1]["lr"] = self.embedding_learning_rate
        return groups

    # -- the two distributions ------------------------------------------------------------------------------------

    def action_log_probs(
        self, hidden: Float[Tensor, "*positions width"], may_join: Bool[Tensor, "*positions 2"]
    ) -> Float[Tensor, "*positions 3"]:
        """Log-probabilities (nats) of `SHIFT`, `LEFT` and `RIGHT`; -inf for arcs that are not possible."""
        logits = full_precision(self.action_network(hidden))
        impossible = F.pad(~may_join, (1, 0))
        scores = logits if self.only_possible else logits.log_softmax(-1)
        scores = torch.cat((scores[..., 3:], scores[..., 1:3]), -1).masked_fill(impossible, -torch.inf)
        return scores.log_softmax(-1) if self.only_possible else scores

    def token_log_probs(
        self,
        hidden: Float[Tensor, "*positions width"],
        targets: Int[Tensor, "*positions"],
        may_end: Bool[Tensor, "*positions"],
        eos: Int[Tensor, " one"],
    ) -> Float[Tensor, "*positions"]:
        """Log-probabilities (nats) of tokens, given that one follows; the type after the vocabulary's is `ROOT`.

        `<eos>`, which follows `ROOT` alone, has 0 there where nothing else is possible.
        """
        weight, bias, end = (
            self.backbone.output_weight,
            self.backbone.output_bias,
            torch.full_like(targets, self.vocabulary_size),
        )
        scores = word_scores(hidden, weight, bias, targets)
        if not self.only_possible:
            return (scores - vocabulary_logsumexp(hidden, weight, bias)).masked_fill(
                ~may_end & (targets == end), -torch.inf
            )
        open_bias = weight.new_zeros(self.vocabulary_size) if bias is None else bias[: self.vocabulary_size]
        total = vocabulary_logsumexp(hidden, weight[: self.vocabulary_size], open_bias.index_fill(0, eos, -torch.inf))
        total = torch.where(may_end, total.logaddexp(word_scores(hidden, weight, bias, end)), total)
        found = (scores - total).masked_fill(~may_end & (targets == end), -torch.inf)
        return found.masked_fill(targets == eos, 0)

    def string_log_probs(self, strings: Strings) -> tuple[Float[Tensor, "batch positions"], ...]:
        """Log-probabilities (nats) of the action and of the token that follow each position; 0 where none does."""
        hidden = self.backbone(
            strings.symbols, stack=strings.attention, added_embedding=self._of_heads(strings.heads)
        ).hidden
        may_join = torch.stack([(strings.possible & bit) > 0 for bit in (1, 2)], -1)
        actions = self.action_log_probs(hidden, may_join).gather(-1, strings.actions.clamp_min(0)[..., None])[..., 0]
        states, targets, may_end = (
            each.flatten(0, 1).index_select(0, strings.shifts)
            for each in (hidden, strings.targets, (strings.possible & 12) > 0)
        )  # a third of all positions
        tokens = self.token_log_probs(states, targets, may_end, strings.symbols[0, :1])
        whole = tokens.new_zeros(actions.numel()).index_copy(0, strings.shifts, tokens).view_as(actions)
        return actions.masked_fill(strings.actions == NOTHING, 0), whole

    def _of_heads(self, heads: Int[Tensor, "*positions"]) -> Float[Tensor, "*positions width"]:
        """What the heads of arcs add to their embeddings."""
        found: Tensor = self.backbone.embedding(heads.clamp_min(0)) * self.backbone.embedding_scale
        return found * (heads != NOTHING)[..., None]

    # -- losses ---------------------------------------------------------------------------------------------------

    def training_step(self, batch: DerivationBatch, batch_idx: int) -> Float[Tensor, ""]:
        """The sum of both cross-entropies, nats per token of the global batch.

        Raises:
            UserError: the data have no trees.
        """
        if batch.strings is None or batch.changed is None:
            raise UserError(
                "DTG trains on dependency trees, and at least one sentence of a batch has none: set "
                "data.init_args.annotator to one that gives every sentence a tree."
            )
        actions, tokens = (-each.sum(1) for each in self.string_log_probs(batch.strings))
        if self._attached is not None:
            self._count(batch)
        left_out = torch.zeros_like(batch.changed) if self.non_projective == "lift" else batch.changed
        left_out = left_out.to(self.device, non_blocking=True)
        actions, tokens = (each.masked_fill(left_out, 0).sum() for each in (actions, tokens))
        self.log_train(actions, batch.global_tokens, name="action_loss")
        return self.log_train(actions + tokens, batch.global_tokens)

    def _count(self, batch: DerivationBatch) -> None:
        """Log how many trees of an epoch are not projective, and name the first."""
        assert batch.changed is not None
        found = batch.changed.sum().float()
        self.log("train/non_projective", found.to(self.device, non_blocking=True), on_step=False, on_epoch=True,
                 reduce_fx="sum", batch_size=1, sync_dist=self.processes > 1)  # fmt: skip
        if not self._named and bool(found):
            self._named = True
            what = "is lifted" if self.non_projective == "lift" else "is left out"
            logger.warning(
                "Sentence %d of the training split: its tree is not projective and %s; train/non_projective counts "
                "such trees.", int(batch.items[batch.changed][0]) + 1, what,
            )  # fmt: skip

    def joint_nll(self, batch: DerivationBatch) -> Float[Tensor, " batch"]:
        """The nats of each item's tokens and arcs."""
        assert batch.strings is not None
        actions, tokens = (-precise(each).sum(1) for each in self.string_log_probs(batch.strings))
        return actions + tokens

    def joint_log_probs(
        self,
        batch: TokenBatch,
        documents: Sequence[Sequence[Sequence[int]]],
        structure: Sequence[Sequence[Any]],
    ) -> Float[Tensor, "batch length"]:
        """Log-probabilities (nats) of the targets and the arcs before them, given edges `(head, dependent, label)`.

        Words may lack a head, as in a text that was cut; such a text has no end.

        Raises:
            UserError: a word with two heads, or arcs that cross.
        """
        assert isinstance(batch, DerivationBatch)
        eos, strings = int(batch.inputs[0, 0]), []
        for row, (document, graphs) in enumerate(zip(documents, structure, strict=True)):
            ids, opens = [token for sentence in document for token in sentence], batch.opens[row].tolist()
            heads = heads_of_text(document, graphs, batch.opens[row].cumsum(0).tolist(), f"text {row + 1}")
            strings.append(string_of(ids, opens[1:], arc_actions(heads), eos=eos, size=self.vocabulary_size))
        whole = Strings.of(strings).to(self.device)
        actions, tokens = self.string_log_probs(whole)
        ended = (whole.possible & 8).any(1)
        last = F.one_hot(batch.lengths.to(self.device) - 1, batch.inputs.size(1)).bool()
        found = torch.zeros_like(batch.targets, dtype=actions.dtype).scatter_add(1, whole.places, actions + tokens)
        return found.masked_fill(last & ~ended[:, None], -torch.inf)

    # -- search ---------------------------------------------------------------------------------------------------

    def beginning(self, eos: Int[Tensor, " rows"], is_token: Bool[Tensor, " rows"] | None = None) -> DerivationState:
        """The state after the beginnings of texts."""
        nothing = torch.zeros_like(eos)
        stack = ArcStack.empty(len(eos), device=eos.device)
        hidden = self.backbone.embedding.weight.new_zeros(len(eos), self.backbone.width)
        state = DerivationState(None, stack, hidden, nothing.bool(), nothing)
        actions = nothing if is_token is None else torch.where(is_token, SHIFT, WAIT)
        return self._stacked(state, actions, eos, ~nothing.bool())

    def step(
        self,
        state: DerivationState,
        actions: Int[Tensor, " rows"],
        tokens: Int[Tensor, " rows"],
        opens: Bool[Tensor, " rows"],
    ) -> DerivationState:
        """The state after one action a row; with `SHIFT` a token, which may continue a word."""
        stack = state.stack.recorded(actions, opens)
        state = replace(state, stack=stack, ended=state.ended | (actions == ROOT))
        joins = (actions != WAIT) & (actions != SHIFT)
        if bool(joins.any()):
            attention, heads, stack = state.stack.composing(actions)
            symbols = torch.where(actions == ROOT, 0, actions).clamp_min(0) + self.vocabulary_size
            state = self._column(
                replace(state, stack=stack), symbols, heads.where(joins, NOTHING), attention, actions == ROOT
            )
        if bool(((actions != WAIT) & (actions != ROOT)).any()):
            state = self._stacked(state, actions, tokens, opens)
        return state

    def _stacked(self, state: DerivationState, actions: Tensor, tokens: Tensor, opens: Tensor) -> DerivationState:
        """The state after tokens and second copies of arcs."""
        attention, stack = state.stack.stacking(actions, tokens, opens)
        is_arc, predicts = (actions == LEFT) | (actions == RIGHT), (actions != WAIT) & (actions != ROOT)
        top = state.stack.words[:, None].clamp_min(0)
        heads = state.stack.last.gather(1, top)[:, 0] if bool(is_arc.any()) else tokens
        symbols = torch.where(is_arc, self.vocabulary_size + actions, tokens)
        return self._column(replace(state, stack=stack), symbols, heads.where(is_arc, NOTHING), attention, predicts)

    def _column(
        self, state: DerivationState, symbols: Tensor, heads: Tensor, attention: StackAttention, predicts: Tensor
    ) -> DerivationState:
        """The state after one more column; rows that do not predict keep their hidden state."""
        output = self.backbone(
            symbols[:, None], state=state.backbone, carry=True, stack=attention,
            added_embedding=self._of_heads(heads[:, None]),
        )  # fmt: skip
        hidden = torch.where(predicts[:, None], output.hidden[:, -1], state.hidden)
        return replace(state, backbone=output.state, hidden=hidden)

    def columns_kept(self, length: int) -> int:
        """A column for each token, and three for its arc and `ROOT`."""
        return 4 * length

    def targets_searched(self, batch: TokenBatch, *, with_end: bool) -> Int[Tensor, " batch"]:
        """All targets but the end of a text that may continue, which is an action."""
        return batch.lengths - int(not with_end)

    def beginning_of(self, batch: DerivationBatch) -> DerivationState:
        """See `StructuredLanguageModel`."""
        return self.beginning(batch.inputs[:, 0])

    def with_target(
        self, beam: Beam[DerivationState], batch: DerivationBatch, k: int, *, beam_size: int, with_end: bool
    ) -> Beam[DerivationState]:
        """The hypotheses with any arcs and target k, after the next input; the last target is `ROOT` and `<eos>`."""
        eos, device = batch.inputs[:1, 0], batch.inputs.device
        ends = (batch.lengths == k + 1).to(device)
        targets = batch.targets[:, k]
        targets = torch.where(targets == eos, self.vocabulary_size, targets)
        tokens, opens = (F.pad(each, (0, 1))[:, k + 1] for each in (batch.inputs, batch.opens))
        most = torch.where(targets == self.vocabulary_size, NEVER, self.max_arcs).masked_fill(~opens & ~ends, 0)

        def expand(now: Beam[DerivationState], waits: Tensor) -> Expansion:
            rows = (~waits).nonzero()[:, 0]
            hidden, stack, items = now.state.hidden[rows], now.state.stack.select(rows), now.items[rows]
            log_probs = self.action_log_probs(hidden, stack.may_join)
            log_probs[:, 0] += self.token_log_probs(hidden, targets[items], stack.may_end, eos)
            log_probs[:, 1:].masked_fill_((stack.arcs >= most[items])[:, None], -torch.inf)
            whole = log_probs.new_zeros(len(waits), 3).index_copy(0, rows, log_probs)
            return Expansion(whole, torch.tensor([[True, False, False]], device=device))

        def build(state: DerivationState, rows: Tensor, actions: Tensor) -> DerivationState:
            actions = actions.masked_fill(actions == SHIFT, WAIT)  # the token is encoded once arcs are done
            return self.step(state.select(rows), actions, torch.zeros_like(actions), actions == WAIT)

        beam = with_next_word(
            beam, expand, build, beam_size=beam_size, word_beam_size=self.word_beam_size, fast_track=self.fast_track,
            max_actions=int(beam.state.stack.words.max()) + 2,
        )  # fmt: skip
        actions = torch.where(ends, ROOT, SHIFT)[beam.items]
        state = self.step(beam.state, actions, tokens[beam.items], opens[beam.items])
        last = self._end_log_probs(state, eos)
        return beam.scored(torch.where(state.ended, last, 0), state)

    def _end_log_probs(self, state: DerivationState, eos: Tensor) -> Float[Tensor, " rows"]:
        """Log-probabilities (nats) of `<eos>` after `ROOT`."""
        never = torch.zeros_like(state.ended)
        actions = self.action_log_probs(state.hidden, never[:, None].expand(-1, 2))[:, 0]
        return actions + self.token_log_probs(state.hidden, eos.expand(len(never)), never, eos)

    def structure_of(self, state: DerivationState, row: int) -> list[int]:
        """The actions of a hypothesis."""
        return [action for action in state.stack.actions[row].tolist() if action != WAIT]

    def parse(
        self, sentences: Sequence[Sequence[int]], *, vocabulary: Vocabulary, beam_size: int = 20
    ) -> list[tuple[Edge, ...]]:
        """The arcs of the likeliest tree of each sentence; see `depgen.language_models.left_to_right.GraphNetwork`."""
        trees = self.best_structures(sentences, vocabulary=vocabulary, beam_size=beam_size)
        return [edges_of_actions(actions) for actions in trees]

    # -- generation -----------------------------------------------------------------------------------------------

    def choices_of(self, ids: Sequence[int], structure: Sequence[int], vocabulary: Vocabulary) -> list[int]:
        """Tokens, and the types of the arcs between them."""
        return choices_of_text(ids, structure, vocabulary, size=self.vocabulary_size)

    def choices_per_token(self, longest_prompt: int, max_new_tokens: int) -> int:
        """So many that there is room for the arcs of all words."""
        return 2 + math.ceil((longest_prompt + 2) / max_new_tokens)

    def writing_step(
        self,
        writing: Writing,
        tokens: Int[Tensor, "batch length"],
        padding: Bool[Tensor, "batch length"] | None,
        state: DerivationState | None,
    ) -> tuple[Float[Tensor, "batch choices"], DerivationState]:
        """Log-probabilities of what follows: tokens, then `ROOT`, `LEFT`, `RIGHT`, and nothing where a text is cut."""
        is_token = torch.ones_like(tokens, dtype=torch.bool) if padding is None else ~padding
        begins = state is None
        for column in range(tokens.size(1)):
            if state is None:
                state = self.beginning(tokens[:, column], is_token[:, column])
            else:
                state = self._written(writing, state, tokens[:, column], is_token[:, column])
        assert state is not None
        state = replace(state, read=torch.zeros_like(state.read)) if begins else state
        return self._choices(writing, state), state

    def _written(self, writing: Writing, state: DerivationState, ids: Tensor, is_token: Tensor) -> DerivationState:
        """The state after one more choice a row."""
        arcs = (ids > self.vocabulary_size) & (ids < self.vocabulary_size + 3)
        actions = torch.where(arcs, ids - self.vocabulary_size, torch.where(ids == self.vocabulary_size, ROOT, SHIFT))
        actions = torch.where(is_token & ~state.ended & (ids < self.vocabulary_size + 3), actions, WAIT)
        tokens = ids.clamp_max(self.vocabulary_size - 1)
        opens = writing.opens_word[tokens] | (state.stack.words < 1)
        state = self.step(state, actions, tokens, opens)
        return replace(state, read=state.read + (actions == SHIFT))

    def _choices(self, writing: Writing, state: DerivationState) -> Float[Tensor, "rows choices"]:
        """Log-probabilities of tokens (`<eos>` after `ROOT` alone), `ROOT`, arcs, and of nothing once a text is cut."""
        hidden, stack, end = state.hidden, state.stack, writing.vocabulary.eos
        eos = torch.tensor([end], device=hidden.device)
        actions, bias = self.action_log_probs(hidden, stack.may_join), self.backbone.output_bias
        scores = full_precision(F.linear(hidden, self.backbone.output_weight, bias))
        column = torch.arange(self.vocabulary_size + 3, device=hidden.device)
        impossible = (
            (column == end)
            | (column > self.vocabulary_size)
            | ((column == self.vocabulary_size) & ~stack.may_end[:, None])
        )
        if self.only_possible:
            scores = scores.masked_fill(impossible, -torch.inf)
        log_probs = scores.log_softmax(-1).masked_fill(impossible, -torch.inf)
        continues = F.pad(~writing.opens_word, (0, 3)) & (stack.arcs > 0)[:, None]
        log_probs = actions[:, :1] + log_probs.masked_fill(continues, -torch.inf)
        whole = torch.cat(
            (log_probs[:, : self.vocabulary_size + 1], actions[:, 1:], torch.full_like(actions[:, :1], -torch.inf)), 1
        )
        cut = ~state.ended & (state.read >= writing.max_new_tokens)
        whole = whole.masked_fill((state.ended | cut)[:, None], -torch.inf)
        whole[:, -1].masked_fill_(cut, 0)
        whole[:, end] = torch.where(state.ended, self._end_log_probs(state, eos), whole[:, end])
        return whole

    def written_structures(self, choices: Sequence[Sequence[int]], writing: Writing) -> list[tuple[Edge, ...]]:
        """The trees; in a text that is cut, some words have no head yet."""
        opens_word = writing.opens_word.tolist()
        return [
            edges_of_actions(self._actions(of_text, opens_word), ended=self.vocabulary_size in of_text)
            for of_text in choices
        ]

    def _actions(self, choices: Sequence[int], opens_word: Sequence[bool]) -> list[int]:
        """The actions of a text's words, from its choices."""
        size, actions = self.vocabulary_size, list[int]()
        for choice in choices:
            if size < choice < size + 3:
                actions.append(choice - size)
            elif choice < size and (not actions or opens_word[choice]):
                actions.append(SHIFT)
        return actions
