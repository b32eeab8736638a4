"""The bases of the systems that write a text and a structure over it together: graphs, bracketings or trees.

A system has p(x, y) of tokens x and a structure y. The hypotheses of the search are structures over the tokens so far:
p(x) is at least the sum over those that a beam holds. Its batch is a subclass of `TokenBatch` whose added fields of
default None hold structures. It says how both are scored (`joint_nll`); how a beam begins, takes inputs and targets,
and what a hypothesis has built (`beginning_of`, `with_input`, `next_log_probs` or `with_target`, `structures_of`); and
how texts are written choice by choice, tokens and parts of the structure in one alphabet (`choices_of`,
`writing_step`, `written_structure`).

`WordSynchronous` is the base of those whose structure is a tree, written with the tokens as one string of actions.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields, replace
from functools import cached_property, partial
from itertools import chain
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from depgen.backbones.backbone import Backbone
from depgen.backbones.transformer import Transformer, TransformerState
from depgen.data.batch import Batch, ItemBatch, SystemCollate, TokenBatch, TokenItem, collate_tokens
from depgen.data.vocabulary import EOS, Vocabulary
from depgen.decoding.beam import Beam, search_parts
from depgen.decoding.generation import Generated, generate
from depgen.decoding.settings import StructureOptions
from depgen.errors import UserError, check_at_least
from depgen.language_models.base import Likelihood
from depgen.language_models.left_to_right import LeftToRight
from depgen.metrics.item_scores import ItemScores
from depgen.nn.precise import precise
from depgen.nn.rows import Rows
from depgen.nn.stack_attention import FARTHEST, NEAREST, StackAttention, stack_attention
from depgen.nn.vocabulary import full_precision


@dataclass(frozen=True)
class Writing:
    """What the texts of one call of `generate` have in common.

    Attributes:
        vocabulary: of the texts.
        device: where the system is.
        max_new_tokens: the most tokens of a text, without its prompt.
        longest: the most tokens of a prompt and its text together.
    """

    vocabulary: Vocabulary
    device: torch.device
    max_new_tokens: int
    longest: int

    @cached_property
    def opens_word(self) -> Bool[Tensor, " vocab"]:
        """Whether each token begins a word, which not every vocabulary can say."""
        return torch.from_numpy(self.vocabulary.opens_word).to(self.device)


class StructuredLanguageModel(LeftToRight):
    """Base of the systems that write a text and a structure over it together.

    Validation scores text and structure, which all sentences must have. Scores of texts, and of the test split, are
    sums over the structures that a beam holds, hence lower bounds.

    Attributes:
        vocabulary_size: number of token types; the ids of other choices follow.
        beam_size: hypotheses about the structure of a text that is scored.
    """

    likelihood: Likelihood = "bound"
    generation_options = StructureOptions
    vocabulary_size: int
    beam_size: int

    # -- what a system provides: the search ---------------------------------------------------------------------------

    def beginning_of(self, batch: Any) -> Any:  # noqa: ANN401, the system's own
        """The state after the first input of each text; it has `select`."""
        raise NotImplementedError

    def with_input(self, beam: Beam[Any], batch: Any, k: int, *, beam_size: int) -> Beam[Any]:  # noqa: ANN401
        """The hypotheses after input k, from 1 on, and its part of the structure; as they are if they have read it."""
        return beam

    def with_target(
        self,
        beam: Beam[Any],
        batch: Any,  # noqa: ANN401
        k: int,
        *,
        beam_size: int,
        with_end: bool,
    ) -> Beam[Any]:
        """The hypotheses with target k and what is built before it: by default nothing.

        The end of a text counts if `with_end`.
        """
        counts = ((batch.lengths != k + 1) | with_end)[beam.on_cpu].to(self.device, non_blocking=True)
        log_probs = self.next_log_probs(beam.state, batch.targets[beam.items, k])
        return beam.scored(torch.where(counts, log_probs, 0), beam.state)

    def next_log_probs(self, state: Any, tokens: Int[Tensor, " rows"]) -> Float[Tensor, " rows"]:  # noqa: ANN401
        """The log-probability (nats) of a token next, where nothing is built before it."""
        raise NotImplementedError

    def structures_of(self, state: Any, rows: Int[Tensor, " some"]) -> Sequence[Sequence[Any]]:  # noqa: ANN401
        """What some hypotheses have built; empty for a text without tokens."""
        raise NotImplementedError

    def targets_searched(self, batch: Any, *, with_end: bool) -> Int[Tensor, " batch"]:  # noqa: ANN401
        """How many targets of each text are searched, on the CPU."""
        lengths: Tensor = batch.lengths
        return lengths

    def representatives(self, batch: Any) -> Int[Tensor, "batch length_and_one"]:  # noqa: ANN401
        """See `depgen.decoding.beam.representatives`; by default each text is searched by itself."""
        items, length = batch.inputs.shape
        return torch.arange(items)[:, None].expand(-1, length + 1)

    def columns_kept(self, length: int) -> int:
        """How many positions a hypothesis keeps in its state, over a text of some inputs; see `search_parts`."""
        return length

    def joint_nll(self, batch: Any) -> Float[Tensor, " batch"]:  # noqa: ANN401
        """The nats of each item's text together with the structure that is given; all items have one."""
        raise NotImplementedError

    # -- scores -------------------------------------------------------------------------------------------------------

    def log_probs(self, batch: TokenBatch) -> Float[Tensor, "batch length"]:
        """What each target adds to the log-probability (nats) of its text, over the structures that a beam holds."""
        return self.search(batch, beam_size=self.beam_size)[0]

    def item_scores(self, batch: TokenBatch) -> ItemScores:
        """The scores of a batch's items: of text and structure where structures are given, else the text's bound."""
        if not _has_structures(batch):
            return super().item_scores(batch)
        return self.scores_of_items(batch, self.joint_nll(batch), of_text=False)

    def validation_step(self, batch: TokenBatch, batch_idx: int) -> None:
        """The loss of text and structure together: of all sentences or of none, however they are batched.

        Raises:
            UserError: a sentence has no structure.
        """
        self.refuse_without_structures(batch)
        super().validation_step(batch, batch_idx)

    def refuse_without_structures(self, batch: TokenBatch) -> None:
        """Raises UserError where a sentence of a batch that is learnt from, or validated, has no structure."""
        if not _has_structures(batch):
            raise UserError(
                f"{type(self).__name__} reads texts and their structures, and at least one sentence of a batch of "
                f"{len(batch.items)} has none: set data.init_args.annotator to one that gives every sentence a "
                "structure, and data.init_args.trees_for to all splits that are trained on and validated."
            )

    def test_step(self, batch: TokenBatch, batch_idx: int) -> None:
        """The bound of the text, also where structures are given."""
        super().test_step(_without_structures(batch), batch_idx)

    @torch.inference_mode()
    def best_structures(
        self, sentences: Sequence[Sequence[int]], *, vocabulary: Vocabulary, beam_size: int, with_end: bool = True
    ) -> list[Sequence[Any]]:
        """The likeliest structure of each sentence of ids, without beginning and end, as `structures_of` gives it.

        Sentences end after their last token, or may continue, without `with_end`.
        """
        if not sentences:
            return []
        items = [TokenItem(place, np.asarray(ids, np.int64)) for place, ids in enumerate(sentences)]
        batch = self.collate(ItemBatch(items, 1, vocabulary)).to(self.device)
        assert isinstance(batch, TokenBatch)
        return self.search(batch, beam_size=beam_size, with_end=with_end)[1]

    def search(
        self, batch: TokenBatch, *, beam_size: int, with_end: bool = True
    ) -> tuple[Float[Tensor, "batch length"], list[Sequence[Any]]]:
        """What each target adds to the log-probability (nats) of its text, and the likeliest structure of each text.

        What is built before a target counts at the target. A batch is searched in parts that fit into memory, without
        the structures that it holds. Texts end after their last token, or may continue, without `with_end`.

        What decides sizes lies on the CPU too: a GPU is waited for where hypotheses are pruned (`pruned`), and where
        texts end.
        """
        (items, length), log_probs, structures = batch.inputs.shape, list[Tensor](), list[Sequence[Any]]()
        texts, columns = _without_structures(batch), self.columns_kept(length)
        for rows in search_parts(items, length=columns, beam_size=beam_size, device=batch.inputs.device):
            fields_of = vars(texts).items()
            part: dict[str, Any] = {name: column[rows] for name, column in fields_of if isinstance(column, Tensor)}
            of_part, best = self._search(replace(texts, **part), beam_size, with_end)
            log_probs.append(F.pad(of_part, (0, length - of_part.size(1))))
            structures += best
        return torch.cat(log_probs).to(self.backbone.output_weight.dtype), structures

    def _search(self, batch: TokenBatch, beam_size: int, with_end: bool) -> tuple[Tensor, list[Sequence[Any]]]:
        items, device = len(batch.inputs), batch.inputs.device
        lengths = self.targets_searched(batch, with_end=with_end)
        longest, first = int(batch.lengths.max()), self.representatives(batch)
        beam = Beam.of(self.beginning_of(batch), items, device=device)
        beam = beam.only(first[:, 0] == torch.arange(items))
        sums, best = beam.scores.new_zeros(items, longest + 1), list[Sequence[Any]]([()] * items)
        for k in range(int(lengths.max())):
            if bool((lengths == k).any()):
                beam = beam.only((lengths > k)[beam.on_cpu])
            if k:
                beam = self.with_input(beam, batch, k, beam_size=beam_size)
            beam = beam.regrouped(first[:, k], first[:, k + 1])
            beam = self.with_target(beam, batch, k, beam_size=beam_size, with_end=with_end)
            goes_on, alike = (each.to(device, non_blocking=True) for each in (lengths > k, first[:, k + 1]))
            sums[:, k + 1] = torch.where(goes_on, beam.marginals(items)[alike], sums[:, k])
            at_hand = torch.bincount(beam.on_cpu).nonzero()[:, 0]
            if bool((ends := lengths[at_hand] == k + 1).any()):
                rows = beam.best()[ends.nonzero()[:, 0].to(device, non_blocking=True)]
                for item, structure in zip(at_hand[ends].tolist(), self.structures_of(beam.state, rows), strict=True):
                    best[item] = structure
        sums[:, int(lengths.max()) + 1 :] = sums[:, int(lengths.max()), None]
        of_whole = first.gather(1, lengths[:, None])[:, 0].tolist()
        return sums.diff(dim=1), [best[item] for item in of_whole]

    # -- what a system provides: texts that are written ---------------------------------------------------------------

    def choices_of(self, ids: Sequence[int], structure: Sequence[Any], vocabulary: Vocabulary) -> list[int]:
        """The choices of a prompt after its beginning, from what `best_structures` gives."""
        raise NotImplementedError

    def choices_per_token(self, longest_prompt: int, max_new_tokens: int) -> int:
        """The most choices that a token of a text takes; 2 for systems in which tokens and choices come in turn."""
        return 2

    def writing_step(
        self,
        writing: Writing,
        tokens: Int[Tensor, "batch length"],
        padding: Bool[Tensor, "batch length"] | None,
        state: Any,  # noqa: ANN401
    ) -> tuple[Float[Tensor, "batch choices"], Any]:
        """Log-probabilities of the choice after some choices; see `depgen.decoding.generation.Step`."""
        raise NotImplementedError

    def written_structure(self, writing: Writing, state: Any, row: int, choices: Sequence[int]) -> Any:  # noqa: ANN401
        """What a text has built, by its choices, those of its prompt included, and its row of the state before its end.

        The state of a text that is cut has not read the last choice.
        """
        raise NotImplementedError

    # -- generation ---------------------------------------------------------------------------------------------------

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        vocabulary: Vocabulary,
        options: Any,  # noqa: ANN401, `StructureOptions`
        seeds: Sequence[int],
        max_new_tokens: int,
        number: int = 1,
        batch_size: int = 64,
        progress: bool = False,
    ) -> list[Generated]:
        """Texts with the structure over prompt and text as one sentence; see `LeftToRight.generate`.

        The likeliest structure of a prompt, of `options.prompt_beam_size` hypotheses, is continued.
        """
        self.refuse_longer_texts(prompts, max_new_tokens)
        prompts_size = max(map(len, prompts), default=0)
        writing = Writing(vocabulary, self.device, max_new_tokens, prompts_size + max_new_tokens)
        best = self.best_structures(prompts, vocabulary=vocabulary, beam_size=options.prompt_beam_size, with_end=False)
        begun = [self.choices_of(*prompt, vocabulary) for prompt in zip(prompts, best, strict=True)]

        def built(state: Any, row: int, choices: Sequence[int]) -> Any:  # noqa: ANN401
            return self.written_structure(writing, state, row, choices[1:])

        texts = generate(
            partial(self.writing_step, writing), [[vocabulary.eos, *prompt] for prompt in begun], eos=vocabulary.eos,
            unk=vocabulary.unk, options=options, seeds=seeds, max_new_tokens=max_new_tokens, number=number,
            batch_size=batch_size, device=self.device, progress=progress,
            choices_per_token=self.choices_per_token(prompts_size, max_new_tokens), built=built,
        )  # fmt: skip
        return [replace(text, ids=[choice for choice in text.ids if choice < self.vocabulary_size]) for text in texts]


def _structures(batch: TokenBatch) -> list[str]:
    """The fields of given structures: those that a system adds to a batch with the default None."""
    texts = {field.name for field in fields(TokenBatch)}
    return [field.name for field in fields(batch) if field.name not in texts and field.default is None]


def _has_structures(batch: TokenBatch) -> bool:
    return all(getattr(batch, name) is not None for name in _structures(batch))


def _without_structures(batch: TokenBatch) -> TokenBatch:
    nothing: dict[str, Any] = dict.fromkeys(_structures(batch))
    return replace(batch, **nothing)


def in_turn(ids: Sequence[int], choices: Sequence[int], vocabulary_size: int) -> list[int]:
    """Each token followed by its choice, whose ids follow those of tokens; in front choice 0, of the beginning.

    >>> in_turn([5, 6], [0, 2], vocabulary_size=9)
    [9, 5, 9, 6, 11]
    """
    pairs = zip(ids, choices, strict=True)
    return [vocabulary_size, *chain(*((token, vocabulary_size + choice) for token, choice in pairs))]


# -- trees as strings of tokens and actions ---------------------------------------------------------------------------

NOTHING = -1
"""No action, no label; the depth of what is not on the stack."""
NEVER = np.iinfo(np.int32).max
"""Later than any position."""
COLUMNS = 64
"""Columns that a hypothesis is taken to hold: those on its stack, and those since the last token."""


@dataclass(slots=True)
class Position:
    """A position of a string; or those of a batch of strings, with a tensor for each number. By default, padding.

    Attributes:
        symbols: the token or the action that is read.
        follows: the action that comes next, 0 for a token; `NOTHING` where nothing is predicted.
        depths: how deep it lies in the tree, or on the stack.
        popped: the position of the COMPOSE that takes it off the stack; its own where it is not put there.
        composes: whether it is a COMPOSE (see `depgen.nn.stack_attention`).
        places: the target of the text that what follows belongs to: how many tokens there are so far.
    """

    symbols: Any = 0
    follows: Any = NOTHING
    depths: Any = 0
    popped: Any = NEVER
    composes: Any = False
    places: Any = 0

    @property
    def attention(self) -> StackAttention:
        """What each position of a batch sees."""
        return stack_attention(self.popped, self.composes > 0, self.depths)


def columns_of(positions: Sequence[Position]) -> Int[np.ndarray, "columns positions"]:
    """The numbers of a string's positions, a row for each field."""
    names = [field.name for field in fields(positions[0])]
    return np.array([*map(attrgetter(*names), positions)], np.int32).T


@dataclass(frozen=True)
class Strings(Batch):
    """The strings of a batch, padded at the right by positions that see themselves alone.

    Attributes:
        columns: the fields of the system's `Position`, one after the other.
        predicting: the positions after which something follows, by their place among those of all strings.
        before_tokens: those that a token follows.
    """

    columns: Int[Tensor, "columns batch positions"]
    predicting: Int[Tensor, " predicting"]
    before_tokens: Int[Tensor, " tokens"]

    @classmethod
    def of(cls, padding: Position, strings: Sequence[Int[np.ndarray, "columns _"]]) -> "Strings":
        """The strings of `columns_of`."""
        longest, names = max(string.shape[1] for string in strings), [field.name for field in fields(padding)]
        whole = np.tile(np.array(astuple(padding), np.int64)[:, None, None], (len(strings), longest))
        whole[names.index("popped")] = np.arange(longest)
        for row, string in enumerate(strings):
            whole[:, row, : string.shape[1]] = string
        follows = whole[names.index("follows")].ravel()
        places = (np.flatnonzero(follows > NOTHING), np.flatnonzero(follows == 0))  # here: a GPU would be waited for
        return cls(torch.from_numpy(whole), *map(torch.from_numpy, places))


@dataclass(frozen=True, kw_only=True)
class StringBatch(TokenBatch):
    """Sentences, with the string of each if all have trees.

    Attributes:
        eos: the id that begins and ends a sentence.
        strings: None without trees.
    """

    eos: int = EOS
    strings: Strings | None = None


class StringCollate(SystemCollate):
    """Makes padded batches, with strings where all sentences have trees."""

    position: ClassVar[type[Position]]

    @abstractmethod
    def string(self, item: TokenItem, vocabulary: Vocabulary) -> Int[np.ndarray, "columns positions"] | None:
        """The string of a sentence and its tree; None where it has none."""

    def view(self, item: TokenItem, vocabulary: Vocabulary) -> Mapping[str, np.ndarray]:
        """The columns of a sentence's string, one after the other."""
        string = self.string(item, vocabulary)
        return {"string": np.zeros(0, np.int32) if string is None else string.ravel()}

    def __call__(self, batch: ItemBatch) -> StringBatch:
        """The batch."""
        padding, views = self.position(), [self.view_of(item, batch.vocabulary)["string"] for item in batch.sentences]
        strings = [view.reshape(len(fields(padding)), -1) for view in views]
        whole = Strings.of(padding, strings) if all(map(len, views)) else None
        return StringBatch(**vars(collate_tokens(batch)), eos=batch.vocabulary.eos, strings=whole)


@dataclass(frozen=True)
class Stack(Rows):
    """The stack of each hypothesis, whose string grows column by column.

    Attributes:
        columns: the fields with a number for each column; `NOTHING` in columns that are not on the stack.
        depths: of columns on the stack; the first lies at the bottom.
    """

    columns: ClassVar[tuple[str, ...]] = ("depths",)

    depths: Int[Tensor, "rows columns"]

    @classmethod
    @abstractmethod
    def beginning(cls, tokens: Int[Tensor, " rows"]) -> "Stack":
        """Stacks that hold the token that begins each text."""

    @property
    def on_stack(self) -> Bool[Tensor, "rows columns"]:
        """Whether each column is on the stack."""
        return self.depths > NOTHING

    def attention(
        self, depths: Int[Tensor, " rows"], visible: Bool[Tensor, "rows columns"] | None = None
    ) -> StackAttention:
        """What a new column of each row sees, given its depth: some columns, by default the stack, and itself."""
        distances = (depths[:, None] - self.depths).clamp(NEAREST, FARTHEST)
        visible = self.on_stack if visible is None else visible
        return StackAttention(F.pad(visible, (0, 1), value=True)[:, None], F.pad(distances, (0, 1))[:, None])

    def compacted(self) -> tuple["Stack", Int[Tensor, "rows kept"]]:
        """A first column that holds nothing, and the columns on stacks alone; and which these are."""
        most = int(self.on_stack.sum(1).max())
        kept = self.on_stack.int().argsort(dim=1, descending=True, stable=True)[:, :most]
        columns = {name: F.pad(getattr(self, name).gather(1, kept), (1, 0), value=NOTHING) for name in self.columns}
        return replace(self, **columns), kept


def with_column(columns: Tensor, column: Tensor) -> Tensor:
    """Columns of each row, and one more."""
    return torch.cat((columns, column[:, None]), 1)


@dataclass(frozen=True)
class StringState(Rows):
    """The state of each hypothesis after some of its string.

    Attributes:
        backbone: keys and values of its columns, the first of which holds nothing.
        stack: what is on the stack, in the same columns.
        hidden: the state that predicts what comes next.
        read: number of tokens after the prompt, of texts that are written.
    """

    backbone: TransformerState
    stack: Any  # the system's `Stack`
    hidden: Float[Tensor, "rows width"]
    read: Int[Tensor, " rows"]

    def compacted(self) -> "StringState":
        """The state without the columns that nothing sees from here on, in slots (`depgen.nn.attention.Places`)."""
        stack, kept = self.stack.compacted()
        first = self.backbone.layers[0].in_new_slots(kept)
        layers = (first, *(layer.in_new_slots(kept, like=first) for layer in self.backbone.layers[1:]))
        return replace(self, backbone=replace(self.backbone, layers=layers, length=1 + kept.size(1)), stack=stack)


class WordSynchronous(StructuredLanguageModel):
    """Base of the systems that write a sentence and a tree over it as one string of tokens and actions.

    A Transformer with relative positions reads the string, and sees what lies on a stack (`depgen.nn.stack_attention`).
    The search is word-synchronous (Stern et al., 2017): hypotheses are compared once each has its next token, before
    which it may take any number of actions.

    Args:
        vocabulary_size: number of token types of the text; linked from the data.
        beam_size: hypotheses of a text up to its next token.
        word_beam_size: those that are kept once all have the token; None: as `beam_size`.
        fast_track: hypotheses that have the token and are kept in addition, at each action.
        kwargs: see `LeftToRight`.

    Attributes:
        position: the system's.
        stack: the system's.
        choices: number of choices of a step of a text that is written.
    """

    position: ClassVar[type[Position]]
    stack: ClassVar[type[Stack]]
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

    # -- scores of trees that are given -------------------------------------------------------------------------------

    def string_log_probs(self, batch: StringBatch) -> tuple[Float[Tensor, "batch positions"], ...]:
        """Log-probabilities (nats) of what follows each position of the strings, in parts; 0 where nothing does."""
        raise NotImplementedError

    def string_of_text(
        self, batch: StringBatch, row: int, document: Sequence[Sequence[int]], structure: Sequence[Any]
    ) -> Int[np.ndarray, "columns positions"]:
        """The string of a batch's text, given the structure of each sentence."""
        raise NotImplementedError

    def joint_nll(self, batch: StringBatch) -> Float[Tensor, " batch"]:
        """The nats of each item's string."""
        return -torch.stack([precise(log_probs).sum(1) for log_probs in self.string_log_probs(batch)]).sum(0)

    def target_log_probs(self, batch: StringBatch) -> Float[Tensor, "batch length"]:
        """The log-probability (nats) of each target together with the actions before it."""
        assert batch.strings is not None
        log_probs = torch.stack(self.string_log_probs(batch)).sum(0)
        places = self.position(*batch.strings.columns).places
        return log_probs.new_zeros(batch.targets.shape).scatter_add(1, places, log_probs)

    def joint_log_probs(
        self,
        batch: TokenBatch,
        documents: Sequence[Sequence[Sequence[int]]],
        structure: Sequence[Sequence[Any]],
    ) -> Float[Tensor, "batch length"]:
        """See `LeftToRight`."""
        assert isinstance(batch, StringBatch)
        texts = enumerate(zip(documents, structure, strict=True))
        strings = Strings.of(self.position(), [self.string_of_text(batch, row, *text) for row, text in texts])
        return self.target_log_probs(replace(batch, strings=strings.to(self.device)))

    # -- search -------------------------------------------------------------------------------------------------------

    def beginning(self, tokens: Int[Tensor, " rows"]) -> StringState:
        """The state after the token that begins each text."""
        zeros = torch.zeros_like(tokens)[:, None, None]
        output = self.backbone(tokens[:, None], carry=True, stack=StackAttention(zeros == 0, zeros))
        assert isinstance(output.state, TransformerState)
        stack = self.stack.beginning(tokens)
        return StringState(output.state, stack, output.hidden[:, 0], torch.zeros_like(tokens)).compacted()

    def read_column(
        self,
        state: StringState,
        stack: Stack,
        rows: Int[Tensor, " chosen"],
        symbols: Int[Tensor, " rows"],
        attention: StackAttention,
        added_embedding: Float[Tensor, "rows width"] | None = None,
    ) -> StringState:
        """The state after one more column of some rows, which alone are computed; others hold nothing there.

        `stack` has the column; `symbols`, `attention` and `added_embedding`, to those of the symbols, are of all rows.
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
        raise NotImplementedError

    def choice_log_probs(self, writing: Writing, state: StringState) -> Float[Tensor, "rows choices"]:
        """Log-probabilities of the next choice, of texts that have ended or are cut without meaning."""
        raise NotImplementedError
