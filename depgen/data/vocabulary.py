"""Vocabularies: whole words or subword pieces, built from a corpus, saved with the run as plain JSON.

Both kinds begin with the same two ids: 0 is the end of sequence, which also stands in front as the beginning
(fairseq and the DMLM code read `</s>` first), and 1 the unknown word. A vocabulary of words may have `<mask>` next, for
masked language models, and a beginning of its own, `<s>`. Padding has no id: a mask says what is a token.
"""

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int

from depgen.errors import UserError
from depgen.hub import required_folder
from depgen.locations import file_sha256, write_atomically

EOS, UNK = 0, 1
EOS_WORD, UNK_WORD, MASK_WORD, START_WORD = "<eos>", "<unk>", "<mask>", "<s>"
SPECIAL, BYTES = 2, 256
VOCABULARY_FILE = "vocabulary.json"
TOKENIZER_FILE = "tokenizer.json"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Encoding:
    """Token ids of a word sequence.

    Attributes:
        ids: one id a piece, without beginning or end.
        word_of_piece: 0-based index of the word that each piece belongs to, never decreasing.
    """

    ids: Int[np.ndarray, " pieces"]
    word_of_piece: Int[np.ndarray, " pieces"]


@runtime_checkable
class AnyVocabulary(Protocol):
    """What data modules and decoding need of a vocabulary.

    Attributes:
        eos: the end of a sequence.
        unk: the unknown word.
        mask_id: a masked word; None where no word can be masked.
        start: what stands in front of a sequence: its own id, or `eos`.
    """

    eos: int
    unk: int
    mask_id: int | None
    start: int

    @property
    def size(self) -> int:
        """Number of token types, end of sequence and unknown included."""
        ...

    def pieces(self, word: str) -> Sequence[int]:
        """The ids of one word."""
        ...

    def decode(self, ids: Iterable[int]) -> str:
        """Text: words with a space between."""
        ...

    def files(self) -> dict[str, str]:
        """The vocabulary as JSON files, by name: what a run folder and a checkpoint hold."""
        ...

    def save(self, folder: Path) -> None:
        """Write `files` into a folder."""
        ...


def encode(vocabulary: AnyVocabulary, words: Sequence[str], *, first_word_space: bool = True) -> Encoding:
    """The ids of a word sequence and the word that each piece belongs to.

    Without `first_word_space` a subword vocabulary encodes the first word without a space before it.
    """
    pieces = [vocabulary.pieces(word) for word in words]
    if not first_word_space and words and isinstance(vocabulary, SubwordVocabulary):
        pieces[0] = vocabulary.pieces(words[0], space=False)
    counts = [len(piece) for piece in pieces]
    ids = np.fromiter((i for piece in pieces for i in piece), dtype=np.int32, count=sum(counts))
    return Encoding(ids, np.repeat(np.arange(len(words), dtype=np.int32), counts))


def is_unknown(vocabulary: AnyVocabulary, word: str) -> bool:
    """Whether nothing but `<unk>` stands for a word.

    >>> [is_unknown(Vocabulary(["the"]), word) for word in ("the", "cat", "<unk>")]
    [False, True, True]
    """
    return tuple(vocabulary.pieces(word)) == (vocabulary.unk,)


class Vocabulary:
    """Whole words: 0 `<eos>`, 1 `<unk>`, then `<mask>` and `<s>` where there are such, then by frequency.

    >>> vocabulary = Vocabulary(["the", "cat"])
    >>> vocabulary.size, vocabulary.decode([2, 3, 1])
    (4, 'the cat <unk>')
    """

    eos = EOS
    unk = UNK

    def __init__(self, words: Sequence[str], *, masks: bool = False, starts: bool = False) -> None:
        """Words in the order of their ids, without the special ones; `masks` adds `<mask>`, `starts` adds `<s>`."""
        special = special_words(masks=masks, starts=starts)
        self.mask_id: int | None = special.index(MASK_WORD) if masks else None
        self.start = special.index(START_WORD) if starts else EOS
        self.words: tuple[str, ...] = (*special, *words)
        self._special = len(special)
        self._ids = {word: index for index, word in enumerate(self.words)}
        if len(self._ids) != len(self.words):
            raise UserError(f"The vocabulary lists {len(self.words) - len(self._ids)} words twice.")

    @property
    def size(self) -> int:
        """Number of token types, the special ones included."""
        return len(self.words)

    def pieces(self, word: str) -> tuple[int, ...]:
        """The id of a word, `<unk>`'s for words outside; a literal `<eos>` in a text is an unknown word."""
        index = self._ids.get(word, UNK)
        return (UNK if index < self._special else index,)

    def decode(self, ids: Iterable[int]) -> str:
        """Words with a space between."""
        return " ".join(self.words[i] for i in ids)

    def files(self) -> dict[str, str]:
        """`vocabulary.json`."""
        content: dict[str, object] = {"kind": "word", "words": list(self.words[self._special :])}
        flags = {"masks": self.mask_id is not None, "starts": self.start != EOS}
        content |= {name: True for name, given in flags.items() if given}
        return {VOCABULARY_FILE: json.dumps(content, ensure_ascii=False, indent=0) + "\n"}

    def save(self, folder: Path) -> None:
        """Write `files` into a folder."""
        _write(self.files(), folder)

    @classmethod
    def from_counts(
        cls,
        counts: Counter[str],
        *,
        min_count: int = 1,
        max_size: int | None = None,
        masks: bool = False,
        starts: bool = False,
    ) -> "Vocabulary":
        """Words seen `min_count` times or more, at most `max_size` types with the special ones; ties by spelling."""
        special = special_words(masks=masks, starts=starts)
        kept = [word for word, count in counts.items() if count >= min_count and word not in special]
        kept.sort(key=lambda word: (-counts[word], word))
        return cls(kept[: None if max_size is None else max(0, max_size - len(special))], masks=masks, starts=starts)


def special_words(*, masks: bool = False, starts: bool = False) -> tuple[str, ...]:
    """The words that are no words, in the order of their ids."""
    return (EOS_WORD, UNK_WORD, *([MASK_WORD] if masks else []), *([START_WORD] if starts else []))


class SubwordVocabulary:
    """Subword pieces of a Hugging Face tokenizer, each word encoded by itself with a space before it.

    The tokenizer's own ids are kept; its end-of-text symbol is our end of sequence.
    """

    mask_id: int | None = None

    def __init__(self, tokenizer_json: str, *, eos_token: str = EOS_WORD, unk_token: str | None = UNK_WORD) -> None:
        """A tokenizer as its own JSON, and the names of the special tokens in it (`unk_token` None: it has none)."""
        from tokenizers import Tokenizer

        self._json, self.eos_token, self.unk_token = tokenizer_json, eos_token, unk_token
        try:
            self._tokenizer = Tokenizer.from_str(tokenizer_json)
        except Exception as error:  # the library raises nothing narrower
            raise UserError(
                f"Expected the JSON of a Hugging Face tokenizer ({TOKENIZER_FILE}), found: {error}. "
                "Copy the file again."
            ) from error
        self._tokenizer.encode_special_tokens = True  # a literal end-of-text in a corpus is text, not an end
        eos = self._tokenizer.token_to_id(eos_token)
        if eos is None:
            raise UserError(f"The tokenizer has no token {eos_token!r}; name its end-of-text token by eos_token.")
        unk = None if unk_token is None else self._tokenizer.token_to_id(unk_token)
        self.eos: int = eos
        self.start: int = eos
        self.unk: int = -1 if unk is None else unk
        self._memory: dict[str, tuple[int, ...]] = {}

    @property
    def size(self) -> int:
        """One more than the largest id: the rows of an embedding."""
        return 1 + max(self._tokenizer.get_vocab(with_added_tokens=True).values())

    def pieces(self, word: str, *, space: bool = True) -> tuple[int, ...]:
        """The ids of a word, at least one; by default with a space before it."""
        text = f" {word}" if space else word
        known = self._memory.get(text)
        if known is None:
            known = tuple(self._tokenizer.encode(text, add_special_tokens=False).ids) or (self.unk,)
            if known == (-1,):
                raise UserError(f"The tokenizer gives no piece for the word {word!r} and has no unknown token.")
            self._memory[text] = known
        return known

    def decode(self, ids: Iterable[int]) -> str:
        """Text with the tokenizer's own spacing, without a leading space."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False)).strip()

    def files(self) -> dict[str, str]:
        """`tokenizer.json` and `vocabulary.json`."""
        content = {"kind": "subword", "eos_token": self.eos_token, "unk_token": self.unk_token}
        return {TOKENIZER_FILE: self._json, VOCABULARY_FILE: json.dumps(content) + "\n"}

    def save(self, folder: Path) -> None:
        """Write `files` into a folder."""
        _write(self.files(), folder)


def _write(files: Mapping[str, str], folder: Path) -> None:
    for name, text in files.items():
        write_atomically(folder / name, text)


def load_vocabulary(folder: Path) -> Vocabulary | SubwordVocabulary:
    """The vocabulary saved in a folder.

    Raises:
        UserError: there is none, or it is of an unknown kind.
    """
    path = folder / VOCABULARY_FILE
    if not path.is_file():
        raise UserError(f"No vocabulary at {path}. A run folder carries its own; name one that `depgen fit` made.")
    return vocabulary_of_files(lambda name: _text(folder / name), folder)


def vocabulary_of_files(text_of: Callable[[str], str], where: Path | str) -> Vocabulary | SubwordVocabulary:
    """The vocabulary whose `files` these are.

    Args:
        text_of: from a file's name to its text.
        where: what the files lie in, for messages.

    Raises:
        UserError: a file is missing or damaged, or the vocabulary is of an unknown kind.
    """
    path = f"{where}/{VOCABULARY_FILE}"
    try:
        content = json.loads(text_of(VOCABULARY_FILE))
    except ValueError as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{path}: expected JSON, found: {error}. Copy the file again.") from error
    match content:
        case {"kind": "word", "words": list(words), **others}:
            return Vocabulary(words, masks=bool(others.get("masks")), starts=bool(others.get("starts")))
        case {"kind": "subword", "eos_token": eos_token, "unk_token": unk_token}:
            return SubwordVocabulary(text_of(TOKENIZER_FILE), eos_token=eos_token, unk_token=unk_token)
        case _:
            raise UserError(f"{path}: expected a vocabulary of kind word or subword, found {str(content)[:80]}.")


def vocabulary_of_checkpoint(content: Mapping[str, Any]) -> Vocabulary | SubwordVocabulary | None:
    """The vocabulary that a checkpoint holds; None for checkpoints without one.

    Args:
        content: of the checkpoint, in which a data module keeps its state under its class name.
    """
    for name, state in content.items():
        files = state.get("vocabulary") if isinstance(state, Mapping) else None
        if isinstance(files, Mapping) and VOCABULARY_FILE in files:
            return vocabulary_of_files(files.__getitem__, f"checkpoint, {name}")
    return None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: expected a text in UTF-8, found: {error}. Copy the file again.") from error


@runtime_checkable
class VocabularyBuilder(Protocol):
    """How a vocabulary is made from words; named in YAML by class path."""

    def build(self, counts: Counter[str]) -> AnyVocabulary:
        """A vocabulary from the word counts of the splits it may see."""
        ...

    def fingerprint(self) -> str:
        """The options, as a string."""
        ...


class WordVocabulary:
    """Builds a word-level vocabulary.

    Args:
        min_count: words seen less often become `<unk>`.
        max_size: keep at most so many types, the special ones included; at least one more than these.
        masks: whether there is a `<mask>`, which masked language models need.
        starts: whether sequences begin with a `<s>` of their own instead of `<eos>`.
    """

    def __init__(
        self, min_count: int = 1, max_size: int | None = None, masks: bool = False, starts: bool = False
    ) -> None:
        special = special_words(masks=masks, starts=starts)
        if max_size is not None and max_size <= len(special):
            raise UserError(
                f"max_size must be at least {len(special) + 1}: {', '.join(special)} and a word; found {max_size}."
            )
        self.min_count, self.max_size, self.masks, self.starts = min_count, max_size, masks, starts

    def build(self, counts: Counter[str]) -> AnyVocabulary:
        """The most frequent words."""
        return Vocabulary.from_counts(
            counts, min_count=self.min_count, max_size=self.max_size, masks=self.masks, starts=self.starts
        )

    def fingerprint(self) -> str:
        """The options, as a string."""
        flags = f"{' masks' if self.masks else ''}{' starts' if self.starts else ''}"
        return f"word min_count={self.min_count} max_size={self.max_size}{flags}"


class SubwordPieces:
    """Builds a byte-level BPE vocabulary, or takes a ready tokenizer.

    Args:
        size: number of types to learn, the special ones and the 256 bytes included; not used with `tokenizer`.
        tokenizer: path of a `tokenizer.json`, or what `depgen.hub` finds a model's folder by.
        eos_token: the ready tokenizer's end-of-text token (GPT-2: `<|endoftext|>`).
    """

    def __init__(self, size: int = 8000, tokenizer: str | None = None, eos_token: str = EOS_WORD) -> None:
        if tokenizer is None and size < SPECIAL + BYTES:
            raise UserError(
                f"size must be at least {SPECIAL + BYTES}: {EOS_WORD}, {UNK_WORD} and the {BYTES} bytes; found {size}."
            )
        self.size, self.tokenizer, self.eos_token = size, tokenizer, eos_token

    def build(self, counts: Counter[str]) -> AnyVocabulary:
        """Pieces learnt from the word counts, or the ready ones."""
        if self.tokenizer is not None:
            return SubwordVocabulary(_text(self._file()), eos_token=self.eos_token, unk_token=None)
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=self.size,
            special_tokens=[EOS_WORD, UNK_WORD],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        words = (f" {word}" for word, count in sorted(counts.items()) for _ in range(count))
        tokenizer.train_from_iterator(words, trainer)
        return SubwordVocabulary(tokenizer.to_str())

    def fingerprint(self) -> str:
        """The options, as a string; a ready tokenizer by its content."""
        if self.tokenizer is None:
            return f"bpe size={self.size}"
        return f"tokenizer {file_sha256(self._file())} eos={self.eos_token}"

    def _file(self) -> Path:
        assert self.tokenizer is not None
        path = Path(self.tokenizer).expanduser()
        return path if path.is_file() else required_folder(self.tokenizer, holding=TOKENIZER_FILE) / TOKENIZER_FILE
