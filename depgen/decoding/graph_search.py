"""The search over the graphs of sentences that are given: hypotheses differ in how many arcs each word has."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from depgen.decoding.beam import Beam, search_parts
from depgen.decoding.graph_state import GraphState
from depgen.decoding.prefixes import divided, leaders
from depgen.nn.graph_scorer import ScorerState, StepScores
from depgen.trees.graph import joined_graphs
from depgen.trees.sentence import Edge

Arcs = tuple[Bool[Tensor, "kept nodes"], Bool[Tensor, "kept nodes"]]
"""Whether there is an arc from each earlier node to a word, and one to each."""


@dataclass(frozen=True)
class ArcChoices:
    """How many arcs a token's word may have in a graph, and which they are.

    Attributes:
        log_probs: of each number; of a token that begins no word 0 for none.
        from_rank: how many arcs are chosen before the one from each node to the word.
        to_rank: how many are chosen before the one to each node.
        memory: the words so far and this one, as the graph's scorer remembers them.
    """

    log_probs: Float[Tensor, "rows counts"]
    from_rank: Int[Tensor, "rows nodes"]
    to_rank: Int[Tensor, "rows nodes"]
    memory: ScorerState

    @classmethod
    def of(cls, scores: StepScores) -> "ArcChoices":
        """The choices that scores of the word's arcs lead to (Section 3.2): the likeliest arcs, by their number."""
        nodes = scores.from_earlier.size(1)
        order = torch.cat((scores.from_earlier, scores.to_earlier), 1).argsort(dim=1, descending=True, stable=True)
        ranks = torch.empty_like(order).scatter(1, order, torch.arange(2 * nodes, device=order.device).expand_as(order))
        return cls(scores.counts.log_softmax(-1), ranks[:, :nodes], ranks[:, nodes:], scores.state)

    def select(self, rows: Int[Tensor, " kept"]) -> "ArcChoices":
        """Those of some rows."""
        return ArcChoices(self.log_probs[rows], self.from_rank[rows], self.to_rank[rows], self.memory.select(rows))

    def among(self, most: int | None) -> Float[Tensor, "rows counts"]:
        """The log-probabilities of the `most` likeliest numbers, -inf for all others; None keeps all."""
        if most is None or most >= self.log_probs.size(1):
            return self.log_probs
        kept = self.log_probs.topk(most, 1)
        return torch.full_like(self.log_probs, -torch.inf).scatter(1, kept.indices, kept.values)

    def arcs(self, rows: Int[Tensor, " kept"], counts: Int[Tensor, " kept"]) -> Arcs:
        """The `counts` likeliest arcs of some rows."""
        most = counts[:, None]
        return self.from_rank[rows] < most, self.to_rank[rows] < most


@dataclass(frozen=True)
class Choices:
    """How many arcs a token's word may have in each graph, and which they are.

    A choice is a number of arcs in each graph. Choices are numbered as these numbers are counted up, the last graph's
    first; the only graph's number is the choice's.

    Attributes:
        of_graphs: of each graph.
        opens: whether the token begins a word.
    """

    of_graphs: tuple[ArcChoices, ...]
    opens: Bool[Tensor, " rows"]

    def select(self, rows: Int[Tensor, " kept"]) -> "Choices":
        """Those of some rows."""
        return Choices(tuple(each.select(rows) for each in self.of_graphs), self.opens[rows])

    def log_probs(self, most: int | None = None) -> Float[Tensor, "rows choices"]:
        """The log-probability of each choice, -inf unless each number is among its graph's `most` likeliest."""
        found, *others = (each.among(most) for each in self.of_graphs)
        for each in others:
            found = (found[:, :, None] + each[:, None]).flatten(1)
        return found

    def arcs(self, rows: Int[Tensor, " kept"], choices: Int[Tensor, " kept"]) -> tuple[Arcs, ...]:
        """The arcs of some rows in each graph, by the number of a choice."""
        counts = torch.unravel_index(choices, [each.log_probs.size(1) for each in self.of_graphs])
        return tuple(each.arcs(rows, count) for each, count in zip(self.of_graphs, counts, strict=True))


@dataclass(frozen=True)
class HypothesisState:
    """The state of each hypothesis after its last token.

    Attributes:
        backbone: the key-value cache.
        hidden: the last hidden state.
        states: the middle and the last but one layer of it, which word vectors are made from.
        memories: the words so far, as the scorer of each graph remembers them.
        graphs: the graphs so far.
        word: the word of each column; 0 for what begins the sentence, and at padding.
        tables: of the values of features in each layer, which all rows share.
        pending: a token that is not yet encoded, and the choices of its arcs; None in scoring.
    """

    backbone: Any
    hidden: Float[Tensor, "rows width"]
    states: Float[Tensor, "rows two_widths"]
    memories: tuple[ScorerState, ...]
    graphs: tuple[GraphState, ...]
    word: Int[Tensor, "rows context"]
    tables: tuple[Tensor, ...]
    pending: "tuple[Tensor, Choices] | None" = None

    def select(self, rows: Int[Tensor, " kept"]) -> "HypothesisState":
        """Some hypotheses, in the order given."""
        pending = None if self.pending is None else (self.pending[0][rows], self.pending[1].select(rows))
        memories = tuple(each.select(rows) for each in self.memories)
        graphs = tuple(each.select(rows) for each in self.graphs)
        return HypothesisState(
            self.backbone.select(rows), self.hidden[rows], self.states[rows], memories, graphs, self.word[rows],
            self.tables, pending,
        )  # fmt: skip


@runtime_checkable
class GraphSystem(Protocol):
    """A system that encodes tokens and scores the arcs of the words that they begin."""

    @property
    def graph_names(self) -> Sequence[str]:
        """See `depgen.trees.graph.joined_graphs`; none: there is one graph."""
        ...

    def beginning(self, tokens: Int[Tensor, " rows"], *, words: int) -> HypothesisState:
        """The state after the tokens that begin sentences of at most `words` words."""
        ...

    def choices(self, prefix: HypothesisState, tokens: Int[Tensor, " rows"], opens: Bool[Tensor, " rows"]) -> Choices:
        """The arcs that the words may have that tokens begin."""
        ...

    def step(
        self,
        prefix: HypothesisState,
        tokens: Int[Tensor, " rows"],
        choices: Choices,
        rows: Int[Tensor, " kept"],
        arcs: Sequence[Arcs],
    ) -> HypothesisState:
        """The state of some rows after their tokens, encoded with these arcs of their words in each graph."""
        ...

    def token_log_probs(self, prefix: HypothesisState, targets: Int[Tensor, " rows"]) -> Float[Tensor, " rows"]:
        """The log-probability (nats) of the next token of each row."""
        ...


@dataclass(frozen=True)
class GraphSearch:
    """A beam over the graphs of sentences.

    Attributes:
        system: whose hypotheses are searched.
        beam_size: the most hypotheses of a sentence.
        counts_per_hypothesis: the likeliest numbers of arcs by which each is continued, in each graph; None: all.
        with_end: whether the end of a sentence counts.
        forced: the number of the choice at each token, in place of all others; None: free.
    """

    system: GraphSystem
    beam_size: int
    counts_per_hypothesis: int | None = None
    with_end: bool = True
    forced: Int[Tensor, "batch length"] | None = None

    def run(
        self,
        inputs: Int[Tensor, "batch length"],
        targets: Int[Tensor, "batch length"],
        opens: Bool[Tensor, "batch length"],
        lengths: Int[Tensor, " batch"],
        *,
        graphs: bool = False,
    ) -> tuple[Float[Tensor, "batch length"], list[tuple[Edge, ...]]]:
        """What each target adds to the log-probability of its sentence, and each sentence's likeliest graph.

        Sentences that begin alike are searched once, up to the token in which they differ. The arcs of a word are
        counted at the target after its first token. A graph is empty unless `graphs`.

        Args:
            inputs: tokens, the beginning in front.
            targets: the tokens after them.
            opens: whether an input begins a word.
            lengths: inputs of each sentence, on the CPU.
            graphs: whether to return graphs.
        """
        items, longest, device = inputs.size(0), int(lengths.max()), inputs.device
        own = torch.arange(items, device=device)
        leads = own[:, None].expand(-1, longest + 1) if self.forced is not None else leaders(targets, opens, lengths)
        beginning = self.system.beginning(inputs[:, 0], words=int(opens.sum(1).max()))
        beam = Beam.of(beginning, items, device=device).only(leads[:, 0] == own)
        sums = beam.scores.new_zeros(items, longest + 1)
        found: list[tuple[Edge, ...]] = [()] * items
        for k in range(longest):
            if bool((lengths == k).any()):
                beam = beam.only((lengths > k).to(device)[beam.items])
            if k:
                beam = self._with_token(
                    beam, inputs[:, k], opens[:, k], None if self.forced is None else self.forced[:, k]
                )
            beam = divided(beam, leads[:, k], leads[:, k + 1])
            ends = lengths == k + 1
            counts = ~ends.to(device) | self.with_end
            log_probs = self.system.token_log_probs(beam.state, targets[beam.items, k])
            beam = beam.scored(torch.where(counts[beam.items], log_probs, 0), beam.state)
            sums[:, k + 1] = torch.where((lengths > k).to(device), beam.marginals(items)[leads[:, k + 1]], sums[:, k])
            if graphs and bool(ends.any()):
                for row in beam.best().tolist():
                    item = int(beam.items[row])
                    found[item] = self._edges(beam.state.graphs, row) if ends[item] else found[item]
        found = [found[lead] for lead in leads.gather(1, lengths.to(device)[:, None])[:, 0].tolist()]
        return sums.diff(dim=1).to(beam.state.hidden.dtype), found

    def _with_token(
        self, beam: Beam[HypothesisState], tokens: Tensor, opens: Tensor, forced: Tensor | None
    ) -> Beam[HypothesisState]:
        """The hypotheses with the next token of each item and, where that begins a word, the word's arcs."""
        tokens, opens = tokens[beam.items], opens[beam.items]
        choices = self.system.choices(beam.state, tokens, opens)
        log_probs = choices.log_probs(self.counts_per_hypothesis if forced is None else None)
        if forced is not None:
            others = torch.arange(log_probs.size(1), device=tokens.device) != forced[beam.items, None]
            log_probs = log_probs.masked_fill(others, -torch.inf)

        def build(state: HypothesisState, rows: Tensor, chosen: Tensor) -> HypothesisState:
            return self.system.step(state, tokens, choices, rows, choices.arcs(rows, chosen))

        return beam.expanded(log_probs, build, beam_size=self.beam_size)

    def _edges(self, graphs: Sequence[GraphState], row: int) -> tuple[Edge, ...]:
        """The graphs of a row as one; labels are `root` and `dep`."""
        arcs = ([(head, word, "dep" if head else "root") for head, word in graph.arcs(row)] for graph in graphs)
        return joined_graphs(list(arcs), self.system.graph_names)

    def run_in_parts(
        self,
        inputs: Int[Tensor, "batch length"],
        targets: Int[Tensor, "batch length"],
        opens: Bool[Tensor, "batch length"],
        lengths: Int[Tensor, " batch"],
        *,
        graphs: bool = False,
    ) -> tuple[Float[Tensor, "batch length"], list[tuple[Edge, ...]]]:
        """What `run` returns, part by part of the batch, so that the states of hypotheses fit into memory."""
        (items, length), sums, edges = inputs.shape, [], list[tuple[Edge, ...]]()
        for rows in search_parts(items, length=length, beam_size=self.beam_size, device=inputs.device):
            columns = slice(int(lengths[rows].max()))
            part = self if self.forced is None else replace(self, forced=self.forced[rows])
            read, wanted, begins = (each[rows, columns] for each in (inputs, targets, opens))
            log_probs, found = part.run(read, wanted, begins, lengths[rows], graphs=graphs)
            sums.append(F.pad(log_probs, (0, length - log_probs.size(1))))
            edges += found
        return torch.cat(sums), edges
