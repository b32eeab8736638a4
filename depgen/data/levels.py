"""Sentences at the levels of their dependency trees: what a system reads that writes a tree from its root down.

Casas, Fonollosa & Costa-jussà (2020), section 3. At level k a sentence consists of its words of depth less than k, and
of a placeholder, such as `[nsubj]`, for each word of depth k. A placeholder becomes a word, and its expansion says
which placeholders come at both sides of it at the next level. `depgen.models.itexp` makes the batches.
"""

import logging
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from jaxtyping import Float, Int

from depgen.data.batch import TokenItem
from depgen.data.corpus import SPLITS, Split
from depgen.data.sampler import ResumableLoader
from depgen.data.table import EncodedSplit
from depgen.data.text import TextData
from depgen.data.vocabulary import Vocabulary, VocabularyBuilder, WordVocabulary
from depgen.errors import UserError
from depgen.trees.binarization import (
    HEAD,
    ROOT,
    SUBWORD,
    Binarization,
    binary_dependencies,
    depths,
    expansions,
    lifted,
    numbered_through,
    written_tree,
)
from depgen.trees.sentence import Document, Sentence

logger = logging.getLogger(__name__)

PAD_EXPANSION, UNKNOWN_EXPANSION = 0, 1
"""Rows of the table of expansions: of words that are written already, and of expansions not seen in training."""
SENTENCES_AT_ONCE = 1000
"""Sentences whose trees a vocabulary is built from at once."""


def binarization_of(vocabulary: Vocabulary) -> Binarization:
    """How trees are binarised that are written with a vocabulary."""
    if "binarization" not in vocabulary.tables:
        raise UserError(
            "The vocabulary has no placeholders and no expansions: set data.init_args.vocabulary to "
            "depgen.data.levels.ExpansionVocabulary."
        )
    (binarization,) = vocabulary.tables["binarization"]
    return cast(Binarization, binarization)


class ExpansionVocabulary:
    """Builds a vocabulary with a placeholder for each label, its last types, and a table of expansions.

    Args:
        words: builds the vocabulary of words or pieces, which is not changed; all words by default.
        binarization: see `depgen.trees.binarization`; the paper's is `left-right`.
    """

    reads_trees = True

    def __init__(self, words: VocabularyBuilder | None = None, *, binarization: Binarization = "left-right") -> None:
        self.words, self.binarization = words or WordVocabulary(), binarization

    def build(self, documents: Iterable[Document]) -> Vocabulary:
        """The vocabulary of the documents, whose sentences have trees."""
        words, labels = Counter[tuple[str, tuple[str, ...]]](), Counter[str]()

        def counted() -> Iterator[Document]:
            """The documents; labels, and words with their expansions, are counted while they pass."""
            waiting: list[Sentence] = []
            for document in documents:
                waiting += [sentence for sentence in document.sentences if sentence.heads is not None and len(sentence)]
                if len(waiting) >= SENTENCES_AT_ONCE:
                    self._count(waiting, words, labels)
                    waiting = []
                yield document
            if waiting:
                self._count(waiting, words, labels)

        passing = counted()
        vocabulary = self.words.build(passing)
        deque(passing, maxlen=0)  # a builder may leave out the rest, or all
        patterns = Counter[tuple[str, ...]]({(HEAD,): 1})  # without it no sentence ends
        for (word, pattern), count in words.items():
            pieces = len(vocabulary.pieces(word))
            for pattern_of_piece in _of_pieces(pattern, pieces):
                patterns[pattern_of_piece] += count
            labels[SUBWORD] += count * (pieces - 1)
        rows = sorted(patterns, key=lambda row: (-patterns[row], row))
        tables = {
            "expansions": [["<pad>"], ["<unk>"], *map(list, rows)],
            "binarization": [self.binarization],
        }
        return with_placeholders(vocabulary, [ROOT, *sorted((+labels).keys() - {ROOT})], tables)

    def _count(
        self, sentences: Sequence[Sentence], words: Counter[tuple[str, tuple[str, ...]]], labels: Counter[str]
    ) -> None:
        starts = np.cumsum([0, *map(len, sentences)])[:-1]
        heads = numbered_through(np.concatenate([sentence.heads for sentence in sentences]), starts)
        relations = [sentence.relations or ("dep",) * len(sentence) for sentence in sentences]
        heads, names = written_tree(heads, [*chain.from_iterable(relations)], self.binarization, starts)
        labels.update(names)
        words.update(zip(chain.from_iterable(s.words for s in sentences), expansions(heads, names), strict=True))

    def fingerprint(self) -> str:
        """The options, as a string."""
        return f"expansions {self.binarization} of {self.words.fingerprint()}"


def _of_pieces(pattern: tuple[str, ...], pieces: int) -> Iterator[tuple[str, ...]]:
    """The expansions of a word's pieces: each later one hangs on the one before, at its right."""
    left, right = pattern[: pattern.index(HEAD)], pattern[pattern.index(HEAD) + 1 :]
    for piece in range(pieces):
        before = left if piece == 0 else ()
        yield (*before, HEAD, *(right if piece == pieces - 1 else (SUBWORD,)))


def with_placeholders(vocabulary: Vocabulary, labels: Sequence[str], tables: dict[str, Any]) -> Vocabulary:
    """The same vocabulary with a placeholder `[label]` for each label as its last types, in this order, and tables."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(vocabulary.tokenizer)
    names = [f"[{label}]" for label in labels]
    if spelt := [name for name in names if tokenizer.token_to_id(name) is not None]:
        raise UserError(f"The vocabulary has a word {spelt[0]!r}, which is a placeholder's name: change the corpus.")
    tokenizer.add_special_tokens(names)
    specials = {**vocabulary.specials, **{name: name for name in names}}
    more = {**vocabulary.tables, **tables, "placeholders": list(labels)}
    return Vocabulary(tokenizer.to_str(), specials=specials, tables=more)


@dataclass(frozen=True)
class LevelItem:
    """A sentence with its tree, and the level at which it is read.

    Attributes:
        sentence: the item; its heads are those of the tree that was annotated.
        level: 1 is the level of the root; None: all levels.
        weight: factor of its loss.
    """

    sentence: TokenItem
    level: int | None = None
    weight: float = 1.0


@dataclass(frozen=True)
class LevelItems:
    """Items of a split, each a sentence at one level or at all of them; see `LevelData`.

    Attributes:
        sentences: the split.
        places: of each item the sentence.
        levels: of each item the level; 0 = all.
        lengths: of each item the tokens that are read.
        tokens: of each item what a loss is divided by.
        weights: see `LevelItem`.
    """

    sentences: EncodedSplit
    places: Int[np.ndarray, " items"]
    levels: Int[np.ndarray, " items"]
    lengths: Int[np.ndarray, " items"]
    tokens: Int[np.ndarray, " items"]
    weights: Float[np.ndarray, " items"] | None = None

    def __getitem__(self, index: int) -> LevelItem:
        weight = 1.0 if self.weights is None else float(self.weights[index])
        return LevelItem(self.sentences[int(self.places[index])], int(self.levels[index]) or None, weight)


class LevelData(TextData):
    """Sentences at the levels of their trees, in batches of a budget of tokens that are read; more in `TextData`.

    A loss is divided by all tokens that are read, words written before included, as in the authors' code. At validation
    and test a sentence is read at all levels, and figures are over its tokens.

    Args:
        corpus: of single sentences; see `depgen.data.steps.SingleSentences`.
        levels_per_sentence: `all`: an item of training is a sentence at one of its levels, so that an epoch sees all
            levels; 1: an item is a sentence, whose level is drawn again in every epoch. It weighs by the number of the
            sentence's levels, so that every level of every sentence counts the same.
        kwargs: the other arguments of `TextData`. All splits get trees, as texts are scored with them. Dependents at
            the left hang on the first piece, as in the authors' code.
    """

    def __init__(
        self,
        *args: Any,  # noqa: ANN401
        levels_per_sentence: Literal["all", 1] = "all",
        **kwargs: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(*args, trees_for=SPLITS, left_dependents="first_piece", **kwargs)
        self.levels_per_sentence = levels_per_sentence
        self._sizes: dict[Split, tuple[Int[np.ndarray, " sentences"], Int[np.ndarray, " levels"]]] = {}

    def use_vocabulary(self, file: Path) -> None:
        """Take the vocabulary of a run folder; nothing is rebuilt."""
        super().use_vocabulary(file)
        self._sizes.clear()

    def level_sizes(self, split: Split) -> tuple[Int[np.ndarray, " sentences"], Int[np.ndarray, " levels"]]:
        """The number of levels of each sentence; and of each level of all sentences the tokens that are read."""
        if split not in self._sizes:
            data, binarization = self.filled_split(split), binarization_of(self.vocabulary)
            lengths = data.lengths - 1
            starts = np.cumsum(lengths) - lengths
            heads = np.full(lengths.sum(), -1)
            if "heads" in data.table.column_names:
                heads = np.concatenate([*data.columns.values("heads")], dtype=np.int64)
            if len(bare := np.flatnonzero(np.minimum.reduceat(heads, starts) < 0)):
                raise UserError(
                    f"{self.corpus.name}, {split}, sentence {bare[0] + 1}: expected a dependency tree, found none: set "
                    "data.init_args.annotator."
                )
            heads = numbered_through(heads, starts)
            regular = lifted(heads, starts)
            if (changed := np.maximum.reduceat(regular != heads, starts)).any():
                logger.info(
                    "%s %s: %d of %d trees have crossing arcs or several roots, the first that of sentence %d; they "
                    "are made projective with one root.",
                    self.corpus.name, split, changed.sum(), len(changed), changed.argmax() + 1,
                )  # fmt: skip
            deep = depths(binary_dependencies(regular, binarization=binarization))
            levels = np.maximum.reduceat(deep, starts)
            firsts = np.cumsum(levels) - levels  # the number of each sentence's first level among those of all
            at_level = np.bincount(np.repeat(firsts, lengths) + deep - 1)
            self._sizes[split] = levels, np.cumsum(at_level) - np.repeat(starts, levels)
        return self._sizes[split]

    def items(self, split: Split, epoch: int | None = None) -> LevelItems:
        """The items of an epoch of training; without one, each sentence once, read at all of its levels."""
        deepest, read = self.level_sizes(split)
        sentences, firsts, places = self.filled_split(split), np.cumsum(deepest) - deepest, np.arange(len(deepest))
        if epoch is None:
            whole = np.add.reduceat(read, firsts)
            return LevelItems(sentences, places, np.zeros_like(places), whole, sentences.lengths - 1)
        if self.levels_per_sentence == "all":
            places = np.repeat(places, deepest)
            return LevelItems(sentences, places, np.arange(len(places)) - firsts[places] + 1, read, read)
        drawn = np.random.default_rng((self.seed, epoch, 2)).random(len(deepest))
        levels = 1 + (drawn * deepest).astype(np.int64)
        lengths = read[firsts + levels - 1]
        # A batch is divided by its own tokens, as with all levels. Batches have levels of like length: if each were
        # divided by the tokens of its sentences at all levels, one of many short levels would weigh too little.
        return LevelItems(sentences, places, levels, lengths, lengths, deepest / deepest.mean())

    def _batched(self, split: Split, epoch: int | None) -> ResumableLoader:
        """Sentences at the levels of an epoch; at validation and test every sentence once."""
        self._read_whole(split)
        items = self.items(split, epoch)
        return self._by_length(items, self._budget(epoch), epoch, tokens=items.tokens)
