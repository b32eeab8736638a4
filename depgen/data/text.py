"""Token sequences of a corpus, one item a document, in batches of a budget of tokens."""

from typing import Any

import numpy as np

from depgen.data.corpus import Corpus, Split, WithSteps
from depgen.data.module import CorpusData
from depgen.data.sampler import ResumableLoader
from depgen.data.steps import SingleSentences
from depgen.data.table import AnnotatedSplit, EncodedSplit
from depgen.errors import UserError


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

    def joined_items(self, split: Split) -> int:
        """How many items are documents of several sentences, which become one sequence."""
        return int((self.split(split).columns.counts("sentences") > 2).sum())

    def predict_dataloader(self) -> ResumableLoader:
        """The test split, every document once; for systems that take each sentence by itself, every sentence once."""
        model = None if self.trainer is None else self.trainer.lightning_module
        if getattr(model, "sentence_context", None) != "none":
            return self.test_dataloader()
        sentences = WithSteps(steps=[SingleSentences(min_words=0)], corpus=self.corpus)
        items = self._encode(AnnotatedSplit(sentences, "test", None).table())
        return self._by_length(items, self.eval_tokens_per_batch, None)

    def _batched(self, split: Split, epoch: int | None) -> ResumableLoader:
        """Shuffled documents of an epoch; at validation and test every document once."""
        items = self._read_whole(split)
        return self._by_length(items, self._budget(epoch), epoch)

    def _budget(self, epoch: int | None) -> int:
        return self.eval_tokens_per_batch if epoch is None else self.tokens_per_batch

    def _read_whole(self, split: Split) -> EncodedSplit:
        """A split for whose longest item the system has positions, the lack of which else would end a long run."""
        items = self.filled_split(split)
        model = None if self.trainer is None else self.trainer.lightning_module
        limit, lengths = getattr(model, "longest_scored", None), items.lengths - 1
        if limit is not None and (lengths > limit).any():
            too_long = np.flatnonzero(lengths > limit)
            raise UserError(
                f"{self.corpus.name}, {split}, item {too_long[0] + 1}: expected at most {limit} tokens, as many as "
                f"this {type(model).__name__} reads at once, found {lengths[too_long[0]]}; {len(too_long)} are too "
                "long. Cut them, or train one with more positions (max_length of the model or of its backbone)."
            )
        return items
