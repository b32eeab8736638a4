"""Human stories with corrupted versions of them, drawn again in every epoch."""

import hashlib
import json
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.utils.data import Dataset

from depgen.annotation.spacy import SpacyTagger
from depgen.annotation.tagger import Tagger
from depgen.data.corpus import SPLITS, Corpus, Split, log_left_out
from depgen.data.sampler import RankBatch, ResumableLoader, TokenBudgetBatches, drawn_epoch
from depgen.errors import UserError
from depgen.evaluation.text.gpt2_perplexity import pad_right
from depgen.evaluation.union.alteration import altered_words, marks_of_tokens, offsets_of
from depgen.evaluation.union.corruption import MIN_SENTENCES, RULES, Corrupted, Corruptor, Rates, Story, words_of
from depgen.evaluation.union.words import ContentWords, own_lists, read_conceptnet_antonyms, read_conceptnet_entities
from depgen.locations import file_sha256, lines_sha256

HELD_OUT = "held out"
"""Stands for the seed where negative samples are those of a held-out split, the same for every scorer."""


@dataclass(frozen=True)
class StoryBatch:
    """Human stories, then their corrupted versions in the same order.

    Attributes:
        tokens: token ids, padded at the right.
        is_word: True at tokens.
        human: True for the first half.
        untouched: tokens of each story's first sentence, the encoder's mark in front included.
        items: which stories of the split these are.
        altered: True at tokens of words that the human did not write there; None where nobody asks for them.
    """

    tokens: Int[Tensor, "texts length"]
    is_word: Bool[Tensor, "texts length"]
    human: Bool[Tensor, " texts"]
    untouched: Int[Tensor, " texts"]
    items: Int[Tensor, " stories"]
    altered: Bool[Tensor, "texts length"] | None = None

    def to(self, device: torch.device | str) -> "StoryBatch":
        """The same on a device."""
        moved: dict[str, Any] = {name: None if it is None else it.to(device) for name, it in vars(self).items()}
        return StoryBatch(**moved)


def text_of(story: Story) -> str:
    """The words with a space between, in lower case."""
    return " ".join(words_of(story))


class StoryPairs(Dataset[StoryBatch]):
    """Batches of stories of a split and of one corrupted version of each, which depends on (seed, epoch, story).

    Args:
        stories: of the split, tagged.
        corruptor: draws the negative samples.
        tokenizer: of the encoder.
        max_length: longer texts are cut, the encoder's marks included.
        source: seed and epoch, or what else the negative samples depend on.
        marked: whether batches say which words are altered; a tokeniser of `tokenizers` is wanted for it.
    """

    def __init__(
        self,
        stories: Sequence[Story],
        corruptor: Corruptor,
        tokenizer: Any,  # noqa: ANN401  (transformers' tokeniser)
        *,
        max_length: int,
        source: str,
        marked: bool = False,
    ) -> None:
        self.stories, self.corruptor, self.tokenizer = stories, corruptor, tokenizer
        self.max_length, self.source, self.marked = max_length, source, marked

    def __len__(self) -> int:
        return len(self.stories)

    def corrupted(self, index: int) -> Corrupted:
        """The negative sample of a story."""
        return self.corruptor.corrupt(self.stories, index, random.Random(f"{self.source}/{index}"))

    def __getitems__(self, share: RankBatch) -> StoryBatch:
        """The stories of a batch and their negative samples (called by torch's fetcher)."""
        indices = [int(index) for index in share.indices]
        texts = [text_of(self.stories[index]) for index in indices]
        firsts = [text_of(self.stories[index][:1]) for index in indices]
        corrupted = [self.corrupted(index).story for index in indices]
        texts += [text_of(story) for story in corrupted]
        tokens, is_word = pad_right(encode(self.tokenizer, texts, max_length=self.max_length))
        untouched = torch.tensor([len(ids) - 1 for ids in encode(self.tokenizer, firsts, max_length=self.max_length)])
        human = torch.arange(len(texts)) < len(indices)
        altered = torch.zeros_like(is_word) if self.marked else None
        if altered is not None:
            offsets = offsets_of(self.tokenizer, texts[len(indices) :], max_length=self.max_length)
            for row, (index, story, covered) in enumerate(zip(indices, corrupted, offsets, strict=True), len(indices)):
                marks = marks_of_tokens(words_of(story), altered_words(self.stories[index], story), covered)
                altered[row, : len(marks)] = torch.tensor(marks)
        return StoryBatch(tokens, is_word, human, untouched.repeat(2), torch.tensor(indices), altered)


def encode(tokenizer: Any, texts: Sequence[str], *, max_length: int) -> list[list[int]]:  # noqa: ANN401
    """Token ids with the encoder's marks, cut at `max_length`."""
    ids: list[list[int]] = tokenizer(list(texts), truncation=True, max_length=max_length)["input_ids"]
    return ids


class UnionData(L.LightningDataModule):
    """The stories of a corpus as a UNION scorer is trained and tested on them.

    Args:
        corpus: of stories of three sentences or more; shorter documents are left out and counted.
        tagger: gives words their parts of speech.
        rates: of the operations that corrupt a story.
        conceptnet_antonyms: UNION's `conceptnet_antonym.txt`, instead of the package's own list of antonyms.
        conceptnet_entities: UNION's `conceptnet_entity.csv`: only its words are swapped.
        tokens_per_batch: of human stories, padding included; as many again of corrupted ones come to them.
        max_length: longer texts are cut.
    """

    def __init__(
        self,
        corpus: Corpus,
        tagger: Tagger | None = None,
        *,
        rates: Rates | None = None,
        conceptnet_antonyms: Path | None = None,
        conceptnet_entities: Path | None = None,
        tokens_per_batch: int = 2048,
        max_length: int = 200,
    ) -> None:
        super().__init__()
        self.corpus, self.tagger, self.rates = corpus, tagger or SpacyTagger(), rates or Rates()
        self.conceptnet_antonyms, self.conceptnet_entities = conceptnet_antonyms, conceptnet_entities
        self.tokens_per_batch, self.max_length = tokens_per_batch, max_length
        self.tokenizer: Any = None
        self.seed, self.marked = 0, False
        self._stories: dict[Split, list[Story]] = {}
        self._corruptor: Corruptor | None = None

    def fingerprint(self) -> str:
        """A digest of the corpus, the tagger, the rules of corruption, all lists of words and all options.

        Raises:
            UserError: a corpus, a tagger or a list of words can't be read.
        """
        parts = [
            RULES,
            *(self.corpus.fingerprint(split) for split in SPLITS),
            self.tagger.fingerprint(),
            *(hashlib.sha256(each.encode()).hexdigest() for each in own_lists()),
            *(_file_digest(path) for path in (self.conceptnet_antonyms, self.conceptnet_entities)),
            json.dumps([asdict(self.rates), self.tokens_per_batch, self.max_length], sort_keys=True),
        ]
        return lines_sha256(parts)

    def stories(self, split: Split) -> list[Story]:
        """The tagged stories of a split.

        Raises:
            UserError: fewer than two stories have enough sentences.
        """
        if split not in self._stories:
            documents = list(self.corpus.documents(split))
            kept = [document.sentences for document in documents if len(document.sentences) >= MIN_SENTENCES]
            log_left_out(
                len(documents) - len(kept),
                f"documents of fewer than {MIN_SENTENCES} sentences",
                f"{self.corpus.name}, {split}",
            )
            if len(kept) < 2:
                raise UserError(
                    f"{self.corpus.name}, {split}: expected stories of {MIN_SENTENCES} sentences or more, found "
                    f"{len(kept)}."
                )
            tagged = iter(self.tagger.tag([sentence for story in kept for sentence in story]))
            self._stories[split] = [tuple(next(tagged) for _ in story) for story in kept]
        return self._stories[split]

    @property
    def corruptor(self) -> Corruptor:
        """Draws negative samples with the words of the training split."""
        if self._corruptor is None:
            antonyms, entities = self.conceptnet_antonyms, self.conceptnet_entities
            lexicon = ContentWords.of(
                (sentence for story in self.stories("train") for sentence in story),
                antonyms=None if antonyms is None else read_conceptnet_antonyms(antonyms),
                entities=None if entities is None else read_conceptnet_entities(entities),
            )
            self._corruptor = Corruptor(lexicon, self.rates)
        return self._corruptor

    def pairs(self, split: Split, *, epoch: int | None = None) -> StoryPairs:
        """A split with negative samples; those of an epoch of training, or the fixed ones of a held-out split."""
        assert self.tokenizer is not None, "the encoder's tokeniser is set before stories are read"
        source = f"{HELD_OUT}/{split}" if epoch is None else f"{self.seed}/{epoch}"
        return StoryPairs(
            self.stories(split), self.corruptor, self.tokenizer, max_length=self.max_length, source=source,
            marked=self.marked and epoch is not None,
        )  # fmt: skip

    def train_dataloader(self, epoch: int | None = None) -> ResumableLoader:
        """Batches of an epoch, with its own negative samples; by default the trainer's current one, or the first."""
        epoch = drawn_epoch(self.trainer, epoch)
        return self._loader(self.pairs("train", epoch=epoch), epoch=epoch, shuffle=True)

    def val_dataloader(self) -> ResumableLoader:
        """Batches of the validation split, sorted by length."""
        return self._loader(self.pairs("valid"), epoch=0, shuffle=False)

    def _loader(self, pairs: StoryPairs, *, epoch: int, shuffle: bool) -> ResumableLoader:
        world, rank = (1, 0) if self.trainer is None else (self.trainer.world_size, self.trainer.global_rank)
        lengths = np.array([sum(map(len, story)) + 2 for story in pairs.stories])
        batches = TokenBudgetBatches(
            np.minimum(lengths, self.max_length), tokens_per_batch=self.tokens_per_batch, seed=self.seed, epoch=epoch,
            shuffle=shuffle, world=world, rank=rank,
        )  # fmt: skip
        return ResumableLoader(pairs, batch_sampler=batches, collate_fn=_as_it_is)  # type: ignore[arg-type]


def _file_digest(path: Path | None) -> str:
    if path is None:
        return "no file"
    try:
        return file_sha256(path)
    except OSError as error:
        raise UserError(
            f"{path.absolute()}: expected a file of ConceptNet as UNION's authors give it, found {error.strerror}; "
            "leave data.conceptnet_antonyms and data.conceptnet_entities out for the package's own words."
        ) from error


def _as_it_is(batch: StoryBatch) -> StoryBatch:
    return batch
