"""Text from a step function: prompts in batches of like length, finished texts leaving the batch."""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import torch
from torch import Generator, Tensor

from depgen.decoding.generated import Generated
from depgen.decoding.sampling import Mixture, log_probs_of, sample
from depgen.decoding.settings import Sampling
from depgen.nn.lengths import mask_of
from depgen.nn.precise import precise_device
from depgen.progress import progress_bar

if TYPE_CHECKING:
    from depgen.data.vocabulary import Vocabulary

logger = logging.getLogger(__name__)

COMPACT_AT = 0.25
"""Finished texts leave the batch at this share of it: to copy the state costs more than an idle row or two."""


@runtime_checkable
class StepState(Protocol):
    """The state that a step carries to the next."""

    def select(self, rows: Tensor) -> Any:  # noqa: ANN401 - the step's own type
        """The state of some rows of the batch, in the order given."""
        ...


@runtime_checkable
class Writer(Protocol):
    """Any system that generates, in whatever order; its class names the dataclass of its `generation_options`."""

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        vocabulary: "Vocabulary",
        options: Any,  # noqa: ANN401 - the system's own dataclass
        seeds: Sequence[int],
        max_new_tokens: int,
        number: int = 1,
        batch_size: int = 64,
        progress: bool = False,
    ) -> list[Generated]:
        """Texts of each prompt, those of a prompt one after the other; see `LeftToRight.generate`."""
        ...


Step = Callable[[Tensor, Tensor | None, Any], tuple[Tensor | Mixture, Any]]
"""From tokens [batch length], padding [batch length] (True where there is no token; None: no padding) and the state
(None at first) to the distribution of the next token, as log-probabilities [batch vocab] or a mixture, and the next
state, which has `select`."""


def generate(
    step: Step,
    prompts: Sequence[Sequence[int]],
    *,
    eos: int,
    sampling: Sampling,
    seeds: Sequence[int],
    max_new_tokens: int,
    batch_size: int,
    device: torch.device | str = "cpu",
    progress: bool = False,
    choices_per_token: int = 1,
    min_new_tokens: int = 0,
    begin: Callable[[Sequence[int]], StepState] | None = None,
) -> list[Generated]:
    """New tokens for each prompt, in the order of the prompts, without the prompt and without the closing eos.

    Every text has its own generator, so that it does not depend on the batch it was in. Texts that reach
    `max_new_tokens` before eos are cut there; their number is logged.

    Args:
        step: the model. At first it gets whole prompts, padded at the left; then one token a row. What it returns is
            normalised, so that log-probabilities of texts are those of the model.
        prompts: token ids, at least one each (BOS, where there is nothing else).
        eos: the id that ends a text.
        sampling: how the next token is chosen.
        seeds: one per prompt.
        max_new_tokens: the most tokens of a text.
        batch_size: prompts per batch.
        device: where tokens live; generators too, where it has float64.
        progress: show a progress bar, in texts.
        choices_per_token: steps of a token, of systems that also draw its part of a structure.
        min_new_tokens: a text does not end before it has as many; for one step a token.
        begin: the state that a batch of these prompts, by number, begins from; None: the step gets None.

    Raises:
        ValueError: when there are not as many seeds as prompts, or a prompt is empty.
    """
    if len(seeds) != len(prompts):
        raise ValueError(f"expected a seed for each of the {len(prompts)} prompts, found {len(seeds)}")
    for index, prompt in enumerate(prompts):
        if not prompt:
            raise ValueError(f"prompt {index} is empty: it must hold one token at least, the beginning of a text (BOS)")
    texts: dict[int, Generated] = {}
    device = torch.device(device)
    by_length = sorted(range(len(prompts)), key=lambda index: len(prompts[index]))
    cut = 0
    with (
        torch.inference_mode(),
        progress_bar("generating", total=len(prompts), unit="texts", shown=progress) as advance,
    ):
        for start in range(0, len(prompts), batch_size):
            items = by_length[start : start + batch_size]
            generators = [Generator(precise_device(device)).manual_seed(seeds[item]) for item in items]
            batch = _Batch([prompts[item] for item in items], generators, eos=eos, device=device)
            most = max_new_tokens * choices_per_token
            state = None if begin is None else begin(items)
            finished = batch.run(step, sampling, most, advance, state, min_new_tokens=min_new_tokens)
            cut += len(items) - finished
            for item, text, log_prob in zip(items, batch.texts, batch.log_probs.tolist(), strict=True):
                texts[item] = Generated(text, None, log_prob)
    if cut:
        logger.warning("%d of %d texts were cut at %d new tokens, before their end", cut, len(prompts), max_new_tokens)
    return [texts[item] for item in range(len(prompts))]


def left_padded(prompts: Sequence[Sequence[int]], *, filler: int, device: torch.device) -> tuple[Tensor, Tensor | None]:
    """Prompts in one tensor, padded at the left, and where they are; None where nothing is padded."""
    longest = max(len(prompt) for prompt in prompts)
    padded = [[filler] * (longest - len(prompt)) + list(prompt) for prompt in prompts]
    tokens = torch.tensor(padded, device=device)
    if all(len(prompt) == longest for prompt in prompts):
        return tokens, None
    missing = torch.tensor([longest - len(prompt) for prompt in prompts], device=device)
    return tokens, mask_of(missing, longest)


def without_end(distribution: Tensor | Mixture, eos: int) -> Tensor:
    """Log-probabilities of a distribution but for the end of a text; not normalised again."""
    log_probs = distribution.log_probs if isinstance(distribution, Mixture) else distribution
    return log_probs.index_fill(1, torch.tensor([eos], device=log_probs.device), -torch.inf)


class _Batch:
    """Texts that grow together; `rows` are those in the step's batch, finished ones included until they leave it."""

    def __init__(
        self, prompts: list[Sequence[int]], generators: list[Generator], *, eos: int, device: torch.device
    ) -> None:
        self.texts: list[list[int]] = [[] for _ in prompts]
        self.eos = eos
        self.generators = generators
        self.rows = list(range(len(prompts)))
        self.log_probs = torch.zeros(len(prompts), dtype=torch.float64, device=precise_device(device))
        self.tokens, self.padding = left_padded(prompts, filler=eos, device=device)

    def run(
        self,
        step: Step,
        sampling: Sampling,
        most: int,
        advance: Callable[[int], None],
        state: StepState | None = None,
        *,
        min_new_tokens: int,
    ) -> int:
        """The number of texts that came to their end within the most steps; `texts` holds them all."""
        running = set(self.rows)
        for length in range(most):
            distribution, state = step(self.tokens, self.padding, state)
            going_on = without_end(distribution, self.eos) if length < min_new_tokens else distribution
            drawn = sample(going_on, sampling, [self.generators[row] for row in self.rows])
            self._add(log_probs_of(distribution, drawn), running)
            self.tokens, self.padding = drawn[:, None], None
            before = len(running)
            for row, token in zip(self.rows, drawn.tolist(), strict=True):
                if token == self.eos:
                    running.discard(row)
                elif row in running:
                    self.texts[row].append(token)
            advance(before - len(running))
            if not running:
                break
            if len(self.rows) - len(running) >= COMPACT_AT * len(self.rows):
                state = self._compact(state, running)
        advance(len(running))
        return len(self.texts) - len(running)

    def _add(self, log_probs: Tensor, running: set[int]) -> None:
        """Add the log-probabilities of new tokens to those of the texts that are not finished."""
        places = [place for place, row in enumerate(self.rows) if row in running]
        rows = [self.rows[place] for place in places]
        self.log_probs[rows] += log_probs[places]

    def _compact(self, state: StepState, running: set[int]) -> StepState:
        kept = [place for place, row in enumerate(self.rows) if row in running]
        places = torch.tensor(kept, device=self.tokens.device)
        self.rows = [self.rows[place] for place in kept]
        self.tokens = self.tokens[places]
        selected: StepState = state.select(places)
        return selected
