"""A small causal language model that builds a graph over its words while it writes them.

Each word takes one arc from or to an earlier word, one from the root, or none. The codes of these choices: 0 none,
1 from the root, 2d from the word d places before, 2d + 1 to it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, product

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from depgen.backbones.backbone import BackboneFactory
from depgen.backbones.transformer import TransformerState
from depgen.data.batch import ItemBatch, TokenBatch, collate_tokens
from depgen.errors import UserError
from depgen.language_models.structured import StructuredLanguageModel, in_turn
from depgen.nn.rows import Rows
from depgen.nn.vocabulary import log_softmax_over_vocabulary, word_log_probs
from depgen.training.hyper_parameters import factory
from depgen.trees.graph import sorted_edges
from depgen.trees.sentence import Sentence

REACH = 4
"""The longest arc between words."""
CHOICES = 2 + 2 * REACH


class NearGraphs:
    """Gives each word the arc that its number of letters says: none, from the root, from or to the word before."""

    scheme, structure = "letters", "graph"

    def fingerprint(self) -> str:
        return "near graphs 1"

    def annotate(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        graphs = [edges_of([min(len(w) % 4, 1 if k == 0 else 3) for k, w in enumerate(s.words)]) for s in sentences]
        return [replace(each, edges=edges) for each, edges in zip(sentences, graphs, strict=True)]


def edges_of(choices):
    """The edges that the choices of words make."""
    ends = [(c, word, 0 if c == 1 else word - c // 2) for word, c in enumerate(choices, start=1) if c]
    return sorted_edges((word, other, "arc") if c > 2 and c % 2 else (other, word, "arc") for c, word, other in ends)


def ends_of(edges):
    """The heads and the dependents of edges."""
    return [head for head, *_ in edges], [dependent for _, dependent, _ in edges]


def choices_of(heads, dependents, length):
    """The choice of each word, from the ends of all edges."""
    found = [0] * length
    for head, dependent in zip(heads, dependents, strict=True):
        word, distance = max(head, dependent), abs(head - dependent)
        if (head and not 0 < distance <= REACH) or head < 0 or found[word - 1]:
            raise UserError(f"word {word}: expected one arc to an earlier word, at most {REACH} back; found another.")
        found[word - 1] = 2 * distance + (word == head) if head else 1
    return found


def all_graphs(length):
    """Every graph over a few words."""
    return [edges_of(choices) for choices in product(*(range(2 + 2 * min(k, REACH)) for k in range(length)))]


@dataclass(frozen=True, kw_only=True)
class GraphBatch(TokenBatch):
    """Sequences, and the choice of each input; None without graphs."""

    choices: Tensor | None = None


def collate_graphs(batch: ItemBatch) -> GraphBatch:
    tokens = collate_tokens(batch)
    if any(item.edges is None for item in batch.items):
        return GraphBatch(**vars(tokens))
    choices = torch.zeros_like(tokens.inputs)
    for row, item in enumerate(batch.items):
        dependents = np.repeat(np.arange(len(item.ids)) + 1, np.diff(item.edges.offsets)).tolist()
        found = choices_of(item.edges.heads.tolist(), dependents, len(item.ids))
        choices[row, 1 : len(found) + 1] = torch.tensor(found)
    return GraphBatch(**vars(tokens), choices=choices)


@dataclass(frozen=True)
class GraphState(Rows):
    """What is known of each row: a column for the beginning and each word read, and a word that has no arc yet."""

    backbone: TransformerState
    hidden: Tensor
    choices: Tensor
    is_token: Tensor
    word: Tensor | None = None


class GraphLM(StructuredLanguageModel):
    """p(words, graph): a word by the states before it, its arc by these and the word, and the next state by both."""

    collate = property(lambda self: collate_graphs)
    output = property(lambda self: (self.backbone.output_weight, self.backbone.output_bias))

    def __init__(self, backbone: BackboneFactory, vocabulary_size: int, beam_size: int = 4, **kwargs) -> None:
        super().__init__(**kwargs)
        self.save_hyperparameters()
        self.use_backbone(factory(backbone, BackboneFactory)(vocabulary_size))
        self.vocabulary_size, self.beam_size, width = vocabulary_size, beam_size, self.backbone.width
        self.arcs = torch.nn.Parameter(torch.zeros(3))
        self.without_word = torch.nn.Parameter(torch.zeros(2, width))
        self.query, self.heads, self.dependents = (torch.nn.Linear(n * width, width) for n in (2, 1, 1))

    # -- the two distributions ------------------------------------------------------------------------------------

    def read(self, words, choices, is_token, state=None) -> GraphState:
        """The state after more words with their arcs."""
        if state is not None:
            is_token = torch.cat((state.is_token, is_token), 1)
        columns = torch.arange(is_token.size(1) - words.size(1), is_token.size(1), device=words.device)
        root = is_token.int().argmax(1, keepdim=True)
        places = torch.where(choices == 1, root, columns - choices // 2)
        kinds = (choices > 0) * (1 + (choices > 2) * (choices % 2))
        of_keys = choices.new_zeros(*words.shape, is_token.size(1)).scatter(2, places[..., None], kinds[..., None])
        found = self.backbone(
            words, padding=~is_token[:, -words.size(1) :], state=None if state is None else state.backbone, carry=True,
            score_function=lambda layer, queries, keys: self.arcs[of_keys][:, None],
        )  # fmt: skip
        hidden = found.hidden if state is None else torch.cat((state.hidden, found.hidden), 1)
        choices = choices if state is None else torch.cat((state.choices, choices), 1)
        return GraphState(found.state, hidden, choices, is_token)

    def choice_log_probs(self, hidden, is_token, word):
        """The log-probabilities of a new word's choices, from the columns before it."""
        query = self.query(torch.cat((hidden[:, -1], self.backbone.embedding(word)), -1))[..., None]
        near = hidden[:, -REACH:]
        arcs = (torch.stack((self.heads(near), self.dependents(near)), 2) @ query[:, None])[..., 0]
        possible = (is_token & (is_token.cumsum(1) > 1))[:, -REACH:, None]
        arcs = arcs.masked_fill(~possible, -torch.inf).flip(1).flatten(1)
        arcs = F.pad(arcs, (0, 2 * REACH - arcs.size(1)), value=-torch.inf)
        return torch.cat(((self.without_word @ query)[..., 0], arcs), 1).log_softmax(-1)

    # -- scores ---------------------------------------------------------------------------------------------------

    def log_probs_of_both(self, batch: TokenBatch, choices):
        """Log-probabilities of the targets, and of the choices of the inputs; 0 at padding."""
        state = self.read(batch.inputs, choices, batch.is_word)
        words = word_log_probs(state.hidden, *self.output, batch.targets)
        arcs = [torch.zeros_like(words[:, 0])]
        for k in range(1, words.size(1)):
            found = self.choice_log_probs(state.hidden[:, :k], state.is_token[:, :k], batch.inputs[:, k])
            arcs.append(found.gather(1, choices[:, k : k + 1])[:, 0])
        return words * batch.is_word, torch.stack(arcs, 1) * batch.is_word

    def joint_nll(self, batch):
        """The nats of each item's words and arcs."""
        words, arcs = self.log_probs_of_both(batch, batch.choices)
        return -(words + arcs).sum(1)

    def training_step(self, batch, batch_idx):
        if batch.choices is None:
            raise UserError("Training needs graphs: name an annotator that gives them.")
        return self.log_train(self.joint_nll(batch).sum(), batch.global_tokens)

    # -- search ---------------------------------------------------------------------------------------------------

    def beginning_of(self, batch):
        first = batch.inputs[:, :1]
        return self.read(first, torch.zeros_like(first), torch.ones_like(first, dtype=torch.bool))

    def with_input(self, beam, batch, k, *, beam_size):
        words = batch.inputs[beam.items, k]

        def build(state, rows, choices):
            is_word = torch.ones_like(choices[:, None], dtype=torch.bool)
            return self.read(words[rows, None], choices[:, None], is_word, state.select(rows))

        log_probs = self.choice_log_probs(beam.state.hidden, beam.state.is_token, words)
        return beam.expanded(log_probs, build, beam_size=beam_size)

    def next_log_probs(self, state, tokens):
        return word_log_probs(state.hidden[:, -1], *self.output, tokens)

    def structure_of(self, state, row):
        return state.choices[row, 1:].tolist()

    def joint_log_probs(self, batch, documents, structure):
        """A word and its arc are one."""
        choices = torch.zeros_like(batch.inputs)
        for row, (document, graphs) in enumerate(zip(documents, structure, strict=True)):
            of = [choices_of(*ends_of(edges), len(ids)) for ids, edges in zip(document, graphs, strict=True)]
            found = torch.tensor([*chain(*of)])
            choices[row, 1 : len(found) + 1] = found
        words, arcs = self.log_probs_of_both(batch, choices)
        return words + F.pad(arcs[:, 1:], (0, 1))

    # -- generation -----------------------------------------------------------------------------------------------

    def choices_of(self, ids, structure, vocabulary):
        return in_turn(ids, structure, self.vocabulary_size)

    def writing_step(self, writing, tokens, padding, state):
        """A text is words and their choices in turn; the ids of choices follow those of words."""
        size = self.vocabulary_size
        if state is not None and state.word is None:
            choices = self.choice_log_probs(state.hidden, state.is_token, tokens[:, 0])
            return F.pad(choices, (size, 0), value=-torch.inf), replace(state, word=tokens[:, 0])
        both = tokens if state is None else torch.stack((state.word, tokens[:, 0]), 1)
        is_token = torch.ones_like(both, dtype=torch.bool) if padding is None else ~padding
        state = self.read(both[:, ::2], (both[:, 1::2] - size) * is_token[:, ::2], is_token[:, ::2], state)
        return log_softmax_over_vocabulary(state.hidden[:, -1], *self.output), state

    def written_structures(self, choices, writing):
        return [edges_of([choice - self.vocabulary_size for choice in of_text[2::2]]) for of_text in choices]
