"""The likeliest texts from a step function, by a beam of tokens."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor

from depgen.decoding.beam import Survivors, pruned
from depgen.decoding.generated import Generated
from depgen.decoding.generation import Step, StepState, generate, left_padded, without_end
from depgen.decoding.sampling import Mixture
from depgen.decoding.settings import BeamOptions, Sampling
from depgen.errors import UserError
from depgen.nn.precise import sum_type
from depgen.progress import progress_bar

logger = logging.getLogger(__name__)


def continued(
    step: Step,
    prompts: Sequence[Sequence[int]],
    *,
    options: Sampling,
    seeds: Sequence[int],
    number: int,
    **others: Any,  # noqa: ANN401, of `generate` and `likeliest_texts`
) -> list[Generated]:
    """`number` texts after each prompt, those of a prompt together: sampled, or the likeliest that a beam finds.

    Args:
        step: the model, as in `depgen.decoding.generation.generate`.
        prompts: token ids, at least one each.
        options: `BeamOptions` with a beam: the texts are searched for.
        seeds: one a text; a search needs none of them.
        number: texts of each prompt.
        others: of `generate` and `likeliest_texts`.
    """
    if isinstance(options, BeamOptions) and options.beam_size is not None:
        return likeliest_texts(step, prompts, options=options, number=number, **others)
    repeated = [prompt for prompt in prompts for _ in range(number)]
    return generate(step, repeated, sampling=options, seeds=list(seeds), **others)


@dataclass(frozen=True)
class _Finished:
    """A text, with the value that texts of a prompt are compared by."""

    value: float
    text: Generated


def likeliest_texts(
    step: Step,
    prompts: Sequence[Sequence[int]],
    *,
    eos: int,
    options: BeamOptions,
    max_new_tokens: int,
    number: int = 1,
    batch_size: int = 64,
    device: torch.device | str = "cpu",
    progress: bool = False,
    choices_per_token: int = 1,
    min_new_tokens: int = 0,
) -> list[Generated]:
    """The `number` best texts that a beam finds after each prompt, the best first, those of a prompt together.

    A text that reaches `max_new_tokens` before eos is cut there, and comes after all those that are not. A prompt is
    done when no hypothesis can become better than the texts at hand, which holds for log-probabilities at most 0.

    Args:
        step: the model, as in `depgen.decoding.generation.generate`.
        prompts: token ids, at least one each.
        eos: the id that ends a text.
        options: size of the beam, and how lengths are compared.
        max_new_tokens: the most tokens of a text, eos included.
        number: texts of each prompt; at most the size of the beam.
        batch_size: hypotheses at once, but those of a prompt are never parted.
        device: where tokens live.
        progress: show a progress bar, in prompts.
        choices_per_token: see `depgen.decoding.generation.generate`.
        min_new_tokens: a text does not end before it has as many; for one step a token.

    Raises:
        UserError: more texts than the beam has hypotheses, or than there are.
    """
    size, most = options.beam_size, max_new_tokens * choices_per_token
    assert size is not None
    if number > size:
        raise UserError(f"A beam of {size} hypotheses has no {number} texts of a prompt: raise beam_size, or lower -n.")
    by_length = sorted(range(len(prompts)), key=lambda index: len(prompts[index]))
    found: dict[int, list[Generated]] = {}
    at_once = max(1, batch_size // size)
    with torch.inference_mode(), progress_bar("searching", total=len(prompts), unit="prompts", shown=progress) as shown:
        for start in range(0, len(prompts), at_once):
            chosen = by_length[start : start + at_once]
            search = _Search(options, number, most, eos, len(chosen))
            begun = [prompts[index] for index in chosen]
            search.run(step, begun, torch.device(device), shown, min_new_tokens=min_new_tokens)
            found |= zip(chosen, map(search.texts, range(len(chosen))), strict=True)
    texts = [text for index in range(len(prompts)) for text in found[index]]
    if cut := sum(len(text.ids) == most for text in texts):
        logger.warning("%d of %d texts were cut at %d new tokens, before their end", cut, len(texts), max_new_tokens)
    return texts


class _Search:
    """The search after some prompts; `finished` and `cut` hold the texts of each."""

    def __init__(self, options: BeamOptions, number: int, most: int, eos: int, prompts: int) -> None:
        self.beam_size, self.power = options.beam_size or 1, options.length_normalization
        self.number, self.most, self.eos = number, most, eos
        self.finished: list[list[_Finished]] = [[] for _ in range(prompts)]
        self.cut: list[list[_Finished]] = [[] for _ in range(prompts)]

    def run(
        self,
        step: Step,
        prompts: list[Sequence[int]],
        device: torch.device,
        shown: Callable[[int], None],
        *,
        min_new_tokens: int,
    ) -> None:
        """Search until every prompt is done."""
        tokens, padding = left_padded(prompts, filler=self.eos, device=device)
        state: Any = None
        ids = tokens.new_empty(len(prompts), 0)
        items = torch.arange(len(prompts), device=device)
        scores = torch.zeros(len(prompts), dtype=sum_type(device), device=device)
        running = len(prompts)
        for length in range(1, self.most + 1):
            distribution, state = step(tokens, padding, state)
            log_probs = distribution.log_probs if isinstance(distribution, Mixture) else distribution
            if length <= min_new_tokens:
                log_probs = without_end(log_probs, self.eos)
            kept = pruned(scores, log_probs, items, beam_size=self.beam_size)
            kept, longer = self._without_finished(kept, ids, length)
            shown(running - len(torch.unique(kept.items)))
            running = len(torch.unique(kept.items))
            if length == self.most or not running:
                self._add(self.cut, kept, longer, length)
                break
            selected: StepState = state.select(kept.rows)
            state, ids, items, scores = selected, longer, kept.items, kept.scores
            tokens, padding = kept.candidates[:, None], None
        shown(running)

    def texts(self, prompt: int) -> list[Generated]:
        """The best texts of a prompt, the best first.

        Raises:
            UserError: there are fewer.
        """
        value = attrgetter("value")
        best = [
            *sorted(self.finished[prompt], key=value, reverse=True), *sorted(self.cut[prompt], key=value, reverse=True)
        ]  # fmt: skip
        if len(best) < self.number:
            raise UserError(
                f"The beam has found {len(best)} texts of a prompt, and {self.number} are wanted: raise beam_size or "
                "max_new_tokens, or lower -n."
            )
        return [each.text for each in best[: self.number]]

    def _without_finished(self, kept: Survivors, ids: Tensor, length: int) -> tuple[Survivors, Tensor]:
        """The hypotheses that have not ended, of prompts that are not done, and their tokens."""
        longer = torch.cat((ids[kept.rows], kept.candidates[:, None]), 1)
        ended = kept.candidates == self.eos
        if bool(ended.any()):
            self._add(self.finished, kept.of(ended), longer[ended, :-1], length)
        places = ~ended & ~self._done(kept, ended)
        return kept.of(places), longer[places]

    def _add(self, to: list[list[_Finished]], kept: Survivors, ids: Tensor, length: int) -> None:
        for item, score, text in zip(kept.items.tolist(), kept.scores.tolist(), ids.tolist(), strict=True):
            to[item].append(_Finished(score / length**self.power, Generated(text, None, score)))

    def _done(self, kept: Survivors, ended: Tensor) -> Tensor:
        """True at hypotheses of prompts in which none can become better than the texts at hand."""
        reachable = torch.full((len(self.finished),), -torch.inf, dtype=sum_type(ended.device), device=ended.device)
        reachable.scatter_reduce_(0, kept.items[~ended], kept.scores[~ended] / self.most**self.power, "amax")
        enough = [sorted((each.value for each in texts), reverse=True) for texts in self.finished]
        least = [texts[self.number - 1] if len(texts) >= self.number else -torch.inf for texts in enough]
        return (reachable <= reachable.new_tensor(least))[kept.items]
