"""What is chosen for the placeholders of a level: expansions and words, within limits and with what texts are to have.

For `depgen.decoding.levels`; nothing here loops over tokens or texts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor

from depgen.decoding.levels import ExpansionOptions, Growing, Patterns
from depgen.decoding.sampling import drawn
from depgen.decoding.skeletons import GivenWords
from depgen.nn.hashing import hashed_uniform

EXPANSIONS, WORDS = 0, 1
"""What a variate is drawn for."""


def drawn_expansions(
    log_probs: Float[Tensor, "rows length expansions"],
    state: Growing,
    patterns: Patterns,
    options: ExpansionOptions,
    *,
    level: int,
) -> Int[Tensor, "rows length"]:
    """An expansion for each placeholder, drawn with its factors; a leaf elsewhere."""
    chosen = torch.full_like(state.tokens, patterns.leaf)
    allowed, uniform = log_probs[state.is_open] + patterns.before, _variates(state, level, EXPANSIONS)
    chosen[state.is_open] = drawn(allowed, options, uniform, log_factors=patterns.log_factors)
    return chosen


@dataclass(frozen=True)
class Room:
    """What the limits and the given words leave to each text at a level.

    Attributes:
        most: tokens of each text.
        least: the expansion with the fewest dependents of each placeholder; a leaf elsewhere.
        free: placeholders whose word is not given.
        reserved: dependents at least of given words below the level.
        opens_later: whether given words below the level may have new dependents.
    """

    most: Int[Tensor, " rows"]
    least: Int[Tensor, "rows length"]
    free: Int[Tensor, " rows"]
    reserved: Int[Tensor, " rows"]
    opens_later: Bool[Tensor, " rows"]

    @classmethod
    def of(
        cls, state: Growing, patterns: Patterns, given: GivenWords | None, *, level: int, most: int, longest: int
    ) -> "Room":
        """The room at a level.

        Args:
            state: the texts.
            patterns: the table.
            given: words, if any are.
            level: counted from 1.
            most: new tokens of a text.
            longest: tokens of a text, given ones included.
        """
        leaves, none = torch.full_like(state.tokens, patterns.leaf), torch.zeros_like(state.lengths)
        limit, free = (none + most).clamp_max(longest), state.is_open.sum(1)
        if given is None:
            return cls(limit, leaves, free, none, none > 0)
        known = given.least[state.given.clamp_min(0)]
        least = known.where(state.is_open & (state.given >= 0), leaves)
        limit = (most + given.sizes[state.trees]).clamp_max(longest)
        is_fixed = (state.given >= 0) & (given.tokens[state.given.clamp_min(0)] >= 0) & state.is_open
        later = given.opens_later[state.trees, level]
        return cls(limit, least, free - is_fixed.sum(1), given.reserved[state.trees, level], later)


def restricted(
    log_probs: Float[Tensor, "rows length expansions"], state: Growing, given: GivenWords | None
) -> Float[Tensor, "rows length expansions"]:
    """Log-probabilities of -inf where a given word may not have an expansion."""
    if given is None:
        return log_probs
    allowed = given.allowed[state.given.clamp_min(0)] | (state.given < 0)[..., None]
    return log_probs.masked_fill(~allowed, -torch.inf)


def chosen_expansions(
    log_probs: Float[Tensor, "rows length expansions"],
    state: Growing,
    patterns: Patterns,
    options: ExpansionOptions,
    *,
    level: int,
    room: Room,
) -> tuple[Int[Tensor, "rows length"], Bool[Tensor, " rows"], Bool[Tensor, " rows"]]:
    """An expansion for each placeholder, a leaf elsewhere; which texts end, and which were cut: `mended_expansions`.

    Args:
        log_probs: of the expansions; see `restricted`.
        state: the texts.
        patterns: the table.
        options: of generation.
        level: counted from 1.
        room: what the limits leave.
    """
    chosen = drawn_expansions(log_probs, state, patterns, options, level=level)
    return mended_expansions(chosen, log_probs, state, patterns, options, level=level, room=room)


def mended_expansions(
    chosen: Int[Tensor, "rows length"],
    log_probs: Float[Tensor, "sources length expansions"],
    state: Growing,
    patterns: Patterns,
    options: ExpansionOptions,
    *,
    level: int,
    room: Room,
    rows: Int[Tensor, " rows"] | None = None,
) -> tuple[Int[Tensor, "rows length"], Bool[Tensor, " rows"], Bool[Tensor, " rows"]]:
    """The expansions with which texts keep the limits and get what they are to have; which end, and which were cut.

    A text that would be longer than its most tokens, or deeper than the levels, gets no new dependents. Tokens and
    levels for what it is to have and has not yet count as used. After that, a text that would end without what it is to
    have gets the likeliest expansion that brings it and fits, at the place where it is likeliest. It counts as one that
    ends all the same: its placeholders get words that it is to have.

    Args:
        chosen: of each placeholder; a leaf elsewhere.
        log_probs: of the expansions; see `restricted`.
        state: the texts.
        patterns: the table.
        options: of generation.
        level: counted from 1.
        room: what the limits leave.
        rows: of each text the row of `log_probs`; by default its own.
    """
    counts = patterns.left + patterns.right
    base = (counts[room.least] * state.is_open).sum(1)

    def growth(choice: Tensor) -> Tensor:
        return (counts[choice] * state.is_open).sum(1) - base

    used = state.lengths + base + room.reserved
    lacking, new = state.lacks & ~brings(chosen, state, patterns), growth(chosen)
    words = (state.missing.sum(1) - new).clamp_min(0)
    deepest = level + 1 + lacking.sum(1) + words
    cut = (new > 0) & ((used + new + lacking.sum(1) + words > room.most) | (deepest > options.levels))
    chosen = torch.where(cut[:, None], room.least, chosen)
    # A text that ends too early: in turn, a relation that it lacks, room for words, and length.
    lacking, ends = state.lacks & ~brings(chosen, state, patterns), (growth(chosen) == 0) & ~room.opens_later
    short = lacking.any(1) | (state.missing.sum(1) > room.free) | (used < options.min_tokens)
    mended = (ends & short & (level < options.levels)).nonzero()[:, 0]
    added = counts - counts[room.least[mended]][..., None]
    wants = (added > 0) & (used[mended, None, None] + added <= room.most[mended, None, None])
    wants = wants & state.is_open[mended][..., None]
    if lacking.shape[1]:
        lacking = lacking[mended]
        of_first = patterns.required[lacking.float().argmax(1)]
        wants = wants & (of_first | ~lacking.any(1)[:, None])[:, None]
    scores = log_probs[mended if rows is None else rows[mended]] + patterns.before
    best, places = scores.masked_fill(~wants, -torch.inf).flatten(1).max(1)
    fits, place, pattern = best > -torch.inf, places // scores.shape[2], places % scores.shape[2]
    chosen[mended[fits], place[fits]] = pattern[fits]
    return chosen, ends, cut


def brings(chosen: Int[Tensor, "rows length"], state: Growing, patterns: Patterns) -> Bool[Tensor, "rows required"]:
    """Whether the expansions chosen have each required relation."""
    return (patterns.required.T[chosen] & state.is_open[..., None]).any(1)


def chosen_words(
    log_probs: Float[Tensor, "places vocab"],
    state: Growing,
    options: ExpansionOptions,
    wanted: Sequence[int],
    *,
    level: int,
    last: Bool[Tensor, " rows"],
    given: GivenWords | None = None,
) -> tuple[Int[Tensor, " places"], Bool[Tensor, "rows words"]]:
    """A word for each placeholder; and the words that each text is to have and has not; see `placed_words`.

    Args:
        log_probs: of the words at all placeholders, row by row; -inf for what is never written.
        state: the texts.
        options: of generation.
        wanted: tokens that each text is to have.
        level: counted from 1.
        last: texts that end at this level, or would if they lacked nothing.
        given: words, if any are.
    """
    found = drawn(log_probs, options, _variates(state, level, WORDS))
    fixed = fixed_words(state, given)
    found = torch.where(fixed >= 0, fixed, found)
    return placed_words(found, scores_of(wanted, log_probs), state, wanted, last=last, taken=fixed >= 0)


def scores_of(wanted: Sequence[int], log_probs: Float[Tensor, "places vocab"]) -> Float[Tensor, "places wanted"]:
    """The columns of some tokens, of which there may be none."""
    return log_probs.index_select(1, torch.tensor(wanted, dtype=torch.int64, device=log_probs.device))


def fixed_words(state: Growing, given: GivenWords | None) -> Int[Tensor, " places"]:
    """The given token at each placeholder; -1 where one is to be written."""
    words = state.given[state.is_open]
    return words if given is None else given.tokens[words.clamp_min(0)].where(words >= 0, -1)


def placed_words(
    found: Int[Tensor, " places"],
    log_probs: Float[Tensor, "places wanted"],
    state: Growing,
    wanted: Sequence[int],
    *,
    last: Bool[Tensor, " rows"],
    taken: Bool[Tensor, " places"],
) -> tuple[Int[Tensor, " places"], Bool[Tensor, "rows words"]]:
    """The words at placeholders, with those that a text is to have; and those that each text has not.

    In texts that end, each word that is missing and not drawn takes the placeholder where it is likeliest.

    Args:
        found: the words that were drawn.
        log_probs: of the wanted words.
        state: the texts.
        wanted: tokens that each text is to have.
        last: texts that end at this level, or would if they lacked nothing.
        taken: placeholders whose word is given.
    """
    if not wanted:
        return found, state.missing
    rows = state.is_open.nonzero()[:, 0]
    for word, token in enumerate(wanted):
        free = (state.missing[:, word] & last)[rows] & ~taken
        scores = log_probs[:, word].masked_fill(found == token, torch.inf).masked_fill(~free, -torch.inf)
        of_texts = scores.new_full(state.is_open.shape, -torch.inf).masked_scatter(state.is_open, scores)
        best = torch.zeros_like(state.is_open).scatter(1, of_texts.argmax(1, keepdim=True), True)
        here = best[state.is_open] & free
        found, taken = torch.where(here, token, found), taken | here
    return found, state.missing & ~_has(found, rows, state.missing, wanted)


def _has(found: Tensor, rows: Tensor, like: Tensor, wanted: Sequence[int]) -> Tensor:
    """Whether each text has each wanted token among these."""
    equal = found[:, None] == torch.tensor(list(wanted), dtype=torch.int64, device=found.device)
    return torch.zeros_like(like, dtype=torch.int64).index_add_(0, rows, equal.long()) > 0


def _variates(state: Growing, level: int, purpose: int) -> Float64[Tensor, " places"]:
    """A uniform variate for each placeholder, which depends on its text's seed, its level and its place alone."""
    rows, places = state.is_open.nonzero().T
    return hashed_uniform(state.seeds[rows], level, places, purpose)
