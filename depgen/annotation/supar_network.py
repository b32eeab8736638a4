"""What SuPar's parsers share: vocabulary, network sizes, training under Lightning, and files of weights and JSON."""

import json
import logging
import random
import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, cast

import lightning as L
import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.utils.data import DataLoader, Sampler

from depgen.annotation.scores import AnyScores
from depgen.annotation.supar_compatibility import apply_fixes
from depgen.annotation.training import ParserTraining
from depgen.data.sampler import budget_starts
from depgen.errors import UserError, check_at_least
from depgen.locations import write_atomically
from depgen.training.logs import quiet_libraries
from depgen.trees.sentence import Sentence

logger = logging.getLogger(__name__)

PAD, UNK, BOS = 0, 1, 2
WORD_PAIRS = 2**18
"""Pairs of words scored at a time when parsing, padding included: with 50 relations their scores take 50 MB."""

WEIGHTS, VOCABULARY = "weights.pt", "vocabulary.json"


@dataclass(frozen=True)
class BiaffineSizes:
    """Sizes of the network, by default those of SuPar's `biaffine-dep-en`; dropout is a share.

    `arc_mlp` is for arcs of trees, edges of graphs or spans, `relation_mlp` for their labels.
    """

    word_embedding: int = 100
    character_embedding: int = 50
    character_hidden: int = 100
    character_output: int = 100
    lstm_hidden: int = 400
    lstm_layers: int = 3
    arc_mlp: int = 500
    relation_mlp: int = 100
    dropout: float = 0.33


@dataclass(frozen=True)
class ParserVocabulary:
    """Words (lower-cased), characters and labels; ids of words and characters start after padding, unknown, BOS.

    `relations` are the labels of what the parser finds: relations of trees, labels of edges or of constituents.
    """

    words: dict[str, int]
    characters: dict[str, int]
    relations: list[str]
    characters_per_word: int

    @classmethod
    def build(
        cls, sentences: Sequence[Sentence], labels: Iterable[str], *, min_frequency: int, characters_per_word: int
    ) -> "ParserVocabulary":
        """From training sentences; words rarer than `min_frequency` are unknown."""
        words = Counter(word.lower() for sentence in sentences for word in sentence.words)
        characters = sorted({character for sentence in sentences for word in sentence.words for character in word})
        kept = sorted(word for word, count in words.items() if count >= min_frequency)
        return cls(_numbered(kept), _numbered(characters), sorted(labels), characters_per_word)


def _numbered(items: Iterable[str]) -> dict[str, int]:
    return {item: number for number, item in enumerate(items, start=BOS + 1)}


_Batch = TypeVar("_Batch", bound="ParserBatch")
_Network = TypeVar("_Network", bound="SuparNetwork[Any]")
_Found = TypeVar("_Found")


@dataclass(frozen=True)
class ParserBatch:
    """Sentences as ids, BOS first. `is_word` is true on words, not on BOS and padding."""

    words: Int[Tensor, "batch length"]
    characters: Int[Tensor, "batch length characters"]
    is_word: Bool[Tensor, "batch length"]

    def to(self: _Batch, device: torch.device | str) -> _Batch:
        """The batch on a device."""
        return type(self)(*(getattr(self, field.name).to(device) for field in fields(self)))


def word_batch(sentences: Sequence[Sentence], vocabulary: ParserVocabulary) -> ParserBatch:
    """The words of sentences as ids; what else the sentences have is not read."""
    shape = (len(sentences), 1 + max(len(sentence) for sentence in sentences))
    words = torch.zeros(shape, dtype=torch.long)
    characters = torch.zeros(*shape, vocabulary.characters_per_word, dtype=torch.long)
    for row, sentence in enumerate(sentences):
        words[row, 0] = characters[row, 0, 0] = BOS
        for column, word in enumerate(sentence.words, start=1):
            words[row, column] = vocabulary.words.get(word.lower(), UNK)
            ids = [vocabulary.characters.get(c, UNK) for c in word[: vocabulary.characters_per_word]]
            characters[row, column, : len(ids)] = torch.tensor(ids)
    is_word = words.ne(PAD)
    is_word[:, 0] = False
    return ParserBatch(words, characters, is_word)


class SuparNetwork(L.LightningModule, Generic[_Batch]):
    """A model of SuPar under Lightning; Adam with exponentially falling rate, as SuPar trains it.

    A subclass sets `model`, encodes sentences, and says what is right.

    Args:
        vocabulary: sizes the embeddings and names the labels.
        sizes: of the network.
        learning_rate: at the first step; a quarter less each 5,000 steps.
    """

    score: ClassVar[str] = "LAS"
    """Name of the score on the validation split, whose best weights are kept."""
    betas: ClassVar[tuple[float, float]] = (0.9, 0.9)
    """Of Adam, as SuPar has them for this kind of parser."""
    word_pairs: ClassVar[int] = WORD_PAIRS
    """Pairs of words whose labels are scored at a time when parsing."""
    model: Any

    def __init__(self, vocabulary: ParserVocabulary, sizes: BiaffineSizes, learning_rate: float = 2e-3) -> None:
        super().__init__()
        apply_fixes()
        self.vocabulary, self.sizes, self.learning_rate = vocabulary, sizes, learning_rate
        self.best: tuple[float, dict[str, Tensor]] | None = None
        self._counts = [0, 0, 0]

    def encoder_options(self) -> dict[str, Any]:
        """Arguments of SuPar's models that size the embeddings and the LSTM."""
        sizes, vocabulary = self.sizes, self.vocabulary
        return {
            "n_words": len(vocabulary.words) + BOS + 1,
            "n_chars": len(vocabulary.characters) + BOS + 1,
            "feat": ["char"],
            "n_embed": sizes.word_embedding,
            "n_pretrained": sizes.word_embedding,
            "n_feat_embed": sizes.character_output,
            "n_char_embed": sizes.character_embedding,
            "n_char_hidden": sizes.character_hidden,
            "char_pad_index": PAD,
            "embed_dropout": sizes.dropout,
            "n_lstm_hidden": sizes.lstm_hidden,
            "n_lstm_layers": sizes.lstm_layers,
            "encoder_dropout": sizes.dropout,
            "pad_index": PAD,
            "unk_index": UNK,
        }

    @abstractmethod
    def collate(self, sentences: Sequence[Sentence]) -> _Batch:
        """A batch with what is known of the sentences."""

    @abstractmethod
    def counts(self, batch: _Batch) -> tuple[int, int, int]:
        """How many labelled arcs, edges or constituents are right, are found, and are to be found."""

    @abstractmethod
    def parsed(self, sentences: Sequence[Sentence], batch: _Batch) -> list[Sentence]:
        """The sentences of a batch with what the parser finds."""

    @abstractmethod
    def evaluate(self, gold: list[Sentence]) -> AnyScores:
        """Scores on sentences with gold words, and the speed in words per second."""

    def validation_step(self, batch: _Batch, batch_index: int) -> None:
        """Count what is right."""
        self._counts = [total + more for total, more in zip(self._counts, self.counts(batch), strict=True)]

    def on_validation_epoch_end(self) -> None:
        """Keep a copy of the weights when the labelled F1 (of trees, the LAS) is the best so far."""
        right, found, gold = self._counts
        score = 200 * right / max(1, found + gold)
        self._counts = [0, 0, 0]
        self.log(f"val/{self.score.lower().replace(' ', '_')}", score, prog_bar=True)
        if not self.trainer.sanity_checking:
            logger.info("step %d: valid %s %.2f", self.global_step, self.score, score)
            if self.best is None or score > self.best[0]:
                self.best = (score, {name: value.detach().cpu().clone() for name, value in self.state_dict().items()})

    def configure_optimizers(self) -> Any:  # noqa: ANN401  (Lightning's own union)
        """Adam with SuPar's settings; the schedule steps with every batch."""
        optimizer = torch.optim.Adam(self.parameters(), lr=self.learning_rate, betas=self.betas, eps=1e-12)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.75 ** (1 / 5000))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def parse(self, sentences: Sequence[Sentence], *, batch_size: int = 64) -> list[Sentence]:
        """The sentences as parsed, in the order given."""
        return self.by_length(self.parsed, sentences, batch_size=batch_size)

    @torch.no_grad()
    def by_length(
        self,
        function: Callable[[list[Sentence], _Batch], list[_Found]],
        sentences: Sequence[Sentence],
        *,
        batch_size: int,
    ) -> list[_Found]:
        """What a function finds in sentences, in the order given; batches are of like length, with little padding."""
        self.eval()
        found: dict[int, _Found] = {}
        order = sorted(range(len(sentences)), key=lambda index: len(sentences[index]))
        pairs = [len(sentences[index]) ** 2 for index in order]
        for begin, end in pairwise([*budget_starts(pairs, self.word_pairs, most=batch_size), len(order)]):
            chosen = [sentences[index] for index in order[begin:end]]
            found.update(zip(order[begin:end], function(chosen, self.collate(chosen).to(self.device)), strict=True))
        return [found[index] for index in range(len(sentences))]

    def timed(self, gold: Sequence[Sentence]) -> tuple[list[Sentence], float]:
        """The gold sentences' words as parsed, and the seconds that it took."""
        started = time.perf_counter()
        predicted = self.parse([Sentence(sentence.words) for sentence in gold])
        return predicted, time.perf_counter() - started

    def save(self, folder: Path, description: dict[str, Any]) -> None:
        """Write weights (tensors alone, no pickled code) and a JSON file of vocabulary and sizes."""
        torch.save({name: value.cpu() for name, value in self.state_dict().items()}, folder / WEIGHTS)
        content = {"sizes": asdict(self.sizes), **asdict(self.vocabulary)}
        write_atomically(folder / VOCABULARY, json.dumps(content, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls: type[_Network], folder: Path) -> _Network:
        """The parser that `save` wrote; nothing in the files is executed.

        Raises:
            UserError: a file is missing, cut short or does not fit the other.
        """
        try:
            content = json.loads((folder / VOCABULARY).read_text(encoding="utf-8"))
            parser = cls(sizes=BiaffineSizes(**content.pop("sizes")), vocabulary=ParserVocabulary(**content))
            parser.load_state_dict(torch.load(folder / WEIGHTS, map_location="cpu", weights_only=True))
        except (OSError, ValueError, KeyError, TypeError, RuntimeError, EOFError) as error:
            raise UserError(
                f"{folder}: expected {WEIGHTS} and {VOCABULARY} of a SuPar parser ({type(error).__name__}: {error}). "
                "Train it again: depgen train-parser --overwrite, with the experiment that trained it."
            ) from error
        return parser.eval()


class SuparNetworkTraining(ParserTraining):
    """Training of a SuPar network with words and characters, under Lightning, for a budget of steps.

    Args:
        steps: updates of the weights.
        words_per_batch: words an update sees, padding included.
        evaluate_every: steps between two evaluations on the development set, whose best score is kept.
        learning_rate: of Adam at the first step.
        clip: largest norm of the gradient.
        min_frequency: words rarer than this are unknown.
        characters_per_word: how many of a word's first characters count.
        sizes: of the network.
        accelerator: Lightning's name of the device.

    Raises:
        UserError: a size of nothing.
    """

    def __init__(
        self,
        *,
        steps: int = 5000,
        words_per_batch: int = 5000,
        evaluate_every: int = 250,
        learning_rate: float = 2e-3,
        clip: float = 5.0,
        min_frequency: int = 2,
        characters_per_word: int = 20,
        sizes: BiaffineSizes | None = None,
        accelerator: str = "auto",
    ) -> None:
        check_at_least(
            1, steps=steps, words_per_batch=words_per_batch, evaluate_every=evaluate_every,
            characters_per_word=characters_per_word,
        )  # fmt: skip
        self.steps, self.words_per_batch, self.evaluate_every = steps, words_per_batch, evaluate_every
        self.learning_rate, self.clip, self.min_frequency = learning_rate, clip, min_frequency
        self.characters_per_word, self.sizes = characters_per_word, sizes or BiaffineSizes()
        self.accelerator = accelerator

    @abstractmethod
    def labels(self, sentence: Sentence) -> Iterable[str]:
        """The relations or labels that the parser learns from a sentence."""

    @abstractmethod
    def network(self, vocabulary: ParserVocabulary) -> SuparNetwork[Any]:
        """The parser before training."""

    def options(self) -> dict[str, Any]:
        """All arguments but the device."""
        options = {name: value for name, value in vars(self).items() if name not in ("sizes", "accelerator")}
        return {**options, "sizes": asdict(self.sizes)}

    def train(self, train: list[Sentence], valid: list[Sentence], *, seed: int) -> SuparNetwork[Any]:
        """The parser with the weights that had the best score on `valid`."""
        quiet_libraries()
        L.seed_everything(seed, verbose=False)
        vocabulary = ParserVocabulary.build(
            train,
            {label for sentence in train for label in self.labels(sentence)},
            min_frequency=self.min_frequency,
            characters_per_word=self.characters_per_word,
        )
        parser = self.network(vocabulary)
        trainer = L.Trainer(
            max_steps=self.steps,
            val_check_interval=self.evaluate_every,
            check_val_every_n_epoch=None,
            num_sanity_val_steps=0,
            gradient_clip_val=self.clip,
            accelerator=self.accelerator,
            devices=1,
            logger=False,
            enable_checkpointing=False,
            enable_model_summary=False,
        )
        trainer.fit(parser, self._loader(train, parser, seed=seed), self._loader(valid, parser, seed=None))
        if parser.best is None or self.steps % self.evaluate_every:
            trainer.validate(parser, self._loader(valid, parser, seed=None), verbose=False)
        assert parser.best is not None
        parser.load_state_dict(parser.best[1])
        return parser.eval()

    def _loader(
        self, sentences: list[Sentence], parser: SuparNetwork[Any], *, seed: int | None
    ) -> DataLoader[Sentence]:
        batches = LengthBatches([len(s) for s in sentences], self.words_per_batch, seed=seed)
        return DataLoader(cast(Any, sentences), batch_sampler=batches, collate_fn=parser.collate)


class LengthBatches(Sampler[list[int]]):
    """Batches of items of similar length within a budget of tokens, padding included; reshuffled at each pass.

    Args:
        lengths: of the items.
        tokens: the budget; a longer item is a batch by itself.
        seed: of the order; None keeps batches in order of length.
    """

    def __init__(self, lengths: Sequence[int], tokens: int, *, seed: int | None) -> None:
        self.lengths, self.tokens = lengths, tokens
        self.generator = None if seed is None else random.Random(seed)

    def __iter__(self) -> Iterator[list[int]]:
        noise = self.generator.random if self.generator else lambda: 0.0
        order = sorted(range(len(self.lengths)), key=lambda index: self.lengths[index] + 2 * noise())
        starts = budget_starts([self.lengths[index] for index in order], self.tokens)
        batches = [order[begin:end] for begin, end in pairwise([*starts, len(order)])]
        if self.generator:
            self.generator.shuffle(batches)
        yield from batches
