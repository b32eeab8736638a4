"""Dependency Transformer Grammars. Zhao, Lou & Tu (2024), ACL, "Dependency Transformer Grammars: Integrating Dependency
Structures into Transformer Language Models".

A Transformer that writes a sentence and its projective dependency tree together, as one string of arc-standard actions:

    the dog barks         ->    <bos> the dog LEFT LEFT' barks LEFT LEFT' ROOT    and then <eos>

A token is put on the stack. LEFT makes the word on top the head of the one below it, RIGHT the one below the head of
the word on top. An arc is read twice. The first copy, COMPOSE, sees the tokens of both words, takes them off the stack,
and is put there as the head. The second copy, STACK (LEFT'), sees the stack and predicts. ROOT takes the last word off.

    paper             here
    string, stack     `string_of`: a position for each token, two for each arc; `ArcStack` while a text is read
    attention mask    `ArcPosition.attention`: COMPOSE sees two words, all else the stack; each position sees itself
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
from depgen.decoding.beam import WAIT, Beam, Survivors, with_next_word
from depgen.errors import UserError
from depgen.language_models.structured import (
    NEVER,
    NOTHING,
    Position,
    Stack,
    StringBatch,
    StringCollate,
    StringState,
    WordSynchronous,
    Writing,
    columns_of,
    with_column,
)
from depgen.nn.stack_attention import NEAREST, StackAttention, stack_attention
from depgen.nn.vocabulary import full_precision, vocabulary_logsumexp, without, word_scores
from depgen.training.hyper_parameters import factory
from depgen.trees.binarization import lifted
from depgen.trees.graph import joined_edges, sorted_edges
from depgen.trees.sentence import Edge

MAX_ARCS = 14
"""The most arcs between two tokens, as of the authors: with the token 15 actions."""
SHIFT, LEFT, RIGHT, ROOT = 0, 1, 2, 3
"""The actions; a tree's sequence ends before `ROOT`. SHIFT puts a word on the stack."""
NO_HEAD = -1
"""The head of a word that has none yet."""

# -- projective trees as sequences of actions -------------------------------------------------------------------------


def arc_actions(heads: Sequence[int]) -> list[int]:
    """The actions that build a tree's arcs, each as early as it can be built.

    Where the tree is not projective or has several roots, some arcs are not built.

    Args:
        heads: 1-based head of each word, 0 = root, `NO_HEAD` where none is known.

    >>> arc_actions([2, 0, 2])  # LEFT once the second word is there, RIGHT once the third has all its dependents
    [0, 0, 1, 0, 2]
    """
    pending = [0] * (len(heads) + 1)
    for head in heads:
        if head > 0:
            pending[head] += 1
    stack, actions = list[int](), list[int]()
    for word in range(1, len(heads) + 1):
        stack.append(word)
        actions.append(SHIFT)
        while len(stack) > 1:
            below, top = stack[-2:]
            if heads[below - 1] == top and not pending[below]:
                del stack[-2]
                actions.append(LEFT)
                pending[top] -= 1
            elif heads[top - 1] == below and not pending[top]:
                stack.pop()
                actions.append(RIGHT)
                pending[below] -= 1
            else:
                break
    return actions


def heads_of_actions(actions: Sequence[int]) -> list[int]:
    """The head of each word; `NO_HEAD` for those that are left on the stack.

    >>> heads_of_actions([0, 0, 1, 0, 2])
    [2, -1, 2]
    """
    heads, stack = list[int](), list[int]()
    for action in actions:
        if action == SHIFT:
            heads.append(NO_HEAD)
            stack.append(len(heads))
        else:
            dependent = stack.pop(-2 if action == LEFT else -1)
            heads[dependent - 1] = stack[-1]
    return heads


def are_built(heads: Sequence[int], actions: Sequence[int]) -> bool:
    """Whether the actions build all arcs between words."""
    return len(actions) - len(heads) == sum(head > 0 for head in heads)


def single_root(heads: Sequence[int]) -> list[int]:
    """The tree with all roots but the first as dependents of the first.

    >>> single_root([0, 1, 0])
    [0, 1, 1]
    """
    root = next((word for word, head in enumerate(heads, start=1) if head == 0), 0)
    return [root if head == 0 and word != root else head for word, head in enumerate(heads, start=1)]


# -- strings of actions, in batches -----------------------------------------------------------------------------------


@dataclass(slots=True)
class ArcPosition(Position):
    """A position of a string; symbols are token types, depths say how many words are on the stack.

    Attributes:
        heads: of arcs and `ROOT`, the last token of the head; `NOTHING` at all else.
        is_dependent: whether it belongs to the dependent of the COMPOSE that takes it off.
        may_left: whether `LEFT` may follow.
    """

    heads: Any = NOTHING
    is_dependent: Any = False
    may_left: Any = False

    @property
    def may_join(self) -> Bool[Tensor, "batch positions 2"]:
        """Whether `LEFT` and `RIGHT` may follow, where anything does."""
        return torch.stack((self.may_left > 0, self.depths > 1), -1)

    @property
    def may_end(self) -> Any:  # noqa: ANN401, a tensor
        """Whether `ROOT` may follow, where anything does."""
        return self.depths < 2

    @property
    def attention(self) -> StackAttention:
        """What each position of a batch sees."""
        from_compose = self.is_dependent * NEAREST
        return stack_attention(self.popped, self.composes > 0, self.depths, composed_distances=from_compose)


def string_of(
    ids: Sequence[int], opens: Sequence[bool], actions: Sequence[int], *, eos: int, size: int
) -> Int[np.ndarray, "columns positions"]:
    """The string of a text and its arcs: the columns of `ArcPosition`.

    `opens` says whether each token begins a word. Where the actions leave several words on the stack, the text does not
    end. `size` is that of the vocabulary.

    >>> ArcPosition(*string_of([5, 6], [True, True], [0, 0, 1], eos=0, size=9)).symbols.tolist()
    [0, 5, 6, 10, 10, 9]
    """
    positions, read = [ArcPosition(eos)], 0
    stack = [([0], eos)]  # of each word, the positions that it has on the stack, and its last token

    def read_symbol(symbol: int, action: int, **others: Any) -> None:  # noqa: ANN401
        """One more position, after an action that has changed the stack."""
        positions[-1].follows, positions[-1].places = action, read
        positions.append(ArcPosition(symbol, depths=len(stack) - 1, may_left=len(stack) > 2, **others))

    def shift(token: int, *, opens: bool) -> None:
        """Put a token on the stack, in a new word or in that on top."""
        before = [] if opens else stack.pop()[0]
        stack.append(([*before, len(positions)], token))
        read_symbol(token, SHIFT)

    def join(action: int) -> None:
        """An arc, or `ROOT`, which has one copy and whose head is the beginning."""
        here, symbol = len(positions), size + action % ROOT
        below, top = stack[-2:] if len(stack) > 1 else (stack[0], ([], 0))
        (head, last), (dependent, _) = (top, below) if action == LEFT else (below, top)
        for place in (*head, *dependent):
            positions[place].popped = here
        for place in dependent:
            positions[place].is_dependent = True
        stack[-2:] = [([here], last)]
        if action == ROOT:
            read_symbol(symbol, SHIFT, popped=here, composes=True, heads=last)
            return
        read_symbol(symbol, action, composes=True, heads=last)
        second = replace(positions[-1], popped=here + 1, composes=False)
        second.may_left &= action == LEFT
        positions.append(second)

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
    return columns_of(positions)


@dataclass(frozen=True, kw_only=True)
class DerivationBatch(StringBatch):
    """Sentences, with the strings of their trees where all have one.

    Attributes:
        opens: True at inputs that begin a word.
    """

    opens: Bool[Tensor, "batch length"]


@dataclass(frozen=True)
class DerivationCollate(StringCollate):
    """Makes padded batches, with strings where all sentences have trees; `size` is that of the vocabulary."""

    version: ClassVar[int] = 4
    reads: ClassVar[Literal["heads"]] = "heads"
    position: ClassVar[type[Position]] = ArcPosition

    size: int

    def string(self, item: TokenItem, vocabulary: Vocabulary) -> Int[np.ndarray, "columns positions"] | None:
        """The string of a sentence and its tree (D3)."""
        if item.heads is None or (item.heads < 0).any():
            return None
        word = word_numbers(item, vocabulary)
        opens = np.diff(word, prepend=0) > 0
        actions = arc_actions(lifted(np.append(0, word)[item.heads[opens]]).tolist())
        return string_of(item.ids.tolist(), opens.tolist(), actions, eos=vocabulary.eos, size=self.size)

    def __call__(self, batch: ItemBatch) -> DerivationBatch:
        """The batch."""
        sentences = super().__call__(batch)
        opens = torch.zeros_like(sentences.inputs, dtype=torch.bool)
        for row, item in enumerate(batch.sentences):
            word = word_numbers(item, batch.vocabulary)
            opens[row, 1 : len(word) + 1] = torch.from_numpy(np.diff(word, prepend=0) > 0)
        return DerivationBatch(**vars(sentences), opens=opens)


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
class ArcStack(Stack):
    """The stack of each hypothesis, on which a word has a column for each of its tokens, or one once it has dependents.

    The depth of a column is that of its word, 1 for the lowest, 0 for the beginning.

    Attributes:
        words: number of words on the stack.
        last: the last token of the word that each place of the stack holds.
        joined_right: whether the word on top has got a dependent on its right.
        actions: those taken so far but `ROOT`, `WAIT` where there was none or a token that begins no word.
        arcs: number of arcs since the last token.
        ended: True after `ROOT`.
    """

    words: Int[Tensor, " rows"]
    last: Int[Tensor, "rows places"]
    joined_right: Bool[Tensor, " rows"]
    actions: Int[Tensor, "rows steps"]
    arcs: Int[Tensor, " rows"]
    ended: Bool[Tensor, " rows"]

    @classmethod
    def beginning(cls, tokens: Int[Tensor, " rows"]) -> "ArcStack":
        """Stacks that hold the token that begins each text."""
        zeros = torch.zeros_like(tokens)
        return cls(zeros[:, None], zeros, tokens[:, None], zeros > 0, zeros[:, None][:, :0], zeros, zeros > 0)

    @property
    def may_join(self) -> Bool[Tensor, "rows 2"]:
        """Whether `LEFT` and `RIGHT` are possible; a word takes its dependents on the left first."""
        return torch.stack(((self.words > 1) & ~self.joined_right, self.words > 1), 1)

    @property
    def may_end(self) -> Bool[Tensor, " rows"]:
        """Whether one word at most is on the stack."""
        return self.words <= 1

    def composing(self, actions: Int[Tensor, " rows"]) -> tuple[StackAttention, Int[Tensor, " rows"], "ArcStack"]:
        """A new column for arcs and `ROOT`: what it sees, the last token of the head, and the stack with it.

        In rows with another action the column holds nothing.
        """
        joins, is_left = (actions != WAIT) & (actions != SHIFT), actions == LEFT
        top, below = self.words, (self.words - 1).clamp_min(0)
        head, dependent = torch.where(is_left, top, below), torch.where(is_left, below, top)
        visible = joins[:, None] & (self.depths >= below[:, None])
        is_dependent = (self.depths == dependent[:, None]) & (head != dependent)[:, None]
        last = self.last.gather(1, head[:, None])[:, 0]
        here = F.one_hot(below, self.last.size(1)).bool() & joins[:, None]
        stack = replace(
            self, depths=with_column(self.depths.masked_fill(visible, NOTHING), torch.where(joins, below, NOTHING)),
            words=torch.where(joins, below, self.words), last=torch.where(here, last[:, None], self.last),
            joined_right=torch.where(joins, actions == RIGHT, self.joined_right), arcs=self.arcs + joins,
            ended=self.ended | (actions == ROOT),
        )  # fmt: skip
        seen = replace(self.attention(below, visible), distances=F.pad(is_dependent, (0, 1))[:, None] * NEAREST)
        return seen, last, stack

    def stacking(
        self,
        actions: Int[Tensor, " rows"],
        tokens: Int[Tensor, " rows"],
        opens: Bool[Tensor, " rows"],
        *,
        may_push: bool,
    ) -> tuple[StackAttention, "ArcStack"]:
        """A new column for the second copies of arcs, which are not put on the stack, and for tokens, which are.

        A token that does not open a word belongs to that on top. At `WAIT` and `ROOT` the column holds nothing. With
        `may_push` there is room for one word more.
        """
        pushes = actions == SHIFT
        words, last = self.words + (pushes & opens), self.last
        if may_push:
            last = F.pad(last, (0, 1))
        here = F.one_hot(words, last.size(1)).bool() & pushes[:, None]
        return self.attention(words), replace(
            self, depths=with_column(self.depths, torch.where(pushes, words, NOTHING)), words=words,
            last=torch.where(here, tokens[:, None], last), joined_right=self.joined_right & ~(pushes & opens),
            arcs=self.arcs.masked_fill(pushes, 0),
        )  # fmt: skip


# -- the system --------------------------------------------------------------------------------------------------------


class DTG(WordSynchronous):
    """A Transformer-XL over strings of arc-standard actions.

    Args:
        backbone: makes the Transformer, with relative positions, from the number of token types.
        vocabulary_size: number of token types of the text; linked from the data.
        embedding_learning_rate: of token embeddings (the authors' is twice the others'); None: that of the optimiser.
        kwargs: see `WordSynchronous`; the authors' beams are 100 and 10, with no fast track.
    """

    position, stack = ArcPosition, ArcStack

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
        self.choices = vocabulary_size + 4
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
        total = vocabulary_logsumexp(hidden, weight[:size], without(token_bias, eos))
        total = torch.where(may_end, total.logaddexp(word_scores(hidden, weight, bias, root)), total)
        log_probs = word_scores(hidden, weight, bias, targets) - total
        return log_probs.masked_fill(~may_end & (targets == size), -torch.inf)

    def string_log_probs(self, batch: StringBatch) -> tuple[Float[Tensor, "batch positions"], ...]:
        """Log-probabilities (nats) of the action and of the token that follow each position; 0 where none does."""
        strings = batch.strings
        assert strings is not None
        at = ArcPosition(*strings.columns)
        hidden = self.backbone(at.symbols, stack=at.attention, added_embedding=self._of_heads(at.heads)).hidden
        actions = self.action_log_probs(hidden, at.may_join).gather(-1, at.follows.clamp_min(0)[..., None])[..., 0]
        following = F.pad(at.symbols[:, 1:], (0, 1))
        states, targets, may_end = (
            values.flatten(0, 1).index_select(0, strings.before_tokens) for values in (hidden, following, at.may_end)
        )  # a third of all positions
        tokens = self.token_log_probs(states, targets, may_end, batch.eos)
        whole = tokens.new_zeros(actions.numel()).index_copy(0, strings.before_tokens, tokens).view_as(actions)
        return actions.masked_fill(at.follows == NOTHING, 0), whole

    def _of_heads(self, heads: Int[Tensor, "*positions"]) -> Float[Tensor, "*positions width"]:
        """What the heads of arcs add to their embeddings."""
        embedded: Tensor = self.backbone.embedding(heads.clamp_min(0)) * self.backbone.embedding_scale
        return embedded * (heads != NOTHING)[..., None]

    # -- losses, and scores of trees that are given --------------------------------------------------------------------

    def training_step(self, batch: DerivationBatch, batch_idx: int) -> Float[Tensor, ""]:
        """The sum of both cross-entropies, nats per token of the global batch."""
        self.refuse_without_structures(batch)
        actions, tokens = (-log_probs.sum() for log_probs in self.string_log_probs(batch))
        self.log_train(actions, batch.global_tokens, name="action_loss")
        return self.log_train(actions + tokens, batch.global_tokens)

    def target_log_probs(self, batch: StringBatch) -> Float[Tensor, "batch length"]:
        """See `WordSynchronous`; a text some of whose words lack a head, as one that was cut, has no end."""
        assert batch.strings is not None
        log_probs = super().target_log_probs(batch)
        last = F.one_hot(batch.lengths.to(log_probs.device) - 1, batch.inputs.size(1)).bool()
        ended = (ArcPosition(*batch.strings.columns).symbols == self.vocabulary_size).any(1)
        return log_probs.masked_fill(last & ~ended[:, None], -torch.inf)

    def string_of_text(
        self, batch: StringBatch, row: int, document: Sequence[Sequence[int]], structure: Sequence[Any]
    ) -> Int[np.ndarray, "columns positions"]:
        """The string of a text, given the edges `(head, dependent, label)` of each sentence; words may lack a head."""
        assert isinstance(batch, DerivationBatch)
        ids, opens, where = [token for sentence in document for token in sentence], batch.opens[row], f"text {row + 1}"
        word = opens.cumsum(0).tolist()
        words = word[len(ids)]
        heads = [NO_HEAD] * words
        for head, dependent in zip(*(ends.tolist() for ends in joined_edges(document, structure, word)), strict=True):
            if not (0 < dependent <= words and 0 <= head <= words):
                raise UserError(f"{where}: expected arcs between {words} words, found {head} -> {dependent}.")
            if heads[dependent - 1] != NO_HEAD:
                raise UserError(f"{where}: expected one head a word, found two of word {dependent}: give a tree.")
            heads[dependent - 1] = head
        heads = single_root(heads)
        actions = arc_actions(heads)
        if not are_built(heads, actions):
            raise UserError(f"{where}: its arcs cross or form a cycle: give a projective tree.")
        return string_of(ids, opens[1:].tolist(), actions, eos=batch.eos, size=self.vocabulary_size)

    # -- search --------------------------------------------------------------------------------------------------------

    def step(
        self,
        state: StringState,
        actions: Int[Tensor, " rows"],
        tokens: Int[Tensor, " rows"],
        opens: Bool[Tensor, " rows"],
    ) -> StringState:
        """The state after one action of some rows, none at `WAIT`; with `SHIFT` a token, which may continue a word.

        Actions lie on the CPU.
        """
        stack: ArcStack = state.stack
        joins, stacks = (actions != WAIT) & (actions != SHIFT), (actions != WAIT) & (actions != ROOT)
        may_push = bool((actions == SHIFT).any())
        actions, joining_rows, rows = (
            each.to(tokens.device, non_blocking=True)
            for each in (actions, joins.nonzero()[:, 0], stacks.nonzero()[:, 0])
        )
        built = actions.masked_fill((actions == ROOT) | ((actions == SHIFT) & ~opens), WAIT)
        stack = replace(stack, actions=with_column(stack.actions, built))
        state = replace(state, stack=stack, read=state.read + (actions == SHIFT))
        if len(joining_rows):
            attention, heads, stack = stack.composing(actions)
            symbols = torch.where(actions == ROOT, 0, actions).clamp_min(0) + self.vocabulary_size
            state = self.read_column(state, stack, joining_rows, symbols, attention, self._of_heads(heads))
        if len(rows):
            attention, stack = stack.stacking(actions, tokens, opens, may_push=may_push)
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
        device, is_last = batch.inputs.device, batch.lengths == k + 1
        ends = is_last.to(device, non_blocking=True)
        targets = batch.targets[:, k]
        targets = torch.where(targets == batch.eos, self.vocabulary_size, targets)
        tokens, opens = (F.pad(column, (0, 1))[:, k + 1] for column in (batch.inputs, batch.opens))
        most = torch.where(ends, NEVER, MAX_ARCS).masked_fill(~opens & ~ends, 0)

        def expand(now: Beam[StringState], waits: Tensor) -> Tensor:
            rows = (~waits).nonzero()[:, 0].to(device, non_blocking=True)
            hidden, stack, items = now.state.hidden[rows], now.state.stack.select(rows), now.items[rows]
            log_probs = self.action_log_probs(hidden, stack.may_join)
            log_probs[:, 0] += self.token_log_probs(hidden, targets[items], stack.may_end, batch.eos)
            log_probs[:, 1:].masked_fill_((stack.arcs >= most[items])[:, None], -torch.inf)
            return log_probs.new_zeros(len(waits), 3).index_copy(0, rows, log_probs)

        def build(state: StringState, best: Survivors) -> StringState:
            actions, nothing = best.on_cpu[1], torch.zeros_like(best.candidates)
            actions = actions.masked_fill(actions == SHIFT, WAIT)  # the token is encoded once arcs are done
            return self.step(state.select(best.rows), actions, nothing, nothing > 0)

        beam = with_next_word(
            replace(beam, state=beam.state.compacted()), expand, build, produces=[True, False, False],
            beam_size=beam_size, max_actions=k + 2,  # on the stack are k words at most
            word_beam_size=self.word_beam_size, fast_track=self.fast_track,
        )  # fmt: skip
        actions = torch.where(is_last, ROOT, SHIFT)[beam.on_cpu]
        state = self.step(beam.state, actions, tokens[beam.items], opens[beam.items])
        return replace(beam, state=state)

    def structures_of(self, state: StringState, rows: Int[Tensor, " some"]) -> list[list[int]]:
        """The actions of hypotheses."""
        return [[action for action in row if action != WAIT] for row in state.stack.actions[rows].tolist()]

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
        opens = writing.opens_word[tokens] | (state.stack.words < 1)
        return self.step(state, actions.cpu(), tokens, opens).compacted()

    def choice_log_probs(self, writing: Writing, state: StringState) -> Float[Tensor, "rows choices"]:
        """Log-probabilities of tokens (`<eos>` after `ROOT` alone), `ROOT`, arcs, and nothing, once a text is cut."""
        stack: ArcStack = state.stack
        hidden, size, eos = state.hidden, self.vocabulary_size, writing.vocabulary.eos
        actions, bias = self.action_log_probs(hidden, stack.may_join), self.backbone.output_bias
        scores = full_precision(F.linear(hidden, self.backbone.output_weight, bias))[:, : size + 1]
        column = torch.arange(size + 1, device=hidden.device)
        impossible = (column == eos) | ((column == size) & ~stack.may_end[:, None])
        tokens = actions[:, :1] + scores.masked_fill(impossible, -torch.inf).log_softmax(-1)
        continues = F.pad(~writing.opens_word, (0, 1)) & (stack.arcs > 0)[:, None]
        whole = torch.cat((tokens.masked_fill(continues, -torch.inf), actions[:, 1:]), 1)
        whole = F.pad(whole.masked_fill(stack.ended[:, None], -torch.inf), (0, 1), value=-torch.inf)
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
