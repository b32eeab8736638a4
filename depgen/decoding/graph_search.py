"""The search over the graphs of sentences that are given: hypotheses differ in how many arcs each word has."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from depgen.decoding.beam import Beam
from depgen.decoding.graph_state import GraphState
from depgen.decoding.prefixes import divided, leaders
from depgen.nn.graph_scorer import ScorerState
from depgen.trees.graph import sorted_edges
from depgen.trees.sentence import Edge


@dataclass(frozen=True)
class Choices:
    """How many arcs a token's word may have, and which they are.

    Attributes:
        log_probs: of each number; of a token that begins no word 0 for none.
        from_rank: how many arcs are chosen before the one from each node to the word.
        to_rank: how many are chosen before the one to each node.
        opens: whether the token begins a word.
        memory: the words so far and this one, as the scorer remembers them.
    """

    log_probs: Float[Tensor, "rows counts"]
    from_rank: Int[Tensor, "rows nodes"]
    to_rank: Int[Tensor, "rows nodes"]
    opens: Bool[Tensor, " rows"]
    memory: ScorerState

    def select(self, rows: Int[Tensor, " kept"]) -> "Choices":
        """Those of some rows."""
        return Choices(
            self.log_probs[rows], self.from_rank[rows], self.to_rank[rows], self.opens[rows], self.memory.select(rows)
        )

    def among(self, most: int | None) -> Float[Tensor, "rows counts"]:
        """The log-probabilities of the `most` likeliest numbers, -inf for all others; None keeps all."""
        if most is None or most >= self.log_probs.size(1):
            return self.log_probs
        kept = self.log_probs.topk(most, 1)
        return torch.full_like(self.log_probs, -torch.inf).scatter(1, kept.indices, kept.values)

    def arcs(
        self, rows: Int[Tensor, " kept"], counts: Int[Tensor, " kept"]
    ) -> tuple[Bool[Tensor, "kept nodes"], Bool[Tensor, "kept nodes"]]:
        """The `counts` likeliest arcs of some rows: from earlier nodes and to them."""
        most = counts[:, None]
        return self.from_rank[rows] < most, self.to_rank[rows] < most


@dataclass(frozen=True)
class HypothesisState:
    """The state of each hypothesis after its last token.

    Attributes:
        backbone: the key-value cache.
        hidden: the last hidden state.
        states: the middle and the last but one layer of it, which word vectors are made from.
        memory: the words so far, as the scorer remembers them.
        graph: the graph so far.
        word: the word of each column; 0 for what begins the sentence, and at padding.
        tables: of the values of features in each layer, which all rows share.
        pending: a token that is not yet encoded, and the choices of its arcs; None in scoring.
    """

    backbone: Any
    hidden: Float[Tensor, "rows width"]
    states: Float[Tensor, "rows two_widths"]
    memory: ScorerState
    graph: GraphState
    word: Int[Tensor, "rows context"]
    tables: tuple[Tensor, ...]
    pending: "tuple[Tensor, Choices] | None" = None

    def select(self, rows: Int[Tensor, " kept"]) -> "HypothesisState":
        """Some hypotheses, in the order given."""
        pending = None if self.pending is None else (self.pending[0][rows], self.pending[1].select(rows))
        return HypothesisState(
            self.backbone.select(rows), self.hidden[rows], self.states[rows], self.memory.select(rows),
            self.graph.select(rows), self.word[rows], self.tables, pending,
        )  # fmt: skip


@runtime_checkable
class GraphSystem(Protocol):
    """A system that encodes tokens and scores the arcs of the words that they begin."""

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
        arcs: tuple[Bool[Tensor, "kept nodes"], Bool[Tensor, "kept nodes"]],
    ) -> HypothesisState:
        """The state of some rows after their tokens, encoded with these arcs of their words."""
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
        counts_per_hypothesis: the likeliest numbers of arcs by which each is continued; None: all.
        with_end: whether the end of a sentence counts.
        forced: the number of arcs at each token, in place of all others; None: free.
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
                    found[item] = _edges(beam.state.graph, row) if ends[item] else found[item]
        found = [found[lead] for lead in leads.gather(1, lengths.to(device)[:, None])[:, 0].tolist()]
        return sums.diff(dim=1).to(beam.state.hidden.dtype), found

    def _with_token(
        self, beam: Beam[HypothesisState], tokens: Tensor, opens: Tensor, forced: Tensor | None
    ) -> Beam[HypothesisState]:
        """The hypotheses with the next token of each item and, where that begins a word, the word's arcs."""
        tokens, opens = tokens[beam.items], opens[beam.items]
        choices = self.system.choices(beam.state, tokens, opens)
        log_probs = choices.among(self.counts_per_hypothesis)
        if forced is not None:
            others = torch.arange(log_probs.size(1), device=tokens.device) != forced[beam.items, None]
            log_probs = choices.log_probs.masked_fill(others, -torch.inf)

        def build(state: HypothesisState, rows: Tensor, counts: Tensor) -> HypothesisState:
            return self.system.step(state, tokens, choices, rows, choices.arcs(rows, counts))

        return beam.expanded(log_probs, build, beam_size=self.beam_size)


def _edges(graph: GraphState, row: int) -> tuple[Edge, ...]:
    return sorted_edges((head, dependent, "root" if head == 0 else "dep") for head, dependent in graph.arcs(row))
