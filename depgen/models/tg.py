"""Transformer Grammars. Sartran, Barrett, Kuncoro, Stanojević, Blunsom & Dyer (2022), TACL, "Transformer Grammars:
Augmenting Transformer Language Models with Syntactic Inductive Biases at Scale".

A Transformer-XL that writes a sentence and its constituency tree as one string of words and labelled brackets. A mask
lets each symbol see what is on the stack alone: a constituent that is closed is composed into one position, and what is
within it is never seen again.

    paper                         here
    a_1 … a_T                     `symbols_of` of `depgen.trees.tree_strings`: (S (NP the dog NP) (VP barks VP) S)
    generation of a'              `positions_of`: each closing bracket is read twice, X) for COMPOSE and X) for STACK
    A_ij, STACK and COMPOSE       `GrammarStrings.attention`; one column at a time, `BracketState.seen`
    R_ij = depth_i - depth_j      the same, and `BracketState.distances`
    p(a_i | a_<i)                 `symbol_log_probs`
    p(x, y) = Π p(a_i | a_<i)     `joint_log_probs`
    p(x) ≥ Σ_{y in beam} p(x, y)  `log_probs`, by a word-synchronous beam (Stern et al., 2017)

    p(a_i | a_<i) = softmax(W h_i + b) over words, opening and closing brackets, where h_i is the state of position i:
    of a word, an opening bracket, the beginning, or the second copy of a closing bracket. First copies predict nothing.

    COMPOSE sees its opening bracket, what is above that on the stack, and itself; all that is taken off, and it is put
    there. STACK sees the stack and itself, and is not put there. All else sees the stack and itself, and is put there.

There are no tags, and no end: the bracket that closes the whole sentence is the last symbol. It takes the place of
`<eos>` among the targets. Position 0 is the beginning, `<eos>` as an input.

Deviations
    D1. Probabilities are over the symbols that may come next: no word outside the brackets, no closing bracket but that
        of the innermost constituent, and none of an empty one. In the authors' code they are over all symbols, so that
        what impossible symbols get is lost.
    D2. Between two words at most `max_openings` brackets are opened, so that the number of trees of a sentence is
        finite, and the sum over them can be 1.
    D3. Where no constituent covers a sentence, one with the first label does.
    D4. Pieces of words are treated as words, by the search too: brackets between them are possible.
    D5. The authors' perplexities sum over trees that another parser proposes; here over those that the beam finds.
    D6. Searches drop hypotheses that can no longer reach the beam of words. This changes no result.
    D7. The authors' options of other layers for COMPOSE, and of memory between segments, are absent.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from depgen.backbones.transformer import TransformerFactory
from depgen.data.batch import ItemBatch, TokenBatch, TokenItem
from depgen.data.vocabulary import LABELS, Vocabulary, VocabularyBuilder, WordVocabulary
from depgen.decoding.beam import Beam, Expansion, with_next_word
from depgen.decoding.generation import Generated
from depgen.errors import UserError, check_at_least
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
from depgen.trees.constituency import UNNAMED
from depgen.trees.sentence import Constituent, Document
from depgen.trees.tree_strings import (
    WORD,
    LabelledSpan,
    closing,
    constituents_of,
    is_closing,
    is_opening,
    label_of,
    symbols_of,
)

logger = logging.getLogger(__name__)


# -- trees as strings (Section 3), in batches -------------------------------------------------------------------------


class ConstituentLabels:
    """Builds another builder's vocabulary, with a table of the labels of its documents' constituents.

    The first label is `UNNAMED`: of constituents that have none, and of those whose label the documents do not have.

    Args:
        builder: builds the vocabulary; every word by default.
    """

    reads_trees = True

    def __init__(self, builder: VocabularyBuilder | None = None) -> None:
        self.builder = builder or WordVocabulary()

    def build(self, documents: Iterable[Document]) -> Vocabulary:
        """The builder's vocabulary and the labels, sorted."""
        labels = set[str]()

        def noted() -> Iterator[Document]:
            for document in documents:
                labels.update(label for sentence in document.sentences for *_, label in sentence.spans or ())
                yield document

        passing = noted()
        vocabulary = self.builder.build(passing)
        for _ in passing:  # what the builder has not read
            pass
        return vocabulary.with_tables({LABELS: [UNNAMED, *sorted(labels - {UNNAMED})]})

    def fingerprint(self) -> str:
        """Of the builder."""
        return f"constituent labels 1, {self.builder.fingerprint()}"


@lru_cache(maxsize=1)
def label_numbers(vocabulary: Vocabulary) -> dict[str, int]:
    """The number of each label."""
    if LABELS not in vocabulary.tables:
        raise UserError(
            f"The vocabulary has no table {LABELS!r}: set data.init_args.vocabulary to "
            "depgen.models.tg.ConstituentLabels, with the former one as its builder."
        )
    return {str(label): number for number, label in enumerate(vocabulary.tables[LABELS])}


@dataclass(frozen=True)
class GrammarStrings(Strings):
    """The strings a' of a batch (Section 3.2). Position 0 is the beginning; a closing bracket has two positions.

    Attributes:
        symbols: of each position, `NOTHING` at the beginning; see `depgen.trees.tree_strings`.
        targets: the symbol that comes next; `NOTHING` where a bracket composes, and at padding.
        depths: how many brackets are open around it, the position's own included.
        popped: the position that takes it off the stack, or `NEVER`; the position itself where it is not put there.
        closable: the label of the bracket that may be closed next; `NOTHING` where none may.
        openings: how many brackets were opened since the last word.
        places: how many words there are so far, which is the target of the text that `targets` belongs to.
        predicting: the places that predict among the positions of all strings, one after the other.
        before_words: those of them that predict a word, by their place in `predicting`.
    """

    columns = ("symbols", "targets", "depths", "popped", "closable", "openings", "places")
    unfilled = ("symbols", "targets")

    symbols: Int[Tensor, "batch positions"]
    targets: Int[Tensor, "batch positions"]
    depths: Int[Tensor, "batch positions"]
    popped: Int[Tensor, "batch positions"]
    closable: Int[Tensor, "batch positions"]
    openings: Int[Tensor, "batch positions"]
    places: Int[Tensor, "batch positions"]
    predicting: Int[Tensor, " predicting"]
    before_words: Int[Tensor, " words"]

    @classmethod
    def of(cls, strings: Sequence[Int[np.ndarray, "columns _"]]) -> "GrammarStrings":
        """The strings of `positions_of`."""
        columns = cls.padded(strings)
        predicting = (columns["targets"].ravel() > NOTHING).nonzero()[:, 0]  # found here: a GPU would be waited for
        before_words = (columns["targets"].ravel()[predicting] == WORD).nonzero()[:, 0]
        return cls(**columns, predicting=predicting, before_words=before_words)

    @property
    def attention(self) -> StackAttention:
        """Which positions each position sees (Section 3.2), and how much deeper it is (Section 3.3)."""
        composes = (self.targets == NOTHING) & (self.symbols > WORD)
        return stack_attention(self.popped, composes, self.depths)


def positions_of(symbols: Sequence[int]) -> Int[np.ndarray, "columns positions"]:
    """What a network reads of a string: the columns of `GrammarStrings`, which are explained there.

    The first position of a closing bracket composes its constituent, the second predicts what follows. The last
    bracket, after which nothing comes, has none.

    >>> positions_of([1, 3, 0, 4, 0, 2])[1].tolist()  # the targets of <bos> (A (B . B) B) . -> A)
    [1, 3, 0, 4, -1, 0, 2]
    """
    positions = [[NOTHING, symbols[0], 0, NEVER, NOTHING, 0, 0]]
    stack, around, openings, words = [0], list[int](), 0, 0
    for symbol, target in pairwise(symbols):
        closes = is_closing(symbol)
        if closes:
            first, place = around.pop(), len(positions)
            while stack[-1] >= first:
                positions[stack.pop()][3] = place
            stack.append(place)
            positions.append([symbol, NOTHING, len(around) + 1, NEVER, NOTHING, openings, words])
        place, depth = len(positions), len(around) + 1
        if not closes:
            stack.append(place)
        if symbol == WORD:
            openings, words = 0, words + 1
        elif not closes:
            around.append(place)
            openings += 1
        closable = NOTHING if stack[-1] == around[-1] else label_of(positions[around[-1]][0])
        positions.append([symbol, target, depth, place if closes else NEVER, closable, openings, words])
    return np.array(positions, dtype=np.int32).T


def string_of(
    spans: Sequence[LabelledSpan], length: int, *, max_openings: int, where: str
) -> Int[np.ndarray, "columns positions"]:
    """The positions of a tree's string; see `symbols_of` and `positions_of`.

    Args:
        spans: the tree.
        length: number of words.
        max_openings: the most constituents that begin at one word.
        where: the sentence's place, for messages.
    """
    string = positions_of(symbols_of(spans, length))
    most = int(string[GrammarStrings.columns.index("openings")].max())
    if most > max_openings:
        raise UserError(
            f"{where}: expected at most {max_openings} constituents that begin at one word, found {most}. Raise "
            "model.init_args.max_openings."
        )
    return string


@dataclass(frozen=True)
class TreeCollate(StringCollate):
    """Makes padded batches, with strings where all items have constituents.

    Args:
        max_openings: the most constituents that begin at one word.
    """

    version: ClassVar[int] = 1
    reads: ClassVar[Literal["span_starts"]] = "span_starts"
    kind: ClassVar[type] = GrammarStrings

    max_openings: int

    def string(self, item: TokenItem, vocabulary: Vocabulary) -> Int[np.ndarray, "columns positions"] | None:
        """The string of a sentence and its constituents; an unknown label is the first."""
        if item.spans is None or item.span_labels is None:
            return None
        numbers = label_numbers(vocabulary)
        labels = [numbers.get(str(label), 0) for label in item.span_labels]
        spans = [(start, end, label) for (start, end), label in zip(item.spans.tolist(), labels, strict=True)]
        where = f"sentence {item.index + 1}"
        return string_of(spans, len(item.ids), max_openings=self.max_openings, where=where)


# -- stacks (Section 3.2), one symbol at a time ------------------------------------------------------------------------


@dataclass(frozen=True)
class BracketState(Rows):
    """The stack of brackets, words and composed constituents of each row, which grows symbol by symbol.

    Its columns are the positions of `GrammarStrings`. Column 0 is the beginning, at the bottom. Columns that rows have
    nothing in are on no stack.

    Attributes:
        depths: how many brackets are open around each column, its own included.
        on_stack: whether each column is on the stack.
        is_open: whether it is an opening bracket on the stack.
        labels: of opening brackets.
        seen: the columns that the last one attends to.
        openings: how many brackets were opened since the last word.
        symbols: those so far; `NOTHING` where a row had none.
    """

    depths: Int[Tensor, "rows columns"]
    on_stack: Bool[Tensor, "rows columns"]
    is_open: Bool[Tensor, "rows columns"]
    labels: Int[Tensor, "rows columns"]
    seen: Bool[Tensor, "rows columns"]
    openings: Int[Tensor, " rows"]
    symbols: Int[Tensor, "rows steps"]

    @classmethod
    def beginning(cls, rows: int, *, device: torch.device | str = "cpu") -> "BracketState":
        """The state of rows that hold the beginning alone."""
        zeros = torch.zeros(rows, 1, dtype=torch.long, device=device)
        return cls(zeros, zeros == 0, zeros > 0, zeros, zeros == 0, zeros[:, 0], zeros[:, :0])

    @property
    def open_brackets(self) -> Int[Tensor, " rows"]:
        """How many brackets are open."""
        return self.is_open.sum(1)

    @property
    def closable(self) -> Int[Tensor, " rows"]:
        """The label of the bracket that may be closed next, which has a word by now; `NOTHING` where none may."""
        innermost = _last(self.is_open)
        has_word = self.is_open.any(1) & (_last(self.on_stack) > innermost)
        return torch.where(has_word, self.labels.gather(1, innermost[:, None])[:, 0], NOTHING)

    @property
    def distances(self) -> Int[Tensor, "rows columns"]:
        """How much deeper the last column is than each."""
        return self.depths[:, -1:] - self.depths

    @property
    def attention(self) -> StackAttention:
        """What the last column of each row attends to."""
        return StackAttention(self.seen[:, None], self.distances.clamp(NEAREST, FARTHEST)[:, None])

    def composed(self, closes: Bool[Tensor, " rows"]) -> "BracketState":
        """The state with a column that composes the innermost constituent of some rows, and is nothing in others."""
        columns = torch.arange(self.depths.size(1), device=closes.device)
        taken = self.on_stack & (columns >= _last(self.is_open)[:, None]) & closes[:, None]
        return replace(
            self,
            depths=_with_column(self.depths, self.open_brackets * closes),
            on_stack=_with_column(self.on_stack & ~taken, closes),
            is_open=_with_column(self.is_open & ~taken, torch.zeros_like(closes)),
            labels=F.pad(self.labels, (0, 1)),
            seen=F.pad(taken, (0, 1), value=True),
        )

    def pushed(self, symbols: Int[Tensor, " rows"]) -> "BracketState":
        """The state with a column for the next symbol of each row, or `NOTHING`; one that closes follows `composed`."""
        is_symbol, opens = symbols > NOTHING, is_opening(symbols)
        return BracketState(
            depths=_with_column(self.depths, (self.open_brackets + 1) * is_symbol),
            on_stack=_with_column(self.on_stack, opens | (symbols == WORD)),
            is_open=_with_column(self.is_open, opens),
            labels=_with_column(self.labels, label_of(symbols) * opens),
            seen=F.pad(self.on_stack & is_symbol[:, None], (0, 1), value=True),
            openings=(self.openings + opens.long()) * (symbols != WORD),
            symbols=_with_column(self.symbols, symbols),
        )

    def compacted(self) -> tuple["BracketState", Int[Tensor, "rows kept"]]:
        """A first column that holds nothing, and the columns on stacks alone; and which these are."""
        most = int(self.on_stack.sum(1).max())
        kept = self.on_stack.int().argsort(dim=1, descending=True, stable=True)[:, :most]
        names = ("depths", "on_stack", "is_open", "labels", "seen")
        return replace(self, **{name: F.pad(getattr(self, name).gather(1, kept), (1, 0)) for name in names}), kept


def _last(where: Bool[Tensor, "rows columns"]) -> Int[Tensor, " rows"]:
    """The last column of each row that is True; the last of all where none is."""
    return where.size(1) - 1 - where.flip(1).int().argmax(1)


def _with_column(columns: Tensor, column: Tensor) -> Tensor:
    return torch.cat((columns, column[:, None]), 1)


# -- the system -------------------------------------------------------------------------------------------------------


class TransformerGrammar(WordSynchronous):
    """A Transformer-XL over words and labelled brackets, with attention to what is on the stack.

    Args:
        backbone: makes the Transformer, with `positions: relative`, from the number of words and brackets.
        vocabulary_size: number of token types without brackets; linked from the data.
        labels: how many labels constituents have; None: as the vocabulary's table says.
        max_openings: the most brackets that are opened between two words (D2).
        fast_track: see `WordSynchronous`.
        kwargs: the other arguments of `WordSynchronous`.
    """

    def __init__(
        self,
        backbone: TransformerFactory,
        vocabulary_size: int,
        *,
        labels: int | None = None,
        max_openings: int = 15,
        fast_track: int = 5,
        **kwargs: Any,  # noqa: ANN401, of the base
    ) -> None:
        super().__init__(vocabulary_size, fast_track=fast_track, **kwargs)
        check_at_least(1, labels=labels, max_openings=max_openings)
        self.save_hyperparameters()
        self.max_openings = max_openings
        self._make_backbone = factory(backbone, TransformerFactory)
        if labels is not None:
            self._with_labels(labels)

    def configure_model(self) -> None:
        """Make the backbone, once the number of labels is known."""
        self.take_table_sizes(labels=LABELS)
        if not hasattr(self, "backbone"):
            self._with_labels(self.hparams["labels"])

    def _with_labels(self, labels: int) -> None:
        self.labels = labels
        self.use_backbone(self._make_backbone(self.vocabulary_size + 2 * labels))

    @property
    def collate(self) -> Callable[[ItemBatch], StringBatch]:
        """Padded sequences with their trees as strings."""
        return TreeCollate(self.max_openings)

    @property
    def output_bias(self) -> Float[Tensor, " vocab"] | None:
        """That of words, where there is one."""
        bias = super().output_bias
        return None if bias is None else bias[: self.vocabulary_size]

    # -- the distribution of the next symbol ---------------------------------------------------------------------------

    def ids_of(self, symbols: Int[Tensor, "*positions"], words: Int[Tensor, "*positions"]) -> Int[Tensor, "*positions"]:
        """Ids in the backbone's vocabulary: of words, then of opening brackets, then of closing ones.

        Args:
            symbols: of each position.
            words: the id where the symbol is a word, or `NOTHING`.
        """
        brackets = self.vocabulary_size + label_of(symbols) + self.labels * is_closing(symbols)
        return torch.where(symbols > WORD, brackets, words)

    def symbols_of_ids(self, ids: Int[Tensor, " rows"]) -> Int[Tensor, " rows"]:
        """The symbols of ids."""
        bracket = ids - self.vocabulary_size
        labels = bracket % self.labels
        return torch.where(bracket < 0, WORD, 2 * labels + 1 + (bracket >= self.labels))

    def _weights(self, eos: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Output matrix and bias of words, among which `<eos>` is none, and of brackets."""
        weight, bias, size = self.backbone.output_weight, self.backbone.output_bias, self.vocabulary_size
        bias = weight.new_zeros(len(weight)) if bias is None else bias
        of_words = bias[:size].masked_fill(torch.arange(size, device=bias.device) == eos, -torch.inf)
        return weight[:size], of_words, weight[size:], bias[size:]

    def kind_log_probs(
        self,
        hidden: Float[Tensor, "rows width"],
        eos: int,
        *,
        in_tree: Bool[Tensor, " rows"],
        openings: Int[Tensor, " rows"],
        closable: Int[Tensor, " rows"],
    ) -> tuple[Float[Tensor, "rows kinds"], Float[Tensor, " rows"]]:
        """Log-probabilities (nats) of any word, each opening and each closing bracket; and the normaliser of words.

        Args:
            hidden: the states that predict.
            eos: the id that begins every text, which is no word.
            in_tree: whether a bracket is open.
            openings: brackets opened since the last word.
            closable: the label that may be closed, or `NOTHING`.
        """
        words, word_bias, brackets, bias = self._weights(eos)
        normaliser = vocabulary_logsumexp(hidden, words, word_bias)
        scores = torch.cat((normaliser[:, None], full_precision(F.linear(hidden, brackets, bias))), 1)
        opens = (openings < self.max_openings)[:, None].expand(-1, self.labels)
        closes = torch.arange(self.labels, device=hidden.device) == closable[:, None]
        possible = torch.cat((in_tree[:, None], opens, closes), 1)  # D1, D2
        return scores.masked_fill(~possible, -torch.inf).log_softmax(1), normaliser

    def symbol_log_probs(self, batch: StringBatch) -> Float[Tensor, "batch positions"]:
        """The log-probability (nats) of the symbol after each position of the strings; 0 where none is predicted."""
        strings: GrammarStrings = batch.strings
        ids = self.ids_of(strings.symbols, batch.inputs.gather(1, strings.places))
        hidden = self.backbone(ids, stack=strings.attention).hidden
        tokens = batch.targets.gather(1, strings.places)
        hidden, before, tokens, targets, openings, closable = (
            values.flatten(0, 1).index_select(0, strings.predicting)
            for values in (hidden, strings.symbols, tokens, strings.targets, strings.openings, strings.closable)
        )
        kinds, normaliser = self.kind_log_probs(
            hidden, batch.eos, in_tree=before > NOTHING, openings=openings, closable=closable
        )
        columns = torch.where(targets > WORD, 1 + label_of(targets) + self.labels * is_closing(targets), 0)
        log_probs = kinds.gather(1, columns[:, None])[:, 0]
        hidden, tokens, normaliser = (
            values.index_select(0, strings.before_words) for values in (hidden, tokens, normaliser)
        )
        weight, bias, *_ = self._weights(batch.eos)
        of_words = word_scores(hidden, weight, bias, tokens) - normaliser
        log_probs = log_probs.index_add(0, strings.before_words, of_words)
        whole = log_probs.new_zeros(strings.symbols.numel()).index_copy(0, strings.predicting, log_probs)
        return whole.view_as(strings.symbols)

    # -- losses, and scores of trees that are given --------------------------------------------------------------------

    def target_log_probs(self, batch: StringBatch) -> Float[Tensor, "batch length"]:
        """The log-probability (nats) of each target together with the brackets before it."""
        log_probs = self.symbol_log_probs(batch)
        return log_probs.new_zeros(batch.targets.shape).scatter_add(1, batch.strings.places, log_probs)

    def training_step(self, batch: StringBatch, batch_idx: int) -> Float[Tensor, ""]:
        """The negative log-likelihood of words and brackets, nats per token of the global batch."""
        self.refuse_without_structures(batch)
        return self.log_train(-self.symbol_log_probs(batch).sum(), batch.global_tokens)

    def joint_nll(self, batch: StringBatch) -> Float[Tensor, " batch"]:
        """The nats of each item's words and brackets."""
        return -precise(self.symbol_log_probs(batch)).sum(1)

    def sentence_log_probs(
        self,
        documents: Sequence[Sequence[Sequence[int]]],
        *,
        vocabulary: Vocabulary,
        structure: Sequence[Sequence[Any]] | None = None,
    ) -> list[list[Float[np.ndarray, " tokens"]]]:
        """See `LeftToRight`; `structure`: of each sentence, spans (start, end, label), 0-based, top-down."""
        if structure is not None:
            numbers = label_numbers(vocabulary)
            structure = [
                [[(start, end, numbers.get(label, 0)) for start, end, label in sentence] for sentence in document]
                for document in structure
            ]
        return super().sentence_log_probs(documents, vocabulary=vocabulary, structure=structure)

    def joint_log_probs(
        self,
        batch: TokenBatch,
        documents: Sequence[Sequence[Sequence[int]]],
        structure: Sequence[Sequence[Any]],
    ) -> Float[Tensor, "batch length"]:
        """The log-probability (nats) of each target, that of a token together with the brackets before it."""
        assert isinstance(batch, StringBatch)
        strings = []
        for number, (document, of_document) in enumerate(zip(documents, structure, strict=True)):
            spans, before = list[LabelledSpan](), 0
            for ids, of_sentence in zip(document, of_document, strict=True):
                spans += [(before + start, before + end, label) for start, end, label in of_sentence]
                before += len(ids)
            where = f"document {number + 1}"
            strings.append(string_of(spans, before, max_openings=self.max_openings, where=where))
        return self.target_log_probs(replace(batch, strings=GrammarStrings.of(strings).to(self.device)))

    # -- search (Section 4.1) ------------------------------------------------------------------------------------------

    def beginning(self, tokens: Int[Tensor, " rows"]) -> StringState:
        """The state after the token that begins each text."""
        brackets = BracketState.beginning(len(tokens), device=tokens.device)
        return self.begun(tokens, brackets, brackets.attention)

    def step(self, state: StringState, symbols: Int[Tensor, " rows"], words: Int[Tensor, " rows"]) -> StringState:
        """The state after one more symbol of some rows, which alone are computed.

        Args:
            state: before.
            symbols: of each row; `NOTHING` for none.
            words: the id where the symbol is a word; any other id elsewhere.
        """
        rows, closing_rows = ((symbols > NOTHING).nonzero()[:, 0], is_closing(symbols).nonzero()[:, 0])
        if not len(rows):
            return state
        ids = self.ids_of(symbols, words)
        if len(closing_rows):
            brackets = state.stack.composed(is_closing(symbols))
            state = self.read_column(state, brackets, closing_rows, ids, brackets.attention)
        brackets = state.stack.pushed(symbols)
        state = self.read_column(state, brackets, rows, ids, brackets.attention)
        return replace(state, read=state.read + (symbols == WORD))

    def kinds_of(
        self, hidden: Float[Tensor, "rows width"], brackets: BracketState, eos: int
    ) -> tuple[Float[Tensor, "rows kinds"], Float[Tensor, " rows"]]:
        """See `kind_log_probs`."""
        return self.kind_log_probs(
            hidden, eos, in_tree=brackets.open_brackets > 0, openings=brackets.openings, closable=brackets.closable
        )

    def targets_searched(self, batch: StringBatch, *, with_end: bool) -> Int[Tensor, " batch"]:
        """All targets but the end of a text that may continue; none of a text without words, which has no tree."""
        return (batch.lengths - int(not with_end)).masked_fill((batch.targets[:, 0] == batch.eos).cpu(), 0)

    def log_probs(self, batch: TokenBatch) -> Float[Tensor, "batch length"]:
        """See `StructuredLanguageModel`; a text without words has the log-probability -inf."""
        assert isinstance(batch, StringBatch)
        log_probs = super().log_probs(batch)
        log_probs[batch.targets[:, 0] == batch.eos, 0] = -torch.inf
        return log_probs

    def with_input(self, beam: Beam[StringState], batch: StringBatch, k: int, *, beam_size: int) -> Beam[StringState]:
        """The hypotheses after word k."""
        words = batch.inputs[beam.items, k]
        return replace(beam, state=self.step(beam.state.compacted(), torch.full_like(words, WORD), words))

    def with_target(
        self, beam: Beam[StringState], batch: StringBatch, k: int, *, beam_size: int, with_end: bool
    ) -> Beam[StringState]:
        """The hypotheses with target k, which their states do not hold yet, and the brackets before it.

        A hypothesis may open a bracket of each label, close one, take the word, or end.
        """
        eos, labels = batch.eos, self.labels
        produces = torch.arange(labels + 3, device=self.device)[None] > labels

        def expand(beam: Beam[StringState], waits: Tensor) -> Expansion:
            rows = (~waits).nonzero()[:, 0]
            hidden, brackets, targets = beam.state.hidden[rows], beam.state.stack.select(rows), batch.targets[:, k]
            targets, (weight, bias, *_) = targets[beam.items[rows]], self._weights(eos)
            kinds, normaliser = self.kinds_of(hidden, brackets, eos)
            word = kinds[:, 0] + word_scores(hidden, weight, bias, targets) - normaliser
            closes, is_last = kinds[:, 1 + labels :].amax(1), brackets.open_brackets == 1
            ends = targets == eos
            columns = (kinds[:, 1 : 1 + labels], closes[:, None], word[:, None], closes[:, None])
            possible = (~ends[:, None].expand(-1, labels), ~is_last[:, None], ~ends[:, None], (is_last & ends)[:, None])
            log_probs = torch.cat(columns, 1).masked_fill(~torch.cat(possible, 1), -torch.inf)
            return Expansion(log_probs.new_zeros(len(waits), labels + 3).index_copy(0, rows, log_probs), produces)

        def build(state: StringState, rows: Tensor, candidates: Tensor) -> StringState:
            state = state.select(rows)
            symbols = torch.where(candidates < labels, 2 * candidates + 1, 2 * state.stack.closable + 2)
            symbols = torch.where((candidates >= 0) & (candidates <= labels), symbols, NOTHING)
            return self.step(state, symbols, torch.zeros_like(symbols))

        most = self.max_openings + int(beam.state.stack.open_brackets.max()) + 1
        return with_next_word(
            beam, expand, build, beam_size=beam_size, max_actions=most, word_beam_size=self.word_beam_size,
            fast_track=self.fast_track,
        )  # fmt: skip

    def structure_of(self, state: StringState, row: int) -> list[int]:
        """The symbols of a hypothesis without its last target: its last word, or the bracket that ends it."""
        return [symbol for symbol in state.stack.symbols[row].tolist() if symbol > NOTHING]

    def bracketings(
        self,
        sentences: Sequence[Sequence[int]],
        *,
        vocabulary: Vocabulary,
        word_starts: Sequence[Bool[np.ndarray, " tokens"]],
        beam_size: int | None = None,
    ) -> list[list[Constituent]]:
        """The constituents of the likeliest tree of each sentence; see `depgen.evaluation.trees.bracketing`."""
        symbols = self.best_structures(sentences, vocabulary=vocabulary, beam_size=beam_size or self.beam_size)
        return [_named([*of_tree, closing(label_of(of_tree[0]))], vocabulary) if of_tree else [] for of_tree in symbols]

    # -- generation ----------------------------------------------------------------------------------------------------

    def choices_of(self, ids: Sequence[int], structure: Sequence[int], vocabulary: Vocabulary) -> list[int]:
        """The ids of the string of words and brackets up to the last word."""
        if not ids:
            return []
        symbols = torch.tensor([*structure, WORD])
        words = torch.tensor(ids)[(symbols == WORD).cumsum(0).sub(1).clamp_min(0)]
        choices: list[int] = self.ids_of(symbols, words).tolist()
        return choices

    def choices_per_token(self, longest_prompt: int, max_new_tokens: int) -> int:
        """A word, the brackets before it, and as many that close them."""
        return 1 + 2 * self.max_openings

    def after_choices(
        self, writing: Writing, state: StringState, ids: Int[Tensor, " rows"], is_choice: Bool[Tensor, " rows"]
    ) -> StringState:
        """See `WordSynchronous`."""
        is_symbol = is_choice & (ids != writing.vocabulary.eos)
        return self.step(state, torch.where(is_symbol, self.symbols_of_ids(ids), NOTHING), ids).compacted()

    def choice_log_probs(self, writing: Writing, state: StringState) -> Float[Tensor, "rows choices"]:
        """Log-probabilities of the next symbol: ids of words, of brackets as in `ids_of`, and `<eos>` for the end.

        Texts that are as long as they may be end.
        """
        eos = writing.vocabulary.eos
        weight, bias, *_ = self._weights(eos)
        kinds, normaliser = self.kinds_of(state.hidden, state.stack, eos)
        words = full_precision(F.linear(state.hidden, weight, bias)) - normaliser[:, None] + kinds[:, :1]
        opens, closes = kinds[:, 1:].chunk(2, 1)
        is_last = (state.stack.open_brackets == 1)[:, None]
        end = closes.amax(1, keepdim=True).masked_fill(~is_last, -torch.inf)
        log_probs = torch.cat((words, opens, closes.masked_fill(is_last, -torch.inf)), 1)
        is_end = torch.arange(log_probs.size(1), device=log_probs.device) == eos
        is_full = (state.read >= writing.max_new_tokens)[:, None]
        return torch.where(is_end, end.masked_fill(is_full, 0), log_probs.masked_fill(is_full, -torch.inf))

    def written_structure(
        self, writing: Writing, state: StringState, row: int, choices: Sequence[int]
    ) -> tuple[Constituent, ...]:
        """The tree as spans (start, end, label); brackets that are open when a text is cut are closed there."""
        symbols = self.symbols_of_ids(torch.tensor(choices, dtype=torch.long)).tolist()
        return tuple(_named(symbols, writing.vocabulary))

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        max_new_tokens: int,
        **others: Any,  # noqa: ANN401, of the base
    ) -> list[Generated]:
        """See `StructuredLanguageModel`; how many texts were cut is logged, which end when they are full."""
        texts = super().generate(prompts, max_new_tokens=max_new_tokens, **others)
        cut = sum(len(text.ids) >= max_new_tokens for text in texts)
        if cut:
            logger.warning("%d of %d texts were cut at %d new tokens", cut, len(texts), max_new_tokens)
        return texts


def _named(symbols: Sequence[int], vocabulary: Vocabulary) -> list[Constituent]:
    """The constituents of a string, with the names of their labels."""
    names = list(label_numbers(vocabulary))
    return [(start, end, names[label]) for start, end, label in constituents_of(symbols)]
