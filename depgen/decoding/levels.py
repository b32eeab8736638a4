"""Trees that are written level by level: which expansions may be drawn, and how texts grow by them.

For `depgen.models.itexp`; nothing here loops over tokens or texts.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor

from depgen.decoding.sampling import drawn
from depgen.decoding.settings import Sampling
from depgen.errors import UserError, check_at_least, did_you_mean
from depgen.nn.hashing import hashed_uniform
from depgen.nn.lengths import mask_of
from depgen.trees.binarization import CLIMB, HEAD

EXPANSIONS, WORDS = 0, 1
"""What a variate is drawn for."""


@dataclass(frozen=True)
class ExpansionOptions(Sampling):
    """How words and expansions are drawn, with the same filters; and what the tree of a text is to have.

    Attributes:
        levels: the deepest level; its words have no dependents.
        min_tokens: texts have at least this number of tokens, unless the limit of levels comes first.
        boost: factors of the probabilities of expansions with a relation, such as `amod: 10`; 0 forbids it.
        boost_before_truncation: boost before top-k and top-p leave expansions out, not after as in the authors' code.
        require: relations that each text has at least once.
        forbid: relations that no text has.
        words: words that each text has.
        skeletons: a CoNLL-U file of trees, which the texts have in turn; words that it gives stay, `_` is written.
        trace: return every level, as `levels` of the structure.

    Raises:
        UserError: for a value out of range, or a relation that is required and forbidden.
    """

    levels: int = 100
    min_tokens: int = 1
    boost: dict[str, float] | None = None
    boost_before_truncation: bool = False
    require: tuple[str, ...] = ()
    forbid: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    skeletons: str | None = None
    trace: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(1, levels=self.levels, min_tokens=self.min_tokens)
        for relation, factor in (self.boost or {}).items():
            if not 0 <= factor < float("inf"):
                raise UserError(f"boost of {relation}: expected a factor of 0 or more, found {factor}.")
        banned = {*self.forbid, *(relation for relation, factor in (self.boost or {}).items() if factor == 0)}
        if self.skeletons is not None and (self.boost or self.require or self.forbid or self.words):
            raise UserError("skeletons fix the trees: leave out boost, require, forbid and words, or skeletons.")
        if both := sorted(banned & set(self.require)):
            raise UserError(f"{', '.join(both)}: required and forbidden. Leave out one of them.")


@dataclass(frozen=True)
class Patterns:
    """The table of expansions on a device.

    Attributes:
        left: number of placeholders at the left of each expansion.
        right: at the right.
        children: their labels from left to right, padded.
        log_factors: the logarithms of what probabilities are multiplied by after truncation.
        before: what is added to log-probabilities before all filters; -inf for expansions that may not be drawn.
        required: of each required relation the expansions that have it.
    """

    left: Int[Tensor, " expansions"]
    right: Int[Tensor, " expansions"]
    children: Int[Tensor, "expansions most"]
    log_factors: Float[Tensor, " expansions"]
    before: Float[Tensor, " expansions"]
    required: Bool[Tensor, "required expansions"]
    leaf: int

    @classmethod
    def of(
        cls,
        rows: Sequence[Sequence[str]],
        labels: Sequence[str],
        options: ExpansionOptions,
        *,
        device: torch.device,
    ) -> "Patterns":
        """The table with the options' wishes.

        Args:
            rows: labels of the dependents at the left of a word, `HEAD`, those at the right; rows without `HEAD` are
                never drawn.
            labels: of the placeholders, in their order.
            options: of generation.
            device: where to.

        Raises:
            UserError: an option names a relation that no expansion has.
        """
        number = {label: k for k, label in enumerate(labels)}
        relations = [{label.partition(CLIMB)[0] for label in row if HEAD in row} - {HEAD} for row in rows]
        known = set().union(*relations)
        for name in ("boost", "require", "forbid"):
            for relation in getattr(options, name) or ():
                if relation not in known:
                    raise UserError(
                        f"{name}: no expansion of this run has the relation {relation!r}."
                        f"{did_you_mean(relation, sorted(known))} It has {', '.join(sorted(known)) or 'none'}."
                    )
        middles = [row.index(HEAD) if HEAD in row else 0 for row in rows]
        most = max(len(row) for row in rows)
        children = torch.zeros(len(rows), most, dtype=torch.int64)
        after, before = torch.zeros(len(rows)), torch.zeros(len(rows))
        for k, row in enumerate(rows):
            for place, label in enumerate(each for each in row if each in number):
                children[k, place] = number[label]
            factors = [factor for relation, factor in (options.boost or {}).items() if relation in relations[k]]
            log_factor = sum(math.log(factor) for factor in factors if factor > 0)
            if options.boost_before_truncation:  # the temperature, which divides it, does not weaken it
                before[k] = log_factor * (1 if options.greedy else options.temperature)
            else:
                after[k] = log_factor
            if HEAD not in row or 0 in factors or relations[k] & set(options.forbid):
                before[k] = -torch.inf
        required = torch.tensor([[name in row for row in relations] for name in options.require], dtype=torch.bool)
        left = torch.tensor(middles)
        right = torch.tensor(
            [len(row) - 1 - middle if HEAD in row else 0 for row, middle in zip(rows, middles, strict=True)]
        )
        columns = {"left": left, "right": right, "children": children, "log_factors": after, "before": before}
        columns["required"] = required.view(-1, len(rows))
        moved = {name: column.to(device) for name, column in columns.items()}
        return cls(leaf=[list(row) for row in rows].index([HEAD]), **moved)


@dataclass
class Growing:
    """Texts that grow together, padded at the right.

    Attributes:
        texts: the number of each row's text.
        seeds: of each.
        tokens: words that are written; anything at placeholders.
        heads: 0-based; -1 = root.
        labels: of each token to its head, places in the list of placeholders.
        is_open: at placeholders.
        lengths: of each.
        log_probs: so far.
        missing: words that each text is to have and has not yet.
        lacks: relations that each text is to have and has not yet.
    """

    texts: Int[Tensor, " rows"]
    seeds: Int[Tensor, " rows"]
    tokens: Int[Tensor, "rows length"]
    heads: Int[Tensor, "rows length"]
    labels: Int[Tensor, "rows length"]
    is_open: Bool[Tensor, "rows length"]
    lengths: Int[Tensor, " rows"]
    log_probs: Float[Tensor, " rows"]
    missing: Bool[Tensor, "rows words"]
    lacks: Bool[Tensor, "rows required"]

    def select(self, rows: Int[Tensor, " some"]) -> "Growing":
        """Some of the texts."""
        found = {name: value[rows] for name, value in vars(self).items()}
        longest = int(found["lengths"].max()) if len(rows) else 0
        return Growing(**{name: each[:, :longest] if name in _BY_TOKEN else each for name, each in found.items()})


_BY_TOKEN = frozenset({"tokens", "heads", "labels", "is_open"})


def expanded(state: Growing, chosen: Int[Tensor, "rows length"], patterns: Patterns) -> Growing:
    """The texts at the next level: new placeholders come at both sides of the words whose expansions have some.

    The new place of token i is i plus the placeholders at the left of tokens up to i and at the right of those before.
    """
    left, right = (each[chosen] * state.is_open for each in (patterns.left, patterns.right))
    places = torch.arange(state.tokens.shape[1], device=chosen.device) + left.cumsum(1) + right.cumsum(1) - right
    is_word = mask_of(state.lengths, state.tokens.shape[1], device=chosen.device)
    lengths = state.lengths + (left + right).sum(1)
    length = int(lengths.max())
    drain = length  # a last column for what is padding

    def fresh(value: int | bool, like: Tensor) -> Tensor:
        return torch.full((len(lengths), length + 1), value, dtype=like.dtype, device=like.device)

    tokens, heads, labels = fresh(0, state.tokens), fresh(-1, state.heads), fresh(0, state.labels)
    is_open = fresh(False, state.is_open)
    old = places.where(is_word, drain)
    moved = places.gather(1, state.heads.clamp_min(0)).where(state.heads >= 0, -1)
    tokens.scatter_(1, old, state.tokens)
    heads.scatter_(1, old, moved)
    labels.scatter_(1, old, state.labels)
    for place in range(patterns.children.shape[1]):
        has = is_word & state.is_open & (place < left + right)
        offset = torch.where(place < left, place - left, place - left + 1)
        new = (places + offset).where(has, drain)
        heads.scatter_(1, new, places)
        labels.scatter_(1, new, patterns.children[chosen, place])
        is_open.scatter_(1, new, True)
    grown = {"tokens": tokens, "heads": heads, "labels": labels, "is_open": is_open}
    return replace(state, lengths=lengths, **{name: each[:, :length] for name, each in grown.items()})


# -- choices ----------------------------------------------------------------------------------------------------------


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


def chosen_expansions(
    log_probs: Float[Tensor, "rows length expansions"],
    state: Growing,
    patterns: Patterns,
    options: ExpansionOptions,
    *,
    level: int,
    most: int,
) -> tuple[Int[Tensor, "rows length"], Bool[Tensor, " rows"]]:
    """An expansion for each placeholder, a leaf elsewhere; and which texts were cut.

    A text that would end without what it is to have gets the likeliest expansion that brings it, at the place where it
    is likeliest. One that would be longer than the most tokens, or is at the last level, gets leaves alone.

    Args:
        log_probs: of the expansions.
        state: the texts.
        patterns: the table.
        options: of generation.
        level: counted from 1.
        most: tokens of a text.
    """
    chosen = drawn_expansions(log_probs, state, patterns, options, level=level)
    children = (patterns.left + patterns.right)[chosen] * state.is_open
    ends = children.sum(1) == 0
    # A text that ends too early: in turn, a relation that it lacks, room for words, and length.
    room = state.is_open.sum(1)
    grows = patterns.left + patterns.right > 0
    wants = grows[None].expand(len(chosen), -1)
    lacking = state.lacks & ~brings(chosen, state, patterns)
    if lacking.shape[1]:
        first = lacking.float().argmax(1)
        wants = torch.where(lacking.any(1)[:, None], patterns.required[first], wants)
    short = lacking.any(1) | (state.missing.sum(1) > room) | (state.lengths < options.min_tokens)
    forced = ends & short
    useless = ~state.is_open[..., None] | ~wants[:, None]
    scores = (log_probs + patterns.before).masked_fill(useless, -torch.inf).flatten(1)
    place, pattern = scores.argmax(1) // log_probs.shape[2], scores.argmax(1) % log_probs.shape[2]
    forced = forced & (scores.amax(1) > -torch.inf)
    rows = torch.arange(len(chosen), device=chosen.device)
    chosen[rows, place] = torch.where(forced, pattern, chosen[rows, place])
    grown = state.lengths + ((patterns.left + patterns.right)[chosen] * state.is_open).sum(1)
    cut = (grown > most) | ((grown > state.lengths) & (level == options.levels))
    return chosen.masked_fill(cut[:, None], patterns.leaf), cut


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
) -> tuple[Int[Tensor, " places"], Bool[Tensor, "rows words"]]:
    """A word for each placeholder; and the words that each text is to have and has not.

    At a text's last level each word that is missing and not drawn takes the placeholder where it is likeliest.

    Args:
        log_probs: of the words at all placeholders, row by row; -inf for what is never written.
        state: the texts.
        options: of generation.
        wanted: tokens that each text is to have.
        level: counted from 1.
        last: texts that end at this level.
    """
    found = drawn(log_probs, options, _variates(state, level, WORDS))
    if not wanted:
        return found, state.missing
    rows = state.is_open.nonzero()[:, 0]
    taken = torch.zeros_like(rows, dtype=torch.bool)
    for word, token in enumerate(wanted):
        free = (state.missing[:, word] & last)[rows] & ~taken
        scores = log_probs[:, token].masked_fill(found == token, torch.inf).masked_fill(~free, -torch.inf)
        of_texts = scores.new_full(state.is_open.shape, -torch.inf).masked_scatter(state.is_open, scores)
        best = torch.zeros_like(state.is_open).scatter(1, of_texts.argmax(1, keepdim=True), True)
        here = best[state.is_open] & free
        found, taken = torch.where(here, token, found), taken | here
    return found, state.missing & ~_has(found, rows, state.missing, wanted)


def _has(found: Tensor, rows: Tensor, like: Tensor, wanted: Sequence[int]) -> Tensor:
    """Whether each text has each wanted token among these."""
    equal = found[:, None] == torch.tensor(list(wanted), device=found.device)
    return torch.zeros_like(like, dtype=torch.int64).index_add_(0, rows, equal.long()) > 0


def _variates(state: Growing, level: int, purpose: int) -> Float64[Tensor, " places"]:
    """A uniform variate for each placeholder, which depends on its text's seed, its level and its place alone."""
    rows, places = state.is_open.nonzero().T
    return hashed_uniform(state.seeds[rows], level, places, purpose)
