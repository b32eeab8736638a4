"""Beam search over pairs of a state and a score, for many items at once.

Hypotheses are flat rows, those of an item together, the best first; items may have different numbers of them. A step
gives each row the log-probabilities of its candidates. The candidates are pruned on that matrix alone: only for those
that survive is a state selected or built. What a candidate is (a token, a number of dependents, an action) is up to the
step. Scores are sums of log-probabilities in float64, or in float32 on devices without float64.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from depgen.errors import UserError
from depgen.nn.precise import sum_type

State = TypeVar("State")
WAIT = -1
"""The candidate of a hypothesis that has produced its word while others of the batch have not."""
SLOTS = {"cpu": 1 << 16, "cuda": 1 << 17}
"""By kind of device: the most positions that the hypotheses of a search keep in their states, over all items."""


def search_parts(items: int, *, length: int, beam_size: int, device: torch.device) -> list[slice]:
    """Slices of a batch that are searched one after the other, so that their states fit into memory; see `SLOTS`.

    >>> search_parts(5, length=100, beam_size=300, device=torch.device("cpu"))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    at_once = max(1, SLOTS.get(device.type, SLOTS["cpu"]) // (beam_size * max(1, length)))
    return [slice(first, min(first + at_once, items)) for first in range(0, items, at_once)]


@dataclass(frozen=True)
class Survivors:
    """The candidates that pruning keeps: those of an item together, the best first.

    Attributes:
        rows: the hypothesis that each extends.
        candidates: which of its candidates.
        items: the item of each.
        scores: with the candidate's own log-probability.
    """

    rows: Int[Tensor, " survivors"]
    candidates: Int[Tensor, " survivors"]
    items: Int[Tensor, " survivors"]
    scores: Float[Tensor, " survivors"]

    def of(self, places: Tensor) -> "Survivors":
        """Some of them, by a mask or by their places."""
        return Survivors(self.rows[places], self.candidates[places], self.items[places], self.scores[places])


def pruned(
    scores: Float[Tensor, " rows"],
    log_probs: Float[Tensor, "rows candidates"],
    items: Int[Tensor, " rows"],
    *,
    beam_size: int,
    also: Bool[Tensor, "#rows candidates"] | None = None,
    also_size: int = 0,
) -> Survivors:
    """The `beam_size` best candidates of each item; of equal ones the earlier row's, then the earlier candidate.

    `scores` are those of the hypotheses so far, `log_probs` of each candidate of each. One of -inf never survives. Of
    the candidates in `also`, the `also_size` best survive in any case.

    Raises:
        UserError: all candidates of an item have -inf, or one has NaN.

    >>> log_probs = torch.tensor([[-1.0, -3.0], [-2.0, -9.0]])
    >>> best = pruned(torch.zeros(2).double(), log_probs, torch.tensor([0, 0]), beam_size=2)
    >>> best.rows.tolist(), best.candidates.tolist(), best.scores.tolist()
    ([0, 1], [0, 0], [-1.0, -2.0])
    """
    possible = log_probs.masked_fill(scores.isneginf()[:, None], -torch.inf)
    # of each row the best, and all that equal the last of these
    most = log_probs.size(1) if also_size else min(beam_size, log_probs.size(1))
    least = possible.topk(most, 1).values  # NaN comes first
    if bool(least.isnan().any()):
        raise UserError("The log-probability of a candidate is NaN: the model has diverged, or its scores overflow.")
    rows, candidates = ((possible >= least[:, -1:]) & ~possible.isneginf()).nonzero(as_tuple=True)
    totals = scores[rows] + log_probs[rows, candidates].to(scores.dtype)
    order = totals.sort(descending=True, stable=True).indices
    order = order[items[rows[order]].sort(stable=True).indices]
    of_items = items[rows[order]]
    sizes = torch.bincount(of_items, minlength=int(items.max()) + 1 if len(items) else 0)
    before_item = sizes.cumsum(0) - sizes
    place = torch.arange(len(order), device=order.device) - before_item[of_items]
    before = torch.bincount(items, minlength=len(sizes))
    if bool(((sizes == 0) & (before > 0)).any()):
        empty = int(((sizes == 0) & (before > 0)).nonzero()[0])
        raise UserError(
            f"item {empty}: all candidates of its {int(before[empty])} hypotheses have the log-probability -inf, so "
            "that its beam would be empty. Widen the beam, or leave the item out."
        )
    stays = place < beam_size
    if also is not None and also_size:
        named = also.expand(log_probs.shape)[rows[order], candidates[order]]
        among = F.pad(named.cumsum(0), (1, 0))
        stays |= named & (among[1:] - among[before_item[of_items]] <= also_size)
    order = order[stays]
    return Survivors(rows[order], candidates[order], items[rows[order]], totals[order])


@dataclass(frozen=True)
class Beam(Generic[State]):
    """Hypotheses of several items.

    Attributes:
        state: of all rows; has `select(rows)`.
        items: the item of each row, in ascending order.
        scores: the log-probability (nats) of each row.
    """

    state: State
    items: Int[Tensor, " rows"]
    scores: Float[Tensor, " rows"]

    @classmethod
    def of(cls, state: State, items: int, *, device: torch.device | str = "cpu") -> "Beam[State]":
        """One hypothesis an item, of log-probability 0."""
        return cls(state, torch.arange(items, device=device), torch.zeros(items, dtype=sum_type(device), device=device))

    def scored(self, log_probs: Float[Tensor, " rows"], state: State) -> "Beam[State]":
        """The hypotheses after a step without a choice, such as a token that is given: one log-probability a row."""
        return Beam(state, self.items, self.scores + log_probs.to(self.scores.dtype))

    def expanded(
        self,
        log_probs: Float[Tensor, "rows candidates"],
        build: Callable[[State, Tensor, Tensor], State],
        *,
        beam_size: int,
    ) -> "Beam[State]":
        """The best candidates of each item; see `pruned`.

        `build` makes the state of the survivors from that of all rows, the rows that they extend, and the numbers of
        their candidates; most begin by `state.select(rows)`.
        """
        best = pruned(self.scores, log_probs, self.items, beam_size=beam_size)
        return Beam(build(self.state, best.rows, best.candidates), best.items, best.scores)

    def only(self, rows: Tensor) -> "Beam[State]":
        """Some rows, by a mask or in ascending order by number."""
        places = rows.nonzero()[:, 0] if rows.dtype == torch.bool else rows
        state: Any = self.state
        return Beam(state.select(places), self.items[places], self.scores[places])

    def regrouped(self, before: Int[Tensor, " items"], after: Int[Tensor, " items"]) -> "Beam[State]":
        """The hypotheses of representatives, as those of the representatives after one more target, in ascending order.

        `before` and `after` are the representatives of each item (`representatives`); those without hypotheses are
        left out.
        """
        new = after[after == torch.arange(len(after), device=after.device)]
        sources = before[new]
        if torch.equal(sources, new):
            return self
        counts = torch.bincount(self.items, minlength=len(after))
        times = counts[sources]
        starts = counts.cumsum(0) - counts
        rows = (starts[sources] - (times.cumsum(0) - times)).repeat_interleave(times)
        rows = rows + torch.arange(len(rows), device=rows.device)
        state: Any = self.state
        return Beam(state.select(rows), new.repeat_interleave(times), self.scores[rows])

    def marginals(self, items: int) -> Float[Tensor, " items"]:
        """The log-probability (nats) of each item over all its hypotheses; -inf without any."""
        best = self.scores.new_full((items,), -torch.inf).scatter_reduce(0, self.items, self.scores, "amax")
        shift = best.masked_fill(best.isneginf(), 0)
        sums = torch.zeros_like(best).index_add(0, self.items, (self.scores - shift[self.items]).exp())
        return shift + sums.log()

    def best(self) -> Int[Tensor, " items_at_hand"]:
        """The row of the best hypothesis of each item that has any; of equal ones the first."""
        order = self.scores.sort(descending=True, stable=True).indices
        order = order[self.items[order].sort(stable=True).indices]
        items = self.items[order]
        return order[torch.cat((items.new_ones(1, dtype=torch.bool), items[1:] != items[:-1]))[: len(items)]]


def representatives(
    targets: Int[Tensor, "items length"], opens: Bool[Tensor, "items length"], lengths: Int[Tensor, " items"]
) -> Int[Tensor, "items length_and_one"]:
    """Of each item and number of targets, the first item with the same targets up to there, and the same words.

    A search goes through a beginning that items have in common once: its representative, the first of them, has the
    hypotheses of them all, until their targets differ.

    Args:
        targets: tokens; all items have the same one before them.
        opens: whether the token before each target begins a word.
        lengths: number of targets of each item; after its last target an item is its own representative.

    >>> all_open = torch.ones(3, 3, dtype=torch.bool)
    >>> representatives(torch.tensor([[5, 6, 0], [5, 7, 0], [5, 7, 0]]), all_open, torch.tensor([3, 3, 3])).tolist()
    [[0, 0, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]]
    """
    items, length = targets.shape
    following = F.pad(opens[:, 1:], (0, 1))
    codes, first, nodes = torch.stack((targets, following), 2).tolist(), {0: 0}, dict[tuple[int, ...], int]()
    first_of = [[0] + [item] * length for item in range(items)]
    for item, end in enumerate(lengths.tolist()):
        node = 0
        for k in range(end):
            node = nodes.setdefault((node, *codes[item][k], k + 1 == end), len(nodes) + 1)
            first_of[item][k + 1] = first.setdefault(node, item)
    return torch.tensor(first_of, device=targets.device).view(items, length + 1)


# -- words ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Expansion:
    """What may follow each hypothesis.

    Attributes:
        log_probs: of each candidate; -inf for one that is not possible.
        produces: True at candidates that produce the word, False at structural ones.
    """

    log_probs: Float[Tensor, "rows candidates"]
    produces: Bool[Tensor, "#rows candidates"]


def with_next_word(
    beam: Beam[State],
    expand: Callable[[Beam[State], Bool[Tensor, " rows"]], Expansion],
    build: Callable[[State, Tensor, Tensor], State],
    *,
    beam_size: int,
    max_actions: int,
    word_beam_size: int | None = None,
    fast_track: int = 0,
) -> Beam[State]:
    """The hypotheses once each has produced its next word, by any structural actions before it (Stern et al. 2017).

    Those that have produced their word wait for the others with the score that they have, and compete with them. A
    hypothesis is dropped once `word_beam_size` others have their word and a better score: it can't overtake them.

    Args:
        beam: hypotheses that have all produced as many words.
        expand: the candidates of each row; with the rows that wait, whose candidates do not count.
        build: as in `Beam.expanded`; the candidate of rows that wait is `WAIT`: their state stays, or takes a padded
            column.
        beam_size: the most hypotheses of an item while actions are taken.
        max_actions: the most candidates up to the word, the word included; hypotheses without it are then dropped.
        word_beam_size: the most hypotheses of an item once all have their word; None: as `beam_size`.
        fast_track: the most candidates an action that produce the word and are kept for it, in addition to those that
            `beam_size` allows.

    Raises:
        UserError: all candidates of an item have -inf, or none of its hypotheses has produced a word.
    """
    waits = torch.zeros_like(beam.items, dtype=torch.bool)
    for _ in range(max_actions):
        if bool(waits.all()):
            break
        expansion = expand(beam, waits)
        log_probs = expansion.log_probs.to(beam.scores.dtype).masked_fill(waits[:, None], -torch.inf)
        to_wait = torch.zeros_like(beam.scores).masked_fill(~waits, -torch.inf)
        log_probs = torch.cat((log_probs, to_wait[:, None]), 1)
        produces = F.pad(expansion.produces.expand(len(log_probs), -1), (0, 1), value=True)
        best = pruned(beam.scores, log_probs, beam.items, beam_size=beam_size, also=produces, also_size=fast_track)
        waits = produces[best.rows, best.candidates]
        if word_beam_size is not None:
            least = _score_at(best.of(waits), word_beam_size, items=int(best.items.max()) + 1)
            hopeful = best.scores >= least[best.items]
            best, waits = best.of(hopeful), waits[hopeful]
        candidates = best.candidates.masked_fill(best.candidates == log_probs.size(1) - 1, WAIT)
        beam = Beam(build(beam.state, best.rows, candidates), best.items, best.scores)
    without = {*beam.items.tolist()} - {*beam.items[waits].tolist()}
    if without:
        raise UserError(
            f"item {min(without)}: no hypothesis has produced the next word after {max_actions} actions. Allow more "
            "actions, or widen the beam."
        )
    beam = beam if bool(waits.all()) else beam.only(waits)
    if word_beam_size is None or (word_beam_size >= beam_size and not fast_track):
        return beam
    best = pruned(torch.zeros_like(beam.scores), beam.scores[:, None], beam.items, beam_size=word_beam_size)
    return beam.only(best.rows)


def _score_at(survivors: Survivors, place: int, *, items: int) -> Float[Tensor, " items"]:
    """The score of the survivor of each item at a place, from 1; -inf where there are fewer."""
    sizes = torch.bincount(survivors.items, minlength=items)
    index = (sizes.cumsum(0) - sizes + place - 1).clamp_max(len(survivors.scores))
    return torch.where(sizes >= place, F.pad(survivors.scores, (0, 1))[index], -torch.inf)
