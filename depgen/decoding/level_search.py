"""Beam search across levels: the likeliest texts with their trees.

Casas et al. (2020) mention such a search as possible (section 3.3) and leave it open, so that this definition is ours.
A hypothesis is a text after some levels; its score is the log-probability (nats) of all its choices. A level takes two
steps. The expansions of its placeholders are chosen first, and then their words, which are predicted with the
expansions. In each step a hypothesis has as candidates the `beam_size` likeliest combinations of choices at all its
placeholders, found exactly: given the level, choices of one kind are independent. Of all candidates of a text the
`beam_size` best are kept after each step. More candidates of one hypothesis could not survive, so that nothing is lost.

Limits, and what texts are to have, change candidates as they change what is drawn (`mended_expansions`,
`placed_words`); of candidates that become equal one stays. Finished texts leave the beam. A beam of one hypothesis is
greedy decoding. The beam ends when none of its hypotheses can become better than the finished texts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from depgen.decoding.beam import Survivors, pruned
from depgen.decoding.generated import Generated
from depgen.decoding.level_choices import brings, fixed_words, mended_expansions, placed_words, restricted, scores_of
from depgen.decoding.level_writing import LevelWriter
from depgen.decoding.levels import Growing, expanded
from depgen.errors import UserError
from depgen.nn.precise import precise
from depgen.progress import progress_bar


def likeliest_combinations(
    scores: Float[Tensor, "rows places kept"], count: int
) -> tuple[Int[Tensor, "rows count places"], Float[Tensor, "rows count"]]:
    """The combinations of one choice at each place with the highest sums, and their sums, the best first.

    Halves of the places are combined pair by pair, so that the number of steps is logarithmic in the places.
    O(places x count^2) a row.

    Args:
        scores: of the best choices at each place, the best first; -inf where there are fewer.
        count: combinations of a row; those that do not exist have the sum -inf.

    >>> choices, sums = likeliest_combinations(torch.tensor([[[-1.0, -2.0], [-1.0, -4.0]]]), 3)
    >>> choices.tolist(), sums.tolist()
    ([[[0, 0], [1, 0], [0, 1]]], [[-2.0, -3.0, -5.0]])
    """
    rows, places, kept = scores.shape
    sums = torch.nn.functional.pad(scores[..., :count], (0, max(0, count - kept)), value=-torch.inf)
    choices = torch.arange(count, device=scores.device).clamp_max(kept - 1).expand(rows, places, -1)[..., None]
    while sums.shape[1] > 1:
        if sums.shape[1] % 2:  # a place without a choice
            nothing = torch.full_like(sums[:, :1], -torch.inf)
            nothing[..., 0] = 0
            sums, choices = torch.cat((sums, nothing), 1), torch.cat((choices, torch.zeros_like(choices[:, :1])), 1)
        pairs = (sums[:, ::2, :, None] + sums[:, 1::2, None]).flatten(2)
        sums, best = pairs.topk(count, 2)
        first, second = (
            each.gather(2, number[..., None].expand(-1, -1, -1, choices.shape[3]))
            for each, number in ((choices[:, ::2], best // count), (choices[:, 1::2], best % count))
        )
        choices = torch.cat((first, second), 3)
    return choices[:, 0, :, :places], sums[:, 0]


def searched_texts(
    writer: LevelWriter,
    trees: Sequence[int],
    seeds: Sequence[int],
    *,
    batch_size: int,
    device: torch.device,
    progress: bool = False,
) -> list[Generated]:
    """The best texts around each given tree, or from nothing; the best first where texts have the same.

    Args:
        writer: see `LevelWriter`.
        trees: of each text the number of the given tree, or of the group of texts from nothing.
        seeds: of each text; nothing is drawn.
        batch_size: hypotheses at once, but those of one search are never parted.
        device: where to.
        progress: show a progress bar, in searches.

    Raises:
        UserError: more texts of a group than the beam has hypotheses, or than it finds.
    """
    size, groups = writer.options.beam_size or 1, list(dict.fromkeys(trees))
    number = max(map(list(trees).count, groups), default=0)
    if number > size:
        raise UserError(f"A beam of {size} hypotheses has no {number} texts of a prompt: raise beam_size, or lower -n.")
    found: dict[int, list[Generated]] = {}
    at_once = max(1, batch_size // size)
    with progress_bar("searching", total=len(groups), unit="texts", shown=progress) as advance:
        for first in range(0, len(groups), at_once):
            part = groups[first : first + at_once]
            beginning = writer.beginning(range(len(part)), [0] * len(part), part, device=device)
            search = _Search(writer, size, number)
            search.run(beginning)
            for item, group in enumerate(part):
                found[group] = search.best(item)
            advance(len(part))
    rank = {group: iter(texts) for group, texts in found.items()}
    return [next(rank[group]) for group in trees]


@dataclass
class _Search:
    """The searches of a batch; `texts` of a state are the items that its hypotheses belong to, in ascending order.

    Attributes:
        writer: see `LevelWriter`.
        size: hypotheses of an item.
        number: texts of an item that are wanted.
        finished: values and texts of each item.
    """

    writer: LevelWriter
    size: int
    number: int
    finished: dict[int, list[tuple[float, Generated]]] = field(default_factory=dict)

    def run(self, state: Growing) -> None:
        """Search until all items are done."""
        writer, power = self.writer, self.writer.options.length_normalization
        scores = state.log_probs
        for level in range(1, writer.options.levels + 1):
            state, scores, chosen, last = self._with_expansions(state, scores, level)
            state, scores, chosen = self._with_words(state, scores, chosen, last)
            state = expanded(state, chosen, writer.patterns, writer.given)
            ends = ~state.is_open.any(1)
            for row in ends.nonzero()[:, 0].tolist():
                value = float(scores[row]) / int(state.lengths[row]) ** power
                self.finished.setdefault(int(state.texts[row]), []).append((value, writer.finished(state, row)))
            rows = (~ends & ~self._done(state, scores, ends, level)).nonzero()[:, 0]
            state, scores = state.select(rows), scores[rows]
            if not len(rows):
                return

    def best(self, item: int) -> list[Generated]:
        """The best texts of an item, the best first.

        Raises:
            UserError: there are fewer than are wanted.
        """
        found = sorted(self.finished.get(item, []), key=itemgetter(0), reverse=True)
        if len(found) < self.number:
            raise UserError(
                f"The beam has found {len(found)} texts of a prompt, and {self.number} are wanted: raise beam_size, "
                "max_new_tokens or levels, or lower -n."
            )
        return [text for _, text in found[: self.number]]

    def _done(
        self, state: Growing, scores: Float[Tensor, " rows"], ends: Bool[Tensor, " rows"], level: int
    ) -> Bool[Tensor, " rows"]:
        """Hypotheses of items in which none can become better than the texts at hand."""
        if any(factor > 1 for factor in (self.writer.options.boost or {}).values()):
            return torch.zeros_like(ends)
        longest = self.writer.room(state, level).most.to(scores.dtype) ** self.writer.options.length_normalization
        items = 1 + int(state.texts.max())
        reachable = scores.new_full((items,), -torch.inf)
        reachable.scatter_reduce_(0, state.texts[~ends], (scores / longest)[~ends], "amax")
        values = [sorted((value for value, _ in self.finished.get(item, [])), reverse=True) for item in range(items)]
        least = [each[self.number - 1] if len(each) >= self.number else -torch.inf for each in values]
        return (reachable <= reachable.new_tensor(least))[state.texts]

    def _with_expansions(
        self, state: Growing, scores: Float[Tensor, " rows"], level: int
    ) -> tuple[Growing, Float[Tensor, " kept"], Int[Tensor, "kept length"], Bool[Tensor, " kept"]]:
        """The hypotheses that are kept once expansions are chosen, their scores and expansions, and which end."""
        writer, patterns, found = self.writer, self.writer.patterns, list[Tensor]()
        room = writer.room(state, level)

        def choose(log_probs: Tensor) -> Tensor:
            found.append(log_probs)
            return room.least

        writer.score(state, choose)
        possible = restricted(found[0], state, writer.given)
        weighed = possible + patterns.before + patterns.log_factors
        values, ids = weighed.topk(min(self.size, weighed.shape[2]), 2)
        ids = ids.masked_fill(~state.is_open[..., None], patterns.leaf)
        combined, exists = self._combined(values, ids, state)
        source = torch.arange(len(scores), device=scores.device).repeat_interleave(self.size)
        wide = state.select(source)
        mended, ends, cut = mended_expansions(
            combined.flatten(0, 1), possible, wide, patterns, writer.options, level=level,
            room=writer.room(wide, level), rows=source,
        )  # fmt: skip
        combined = mended.view(combined.shape)
        kept = self._survivors(state, scores, combined, exists, weighed.gather(2, combined.mT))
        own = precise(found[0].gather(2, combined.mT)).where(state.is_open[..., None], 0).sum(1)
        chosen = combined[kept.rows, kept.candidates]
        state = state.select(kept.rows)
        chosen = chosen[:, : state.tokens.shape[1]]
        state = replace(
            state,
            log_probs=state.log_probs + own[kept.rows, kept.candidates],
            lacks=state.lacks & ~brings(chosen, state, patterns),
            cut=state.cut | cut.view(exists.shape)[kept.rows, kept.candidates],
        )
        return state, kept.scores, chosen, ends.view(exists.shape)[kept.rows, kept.candidates]

    def _with_words(
        self, state: Growing, scores: Float[Tensor, " rows"], chosen: Tensor, last: Bool[Tensor, " rows"]
    ) -> tuple[Growing, Float[Tensor, " kept"], Int[Tensor, "kept length"]]:
        """The hypotheses that are kept once words are chosen, their scores and expansions."""
        writer, is_open = self.writer, state.is_open
        log_probs = writer.score(state, lambda _: chosen)
        values, ids = writer.known(log_probs).topk(min(self.size, log_probs.shape[1]), 1)
        fixed = fixed_words(state, writer.given)
        ids = torch.where((fixed >= 0)[:, None], fixed[:, None], ids)
        values = values.masked_fill((fixed >= 0)[:, None], -torch.inf)
        values[:, 0] = torch.where(fixed >= 0, 0, values[:, 0])  # the only choice
        shape = (*is_open.shape, ids.shape[1])
        of_places = ids.new_zeros(shape).masked_scatter(is_open[..., None], ids)
        combined, exists = self._combined(
            values.new_zeros(shape).masked_scatter(is_open[..., None], values), of_places, state
        )
        number = is_open.new_zeros(is_open.shape, dtype=torch.int64)
        number[is_open] = torch.arange(len(ids), device=ids.device)
        source = torch.arange(len(scores), device=scores.device).repeat_interleave(self.size)
        wide = state.select(source)
        places = number[source][wide.is_open]
        words, missing = placed_words(
            combined.flatten(0, 1)[wide.is_open], scores_of(writer.wanted, log_probs)[places], wide, writer.wanted,
            last=last[source], taken=(fixed >= 0)[places],
        )  # fmt: skip
        combined = combined.flatten(0, 1).masked_scatter(wide.is_open, words).view(combined.shape)
        of_words = log_probs[number[..., None], combined.mT]
        kept = self._survivors(state, scores, combined, exists, of_words)
        own = precise(of_words).where(is_open[..., None], 0).sum(1)
        tokens = torch.where(is_open[kept.rows], combined[kept.rows, kept.candidates], state.tokens[kept.rows])
        missing = missing.view(*exists.shape, -1)[kept.rows, kept.candidates]
        log_prob = state.log_probs[kept.rows] + own[kept.rows, kept.candidates]
        state = state.select(kept.rows)
        length = state.tokens.shape[1]
        state = replace(state, tokens=tokens[:, :length], missing=missing, log_probs=log_prob)
        return state, kept.scores, chosen[kept.rows][:, :length]

    def _combined(
        self, values: Float[Tensor, "rows length kept"], ids: Int[Tensor, "rows length kept"], state: Growing
    ) -> tuple[Int[Tensor, "rows size length"], Bool[Tensor, "rows size"]]:
        """The likeliest choices for all placeholders of each hypothesis, and which of them exist."""
        values = precise(values).masked_fill(~state.is_open[..., None], -torch.inf)
        values[..., 0] = values[..., 0].where(state.is_open, 0)
        ranks, sums = likeliest_combinations(values, self.size)
        return ids.gather(2, ranks.mT).mT, sums > -torch.inf

    def _survivors(
        self,
        state: Growing,
        scores: Float[Tensor, " rows"],
        combined: Int[Tensor, "rows size length"],
        exists: Bool[Tensor, "rows size"],
        log_probs: Float[Tensor, "rows length size"],
    ) -> Survivors:
        """The best candidates of each item; of equal ones of a hypothesis the first."""
        equal = (combined[:, :, None] == combined[:, None]).all(3) & exists[:, None]
        repeated = equal.tril(-1).any(2)
        sums = precise(log_probs).where(state.is_open[..., None], 0).sum(1)
        return pruned(scores, sums.masked_fill(~exists | repeated, -torch.inf), state.texts, beam_size=self.size)
