"""The base of the systems that write a sentence and a tree over it as one string of tokens and actions.

A Transformer with relative positions reads the string, and sees what lies on a stack (`depgen.nn.stack_attention`). The
search is word-synchronous (Stern et al., 2017): hypotheses are compared once each has its next token, before which it
may take any number of actions. Transformer Grammars (`depgen.models.tg`) write constituents, Dependency Transformer
Grammars (`depgen.models.dtg`) arcs.

Beside what `StructuredLanguageModel` names, a system says

    beginning(tokens)                              the state after the token that begins each text
    after_choices(writing, state, ids, is_choice)  the state after one more choice of some texts that are written
    choice_log_probs(writing, state)               the distribution of the next choice
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from depgen.backbones.backbone import Backbone
from depgen.backbones.transformer import Transformer, TransformerState
from depgen.data.batch import Batch, ItemBatch, SystemCollate, TokenBatch, TokenItem, collate_tokens
from depgen.data.vocabulary import EOS, Vocabulary
from depgen.errors import UserError, check_at_least
from depgen.language_models.structured import StructuredLanguageModel, Writing
from depgen.nn.rows import Rows
from depgen.nn.stack_attention import StackAttention
from depgen.nn.vocabulary import full_precision

NOTHING = -1
"""No symbol, no action, no label."""
NEVER = np.iinfo(np.int32).max
"""Later than any position."""
COLUMNS = 64
"""Columns that a hypothesis is taken to hold: those on its stack, and those since the last token."""


# -- strings in batches -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Strings(Batch):
    """Base of the strings of a batch: columns of a number for each position, padded at the right.

    Attributes:
        columns: the names of the columns, which are fields; `popped` is the position that takes each position off the
            stack.
        unfilled: those that are padded by `NOTHING`.
    """

    columns: ClassVar[tuple[str, ...]]
    unfilled: ClassVar[tuple[str, ...]]

    @classmethod
    def padded(cls, strings: Sequence[Int[np.ndarray, "columns _"]]) -> dict[str, Int[Tensor, "batch positions"]]:
        """The columns; a position of padding sees itself alone."""
        longest = max(string.shape[1] for string in strings)
        whole = np.zeros((len(cls.columns), len(strings), longest), np.int64)
        whole[[cls.columns.index(name) for name in cls.unfilled]] = NOTHING
        whole[cls.columns.index("popped")] = np.arange(longest)
        for row, string in enumerate(strings):
            whole[:, row, : string.shape[1]] = string
        return dict(zip(cls.columns, torch.from_numpy(whole), strict=True))


@dataclass(frozen=True, kw_only=True)
class StringBatch(TokenBatch):
    """Sentences, with the string of each if all have trees.

    Attributes:
        eos: the id that begins and ends a sentence.
        strings: the system's; None without trees.
    """

    eos: int = EOS
    strings: Any = None


class StringCollate(SystemCollate):
    """Makes padded batches, with strings where all sentences have trees."""

    kind: ClassVar[Any]

    @abstractmethod
    def string(self, item: TokenItem, vocabulary: Vocabulary) -> Int[np.ndarray, "columns positions"] | None:
        """The string of a sentence and its tree; None where it has none."""

    def view(self, item: TokenItem, vocabulary: Vocabulary) -> Mapping[str, np.ndarray]:
        """The columns of a sentence's string, one after the other."""
        string = self.string(item, vocabulary)
        return {"string": np.zeros(0, np.int32) if string is None else string.astype(np.int32).ravel()}

    def __call__(self, batch: ItemBatch) -> StringBatch:
        """The batch."""
        views = [self.view_of(item, batch.vocabulary)["string"] for item in batch.sentences]
        strings = [view.reshape(len(self.kind.columns), -1) for view in views]
        whole = self.kind.of(strings) if all(map(len, views)) else None
        return StringBatch(**vars(collate_tokens(batch)), eos=batch.vocabulary.eos, strings=whole)


# -- hypotheses -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StringState(Rows):
    """The state of each hypothesis after some of its string.

    Attributes:
        backbone: keys and values of its columns, the first of which holds nothing.
        stack: what is on the stack, in the same columns; has `select`, and `compacted`.
        hidden: the state that predicts what comes next.
        read: number of tokens after the prompt, of texts that are written.
    """

    backbone: TransformerState
    stack: Any
    hidden: Float[Tensor, "rows width"]
    read: Int[Tensor, " rows"]

    def compacted(self) -> "StringState":
        """The state without the columns that nothing sees from here on, in slots (`depgen.nn.branches`)."""
        stack, kept = self.stack.compacted()
        first = self.backbone.layers[0].in_new_slots(kept)
        layers = (first, *(layer.in_new_slots(kept, like=first) for layer in self.backbone.layers[1:]))
        return replace(self, backbone=replace(self.backbone, layers=layers, length=1 + kept.size(1)), stack=stack)


class WordSynchronous(StructuredLanguageModel):
    """Base of the systems that write a sentence and a tree over it as one string of tokens and actions.

    Args:
        vocabulary_size: number of token types of the text; linked from the data.
        beam_size: hypotheses of a text up to its next token.
        word_beam_size: those that are kept once all have the token; None: as `beam_size`.
        fast_track: hypotheses that have the token and are kept in addition, at each action.
        kwargs: see `LeftToRight`.

    Attributes:
        choices: number of choices of a step of a text that is written.
    """

    backbone: Transformer
    choices: int

    def __init__(
        self,
        vocabulary_size: int,
        *,
        beam_size: int = 100,
        word_beam_size: int | None = 10,
        fast_track: int = 0,
        **kwargs: Any,  # noqa: ANN401, of the base
    ) -> None:
        super().__init__(**kwargs)
        check_at_least(1, beam_size=beam_size, word_beam_size=word_beam_size)
        check_at_least(0, fast_track=fast_track)
        self.vocabulary_size, self.beam_size = vocabulary_size, beam_size
        self.word_beam_size, self.fast_track = word_beam_size, fast_track

    def use_backbone(self, backbone: Backbone) -> None:
        """Take the network, which must tell positions by distances."""
        super().use_backbone(backbone)
        if not isinstance(backbone, Transformer) or backbone.relative is None:
            raise UserError(
                f"{type(self).__name__} has positions by depth: set model.init_args.backbone to "
                "depgen.backbones.transformer.Transformer with positions: relative."
            )

    # -- search -------------------------------------------------------------------------------------------------------

    def beginning(self, tokens: Int[Tensor, " rows"]) -> StringState:
        """The state after the token that begins each text."""
        raise NotImplementedError(f"{type(self).__name__} has no beginning")

    def begun(self, tokens: Int[Tensor, " rows"], stack: Any, attention: StackAttention) -> StringState:  # noqa: ANN401
        """The state after the first column of each text, given the stack with it."""
        output = self.backbone(tokens[:, None], carry=True, stack=attention)
        assert isinstance(output.state, TransformerState)
        return StringState(output.state, stack, output.hidden[:, 0], torch.zeros_like(tokens)).compacted()

    def read_column(
        self,
        state: StringState,
        stack: Any,  # noqa: ANN401, the system's own
        rows: Int[Tensor, " chosen"],
        symbols: Int[Tensor, " rows"],
        attention: StackAttention,
        added_embedding: Float[Tensor, "rows width"] | None = None,
    ) -> StringState:
        """The state after one more column of some rows, which alone are computed; others hold nothing there.

        Args:
            state: before.
            stack: with the column.
            rows: that read it.
            symbols: of each row.
            attention: what the column sees, of each row.
            added_embedding: to those of the symbols.
        """
        output = self.backbone(
            symbols[rows, None], state=state.backbone.select(rows), carry=True,
            stack=StackAttention(attention.visible[rows], attention.distances[rows]),
            added_embedding=None if added_embedding is None else added_embedding[rows, None],
        )  # fmt: skip
        longer = output.state
        assert isinstance(longer, TransformerState)
        first = state.backbone.layers[0].with_rows(rows, longer.layers[0])
        pairs = zip(state.backbone.layers[1:], longer.layers[1:], strict=True)
        layers = (first, *(layer.with_rows(rows, other, like=first) for layer, other in pairs))
        hidden = state.hidden.index_copy(0, rows, output.hidden[:, 0])
        return replace(state, backbone=replace(longer, layers=layers), stack=stack, hidden=hidden)

    def columns_kept(self, length: int) -> int:
        """See `COLUMNS`."""
        return COLUMNS

    def beginning_of(self, batch: StringBatch) -> StringState:
        """See `StructuredLanguageModel`."""
        return self.beginning(batch.inputs[:, 0])

    # -- generation ---------------------------------------------------------------------------------------------------

    def writing_step(
        self,
        writing: Writing,
        tokens: Int[Tensor, "batch length"],
        padding: Bool[Tensor, "batch length"] | None,
        state: StringState | None,
    ) -> tuple[Float[Tensor, "batch choices"], StringState]:
        """Log-probabilities of the choice after some choices; see `depgen.decoding.generation.Step`.

        A text that is cut takes the last choice from then on, for nothing and without effect, so that a search ranks it
        after texts that end.
        """
        if state is None:
            skipped = tokens.new_zeros(len(tokens)) if padding is None else padding.sum(1)
            state = self.beginning(torch.full_like(skipped, writing.vocabulary.eos))
            for column in range(1, tokens.size(1)):
                state = self.after_choices(writing, state, tokens[:, column], column > skipped)
            state = replace(state, read=torch.zeros_like(state.read))
        elif bool((goes_on := state.read < writing.max_new_tokens).any()):
            state = self.after_choices(writing, state, tokens[:, 0], goes_on)
        is_cut = (state.read >= writing.max_new_tokens)[:, None]
        if bool(is_cut.all()):  # most steps of a text that is cut are such ones
            log_probs = full_precision(state.hidden).new_zeros(len(is_cut), self.choices)
        else:
            log_probs = self.choice_log_probs(writing, state)
        log_probs = log_probs.masked_fill(is_cut, -torch.inf)
        log_probs[:, -1:].masked_fill_(is_cut, 0)
        return log_probs, state

    def after_choices(
        self, writing: Writing, state: StringState, ids: Int[Tensor, " rows"], is_choice: Bool[Tensor, " rows"]
    ) -> StringState:
        """The state after one more choice of some rows, the end of a text excepted."""
        raise NotImplementedError(f"{type(self).__name__} has no after_choices")

    def choice_log_probs(self, writing: Writing, state: StringState) -> Float[Tensor, "rows choices"]:
        """Log-probabilities of the next choice, of texts that have ended or are cut without meaning."""
        raise NotImplementedError(f"{type(self).__name__} has no choice_log_probs")
