"""A small system that writes a sentence level by level: all words of a level take the place of their placeholders.

An item is a sentence at a level of its projective tree: the words above the level, and a placeholder `[relation]` for
each word of it. A placeholder becomes a word, and is expanded into the placeholders of the word's dependents.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Generator, Tensor, nn

from depgen.backbones.backbone import BackboneFactory
from depgen.data.batch import Batch, ItemBatch, TokenItem
from depgen.data.text import TextData
from depgen.data.vocabulary import Vocabulary, WordVocabulary
from depgen.decoding.generated import Generated
from depgen.decoding.sampling import log_probs_of, sample
from depgen.decoding.settings import Sampling
from depgen.errors import UserError, check_at_least
from depgen.language_models.base import LanguageModel
from depgen.metrics.item_scores import ItemScores
from depgen.nn.lengths import mask_of
from depgen.nn.precise import precise_device
from depgen.nn.vocabulary import log_softmax_over_vocabulary, word_log_probs
from depgen.training.hyper_parameters import factory
from depgen.trees.sentence import Document

REACH = 8
"""Longer distances from a head are read as this one."""


class LevelWords:
    """Builds a vocabulary of words and placeholders, with a table of expansions."""

    reads_trees = True

    def build(self, documents: Iterable[Document]) -> Vocabulary:
        sentences = [each for document in documents for each in document.sentences]
        placeholders = sorted({f"[{relation}]" for each in sentences for relation in each.relations})
        rows = {row for each in sentences for row in expansions(each.heads, each.relations)}
        words = WordVocabulary(specials=placeholders).build([Document(tuple(sentences), "")])
        return words.with_tables({"expansions": sorted(map(list, rows))})

    def fingerprint(self) -> str:
        return "words of levels 1"


def expansions(heads, relations):
    """Of each word its row of the table: the relations of its dependents at the left, `*`, and those at the right."""
    arcs = list(zip(range(1, len(heads) + 1), heads, relations, strict=True))
    for word, *_ in arcs:
        left = [relation for place, head, relation in arcs if head == word and place < word]
        yield *left, "*", *(relation for place, head, relation in arcs if head == word and place > word)


def depths_of(heads):
    """The level of each word: 1 for the root."""
    return np.array([depth_of(word, heads) for word in range(1, len(heads) + 1)])


def depth_of(word, heads):
    return 0 if word == 0 else 1 + depth_of(heads[word - 1], heads)


class LevelItems:
    """Each sentence once for each level of its tree."""

    def __init__(self, sentences) -> None:
        self.sentences = sentences
        depths = [depths_of(sentences[k].heads) for k in range(len(sentences))]
        self.places = [(k, level) for k, each in enumerate(depths) for level in range(1, each.max() + 1)]
        self.lengths = np.array([(depths[k] <= level).sum() for k, level in self.places])

    def __getitem__(self, index):
        sentence, level = self.places[index]
        return replace(self.sentences[sentence], index=int(index)), level


class LevelData(TextData):
    """Sentences at their levels."""

    def items(self, split):
        return LevelItems(self.filled_split(split))


@dataclass(frozen=True, kw_only=True)
class LevelBatch(Batch):
    """Sentences at a level. `heads` are 1-based within the level, 0 = root; expansions are places in the table."""

    inputs: Tensor
    targets: Tensor
    heads: Tensor
    expansions: Tensor
    is_open: Tensor
    lengths: Tensor
    items: Tensor
    global_tokens: int
    unk: int

    @property
    def is_word(self):
        return mask_of(self.lengths, self.inputs.shape[1])


def rows_of(vocabulary):
    """The table of expansions."""
    return [tuple(row) for row in vocabulary.tables["expansions"]]


def collate_levels(batch: ItemBatch) -> LevelBatch:
    known = {row: number for number, row in enumerate(rows_of(batch.vocabulary))}
    columns = [columns_of(item, level, known, batch.vocabulary) for item, level in batch.items]
    inputs, targets, heads, chosen, is_open = (padded(each) for each in zip(*columns, strict=True))
    return LevelBatch(
        inputs=inputs, targets=targets, heads=heads, expansions=chosen, is_open=is_open.bool(),
        lengths=torch.tensor([len(each[0]) for each in columns]),
        items=torch.tensor([item.index for item, _ in batch.items]),
        global_tokens=batch.global_tokens, unk=batch.vocabulary.unk,
    )  # fmt: skip


def columns_of(item, level, known, vocabulary):
    """Of a sentence at a level what is read, the words, their heads and expansions, and which of them are open."""
    depths, heads, relations = depths_of(item.heads), np.array(item.heads), list(item.relations)
    kept, opened = depths <= level, depths == level
    rows = list(expansions(heads, relations))
    if unknown := [row for row, here in zip(rows, opened, strict=True) if here and row not in known]:
        raise UserError(f"item {item.index + 1}: the vocabulary has no expansion {' '.join(unknown[0])!r}.")
    numbers = np.array([0, *kept.cumsum()])
    placeholders = np.array([vocabulary.special_ids[f"[{each}]"] for each in relations])
    chosen = np.array([known.get(row, 0) for row in rows]) * opened
    columns = (np.where(opened, placeholders, item.ids), item.ids, numbers[heads], chosen, opened)
    return [each[kept].astype(np.int64) for each in columns]


def padded(rows):
    return nn.utils.rnn.pad_sequence([torch.as_tensor(each) for each in rows], batch_first=True)


@dataclass(frozen=True)
class LevelOptions(Sampling):
    """How words and expansions are drawn. A sentence that would have more words than wanted gets no more levels.

    Attributes:
        levels: the deepest level, whose words have no dependents.
    """

    levels: int = 12

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(1, levels=self.levels)


@dataclass
class Growing:
    """A sentence of which some words are placeholders still."""

    generator: Generator
    ids: list[int]
    heads: list[int] = field(default_factory=lambda: [0])
    relations: list[str] = field(default_factory=lambda: ["root"])
    is_open: list[bool] = field(default_factory=lambda: [True])
    log_prob: float = 0.0

    def expand(self, words, rows, placeholders) -> None:
        """Put words in place of the placeholders, and new placeholders at both sides of these."""
        choices, found, numbers = iter(zip(words, rows, strict=True)), [], [0]
        for place, (token, relation) in enumerate(zip(self.ids, self.relations, strict=True)):
            word, row = next(choices) if self.is_open[place] else (token, ("*",))
            numbers.append(len(found) + row.index("*") + 1)
            written = (word, self.heads[place], relation, False)
            found += [written if each == "*" else (placeholders[each], place + 1, each, True) for each in row]
        self.ids, heads, self.relations, self.is_open = map(list, zip(*found, strict=True))
        self.heads = [numbers[head] for head in heads]


class LevelWriter(LanguageModel):
    """p(words, tree): expansions by the states of a level's placeholders, words by these and the expansions."""

    likelihood = "bound"
    sentences_alone = True
    generation_options = LevelOptions
    table_sizes: ClassVar = {"expansions": "expansions"}
    collate = property(lambda self: collate_levels)
    output = property(lambda self: (self.backbone.output_weight, self.backbone.output_bias))

    def __init__(
        self, backbone: BackboneFactory, vocabulary_size: int, expansions: int | None = None, **kwargs
    ) -> None:
        super().__init__(**kwargs)
        self.save_hyperparameters()
        self.backbone = factory(backbone, BackboneFactory)(vocabulary_size)
        self.distances = nn.Embedding(2 * REACH + 2, self.backbone.width)

    def configure_model(self) -> None:
        super().configure_model()
        if not hasattr(self, "expansion_output"):
            size, width = self.hparams.expansions, self.backbone.width
            self.expansion_output, self.expansion_embedding = nn.Linear(width, size), nn.Embedding(size, width)

    def read(self, inputs, heads, is_word, is_open, choose):
        """The last states, and of each position the log-probabilities of expansions and what `choose` makes of them."""
        distances = heads - torch.arange(1, heads.size(1) + 1, device=heads.device)
        distances = torch.where(heads > 0, distances.clamp(-REACH, REACH) + REACH + 1, 0)
        found = []

        def after_layer(layer, hidden):
            if layer:
                return hidden
            log_probs = self.expansion_output(hidden).log_softmax(-1)
            found.extend((log_probs, choose(log_probs)))
            return hidden + self.expansion_embedding(found[1]) * is_open[..., None]

        added = self.distances(distances)
        output = self.backbone(inputs, padding=~is_word, added_embedding=added, after_layer=after_layer)
        return output.hidden, *found

    def forward(self, batch):
        """The log-probability of each placeholder's word and expansion together; 0 elsewhere."""
        hidden, log_probs, chosen = self.read(
            batch.inputs, batch.heads, batch.is_word, batch.is_open, lambda _: batch.expansions
        )
        words = word_log_probs(hidden, *self.output, batch.targets)
        return (words + log_probs.gather(2, chosen[..., None])[..., 0]).masked_fill(~batch.is_open, 0.0)

    def training_step(self, batch, batch_idx):
        return self.log_train(-self(batch).sum(), batch.global_tokens)

    def item_scores(self, batch):
        counts = batch.is_open.sum(1)
        unknown = (batch.is_open & (batch.targets == batch.unk)).sum()
        nll = -self(batch).double().sum(1, keepdim=True)
        return ItemScores(batch.items, nll, counts[:, None], counts, unknown, counts.sum())

    @torch.inference_mode()
    def sentence_log_probs(self, documents, *, vocabulary, structure=None):
        """The joint score of each word and its expansion; a structure is heads and relations."""
        if structure is None:
            raise UserError(f"{type(self).__name__} scores texts with their trees alone: give structure.")
        found = []
        for document, trees in zip(documents, structure, strict=True):
            of_document = []
            for ids, (heads, relations) in zip(document, trees, strict=True):
                depths = depths_of(heads)
                item = TokenItem(0, np.array(ids), np.array(heads), relations=np.array(relations))
                items = [(item, level) for level in range(1, depths.max() + 1)]
                batch = self.collate(ItemBatch(items, len(ids), vocabulary)).to(self.device)
                scores, of_words = self(batch).cpu().numpy(), np.zeros(len(ids))
                for level, (row, opened) in enumerate(zip(scores, batch.is_open.cpu().numpy(), strict=True), start=1):
                    of_words[depths == level] = row[opened]
                of_document.append(of_words)
            found.append(of_document)
        return found

    @torch.inference_mode()
    def generate(self, prompts, *, vocabulary, options, seeds, max_new_tokens, number=1, batch_size=64, progress=False):
        """Sentences and their trees."""
        if any(prompts):
            raise UserError(f"{type(self).__name__} writes whole sentences: leave out prompts.")
        rows = rows_of(vocabulary)
        placeholders = {name[1:-1]: each for name, each in vocabulary.special_ids.items() if name[0] == "["}
        generators = [Generator(precise_device(self.device)).manual_seed(seed) for seed in seeds]
        texts = [Growing(each, [placeholders["root"]]) for each in generators]
        for first in range(0, len(texts), batch_size):
            for level in range(1, options.levels + 1):
                if not (growing := [each for each in texts[first : first + batch_size] if any(each.is_open)]):
                    break
                most = 0 if level == options.levels else max_new_tokens
                self.write_level(growing, rows, placeholders, vocabulary, options, most)
        return [Generated(each.ids, (tuple(each.heads), tuple(each.relations)), each.log_prob) for each in texts]

    def write_level(self, texts, rows, placeholders, vocabulary, options, most):
        """Draw expansions of all placeholders and then words; none gets dependents in a text that has `most` words."""
        inputs, heads, is_word, is_open = (
            padded(each).to(self.device)
            for each in zip(*((t.ids, t.heads, [True] * len(t.ids), t.is_open) for t in texts), strict=True)
        )
        counts = is_open.sum(1).tolist()
        generators = [each.generator for each, count in zip(texts, counts, strict=True) for _ in range(count)]
        sizes, leaf = torch.tensor([len(row) - 1 for row in rows], device=self.device), rows.index(("*",))

        def choose(log_probs):
            drawn = torch.full_like(inputs, leaf)
            drawn[is_open] = sample(log_probs[is_open], options, generators)
            fits = is_word.sum(1) + sizes[drawn].sum(1) <= most
            return torch.where(fits[:, None], drawn, leaf)

        hidden, log_probs, chosen = self.read(inputs, heads, is_word, is_open, choose)
        words = log_softmax_over_vocabulary(hidden[is_open], *self.output)
        no_words = torch.tensor(sorted(vocabulary.special_ids.values()), device=self.device)
        drawn = sample(words.index_fill(1, no_words, -torch.inf), options, generators)
        scores = log_probs_of(log_probs[is_open], chosen[is_open]) + log_probs_of(words, drawn)
        of_texts = (each.split(counts) for each in (drawn, chosen[is_open], scores))
        for text, ids, numbers, each in zip(texts, *of_texts, strict=True):
            text.log_prob += float(each.sum())
            text.expand(ids.tolist(), [rows[number] for number in numbers.tolist()], placeholders)
