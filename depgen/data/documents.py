"""Documents as sequences of sentences: segments of a few sentences in training, whole documents in evaluation.

Ji, Cohn, Kong, Dyer & Eisenstein (2015), Sec. 3: a document is cut into segments of at most L sentences, in order, so
that training stays short; nothing is carried from segment to segment.

Deviations
    D1. The authors' code keeps documents of at most 5 sentences and cuts longer ones every 6, by an off-by-one
        (`segmentation: code2015`); the paper says at most L.
    D2. Its reader repeats the last word of every line, in all splits, and counts it (`duplicate_final_word`).
    D3. Sentences without a word are left out, by what reads the corpus.
"""

from itertools import pairwise
from typing import Any, Literal

import numpy as np
from jaxtyping import Int

from depgen.data.batch import SegmentItem, collate_documents
from depgen.data.corpus import Corpus, Split, splitter_of
from depgen.data.module import Collate, CorpusData
from depgen.data.sampler import ResumableLoader
from depgen.data.table import EncodedSplit
from depgen.errors import check_at_least

Segmentation = Literal["paper", "code2015"]


def segment_bounds(sentences: int, longest: int | None, segmentation: Segmentation = "paper") -> list[int]:
    """Where the segments of a document begin, and its end; None keeps it whole.

    >>> segment_bounds(11, 5), segment_bounds(11, 5, "code2015"), segment_bounds(5, 5, "code2015")
    ([0, 5, 10, 11], [0, 6, 11], [0, 5])
    """
    if longest is None or sentences <= longest:
        return [0, sentences]
    step = longest if segmentation == "paper" else longest + 1
    return [*range(0, sentences, step), sentences]


class SegmentedSplit:
    """A split's documents in segments of at most `longest` sentences; None for whole documents.

    Attributes:
        lengths: target tokens of each segment: its words and an end a sentence.
    """

    def __init__(
        self, encoded: EncodedSplit, *, longest: int | None, segmentation: Segmentation, duplicate_final_word: bool
    ) -> None:
        self.encoded, self.duplicate_final_word = encoded, duplicate_final_word
        self.segments: list[tuple[int, int, int]] = []  # document, its first sentence, the one after its last
        lengths = []
        for document in range(len(encoded)):
            bounds = encoded.sentences(document)
            for first, end in pairwise(segment_bounds(len(bounds) - 1, longest, segmentation)):
                self.segments.append((document, first, end))
                lengths.append(bounds[end] - bounds[first] + (end - first) * (1 + duplicate_final_word))
        self.lengths: Int[np.ndarray, " segments"] = np.array(lengths, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.segments)

    def __getitem__(self, index: int) -> SegmentItem:
        document, first, end = self.segments[index]
        ids, bounds = self.encoded[document].ids, self.encoded.sentences(document)[first : end + 1]
        sentences = [ids[begin:stop] for begin, stop in pairwise(bounds)]
        if self.duplicate_final_word:
            sentences = [np.append(sentence, sentence[-1]) for sentence in sentences]
        return SegmentItem(int(index), sentences)


class DocumentData(CorpusData):
    """Documents of a corpus as sentences in order; more in `CorpusData`.

    Args:
        corpus: where the documents come from. The published vocabulary has 10,000 words besides `<unk>`, `<eos>` and
            `<s>` (`WordVocabulary` with max_size: 10003, starts: true).
        sentences_per_segment: L, in training.
        segmentation: `paper`, or `code2015` (D1).
        duplicate_final_word: repeat the last word of every sentence (D2).
        tokens_per_batch: budget of the global batch in training, the tokens of its longest segment times its segments.
        segments_per_batch: number of segments in a batch, whatever their length, in place of tokens; 1 is published.
        eval_tokens_per_batch: budget at validation and test, where documents stay whole; a longer one is a batch by
            itself.
        eval_sentences_per_segment: cut them there too; None keeps them whole, as published.
        kwargs: the arguments of `CorpusData` that are not about trees.
    """

    def __init__(
        self,
        corpus: Corpus,
        *,
        sentences_per_segment: int = 5,
        segmentation: Segmentation = "paper",
        duplicate_final_word: bool = False,
        tokens_per_batch: int = 4096,
        segments_per_batch: int | None = None,
        eval_tokens_per_batch: int = 16384,
        eval_sentences_per_segment: int | None = None,
        **kwargs: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(corpus, annotator=None, trees_for=(), joining="roots", left_dependents="last_piece", **kwargs)
        check_at_least(
            1, sentences_per_segment=sentences_per_segment, segments_per_batch=segments_per_batch,
            eval_sentences_per_segment=eval_sentences_per_segment,
        )  # fmt: skip
        self.sentences_per_segment, self.segmentation = sentences_per_segment, segmentation
        self.duplicate_final_word = duplicate_final_word
        self.tokens_per_batch, self.segments_per_batch = tokens_per_batch, segments_per_batch
        self.eval_tokens_per_batch, self.eval_sentences_per_segment = eval_tokens_per_batch, eval_sentences_per_segment

    @property
    def plain_collate(self) -> Collate:
        """Padded segments of sentences."""
        return collate_documents

    @property
    def reading(self) -> dict[str, Any]:
        """That of the test split."""
        return {
            **super().reading,
            "splitter": splitter_of(self.corpus),
            "final_word_twice": self.duplicate_final_word,
            "longest": self.eval_sentences_per_segment,
            "segmentation": self.segmentation,
        }

    def segmented(self, split: Split, *, longest: int | None) -> SegmentedSplit:
        """A split's documents in segments of this number of sentences; None: whole documents."""
        return SegmentedSplit(
            self.filled_split(split), longest=longest, segmentation=self.segmentation,
            duplicate_final_word=self.duplicate_final_word,
        )  # fmt: skip

    def target_counts(self) -> Int[np.ndarray, " vocabulary"]:
        """How often each token is to be predicted in an epoch of training: one end a sentence."""
        data = self.segmented("train", longest=None)
        sentences = [ids for item in map(data.__getitem__, range(len(data))) for ids in item.sentences]
        counts = np.bincount(np.concatenate(sentences), minlength=self.vocabulary_size)
        counts[self.vocabulary.eos] += len(sentences)
        return counts

    def _batched(self, split: Split, epoch: int | None) -> ResumableLoader:
        """Shuffled segments of an epoch; at validation and test every document once."""
        longest = self.eval_sentences_per_segment if epoch is None else self.sentences_per_segment
        data = self.segmented(split, longest=longest)
        if epoch is None or self.segments_per_batch is None:
            budget = self.eval_tokens_per_batch if epoch is None else self.tokens_per_batch
            return self._by_length(data, budget, epoch)
        lengths = data.lengths
        return self._by_length(data, self.segments_per_batch, epoch, lengths=np.ones_like(lengths), tokens=lengths)
