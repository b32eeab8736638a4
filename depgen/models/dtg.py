"""Dependency Transformer Grammars. Zhao, Lou & Tu (2024), ACL, "Dependency Transformer Grammars: Integrating Dependency
Structures into Transformer Language Models".

A Transformer that writes a sentence and its projective dependency tree together, as one string of arc-standard actions:

    the dog barks         ->    <bos> the dog LEFT LEFT' barks LEFT LEFT' ROOT    and then <eos>

A token is put on the stack. LEFT makes the word on top the head of the one below it, RIGHT the one below the head of
the word on top. An arc is read twice. The first copy, COMPOSE, sees the tokens of both words, takes them off the stack,
and is put there as the head. The second copy, STACK (LEFT'), sees the stack and predicts. ROOT takes the last word off.

    paper             here
    string, stack     `string_of`: a position for each token, two for each arc; `ArcStack` while a text is read
    attention mask    `ArcStrings.attention`: COMPOSE sees two words, all else sees the stack; each position sees itself
    r_{i-j}           distances: how many words deeper a key lies on the stack than the query; in COMPOSE 0 for the head
                      and -1 for the dependent; from -1 to 62
    x_i               emb(token); of arcs emb(arc) + emb(last token of the head); of ROOT the head is <bos>
    p(a_i | s)        softmax of an MLP of the last hidden state: LEFT, RIGHT or a token
    p(x_i | s)        p(token) p(x_i | token): `string_log_probs`
    L                 the sum of both cross-entropies over the string
    p(x)              `log_probs`: sums over the trees that a word-synchronous beam holds, so lower bounds

Deviations
    D1. Probabilities are over what is possible: arcs with two words at least, ROOT (a token in the authors' code) with
        one word at most, `<eos>` after ROOT alone, where it is certain. In the authors' code they are over four
        actions, one of them for padding, and over all token types, so that what the impossible gets is lost.
    D2. A tree has one string: words take dependents on the left first. The authors train on such strings, too; their
        beam also holds others. A piece that continues a word can't follow an arc; its probability there is lost.
    D3. Trees that are not projective are lifted; the authors leave them out. Of several roots, the later ones depend on
        the first.
    D4. The end of a sentence may take more than `MAX_ARCS` arcs: one for each word on the stack.
    D5. The token types of LEFT, RIGHT and ROOT follow those of the vocabulary; `<eos>` is also the beginning.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import Parameter

from depgen.backbones.transformer import TransformerFactory
from depgen.data.batch import ItemBatch, TokenBatch, TokenItem, word_numbers
from depgen.data.vocabulary import Vocabulary
from depgen.decoding.beam import WAIT, Beam, Expansion, with_next_word
from depgen.errors import UserError
from depgen.language_models.structured import Writing
from depgen.language_models.word_synchronous import (
    NEVER,
    NOTHING,
    StringBatch,
    StringCollate,
    Strings,
    StringState,
    WordSynchronous,
)
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

MAX_ARCS = 14
"""The most arcs between two tokens, as of the authors: with the token 15 actions."""

# -- strings of actions, in batches -----------------------------------------------------------------------------------


@dataclass(slots=True)
class Position:
    """A position of a string while it is written; see `ArcStrings`."""

    symbols: int
    heads: int = NOTHING
    popped: int = NEVER
    composes: bool = False
    depths: int = 0
    is_dependent: bool = False
    actions: int = NOTHING
    targets: int = 0
    may_left: bool = False
    may_right: bool = False
    may_end: bool = False
    places: int = 0


@dataclass(slots=True)
class StackedWord:
    """A word on the stack: the positions that it has there, its last token, and whether it has right dependents."""

    positions: list[int]
    last: int
    has_right: bool = False


@dataclass(frozen=True)
class ArcStrings(Strings):
    """The strings of actions of a batch, position by position.

    Attributes:
        symbols: token types.
        heads: of arcs and `ROOT`, the last token of the head; `NOTHING` at all else.
        popped: the position of the COMPOSE that takes each position off the stack; its own where it is never put there.
        composes: whether it is a COMPOSE.
        depths: the height on the stack.
        is_dependent: whether it belongs to the dependent of the COMPOSE that takes it off.
        actions: what follows: `SHIFT`, `LEFT` or `RIGHT`; `NOTHING` at first copies, at `ROOT` and at padding.
        targets: the token that follows, where one does.
        may_left: whether `LEFT` may follow.
        may_right: whether `RIGHT` may.
        may_end: whether `ROOT` may.
        places: the target of the text that what follows belongs to.
        shifts: the places of `SHIFT` among the actions of all rows, one row after the other.
    """

    columns = tuple(Position.__annotations__)
    unfilled = ("heads", "actions")

    symbols: Int[Tensor, "batch positions"]
    heads: Int[Tensor, "batch positions"]
    popped: Int[Tensor, "batch positions"]
    composes: Int[Tensor, "batch positions"]
    depths: Int[Tensor, "batch positions"]
    is_dependent: Int[Tensor, "batch positions"]
    actions: Int[Tensor, "batch positions"]
    targets: Int[Tensor, "batch positions"]
    may_left: Int[Tensor, "batch positions"]
    may_right: Int[Tensor, "batch positions"]
    may_end: Int[Tensor, "batch positions"]
    places: Int[Tensor, "batch positions"]
    shifts: Int[Tensor, " shifts"]

    @classmethod
    def of(cls, strings: Sequence[Int[np.ndarray, "columns _"]]) -> "ArcStrings":
        """The strings of `string_of`."""
        columns = cls.padded(strings)
        shifts = (columns["actions"].ravel() == SHIFT).nonzero()[:, 0]  # found here: a GPU would be waited for
        return cls(**columns, shifts=shifts)

    @property
    def attention(self) -> StackAttention:
        """What each position sees."""
        from_compose = self.is_dependent * NEAREST
        return stack_attention(self.popped, self.composes.bool(), self.depths, composed_distances=from_compose)


def string_of(
    ids: Sequence[int], opens: Sequence[bool], actions: Sequence[int], *, eos: int, size: int
) -> Int[np.ndarray, "columns positions"]:
    """The string of a text and its arcs: the columns of `ArcStrings`, which are explained there.

    Args:
        ids: of the text's tokens.
        opens: whether each begins a word.
        actions: of the text's words; where they leave several on the stack, the text does not end.
        eos: begins and ends it.
        size: of the vocabulary.

    >>> string_of([5, 6], [True, True], [0, 0, 1], eos=0, size=9)[:2].tolist()  # <bos> 5 6 LEFT LEFT ROOT, and heads
    [[0, 5, 6, 10, 10, 9], [-1, -1, -1, 6, 6, 0]]
    """
    positions, stack, read = [Position(eos)], [StackedWord([0], eos)], 0

    def followed_by(action: int, target: int = 0) -> None:
        """Say what comes after the last position."""
        here, words = positions[-1], len(stack) - 1
        here.actions, here.targets, here.places = action, target, read
        here.may_left, here.may_right = words > 1 and not stack[-1].has_right, words > 1
        here.may_end = words < 2

    def shift(token: int, *, opens: bool) -> None:
        """Put a token on the stack, in a new word or in that on top."""
        followed_by(SHIFT, token)
        if opens:
            stack.append(StackedWord([], token))
        stack[-1] = StackedWord([*stack[-1].positions, len(positions)], token)
        positions.append(Position(token, depths=len(stack) - 1))

    def join(action: int) -> None:
        """An arc, or `ROOT`, which has one copy and whose head is the beginning."""
        followed_by(*((SHIFT, size) if action == ROOT else (action, 0)))
        here, symbol = len(positions), size + (0 if action == ROOT else action)
        below, top = stack[-2:] if len(stack) > 1 else (stack[0], StackedWord([], 0))
        head, dependent = (top, below) if action == LEFT else (below, top)
        for place in (*head.positions, *dependent.positions):
            positions[place].popped = here
        for place in dependent.positions:
            positions[place].is_dependent = True
        stack[-2:] = [StackedWord([here], head.last, action == RIGHT)]
        depth = len(stack) - 1
        positions.append(Position(symbol, head.last, here if action == ROOT else NEVER, composes=True, depths=depth))
        if action != ROOT:
            positions.append(Position(symbol, head.last, here + 1, depths=depth))

    for action in actions:
        if action != SHIFT:
            join(action)
            continue
        shift(ids[read], opens=True)
        read += 1
        while read < len(ids) and not opens[read]:
            shift(ids[read], opens=False)
            read += 1
    if len(stack) < 3:
        join(ROOT)
    return np.array([*map(attrgetter(*ArcStrings.columns), positions)], np.int64).T


@dataclass(frozen=True, kw_only=True)
class DerivationBatch(StringBatch):
    """Sentences, with the strings of their trees where all have one.

    Attributes:
        opens: True at inputs that begin a word.
    """

    opens: Bool[Tensor, "batch length"]


@dataclass(frozen=True)
class DerivationCollate(StringCollate):
    """Makes padded batches, with strings where all sentences have trees.

    Args:
        size: of the vocabulary.
    """

    version: ClassVar[int] = 3
    reads: ClassVar[Literal["heads"]] = "heads"
    kind: ClassVar[type] = ArcStrings

    size: int

    def string(self, item: TokenItem, vocabulary: Vocabulary) -> Int[np.ndarray, "columns positions"] | None:
        """The string of a sentence and its tree (D3)."""
        if item.heads is None or (item.heads < 0).any():
            return None
        word = word_numbers(item, vocabulary)
        opens = np.diff(word, prepend=0) > 0
        heads = single_root(np.append(0, word)[item.heads[opens]].tolist())
        actions = arc_actions(heads)
        if not are_built(heads, actions):
            actions = arc_actions(lifted(heads).tolist())
        return string_of(item.ids.tolist(), opens.tolist(), actions, eos=vocabulary.eos, size=self.size)

    def __call__(self, batch: ItemBatch) -> DerivationBatch:
        """The batch."""
        sentences = super().__call__(batch)
        opens = torch.zeros_like(sentences.inputs, dtype=torch.bool)
        for row, item in enumerate(batch.sentences):
            word = word_numbers(item, batch.vocabulary)
            opens[row, 1 : len(word) + 1] = torch.from_numpy(np.diff(word, prepend=0) > 0)
        return DerivationBatch(**vars(sentences), opens=opens)


def heads_of_text(
    document: Sequence[Sequence[int]], graphs: Sequence[Sequence[Edge]], word: Sequence[int], where: str
) -> list[int]:
    """The head of each word of a text, from the edges of its sentences; `NO_HEAD` where none is given.

    Args:
        document: token ids of the sentences.
        graphs: edges of each.
        word: the number of the word of each token, after a 0 for the beginning.
        where: the text's place, for messages.
    """
    words = word[sum(map(len, document))]
    heads = [NO_HEAD] * words
    for head, dependent in zip(*(ends.tolist() for ends in joined_edges(document, graphs, word)), strict=True):
        if not (0 < dependent <= words and 0 <= head <= words):
            raise UserError(f"{where}: expected arcs between {words} words, found {head} -> {dependent}.")
        if heads[dependent - 1] != NO_HEAD:
            raise UserError(f"{where}: expected one head a word, found two of word {dependent}: give a tree.")
        heads[dependent - 1] = head
    heads = single_root(heads)
    if not are_built(heads, arc_actions(heads)):
        raise UserError(f"{where}: its arcs cross or form a cycle: give a projective tree.")
    return heads


def edges_of_actions(actions: Sequence[int], *, ended: bool = True) -> tuple[Edge, ...]:
    """The arcs of a tree; where the text has not ended, words that are left on the stack have none.

    >>> edges_of_actions([0, 0, 1])
    ((2, 1, 'dep'), (0, 2, 'root'))
    """
    heads = enumerate(heads_of_actions(actions), start=1)
    arcs = [(max(head, 0), word, "dep" if head > 0 else "root") for word, head in heads if head > 0 or ended]
    return sorted_edges(arcs)


# -- stacks, one action at a time --------------------------------------------------------------------------------------


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
        ended: True after `ROOT`.
    """

    heights: Int[Tensor, "rows columns"]
    words: Int[Tensor, " rows"]
    last: Int[Tensor, "rows places"]
    has_right: Bool[Tensor, "rows places"]
    actions: Int[Tensor, "rows steps"]
    arcs: Int[Tensor, " rows"]
    ended: Bool[Tensor, " rows"]

    @classmethod
    def beginning(cls, tokens: Int[Tensor, " rows"]) -> "ArcStack":
        """Stacks that hold the token that begins each text."""
        zeros = torch.zeros_like(tokens)
        height = zeros[:, None]
        return cls(height, zeros, tokens[:, None], height > 0, height[:, :0], zeros, zeros > 0)

    @property
    def may_join(self) -> Bool[Tensor, "rows 2"]:
        """Whether `LEFT` and `RIGHT` are possible; a word takes its dependents on the left first."""
        two = self.words > 1
        return torch.stack((two & ~self.has_right.gather(1, self.words[:, None])[:, 0], two), 1)

    @property
    def may_end(self) -> Bool[Tensor, " rows"]:
        """Whether one word at most is on the stack."""
        return self.words <= 1

    def composing(self, actions: Int[Tensor, " rows"]) -> tuple[StackAttention, Int[Tensor, " rows"], "ArcStack"]:
        """A new column for arcs and `ROOT`: what it sees, the last token of the head, and the stack with it.

        Args:
            actions: of each row; the column holds nothing where it is no arc and not `ROOT`.
        """
        joins, is_left = (actions != WAIT) & (actions != SHIFT), actions == LEFT
        top, below = self.words, (self.words - 1).clamp_min(0)
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
            ended=self.ended | (actions == ROOT),
        )  # fmt: skip
        distances = F.pad(is_dependent, (0, 1))[:, None] * NEAREST
        return StackAttention(_with_itself(visible), distances), last, stack

    def stacking(
        self, actions: Int[Tensor, " rows"], tokens: Int[Tensor, " rows"], opens: Bool[Tensor, " rows"]
    ) -> tuple[StackAttention, "ArcStack"]:
        """A new column for the second copies of arcs, which are not put on the stack, and for tokens, which are.

        Args:
            actions: of each row; the column holds nothing at `WAIT` and `ROOT`.
            tokens: where the action is `SHIFT`.
            opens: whether each token begins a word; the others belong to the word on top.
        """
        pushes = actions == SHIFT
        words, last, has_right = self.words + (pushes & opens), self.last, self.has_right
        if bool((words >= last.size(1)).any()):
            last, has_right = F.pad(last, (0, 1)), F.pad(has_right, (0, 1))
        here = F.one_hot(words, last.size(1)).bool() & pushes[:, None]
        heights = F.pad(self.heights, (0, 1))
        heights[:, -1] = torch.where(pushes, words, -1)
        distances = F.pad(words[:, None] - self.heights, (0, 1))[:, None].clamp(NEAREST, FARTHEST)
        return StackAttention(_with_itself(self.heights >= 0), distances), replace(
            self, heights=heights, words=words, last=torch.where(here, tokens[:, None], last),
            has_right=has_right & ~(here & opens[:, None]), arcs=self.arcs.masked_fill(pushes, 0),
        )  # fmt: skip

    def recorded(self, actions: Int[Tensor, " rows"], opens: Bool[Tensor, " rows"]) -> "ArcStack":
        """The same, with one more action a row; a token that begins no word is none."""
        action = torch.where((actions == ROOT) | ((actions == SHIFT) & ~opens), WAIT, actions)
        return replace(self, actions=torch.cat((self.actions, action[:, None]), 1))

    def compacted(self) -> tuple["ArcStack", Int[Tensor, "rows kept"]]:
        """A first column that holds nothing, and the columns on stacks alone; and which these are."""
        on_stack = self.heights >= 0
        kept = on_stack.int().argsort(dim=1, descending=True, stable=True)[:, : int(on_stack.sum(1).max())]
        return replace(self, heights=F.pad(self.heights.gather(1, kept), (1, 0), value=-1)), kept


def _with_itself(visible: Bool[Tensor, "rows columns"]) -> Bool[Tensor, "rows 1 columns+1"]:
    """What a new column sees of those before it, and itself."""
    return F.pad(visible, (0, 1), value=True)[:, None]


# -- the system --------------------------------------------------------------------------------------------------------


class DTG(WordSynchronous):
    """A Transformer-XL over strings of arc-standard actions.

    Args:
        backbone: makes the Transformer, with relative positions, from the number of token types.
        vocabulary_size: number of token types of the text; linked from the data.
        embedding_learning_rate: of token embeddings (the authors' is twice the others'); None: that of the optimiser.
        kwargs: see `WordSynchronous`; the authors' beams are 100 and 10, with no fast track.
    """

    def __init__(
        self,
        backbone: TransformerFactory,
        vocabulary_size: int,
        *,
        embedding_learning_rate: float | None = None,
        **kwargs: Any,  # noqa: ANN401, of the base
    ) -> None:
        super().__init__(vocabulary_size, **kwargs)
        self.save_hyperparameters()
        self.use_backbone(factory(backbone, TransformerFactory)(vocabulary_size + 3))
        width = self.backbone.width
        self.action_network = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4))
        self.embedding_learning_rate = embedding_learning_rate

    @property
    def collate(self) -> Callable[[ItemBatch], DerivationBatch]:
        """Padded sequences with strings."""
        return DerivationCollate(self.vocabulary_size)

    def parameter_groups(self) -> list[Parameter] | list[dict[str, Any]]:
        """The parameters, the embedding with its own learning rate."""
        if self.embedding_learning_rate is None:
            return super().parameter_groups()
        embedding = self.backbone.embedding.weight
        others = [parameter for parameter in self.trained_parameters() if parameter is not embedding]
        groups: list[dict[str, Any]] = [{"params": others}, {"params": [embedding]}]
        groups[1]["lr"] = self.embedding_learning_rate
        return groups

    # -- the two distributions -----------------------------------------------------------------------------------------

    def action_log_probs(
        self, hidden: Float[Tensor, "*positions width"], may_join: Bool[Tensor, "*positions 2"]
    ) -> Float[Tensor, "*positions 3"]:
        """p(a | s): log-probabilities (nats) of `SHIFT`, `LEFT` and `RIGHT`; -inf for arcs that are not possible."""
        _, left, right, token = full_precision(self.action_network(hidden)).unbind(-1)  # the first is for padding
        impossible = F.pad(~may_join, (1, 0))
        return torch.stack((token, left, right), -1).masked_fill(impossible, -torch.inf).log_softmax(-1)

    def token_log_probs(
        self,
        hidden: Float[Tensor, "*positions width"],
        targets: Int[Tensor, "*positions"],
        may_end: Bool[Tensor, "*positions"],
        eos: int,
    ) -> Float[Tensor, "*positions"]:
        """p(x | s): log-probabilities (nats) of tokens, given that one follows; the type after all others is `ROOT`.

        `<eos>` is none of them: it follows `ROOT`, where nothing else is possible.
        """
        weight, bias, size = self.backbone.output_weight, self.backbone.output_bias, self.vocabulary_size
        root = torch.full_like(targets, size)
        token_bias = weight.new_zeros(size) if bias is None else bias[:size]
        token_bias = token_bias.index_fill(0, torch.tensor([eos], device=weight.device), -torch.inf)
        total = vocabulary_logsumexp(hidden, weight[:size], token_bias)
        total = torch.where(may_end, total.logaddexp(word_scores(hidden, weight, bias, root)), total)
        log_probs = word_scores(hidden, weight, bias, targets) - total
        return log_probs.masked_fill(~may_end & (targets == size), -torch.inf)

    def string_log_probs(self, strings: ArcStrings, eos: int) -> tuple[Float[Tensor, "batch positions"], ...]:
        """Log-probabilities (nats) of the action and of the token that follow each position; 0 where none does."""
        hidden = self.backbone(
            strings.symbols, stack=strings.attention, added_embedding=self._of_heads(strings.heads)
        ).hidden
        may_join = torch.stack((strings.may_left, strings.may_right), -1).bool()
        actions = self.action_log_probs(hidden, may_join).gather(-1, strings.actions.clamp_min(0)[..., None])[..., 0]
        states, targets, may_end = (
            values.flatten(0, 1).index_select(0, strings.shifts)
            for values in (hidden, strings.targets, strings.may_end.bool())
        )  # a third of all positions
        tokens = self.token_log_probs(states, targets, may_end, eos)
        whole = tokens.new_zeros(actions.numel()).index_copy(0, strings.shifts, tokens).view_as(actions)
        return actions.masked_fill(strings.actions == NOTHING, 0), whole

    def _of_heads(self, heads: Int[Tensor, "*positions"]) -> Float[Tensor, "*positions width"]:
        """What the heads of arcs add to their embeddings."""
        embedded: Tensor = self.backbone.embedding(heads.clamp_min(0)) * self.backbone.embedding_scale
        return embedded * (heads != NOTHING)[..., None]

    # -- losses, and scores of trees that are given --------------------------------------------------------------------

    def training_step(self, batch: DerivationBatch, batch_idx: int) -> Float[Tensor, ""]:
        """The sum of both cross-entropies, nats per token of the global batch."""
        self.refuse_without_structures(batch)
        assert batch.strings is not None
        actions, tokens = (-log_probs.sum() for log_probs in self.string_log_probs(batch.strings, batch.eos))
        self.log_train(actions, batch.global_tokens, name="action_loss")
        return self.log_train(actions + tokens, batch.global_tokens)

    def joint_nll(self, batch: DerivationBatch) -> Float[Tensor, " batch"]:
        """The nats of each item's tokens and arcs."""
        assert batch.strings is not None
        actions, tokens = (-precise(each).sum(1) for each in self.string_log_probs(batch.strings, batch.eos))
        return actions + tokens

    def joint_log_probs(
        self,
        batch: TokenBatch,
        documents: Sequence[Sequence[Sequence[int]]],
        structure: Sequence[Sequence[Any]],
    ) -> Float[Tensor, "batch length"]:
        """Log-probabilities (nats) of the targets and the arcs before them, given edges `(head, dependent, label)`.

        Words may lack a head, as in a text that was cut; such a text has no end.
        """
        assert isinstance(batch, DerivationBatch)
        strings = []
        for row, (document, graphs) in enumerate(zip(documents, structure, strict=True)):
            ids, opens = [token for sentence in document for token in sentence], batch.opens[row].tolist()
            heads = heads_of_text(document, graphs, batch.opens[row].cumsum(0).tolist(), f"text {row + 1}")
            strings.append(string_of(ids, opens[1:], arc_actions(heads), eos=batch.eos, size=self.vocabulary_size))
        whole = ArcStrings.of(strings).to(self.device)
        actions, tokens = self.string_log_probs(whole, batch.eos)
        log_probs = torch.zeros_like(batch.targets, dtype=actions.dtype).scatter_add(1, whole.places, actions + tokens)
        last = F.one_hot(batch.lengths.to(self.device) - 1, batch.inputs.size(1)).bool()
        ended = (whole.symbols == self.vocabulary_size).any(1)
        return log_probs.masked_fill(last & ~ended[:, None], -torch.inf)

    # -- search --------------------------------------------------------------------------------------------------------

    def beginning(self, tokens: Int[Tensor, " rows"]) -> StringState:
        """The state after the token that begins each text."""
        zeros = torch.zeros_like(tokens)[:, None, None]
        return self.begun(tokens, ArcStack.beginning(tokens), StackAttention(zeros == 0, zeros))

    def step(
        self,
        state: StringState,
        actions: Int[Tensor, " rows"],
        tokens: Int[Tensor, " rows"],
        opens: Bool[Tensor, " rows"],
    ) -> StringState:
        """The state after one action of some rows, none at `WAIT`; with `SHIFT` a token, which may continue a word."""
        stack: ArcStack = state.stack.recorded(actions, opens)
        state = replace(state, stack=stack, read=state.read + (actions == SHIFT))
        if len(rows := ((actions != WAIT) & (actions != SHIFT)).nonzero()[:, 0]):
            attention, heads, stack = stack.composing(actions)
            symbols = torch.where(actions == ROOT, 0, actions).clamp_min(0) + self.vocabulary_size
            state = self.read_column(state, stack, rows, symbols, attention, self._of_heads(heads))
        if len(rows := ((actions != WAIT) & (actions != ROOT)).nonzero()[:, 0]):
            attention, stack = stack.stacking(actions, tokens, opens)
            is_arc, heads = actions != SHIFT, stack.last.gather(1, stack.words[:, None])[:, 0]
            symbols = torch.where(is_arc, self.vocabulary_size + actions, tokens)
            added = self._of_heads(heads.where(is_arc, NOTHING))
            state = self.read_column(state, stack, rows, symbols, attention, added)
        return state

    def targets_searched(self, batch: TokenBatch, *, with_end: bool) -> Int[Tensor, " batch"]:
        """All targets but the end of a text that may continue, which is an action."""
        return batch.lengths - int(not with_end)

    def with_target(
        self, beam: Beam[StringState], batch: DerivationBatch, k: int, *, beam_size: int, with_end: bool
    ) -> Beam[StringState]:
        """The hypotheses with any arcs and target k, after the next input; the last target is `ROOT` and `<eos>`."""
        device = batch.inputs.device
        ends = (batch.lengths == k + 1).to(device)
        targets = batch.targets[:, k]
        targets = torch.where(targets == batch.eos, self.vocabulary_size, targets)
        tokens, opens = (F.pad(column, (0, 1))[:, k + 1] for column in (batch.inputs, batch.opens))
        most = torch.where(ends, NEVER, MAX_ARCS).masked_fill(~opens & ~ends, 0)

        def expand(now: Beam[StringState], waits: Tensor) -> Expansion:
            rows = (~waits).nonzero()[:, 0]
            hidden, stack, items = now.state.hidden[rows], now.state.stack.select(rows), now.items[rows]
            log_probs = self.action_log_probs(hidden, stack.may_join)
            log_probs[:, 0] += self.token_log_probs(hidden, targets[items], stack.may_end, batch.eos)
            log_probs[:, 1:].masked_fill_((stack.arcs >= most[items])[:, None], -torch.inf)
            whole = log_probs.new_zeros(len(waits), 3).index_copy(0, rows, log_probs)
            return Expansion(whole, torch.tensor([[True, False, False]], device=device))

        def build(state: StringState, rows: Tensor, actions: Tensor) -> StringState:
            actions = actions.masked_fill(actions == SHIFT, WAIT)  # the token is encoded once arcs are done
            return self.step(state.select(rows), actions, torch.zeros_like(actions), actions == WAIT)

        beam = with_next_word(
            replace(beam, state=beam.state.compacted()), expand, build, beam_size=beam_size,
            max_actions=int(beam.state.stack.words.max()) + 2, word_beam_size=self.word_beam_size,
            fast_track=self.fast_track,
        )  # fmt: skip
        actions = torch.where(ends, ROOT, SHIFT)[beam.items]
        state = self.step(beam.state, actions, tokens[beam.items], opens[beam.items])
        return replace(beam, state=state)

    def structure_of(self, state: StringState, row: int) -> list[int]:
        """The actions of a hypothesis."""
        return [action for action in state.stack.actions[row].tolist() if action != WAIT]

    def parse(
        self, sentences: Sequence[Sequence[int]], *, vocabulary: Vocabulary, beam_size: int = 20
    ) -> list[tuple[Edge, ...]]:
        """The arcs of the likeliest tree of each sentence; see `depgen.language_models.left_to_right.GraphNetwork`."""
        trees = self.best_structures(sentences, vocabulary=vocabulary, beam_size=beam_size)
        return [edges_of_actions(actions) for actions in trees]

    # -- generation ----------------------------------------------------------------------------------------------------

    def choices_of(self, ids: Sequence[int], structure: Sequence[int], vocabulary: Vocabulary) -> list[int]:
        """The tokens of a text, with the types of the arcs between its words."""
        words = np.split(np.asarray(ids, np.int64), np.flatnonzero(np.diff(vocabulary.word_of_token(ids))) + 1)
        rest = iter(word.tolist() for word in words)
        size = self.vocabulary_size
        return [choice for action in structure for choice in (next(rest) if action == SHIFT else [size + action])]

    def choices_per_token(self, longest_prompt: int, max_new_tokens: int) -> int:
        """So many that there is room for the arcs of all words."""
        return 2 + math.ceil((longest_prompt + 2) / max_new_tokens)

    def after_choices(
        self, writing: Writing, state: StringState, ids: Int[Tensor, " rows"], is_choice: Bool[Tensor, " rows"]
    ) -> StringState:
        """See `WordSynchronous`."""
        size = self.vocabulary_size
        arcs = (ids > size) & (ids < size + 3)
        actions = torch.where(arcs, ids - size, torch.where(ids == size, ROOT, SHIFT))
        actions = torch.where(is_choice & ~state.stack.ended & (ids < size + 3), actions, WAIT)
        tokens = ids.clamp_max(size - 1)
        return self.step(state, actions, tokens, writing.opens_word[tokens] | (state.stack.words < 1)).compacted()

    def choice_log_probs(self, writing: Writing, state: StringState) -> Float[Tensor, "rows choices"]:
        """Log-probabilities of tokens (`<eos>` after `ROOT` alone), `ROOT`, arcs, and of nothing once a text is cut."""
        stack: ArcStack = state.stack
        hidden, size, eos = state.hidden, self.vocabulary_size, writing.vocabulary.eos
        actions, bias = self.action_log_probs(hidden, stack.may_join), self.backbone.output_bias
        scores = full_precision(F.linear(hidden, self.backbone.output_weight, bias))[:, : size + 1]
        column = torch.arange(size + 1, device=hidden.device)
        impossible = (column == eos) | ((column == size) & ~stack.may_end[:, None])
        tokens = actions[:, :1] + scores.masked_fill(impossible, -torch.inf).log_softmax(-1)
        continues = F.pad(~writing.opens_word, (0, 1)) & (stack.arcs > 0)[:, None]
        whole = torch.cat((tokens.masked_fill(continues, -torch.inf), actions[:, 1:], actions[:, :1]), 1)
        cut = ~stack.ended & (state.read >= writing.max_new_tokens)
        whole = whole.masked_fill((stack.ended | cut)[:, None], -torch.inf)
        whole[:, -1] = torch.where(cut, 0, -torch.inf)
        whole[:, eos] = torch.where(stack.ended, 0, whole[:, eos])
        return whole

    def written_structure(
        self, writing: Writing, state: StringState, row: int, choices: Sequence[int]
    ) -> tuple[Edge, ...]:
        """The tree; in a text that is cut, some words have no head yet."""
        size, opens_word, actions = self.vocabulary_size, writing.vocabulary.opens_word, list[int]()
        for choice in choices:
            if size < choice < size + 3:
                actions.append(choice - size)
            elif choice < size and (not actions or opens_word[choice]):
                actions.append(SHIFT)
        return edges_of_actions(actions, ended=size in choices)
