"""Sentences at the levels of their dependency trees: what a system reads that writes a tree from its root down.

Casas, Fonollosa & Costa-jussà (2020), section 3. At level k a sentence consists of its words of depth less than k, and
of a placeholder, such as `[nsubj]`, for each word of depth k. A placeholder becomes a word, and its expansion says
which placeholders come at both sides of it at the next level.
"""

import logging
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int

from depgen.data.batch import TokenItem
from depgen.data.corpus import Split
from depgen.data.level_batch import collate_levels
from depgen.data.level_items import ROOT, IrregularTrees, LevelItem, TreeForm
from depgen.data.module import Collate
from depgen.data.sampler import ResumableLoader
from depgen.data.table import EncodedSplit
from depgen.data.text import TextData
from depgen.data.vocabulary import TOKENIZER_FILE, Vocabulary, VocabularyBuilder, WordVocabulary
from depgen.errors import UserError, check_at_least
from depgen.trees.binarization import (
    HEAD,
    SUBWORD,
    Binarization,
    expansions,
    is_regular,
)
from depgen.trees.sentence import Document
from depgen.trees.tree import check_tree

log = logging.getLogger(__name__)


class ExpansionVocabulary:
    """Builds a vocabulary with a placeholder for each label, its last types, and a table of expansions.

    Args:
        words: builds the vocabulary of words or pieces, which is not changed; all words by default.
        binarization: see `depgen.trees.binarization`; the paper's is `left-right`.
        lossless: see `TreeForm`; not in the paper.
        irregular: see `TreeForm`.
        max_expansions: keep at most this number of expansions, the most frequent; None: all. Others become unknown.

    Raises:
        UserError: `max_expansions` is below 1, or `lossless` goes with another binarisation.
    """

    reads_trees = True

    def __init__(
        self,
        words: VocabularyBuilder | None = None,
        *,
        binarization: Binarization = "left-right",
        lossless: bool = False,
        irregular: IrregularTrees = "lift",
        max_expansions: int | None = None,
    ) -> None:
        check_at_least(1, max_expansions=max_expansions)
        self.words, self.max_expansions = words or WordVocabulary(), max_expansions
        self.form = TreeForm(binarization, lossless, irregular)

    def build(self, documents: Iterable[Document]) -> Vocabulary:
        """The vocabulary of the documents, whose sentences have trees."""
        seen = Counter[tuple[str, tuple[str, ...], tuple[str, ...]]]()
        labels = Counter[str]()
        recorded = self._recorded(documents, seen, labels)
        vocabulary = self.words.build(recorded)
        deque(recorded, maxlen=0)  # a builder may leave out the rest, or all
        patterns = Counter[tuple[str, ...]]({(HEAD,): 1})
        for (word, left, right), count in seen.items():
            pieces = len(vocabulary.pieces(word))
            for pattern in _of_pieces(left, right, pieces):
                patterns[pattern] += count
            labels[SUBWORD] += count * (pieces - 1)
        placeholders = [ROOT, *sorted((+labels).keys() - {ROOT})]
        rows = sorted(patterns, key=lambda row: (-patterns[row], row))[: self.max_expansions]
        if (HEAD,) not in rows:  # without it no sentence ends
            rows[-1] = (HEAD,)
        form = self.form
        return with_placeholders(
            vocabulary,
            placeholders,
            {
                "expansions": [["<pad>"], ["<unk>"], *map(list, rows)],
                "trees": [form.binarization, "lossless" if form.lossless else "", form.irregular],
            },
        )

    def _recorded(self, documents: Iterable[Document], seen: Counter[Any], labels: Counter[str]) -> Iterator[Document]:
        """The documents; the labels and words with their dependents' labels are counted while they pass."""
        for document in documents:
            for sentence in document.sentences:
                if sentence.heads is None or not len(sentence):
                    continue
                relations = sentence.relations or ("dep",) * len(sentence)
                if self.form.irregular == "leave_out" and not is_regular(sentence.heads):
                    continue
                heads, names = self.form.written(sentence.heads, relations)
                labels.update(names)
                for word, row in zip(sentence.words, expansions(heads, names), strict=True):
                    place = row.index(HEAD)
                    seen[word, row[:place], row[place + 1 :]] += 1
            yield document

    def fingerprint(self) -> str:
        """The options, as a string."""
        form = self.form
        lossless = " lossless" if form.lossless else ""
        most = "" if self.max_expansions is None else f" max_expansions={self.max_expansions}"
        return f"expansions {form.binarization}{lossless} {form.irregular}{most} of {self.words.fingerprint()}"


def _of_pieces(left: tuple[str, ...], right: tuple[str, ...], pieces: int) -> Iterator[tuple[str, ...]]:
    """The expansions of a word's pieces: each later one hangs on the one before, at its right."""
    for piece in range(pieces):
        before = left if piece == 0 else ()
        yield (*before, HEAD, *(right if piece == pieces - 1 else (SUBWORD,)))


def with_placeholders(vocabulary: Vocabulary, labels: Sequence[str], tables: dict[str, Any]) -> Vocabulary:
    """The same vocabulary with a placeholder `[label]` for each label as its last types, in this order, and tables.

    Raises:
        UserError: the vocabulary has a word that is spelt like a placeholder.
    """
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(vocabulary.files()[TOKENIZER_FILE])
    names = [f"[{label}]" for label in labels]
    if spelt := [name for name in names if tokenizer.token_to_id(name) is not None]:
        raise UserError(f"The vocabulary has a word {spelt[0]!r}, which is a placeholder's name: change the corpus.")
    tokenizer.add_special_tokens(names)
    specials = {**vocabulary.specials, **{name: name for name in names}}
    more = {**vocabulary.tables, **tables, "placeholders": list(labels)}
    return Vocabulary(tokenizer.to_str(), specials=specials, tables=more)


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
        level = int(self.levels[index])
        weight = 1.0 if self.weights is None else float(self.weights[index])
        return LevelItem(self.sentences[int(self.places[index])], (level,) if level else None, weight)


@dataclass(frozen=True)
class SplitLevels:
    """The levels of a split's sentences.

    Attributes:
        kept: the sentences that are read.
        firsts: the number of each sentence's first level among those of all, and the end.
        down_to: tokens down to each level.
        at: tokens at each level.
    """

    kept: Int[np.ndarray, " kept"]
    firsts: Int[np.ndarray, " sentences_and_one"]
    down_to: Int[np.ndarray, " levels"]
    at: Int[np.ndarray, " levels"]

    @property
    def deepest(self) -> Int[np.ndarray, " sentences"]:
        """The number of levels of each sentence."""
        return np.diff(self.firsts)


class LevelData(TextData):
    """Sentences at the levels of their trees, in batches of a budget of tokens that are read; more in `TextData`.

    Args:
        corpus: of single sentences; see `depgen.data.steps.SingleSentences`.
        levels_per_sentence: `all`: an item of training is a sentence at one of its levels, so that an epoch sees all
            levels; 1: an item is a sentence, whose level is drawn again in every epoch. It weighs by the number of the
            sentence's levels, so that every level of every sentence counts the same. At validation and test a sentence
            is read at all levels.
        loss_per: what a loss is divided by: `position`, every token that is read, words written before included, as in
            the authors' code; or `written`, the tokens whose placeholders are predicted.
        trees_for: the splits that get trees; all three by default, since texts are scored with their trees.
        left_dependents: see `CorpusData`; the authors' code has dependents at the left hang on the first piece.
        kwargs: the other arguments of `TextData`.
    """

    def __init__(
        self,
        *args: Any,  # noqa: ANN401
        levels_per_sentence: Literal["all"] | int = "all",
        loss_per: Literal["position", "written"] = "position",
        trees_for: Sequence[Split] = ("train", "valid", "test"),
        left_dependents: Literal["first_piece"] = "first_piece",
        **kwargs: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(*args, trees_for=trees_for, left_dependents=left_dependents, **kwargs)
        if levels_per_sentence not in ("all", 1):
            raise UserError(f"levels_per_sentence: expected all or 1, found {levels_per_sentence}.")
        self.levels_per_sentence, self.loss_per = levels_per_sentence, loss_per
        self._levels: dict[Split, SplitLevels] = {}

    def split_levels(self, split: Split) -> SplitLevels:
        """The levels of a split's sentences, computed once.

        Raises:
            UserError: a sentence has no tree.
        """
        if split not in self._levels:
            self._levels[split] = self._found_levels(split)
        return self._levels[split]

    def _found_levels(self, split: Split) -> SplitLevels:
        from depgen.trees.tree_arrays import level_sizes, regular_trees

        data, form = self.filled_split(split), TreeForm.of(self.vocabulary)
        has_trees = "heads" in data.table.column_names
        heads = np.concatenate([*data.columns.values("heads")], dtype=np.int64) if has_trees else np.zeros(0, np.int64)
        offsets = np.concatenate([[0], (data.lengths - 1).cumsum()])
        first_bare = int(np.searchsorted(offsets, np.argmax(heads < 0), side="right")) if (heads < 0).any() else 0
        if not has_trees or first_bare:
            place = f", sentence {first_bare}" if first_bare else ""
            raise UserError(
                f"{self.corpus.name}, {split}{place}: expected a dependency tree, found none. Set "
                f"data.init_args.annotator, and trees_for to all splits."
            )
        inside_out, moves = form.binarization == "inside-out", form.binarization != "none"
        depths, needs = regular_trees(heads, offsets, inside_out, moves)
        self._say_irregular(split, needs, form)
        kept = np.flatnonzero(needs == 0) if form.irregular == "leave_out" else np.arange(len(data))
        if not len(kept):
            raise UserError(
                f"{self.corpus.name}, {split}: all {len(data)} trees have crossing arcs or several roots: set "
                "irregular of data.init_args.vocabulary to lift."
            )
        return SplitLevels(kept, *level_sizes(depths, offsets))

    def _say_irregular(self, split: Split, needs: Int[np.ndarray, " sentences"], form: TreeForm) -> None:
        irregular = np.flatnonzero(needs)
        if len(irregular):
            log.info(
                "%s %s: %d of %d trees have crossing arcs and %d several roots, the first that of sentence %d; they "
                "are %s.",
                self.corpus.name, split, (needs >= 2).sum(), len(needs), (needs % 2).sum(), irregular[0] + 1,
                "made projective with one root" if form.irregular == "lift" else "left out",
            )  # fmt: skip

    @property
    def plain_collate(self) -> Collate:
        """Sentences at their levels."""
        return collate_levels

    def items(self, split: Split) -> LevelItems:
        """Each sentence once, read at all of its levels."""
        found = self.split_levels(split)
        read = np.add.reduceat(found.down_to, found.firsts[:-1])[found.kept]
        words = np.add.reduceat(found.at, found.firsts[:-1])[found.kept]
        return LevelItems(self.filled_split(split), found.kept, np.zeros_like(found.kept), read, words)

    def training_items(self, epoch: int) -> LevelItems:
        """The items of an epoch of training."""
        found, sentences = self.split_levels("train"), self.filled_split("train")
        divisors = found.down_to if self.loss_per == "position" else found.at
        deepest = found.deepest[found.kept]
        if self.levels_per_sentence == "all":
            places = np.repeat(found.kept, deepest)
            before = np.repeat(np.cumsum(deepest) - deepest, deepest)
            levels = np.arange(len(places)) - before + 1
            rows = found.firsts[places] + levels - 1
            return LevelItems(sentences, places, levels, found.down_to[rows], divisors[rows])
        drawn = np.random.default_rng((self.seed, epoch, 2)).random(len(found.kept))
        levels = 1 + (drawn * deepest).astype(np.int64)
        rows = found.firsts[found.kept] + levels - 1
        # A batch is divided by its own tokens, as with all levels. Batches have levels of like length: if each were
        # divided by the tokens of its sentences at all levels, one of many short levels would weigh too little.
        weights = deepest / deepest.mean()
        return LevelItems(sentences, found.kept, levels, found.down_to[rows], divisors[rows], weights)

    def _batched(self, split: Split, epoch: int | None) -> ResumableLoader:
        """Sentences at the levels of an epoch; at validation and test every sentence once."""
        self._check_that_all_are_read(split, self.filled_split(split))
        items = self.items(split) if epoch is None else self.training_items(epoch)
        return self._by_length(items, self._budget(epoch), epoch, tokens=items.tokens)


def sentence_item(ids: Sequence[int], structure: Any) -> LevelItem:  # noqa: ANN401
    """A text with the heads and relations of its tree, read at all levels.

    Raises:
        UserError: the structure is no tree over the text's tokens.
    """
    heads, relations = structure
    if len(heads) != len(ids) or len(relations) != len(ids):
        found = f"{len(heads)} heads and {len(relations)} relations"
        raise UserError(f"A tree over {len(ids)} tokens: expected as many heads and relations, found {found}.")
    if not len(ids):
        raise UserError("A text with its tree: expected one token or more, found none: leave it out.")
    check_tree([int(head) for head in heads], "structure")
    return LevelItem(TokenItem(0, np.asarray(ids), np.asarray(heads), relations=np.array(relations, dtype=object)))
