"""Prompts of a task in batches, encoded by the vocabulary of the run that is fine-tuned, with graphs where wanted."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from depgen.data.batch import Batch, ItemBatch, TokenBatch, TokenItem, collate_tokens
from depgen.data.corpus import Corpus, Split
from depgen.data.encoder_run import EncoderRun
from depgen.data.glue import Prompt
from depgen.data.module import Collate
from depgen.data.sampler import ResumableLoader
from depgen.data.table import EncodedSplit
from depgen.data.text import CorpusData
from depgen.errors import UserError, check_at_least
from depgen.trees.annotator import Annotator


@runtime_checkable
class PromptCorpus(Corpus, Protocol):
    """A corpus of prompts with answers; as a `Corpus`, each prompt is a document of one sentence.

    Attributes:
        verbalisers: the words that name the classes; none: answers are similarities.
    """

    verbalisers: tuple[str, ...]

    def prompts(self, split: Split) -> Iterator[Prompt]:
        """The prompts of a split, in file order."""
        ...


@dataclass(frozen=True, kw_only=True)
class PromptBatch(Batch):
    """Prompts as a system reads them, and their answers.

    Attributes:
        sequences: the prompts, in the view of the system that reads them.
        answers: the place of the class, or the similarity, of each.
        items: each prompt's place in its split.
        global_prompts: prompts in the global batch, over all devices: what a loss is divided by.
    """

    on_cpu: ClassVar[frozenset[str]] = frozenset({"items"})

    sequences: TokenBatch
    answers: Float[Tensor, " batch"]
    items: Int[Tensor, " batch"]
    global_prompts: int


def collate_prompts(batch: ItemBatch, sequences: Callable[[ItemBatch], Batch] = collate_tokens) -> PromptBatch:
    """A padded batch of prompts.

    Args:
        batch: of pairs of a `TokenItem` and its answer.
        sequences: makes the batch of the prompts themselves.
    """
    items = [item for item, _ in batch.items]
    found = sequences(ItemBatch(items, batch.global_tokens, batch.vocabulary))
    assert isinstance(found, TokenBatch)
    answers = torch.tensor([answer for _, answer in batch.items], dtype=torch.float32)
    return PromptBatch(sequences=found, answers=answers, items=found.items, global_prompts=batch.global_tokens)


@dataclass(frozen=True)
class AnsweredItems:
    """A split's prompts with their answers."""

    split: EncodedSplit
    answers: Float[np.ndarray, " items"]

    @property
    def lengths(self) -> Int[np.ndarray, " items"]:
        """Target tokens of each."""
        return self.split.lengths

    def __getitem__(self, index: int) -> tuple[TokenItem, float]:
        return self.split[index], float(self.answers[index])


class Prompts(EncoderRun, CorpusData):
    """Prompts as ids of the vocabulary of a trained run.

    Args:
        corpus: where the prompts come from.
        encoder: the run that is fine-tuned: its folder, its experiment's name (its newest run) or a checkpoint in it.
            Its vocabulary is the data's, and travels on with the new run.
        annotator: what gives prompts graphs, of all splits; None for systems that need none.
        prompts_per_batch: of the global batch, whatever the number of devices; drawn at random.
        eval_tokens_per_batch: budget of tokens at validation and test, padding included.
        workers: see `EncodedData`.
        seed: see `EncodedData`.
        collate: see `EncodedData`.
    """

    def __init__(
        self,
        corpus: PromptCorpus,
        encoder: str,
        *,
        annotator: Annotator | None = None,
        prompts_per_batch: int = 64,
        eval_tokens_per_batch: int = 16384,
        workers: int | None = None,
        seed: int = 0,
        collate: Collate | None = None,
    ) -> None:
        super().__init__(
            corpus, annotator, ("train", "valid", "test"), workers=workers, seed=seed, collate=collate
        )  # fmt: skip
        check_at_least(1, prompts_per_batch=prompts_per_batch)
        self.prompt_corpus, self.encoder = corpus, encoder
        self.prompts_per_batch, self.eval_tokens_per_batch = prompts_per_batch, eval_tokens_per_batch

    def verbaliser_ids(self) -> list[int]:
        """The id of each class: the first piece of its word.

        Raises:
            UserError: two words share it.
        """
        words = self.prompt_corpus.verbalisers
        ids = [self.vocabulary.pieces(word)[0] for word in words]
        if len(set(ids)) < len(ids):
            raise UserError(
                f"verbalisers: expected words of different first pieces, found {', '.join(words)}, which this "
                "vocabulary begins alike. Set data.init_args.corpus.init_args.verbalisers."
            )
        return ids

    # -- loaders ------------------------------------------------------------------------------------------------------

    def _batched(self, split: Split, epoch: int | None) -> ResumableLoader:
        """Shuffled prompts of an epoch; at validation and test every prompt once."""
        data = self.filled_split(split)
        answers = np.array([prompt.answer for prompt in self.prompt_corpus.prompts(split)])
        assert len(answers) == len(data), f"{len(answers)} answers for {len(data)} prompts"
        items, ones = AnsweredItems(data, answers), np.ones(len(data), np.int64)
        if epoch is None:
            return self._by_length(items, self.eval_tokens_per_batch, None, tokens=ones)
        return self._by_length(items, self.prompts_per_batch, epoch, lengths=ones)

    @property
    def plain_collate(self) -> Collate:
        """Padded prompts with their answers."""
        return collate_prompts
