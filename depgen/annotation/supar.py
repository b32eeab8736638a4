"""SuPar's biaffine parsers of trees and graphs and its span parser: their networks, their training, their annotators.

All three score pairs of places by biaffine functions of BiLSTM states, and the labels of pairs by others. Words are
separated already. Folders of parsers that are trained here hold tensors and JSON alone; SuPar's own files are pickles.
"""

import json
import logging
import random
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar, cast

import lightning as L
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from lightning.fabric.utilities import move_data_to_device
from torch import Tensor
from torch.utils.data import DataLoader, Sampler

from depgen.annotation.annotator import Parser, ParserAnnotator, read_description
from depgen.annotation.training import ParserTraining
from depgen.data.sampler import budget_starts
from depgen.decoding.binary_trees import NO_CONSTITUENT, best_binary_trees, chart_of, constituents_of
from depgen.decoding.projective_trees import ROOT_RELATION, ProjectiveTrees
from depgen.decoding.spanning_tree import maximum_spanning_trees
from depgen.errors import UserError
from depgen.locations import write_atomically
from depgen.training.class_paths import run_being_read
from depgen.training.logs import quiet_libraries
from depgen.trees.annotator import SentenceError, Structure
from depgen.trees.graph import sorted_edges
from depgen.trees.sentence import Sentence

logger = logging.getLogger(__name__)

KINDS: Mapping[Structure, str] = {
    "tree": "SuPar biaffine",
    "graph": "SuPar biaffine graph",
    "constituency": "SuPar CRF constituency",
}
"""How descriptions and schemes name the parser of each structure."""
PAD, UNK, BOS = 0, 1, 2
WORD_PAIRS = 2**18
"""Pairs of words scored at a time when parsing, padding included: with 50 relations their scores take 50 MB."""
EDGES = 2**11
"""Edges of graphs whose labels are scored at a time: with 400 labels and vectors of 50 numbers they take 160 MB."""
MAX_WORDS = 900
"""SuPar itself looks for cycles by recursion, one level a word; Python allows about a thousand."""
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


# -- sentences as numbers -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ParserVocabulary:
    """Words (lower-cased), characters and labels; ids of words and characters start after padding, unknown, BOS.

    `relations` are the labels of what the parser finds: relations of trees, labels of edges or of constituents.
    """

    words: dict[str, int]
    characters: dict[str, int]
    relations: list[str]
    characters_per_word: int = 20

    @classmethod
    def build(cls, sentences: Sequence[Sentence], structure: Structure, *, min_frequency: int) -> "ParserVocabulary":
        """From training sentences; words rarer than `min_frequency` are unknown."""
        words = Counter(word.lower() for sentence in sentences for word in sentence.words)
        characters = {character for sentence in sentences for word in sentence.words for character in word}
        frequent = (word for word, count in words.items() if count >= min_frequency)
        labels = {label for sentence in sentences for *_, label in labelled_pairs(sentence, structure)}
        labels |= {NO_CONSTITUENT} if structure == "constituency" else set()
        return cls(_numbered(frequent), _numbered(characters), sorted(labels))


def _numbered(items: Iterable[str]) -> dict[str, int]:
    return {item: number for number, item in enumerate(sorted(items), start=BOS + 1)}


Labelled = tuple[int, int, str]


def labelled_pairs(sentence: Sentence, structure: Structure) -> Sequence[Labelled]:
    """What a parser learns from a sentence: dependent, head (0 = root) and label, or start, end and label of a span.

    Of several edges between the same two words only the first can be learnt; it comes last.
    """
    if structure == "tree":
        words = range(1, len(sentence) + 1)
        return list(zip(words, sentence.heads or (), sentence.relations or (), strict=False))
    if structure == "graph":
        return [(dependent, head, label) for head, dependent, label in reversed(sentence.edges or ())]
    return [] if sentence.spans is None else chart_of(sentence.spans, len(sentence))


def with_pairs(sentence: Sentence, pairs: Sequence[Labelled], structure: Structure) -> Sentence:
    """The sentence with what a parser has found, in any order."""
    if structure == "tree":
        _, heads, labels = zip(*sorted(pairs), strict=True)
        relations = tuple("root" if head == 0 else label for head, label in zip(heads, labels, strict=True))
        return replace(sentence, heads=heads, relations=relations)
    if structure == "graph":
        return replace(sentence, edges=sorted_edges([(head, dependent, label) for dependent, head, label in pairs]))
    return replace(sentence, spans=constituents_of(sorted(pairs, key=lambda span: (span[0], -span[1]))))


class ParserBatch(NamedTuple):
    """Sentences as ids, BOS first, and with constituents another BOS last.

    `is_word` is true on words, not on BOS and padding. `labels` has the number of each pair's label, -1 where the
    sentence has no such arc or edge [dependent, head], or span [start, end].
    """

    words: Int[Tensor, "batch length"]
    characters: Int[Tensor, "batch length characters"]
    is_word: Bool[Tensor, "batch length"]
    labels: Int[Tensor, "batch places places"]

    @property
    def lengths(self) -> Int[Tensor, " batch"]:
        """Words of each sentence."""
        return self.is_word.sum(1)


# -- networks -----------------------------------------------------------------------------------------------------

_Result = TypeVar("_Result")


class BiaffineParser(L.LightningModule):
    """A parser of SuPar under Lightning; Adam with exponentially falling rate, as SuPar trains it.

    Args:
        vocabulary: sizes the embeddings and names the labels.
        sizes: of the network.
        learning_rate: at the first step, a quarter less each 5,000 steps; None for the class's own.
    """

    structure: ClassVar[Structure]
    network: ClassVar[str]
    """The name of SuPar's model."""
    own_rate: ClassVar[float] = 2e-3
    betas: ClassVar[tuple[float, float]] = (0.9, 0.9)
    """Of Adam, as SuPar has them for this kind of parser."""

    def __init__(self, vocabulary: ParserVocabulary, sizes: BiaffineSizes, learning_rate: float | None = None) -> None:
        super().__init__()
        import supar.models

        apply_fixes()
        self.vocabulary, self.sizes = vocabulary, sizes
        self.learning_rate = learning_rate or self.own_rate
        self.best: tuple[float, dict[str, Tensor]] | None = None
        self._counts = torch.zeros(3, dtype=torch.long)
        labels, dropout = len(vocabulary.relations), sizes.dropout
        self.model = getattr(supar.models, self.network)(  # each takes those of the options that are its own
            n_words=len(vocabulary.words) + BOS + 1, n_chars=len(vocabulary.characters) + BOS + 1, feat=["char"],
            n_embed=sizes.word_embedding, n_pretrained=sizes.word_embedding, n_feat_embed=sizes.character_output,
            n_char_embed=sizes.character_embedding, n_char_hidden=sizes.character_hidden, char_pad_index=PAD,
            embed_dropout=dropout, n_lstm_hidden=sizes.lstm_hidden, n_lstm_layers=sizes.lstm_layers,
            encoder_dropout=dropout, pad_index=PAD, unk_index=UNK,
            n_arc_mlp=sizes.arc_mlp, n_edge_mlp=sizes.arc_mlp, n_span_mlp=sizes.arc_mlp,
            n_rels=labels, n_labels=labels, n_rel_mlp=sizes.relation_mlp, n_label_mlp=sizes.relation_mlp,
            mlp_dropout=dropout, edge_mlp_dropout=dropout, label_mlp_dropout=dropout,
            char_dropout=dropout if self.structure == "graph" else 0.0,
        )  # fmt: skip

    @abstractmethod
    def loss(self, batch: ParserBatch) -> Tensor:
        """In nats."""

    @abstractmethod
    def find(self, batch: ParserBatch) -> Int[Tensor, "batch places places"]:
        """The number of each found pair's label, -1 elsewhere."""

    def collate(self, sentences: Sequence[Sentence]) -> ParserBatch:
        """A batch with what is known of the sentences.

        A label unknown to the vocabulary has the number after the last, which is never found; of trees, where it
        matters to the choice of weights only, 0.
        """
        closing = self.structure == "constituency"
        shape = (len(sentences), 1 + max(len(sentence) for sentence in sentences) + closing)
        words = torch.zeros(shape, dtype=torch.long)
        characters = torch.zeros(*shape, self.vocabulary.characters_per_word, dtype=torch.long)
        labels = torch.full((len(sentences), shape[1] - closing, shape[1] - closing), -1)
        numbers = {label: number for number, label in enumerate(self.vocabulary.relations)}
        unknown = 0 if self.structure == "tree" else len(numbers)
        for row, sentence in enumerate(sentences):
            for bos in (0, len(sentence) + 1)[: 1 + closing]:
                words[row, bos] = characters[row, bos, 0] = BOS
            for column, word in enumerate(sentence.words, start=1):
                words[row, column] = self.vocabulary.words.get(word.lower(), UNK)
                first = word[: self.vocabulary.characters_per_word]
                ids = [self.vocabulary.characters.get(character, UNK) for character in first]
                characters[row, column, : len(ids)] = torch.tensor(ids)
            for one, other, label in labelled_pairs(sentence, self.structure):
                labels[row, one, other] = numbers.get(label, unknown)
        return ParserBatch(words, characters, words.ne(PAD) & words.ne(BOS), labels)

    def training_step(self, batch: ParserBatch, batch_index: int) -> Tensor:
        """The loss of a batch."""
        return self.loss(batch)

    def counts(self, batch: ParserBatch) -> Int[Tensor, "3"]:
        """How many labelled arcs, edges or constituents are right, are found, and are to be found."""
        found, gold = self.find(batch), batch.labels
        if NO_CONSTITUENT in self.vocabulary.relations:
            nothing = self.vocabulary.relations.index(NO_CONSTITUENT)
            found, gold = (labels.where(labels.ne(nothing), -1) for labels in (found, gold))
        right = found.eq(gold) & found.ge(0)
        return torch.stack([right.sum(), found.ge(0).sum(), gold.ge(0).sum()]).cpu()

    def validation_step(self, batch: ParserBatch, batch_index: int) -> None:
        """Count what is right."""
        self._counts += self.counts(batch)

    def on_validation_epoch_end(self) -> None:
        """Keep a copy of the weights when the labelled F1 (of trees, the LAS) is the best so far."""
        right, found, gold = self._counts.tolist()
        score = 200 * right / max(1, found + gold)
        self._counts.zero_()
        logger.info("step %d: valid %s %.2f", self.global_step, "LAS" if self.structure == "tree" else "F1", score)
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

    def parsed(self, sentences: Sequence[Sentence], batch: ParserBatch) -> list[Sentence]:
        """The sentences of a batch with what the parser finds."""
        found = self.find(batch)
        places = found.ge(0).nonzero()
        labels = found[places.unbind(1)].tolist()
        pairs: list[list[Labelled]] = [[] for _ in sentences]
        for (row, one, other), label in zip(places.tolist(), labels, strict=True):
            pairs[row].append((one, other, self.vocabulary.relations[label]))
        return [with_pairs(*each, self.structure) for each in zip(sentences, pairs, strict=True)]

    @torch.no_grad()
    def by_length(
        self,
        function: Callable[[list[Sentence], ParserBatch], list[_Result]],
        sentences: Sequence[Sentence],
        *,
        batch_size: int,
    ) -> list[_Result]:
        """What a function finds in sentences, in the order given; batches are of like length, with little padding."""
        self.eval()
        results: dict[int, _Result] = {}
        order = sorted(range(len(sentences)), key=lambda index: len(sentences[index]))
        pairs = [len(sentences[index]) ** 2 for index in order]
        for begin, end in pairwise([*budget_starts(pairs, WORD_PAIRS, most=batch_size), len(order)]):
            chosen = [sentences[index] for index in order[begin:end]]
            of_batch = function(chosen, move_data_to_device(self.collate(chosen), self.device))
            results.update(zip(order[begin:end], of_batch, strict=True))
        return [results[index] for index in range(len(sentences))]

    def save(self, folder: Path) -> None:
        """Write weights (tensors alone, no pickled code) and a JSON file of vocabulary and sizes."""
        torch.save({name: value.cpu() for name, value in self.state_dict().items()}, folder / WEIGHTS)
        content = {"sizes": asdict(self.sizes), **asdict(self.vocabulary)}
        write_atomically(folder / VOCABULARY, json.dumps(content, ensure_ascii=False) + "\n")


def load_parser(folder: Path, structure: Structure) -> BiaffineParser:
    """The parser that `save` wrote; nothing in the files is executed.

    Raises:
        UserError: a file is missing, cut short or does not fit the other.
    """
    try:
        content = json.loads((folder / VOCABULARY).read_text(encoding="utf-8"))
        sizes = BiaffineSizes(**content.pop("sizes"))
        parser = PARSERS[structure](ParserVocabulary(**content), sizes)
        parser.load_state_dict(torch.load(folder / WEIGHTS, map_location="cpu", weights_only=True))
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, EOFError) as error:
        raise UserError(
            f"{folder}: expected {WEIGHTS} and {VOCABULARY} of a SuPar parser ({type(error).__name__}: {error}). "
            "Train it again: depgen annotate --train, with the YAML that trained it, and --overwrite."
        ) from error
    return parser.eval()


class TreeParser(BiaffineParser):
    """The dependency parser of Dozat & Manning (2017), which gives the best tree with one root."""

    structure, network = "tree", "BiaffineDependencyModel"

    def forward(
        self, batch: ParserBatch
    ) -> tuple[Float[Tensor, "batch length length"], Float[Tensor, "batch length length relations"]]:
        """Scores of arcs [dependent, head] and of their relations; position 0 is the root."""
        arcs, relations = self.model(batch.words, [batch.characters])
        return arcs, relations

    def loss(self, batch: ParserBatch) -> Tensor:
        """Cross-entropy of heads and of the gold heads' relations, a mean over words."""
        heads = batch.labels.ge(0).int().argmax(-1)
        relations = batch.labels.gather(-1, heads.unsqueeze(-1)).squeeze(-1)
        return cast(Tensor, self.model.loss(*self(batch), heads, relations, batch.is_word))

    @torch.no_grad()
    def find(self, batch: ParserBatch) -> Int[Tensor, "batch dependents heads"]:
        """The relations of the best tree with a single root."""
        arcs, relations = self(batch)
        heads = single_root_trees(arcs, batch.is_word).unsqueeze(-1)
        labels = relations.argmax(-1).gather(-1, heads)
        return torch.full_like(batch.labels, -1).scatter(-1, heads, labels.where(batch.is_word.unsqueeze(-1), -1))

    def distributions(self, sentences: Sequence[Sentence], batch: ParserBatch) -> list[ProjectiveTrees]:
        """The random fields over the projective trees of a batch's sentences whose potentials are the arcs' scores.

        Relations are distributed by the softmax of their scores; `root` is that of roots alone.
        """
        arcs, relations = (scores.double().cpu() for scores in self(batch))
        names = self.vocabulary.relations
        if len(names) > 1 and ROOT_RELATION in names:
            relations[..., names.index(ROOT_RELATION)] = -torch.inf
        labels = relations.log_softmax(-1).numpy()
        distributions = []
        for row, sentence in enumerate(sentences):
            words = slice(1, len(sentence) + 1)
            own = arcs[row].numpy()
            distributions.append(
                ProjectiveTrees(own[words, words].copy(), own[words, 0], labels[row, words, words].copy(), tuple(names))
            )
        return distributions


def single_root_trees(
    scores: Float[Tensor, "batch dependents heads"], is_word: Bool[Tensor, "batch dependents"]
) -> Int[Tensor, "batch dependents"]:
    """The heads of each sentence's best tree with a single root, 0 elsewhere; the root precedes the words."""
    arcs = scores.detach().cpu().double().numpy()
    heads = maximum_spanning_trees(arcs[:, 1:, 1:], is_word.sum(1).cpu().numpy(), root_scores=arcs[:, 1:, 0])
    return F.pad(torch.from_numpy(heads).clamp_min(0), (1, 0)).to(scores.device)


class GraphParser(BiaffineParser):
    """The parser of semantic dependency graphs of Dozat & Manning (2018).

    Every pair of words is an edge or not, by itself: a word may have several heads or none, and the root several
    dependents. An edge has one label; of several labels between the same two words it learns the first. A word is never
    its own head.
    """

    structure, network = "graph", "BiaffineSemanticDependencyModel"
    own_rate, betas = 1e-3, (0.0, 0.95)

    def possible(self, batch: ParserBatch) -> Bool[Tensor, "batch dependents heads"]:
        """Which pairs may be edges: those of a word and another word, or the root."""
        heads = batch.is_word.clone()
        heads[:, 0] = True
        loops = torch.eye(heads.shape[1], dtype=torch.bool, device=heads.device)
        return batch.is_word.unsqueeze(2) & heads.unsqueeze(1) & ~loops

    def forward(
        self, batch: ParserBatch
    ) -> tuple[Float[Tensor, "batch length length"], Float[Tensor, "batch length states"]]:
        """Scores of edges [dependent, head], positive where one is likelier than none, and the BiLSTM's states."""
        states = self.model.encode(batch.words, [batch.characters])
        edges = self.model.edge_attn(self.model.edge_mlp_d(states), self.model.edge_mlp_h(states))
        return edges[:, 1] - edges[:, 0], states

    def label_scores(
        self, states: Float[Tensor, "batch length states"], wanted: Bool[Tensor, "batch dependents heads"]
    ) -> Float[Tensor, "edges labels"]:
        """Scores of the labels of the wanted pairs alone; of all pairs they would take most of the time and memory."""
        rows, dependents, heads = wanted.nonzero(as_tuple=True)
        of_dependents, of_heads = self.model.label_mlp_d(states), self.model.label_mlp_h(states)
        parts = (
            self.model.label_attn(of_dependents[row, dependent].unsqueeze(1), of_heads[row, head].unsqueeze(1))
            for row, dependent, head in zip(
                *(torch.split(index, EDGES) for index in (rows, dependents, heads)), strict=True
            )
        )
        return torch.cat([part.flatten(1) for part in parts])

    def loss(self, batch: ParserBatch) -> Tensor:
        """See `graph_loss`."""
        possible = self.possible(batch)
        edges, states = self(batch)
        labels = self.label_scores(states, batch.labels.ge(0) & possible)
        return graph_loss(edges, labels, batch.labels, possible)

    @torch.no_grad()
    def find(self, batch: ParserBatch) -> Int[Tensor, "batch dependents heads"]:
        """The labels of the edges that are likelier than none."""
        edges, states = self(batch)
        is_edge = edges.gt(0) & self.possible(batch)
        found = torch.full_like(batch.labels, -1)
        found[is_edge] = self.label_scores(states, is_edge).argmax(-1)
        return found


def graph_loss(
    edges: Float[Tensor, "batch dependents heads"],
    labels: Float[Tensor, "edges labels"],
    gold: Int[Tensor, "batch dependents heads"],
    possible: Bool[Tensor, "batch dependents heads"],
    *,
    label_share: float = 0.1,
) -> Float[Tensor, ""]:
    """Cross-entropy of edges (a mean over possible pairs) and of gold edges' labels, in nats, weighted.

    share * labels + (1 - share) * edges (Dozat & Manning, 2018). A batch without edges has no label loss.

    Args:
        edges: scores of all pairs, positive for an edge.
        labels: scores of the gold edges' labels, edges in row-major order.
        gold: number of each edge's label, -1 where there is none.
        possible: pairs that may be edges.
        label_share: weight of the labels.
    """
    is_edge = gold.ge(0) & possible
    edge_loss = F.binary_cross_entropy_with_logits(edges[possible], is_edge[possible].to(edges.dtype))
    label_loss = F.cross_entropy(labels, gold[is_edge], reduction="sum") / is_edge.sum().clamp_min(1)
    return label_share * label_loss + (1 - label_share) * edge_loss


class ConstituencyParser(BiaffineParser):
    """The CRF parser of constituents of Zhang et al. (2020), which gives the best binary tree of labelled spans."""

    structure, network = "constituency", "CRFConstituencyModel"

    def possible(self, batch: ParserBatch) -> Bool[Tensor, "batch starts ends"]:
        """Which pairs are a start and an end of a span."""
        places = torch.arange(batch.labels.shape[1], device=batch.labels.device)
        return (places[:, None] < places) & (places <= batch.lengths[:, None, None])

    def forward(
        self, batch: ParserBatch
    ) -> tuple[Float[Tensor, "batch places places"], Float[Tensor, "batch places places labels"]]:
        """Scores of spans [start, end] and of their labels."""
        spans, labels = self.model(batch.words, [batch.characters])
        return spans, labels

    def loss(self, batch: ParserBatch) -> Tensor:
        """-log p(tree) / words under a CRF over binary trees, plus the mean cross-entropy of its labels."""
        loss, _ = self.model.loss(*self(batch), batch.labels, self.possible(batch), mbr=False)
        return cast(Tensor, loss)

    @torch.no_grad()
    def find(self, batch: ParserBatch) -> Int[Tensor, "batch starts ends"]:
        """The labels of the spans of the best binary tree."""
        spans, labels = self(batch)
        trees = best_binary_trees(spans.cpu().numpy(), batch.lengths.tolist())
        found, best = torch.full_like(batch.labels, -1), labels.argmax(-1)
        for row, tree in enumerate(trees):
            starts, ends = torch.tensor(tree, device=found.device).unbind(1)
            found[row, starts, ends] = best[row, starts, ends]
        return found


PARSERS: Mapping[Structure, type[BiaffineParser]] = {
    "tree": TreeParser,
    "graph": GraphParser,
    "constituency": ConstituencyParser,
}

# -- training -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SuparTraining(ParserTraining):
    """Training of a biaffine parser with words and characters, under Lightning, for a budget of steps.

    Args:
        structure: what the parser gives a sentence, a `tree`, a `graph` or `constituency`.
        steps: updates of the weights.
        words_per_batch: words an update sees, padding included.
        evaluate_every: steps between two evaluations on the development set, whose best score is kept.
        learning_rate: of Adam at the first step; None for SuPar's, 0.001 for graphs and 0.002 for others.
        min_frequency: words rarer than this are unknown.
        sizes: of the network.
        accelerator: Lightning's name of the device.
    """

    structure: Structure = "tree"
    steps: int = 5000
    words_per_batch: int = 5000
    evaluate_every: int = 250
    learning_rate: float | None = None
    min_frequency: int = 2
    sizes: BiaffineSizes = field(default_factory=BiaffineSizes)
    accelerator: str = "auto"

    @property
    def kind(self) -> str:  # type: ignore[override]
        """How schemes name it."""
        return KINDS[self.structure]

    def options(self) -> dict[str, Any]:
        """All arguments but the device."""
        return {name: value for name, value in asdict(self).items() if name not in ("structure", "accelerator")}

    def train(self, train: list[Sentence], valid: list[Sentence], *, seed: int) -> BiaffineParser:
        """The parser with the weights that had the best score on `valid`."""
        quiet_libraries()
        L.seed_everything(seed, verbose=False)
        vocabulary = ParserVocabulary.build(train, self.structure, min_frequency=self.min_frequency)
        parser = PARSERS[self.structure](vocabulary, self.sizes, self.learning_rate)
        trainer = L.Trainer(
            max_steps=self.steps,
            val_check_interval=self.evaluate_every,
            check_val_every_n_epoch=None,
            num_sanity_val_steps=0,
            gradient_clip_val=5.0,
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

    def _loader(self, sentences: list[Sentence], parser: BiaffineParser, *, seed: int | None) -> DataLoader[Sentence]:
        batches = LengthBatches([len(sentence) for sentence in sentences], self.words_per_batch, seed=seed)
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


# -- annotators ---------------------------------------------------------------------------------------------------


class SuparAnnotator(ParserAnnotator):
    """Gives each sentence the best tree with a single root under a SuPar biaffine parser.

    Args:
        path: the name of a parser that was trained here (`depgen annotate --train`), its folder, or SuPar's own file.
        trust_checkpoint: load SuPar's own file, which is a pickle: whoever made it can run any code here. In a run
            folder, whose settings may be anybody's, it has no effect.
        batch_size: sentences parsed at a time.
        scheme: what to call the trees of SuPar's own file; parsers that were trained here say it themselves.
    """

    library, versions_of = "SuPar", ("supar", "torch")

    def __init__(
        self,
        path: str = "ewt_supar",
        trust_checkpoint: bool = False,
        batch_size: int = 64,
        scheme: str | None = None,
    ) -> None:
        self._run = run_being_read.get()
        self.trust_checkpoint = trust_checkpoint and self._run is None
        super().__init__(path, batch_size, scheme)

    def distributions(self, sentences: Sequence[Sentence]) -> list[ProjectiveTrees]:
        """Random fields over the projective trees of sentences with one root, whose potentials are the arcs' scores.

        Raises:
            UserError: no such parser, SuPar's own file, or a sentence that is empty.
        """
        parser = self.loaded()
        if not isinstance(parser, TreeParser):
            raise UserError(
                f"{self.name}: expected a parser that was trained here, whose scores of arcs are at hand, found "
                "SuPar's own file: train one by depgen annotate --train."
            )
        return parser.by_length(parser.distributions, self._as_trained(sentences), batch_size=self.batch_size)

    def _place(self) -> Path:
        place = super()._place()
        if place.is_file() and not self.trust_checkpoint:
            remedy = "If you trust where it comes from, add trust_checkpoint: true to the path. "
            raise UserError(
                f"{place} is a file in SuPar's own format, a pickle: loading it runs whatever code its maker put "
                f"there. {f'So none is loaded for the run folder {self._run}. ' if self._run else remedy}Parsers that "
                "`depgen annotate --train` makes are folders of weights and JSON and need no trust."
            )
        return place

    def _load(self) -> tuple[Parser, bool]:
        place = self._place()
        if place.is_file():
            return SuparFile(place), False
        description = read_description(place, KINDS[self.structure])
        return load_parser(place, self.structure), bool(description.get("lowercase", False))


class SuparGraphAnnotator(SuparAnnotator):
    """Gives each sentence the graph that SuPar's biaffine graph parser finds; a word may have several heads or none.

    Trees that a sentence has are left out: they are not this parser's.

    Args:
        path: the name of a parser that was trained here (`depgen annotate --train`), or its folder.
        batch_size: sentences parsed at a time.
    """

    structure = "graph"

    def __init__(self, path: str = "ewt_graph", batch_size: int = 64) -> None:
        super().__init__(path, batch_size=batch_size)


class SuparConstituencyAnnotator(SuparAnnotator):
    """Gives each sentence the constituents that SuPar's CRF parser finds.

    Trees that a sentence has are left out: they are not this parser's.

    Args:
        path: the name of a parser that was trained here (`depgen annotate --train`), or its folder.
        batch_size: sentences parsed at a time.
    """

    structure = "constituency"

    def __init__(self, path: str = "wsj_constituency", batch_size: int = 64) -> None:
        super().__init__(path, batch_size=batch_size)


# -- SuPar's own files, and repairs of SuPar 1.1.4 (2023) for today's torch ---------------------------------------
# `tests/annotation/test_supar_fixes.py` notices when one is no longer needed.


class SuparFile:
    """SuPar's own dependency parser from its own file. Runs the code in the file."""

    def __init__(self, path: Path) -> None:
        import supar

        apply_fixes()
        state = torch.load(path, map_location="cpu", weights_only=False)
        kind = supar.PARSER[state["name"]]
        device = "cuda" if torch.cuda.is_available() else "cpu"
        settings = state["args"].update({"path": str(path), "device": device})
        model = kind.MODEL(**settings)
        model.load_pretrained(state["pretrained"])
        model.load_state_dict(state["state_dict"], strict=False)
        self.parser = kind(settings, model.to(device), state["transform"])

    def parse(self, sentences: Sequence[Sentence], *, batch_size: int = 64) -> list[Sentence]:
        """Trees by SuPar's own `predict`; white space within a word would end it there, so it becomes `_`.

        Raises:
            SentenceError: a sentence is too long.
        """
        for number, sentence in enumerate(sentences, start=1):
            if len(sentence) > MAX_WORDS:
                raise SentenceError(
                    number,
                    f"{len(sentence)} words; SuPar's own search for trees takes at most {MAX_WORDS}. Split it, or use "
                    "a parser that was trained here.",
                )
        words = [["_".join(word.split()) for word in sentence.words] for sentence in sentences]
        parsed = self.parser.predict(words, prob=False, verbose=False, tree=True, proj=False)
        pairs = [
            [(word, *arc) for word, arc in enumerate(zip(heads, relations, strict=True), start=1)]
            for heads, relations in zip(parsed.arcs, parsed.rels, strict=True)
        ]
        return [with_pairs(sentence, arcs, "tree") for sentence, arcs in zip(sentences, pairs, strict=True)]


def apply_fixes() -> None:
    """Replace what SuPar calls in deprecated ways, in its own modules only; harmless when repeated.

    Its `pad` warns at every padded batch of indexing by a list of slices; its LSTM, of torch's `apply_permutation`.
    """
    import supar.modules.lstm
    import supar.modules.pretrained
    import supar.structs.fn
    import supar.utils.field
    import supar.utils.fn

    for module in (supar.utils.fn, supar.structs.fn, supar.utils.field, supar.modules.pretrained):
        module.pad = pad
    supar.modules.lstm.apply_permutation = lambda tensor, permutation, dim=1: tensor.index_select(dim, permutation)


def pad(
    tensors: Sequence[Tensor],
    padding_value: int | float = 0,
    total_length: int | None = None,
    padding_side: str = "right",
) -> Tensor:
    """SuPar's `pad`, indexing by a tuple."""
    size = [len(tensors), *(max(tensor.size(axis) for tensor in tensors) for axis in range(tensors[0].dim()))]
    if total_length is not None:
        assert total_length >= size[1]
        size[1] = total_length
    padded = tensors[0].new_full(size, padding_value)
    for row, tensor in zip(padded, tensors, strict=True):
        row[tuple(slice(-n, None) if padding_side == "left" else slice(0, n) for n in tensor.shape)] = tensor
    return padded
