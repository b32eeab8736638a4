"""Transformer Grammars. Sartran, Barrett, Kuncoro, Stanojević, Blunsom & Dyer (2022), TACL, "Transformer Grammars:
Augmenting Transformer Language Models with Syntactic Inductive Biases at Scale".

A Transformer-XL that writes a sentence and its constituency tree as one string of words and labelled brackets. A mask
lets each symbol see what is on the stack alone: a constituent that is closed is composed into one position, and what is
within it is never seen again.

    paper                         here
    a_1 … a_T                     `symbols_of`: (S (NP the dog NP) (VP barks VP) S)
    generation of a'              `positions_of`: each closing bracket is read twice, X) for COMPOSE and X) for STACK
    A_ij, R_ij                    `GrammarPosition.attention`; one column at a time, `BracketStack`
    p(a_i | a_<i)                 `string_log_probs`
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

from collections import deque
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
from depgen.decoding.beam import Beam, Survivors, with_next_word
from depgen.errors import UserError, check_at_least
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
from depgen.nn.stack_attention import StackAttention
from depgen.nn.vocabulary import full_precision, vocabulary_logsumexp, without, word_scores
from depgen.training.hyper_parameters import factory
from depgen.trees.constituency import UNNAMED
from depgen.trees.sentence import Constituent, Document

LabelledSpan = tuple[int, int, int]
"""First word, the word after the last, and number of the label; words count from 0."""
WORD = 0
"""The symbol of a word; those of brackets are greater. A label is a number too."""

# -- trees as strings (Section 3), in batches -------------------------------------------------------------------------


def opening(label: int) -> int:
    """The symbol of a label's opening bracket.

    >>> opening(0), closing(0), opening(1), closing(1)
    (1, 2, 3, 4)
    """
    return 2 * label + 1


def closing(label: int) -> int:
    """The symbol of a label's closing bracket."""
    return 2 * label + 2


def label_of(symbols: Any) -> Any:  # noqa: ANN401, a number, or a tensor of numbers
    """The label of a bracket, or those of a tensor of brackets."""
    return (symbols - 1) // 2


def is_opening(symbols: Any) -> Any:  # noqa: ANN401
    """Whether a symbol is an opening bracket, or each of a tensor of symbols."""
    return (symbols > WORD) & (symbols % 2 == 1)


def is_closing(symbols: Any) -> Any:  # noqa: ANN401
    """Whether a symbol is a closing bracket, or each of a tensor of symbols."""
    return (symbols > WORD) & (symbols % 2 == 0)


def symbols_of(spans: Iterable[LabelledSpan], length: int) -> list[int]:
    """The string of a tree. Where no constituent covers all words, one with the first label is put around them.

    Spans are in top-down order, and of several over the same words the outermost first; there is at least one word.

    >>> symbols_of([(0, 3, 0), (0, 2, 1)], 3)  # (A (B . . B) . A)
    [1, 3, 0, 0, 4, 0, 2]
    """
    given = list(spans)
    if not given or given[0][:2] != (0, length):
        given.insert(0, (0, length, 0))
    symbols, around = list[int](), list[LabelledSpan]()
    begun = 0
    for word in range(length):
        while begun < len(given) and given[begun][0] == word:
            start, end, label = given[begun]
            if end <= start or end > (around[-1][1] if around else length):
                raise UserError(
                    f"Expected a tree over {length} words, found {(start, end)}, which crosses or is empty."
                )
            around.append(given[begun])
            symbols.append(opening(label))
            begun += 1
        symbols.append(WORD)
        while around and around[-1][1] == word + 1:
            symbols.append(closing(around.pop()[2]))
    if begun < len(given):
        raise UserError(f"Expected spans of a tree over {length} words in top-down order, found {given[begun][:2]}.")
    return symbols


def constituents_of(symbols: Iterable[int]) -> list[LabelledSpan]:
    """The constituents of a string, in top-down order; those that are open at its end, end there.

    >>> constituents_of([1, 3, 0, 0, 4, 0, 2])
    [(0, 3, 0), (0, 2, 1)]
    """
    starts, ends, around, words = list[tuple[int, int]](), dict[int, int](), list[int](), 0
    for symbol in symbols:
        if symbol == WORD:
            words += 1
        elif is_opening(symbol):
            around.append(len(starts))
            starts.append((words, label_of(symbol)))
        else:
            place = around.pop()
            label = starts[place][1]
            assert label == label_of(symbol), f"expected the closing bracket of {label}, found {label_of(symbol)}"
            ends[place] = words
    return [(start, ends.get(place, words), label) for place, (start, label) in enumerate(starts)]


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
        deque(passing, maxlen=0)  # what the builder has not read
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


@dataclass(slots=True)
class GrammarPosition(Position):
    """A position of a string a' (Section 3.2). Position 0 is the beginning; a closing bracket has two positions.

    The symbols, and those that follow, are those of `depgen.models.tg`; `NOTHING` at the beginning. Depths say
    how many brackets are open around a position, its own included.

    Attributes:
        closable: the label of the bracket that may be closed next; `NOTHING` where none may.
        openings: how many brackets were opened since the last word.
    """

    closable: Any = NOTHING
    openings: Any = 0

    @property
    def in_tree(self) -> Any:  # noqa: ANN401, a tensor
        """Whether a bracket is open."""
        return self.depths > 0


def positions_of(symbols: Sequence[int]) -> list[GrammarPosition]:
    """What a network reads of a string.

    The first position of a closing bracket composes its constituent, the second predicts what follows. The last
    bracket, after which nothing comes, has none.

    >>> [position.follows for position in positions_of([1, 3, 0, 4, 0, 2])]  # of <bos> (A (B . B) B) . -> A)
    [1, 3, 0, 4, -1, 0, 2]
    """
    positions = [GrammarPosition(NOTHING, symbols[0])]
    stack, around, openings, words = [0], list[int](), 0, 0
    for symbol, target in pairwise(symbols):
        place, closes = len(positions), is_closing(symbol)
        if closes:
            first = around.pop()
            while stack[-1] >= first:
                positions[stack.pop()].popped = place
            positions.append(GrammarPosition(symbol, depths=len(around) + 1, composes=True, places=words))
        stack.append(place)
        depth = len(around) + 1
        if symbol == WORD:
            openings, words = 0, words + 1
        elif not closes:
            around.append(place)
            openings += 1
        popped = place + 1 if closes else NEVER
        closable = NOTHING if stack[-1] == around[-1] else label_of(positions[around[-1]].symbols)
        positions.append(GrammarPosition(symbol, target, depth, popped, False, words, closable, openings))
    return positions


def string_of(
    spans: Sequence[LabelledSpan], length: int, *, max_openings: int, where: str
) -> Int[np.ndarray, "columns positions"]:
    """The columns of a tree's string; see `symbols_of` and `positions_of`.

    Raises:
        UserError: the words at `where` have no tree, or more than `max_openings` constituents begin at one.
    """
    positions = positions_of(symbols_of(spans, length))
    most = max(position.openings for position in positions)
    if most > max_openings:
        raise UserError(
            f"{where}: expected at most {max_openings} constituents that begin at one word, found {most}. Raise "
            "model.init_args.max_openings."
        )
    return columns_of(positions)


@dataclass(frozen=True)
class TreeCollate(StringCollate):
    """Makes padded batches, with strings where all items have constituents."""

    version: ClassVar[int] = 2
    reads: ClassVar[Literal["span_starts"]] = "span_starts"
    position: ClassVar[type[Position]] = GrammarPosition

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
class BracketStack(Stack):
    """The stack of brackets, words and composed constituents of each row, which grows symbol by symbol.

    Depths are those of `GrammarPosition`. The beginning lies at the bottom.

    Attributes:
        labels: of opening brackets that are on the stack; `NOTHING` elsewhere.
        openings: how many brackets were opened since the last word.
        symbols: those so far; `NOTHING` where a row had none.
    """

    columns = ("depths", "labels")

    labels: Int[Tensor, "rows columns"]
    openings: Int[Tensor, " rows"]
    symbols: Int[Tensor, "rows steps"]

    @classmethod
    def beginning(cls, tokens: Int[Tensor, " rows"]) -> "BracketStack":
        """Stacks that hold the beginning alone."""
        zeros = torch.zeros_like(tokens)[:, None]
        return cls(zeros, zeros + NOTHING, zeros[:, 0], zeros[:, :0])

    @property
    def open_brackets(self) -> Int[Tensor, " rows"]:
        """How many brackets are open."""
        return (self.labels > NOTHING).sum(1)

    @property
    def in_tree(self) -> Bool[Tensor, " rows"]:
        """Whether a bracket is open."""
        return self.open_brackets > 0

    @property
    def closable(self) -> Int[Tensor, " rows"]:
        """The label of the bracket that may be closed next, which has a word by now; `NOTHING` where none may."""
        innermost = _last(self.labels > NOTHING)
        has_word = self.in_tree & (_last(self.on_stack) > innermost)
        return torch.where(has_word, self.labels.gather(1, innermost[:, None])[:, 0], NOTHING)

    def composing(self, closes: Bool[Tensor, " rows"]) -> tuple[StackAttention, "BracketStack"]:
        """A column that composes the innermost constituent of some rows: what it sees, and the stack with it."""
        columns = torch.arange(self.depths.size(1), device=closes.device)
        taken = self.on_stack & (columns >= _last(self.labels > NOTHING)[:, None]) & closes[:, None]
        depths, labels = (values.masked_fill(taken, NOTHING) for values in (self.depths, self.labels))
        depths = with_column(depths, torch.where(closes, self.open_brackets, NOTHING))
        stack = replace(self, depths=depths, labels=F.pad(labels, (0, 1), value=NOTHING))
        return self.attention(self.open_brackets, taken), stack

    def stacking(self, symbols: Int[Tensor, " rows"]) -> tuple[StackAttention, "BracketStack"]:
        """A column for the next symbol of each row, or `NOTHING`; one that closes follows `composing`."""
        opens, depths = is_opening(symbols), self.open_brackets + 1
        stack = BracketStack(
            depths=with_column(self.depths, torch.where(opens | (symbols == WORD), depths, NOTHING)),
            labels=with_column(self.labels, torch.where(opens, label_of(symbols), NOTHING)),
            openings=(self.openings + opens.long()) * (symbols != WORD),
            symbols=with_column(self.symbols, symbols),
        )
        return self.attention(depths), stack


def _last(where: Bool[Tensor, "rows columns"]) -> Int[Tensor, " rows"]:
    """The last column of each row that is True; the last of all where none is."""
    return where.size(1) - 1 - where.flip(1).int().argmax(1)


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

    position, stack = GrammarPosition, BracketStack

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
        self.labels, self.choices = labels, self.vocabulary_size + 2 * labels
        self.use_backbone(self._make_backbone(self.choices))

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
        """Ids in the backbone's vocabulary: those of `words` where there is no bracket; opening, then closing ones."""
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
        return weight[:size], without(bias[:size], eos), weight[size:], bias[size:]

    def kind_log_probs(
        self, hidden: Float[Tensor, "rows width"], eos: int, at: GrammarPosition | BracketStack
    ) -> tuple[Float[Tensor, "rows kinds"], Float[Tensor, " rows"]]:
        """Log-probabilities (nats) of any word, each opening and each closing bracket; and the normaliser of words.

        What is possible (D1, D2) is said by the positions of the states, or by their stacks.
        """
        words, word_bias, brackets, bias = self._weights(eos)
        normaliser = vocabulary_logsumexp(hidden, words, word_bias)
        scores = torch.cat((normaliser[:, None], full_precision(F.linear(hidden, brackets, bias))), 1)
        opens = (at.openings < self.max_openings)[:, None].expand(-1, self.labels)
        closes = torch.arange(self.labels, device=hidden.device) == at.closable[:, None]
        possible = torch.cat((at.in_tree[:, None], opens, closes), 1)
        return scores.masked_fill(~possible, -torch.inf).log_softmax(1), normaliser

    def string_log_probs(self, batch: StringBatch) -> tuple[Float[Tensor, "batch positions"], ...]:
        """Log p(a_i | a_<i), nats, of the symbol after each position of the strings; 0 where none is predicted."""
        strings = batch.strings
        assert strings is not None
        whole = GrammarPosition(*strings.columns)
        ids = self.ids_of(whole.symbols, batch.inputs.gather(1, whole.places))
        hidden = self.backbone(ids, stack=whole.attention).hidden
        hidden = hidden.flatten(0, 1).index_select(0, strings.predicting)
        at = GrammarPosition(*strings.columns.flatten(1).index_select(1, strings.predicting))
        kinds, normaliser = self.kind_log_probs(hidden, batch.eos, at)
        columns = torch.where(at.follows > WORD, 1 + label_of(at.follows) + self.labels * is_closing(at.follows), 0)
        words = torch.searchsorted(strings.predicting, strings.before_tokens)  # their places among those that predict
        targets = batch.targets.gather(1, whole.places).flatten().index_select(0, strings.before_tokens)
        weight, bias, *_ = self._weights(batch.eos)
        of_words = word_scores(hidden.index_select(0, words), weight, bias, targets) - normaliser.index_select(0, words)
        log_probs = kinds.gather(1, columns[:, None])[:, 0].index_add(0, words, of_words)
        log_probs = log_probs.new_zeros(ids.numel()).index_copy(0, strings.predicting, log_probs)
        return (log_probs.view_as(ids),)

    # -- losses, and scores of trees that are given --------------------------------------------------------------------

    def training_step(self, batch: StringBatch, batch_idx: int) -> Float[Tensor, ""]:
        """The negative log-likelihood of words and brackets, nats per token of the global batch."""
        self.refuse_without_structures(batch)
        (log_probs,) = self.string_log_probs(batch)
        return self.log_train(-log_probs.sum(), batch.global_tokens)

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

    def string_of_text(
        self, batch: StringBatch, row: int, document: Sequence[Sequence[int]], structure: Sequence[Any]
    ) -> Int[np.ndarray, "columns positions"]:
        """The string of a text, given the spans of each sentence, with numbers for labels."""
        spans, before = list[LabelledSpan](), 0
        for ids, of_sentence in zip(document, structure, strict=True):
            spans += [(before + start, before + end, label) for start, end, label in of_sentence]
            before += len(ids)
        return string_of(spans, before, max_openings=self.max_openings, where=f"document {row + 1}")

    # -- search (Section 4.1) ------------------------------------------------------------------------------------------

    def step(
        self,
        state: StringState,
        symbols: Int[Tensor, " rows"],
        words: Int[Tensor, " rows"],
        *,
        reads: Bool[Tensor, " rows"],
        closes: Bool[Tensor, " rows"],
    ) -> StringState:
        """The state after one more symbol of each row, or `NOTHING`; `words` has the ids where the symbol is a word.

        Which rows have a symbol, and which one that closes, is said on the CPU.
        """
        if not bool(reads.any()):
            return state
        ids, device = self.ids_of(symbols, words), symbols.device
        rows, closing_rows = (each.nonzero()[:, 0].to(device, non_blocking=True) for each in (reads, closes))
        if len(closing_rows):
            attention, stack = state.stack.composing(is_closing(symbols))
            state = self.read_column(state, stack, closing_rows, ids, attention)
        attention, stack = state.stack.stacking(symbols)
        state = self.read_column(state, stack, rows, ids, attention)
        return replace(state, read=state.read + (symbols == WORD))

    def targets_searched(self, batch: StringBatch, *, with_end: bool) -> Int[Tensor, " batch"]:
        """All targets but the end of a text that may continue; none of a text without words, which has no tree."""
        return (batch.lengths - int(not with_end)).masked_fill((batch.targets[:, 0] == batch.eos).cpu(), 0)

    def log_probs(self, batch: TokenBatch) -> Float[Tensor, "batch length"]:
        """See `StructuredLanguageModel`; a text without words has the log-probability -inf."""
        assert isinstance(batch, StringBatch)
        log_probs = super().log_probs(batch)
        log_probs[:, 0].masked_fill_(batch.targets[:, 0] == batch.eos, -torch.inf)
        return log_probs

    def with_input(self, beam: Beam[StringState], batch: StringBatch, k: int, *, beam_size: int) -> Beam[StringState]:
        """The hypotheses after word k."""
        words, all_rows = batch.inputs[beam.items, k], torch.ones(len(beam.on_cpu), dtype=torch.bool)
        symbols = torch.full_like(words, WORD)
        state = self.step(beam.state.compacted(), symbols, words, reads=all_rows, closes=~all_rows)
        return replace(beam, state=state)

    def with_target(
        self, beam: Beam[StringState], batch: StringBatch, k: int, *, beam_size: int, with_end: bool
    ) -> Beam[StringState]:
        """The hypotheses with target k, which their states do not hold yet, and the brackets before it.

        A hypothesis may open a bracket of each label, close one, take the word, or end.
        """
        eos, labels = batch.eos, self.labels

        def expand(beam: Beam[StringState], waits: Tensor) -> Tensor:
            rows = (~waits).nonzero()[:, 0].to(self.device, non_blocking=True)
            hidden, brackets, targets = beam.state.hidden[rows], beam.state.stack.select(rows), batch.targets[:, k]
            targets, (weight, bias, *_) = targets[beam.items[rows]], self._weights(eos)
            kinds, normaliser = self.kind_log_probs(hidden, eos, brackets)
            word = kinds[:, 0] + word_scores(hidden, weight, bias, targets) - normaliser
            closes, is_last = kinds[:, 1 + labels :].amax(1), brackets.open_brackets == 1
            ends = targets == eos
            columns = (kinds[:, 1 : 1 + labels], closes[:, None], word[:, None], closes[:, None])
            possible = (~ends[:, None].expand(-1, labels), ~is_last[:, None], ~ends[:, None], (is_last & ends)[:, None])
            log_probs = torch.cat(columns, 1).masked_fill(~torch.cat(possible, 1), -torch.inf)
            return log_probs.new_zeros(len(waits), labels + 3).index_copy(0, rows, log_probs)

        def is_bracket(candidates: Tensor) -> Tensor:
            return (candidates >= 0) & (candidates <= labels)

        def build(state: StringState, best: Survivors) -> StringState:
            state, opening, chosen = state.select(best.rows), 2 * best.candidates + 1, best.on_cpu[1]
            symbols = torch.where(best.candidates < labels, opening, 2 * state.stack.closable + 2)
            symbols = torch.where(is_bracket(best.candidates), symbols, NOTHING)
            nothing = torch.zeros_like(symbols)
            return self.step(state, symbols, nothing, reads=is_bracket(chosen), closes=chosen == labels)

        most = self.max_openings * (k + 1) + 1  # to close all brackets, and to open as many as there may be
        return with_next_word(
            beam, expand, build, produces=[candidate > labels for candidate in range(labels + 3)], beam_size=beam_size,
            max_actions=most, word_beam_size=self.word_beam_size, fast_track=self.fast_track,
        )  # fmt: skip

    def structures_of(self, state: StringState, rows: Int[Tensor, " some"]) -> list[list[int]]:
        """The symbols of hypotheses without the last target: the last word, or the bracket that ends the text."""
        return [[symbol for symbol in row if symbol > NOTHING] for row in state.stack.symbols[rows].tolist()]

    def bracketings(
        self,
        sentences: Sequence[Sequence[int]],
        *,
        vocabulary: Vocabulary,
        word_starts: Sequence[Bool[np.ndarray, " tokens"]],
        beam_size: int | None = None,
    ) -> list[list[Constituent]]:
        """The constituents of the likeliest tree of each sentence; see `depgen.evaluation.bracketing`."""
        symbols = self.best_structures(sentences, vocabulary=vocabulary, beam_size=beam_size or self.beam_size)
        return [_named([*of_tree, closing(label_of(of_tree[0]))], vocabulary) if of_tree else [] for of_tree in symbols]

    # -- generation ----------------------------------------------------------------------------------------------------

    def choices_of(self, ids: Sequence[int], structure: Sequence[int], vocabulary: Vocabulary) -> list[int]:
        """The ids of the string of words and brackets up to the last word."""
        if not ids:
            return []
        symbols, words = torch.tensor([*structure, WORD]), torch.zeros(len(structure) + 1, dtype=torch.long)
        words[symbols == WORD] = torch.tensor(ids)
        choices: list[int] = self.ids_of(symbols, words).tolist()
        return choices

    def choices_per_token(self, longest_prompt: int, max_new_tokens: int) -> int:
        """A word, the brackets before it, and as many that close them."""
        return 1 + 2 * self.max_openings

    def after_choices(
        self, writing: Writing, state: StringState, ids: Int[Tensor, " rows"], is_choice: Bool[Tensor, " rows"]
    ) -> StringState:
        """See `WordSynchronous`."""
        symbols = self.symbols_of_ids(ids).where(is_choice & (ids != writing.vocabulary.eos), NOTHING)
        on_cpu = symbols.cpu()
        return self.step(state, symbols, ids, reads=on_cpu > NOTHING, closes=is_closing(on_cpu)).compacted()

    def choice_log_probs(self, writing: Writing, state: StringState) -> Float[Tensor, "rows choices"]:
        """Log-probabilities of the next symbol: ids of words, of brackets as in `ids_of`, and `<eos>` for the end."""
        eos = writing.vocabulary.eos
        weight, bias, *_ = self._weights(eos)
        kinds, normaliser = self.kind_log_probs(state.hidden, eos, state.stack)
        words = full_precision(F.linear(state.hidden, weight, bias)) - normaliser[:, None] + kinds[:, :1]
        opens, closes = kinds[:, 1:].chunk(2, 1)
        is_last = (state.stack.open_brackets == 1)[:, None]
        end = closes.amax(1, keepdim=True).masked_fill(~is_last, -torch.inf)
        log_probs = torch.cat((words, opens, closes.masked_fill(is_last, -torch.inf)), 1)
        is_end = torch.arange(log_probs.size(1), device=log_probs.device) == eos
        return torch.where(is_end, end, log_probs)

    def written_structure(
        self, writing: Writing, state: StringState, row: int, choices: Sequence[int]
    ) -> tuple[Constituent, ...]:
        """The tree as spans (start, end, label); brackets that are open after the last word are closed there."""
        words = [place for place, choice in enumerate(choices, start=1) if choice < self.vocabulary_size]
        symbols = self.symbols_of_ids(torch.tensor(choices[: max(words, default=0)], dtype=torch.long))
        return tuple(_named(symbols.tolist(), writing.vocabulary))


def _named(symbols: Sequence[int], vocabulary: Vocabulary) -> list[Constituent]:
    """The constituents of a string, with the names of their labels."""
    names = list(label_numbers(vocabulary))
    return [(start, end, names[label]) for start, end, label in constituents_of(symbols)]
