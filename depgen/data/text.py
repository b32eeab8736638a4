"""Token sequences of a corpus, one item a document, in batches of a budget of tokens."""

from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Int

from depgen.data.batch import TokenItem
from depgen.data.corpus import Corpus, Split
from depgen.data.module import CorpusData, Items
from depgen.data.sampler import ResumableLoader
from depgen.data.table import AnnotatedSplit, EncodedSplit
from depgen.errors import UserError


class SentenceItems:
    """The sentences of a split's documents as items, without trees."""

    def __init__(self, documents: EncodedSplit) -> None:
        self.documents = documents
        self._places = [
            (document, begin, end)
            for document in range(len(documents))
            for begin, end in pairwise(documents.sentences(document).tolist())
        ]

    @property
    def lengths(self) -> Int[np.ndarray, " sentences"]:
        """Target tokens of each sentence: its tokens and the end of sequence."""
        return np.array([end - begin + 1 for _, begin, end in self._places])

    def __getitem__(self, index: int) -> TokenItem:
        document, begin, end = self._places[index]
        item = self.documents[document]
        word_ends = None if item.word_ends is None else item.word_ends[begin:end]
        return TokenItem(index, item.ids[begin:end], word_ends=word_ends)


class TextData(CorpusData):
    """Token sequences of a corpus, one item a document, in batches of a budget of tokens; more in `CorpusData`.

    Args:
        corpus: where the documents come from.
        tokens_per_batch: budget of the global batch, padding included, whatever the number of devices; where it holds
            fewer items than there are devices, `depgen.data.sampler` says what happens.
        eval_tokens_per_batch: the same at validation and test.
        kwargs: the other arguments of `CorpusData`.
    """

    def __init__(
        self,
        corpus: Corpus,
        *,
        tokens_per_batch: int = 8192,
        eval_tokens_per_batch: int = 16384,
        **kwargs: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(corpus, **kwargs)
        self.tokens_per_batch, self.eval_tokens_per_batch = tokens_per_batch, eval_tokens_per_batch

    def items(self, split: Split) -> Items:
        """What is batched: one item a document. A subclass may give other samples, such as sentences."""
        return self.filled_split(split)

    def joined_items(self, split: Split) -> int:
        """How many items are documents of several sentences, which become one sequence."""
        return int((self.split(split).columns.counts("sentences") > 2).sum())

    def predict_dataloader(self) -> ResumableLoader:
        """The test split, every document once; for systems that take each sentence by itself, every sentence once."""
        model = None if self.trainer is None else self.trainer.lightning_module
        if getattr(model, "sentence_context", None) == "none":
            documents = self._encode(AnnotatedSplit(self.corpus, "test", None).table())
            return self._by_length(SentenceItems(documents), self.eval_tokens_per_batch, None)
        return self.test_dataloader()

    def _batched(self, split: Split, epoch: int | None) -> ResumableLoader:
        """Shuffled items of an epoch; at validation and test every item once."""
        items = self.items(split)
        self._check_that_all_are_read(split, items)
        return self._by_length(items, self._budget(epoch), epoch)

    def _budget(self, epoch: int | None) -> int:
        return self.eval_tokens_per_batch if epoch is None else self.tokens_per_batch

    def _check_that_all_are_read(self, split: Split, items: Items) -> None:
        """Raises UserError unless the system has positions for the longest item, which else would end a long run."""
        model = None if self.trainer is None else self.trainer.lightning_module
        limit, lengths = getattr(model, "longest_scored", None), items.lengths - 1
        too_long = [] if limit is None else np.flatnonzero(lengths > limit)
        if len(too_long):
            raise UserError(
                f"{self.corpus.name}, {split}, item {too_long[0] + 1}: expected at most {limit} tokens, as many as "
                f"this {type(model).__name__} reads at once, found {lengths[too_long[0]]}; {len(too_long)} are too "
                "long. Cut them, or train one with more positions (max_length of the model or of its backbone)."
            )
