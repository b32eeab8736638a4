"""Vocabularies: token types of a `tokenizers.Tokenizer` with named special ones and side tables, saved with the run.

Types are words (WordLevel) or pieces (byte-level BPE; in ready tokenizers Unigram too). Texts are encoded word by word.
Vocabularies that are built here begin with `<eos>`, which also begins a sequence, `<unk>` and other special tokens.
Padding has no id.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, repeat
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Int

from depgen.data.corpus import Corpus
from depgen.errors import UserError, check_at_least
from depgen.hub import TOKENIZER_FILE, required_folder
from depgen.locations import file_sha256, lines_sha256, text_of_file, write_atomically
from depgen.training.runs import run_of_name
from depgen.trees.sentence import Document

EOS, UNK = 0, 1
EOS_WORD, UNK_WORD = "<eos>", "<unk>"
SPELLINGS = {"eos": EOS_WORD, "unk": UNK_WORD, "mask_id": "<mask>", "start": "<s>"}
"""How the special tokens with a meaning are spelt; any other name is its own spelling."""
SPACE_MARKERS = "Ġ▁"
"""With which the first piece of a word begins: in byte-level BPE, in Unigram."""
VOCABULARY_FILE = "vocabulary.json"
"""In a run folder, what `Vocabulary.to_json` gives."""
LABELS = "labels"
"""The table of a vocabulary that holds the labels of constituents, for systems that write trees with their texts."""

Table = Sequence[str] | Sequence[Sequence[str]]


@dataclass(frozen=True)
class Encoding:
    """Token ids of words.

    Attributes:
        ids: one id a piece, without beginning or end.
        word_of_piece: 0-based index of the word that each piece belongs to, never decreasing.
    """

    ids: Int[np.ndarray, " pieces"]
    word_of_piece: Int[np.ndarray, " pieces"]


class Vocabulary:
    """The token types of a tokenizer, whose ids are kept.

    Args:
        tokenizer: the JSON of a tokenizer of the `tokenizers` library.
        specials: from the name of each special token to its spelling in the tokenizer. `eos`, `unk`, `mask_id` and
            `start` have a meaning; systems give others theirs.
        tables: side tables by name, which a builder makes and a system reads: strings, or rows of strings.
        reads_specials: whether the spelling of a special token in a text is that token, as in transformers, and not
            other pieces.

    Attributes:
        special_ids: from the name of each special token to its id.
        eos: the end of a sequence; of pretrained models that know none, a token that only fills up batches.
        has_end: whether there is an end of a sequence.
        unk: the unknown word; -1 if there is none.
        mask_id: a masked word; None if no word can be masked.
        start: the beginning of a sequence; `eos` if it has no id for itself.
        size: number of token types: one more than the largest id.

    >>> vocabulary = Vocabulary.of_words(["the", "cat"], specials=["mask_id", "[nsubj]"])
    >>> vocabulary.size, vocabulary.pieces("cat"), vocabulary.decode([4, 5, 1]), vocabulary.special_ids["[nsubj]"]
    (6, (5,), 'the cat <unk>', 3)
    """

    def __init__(
        self,
        tokenizer: str,
        *,
        specials: Mapping[str, str],
        tables: Mapping[str, Table] | None = None,
        reads_specials: bool = False,
    ) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_str(tokenizer)
        self._tokenizer.encode_special_tokens = not reads_specials
        self.reads_specials = reads_specials
        self.tokenizer, self.specials = tokenizer, dict(specials)
        self.tables: dict[str, list[Any]] = {
            name: [row if isinstance(row, str) else list(row) for row in rows] for name, rows in (tables or {}).items()
        }
        self.special_ids: dict[str, int] = {}
        for name, spelling in self.specials.items():
            if (special := self._tokenizer.token_to_id(spelling)) is None:
                raise UserError(
                    f"The tokenizer has no token {spelling!r} to be its {name}; name one that it has (its end-of-text "
                    "token by eos_token)."
                )
            self.special_ids[name] = special
        self.has_end = "eos" in self.special_ids
        self.eos: int = self.special_ids.get("eos", 0)
        self.unk: int = self.special_ids.get("unk", -1)
        self.mask_id: int | None = self.special_ids.get("mask_id")
        self.start: int = self.special_ids.get("start", self.eos)
        self.splits_words = type(self._tokenizer.model).__name__ != "WordLevel"
        self.size: int = 1 + max(self._tokenizer.get_vocab(with_added_tokens=True).values())
        self._known: tuple[dict[str, tuple[int, ...]], ...] = ({}, {})  # without and with a space before the word
        self._special = frozenset(self.special_ids.values())

    @classmethod
    def of_words(
        cls, words: Sequence[str], *, specials: Sequence[str] = (), tables: Mapping[str, Table] | None = None
    ) -> "Vocabulary":
        """A vocabulary of words: `<eos>`, `<unk>`, the other special tokens by name, then the words in their order."""
        from tokenizers import Tokenizer, models, pre_tokenizers

        named = special_tokens(specials)
        types = [*named.values(), *words]
        if len(set(types)) < len(types):
            twice = Counter(types).most_common(1)[0][0]
            raise UserError(f"The vocabulary lists {twice!r} twice, or as a word though it is a special token.")
        ids = {word: index for index, word in enumerate(types)}
        tokenizer = Tokenizer(models.WordLevel(ids, named["unk"]))
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        return cls(tokenizer.to_str(), specials=named, tables=tables)

    @classmethod
    def of_json(cls, text: str, where: Path | str) -> "Vocabulary":
        """The vocabulary that `to_json` gave the text of; `where` it lies is for the message."""
        try:
            content = json.loads(text)
            tokenizer, specials, tables = content["tokenizer"], content["specials"], content["tables"]
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"{where}: expected a vocabulary, found: {error!r}. Copy the file again.") from error
        return cls(tokenizer, specials=specials, tables=tables)

    def with_tables(self, tables: Mapping[str, Table]) -> "Vocabulary":
        """The same vocabulary with more side tables."""
        return type(self)(self.tokenizer, specials=self.specials, tables={**self.tables, **tables})

    @cached_property
    def types(self) -> tuple[str, ...]:
        """The spelling of every token type, by id, as in the tokenizer; empty where an id has none."""
        return tuple(self._tokenizer.id_to_token(index) or "" for index in range(self.size))

    @cached_property
    def opens_word(self) -> Bool[np.ndarray, " vocab"]:
        """Whether each token type is the first of a word's pieces; `<unk>` is one in a vocabulary of words.

        The first word of a text that is encoded without a space before it is not seen, and a word with a space or a
        literal `▁` inside seems to be several.

        Raises:
            UserError: the tokenizer does not mark the beginnings of words.
        """
        if not self.splits_words:
            return np.array([index == self.unk or index not in self._special for index in range(self.size)])
        marked = [np.array([spelling.startswith(marker) for spelling in self.types]) for marker in SPACE_MARKERS]
        opens = max(marked, key=np.sum)
        if not opens.any():
            raise UserError(f"Expected a tokenizer whose words begin with {' or '.join(SPACE_MARKERS)}, found neither.")
        opens[list(self._special)] = False
        return opens

    def word_of_token(self, ids: Sequence[int] | Int[np.ndarray, " length"]) -> Int[np.ndarray, " length"]:
        """The number, from 1, of the word of each token of a text: see `opens_word`; the first token begins a word."""
        opens = self.opens_word[np.asarray(ids, np.int64)]
        opens[:1] = True
        return np.cumsum(opens)

    def pieces(self, word: str, *, space: bool = True) -> tuple[int, ...]:
        """The ids of a word, at least one; pieces by default with a space before the word.

        Unless the vocabulary `reads_specials`, a word that is spelt like a special token never gets its id: it is
        unknown, or cut into other pieces.
        """
        known = self._known[space].get(word)
        if known is not None:
            return known
        ids: Sequence[int | None]
        if self.splits_words:
            ids = self._tokenizer.encode(f" {word}" if space else word, add_special_tokens=False).ids
        else:
            ids = [self._tokenizer.token_to_id(word)]
        never = frozenset[int]() if self.reads_specials else self._special
        pieces = tuple(self.unk if index is None or index in never else index for index in ids) or (self.unk,)
        if -1 in pieces:
            raise UserError(f"The tokenizer gives no piece for the word {word!r} and has no unknown token.")
        self._known[space][word] = pieces
        return pieces

    def decode(self, ids: Iterable[int]) -> str:
        """Text: words with a space between; of pieces, the tokenizer's own spacing without a leading space.

        The byte 0, which no file of text holds, becomes U+FFFD, as bytes do that are no character.
        """
        text = str(self._tokenizer.decode(list(ids), skip_special_tokens=False)).replace("\0", "\ufffd")
        return text.strip() if self.splits_words else text

    def to_json(self) -> str:
        """All of the vocabulary, the tokenizer's JSON as a string: what a run folder and a checkpoint hold."""
        content = {"specials": self.specials, "tables": self.tables, "tokenizer": self.tokenizer}
        return json.dumps(content, ensure_ascii=False, indent=1) + "\n"

    def save(self, file: Path) -> None:
        """Write `to_json` into a file."""
        write_atomically(file, self.to_json())

    def __reduce__(self) -> tuple[Callable[..., "Vocabulary"], tuple[str]]:
        made = partial(type(self), specials=self.specials, tables=self.tables, reads_specials=self.reads_specials)
        return made, (self.tokenizer,)


def special_tokens(names: Sequence[str] = ()) -> dict[str, str]:
    """The spelling of `eos`, `unk` and the named special tokens, in the order of their ids.

    >>> special_tokens(["mask_id", "[nsubj]"])
    {'eos': '<eos>', 'unk': '<unk>', 'mask_id': '<mask>', '[nsubj]': '[nsubj]'}
    """
    named = {name: SPELLINGS.get(name, name) for name in ("eos", "unk", *names)}
    if len(set(named.values())) < 2 + len(names):
        raise UserError(f"Expected special tokens of different names and spellings, found {', '.join(names)}.")
    return named


def encode(vocabulary: Vocabulary, words: Sequence[str], *, first_word_space: bool = True) -> Encoding:
    """The ids of a word sequence and the word that each piece belongs to.

    Without `first_word_space` a vocabulary of pieces encodes the first word without a space before it.
    """
    pieces = [vocabulary.pieces(word) for word in words]
    if pieces and not first_word_space:
        pieces[0] = vocabulary.pieces(words[0], space=False)
    counts = [len(piece) for piece in pieces]
    ids = np.fromiter(chain.from_iterable(pieces), dtype=np.int32, count=sum(counts))
    return Encoding(ids, np.repeat(np.arange(len(words), dtype=np.int32), counts))


def is_unknown(vocabulary: Vocabulary, word: str) -> bool:
    """Whether a word, or a part of it, is encoded as `<unk>`."""
    return vocabulary.unk in vocabulary.pieces(word)


# -- building ---------------------------------------------------------------------------------------------------------


@runtime_checkable
class VocabularyBuilder(Protocol):
    """How a vocabulary is built from documents: annotated ones, where an attribute `reads_trees` is true."""

    def build(self, documents: Iterable[Document]) -> Vocabulary:
        """A vocabulary from the documents of the splits that it may see."""
        ...

    def fingerprint(self) -> str:
        """The options, as a string."""
        ...


def word_counts(documents: Iterable[Document]) -> Counter[str]:
    """How often each word occurs."""
    return Counter(word for document in documents for word in document.words())


class WordVocabulary:
    """Builds a vocabulary of whole words.

    Args:
        min_count: words seen less often become `<unk>`.
        max_size: keep at most this number of types, special ones included; at least one more than these.
        masks: whether there is a `<mask>`, which masked language models need.
        starts: whether sequences begin with `<s>` instead of `<eos>`.
        specials: names of further special tokens.
    """

    def __init__(
        self,
        min_count: int = 1,
        max_size: int | None = None,
        masks: bool = False,
        starts: bool = False,
        specials: Sequence[str] = (),
    ) -> None:
        self.min_count, self.max_size = min_count, max_size
        self.specials = (*(["mask_id"] if masks else []), *(["start"] if starts else []), *specials)
        self._special = list(special_tokens(self.specials).values())
        check_at_least(len(self._special) + 1, max_size=max_size)

    def build(self, documents: Iterable[Document]) -> Vocabulary:
        """The most frequent words, ties by spelling."""
        counts = word_counts(documents)
        words = [word for word, count in counts.items() if count >= self.min_count and word not in self._special]
        words.sort(key=lambda word: (-counts[word], word))
        most = None if self.max_size is None else self.max_size - len(self._special)
        return Vocabulary.of_words(words[:most], specials=self.specials)

    def fingerprint(self) -> str:
        """The options, as a string."""
        return f"word min_count={self.min_count} max_size={self.max_size} specials={self.specials}"


class SubwordPieces:
    """Builds a byte-level BPE vocabulary (Radford et al., 2019), or takes a ready tokenizer.

    Args:
        size: number of types, the special ones and the 256 bytes included, which are never left out; not used with
            `tokenizer`.
        tokenizer: path of a `tokenizer.json`, a run, or what `depgen.hub` finds a model's folder by.
        eos_token: the ready tokenizer's end-of-text token (GPT-2: `<|endoftext|>`).
        specials: names of further special tokens; a ready tokenizer must have them.
    """

    def __init__(
        self, size: int = 8000, tokenizer: str | None = None, eos_token: str = EOS_WORD, specials: Sequence[str] = ()
    ) -> None:
        self.size, self.tokenizer, self.eos_token, self.specials = size, tokenizer, eos_token, tuple(specials)

    def build(self, documents: Iterable[Document]) -> Vocabulary:
        """Pieces learnt from the words of the documents, or the ready ones.

        Each word is learnt as a text with one space before it, so that no piece spans two words.
        """
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

        named = special_tokens(self.specials)
        if self.tokenizer is not None:
            del named["unk"]
            return Vocabulary(self._ready(), specials={**named, "eos": self.eos_token})
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=self.size,
            special_tokens=list(named.values()),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        texts = (repeat(f" {word}", count) for word, count in sorted(word_counts(documents).items()))
        tokenizer.train_from_iterator(chain.from_iterable(texts), trainer)
        return Vocabulary(tokenizer.to_str(), specials=named)

    def fingerprint(self) -> str:
        """The options, as a string; a ready tokenizer by its content."""
        made = f"bpe size={self.size}"
        if self.tokenizer is not None:
            made = f"tokenizer {lines_sha256([self._ready()])} eos={self.eos_token}"
        return f"{made} specials={self.specials}"

    def _ready(self) -> str:
        """The JSON of the ready tokenizer."""
        assert self.tokenizer is not None
        if (run := run_of_name(self.tokenizer)) is not None:
            return load_vocabulary(run / VOCABULARY_FILE).tokenizer
        path = Path(self.tokenizer).expanduser()
        return text_of_file(
            path if path.is_file() else required_folder(self.tokenizer, holding=TOKENIZER_FILE) / TOKENIZER_FILE
        )


class CorpusVocabulary:
    """Builds on a corpus's training split, whichever part of it a run learns from.

    Perplexities of runs on parts of different size compare only where all predict words out of the same vocabulary.

    Args:
        corpus: whose training split the builder is given.
        builder: builds the vocabulary; every word by default.
    """

    def __init__(self, corpus: Corpus, builder: VocabularyBuilder | None = None) -> None:
        self.corpus, self.builder = corpus, builder or WordVocabulary()

    def build(self, documents: Iterable[Document]) -> Vocabulary:
        """The vocabulary of the corpus; the documents that the run learns from do not matter."""
        return self.builder.build(self.corpus.documents("train"))

    def fingerprint(self) -> str:
        """Of the corpus and the builder."""
        return lines_sha256(["corpus vocabulary", self.corpus.fingerprint("train"), self.builder.fingerprint()])


class ReadyVocabulary:
    """Takes a vocabulary that was saved before, whatever the documents are.

    Args:
        file: where it lies, such as `RUN/vocabulary.json`.
    """

    def __init__(self, file: str) -> None:
        self.file = Path(file).expanduser()

    def build(self, documents: Iterable[Document]) -> Vocabulary:
        """The saved one."""
        return load_vocabulary(self.file)

    def fingerprint(self) -> str:
        """A digest of its file."""
        return f"ready {file_sha256(self.file)}"


# -- saved vocabularies -----------------------------------------------------------------------------------------------


def load_vocabulary(file: Path) -> Vocabulary:
    """The vocabulary saved in a file."""
    return Vocabulary.of_json(text_of_file(file), file)


def vocabulary_of_checkpoint(content: Mapping[str, Any]) -> Vocabulary | None:
    """The vocabulary in the content of a checkpoint, under the class name of a data module; None without one."""
    for name, state in content.items():
        text = state.get("vocabulary") if isinstance(state, Mapping) else None
        if isinstance(text, str):
            return Vocabulary.of_json(text, f"checkpoint, {name}")
    return None
