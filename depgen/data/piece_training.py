"""Tokenizers of word pieces that are learnt from word counts, as JSON of the `tokenizers` library.

Each word is a text with one space before it, so that no piece spans two words.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, repeat
from typing import Any

from depgen.errors import UserError

BYTES = 256
"""Types of byte-level BPE before anything is learnt."""
MARKER = "▁"
NEVER = -1e6
"""Log-probability of a Unigram piece that is taken where no other piece fits."""


def trained_bpe(counts: Mapping[str, int], *, size: int, specials: Sequence[str]) -> str:
    """A byte-level BPE tokenizer (Radford et al., 2019) of `size` types or fewer; the special tokens come first."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(specials),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_texts(counts), trainer)
    return str(tokenizer.to_str())


def trained_unigram(counts: Mapping[str, int], *, size: int, specials: Sequence[str]) -> str:
    """A Unigram tokenizer (Kudo, 2018) of `size` types or fewer, the special tokens first, the second of them `<unk>`.

    A `▁` begins each word. SentencePiece may cut a word into a bare `▁` and the word without it; the pieces of GiLT's
    authors do so for every fifth word. Here a bare `▁` is taken only if no piece joins the mark and the word's first
    character. There is such a piece for each character that begins a word of the text, as long as there are learnt
    pieces to give up for it: the least probable ones go.

    Scores are rounded to 9 digits, because the library sums them in a random order.

    Raises:
        UserError: `size` is too small for the special tokens and all characters.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement=MARKER, prepend_scheme="never")
    tokenizer.decoder = decoders.Metaspace(replacement=MARKER, prepend_scheme="never")
    least = len(specials) + len({MARKER, *"".join(counts)}) + 1
    if size < least:
        raise UserError(
            f"size must be at least {least}: {', '.join(specials)}, all characters and one piece; found {size}."
        )
    trainer = trainers.UnigramTrainer(
        vocab_size=size, special_tokens=list(specials), unk_token=specials[1], show_progress=False
    )
    tokenizer.train_from_iterator(_texts(counts), trainer)
    scores = {piece: round(score, 9) for piece, score in _learnt(tokenizer) if piece not in specials}
    _join_markers(scores, counts, room=size - len(specials) - len(scores))
    scores[MARKER] = NEVER
    pieces = sorted(scores.items(), key=lambda each: (-each[1], each[0]))
    tokenizer.model = models.Unigram([*((special, NEVER) for special in specials), *pieces], 1, False)
    return str(tokenizer.to_str())


def _texts(counts: Mapping[str, int]) -> Iterator[str]:
    return (f" {word}" for word, count in sorted(counts.items()) for _ in range(count))


def _learnt(tokenizer: Any) -> list[tuple[str, float]]:  # noqa: ANN401 - the library has no types
    """The pieces of a Unigram tokenizer with their log-probabilities."""
    return [(piece, score) for piece, score in json.loads(tokenizer.to_str())["model"]["vocab"]]


def _join_markers(scores: dict[str, float], counts: Mapping[str, int], *, room: int) -> None:
    """Add the mark joined with each first character of a word: `room` such pieces, then in place of the least probable.

    A new piece has the score of the one that it replaces, or the lowest of all.
    """
    firsts: Counter[str] = Counter()
    for word, count in counts.items():
        firsts[MARKER + word[:1]] += count
    missing = sorted(firsts.keys() - scores.keys(), key=lambda piece: (-firsts[piece], piece))
    learnt = (piece for piece in scores if len(piece) > 1 and piece not in firsts)
    spare = sorted(learnt, key=lambda piece: (scores[piece], piece))
    lowest = min(scores.values(), default=0.0)
    for piece, given_up in zip(missing, chain(repeat("", room), spare), strict=False):
        scores[piece] = scores.pop(given_up, lowest)
