"""Trees that are written level by level: options, the table of expansions, and how texts grow by them.

For `depgen.models.itexp`; nothing here loops over tokens or texts.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from depgen.decoding.settings import BeamOptions
from depgen.decoding.skeletons import GivenWords
from depgen.errors import UserError, check_at_least, did_you_mean
from depgen.nn.lengths import mask_of
from depgen.trees.binarization import CLIMB, HEAD


@dataclass(frozen=True)
class ExpansionOptions(BeamOptions):
    """How words and expansions are drawn or searched for, with the same filters; and what the tree is to have.

    Attributes:
        levels: the deepest level; its words have no dependents.
        min_tokens: texts have at least this number of tokens, unless the limit of levels comes first.
        boost: factors of the probabilities of expansions with a relation, such as `amod: 10`; 0 forbids it.
        boost_before_truncation: boost before top-k and top-p leave expansions out, not after as in the authors' code.
        require: relations that each text has at least once.
        forbid: relations that no text has.
        words: words that each text has.
        skeletons: a CoNLL-U file of trees, which the texts have in turn; words that it gives stay, `_` is written.
        parser: gives prompts their trees (name or folder); by default the annotator that the run was trained with.
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
    parser: str | None = None
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
        given: the given word that each token is, as in `GivenWords`; -1 elsewhere.
        is_open: at placeholders.
        lengths: of each.
        log_probs: so far.
        missing: words that each text is to have and has not yet.
        lacks: relations that each text is to have and has not yet.
        trees: the given tree of each, if any are given.
        cut: texts that have no more dependents at some level because of a limit.
    """

    texts: Int[Tensor, " rows"]
    seeds: Int[Tensor, " rows"]
    tokens: Int[Tensor, "rows length"]
    heads: Int[Tensor, "rows length"]
    labels: Int[Tensor, "rows length"]
    given: Int[Tensor, "rows length"]
    is_open: Bool[Tensor, "rows length"]
    lengths: Int[Tensor, " rows"]
    log_probs: Float[Tensor, " rows"]
    missing: Bool[Tensor, "rows words"]
    lacks: Bool[Tensor, "rows required"]
    trees: Int[Tensor, " rows"]
    cut: Bool[Tensor, " rows"]

    def select(self, rows: Int[Tensor, " some"]) -> "Growing":
        """Some of the texts."""
        found = {name: value[rows] for name, value in vars(self).items()}
        longest = int(found["lengths"].max()) if len(rows) else 0
        return Growing(**{name: each[:, :longest] if name in _BY_TOKEN else each for name, each in found.items()})


_BY_TOKEN = frozenset({"tokens", "heads", "labels", "given", "is_open"})


def expanded(
    state: Growing, chosen: Int[Tensor, "rows length"], patterns: Patterns, given: GivenWords | None = None
) -> Growing:
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
    words, is_open = fresh(-1, state.given), fresh(False, state.is_open)
    old = places.where(is_word, drain)
    moved = places.gather(1, state.heads.clamp_min(0)).where(state.heads >= 0, -1)
    tokens.scatter_(1, old, state.tokens)
    heads.scatter_(1, old, moved)
    labels.scatter_(1, old, state.labels)
    words.scatter_(1, old, state.given)
    for place in range(patterns.children.shape[1]):
        has = is_word & state.is_open & (place < left + right)
        offset = torch.where(place < left, place - left, place - left + 1)
        new = (places + offset).where(has, drain)
        heads.scatter_(1, new, places)
        labels.scatter_(1, new, patterns.children[chosen, place])
        is_open.scatter_(1, new, True)
        if given is not None:
            words.scatter_(1, new, given.dependents(state.given, chosen, place))
    grown = {"tokens": tokens, "heads": heads, "labels": labels, "given": words, "is_open": is_open}
    return replace(state, lengths=lengths, **{name: each[:, :length] for name, each in grown.items()})
