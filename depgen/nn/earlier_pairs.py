"""The pairs of a word and an earlier one in a padded batch of sentences, as flat indices."""

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor


@dataclass(frozen=True)
class EarlierPairs:
    """An entry for each word, and one for each pair of a word with the root or an earlier word of its sentence.

    Pairs are sorted by sentence, word and earlier word. There is none of padding.

    Attributes:
        places: of each word in the flattened batch.
        words: the number of each word in its sentence, from 1.
        current: the later word of each pair, as its row among all words.
        earlier: the number of the earlier word in its sentence; 0 = root.
        rows: the row of the earlier word, where row 0 is the root and row k + 1 the word of row k.
        sentences: of each pair.
        rootless: the pairs without the root.
    """

    places: Int[Tensor, " words"]
    words: Int[Tensor, " words"]
    current: Int[Tensor, " pairs"]
    earlier: Int[Tensor, " pairs"]
    rows: Int[Tensor, " pairs"]
    sentences: Int[Tensor, " pairs"]
    rootless: Int[Tensor, " rootless"]

    @classmethod
    def of(cls, lengths: Int[Tensor, " batch"], longest: int, *, device: torch.device | None = None) -> "EarlierPairs":
        """The pairs of sentences of some lengths; waits for a GPU if the lengths are there.

        Args:
            lengths: in words.
            longest: to which the batch is padded.
            device: of the result; None: that of the lengths.

        >>> pairs = EarlierPairs.of(torch.tensor([1, 2]), 3)
        >>> pairs.places.tolist(), pairs.current.tolist(), pairs.earlier.tolist(), pairs.rows.tolist()
        ([0, 3, 4], [0, 1, 2, 2], [0, 0, 0, 1], [0, 0, 0, 2])
        """
        all_lengths = lengths.tolist()
        number, pairs = sum(all_lengths), sum(n * (n + 1) // 2 for n in all_lengths)
        lengths = lengths.to(device=lengths.device if device is None else device, dtype=torch.long, non_blocking=True)
        first = lengths.cumsum(0) - lengths
        every = torch.arange(pairs, device=lengths.device)
        sentence = _repeated(torch.arange(lengths.size(0), device=lengths.device), lengths, number)
        words = every.new_ones(number).cumsum(0) - first[sentence]
        current = _repeated(torch.arange(number, device=lengths.device), words, pairs)
        earlier = every - (words.cumsum(0) - words)[current]
        sentences = sentence[current]
        rows = torch.where(earlier > 0, first[sentences] + earlier, 0)
        after_roots = _repeated(torch.arange(number, device=lengths.device), words - 1, pairs - number)
        rootless = every[: pairs - number] + after_roots + 1  # each word's first pair, with the root, is left out
        return cls(sentence * longest + words - 1, words, current, earlier, rows, sentences, rootless)


def _repeated(values: Tensor, times: Tensor, total: int) -> Tensor:
    return values.repeat_interleave(times, output_size=total)
