"""Iterative expansion: a sentence is written from the root of its dependency tree down, a level at a time.

Casas, Fonollosa & Costa-jussà (2020), "Syntax-driven Iterative Expansion Language Models for Controllable Text
Generation". A Transformer that sees the whole level gives each placeholder an expansion, which says what placeholders
come at both sides of it at the next level, and then a word. All words of a level are written in parallel.

    paper                      here
    I_tok, O_tok, O_exp        `inputs`, `targets`, `expansions` of a `LevelBatch` (Figure 2)
    dependency placeholder     a token `[label]`, the last types of the vocabulary
    expansion placeholder      a row of the vocabulary's table of expansions
    tree binarization          `depgen.trees.binarization`, applied by `collate_levels`
    head position embedding    `head_embedding`
    inference (section 3.3)    `ITEXP.generate`; `Texts` between two iterations, `expanded` from one to the next

A sentence's probability is that of its words and its tree together: the product over its placeholders of
p(expansion | level) p(word | level, expansions). It is at most the probability of the words: `likelihood` is `bound`.
Sums over trees are tighter bounds (`depgen.evaluation.over_trees`).

Deviations
    D1. Written positions get no expansion, in training, scoring and generation. The authors' code draws one there when
        it writes, from an output that is never trained, and gives them the unknown one when it scores.
    D2. Positions of words are counted from 0; from 1 in the authors' code.
    D3. Expansions are predicted from the last layer, the authors' default (`expansion_layer`), and added to its states.
        The paper has "one of the intermediate layers", and layers after it.
    D4. In scoring and generation, words are normalised without placeholders and `<eos>`, and expansions without
        padding; in training, as in the authors' code, over the whole vocabulary. The paper masks placeholders "in the
        final softmax". Training embeds the given expansions, where section 3.1 speaks of sampled ones.
    D5. Each position sees the whole level, as in the paper. The authors' code can hide all but its ancestors.
    D6. Padding and unknown expansions are never drawn, as unknown words are not; the authors' code draws padding.
    D7. A tree with an expansion not seen in training, which is never written, has probability 0. The authors' code
        scores the unknown expansion there, which many trees share, so that sums over trees would be no bounds. The
        losses of validation and test do so too, as they would be infinite; `unseen_expansions` is the share of
        sentences with such an expansion.
    D8. Subwords are byte-level BPE; the authors have subword-nmt. The dependents of a word at its left hang on its
        first piece, as in the authors' code; the paper has all on the last.
    D9. Texts end at limits of levels and tokens; the authors' code has none.
    D10. Embeddings of tokens and expansions begin as N(0, 1) and are not scaled, those of heads as N(0, 1/width): the
        authors' code without `--apply-bert-init`, its default (`MaskedFairseqInit`). Neither paper nor code says
        whether that option was set, by which all begin as N(0, 0.02^2).
    D11. Probabilities are multiplied (section 4.2) after top-p, as in the authors' code; the paper does not say.
    D12. A given tree (`skeletons`) and forbidden relations are ours.
"""

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Float64, Int
from lightning.pytorch.utilities.seed import isolate_rng
from torch import Tensor, nn
from torchmetrics import Metric, MetricCollection

from depgen.backbones.transformer import TransformerFactory
from depgen.data.batch import Batch, ItemBatch, TokenItem
from depgen.data.levels import PAD_EXPANSION, UNKNOWN_EXPANSION, LevelItem, binarization_of
from depgen.data.sampler import budget_starts
from depgen.data.vocabulary import Vocabulary
from depgen.decoding.generation import Generated
from depgen.decoding.sampling import drawn
from depgen.decoding.settings import Sampling
from depgen.errors import UserError, check_at_least
from depgen.language_models.base import LanguageModel
from depgen.metrics.item_scores import ItemScores, WordPerplexity
from depgen.nn.lengths import mask_of
from depgen.nn.precise import precise, sum_type
from depgen.nn.vocabulary import log_softmax_over_vocabulary, without, word_log_probs
from depgen.progress import progress_bar
from depgen.training.hyper_parameters import factory
from depgen.training.randomness import hashed_uniform
from depgen.trees.binarization import HEAD, SUBWORD, depths, expansions, levels_of, numbered_through, written_tree
from depgen.trees.conllu import read_conllu
from depgen.trees.pieces import piece_tree
from depgen.trees.sentence import check_tree

logger = logging.getLogger(__name__)

TOKENS_AT_ONCE = 4096
"""Tokens that are encoded together when texts are scored, padding included."""
LEVELS_AT_ONCE = 2**18
"""Tokens of levels that are looked through for levels in common."""


# -- levels (section 3, Figure 2) -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class LevelBatch(Batch):
    """Sentences at levels of their trees, a row each, padded at the right.

    Attributes:
        inputs: I_tok: words above the level, and placeholders of the words at it.
        targets: O_tok: the words.
        heads: the 0-based position of each word's head within the row; -1 at the root.
        expansions: O_exp: rows of the table; that of padding at words above the level.
        is_open: where there is a placeholder.
        opened: the same, as places in the flat batch.
        lengths: tokens of each row.
        weights: factor of each row's loss.
        places: of each position the 0-based place of its token in the sentence.
        sentences: of each row the place of its sentence in the batch.
        items: of each sentence the place in its split.
        words: of each sentence.
        global_tokens: what a loss is divided by.
        unk: the unknown word.
        eos: is never written.
    """

    on_cpu: ClassVar[frozenset[str]] = frozenset({"lengths", "places", "sentences", "items", "words"})

    inputs: Int[Tensor, "rows length"]
    targets: Int[Tensor, "rows length"]
    heads: Int[Tensor, "rows length"]
    expansions: Int[Tensor, "rows length"]
    is_open: Bool[Tensor, "rows length"]
    opened: Int[Tensor, " open"]
    lengths: Int[Tensor, " rows"]
    weights: Float[Tensor, " rows"]
    places: Int[Tensor, "rows length"]
    sentences: Int[Tensor, " rows"]
    items: Int[Tensor, " batch"]
    words: Int[Tensor, " batch"]
    global_tokens: int
    unk: int
    eos: int

    @property
    def is_word(self) -> Bool[Tensor, "rows length"]:
        """True at tokens, False at padding."""
        return mask_of(self.lengths, self.inputs.shape[1], device=self.inputs.device)

    @property
    def is_unseen(self) -> Bool[Tensor, "rows length"]:
        """True at placeholders whose expansion was not seen in training."""
        return self.expansions == UNKNOWN_EXPANSION

    def of_sentences(self, of_rows: Tensor) -> Tensor:
        """The sum of the values of each sentence's rows."""
        return of_rows.new_zeros(len(self.items)).index_add_(0, self.sentences.to(of_rows.device), of_rows)

    def select(self, rows: Int[Tensor, " some"]) -> "LevelBatch":
        """Some of the rows, whose numbers lie on the CPU, padded to the longest of them."""
        there, lengths = rows.to(self.inputs.device), self.lengths[rows]
        longest = int(lengths.max())
        by_token = ("inputs", "targets", "heads", "expansions", "is_open")
        tokens = {name: getattr(self, name)[there, :longest] for name in by_token}
        return replace(
            self, **tokens, lengths=lengths, opened=tokens["is_open"].flatten().nonzero()[:, 0],
            weights=self.weights[there], places=self.places[rows, :longest], sentences=self.sentences[rows],
        )  # fmt: skip

    def parts(self, tokens: int) -> Iterator[tuple[Int[Tensor, " some"], "LevelBatch"]]:
        """Batches of rows of similar length, of at most `tokens` tokens with padding, and the numbers of the rows.

        All levels of a sentence padded to its last one are twice as many tokens as they have. A row may be longer.
        """
        order = self.lengths.argsort(stable=True)
        starts = budget_starts(self.lengths[order].tolist(), tokens)
        for start, end in pairwise([*starts, len(order)]):
            yield order[start:end], self.select(order[start:end])

    def distinct(self) -> tuple[Int[Tensor, " distinct"], Int[Tensor, " rows"]]:
        """Rows in which all that is read and predicted differs; and of each row the one of them that it equals."""
        columns = torch.cat((self.lengths[:, None], self.inputs, self.targets, self.heads, self.expansions), 1)
        _, first, number = np.unique(columns.numpy(), axis=0, return_index=True, return_inverse=True)
        return torch.from_numpy(first), torch.from_numpy(number.reshape(-1))


def collate_levels(batch: ItemBatch) -> LevelBatch:
    """Sentences at their levels."""
    items: Sequence[LevelItem] = batch.items
    vocabulary, sentences = batch.vocabulary, [item.sentence for item in items]
    # Of all tokens, sentence by sentence: heads of the tree that is written, depths, placeholders, expansions.
    sizes = np.array([len(sentence.ids) for sentence in sentences])
    starts = np.cumsum(sizes) - sizes
    heads, labels = _written_trees(sentences, starts, vocabulary)
    placeholders, rows_of_expansions = _numbers(vocabulary)
    ids = np.concatenate([sentence.ids for sentence in sentences])
    deep = depths(heads)
    unknown = vocabulary.eos if vocabulary.unk < 0 else vocabulary.unk
    marks = np.array([placeholders.get(label, unknown) for label in labels])
    patterns = np.array(
        [rows_of_expansions.get(expansion, UNKNOWN_EXPANSION) for expansion in expansions(heads, labels)]
    )
    # A row for each sentence and level; `row` and `token` of each pair of a row and a token of its sentence.
    deepest = np.maximum.reduceat(deep, starts)
    levels = [range(1, deepest[k] + 1) if item.level is None else (item.level,) for k, item in enumerate(items)]
    of_row = np.repeat(np.arange(len(items)), [len(of_item) for of_item in levels])
    level_of_row = np.array([*chain.from_iterable(levels)])
    sizes_of_rows = sizes[of_row]
    row = np.repeat(np.arange(len(of_row)), sizes_of_rows)
    token = np.arange(len(row)) - np.repeat(np.cumsum(sizes_of_rows) - sizes_of_rows - starts[of_row], sizes_of_rows)
    is_read = deep[token] <= level_of_row[row]
    lengths = np.bincount(row[is_read])
    column = np.cumsum(is_read) - 1 - np.repeat(np.cumsum(lengths) - lengths, sizes_of_rows)
    is_open = deep[token] == level_of_row[row]
    pair_of_head = np.arange(len(row)) + heads[token] - 1 - token
    column_of_head = np.where(heads[token] > 0, column[np.where(heads[token] > 0, pair_of_head, 0)], -1)

    def padded(values: np.ndarray, filler: int | bool) -> Tensor:
        table = np.full((len(of_row), lengths.max()), filler, dtype=values.dtype)
        table[row[is_read], column[is_read]] = values[is_read]
        return torch.from_numpy(table)

    opened = padded(is_open, False)
    ends = [sentence.word_ends for sentence in sentences]
    words = [int(size) if end is None else int(end.sum()) for size, end in zip(sizes, ends, strict=True)]
    return LevelBatch(
        inputs=padded(np.where(is_open, marks[token], ids[token]), vocabulary.eos),
        targets=padded(ids[token].astype(np.int64), vocabulary.eos),
        heads=padded(column_of_head, -1),
        expansions=padded(np.where(is_open, patterns[token], PAD_EXPANSION), PAD_EXPANSION),
        is_open=opened,
        opened=opened.flatten().nonzero()[:, 0],
        lengths=torch.from_numpy(lengths),
        weights=torch.tensor([item.weight for item in items])[torch.from_numpy(of_row)],
        places=padded(token - starts[of_row][row], 0),
        sentences=torch.from_numpy(of_row),
        items=torch.tensor([sentence.index for sentence in sentences]),
        words=torch.tensor(words),
        global_tokens=batch.global_tokens,
        unk=vocabulary.unk,
        eos=vocabulary.eos,
    )


def _written_trees(
    sentences: Sequence[TokenItem], starts: Int[np.ndarray, " sentences"], vocabulary: Vocabulary
) -> tuple[Int[np.ndarray, " tokens"], list[str]]:
    """Heads (numbered through) and labels of the trees that are written."""
    columns: list[Int[np.ndarray, " words"]] = []
    relations: list[str] = []
    for sentence in sentences:
        if sentence.heads is None or sentence.relations is None:
            raise UserError(f"item {sentence.index + 1}: expected a sentence with its tree, found none: give trees.")
        columns.append(sentence.heads)
        relations.extend(sentence.relations)
    heads = np.concatenate(columns).astype(np.int64)
    return written_tree(numbered_through(heads, starts), relations, binarization_of(vocabulary), starts)


def _numbers(vocabulary: Vocabulary) -> tuple[dict[str, int], dict[tuple[str, ...], int]]:
    """The token of each label's placeholder, and the row of each expansion."""
    labels, rows = vocabulary.tables["placeholders"], vocabulary.tables["expansions"]
    first = vocabulary.size - len(labels)
    return {label: first + k for k, label in enumerate(labels)}, {tuple(row): k for k, row in enumerate(rows)}


def sentence_item(index: int, ids: Sequence[int], structure: Any) -> LevelItem:  # noqa: ANN401
    """A text with its tree, read at all levels.

    Args:
        index: its number.
        ids: its tokens.
        structure: heads (1-based, 0 = root) and relations of the tokens: a pair, or as `ITEXP.generate` returns them.
    """
    is_mapping = isinstance(structure, Mapping)
    heads, relations = (structure["heads"], structure["relations"]) if is_mapping else structure
    if not len(heads) == len(relations) == len(ids) > 0:
        raise UserError(
            "A text with its tree: expected a head and a relation for each of one token or more, found "
            f"{len(ids)} tokens, {len(heads)} heads and {len(relations)} relations."
        )
    check_tree([int(head) for head in heads], "structure")
    return LevelItem(TokenItem(index, np.asarray(ids), np.asarray(heads), relations=np.array(relations, dtype=object)))


# -- probabilities (section 3.2) --------------------------------------------------------------------------------------


def expansion_log_probs(
    scores: Float[Tensor, "*places expansions"], *, restricted: bool
) -> Float[Tensor, "*places expansions"]:
    """Log p(expansion | level), from scores that are not normalised; restricted, padding has none (D4)."""
    scores = scores.float() if scores.dtype != torch.float64 else scores
    if restricted:
        scores = without(scores, PAD_EXPANSION)
    return scores.log_softmax(-1)


# -- writing (section 3.3) and its control (section 4.2) --------------------------------------------------------------


@dataclass(frozen=True)
class ExpansionOptions(Sampling):
    """How words and expansions are drawn, with the same filters; and what the tree is to have.

    Attributes:
        levels: the deepest level; its words have no dependents.
        boost: factors of the probabilities of expansions with a relation, such as `amod: 10`; 0 forbids it.
        forbid: relations that no text has.
        skeletons: a CoNLL-U file of trees, which the texts have in turn; words that it gives stay, `_` is written.
        trace: return every level, as `levels` of the structure.
    """

    levels: int = 100
    boost: dict[str, float] | None = None
    forbid: tuple[str, ...] = ()
    skeletons: str | None = None
    trace: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(1, levels=self.levels)
        for relation, factor in (self.boost or {}).items():
            if not 0 <= factor < math.inf:
                raise UserError(f"boost of {relation}: expected a factor of 0 or more, found {factor}.")
        if self.skeletons is not None and (self.boost or self.forbid):
            raise UserError("skeletons fix the trees: leave out boost and forbid, or skeletons.")


@dataclass(frozen=True)
class ExpansionTable:
    """The table of expansions on a device, with the control of what is drawn.

    Attributes:
        left: number of placeholders at the left of each expansion.
        right: at the right.
        children: their labels from left to right, padded.
        never: True for expansions that are never drawn.
        log_factors: the logarithms of what probabilities are multiplied by.
        leaf: the expansion without dependents.
    """

    left: Int[Tensor, " expansions"]
    right: Int[Tensor, " expansions"]
    children: Int[Tensor, "expansions most"]
    never: Bool[Tensor, " expansions"]
    log_factors: Float[Tensor, " expansions"]
    leaf: int

    @classmethod
    def of(cls, vocabulary: Vocabulary, options: ExpansionOptions, device: torch.device) -> "ExpansionTable":
        """The vocabulary's table with the options' control."""
        rows = [list(map(str, row)) for row in vocabulary.tables["expansions"]]
        number = {str(label): k for k, label in enumerate(vocabulary.tables["placeholders"])}
        sides = [(row[: row.index(HEAD)], row[row.index(HEAD) + 1 :]) if HEAD in row else ([], []) for row in rows]
        children = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.int64)
        for k, (left, right) in enumerate(sides):
            children[k, : len(left) + len(right)] = torch.tensor([number[label] for label in (*left, *right)])
        counts = torch.tensor([[len(left), len(right)] for left, right in sides]).T
        boost, relations = options.boost or {}, [{*left, *right} for left, right in sides]
        known = set().union(*relations)
        for relation in (*boost, *options.forbid):
            if relation not in known:
                raise UserError(
                    f"boost and forbid: no expansion of this run has the relation {relation!r}. It has "
                    f"{', '.join(sorted(known)) or 'none'}."
                )
        forbidden = {*options.forbid, *(relation for relation, factor in boost.items() if factor == 0)}
        never = [HEAD not in row or bool(own & forbidden) for row, own in zip(rows, relations, strict=True)]
        factors = [sum(math.log(boost[name]) for name in boost if name in own and boost[name]) for own in relations]
        return cls(
            left=counts[0].to(device), right=counts[1].to(device), children=children.to(device),
            never=torch.tensor(never, device=device),
            log_factors=torch.tensor(factors, dtype=torch.float32, device=device), leaf=rows.index([HEAD]),
        )  # fmt: skip


@dataclass
class Texts:
    """Texts that grow together, padded at the right.

    Attributes:
        numbers: of the rows' texts, on the CPU.
        sizes: lengths and numbers of placeholders, on the CPU.
        seeds: of each.
        tokens: words that are written; anything at placeholders.
        heads: 0-based; -1 = root.
        labels: of each token to its head, places in the list of placeholders.
        is_open: at placeholders.
        lengths: of each.
        log_probs: so far.
        cut: texts that have no more dependents at some level because of a limit.
    """

    numbers: Int[Tensor, " rows"]
    sizes: Int[Tensor, "2 rows"]
    seeds: Int[Tensor, " rows"]
    tokens: Int[Tensor, "rows length"]
    heads: Int[Tensor, "rows length"]
    labels: Int[Tensor, "rows length"]
    is_open: Bool[Tensor, "rows length"]
    lengths: Int[Tensor, " rows"]
    log_probs: Float[Tensor, " rows"]
    cut: Bool[Tensor, " rows"]

    @classmethod
    def begun(cls, numbers: Sequence[int], seeds: Sequence[int], device: torch.device) -> "Texts":
        """The placeholder of the root, whose label is the first, in each text."""
        one = torch.zeros(len(numbers), 1, dtype=torch.int64, device=device)
        return cls(
            numbers=torch.tensor(list(numbers)),
            sizes=torch.ones(2, len(numbers), dtype=torch.int64),
            seeds=torch.tensor(list(seeds), device=device),
            tokens=one,
            heads=one - 1,
            labels=one,
            is_open=one == 0,
            lengths=one[:, 0] + 1,
            log_probs=torch.zeros(len(numbers), dtype=sum_type(device), device=device),
            cut=one[:, 0] > 0,
        )

    @property
    def is_word(self) -> Bool[Tensor, "rows length"]:
        """True at tokens, False at padding."""
        return mask_of(self.lengths, self.tokens.shape[1], device=self.tokens.device)

    @property
    def opened(self) -> Int[Tensor, " places"]:
        """The places of placeholders in the flat batch."""
        return self.is_open.flatten().int().sort(descending=True, stable=True).indices[: int(self.sizes[1].sum())]

    def select(self, rows: Int[Tensor, " some"]) -> "Texts":
        """Some of the texts, by their rows, which lie on the CPU."""
        there, sizes = rows.to(self.tokens.device, non_blocking=True), self.sizes[:, rows]
        longest, on_cpu = int(sizes[0].max()) if len(rows) else 0, {"numbers": self.numbers[rows], "sizes": sizes}
        chosen = {name: value[there] for name, value in vars(self).items() if name not in on_cpu}
        columns = {name: value[:, :longest] if value.ndim == 2 else value for name, value in chosen.items()}
        return Texts(**columns, **on_cpu)

    @classmethod
    def on_cpu(cls, parts: Sequence["Texts"]) -> "Texts":
        """The texts of all parts, on the CPU."""
        widest = max(part.tokens.shape[1] for part in parts)

        def whole(name: str) -> Tensor:
            columns = [getattr(part, name) for part in parts]
            if name == "sizes":
                return torch.cat(columns, 1)
            if columns[0].ndim == 2:
                columns = [F.pad(column, (0, widest - column.shape[1])) for column in columns]
            return torch.cat(columns).cpu()

        return cls(**{name: whole(name) for name in vars(parts[0])})


def expanded(texts: Texts, chosen: Int[Tensor, "rows length"], table: ExpansionTable) -> Texts:
    """The texts at the next level: new placeholders come at both sides of the words whose expansions have some.

    The new place of token i is i plus the placeholders at the left of tokens up to i and at the right of those before.
    A GPU is waited for once, for the new lengths.
    """
    left, right = (sizes[chosen] * texts.is_open for sizes in (table.left, table.right))
    places = torch.arange(texts.tokens.shape[1], device=chosen.device) + left.cumsum(1) + right.cumsum(1) - right
    more = (left + right).sum(1)
    lengths = texts.lengths + more
    sizes = torch.stack((lengths, more)).cpu()
    length = int(sizes[0].max())

    def fresh(value: int | bool, like: Tensor) -> Tensor:
        """One more column, for what is padding."""
        return torch.full((len(lengths), length + 1), value, dtype=like.dtype, device=like.device)

    tokens, heads, labels = fresh(0, texts.tokens), fresh(-1, texts.heads), fresh(0, texts.labels)
    is_open = fresh(False, texts.is_open)
    old = places.where(texts.is_word, length)
    tokens.scatter_(1, old, texts.tokens)
    heads.scatter_(1, old, places.gather(1, texts.heads.clamp_min(0)).where(texts.heads >= 0, -1))
    labels.scatter_(1, old, texts.labels)
    for place in range(table.children.shape[1]):
        offset = torch.where(place < left, place - left, place - left + 1)
        new = (places + offset).where(texts.is_open & (place < left + right), length)
        heads.scatter_(1, new, places)
        labels.scatter_(1, new, table.children[chosen, place])
        is_open.scatter_(1, new, True)
    columns = {"tokens": tokens, "heads": heads, "labels": labels, "is_open": is_open}
    columns = {name: column[:, :length] for name, column in columns.items()}
    return replace(texts, lengths=lengths, sizes=sizes, **columns)


@dataclass(frozen=True)
class Skeletons:
    """Trees that texts are to have.

    Attributes:
        trees: with -1 for words that are to be written.
        levels: all levels of all trees; their expansions, and the words that are given.
        firsts: the row of each tree's first level.
    """

    trees: Sequence[TokenItem]
    levels: LevelBatch
    firsts: Int[Tensor, " trees"]

    @classmethod
    def read(cls, path: str, vocabulary: Vocabulary, *, levels: int, tokens: int) -> "Skeletons":
        """The trees of a CoNLL-U file, refused above the limits of levels and tokens; a word `_` is to be written."""
        trees: list[TokenItem] = []
        for number, document in enumerate(read_conllu(Path(path), by_document=False), start=1):
            name, (sentence,) = f"{path}: sentence {number}", document.sentences
            if sentence.heads is None or sentence.relations is None:
                raise UserError(f"{name}: expected heads and relations, found `_`. Give the whole tree.")
            pieces = [[-1] if word == "_" else vocabulary.pieces(word) for word in sentence.words]
            for word, ids in zip(sentence.words, pieces, strict=True):
                if vocabulary.unk >= 0 and vocabulary.unk in ids:
                    raise UserError(f"{name}: the vocabulary of this run lacks {word!r}. Write `_` for a new word.")
            word_of_piece = np.repeat(np.arange(len(pieces)), [len(ids) for ids in pieces])
            structure = piece_tree(sentence.heads, sentence.relations, word_of_piece, left_dependents="first_piece")
            tree = sentence_item(len(trees), [*chain.from_iterable(pieces)], structure).sentence
            heads, labels = _written_trees([tree], np.array([0]), vocabulary)
            if unseen := sorted({*expansions(heads, labels)} - _numbers(vocabulary)[1].keys()):
                raise UserError(
                    f"{name}: no expansion of this run is {' '.join(unseen[0])!r}. Change the tree, or train on a "
                    "treebank that has it."
                )
            if len(heads) > tokens or depths(heads).max() > levels:
                raise UserError(
                    f"{name} has {len(heads)} tokens and {depths(heads).max()} levels, but texts have at most {tokens} "
                    f"and {levels}: set max_new_tokens, levels, or model.init_args.max_length when training."
                )
            trees.append(tree)
        batch = collate_levels(ItemBatch([LevelItem(tree) for tree in trees], 1, vocabulary))
        return cls(trees, batch, torch.searchsorted(batch.sentences, torch.arange(len(trees))))

    def at(self, level: int, texts: Texts) -> tuple[Int[Tensor, "rows length"], Int[Tensor, "rows length"]]:
        """The expansions of each text's tree at a level, and the words that are given, else -1."""
        rows, length = self.firsts[texts.numbers % len(self.trees)] + level - 1, texts.tokens.shape[1]
        expansions, words = self.levels.expansions[rows, :length], self.levels.targets[rows, :length]
        device = texts.tokens.device
        return expansions.to(device, non_blocking=True), words.to(device, non_blocking=True)

    def structure_of(self, text: int) -> dict[str, Any]:
        """Heads and relations of a text's tree, as they are given."""
        tree = self.trees[text % len(self.trees)]
        assert tree.heads is not None
        assert tree.relations is not None
        return {"heads": tuple(tree.heads.tolist()), "relations": tuple(name or SUBWORD for name in tree.relations)}


EXPANSIONS, WORDS = 0, 1
"""What a variate is drawn for."""


@dataclass(frozen=True)
class LevelWriter:
    """How the texts of one call are written.

    Attributes:
        vocabulary: of the texts.
        options: how is drawn.
        table: of expansions.
        tokens: the most of a text.
        skeletons: trees that are given; None: trees are drawn.
    """

    vocabulary: Vocabulary
    options: ExpansionOptions
    table: ExpansionTable
    tokens: int
    skeletons: Skeletons | None = None

    def expansions(
        self, log_probs: Float[Tensor, "rows length expansions"], texts: Texts, level: int
    ) -> tuple[Int[Tensor, "rows length"], Bool[Tensor, " rows"]]:
        """The expansions of a level's placeholders, leaves elsewhere; and the texts that are cut (D9).

        A text that would get too long gets no more dependents at this level.
        """
        leaf, is_open = self.table.leaf, texts.is_open
        if self.skeletons is not None:
            return self.skeletons.at(level, texts)[0].where(is_open, leaf), texts.cut
        scores = log_probs.flatten(0, 1)[texts.opened].masked_fill(self.table.never, -torch.inf)  # D6
        uniform = _variates(texts, level, EXPANSIONS)
        at_places = drawn(scores, self.options, uniform, log_factors=self.table.log_factors)
        chosen = _placed(at_places, texts, torch.full_like(texts.tokens, leaf))
        new = ((self.table.left + self.table.right)[chosen] * is_open).sum(1)
        cut = (new > 0) & ((texts.lengths + new > self.tokens) | (level == self.options.levels))
        return chosen.masked_fill(cut[:, None], leaf), texts.cut | cut

    def words(self, log_probs: Float[Tensor, "places words"], texts: Texts, level: int) -> Int[Tensor, " places"]:
        """The words at the placeholders of a level."""
        if self.vocabulary.unk >= 0:
            log_probs = without(log_probs, self.vocabulary.unk)
        words = drawn(log_probs, self.options, _variates(texts, level, WORDS))
        if self.skeletons is not None:
            of_tree = self.skeletons.at(level, texts)[1].flatten()[texts.opened]
            words = of_tree.where(of_tree >= 0, words)
        return words

    def finished(self, texts: Texts, row: int) -> Generated:
        """A text with its tree, and whether a limit cut it."""
        length, names = int(texts.lengths[row]), list(map(str, self.vocabulary.tables["placeholders"]))
        tokens, labels = (column[row, :length].tolist() for column in (texts.tokens, texts.labels))
        heads = (texts.heads[row, :length] + 1).tolist()
        relations = ["root" if head == 0 else names[label] for head, label in zip(heads, labels, strict=True)]
        structure: dict[str, Any] = {"heads": tuple(heads), "relations": tuple(relations)}
        if self.skeletons is not None:
            structure = self.skeletons.structure_of(int(texts.numbers[row]))
        if self.options.trace:
            levels = levels_of([self.vocabulary.decode([token]) for token in tokens], heads, relations)
            structure["levels"] = tuple(" ".join(level.inputs) for level in levels)
        if bool(texts.cut[row]):
            structure["cut"] = True
        return Generated(tokens, structure, float(texts.log_probs[row]))


def _variates(texts: Texts, level: int, purpose: int) -> Float64[Tensor, " places"]:
    """A uniform variate for each placeholder, which depends on its text's seed, its level and its place alone."""
    length, opened = texts.tokens.shape[1], texts.opened
    return hashed_uniform(texts.seeds[opened // length], level, opened % length, purpose)


def _placed(
    values: Int[Tensor, " places"], texts: Texts, elsewhere: Int[Tensor, "rows length"]
) -> Int[Tensor, "rows length"]:
    """The values at the placeholders of texts, and others elsewhere."""
    return elsewhere.flatten().index_copy(0, texts.opened, values).view_as(elsewhere)


# -- the system -------------------------------------------------------------------------------------------------------


class ITEXP(LanguageModel):
    """Writes a sentence and its dependency tree from the root down, all words of a level in parallel.

    Args:
        backbone: makes the network from the vocabulary size, with `causal: false`, `tied: false` and an output bias.
        vocabulary_size: number of token types, placeholders included; linked from the data.
        expansions: rows of the table of expansions; None: from the data's vocabulary.
        placeholders: number of placeholders, the last types; None: from the data's vocabulary.
        expansion_layer: the layer whose states predict expansions, and which their embeddings are added to; 0-based,
            negative from the top (D3).
        max_length: tokens of the longest text: rows of the head positions less 3.
        kwargs: see `LanguageModel`.
    """

    likelihood = "bound"
    sentence_context = "none"
    generation_options = ExpansionOptions

    def __init__(
        self,
        backbone: TransformerFactory,
        vocabulary_size: int,
        *,
        expansions: int | None = None,
        placeholders: int | None = None,
        expansion_layer: int = -1,
        max_length: int = 1021,
        **kwargs: Any,  # noqa: ANN401, of the base
    ) -> None:
        super().__init__(**kwargs)
        self.save_hyperparameters()
        self.backbone = factory(backbone, TransformerFactory)(vocabulary_size)
        if self.backbone.causal:
            raise UserError("ITEXP sees a whole level: set model.init_args.backbone.init_args.causal to false.")
        layers, width = self.backbone.attention_layers, self.backbone.width
        if not -layers <= expansion_layer < layers:
            raise UserError(f"expansion_layer: expected -{layers} to {layers - 1}, found {expansion_layer}.")
        self.expansion_layer, self.longest_scored = expansion_layer % layers, max_length
        self.head_embedding = nn.Embedding(max_length + 3, width)  # padding, root, positions
        self.transform = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.LayerNorm(width))
        nn.init.normal_(self.head_embedding.weight, std=width**-0.5)
        self._seed = int(torch.randint(2**31, (), device="cpu"))

    def configure_model(self) -> None:
        """Make what depends on the number of expansions.

        Its weights are drawn from a seed that the constructor drew: among several devices, Lightning goes back to the
        first random number in between.
        """
        self.take_table_sizes(expansions="expansions", placeholders="placeholders")
        if not hasattr(self, "expansion_output"):
            size, width = self.hparams["expansions"], self.backbone.width
            with isolate_rng():
                torch.manual_seed(self._seed)
                self.expansion_output = nn.Linear(width, size)
                self.expansion_embedding = nn.Embedding(size, width, padding_idx=PAD_EXPANSION)
            nn.init.zeros_(self.expansion_output.bias)

    @classmethod
    def figures(cls, passes: int = 1) -> dict[str, Metric]:
        """Those of the base; its perplexity and that per word are of a text with its tree, and named so."""
        figures = super().figures(passes)
        joint = {"joint_perplexity": figures.pop("perplexity"), "joint_word_perplexity": WordPerplexity(passes)}
        return {**figures, **joint}

    @property
    def collate(self) -> Callable[[ItemBatch], LevelBatch]:
        """Sentences at their levels."""
        return collate_levels

    # -- the network (section 3.1) ------------------------------------------------------------------------------------

    def encode(
        self,
        inputs: Int[Tensor, "rows length"],
        heads: Int[Tensor, "rows length"],
        is_word: Bool[Tensor, "rows length"],
        choose: Callable[[Tensor], Tensor],
        *,
        opened: Int[Tensor, " open"] | None = None,
    ) -> tuple[Float[Tensor, "*places width"], Float[Tensor, "*places expansions"]]:
        """States that words are predicted from, and the scores of expansions, not normalised.

        Args:
            inputs: a level of each text.
            heads: 0-based, -1 = root.
            is_word: False at padding.
            choose: from the scores of expansions to the expansion of each position.
            opened: the places of the flat batch that are predicted; None: all, [rows length].
        """
        scores: list[Tensor] = []

        def predicted(hidden: Tensor) -> Tensor:
            return hidden if opened is None else hidden.flatten(0, 1)[opened]

        def after_layer(layer: int, hidden: Tensor) -> Tensor:
            """Predict expansions from the hidden states of one layer, and add those chosen to these states."""
            if layer != self.expansion_layer:
                return hidden
            scores.append(self.expansion_output(predicted(hidden)))
            added: Tensor = self.expansion_embedding(choose(scores[0]))
            return hidden + added

        output = self.backbone(
            inputs,
            padding=~is_word,
            added_embedding=self.head_embedding((heads + 2) * is_word),
            after_layer=after_layer,
        )
        states: Tensor = self.transform(predicted(output.hidden))
        return states, scores[0]

    def outputs(self, eos: int, *, restricted: bool) -> tuple[Tensor, Tensor]:
        """Output matrix and bias; restricted, those of words alone, `<eos>` excluded by its bias (D4)."""
        weight, bias = self.backbone.output_weight, self.backbone.output_bias
        bias = weight.new_zeros(len(weight)) if bias is None else bias
        if not restricted:
            return weight, bias
        words = len(weight) - self.hparams["placeholders"]
        return weight[:words], without(bias[:words], eos)

    # -- training (section 3.2) and scores ----------------------------------------------------------------------------

    def joint_log_probs(self, batch: LevelBatch, *, restricted: bool = True) -> Float[Tensor, "rows length"]:
        """The log-probability (nats) of each placeholder's word and expansion together; 0 elsewhere.

        Args:
            batch: sentences at levels.
            restricted: normalise without what is never written (D4).
        """
        states, scores = self.encode(
            batch.inputs, batch.heads, batch.is_word, lambda _: batch.expansions, opened=batch.opened
        )
        weight, bias = self.outputs(batch.eos, restricted=restricted)
        targets, expansions = (column.flatten()[batch.opened] for column in (batch.targets, batch.expansions))
        # log p(word | level, expansions) + log p(expansion | level), with equal weights
        joint = word_log_probs(states, weight, bias, targets)
        joint = joint + expansion_log_probs(scores, restricted=restricted).gather(1, expansions[:, None])[:, 0]
        return joint.new_zeros(batch.inputs.numel()).index_copy(0, batch.opened, joint).view(batch.inputs.shape)

    def training_step(self, batch: LevelBatch, batch_idx: int) -> Float[Tensor, ""]:
        """The sum of both cross-entropies, over all tokens that are read."""
        scores = self.joint_log_probs(batch, restricted=False)
        return self.log_train(-(scores.sum(1) * batch.weights).sum(), batch.global_tokens)

    def forward(self, batch: LevelBatch) -> Float[Tensor, "rows length"]:
        """See `joint_log_probs`; rows of like length are encoded together."""
        parts = [(rows, self.joint_log_probs(part)) for rows, part in batch.parts(TOKENS_AT_ONCE)]
        result = parts[0][1].new_zeros(batch.inputs.shape)
        for rows, log_probs in parts:
            result[rows.to(result.device), : log_probs.shape[1]] = log_probs
        return result

    def item_scores(self, batch: LevelBatch) -> ItemScores:
        """Nats of each sentence with its tree, over the levels that the batch holds of it."""
        nll = batch.of_sentences(-precise(self(batch)).sum(1))
        tokens = batch.of_sentences(batch.is_open.sum(1))
        unknown = (batch.is_open & (batch.targets == batch.unk)).sum()
        return ItemScores(batch.items, nll[:, None], tokens[:, None], batch.words, unknown, tokens.sum())

    def _measure(self, stage: str, figures: MetricCollection, batch: LevelBatch) -> ItemScores:
        share = (batch.of_sentences(batch.is_unseen.any(1).long()) > 0).float().mean()
        self.log(f"{stage}/unseen_expansions", share, on_epoch=True, batch_size=len(batch.items), sync_dist=True)
        return super()._measure(stage, figures, batch)

    def tree_scores(self, batch: LevelBatch) -> Float[Tensor, "rows length"]:
        """See `joint_log_probs`; -inf at expansions that are never written (D7)."""
        scores: Tensor = self(batch)
        return scores.masked_fill(batch.is_unseen, -torch.inf)

    def _levels(self, texts: Sequence[Sequence[int]], trees: Sequence[Any], vocabulary: Vocabulary) -> LevelBatch:
        """All levels of some texts with their trees."""
        longest = max(map(len, texts))
        assert self.longest_scored is not None
        if longest > self.longest_scored:
            raise UserError(
                f"A sentence of {longest} tokens does not fit into the {self.longest_scored} head positions of this "
                "model: cut it into shorter ones."
            )
        items = [sentence_item(number, *pair) for number, pair in enumerate(zip(texts, trees, strict=True))]
        return self.collate(ItemBatch(items, 1, vocabulary))

    @torch.inference_mode()
    def sentence_log_probs(
        self,
        documents: Sequence[Sequence[Sequence[int]]],
        *,
        vocabulary: Vocabulary,
        structure: Sequence[Sequence[Any]] | None = None,
    ) -> list[list[Float[np.ndarray, " tokens"]]]:
        """See `LanguageModel`; a structure is heads (1-based, 0 = root) and relations of the tokens."""
        if structure is None:
            raise UserError(
                "ITEXP scores texts with their trees. Bound the probability of the words by the trees of a parser: "
                "`depgen score --trees sampled`, in Python `score_over_trees`. Or give structure, the heads and "
                "relations of each text."
            )
        result: list[list[Float[np.ndarray, " tokens"]]] = []
        for document, trees in zip(documents, structure, strict=True):
            of_sentences = [np.zeros(len(ids)) for ids in document]
            result.append(of_sentences)
            batch = self._levels(document, trees, vocabulary)
            scores = self.tree_scores(batch.to(self.device)).cpu().double().numpy()
            for row, (sentence, opened) in enumerate(zip(batch.sentences.tolist(), batch.is_open.numpy(), strict=True)):
                of_sentences[sentence][batch.places[row].numpy()[opened]] = scores[row, opened]
        return result

    @torch.inference_mode()
    def tree_log_probs(
        self,
        texts: Sequence[Sequence[int]],
        trees: Sequence[Any],
        *,
        vocabulary: Vocabulary,
        tokens_per_batch: int,
    ) -> Float64[np.ndarray, " texts"]:
        """Log p of each text together with its tree, in nats; -inf of a tree with an expansion that is never written.

        Several texts or trees have levels in common, which are read once.

        Args:
            texts: token ids.
            trees: of each text; see `structure` of `sentence_log_probs`.
            vocabulary: that the system was trained with.
            tokens_per_batch: tokens of the levels that are read at once, padding included.
        """
        result = np.zeros(len(texts))
        sizes = [len(ids) ** 2 for ids in texts]  # at most, of all levels
        for begin, end in pairwise([*budget_starts(sizes, LEVELS_AT_ONCE), len(texts)]):
            batch = self._levels(texts[begin:end], trees[begin:end], vocabulary)
            rows, of_rows = batch.distinct()
            scores = torch.zeros(len(rows), dtype=torch.float64)
            for places, part in batch.select(rows).parts(tokens_per_batch):
                scores[places] = precise(self.tree_scores(part.to(self.device))).sum(1).double().cpu()
            result[begin:end] = batch.of_sentences(scores[of_rows]).numpy()
        return result

    # -- writing (section 3.3) ----------------------------------------------------------------------------------------

    @torch.inference_mode()
    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        vocabulary: Vocabulary,
        options: ExpansionOptions,
        seeds: Sequence[int],
        max_new_tokens: int,
        number: int = 1,
        batch_size: int = 64,
        progress: bool = False,
    ) -> list[Generated]:
        """Texts with the heads and relations of their trees; see `LeftToRight.generate`.

        Arcs of `skeletons` come back as they are given; others are binarised, as the vocabulary's `binarization` says.
        A text that would have more than `max_new_tokens` gets no more dependents at that level: `cut` of the structure.
        Prompts are empty.
        """
        if any(len(prompt) for prompt in prompts):
            raise UserError("ITEXP writes whole texts and continues none: leave out prompts. Trees may be given.")
        tokens, skeletons = min(max_new_tokens, self.longest_scored or max_new_tokens), None
        if options.skeletons is not None:
            skeletons = Skeletons.read(options.skeletons, vocabulary, levels=options.levels, tokens=tokens)
        table = ExpansionTable.of(vocabulary, options, self.device)
        writer, result = LevelWriter(vocabulary, options, table, tokens, skeletons), dict[int, Generated]()
        with progress_bar("generating", total=len(seeds), unit="texts", shown=progress) as advance:
            for first in range(0, len(seeds), batch_size):
                some = range(len(seeds))[first : first + batch_size]
                texts, level = Texts.begun(some, seeds[first : first + batch_size], self.device), 0
                ended = list[Texts]()
                while len(texts.numbers):
                    level += 1
                    texts, chosen = self._written(texts, level, writer)
                    texts = expanded(texts, chosen, table)
                    grows = texts.sizes[1] > 0
                    ended.append(texts.select((~grows).nonzero()[:, 0]))
                    advance(len(ended[-1].numbers))
                    texts = texts.select(grows.nonzero()[:, 0])
                texts = Texts.on_cpu(ended)
                for row, number in enumerate(texts.numbers.tolist()):
                    result[number] = writer.finished(texts, row)
        if cut := sum("cut" in text.structure for text in result.values()):
            logger.warning("%d of %d texts were cut at %d tokens or %d levels", cut, len(seeds), tokens, options.levels)
        return [result[text] for text in range(len(seeds))]

    def _written(self, texts: Texts, level: int, writer: LevelWriter) -> tuple[Texts, Int[Tensor, "rows length"]]:
        """The texts with words in place of the placeholders of a level, and the expansions of these."""
        is_open, choices = texts.is_open, list[tuple[Tensor, Tensor, Tensor]]()

        def choose(scores: Tensor) -> Tensor:
            """Choose expansions, and return what is added to the states: of placeholders alone (D1)."""
            log_probs = expansion_log_probs(scores, restricted=True)
            choices.append((log_probs, *writer.expansions(log_probs, texts, level)))
            return choices[0][1].masked_fill(~is_open, PAD_EXPANSION)

        first = len(self.backbone.output_weight) - self.hparams["placeholders"]
        inputs = torch.where(is_open, texts.labels + first, texts.tokens)
        states, _ = self.encode(inputs, texts.heads, texts.is_word, choose)
        ((of_expansions, chosen, cut),) = choices
        weight, bias = self.outputs(writer.vocabulary.eos, restricted=True)
        opened = texts.opened
        of_words = log_softmax_over_vocabulary(states.flatten(0, 1)[opened], weight, bias)
        words = writer.words(of_words, texts, level)
        at_places = chosen.flatten()[opened]
        joint = of_words.gather(1, words[:, None]) + of_expansions.flatten(0, 1)[opened].gather(1, at_places[:, None])
        rows = opened // texts.tokens.shape[1]
        return replace(
            texts,
            tokens=_placed(words, texts, texts.tokens),
            log_probs=texts.log_probs.index_add(0, rows, joint[:, 0].to(texts.log_probs.dtype)),
            cut=cut,
        ), chosen
