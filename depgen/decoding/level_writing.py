"""Texts from a function that scores a level of them: each choice is drawn, and finished texts leave the batch."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from depgen.decoding.generated import Generated
from depgen.decoding.level_choices import (
    Room,
    brings,
    chosen_expansions,
    chosen_words,
    drawn_expansions,
    restricted,
)
from depgen.decoding.levels import ExpansionOptions, Growing, Patterns, expanded
from depgen.decoding.skeletons import GivenTree, GivenWords
from depgen.nn.lengths import mask_of
from depgen.nn.precise import sum_type
from depgen.progress import progress_bar
from depgen.trees.binarization import SUBWORD

Choose = Callable[[Float[Tensor, "rows length expansions"]], Int[Tensor, "rows length"]]
"""From the log-probabilities of expansions to the expansion of each token."""
ScoreLevel = Callable[[Growing, Choose], Float[Tensor, "places vocab"]]
"""From texts at a level, and the choice of expansions, to the log-probabilities of words at the placeholders."""
Restore = Callable[[Sequence[int], Sequence[str]], tuple[Sequence[int] | np.ndarray, list[str], bool]]
"""From heads and labels of a tree as it is written to those of the tree, and whether the labels fit it."""


@dataclass(frozen=True)
class LevelWriter:
    """Writes the levels of some texts.

    Attributes:
        score: the model.
        options: of generation.
        patterns: the table of expansions.
        labels: of placeholders, that of the root first.
        spelt: the string of a token.
        wanted: tokens that each text is to have.
        most: new tokens of a text.
        longest: tokens of a text, given ones included.
        unknown: the token of unknown words, which is never written; -1 if there is none.
        restored: the tree of one that is written.
        given: words that are given.
        trees: their trees.
        draws_everywhere: tokens that are written already get an expansion too, which is drawn.
    """

    score: ScoreLevel
    options: ExpansionOptions
    patterns: Patterns
    labels: Sequence[str]
    spelt: Callable[[int], str]
    wanted: Sequence[int]
    most: int
    longest: int
    unknown: int
    restored: Restore
    given: GivenWords | None = None
    trees: Sequence[GivenTree] = ()
    draws_everywhere: bool = False

    def beginning(
        self, texts: Sequence[int], seeds: Sequence[int], trees: Sequence[int], *, device: torch.device
    ) -> Growing:
        """The placeholder of the root in each text.

        Args:
            texts: their numbers.
            seeds: of each.
            trees: the given tree of each; ignored where none is given.
            device: where to.
        """
        rows = len(texts)
        one = torch.zeros(rows, 1, dtype=torch.int64, device=device)
        of_trees = torch.tensor(list(trees), device=device)
        missing, lacks = (
            torch.ones(rows, len(wished), dtype=torch.bool, device=device)
            for wished in (self.wanted, self.options.require)
        )
        if self.given is not None:
            lacks = ~self.given.with_relations(self.patterns.required)[of_trees]
            for word, token in enumerate(self.wanted):
                missing[:, word] = ~self.given.with_token(token)[of_trees]
        return Growing(
            texts=torch.tensor(list(texts), device=device),
            seeds=torch.tensor(list(seeds), device=device),
            tokens=one,
            heads=one - 1,
            labels=one,  # the first placeholder is the root's
            given=one - 1 if self.given is None else self.given.roots[of_trees][:, None],
            is_open=one == 0,
            lengths=torch.ones(rows, dtype=torch.int64, device=device),
            log_probs=torch.zeros(rows, dtype=sum_type(device), device=device),
            missing=missing,
            lacks=lacks,
            trees=of_trees,
            cut=torch.zeros(rows, dtype=torch.bool, device=device),
        )

    def run(self, state: Growing) -> Iterator[tuple[int, Generated]]:
        """Each text when it is finished."""
        for level in range(1, self.options.levels + 1):
            state, chosen = self._written(state, level)
            state = expanded(state, chosen, self.patterns, self.given)
            grows = state.is_open.any(1)
            for row in (~grows).nonzero()[:, 0].tolist():
                yield int(state.texts[row]), self.finished(state, row)
            state = state.select(grows.nonzero()[:, 0])
            if not len(state.texts):
                return

    def room(self, state: Growing, level: int) -> Room:
        """What limits and given words leave."""
        return Room.of(state, self.patterns, self.given, level=level, most=self.most, longest=self.longest)

    def known(self, log_probs: Float[Tensor, "places vocab"]) -> Float[Tensor, "places vocab"]:
        """The log-probabilities of words that may be written."""
        if self.unknown < 0:
            return log_probs
        return log_probs.index_fill(1, torch.tensor([self.unknown], device=log_probs.device), -torch.inf)

    def finished(self, state: Growing, row: int) -> Generated:
        """A text with its tree; and with what it lacks, whether a limit cut it, and whether a label did not fit."""
        length = int(state.lengths[row])
        tokens, heads, labels = (
            each[row, :length].tolist() for each in (state.tokens, state.heads, state.labels)
        )  # heads 0-based
        of_tree, relations, fits = self.restored(
            [head + 1 for head in heads],
            ["root" if head < 0 else self.labels[k] for head, k in zip(heads, labels, strict=True)],
        )
        arcs = [*zip(map(int, of_tree), relations, strict=True)]
        if self.trees:
            self._as_given(arcs, self.trees[int(state.trees[row])], state.given[row, :length])
        structure: dict[str, Any] = dict(zip(("heads", "relations"), zip(*arcs, strict=True), strict=True))
        if self.options.trace:
            structure["levels"] = self._levels(tokens, heads, labels)
        if lacking := self._lacking(state, row, length):
            structure["lacks"] = lacking
        if bool(state.cut[row]):
            structure["cut"] = True
        if not fits:
            structure["unfit_labels"] = True
        return Generated(tokens, structure, float(state.log_probs[row]))

    @staticmethod
    def _as_given(arcs: list[tuple[int, str]], tree: GivenTree, given: Int[Tensor, " tokens"]) -> None:
        """Put the given arcs in the place of those that were written for them."""
        places = (given >= 0).nonzero()[:, 0].tolist()
        numbers = [0, *(place + 1 for place in places)]
        for place, head, relation in zip(places, tree.heads, tree.relations, strict=True):
            arcs[place] = numbers[head], relation or SUBWORD

    def _lacking(self, state: Growing, row: int, length: int) -> tuple[str, ...]:
        """What a text is to have and has not, as options and their values."""
        words = [self.spelt(token) for token in self.wanted]
        found = [f"require {name}" for name, lacks in zip(self.options.require, state.lacks[row], strict=True) if lacks]
        found += [f"words {word}" for word, lacks in zip(words, state.missing[row], strict=True) if lacks]
        return (*found, *([f"min_tokens {self.options.min_tokens}"] if length < self.options.min_tokens else []))

    def _levels(self, tokens: Sequence[int], heads: Sequence[int], labels: Sequence[int]) -> tuple[str, ...]:
        """Each level: placeholders, in brackets, of the words at it, and the words above it."""
        from depgen.trees.binarization import depths

        deep = depths([head + 1 for head in heads]).tolist()
        words = [self.spelt(token) for token in tokens]
        return tuple(
            " ".join(
                word if depth < level else f"[{self.labels[label]}]"
                for word, depth, label in zip(words, deep, labels, strict=True)
                if depth <= level
            )
            for level in range(1, max(deep) + 1)
        )

    def _written(self, state: Growing, level: int) -> tuple[Growing, Tensor]:
        """The texts with words in place of their placeholders, and the expansions of these."""
        room, found = self.room(state, level), list[Tensor]()

        def choose(log_probs: Tensor) -> Tensor:
            possible = restricted(log_probs, state, self.given)
            chosen, ends, cut = chosen_expansions(possible, state, self.patterns, self.options, level=level, room=room)
            found.extend((log_probs, chosen, ends, cut))
            return self._drawn_everywhere(log_probs, chosen, state, level) if self.draws_everywhere else chosen

        log_probs = self.score(state, choose)
        patterns, chosen, ends, cut = found
        words, missing = chosen_words(
            self.known(log_probs), state, self.options, self.wanted, level=level, last=ends, given=self.given
        )
        joint = (
            log_probs.gather(1, words[:, None])[:, 0]
            + patterns[state.is_open].gather(1, chosen[state.is_open][:, None])[:, 0]
        )
        rows = state.is_open.nonzero()[:, 0]
        return replace(
            state,
            tokens=state.tokens.masked_scatter(state.is_open, words),
            log_probs=state.log_probs.index_add(0, rows, joint.to(state.log_probs.dtype)),
            missing=missing,
            lacks=state.lacks & ~brings(chosen, state, self.patterns),
            cut=state.cut | cut,
        ), chosen  # fmt: skip

    def _drawn_everywhere(self, log_probs: Tensor, chosen: Tensor, state: Growing, level: int) -> Tensor:
        """The expansions, with others drawn at the words that are written already."""
        is_word: Bool[Tensor, "rows length"] = mask_of(state.lengths, state.tokens.shape[1], device=chosen.device)
        other = drawn_expansions(log_probs, replace(state, is_open=is_word), self.patterns, self.options, level=level)
        return torch.where(state.is_open, chosen, other)


def sampled_texts(
    writer: LevelWriter,
    trees: Sequence[int],
    seeds: Sequence[int],
    *,
    batch_size: int,
    device: torch.device,
    progress: bool = False,
) -> list[Generated]:
    """A text for each seed.

    Args:
        writer: see `LevelWriter`.
        trees: the given tree of each text; ignored where none is given.
        seeds: of each text.
        batch_size: texts at once.
        device: where to.
        progress: show a progress bar, in texts.
    """
    texts: dict[int, Generated] = {}
    with progress_bar("generating", total=len(seeds), unit="texts", shown=progress) as advance:
        for first in range(0, len(seeds), batch_size):
            part = slice(first, first + batch_size)
            numbers = range(len(seeds))[part]
            for text, generated in writer.run(writer.beginning(numbers, seeds[part], trees[part], device=device)):
                texts[text] = generated
                advance(1)
    return [texts[text] for text in range(len(seeds))]
