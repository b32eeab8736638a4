"""Training of SuPar's biaffine dependency parser (Dozat & Manning, 2017) on a treebank, saved as weights and JSON."""

import json
import logging
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import lightning as L
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.utils.data import DataLoader, Sampler

from depgen.annotation.scores import ParserScores, attachment_scores
from depgen.annotation.supar_compatibility import apply_fixes
from depgen.annotation.training import ParserTraining
from depgen.data.sampler import budget_starts
from depgen.decoding.spanning_tree import maximum_spanning_trees
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
    """Sizes of the network, by default those of SuPar's `biaffine-dep-en`; dropout is a share."""

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
    """Words (lower-cased), characters and relations; ids of words and characters start after padding, unknown, BOS."""

    words: dict[str, int]
    characters: dict[str, int]
    relations: list[str]
    characters_per_word: int

    @classmethod
    def build(
        cls, sentences: Sequence[Sentence], *, min_frequency: int, characters_per_word: int
    ) -> "ParserVocabulary":
        """From training sentences; words rarer than `min_frequency` are unknown."""
        words = Counter(word.lower() for sentence in sentences for word in sentence.words)
        characters = sorted({character for sentence in sentences for word in sentence.words for character in word})
        relations = sorted({relation for sentence in sentences for relation in sentence.relations or ()})
        kept = sorted(word for word, count in words.items() if count >= min_frequency)
        return cls(_numbered(kept), _numbered(characters), relations, characters_per_word)


def _numbered(items: Iterable[str]) -> dict[str, int]:
    return {item: number for number, item in enumerate(items, start=BOS + 1)}


@dataclass(frozen=True)
class ParserBatch:
    """Sentences as ids, BOS first. `is_word` is true on words, not on BOS and padding; heads and relations may be 0."""

    words: Int[Tensor, "batch length"]
    characters: Int[Tensor, "batch length characters"]
    heads: Int[Tensor, "batch length"]
    relations: Int[Tensor, "batch length"]
    is_word: Bool[Tensor, "batch length"]

    def to(self, device: torch.device | str) -> "ParserBatch":
        """The batch on a device."""
        return ParserBatch(*(getattr(self, name).to(device) for name in self.__dataclass_fields__))


def collate(sentences: Sequence[Sentence], vocabulary: ParserVocabulary) -> ParserBatch:
    """A batch; a relation unknown to the vocabulary has number 0, which matters to a validation loss only."""
    length = 1 + max(len(sentence) for sentence in sentences)
    shape = (len(sentences), length)
    words, heads, relations = (torch.zeros(shape, dtype=torch.long) for _ in range(3))
    characters = torch.zeros(*shape, vocabulary.characters_per_word, dtype=torch.long)
    relation_ids = {relation: number for number, relation in enumerate(vocabulary.relations)}
    for row, sentence in enumerate(sentences):
        words[row, 0] = characters[row, 0, 0] = BOS
        for column, word in enumerate(sentence.words, start=1):
            words[row, column] = vocabulary.words.get(word.lower(), UNK)
            ids = [vocabulary.characters.get(c, UNK) for c in word[: vocabulary.characters_per_word]]
            characters[row, column, : len(ids)] = torch.tensor(ids)
        if sentence.heads is not None and sentence.relations is not None:
            heads[row, 1 : len(sentence) + 1] = torch.tensor(sentence.heads)
            ids = [relation_ids.get(relation, 0) for relation in sentence.relations]
            relations[row, 1 : len(sentence) + 1] = torch.tensor(ids)
    is_word = words.ne(PAD)
    is_word[:, 0] = False
    return ParserBatch(words, characters, heads, relations, is_word)


class BiaffineParser(L.LightningModule):
    """SuPar's biaffine model under Lightning; Adam with exponentially falling rate, as SuPar trains it.

    Args:
        vocabulary: sizes the embeddings and names the relations.
        sizes: of the network.
        learning_rate: at the first step; a quarter less each 5,000 steps.
    """

    def __init__(self, vocabulary: ParserVocabulary, sizes: BiaffineSizes, learning_rate: float = 2e-3) -> None:
        super().__init__()
        apply_fixes()
        from supar.models import BiaffineDependencyModel

        self.vocabulary, self.sizes, self.learning_rate = vocabulary, sizes, learning_rate
        self.model: Any = BiaffineDependencyModel(
            n_words=len(vocabulary.words) + BOS + 1,
            n_chars=len(vocabulary.characters) + BOS + 1,
            n_rels=len(vocabulary.relations),
            feat=["char"],
            n_embed=sizes.word_embedding,
            n_pretrained=sizes.word_embedding,
            n_feat_embed=sizes.character_output,
            n_char_embed=sizes.character_embedding,
            n_char_hidden=sizes.character_hidden,
            char_pad_index=PAD,
            embed_dropout=sizes.dropout,
            n_lstm_hidden=sizes.lstm_hidden,
            n_lstm_layers=sizes.lstm_layers,
            encoder_dropout=sizes.dropout,
            n_arc_mlp=sizes.arc_mlp,
            n_rel_mlp=sizes.relation_mlp,
            mlp_dropout=sizes.dropout,
            pad_index=PAD,
            unk_index=UNK,
        )
        self.best: tuple[float, dict[str, Tensor]] | None = None
        self._counts = [0, 0]

    def forward(
        self, batch: ParserBatch
    ) -> tuple[Float[Tensor, "batch length length"], Float[Tensor, "batch length length relations"]]:
        """Scores of arcs [dependent, head] and of their relations; position 0 is the root."""
        arcs, relations = self.model(batch.words, [batch.characters])
        return arcs, relations

    def training_step(self, batch: ParserBatch, batch_index: int) -> Tensor:
        """Cross-entropy of heads and of the gold heads' relations, a mean over words (Dozat & Manning, 2017)."""
        arcs, relations = self(batch)
        loss = self.model.loss(arcs, relations, batch.heads, batch.relations, batch.is_word)
        self.log("train/loss", loss, batch_size=len(batch.words))
        return cast(Tensor, loss)

    def validation_step(self, batch: ParserBatch, batch_index: int) -> None:
        """Count words with the right head and relation."""
        heads, relations = self.trees(batch)
        right = heads.eq(batch.heads) & relations.eq(batch.relations) & batch.is_word
        self._counts[0] += int(right.sum())
        self._counts[1] += int(batch.is_word.sum())

    def on_validation_epoch_end(self) -> None:
        """Keep a copy of the weights when the LAS is the best so far."""
        las = 100 * self._counts[0] / max(1, self._counts[1])
        self._counts = [0, 0]
        self.log("val/las", las, prog_bar=True)
        if not self.trainer.sanity_checking:
            logger.info("step %d: valid LAS %.2f", self.global_step, las)
            if self.best is None or las > self.best[0]:
                self.best = (las, {name: value.detach().cpu().clone() for name, value in self.state_dict().items()})

    def configure_optimizers(self) -> Any:  # noqa: ANN401  (Lightning's own union)
        """Adam with SuPar's settings; the schedule steps with every batch."""
        optimizer = torch.optim.Adam(self.parameters(), lr=self.learning_rate, betas=(0.9, 0.9), eps=1e-12)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.75 ** (1 / 5000))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    @torch.no_grad()
    def trees(self, batch: ParserBatch) -> tuple[Int[Tensor, "batch length"], Int[Tensor, "batch length"]]:
        """Heads and relation numbers of the best tree with a single root; 0 elsewhere."""
        arcs, relations = self(batch)
        heads = single_root_trees(arcs, batch.is_word)
        labels = relations.argmax(-1).gather(-1, heads.unsqueeze(-1)).squeeze(-1)
        return heads, labels * batch.is_word

    def parse(self, sentences: Sequence[Sentence], *, batch_size: int = 64) -> list[Sentence]:
        """The sentences with heads and relations, in the order given; parsed by length, so that little is padding."""
        self.eval()
        parsed: dict[int, Sentence] = {}
        order = sorted(range(len(sentences)), key=lambda index: len(sentences[index]))
        pairs = [len(sentences[index]) ** 2 for index in order]
        for begin, end in pairwise([*budget_starts(pairs, WORD_PAIRS, most=batch_size), len(order)]):
            chosen = order[begin:end]
            batch = collate([sentences[index] for index in chosen], self.vocabulary).to(self.device)
            for index, heads, labels in zip(chosen, *(t.tolist() for t in self.trees(batch)), strict=True):
                parsed[index] = _with_tree(
                    sentences[index], heads[1:], [self.vocabulary.relations[i] for i in labels[1:]]
                )
        return [parsed[index] for index in range(len(sentences))]

    def evaluate(self, gold: Sequence[Sentence]) -> ParserScores:
        """Attachment scores on sentences with gold words, and the speed in words per second."""
        started = time.perf_counter()
        predicted = self.parse([Sentence(sentence.words) for sentence in gold])
        return attachment_scores(gold, predicted, seconds=time.perf_counter() - started)

    def save(self, folder: Path, description: dict[str, Any]) -> None:
        """Write weights (tensors alone, no pickled code) and a JSON file of vocabulary and sizes."""
        torch.save({name: value.cpu() for name, value in self.state_dict().items()}, folder / WEIGHTS)
        content = {"sizes": asdict(self.sizes), **asdict(self.vocabulary)}
        write_atomically(folder / VOCABULARY, json.dumps(content, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, folder: Path) -> "BiaffineParser":
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
                f"{folder}: expected {WEIGHTS} and {VOCABULARY} of a biaffine parser "
                f"({type(error).__name__}: {error}). Train it again: depgen train-parser --overwrite --config "
                "experiments/parser_ewt_supar.yaml"
            ) from error
        return parser.eval()


def single_root_trees(
    scores: Float[Tensor, "batch dependents heads"], is_word: Bool[Tensor, "batch dependents"]
) -> Int[Tensor, "batch dependents"]:
    """The heads of each sentence's best tree with a single root, 0 elsewhere; the root precedes the words."""
    arcs = scores.detach().cpu().double().numpy()
    heads = maximum_spanning_trees(arcs[:, 1:, 1:], is_word.sum(1).cpu().numpy(), root_scores=arcs[:, 1:, 0])
    return F.pad(torch.from_numpy(heads).clamp_min(0), (1, 0)).to(scores.device)


def _with_tree(sentence: Sentence, heads: Sequence[int], relations: Sequence[str]) -> Sentence:
    length = len(sentence)
    own = ["root" if head == 0 else rel for head, rel in zip(heads[:length], relations[:length], strict=True)]
    return replace(sentence, heads=tuple(heads[:length]), relations=tuple(own))


class SuparTraining(ParserTraining):
    """SuPar's biaffine parser with words and characters, trained under Lightning for a budget of steps.

    Args:
        steps: updates of the weights.
        words_per_batch: words an update sees, padding included.
        evaluate_every: steps between two evaluations on the development set, whose best LAS is kept.
        learning_rate: of Adam at the first step.
        clip: largest norm of the gradient.
        min_frequency: words rarer than this are unknown.
        characters_per_word: how many of a word's first characters count.
        sizes: of the network.
        accelerator: Lightning's name of the device.

    Raises:
        UserError: a size of nothing.
    """

    kind = "SuPar biaffine"

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

    def options(self) -> dict[str, Any]:
        """All arguments but the device."""
        options = {name: value for name, value in vars(self).items() if name not in ("sizes", "accelerator")}
        return {**options, "sizes": asdict(self.sizes)}

    def train(self, train: list[Sentence], valid: list[Sentence], *, seed: int) -> BiaffineParser:
        """The parser with the weights that had the best LAS on `valid`."""
        quiet_libraries()
        L.seed_everything(seed, verbose=False)
        vocabulary = ParserVocabulary.build(
            train, min_frequency=self.min_frequency, characters_per_word=self.characters_per_word
        )
        parser = BiaffineParser(vocabulary, self.sizes, self.learning_rate)
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
        trainer.fit(parser, self._loader(train, vocabulary, seed=seed), self._loader(valid, vocabulary, seed=None))
        if parser.best is None or self.steps % self.evaluate_every:
            trainer.validate(parser, self._loader(valid, vocabulary, seed=None), verbose=False)
        assert parser.best is not None
        parser.load_state_dict(parser.best[1])
        return parser.eval()

    def _loader(
        self, sentences: list[Sentence], vocabulary: ParserVocabulary, *, seed: int | None
    ) -> DataLoader[Sentence]:
        batches = LengthBatches([len(s) for s in sentences], self.words_per_batch, seed=seed)
        return DataLoader(
            cast(Any, sentences), batch_sampler=batches, collate_fn=lambda chosen: collate(chosen, vocabulary)
        )


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
