"""Transformer Grammars. Sartran, Barrett, Kuncoro, Stanojević, Blunsom & Dyer (2022), TACL, "Transformer Grammars:
Augmenting Transformer Language Models with Syntactic Inductive Biases at Scale".

A Transformer-XL that writes a sentence and its constituency tree as one string of words and labelled brackets. A mask
lets each symbol see what is on the stack alone: a constituent that is closed is composed into one position, and what is
within it is never seen again.

    paper                         here
    a_1 … a_T                     `symbols` of `depgen.trees.tree_strings`: (S (NP the dog NP) (VP barks VP) S)
    generation of a'              `positions_of`: each closing bracket is read twice, X) for COMPOSE and X) for STACK
    A_ij, STACK and COMPOSE       `attention_of`; one column at a time, `BracketState.seen`
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
        of the innermost constituent, and none of an empty one. In the authors' code they are over all symbols
        (`only_possible=False`): what impossible symbols get is lost.
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
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from depgen.backbones.transformer import Transformer, TransformerFactory, TransformerState
from depgen.data.batch import NO_CONSTITUENTS, ItemBatch, SystemCollate, TokenBatch, TokenItem, collate_tokens
from depgen.data.vocabulary import EOS, LABELS, Vocabulary, VocabularyBuilder, WordVocabulary
from depgen.decoding.beam import Beam, Expansion, with_next_word
from depgen.decoding.generation import Generated
from depgen.errors import UserError, check_at_least
from depgen.language_models.structured import StructuredLanguageModel, Writing
from depgen.nn.precise import precise
from depgen.nn.rows import Rows
from depgen.nn.stack_attention import FARTHEST, NEAREST, StackAttention, stack_attention
from depgen.nn.vocabulary import full_precision, vocabulary_logsumexp, word_scores
from depgen.training.hyper_parameters import factory
from depgen.trees.constituency import UNNAMED
from depgen.trees.sentence import Constituent, Document
from depgen.trees.tree_strings import (
    NOTHING,
    ROWS,
    WORD,
    LabelledSpan,
    closing,
    label_of,
    positions_of,
    spans_of,
    symbols_of,
)

logger = logging.getLogger(__name__)

COLUMNS = 64
"""Columns that a hypothesis is taken to hold: those on its stack, and those since the last word."""


# -- 1. Trees as strings, in batches -----------------------------------------------------------------------------------


class ConstituentLabels:
    """Builds another builder's vocabulary, with a table of the labels of its documents' constituents.

    The first label is `TOP`: of constituents that have none, and of those whose label the documents do not have.

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


@dataclass(frozen=True, kw_only=True)
class TreeBatch(TokenBatch):
    """Sequences and the tree of each as a string.

    Attributes:
        eos: the id that begins and ends a sentence.
        strings: of each sentence, the rows of `positions_of`; None without trees.
        predicting: the places that predict among the positions of all strings, one after the other; None without trees.
        before_words: those of them that predict a word, by their place in `predicting`; None without trees.
    """

    eos: int = EOS
    strings: Int[Tensor, "batch rows positions"] | None = None
    predicting: Int[Tensor, " predicting"] | None = None
    before_words: Int[Tensor, " words"] | None = None

    def row(self, name: str) -> Int[Tensor, "batch positions"]:
        """One of the rows, by its name in `ROWS`."""
        assert self.strings is not None
        return self.strings[:, ROWS.index(name)].long()


@dataclass(frozen=True)
class TreeCollate(SystemCollate):
    """Makes padded batches, with strings where all items have constituents.

    Args:
        max_openings: the most constituents that begin at one word.
    """

    version: ClassVar[int] = 1
    reads: ClassVar[Literal["span_starts"]] = "span_starts"

    max_openings: int

    def view(self, item: TokenItem, vocabulary: Vocabulary) -> dict[str, np.ndarray]:
        """The rows of positions of an item's string, one after the other.

        Raises:
            UserError: spans that are no tree, more openings than are allowed, or a vocabulary without labels.
        """
        if item.spans is None:
            return {"string": np.zeros(0, np.int32)}
        assert item.span_labels is not None
        numbers = label_numbers(vocabulary)
        labels = [numbers.get(str(label), 0) for label in item.span_labels]
        spans = [(start, end, label) for (start, end), label in zip(item.spans.tolist(), labels, strict=True)]
        string = string_positions(
            spans, len(item.ids), max_openings=self.max_openings, where=f"sentence {item.index + 1}"
        )
        return {"string": string.astype(np.int32).ravel()}

    def __call__(self, batch: ItemBatch) -> TreeBatch:
        """The batch.

        Raises:
            UserError: slices of a stream, or what `view` refuses.
        """
        tokens = collate_tokens(batch)
        if not all(isinstance(item, TokenItem) for item in batch.items):
            raise UserError("TransformerGrammar reads sentences: take depgen.data.text.TextData for the data.")
        sentences = TreeBatch(**vars(tokens), eos=batch.vocabulary.eos)
        if any(item.spans is None for item in batch.items):
            return sentences
        views = [self.view_of(item, batch.vocabulary) for item in batch.items]
        return with_strings(sentences, [view["string"].reshape(len(ROWS), -1) for view in views])


@lru_cache(maxsize=1)
def label_numbers(vocabulary: Vocabulary) -> dict[str, int]:
    """The number of each label.

    Raises:
        UserError: the vocabulary has no table of labels.
    """
    if LABELS not in vocabulary.tables:
        raise UserError(
            f"The vocabulary has no table {LABELS!r}: set data.init_args.vocabulary to "
            "depgen.models.tg.ConstituentLabels, with the former one as its builder."
        )
    return {str(label): number for number, label in enumerate(vocabulary.tables[LABELS])}


def string_positions(
    spans: Sequence[LabelledSpan], length: int, *, max_openings: int, where: str
) -> Int[np.ndarray, "rows _"]:
    """The positions of the string of a tree (`depgen.trees.tree_strings.positions_of`).

    Args:
        spans: see `symbols_of`.
        length: number of words.
        max_openings: the most constituents that begin at one word.
        where: the sentence's place, for messages.

    Raises:
        UserError: spans that are no tree, or more constituents at a word.
    """
    found = positions_of(symbols_of(spans, length))
    most = int(found[ROWS.index("openings")].max())
    if most > max_openings:
        raise UserError(
            f"{where}: expected at most {max_openings} constituents that begin at one word, found {most}. Raise "
            "model.init_args.max_openings."
        )
    return found


def with_strings(batch: TreeBatch, strings: Sequence[Int[np.ndarray, "rows _"]]) -> TreeBatch:
    """The batch with strings, padded at the right by positions that predict nothing and that nothing sees."""
    longest = max(each.shape[1] for each in strings)
    padded = np.zeros((len(strings), len(ROWS), longest), dtype=np.int32)
    padded[:, [ROWS.index("symbols"), ROWS.index("targets")]] = NOTHING
    padded[:, ROWS.index("leaves")] = np.arange(longest)
    for row, each in enumerate(strings):
        padded[row, :, : each.shape[1]] = each
    targets = padded[:, ROWS.index("targets")].ravel()
    predicting = np.flatnonzero(targets > NOTHING)  # found here: a GPU would be waited for
    before_words = np.flatnonzero(targets[predicting] == WORD)
    return replace(
        batch,
        strings=torch.from_numpy(padded),
        predicting=torch.from_numpy(predicting),
        before_words=torch.from_numpy(before_words),
    )


def attention_of(batch: TreeBatch) -> StackAttention:
    """Which positions each position of the strings sees (Section 3.2), and how much deeper it is (Section 3.3)."""
    composes = (batch.row("targets") == NOTHING) & (batch.row("symbols") > WORD)
    return stack_attention(batch.row("leaves"), composes, batch.row("depths"))


# -- 2. Hypotheses ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BracketState(Rows):
    """The stack of brackets, words and composed constituents of each row, which grows symbol by symbol.

    Its columns are those that a network reads (`depgen.trees.tree_strings.positions_of`).

    Column 0 is the beginning, at the bottom. Columns that rows have nothing in are on no stack.

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
        """The state with a column for the next symbol of each row; one that closes a bracket follows `composed`.

        Args:
            symbols: of each row; `NOTHING` for none.
        """
        is_symbol, opens = symbols > NOTHING, (symbols > WORD) & (symbols % 2 == 1)
        enters = opens | (symbols == WORD)
        return BracketState(
            depths=_with_column(self.depths, (self.open_brackets + 1) * is_symbol),
            on_stack=_with_column(self.on_stack, enters),
            is_open=_with_column(self.is_open, opens),
            labels=_with_column(self.labels, (symbols - 1) // 2 * opens),
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


@dataclass(frozen=True)
class GrammarState(Rows):
    """The state of each hypothesis after some symbols.

    Attributes:
        backbone: keys and values of its columns.
        brackets: the stack, in the same columns.
        hidden: the state that predicts the next symbol.
        kinds: log-probabilities of any word, each opening and each closing bracket.
        normaliser: of words.
        words: how many were written after the prompt, in texts that are generated.
        eos: the id that begins and ends a text.
    """

    shared: ClassVar[frozenset[str]] = frozenset({"eos"})

    backbone: TransformerState
    brackets: BracketState
    hidden: Float[Tensor, "rows width"]
    kinds: Float[Tensor, "rows kinds"]
    normaliser: Float[Tensor, " rows"]
    words: Int[Tensor, " rows"]
    eos: int

    def compacted(self) -> "GrammarState":
        """The state without the columns that no symbol sees from here on."""
        brackets, kept = self.brackets.compacted()
        return replace(self, backbone=_columns(self.backbone, kept), brackets=brackets)


def _columns(state: TransformerState, kept: Int[Tensor, "rows kept"]) -> TransformerState:
    """Some columns of each row after one that holds nothing, in slots (`depgen.nn.branches`)."""
    first = state.layers[0].in_new_slots(kept)
    layers = (first, *(layer.in_new_slots(kept, like=first) for layer in state.layers[1:]))
    return replace(state, layers=layers, length=1 + kept.size(1))


def _with_rows(state: TransformerState, rows: Int[Tensor, " chosen"], longer: TransformerState) -> TransformerState:
    """All rows, of which some have got more columns."""
    first = state.layers[0].with_rows(rows, longer.layers[0])
    pairs = zip(state.layers[1:], longer.layers[1:], strict=True)
    return replace(longer, layers=(first, *(one.with_rows(rows, other, like=first) for one, other in pairs)))


# -- 3. The system ----------------------------------------------------------------------------------------------------


class TransformerGrammar(StructuredLanguageModel):
    """A Transformer-XL over words and labelled brackets, with attention to what is on the stack.

    Validation scores words and trees where trees are given. Scores of texts, and of the test split, are lower bounds:
    sums over the trees that a beam holds.

    Args:
        backbone: makes the Transformer, with `positions: relative`, from the number of words and brackets.
        vocabulary_size: number of token types without brackets; linked from the data.
        labels: how many labels constituents have; None: as the vocabulary's table says.
        only_possible: probabilities are over the symbols that may come next (D1).
        max_openings: the most brackets that are opened between two words (D2).
        beam_size: hypotheses of a text up to its next word.
        word_beam_size: those that are kept once all have the word; None: as `beam_size`.
        fast_track: hypotheses that have the word and are kept in addition, at each symbol.
        kwargs: see `LeftToRight`.
    """

    backbone: Transformer

    def __init__(
        self,
        backbone: TransformerFactory,
        vocabulary_size: int,
        *,
        labels: int | None = None,
        only_possible: bool = True,
        max_openings: int = 15,
        beam_size: int = 100,
        word_beam_size: int | None = 10,
        fast_track: int = 5,
        **kwargs: Any,  # noqa: ANN401, of the base
    ) -> None:
        super().__init__(**kwargs)
        check_at_least(1, labels=labels, max_openings=max_openings, beam_size=beam_size, word_beam_size=word_beam_size)
        check_at_least(0, fast_track=fast_track)
        self.save_hyperparameters()
        self.vocabulary_size, self.only_possible, self.max_openings = vocabulary_size, only_possible, max_openings
        self.beam_size, self.word_beam_size, self.fast_track = beam_size, word_beam_size, fast_track
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
        if not isinstance(self.backbone, Transformer) or self.backbone.relative is None:
            raise UserError(
                "TransformerGrammar has positions by depth: set model.init_args.backbone to "
                "depgen.backbones.transformer.Transformer with positions: relative."
            )

    @property
    def collate(self) -> Callable[[ItemBatch], TreeBatch]:
        """Padded sequences with their trees as strings."""
        return TreeCollate(self.max_openings)

    @property
    def output_bias(self) -> Float[Tensor, " vocab"] | None:
        """That of words, where there is one."""
        bias = super().output_bias
        return None if bias is None else bias[: self.vocabulary_size]

    # -- the distribution of the next symbol ------------------------------------------------------------------------

    def ids_of(self, symbols: Int[Tensor, "*positions"], words: Int[Tensor, "*positions"]) -> Int[Tensor, "*positions"]:
        """Ids in the backbone's vocabulary: of words, then of opening brackets, then of closing ones.

        Args:
            symbols: of each position.
            words: the id where the symbol is a word, or `NOTHING`.
        """
        labels = (symbols - 1) // 2
        return torch.where(symbols > WORD, self.vocabulary_size + labels + self.labels * (symbols % 2 == 0), words)

    def _weights(self, eos: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Output matrix and bias of words, among which `<eos>` is none, and of brackets."""
        weight, bias, size = self.backbone.output_weight, self.backbone.output_bias, self.vocabulary_size
        bias = weight.new_zeros(len(weight)) if bias is None else bias
        of_words = bias[:size]
        if self.only_possible:
            of_words = of_words.masked_fill(torch.arange(size, device=bias.device) == eos, -torch.inf)
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
        possible = torch.cat((in_tree[:, None], opens, closes), 1)
        if self.only_possible:
            scores = scores.masked_fill(~possible, -torch.inf)
        return scores.log_softmax(1).masked_fill(~possible, -torch.inf), normaliser

    def symbol_log_probs(self, batch: TreeBatch) -> Float[Tensor, "batch positions"]:
        """The log-probability (nats) of the symbol after each position of the strings; 0 where none is predicted."""
        assert batch.predicting is not None
        assert batch.before_words is not None
        symbols, words, *rows = (batch.row(name) for name in ("symbols", "words", "targets", "openings", "closable"))
        ids = self.ids_of(symbols, batch.inputs.gather(1, words))
        hidden = self.backbone(ids, stack=attention_of(batch)).hidden
        states, before, tokens, target, openings, closable = (
            each.flatten(0, 1).index_select(0, batch.predicting)
            for each in (hidden, symbols, batch.targets.gather(1, words), *rows)
        )
        kinds, normaliser = self.kind_log_probs(
            states, batch.eos, in_tree=before > NOTHING, openings=openings, closable=closable
        )
        columns = torch.where(target > WORD, 1 + (target - 1) // 2 + self.labels * (target % 2 == 0), 0)
        found = kinds.gather(1, columns[:, None])[:, 0]
        states, tokens, normaliser = (each.index_select(0, batch.before_words) for each in (states, tokens, normaliser))
        weight, bias, *_ = self._weights(batch.eos)
        of_words = word_scores(states, weight, bias, tokens) - normaliser
        found = found.index_add(0, batch.before_words, of_words)
        return found.new_zeros(symbols.numel()).index_copy(0, batch.predicting, found).view_as(symbols)

    def target_log_probs(self, batch: TreeBatch) -> Float[Tensor, "batch length"]:
        """The log-probability (nats) of each target together with the brackets before it."""
        found = self.symbol_log_probs(batch)
        return found.new_zeros(batch.targets.shape).scatter_add(1, batch.row("words"), found)

    def training_step(self, batch: TreeBatch, batch_idx: int) -> Float[Tensor, ""]:
        """The negative log-likelihood of words and brackets, nats per token of the global batch.

        Raises:
            UserError: the data have no constituents.
        """
        if batch.strings is None:
            raise UserError(f"TransformerGrammar trains on constituents, {NO_CONSTITUENTS}")
        return self.log_train(-self.symbol_log_probs(batch).sum(), batch.global_tokens)

    def joint_nll(self, batch: TreeBatch) -> Float[Tensor, " batch"]:
        """The nats of each item's words and brackets."""
        return -precise(self.symbol_log_probs(batch)).sum(1)

    # -- search (Section 4.1) ---------------------------------------------------------------------------------------

    def beginning(self, tokens: Int[Tensor, " rows"], *, eos: int) -> GrammarState:
        """The state after the token that begins each text."""
        brackets = BracketState.beginning(len(tokens), device=tokens.device)
        output = self.backbone(tokens[:, None], carry=True, stack=_seen(brackets))
        assert isinstance(output.state, TransformerState)
        hidden = output.hidden[:, 0]
        kinds, normaliser = self._kinds(hidden, brackets, eos)
        words = torch.zeros_like(tokens)
        return GrammarState(output.state, brackets, hidden, kinds, normaliser, words, eos).compacted()

    def step(self, state: GrammarState, symbols: Int[Tensor, " rows"], words: Int[Tensor, " rows"]) -> GrammarState:
        """The state after one more symbol of some rows, which alone are computed.

        Args:
            state: before.
            symbols: of each row; `NOTHING` for none.
            words: the id where the symbol is a word; any other id elsewhere.
        """
        closes, rows = (symbols > WORD) & (symbols % 2 == 0), (symbols > NOTHING).nonzero()[:, 0]
        if not len(rows):
            return state
        backbone, brackets, ids = state.backbone, state.brackets, self.ids_of(symbols, words)
        if bool(closes.any()):
            brackets = brackets.composed(closes)
            backbone, _ = self._column(ids, brackets, backbone, closes.nonzero()[:, 0])
        brackets = brackets.pushed(symbols)
        backbone, hidden = self._column(ids, brackets, backbone, rows)
        kinds, normaliser = self._kinds(hidden, brackets.select(rows), state.eos)
        return replace(
            state, backbone=backbone, brackets=brackets, hidden=state.hidden.index_copy(0, rows, hidden),
            kinds=state.kinds.index_copy(0, rows, kinds), normaliser=state.normaliser.index_copy(0, rows, normaliser),
            words=state.words + (symbols == WORD),
        )  # fmt: skip

    def _column(
        self, ids: Int[Tensor, " rows"], brackets: BracketState, state: TransformerState, rows: Int[Tensor, " chosen"]
    ) -> tuple[TransformerState, Float[Tensor, "chosen width"]]:
        """The backbone's state after the last column of some rows' stacks, and its output there."""
        output = self.backbone(
            ids[rows, None], state=state.select(rows), carry=True, stack=_seen(brackets.select(rows))
        )
        assert isinstance(output.state, TransformerState)
        return _with_rows(state, rows, output.state), output.hidden[:, 0]

    def _kinds(self, hidden: Tensor, brackets: BracketState, eos: int) -> tuple[Tensor, Tensor]:
        """See `kind_log_probs`."""
        return self.kind_log_probs(
            hidden, eos, in_tree=brackets.open_brackets > 0, openings=brackets.openings, closable=brackets.closable
        )

    def columns_kept(self, length: int) -> int:
        """See `COLUMNS`."""
        return COLUMNS

    def targets_searched(self, batch: TreeBatch, *, with_end: bool) -> Int[Tensor, " batch"]:
        """All targets but the end of a text that may continue; none of a text without words, which has no tree."""
        return (batch.lengths - int(not with_end)).masked_fill((batch.targets[:, 0] == batch.eos).cpu(), 0)

    def log_probs(self, batch: TokenBatch) -> Float[Tensor, "batch length"]:
        """See `StructuredLanguageModel`; a text without words has the log-probability -inf."""
        assert isinstance(batch, TreeBatch)
        log_probs = super().log_probs(batch)
        log_probs[batch.targets[:, 0] == batch.eos, 0] = -torch.inf
        return log_probs

    def beginning_of(self, batch: TreeBatch) -> GrammarState:
        """See `StructuredLanguageModel`."""
        return self.beginning(batch.inputs[:, 0], eos=batch.eos)

    def with_input(self, beam: Beam[GrammarState], batch: TreeBatch, k: int, *, beam_size: int) -> Beam[GrammarState]:
        """The hypotheses after word k."""
        words = batch.inputs[beam.items, k]
        return replace(beam, state=self.step(beam.state.compacted(), torch.full_like(words, WORD), words))

    def with_target(
        self, beam: Beam[GrammarState], batch: TreeBatch, k: int, *, beam_size: int, with_end: bool
    ) -> Beam[GrammarState]:
        """The hypotheses with target k, which their states do not hold yet, and the brackets before it.

        A hypothesis may open a bracket of each label, close one, take the word, or end.
        """
        eos, labels = batch.eos, self.labels
        produces = torch.arange(labels + 3, device=self.device)[None] > labels

        def expand(beam: Beam[GrammarState], waits: Tensor) -> Expansion:
            targets = batch.targets[beam.items, k]
            kinds, (weight, bias, *_) = beam.state.kinds, self._weights(eos)
            word = kinds[:, 0] + word_scores(beam.state.hidden, weight, bias, targets) - beam.state.normaliser
            closes, is_last = kinds[:, 1 + labels :].amax(1), beam.state.brackets.open_brackets == 1
            ends = targets == eos
            columns = (kinds[:, 1 : 1 + labels], closes[:, None], word[:, None], closes[:, None])
            possible = (~ends[:, None].expand(-1, labels), ~is_last[:, None], ~ends[:, None], (is_last & ends)[:, None])
            return Expansion(torch.cat(columns, 1).masked_fill(~torch.cat(possible, 1), -torch.inf), produces)

        def build(state: GrammarState, rows: Tensor, candidates: Tensor) -> GrammarState:
            state = state.select(rows)
            symbols = torch.where(candidates < labels, 2 * candidates + 1, 2 * state.brackets.closable + 2)
            symbols = torch.where((candidates >= 0) & (candidates <= labels), symbols, NOTHING)
            return self.step(state, symbols, torch.zeros_like(symbols))

        most = self.max_openings + int(beam.state.brackets.open_brackets.max()) + 1
        return with_next_word(
            beam, expand, build, beam_size=beam_size, max_actions=most, word_beam_size=self.word_beam_size,
            fast_track=self.fast_track,
        )  # fmt: skip

    def structure_of(self, state: GrammarState, row: int) -> list[int]:
        """The symbols of a hypothesis without its last target: its last word, or the bracket that ends it."""
        return [symbol for symbol in state.brackets.symbols[row].tolist() if symbol > NOTHING]

    # -- trees that are given or found --------------------------------------------------------------------------------

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
        assert isinstance(batch, TreeBatch)
        strings = []
        for number, (document, of_document) in enumerate(zip(documents, structure, strict=True)):
            spans, before = list[LabelledSpan](), 0
            for ids, of_sentence in zip(document, of_document, strict=True):
                spans += [(before + start, before + end, label) for start, end, label in of_sentence]
                before += len(ids)
            where = f"document {number + 1}"
            strings.append(string_positions(spans, before, max_openings=self.max_openings, where=where))
        return self.target_log_probs(with_strings(batch, strings).to(self.device))

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

    # -- generation ---------------------------------------------------------------------------------------------------

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

    def writing_step(
        self,
        writing: Writing,
        tokens: Int[Tensor, "batch length"],
        padding: Bool[Tensor, "batch length"] | None,
        state: GrammarState | None,
    ) -> tuple[Float[Tensor, "batch choices"], GrammarState]:
        """Log-probabilities of the next symbol: ids of words, of brackets as in `ids_of`, and `<eos>` for the end."""
        eos = writing.vocabulary.eos
        if state is None:
            padding = torch.zeros_like(tokens, dtype=torch.bool) if padding is None else padding
            skipped = padding.sum(1)
            state = self.beginning(torch.full_like(skipped, eos), eos=eos)
            for column in range(1, tokens.size(1)):
                symbols = torch.where(column > skipped, self._symbols_of(tokens[:, column]), NOTHING)
                state = self.step(state, symbols, tokens[:, column])
            state = replace(state, words=torch.zeros_like(state.words))
        else:
            symbols = torch.where(tokens[:, 0] == eos, NOTHING, self._symbols_of(tokens[:, 0]))
            state = self.step(state, symbols, tokens[:, 0]).compacted()
        return self._choices(state, writing.max_new_tokens), state

    def _symbols_of(self, ids: Int[Tensor, " rows"]) -> Int[Tensor, " rows"]:
        """The symbols of ids."""
        bracket = ids - self.vocabulary_size
        labels = bracket % self.labels
        return torch.where(bracket < 0, WORD, 2 * labels + 1 + (bracket >= self.labels))

    def _choices(self, state: GrammarState, most_words: int) -> Float[Tensor, "batch choices"]:
        """Log-probabilities of ids; texts that are as long as they may be end."""
        weight, bias, *_ = self._weights(state.eos)
        words = full_precision(F.linear(state.hidden, weight, bias)) - state.normaliser[:, None] + state.kinds[:, :1]
        opens, closes = state.kinds[:, 1:].chunk(2, 1)
        is_last = (state.brackets.open_brackets == 1)[:, None]
        end = closes.amax(1, keepdim=True).masked_fill(~is_last, -torch.inf)
        log_probs = torch.cat((words, opens, closes.masked_fill(is_last, -torch.inf)), 1)
        is_end = torch.arange(log_probs.size(1), device=log_probs.device) == state.eos
        log_probs = torch.where(is_end, end, log_probs)
        is_full = (state.words >= most_words)[:, None]
        return torch.where(is_full, torch.where(is_end, 0.0, -torch.inf), log_probs)

    def written_structures(self, choices: Sequence[Sequence[int]], writing: Writing) -> list[tuple[Constituent, ...]]:
        """The trees as spans (start, end, label); brackets that are open when a text is cut are closed there."""
        symbols = (self._symbols_of(torch.tensor(of_text, dtype=torch.long)).tolist() for of_text in choices)
        return [tuple(_named(of_text, writing.vocabulary)) for of_text in symbols]

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
    return [(start, end, names[label]) for start, end, label in spans_of(symbols)]


def _seen(brackets: BracketState) -> StackAttention:
    """What the last column of each stack attends to."""
    return StackAttention(brackets.seen[:, None], brackets.distances.clamp(NEAREST, FARTHEST)[:, None])
