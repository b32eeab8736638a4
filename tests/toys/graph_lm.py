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
from torch.nn.utils.rnn import pad_sequence

from depgen.backbones.backbone import BackboneFactory
from depgen.backbones.transformer import TransformerState
from depgen.data.batch import ItemBatch, TokenBatch, collate_tokens
from depgen.decoding.beam import Beam
from depgen.decoding.settings import StructureOptions
from depgen.errors import UserError
from depgen.language_models.left_to_right import LeftToRight
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
class GraphState:
    """What is known of each row: a column for the beginning and each word read, and a word that has no arc yet."""

    backbone: TransformerState
    hidden: Tensor
    choices: Tensor
    is_token: Tensor
    word: Tensor | None = None

    def select(self, rows: Tensor) -> "GraphState":
        columns = (each[rows] for each in (self.hidden, self.choices, self.is_token))
        return GraphState(self.backbone.select(rows), *columns, None if self.word is None else self.word[rows])


class GraphLM(LeftToRight):
    """p(words, graph): a word by the states before it, its arc by these and the word, and the next state by both."""

    likelihood = "bound"
    generation_options = StructureOptions
    choices_per_token = 2
    steps_by_tokens = False
    collate = property(lambda self: collate_graphs)
    output = property(lambda self: (self.backbone.output_weight, self.backbone.output_bias))

    def __init__(self, backbone: BackboneFactory, vocabulary_size: int, beam_size: int = 4, **kwargs) -> None:
        super().__init__(**kwargs)
        self.save_hyperparameters()
        self.use_backbone(factory(backbone, BackboneFactory)(vocabulary_size))
        self.beam_size, width = beam_size, self.backbone.width
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

    def training_step(self, batch, batch_idx):
        if batch.choices is None:
            raise UserError("Training needs graphs: name an annotator that gives them.")
        words, arcs = self.log_probs_of_both(batch, batch.choices)
        return self.log_train(-(words + arcs).sum(), batch.global_tokens)

    def log_probs(self, batch):
        """Of each target, over the graphs that a beam holds: their sums are lower bounds."""
        return self.search(batch, batch.is_word, beam_size=self.beam_size)[1]

    def search(self, batch, is_scored, *, beam_size, forced=None):
        """The last beam over graphs of each item, and what each target has added to its log-probability.

        Words are given and not chosen; a word's arc is counted at the target after it. `forced`: the only choices.
        """
        inputs, is_word, items = batch.inputs, batch.is_word, len(batch.inputs)
        allowed = F.one_hot(torch.zeros_like(inputs) if forced is None else forced, CHOICES).bool()
        allowed = allowed | is_word[..., None] if forced is None else allowed
        state = self.read(inputs[:, :1], torch.zeros_like(inputs[:, :1]), is_word[:, :1])
        beam, sums = Beam.of(state, items, device=self.device), []
        for k in range(inputs.size(1)):
            if k:
                beam = self.with_arcs(beam, inputs[:, k], is_word[:, k], allowed[:, k], beam_size)
            found = word_log_probs(beam.state.hidden[:, -1], *self.output, batch.targets[beam.items, k])
            beam = beam.scored(found * is_scored[beam.items, k], beam.state)
            sums.append(beam.marginals(items))
        sums = torch.stack(sums, 1)
        return beam, sums.diff(dim=1, prepend=torch.zeros_like(sums[:, :1])).to(state.hidden.dtype)

    def with_arcs(self, beam, words, is_word, allowed, beam_size):
        """The hypotheses with the next word of each item and its arc; padding is read too, and changes nothing."""
        words, is_word = words[beam.items], is_word[beam.items, None]
        log_probs = self.choice_log_probs(beam.state.hidden, beam.state.is_token, words).where(is_word, 0.0)

        def build(state, rows, choices):
            return self.read(words[rows, None], choices[:, None], is_word[rows], state.select(rows))

        return beam.expanded(log_probs.masked_fill(~allowed[beam.items], -torch.inf), build, beam_size=beam_size)

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

    def generation_step(self, tokens, padding, state):
        """A text is words and their choices in turn; the ids of choices follow those of words."""
        size = self.backbone.vocabulary_size
        if state is not None and state.word is None:
            choices = self.choice_log_probs(state.hidden, state.is_token, tokens[:, 0])
            return F.pad(choices, (size, 0), value=-torch.inf), replace(state, word=tokens[:, 0])
        both = tokens if state is None else torch.stack((state.word, tokens[:, 0]), 1)
        is_token = torch.ones_like(both, dtype=torch.bool) if padding is None else ~padding
        state = self.read(both[:, ::2], (both[:, 1::2] - size) * is_token[:, ::2], is_token[:, ::2], state)
        return log_softmax_over_vocabulary(state.hidden[:, -1], *self.output), state

    def generate(self, prompts, *, vocabulary, options, **others):
        """Texts with the graphs over them and their prompts."""
        graphs = self.parse(prompts, eos=vocabulary.eos, beam_size=options.prompt_beam_size)
        found = self.generate_in_turn(prompts, graphs, vocabulary=vocabulary, options=options, **others)
        return [replace(text, structure=edges_of(choices)) for text, choices in found]

    @torch.inference_mode()
    def parse(self, sentences, *, eos, beam_size):
        """The choices of the likeliest graph of each sentence that may continue."""
        inputs = pad_sequence([torch.tensor([eos, *ids]) for ids in sentences], True, eos).to(self.device)
        lengths = torch.tensor([len(ids) + 1 for ids in sentences], device=self.device)
        targets = F.pad(inputs[:, 1:], (0, 1), value=eos)
        numbers = {"lengths": lengths, "words": lengths, "items": lengths, "global_tokens": 1}
        batch = TokenBatch(inputs=inputs, targets=targets, **numbers)
        is_scored = batch.is_word & (batch.targets != eos)
        beam, _ = self.search(batch, is_scored, beam_size=beam_size)
        best = beam.state.choices[beam.best()].tolist()
        return [row[1 : len(ids) + 1] for row, ids in zip(best, sentences, strict=True)]
