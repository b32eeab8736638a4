"""Beam search over pairs of a state and a score, for many items at once.

Hypotheses are flat rows, those of an item together, the best first; items may have different numbers of them. A step
gives each row the log-probabilities of its candidates. The candidates are pruned on that matrix alone: only for those
that survive is a state selected or built. What a candidate is (a token, a number of dependents, an action) is up to the
step. Scores are sums of log-probabilities in float64, or in float32 on devices without float64.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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
        columns: the hypothesis that each extends, which of its candidates it is, and its item.
        on_cpu: the same on the CPU.
        scores: with the candidate's own log-probability.
    """

    columns: Int[Tensor, "3 survivors"]
    on_cpu: Int[Tensor, "3 survivors"]
    scores: Float[Tensor, " survivors"]

    @property
    def rows(self) -> Int[Tensor, " survivors"]:
        """The hypothesis that each extends."""
        return self.columns[0]

    @property
    def candidates(self) -> Int[Tensor, " survivors"]:
        """Which of its candidates."""
        return self.columns[1]

    @property
    def items(self) -> Int[Tensor, " survivors"]:
        """The item of each."""
        return self.columns[2]

    def of(self, chosen: Bool[Tensor, " survivors"]) -> "Survivors":
        """Some of them, by a mask on the CPU."""
        places = chosen.nonzero()[:, 0].to(self.columns.device, non_blocking=True)
        return Survivors(self.columns[:, places], self.on_cpu[:, chosen], self.scores[places])


def pruned(
    scores: Float[Tensor, " rows"],
    log_probs: Float[Tensor, "rows candidates"],
    items: Int[Tensor, " rows"],
    *,
    beam_size: int,
    also: Bool[Tensor, " candidates"] | None = None,
    also_size: int = 0,
    enough: int | None = None,
    ranked: int | None = None,
) -> Survivors:
    """The `beam_size` best candidates of each item; of equal ones the earlier row's, then the earlier candidate.

    `scores` are those of the hypotheses so far, `log_probs` of each candidate of each. One of -inf never survives. Of
    the candidates in `also`, the `also_size` best survive in any case; and where `enough` of these survive, none
    survives that comes after the last of them. Of each row as many candidates are `ranked` as might survive, and a
    GPU is waited for once. Where the last of them survives, and others are as likely, all is done again with more.

    Raises:
        UserError: all candidates of an item have -inf, or one has NaN.

    >>> log_probs = torch.tensor([[-1.0, -3.0], [-2.0, -9.0]])
    >>> best = pruned(torch.zeros(2).double(), log_probs, torch.tensor([0, 0]), beam_size=2)
    >>> best.rows.tolist(), best.candidates.tolist(), best.scores.tolist()
    ([0, 1], [0, 0], [-1.0, -2.0])
    """
    (number_of_rows, number), device = log_probs.shape, log_probs.device
    most = number if also_size else min(ranked or beam_size, number)
    if most < number:
        highest = log_probs.topk(most + 1, 1)  # of those that equal the last, any; NaN comes first
        candidates = highest.indices[:, :most].sort(1).values
        added, (last, following) = log_probs.gather(1, candidates), highest.values[:, -2:].unbind(1)
        tied = torch.where(last == following, scores + last.to(scores.dtype), torch.nan)
    else:
        added, candidates = log_probs, torch.arange(number, device=device).expand(number_of_rows, -1)
        tied = torch.full_like(scores, torch.nan)
    added = added.masked_fill(scores.isneginf()[:, None], -torch.inf)
    totals = (scores[:, None] + added.to(scores.dtype)).flatten()
    order = totals.sort(descending=True, stable=True).indices
    order = order[items[order // most].sort(stable=True).indices]
    rows, candidates, totals = order // most, candidates.flatten()[order], totals[order]
    of_items, places = items[rows], torch.arange(len(order), device=device)
    begins = F.pad(of_items.diff() > 0, (1, 0), value=True)
    first = (places * begins).cummax(0).values  # the place where the item begins
    stays = (places - first < beam_size) & ~totals.isneginf()
    is_open = stays & (totals == tied[rows])  # as likely as one that is not ranked
    if also is not None:
        named = also[candidates]
        stays |= named & (_counted(named, first) <= also_size) & ~totals.isneginf()
        if enough is not None:
            kept = named & stays
            stays &= _counted(kept, first) - kept.long() < enough
    columns = torch.stack((rows, candidates, of_items))
    on_cpu = torch.cat((columns, torch.stack((stays, totals.isnan(), is_open)))).cpu()  # all that a GPU is waited for
    survives, is_nan, is_open = on_cpu[3:].bool()
    if bool(is_nan.any()):
        raise UserError("The log-probability of a candidate is NaN: the model has diverged, or its scores overflow.")
    if bool(is_open.any()):
        return pruned(
            scores, log_probs, items, beam_size=beam_size, also=also, also_size=also_size, enough=enough,
            ranked=2 * most,
        )  # fmt: skip
    counts = torch.bincount(on_cpu[2])
    left = torch.bincount(on_cpu[2, survives], minlength=len(counts))
    if bool((is_empty := (counts > 0) & (left == 0)).any()):
        item = int(is_empty.nonzero()[0])
        raise UserError(
            f"item {item}: all candidates of its {int(counts[item]) // most} hypotheses have the log-probability "
            "-inf, so that its beam would be empty. Widen the beam, or leave the item out."
        )
    return Survivors(columns, on_cpu[:3], totals).of(survives)


def _counted(which: Bool[Tensor, " places"], first: Int[Tensor, " places"]) -> Int[Tensor, " places"]:
    """How many of an item's places are True up to each, this one included; `first` is where the item begins."""
    among = F.pad(which.cumsum(0), (1, 0))
    return among[1:] - among[first]


@dataclass(frozen=True)
class Beam(Generic[State]):
    """Hypotheses of several items.

    Attributes:
        state: of all rows; has `select(rows)`.
        items: the item of each row, in ascending order.
        on_cpu: the same on the CPU.
        scores: the log-probability (nats) of each row.
    """

    state: State
    items: Int[Tensor, " rows"]
    on_cpu: Int[Tensor, " rows"]
    scores: Float[Tensor, " rows"]

    @classmethod
    def of(cls, state: State, items: int, *, device: torch.device | str = "cpu") -> "Beam[State]":
        """One hypothesis an item, of log-probability 0."""
        numbers, zeros = torch.arange(items), torch.zeros(items, dtype=sum_type(device), device=device)
        return cls(state, numbers.to(device, non_blocking=True), numbers, zeros)

    def scored(self, log_probs: Float[Tensor, " rows"], state: State) -> "Beam[State]":
        """The hypotheses after a step without a choice, such as a token that is given: one log-probability a row."""
        return replace(self, state=state, scores=self.scores + log_probs.to(self.scores.dtype))

    def expanded(
        self,
        log_probs: Float[Tensor, "rows candidates"],
        build: Callable[[State, Survivors], State],
        *,
        beam_size: int,
    ) -> "Beam[State]":
        """The best candidates of each item; see `pruned`.

        `build` makes the state of the survivors from that of all rows; most begin by `state.select(best.rows)`.
        """
        best = pruned(self.scores, log_probs, self.items, beam_size=beam_size)
        return Beam(build(self.state, best), best.items, best.on_cpu[2], best.scores)

    def only(self, rows: Tensor) -> "Beam[State]":
        """Some rows, by a mask on the CPU or in ascending order by number."""
        rows = rows.nonzero()[:, 0] if rows.dtype == torch.bool else rows
        places = rows.to(self.items.device, non_blocking=True)
        state: Any = self.state
        return Beam(state.select(places), self.items[places], self.on_cpu[rows], self.scores[places])

    def regrouped(self, before: Int[Tensor, " items"], after: Int[Tensor, " items"]) -> "Beam[State]":
        """The hypotheses of representatives, as those of the representatives after one more target, in ascending order.

        `before` and `after` are the representatives of each item (`representatives`), on the CPU; those without
        hypotheses are left out.
        """
        new = after[after == torch.arange(len(after))]
        sources = before[new]
        if torch.equal(sources, new):
            return self
        counts = torch.bincount(self.on_cpu, minlength=len(after))
        times = counts[sources]
        starts = counts.cumsum(0) - counts
        rows = (starts[sources] - (times.cumsum(0) - times)).repeat_interleave(times)
        rows = rows + torch.arange(len(rows))
        items = new.repeat_interleave(times)
        return replace(self.only(rows), items=items.to(self.items.device, non_blocking=True), on_cpu=items)

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
        counts = torch.bincount(self.on_cpu)
        counts = counts[counts > 0]
        return order[(counts.cumsum(0) - counts).to(order.device, non_blocking=True)]


def representatives(
    targets: Int[Tensor, "items length"], opens: Bool[Tensor, "items length"], lengths: Int[Tensor, " items"]
) -> Int[Tensor, "items length_and_one"]:
    """Of each item and number of targets, the first item with the same targets up to there, and the same words.

    A search goes through a beginning that items have in common once: its representative, the first of them, has the
    hypotheses of them all, until their targets differ. They lie on the CPU; a GPU is waited for.

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
    return torch.tensor(first_of).view(items, length + 1)


# -- words ------------------------------------------------------------------------------------------------------------


def with_next_word(
    beam: Beam[State],
    expand: Callable[[Beam[State], Bool[Tensor, " rows"]], Float[Tensor, "rows candidates"]],
    build: Callable[[State, Survivors], State],
    *,
    produces: Sequence[bool],
    beam_size: int,
    max_actions: int,
    word_beam_size: int | None = None,
    fast_track: int = 0,
) -> Beam[State]:
    """The hypotheses once each has produced its next word, by any structural actions before it (Stern et al. 2017).

    Those that have produced their word wait for the others with the score that they have, and compete with them. A
    hypothesis is dropped once `word_beam_size` others have their word and come before it: it can't overtake them.

    Args:
        beam: hypotheses that have all produced as many words.
        expand: log-probabilities of the candidates of each row, -inf for one that is not possible; with the rows that
            wait, on the CPU, whose candidates do not count.
        build: as in `Beam.expanded`; the candidate of rows that wait is `WAIT`: their state stays, or takes a padded
            column.
        produces: True for candidates that produce the word, False for structural ones.
        beam_size: the most hypotheses of an item while actions are taken.
        max_actions: the most candidates up to the word, the word included; hypotheses without it are then dropped.
        word_beam_size: the most hypotheses of an item once all have their word; None: as `beam_size`.
        fast_track: the most candidates an action that produce the word and are kept for it, in addition to those that
            `beam_size` allows.

    Raises:
        UserError: all candidates of an item have -inf, or none of its hypotheses has produced a word.
    """
    device, waits = beam.items.device, torch.zeros(len(beam.items), dtype=torch.bool)
    has_word = torch.tensor([True, *produces])  # the first candidate is to wait
    also = has_word.to(device, non_blocking=True)
    for _ in range(max_actions):
        if bool(waits.all()):
            break
        log_probs = expand(beam, waits).to(beam.scores.dtype)
        is_done = waits.to(device, non_blocking=True)[:, None]
        to_wait = log_probs.new_zeros(len(waits), 1).masked_fill(~is_done, -torch.inf)
        log_probs = torch.cat((to_wait, log_probs.masked_fill(is_done, -torch.inf)), 1)
        best = pruned(
            beam.scores, log_probs, beam.items, beam_size=beam_size, also=also, also_size=fast_track,
            enough=word_beam_size,
        )  # fmt: skip
        waits = has_word[best.on_cpu[1]]
        for columns in (best.columns, best.on_cpu):
            columns[1] -= 1  # `WAIT`, 0, 1 …
        beam = Beam(build(beam.state, best), best.items, best.on_cpu[2], best.scores)
    if without := {*beam.on_cpu.tolist()} - {*beam.on_cpu[waits].tolist()}:
        raise UserError(
            f"item {min(without)}: no hypothesis has produced the next word after {max_actions} actions. Allow more "
            "actions, or widen the beam."
        )
    return beam if bool(waits.all()) else beam.only(waits)
