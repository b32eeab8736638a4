"""Text from a step function, after prompts in batches of like length: sampled, or searched for by a beam of tokens."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from depgen.decoding.beam import Survivors, pruned
from depgen.decoding.sampling import Mixture, log_probs_of, sample
from depgen.decoding.settings import BeamOptions, Sampling, TokenOptions
from depgen.errors import UserError
from depgen.nn.lengths import mask_of
from depgen.nn.precise import precise_device, sum_type
from depgen.nn.vocabulary import without
from depgen.progress import progress_bar

logger = logging.getLogger(__name__)

COMPACT_AT = 0.25
"""Finished texts leave the batch at this share of it: to copy the state costs more than an idle row or two."""


@dataclass(frozen=True)
class Generated:
    """A text that a system has generated.

    Attributes:
        ids: its tokens, without the prompt and without the closing `<eos>`.
        structure: what the system has built over them, as plain values that JSON can hold (numbers, strings, and tuples
            and mappings of such), for instance edges `(head, dependent, label)`. Where it ties them to the prompt's, it
            is over prompt and text as one sentence. None from systems without structure.
        log_prob: of the tokens given the prompt, in nats, under the system's own distribution, whatever filters they
            were drawn through; with that of `<eos>`, unless the text was cut before it. Where a system builds a
            structure, the joint log-probability of both.
    """

    ids: list[int]
    structure: Any
    log_prob: float


_Valued = tuple[float, Generated]
"""A text after the value that texts of a prompt are compared by."""


@runtime_checkable
class StepState(Protocol):
    """The state that a step carries to the next."""

    def select(self, rows: Tensor) -> Any:  # noqa: ANN401 - the step's own type
        """The state of some rows of the batch, in the order given."""
        ...


Step = Callable[[Tensor, Tensor | None, Any], tuple[Tensor | Mixture, Any]]
"""From tokens [batch length], padding [batch length] (True where there is no token; None: no padding) and the state
(None at first) to the distribution of the next token, as log-probabilities [batch vocab] or a mixture, and the next
state, which has `select`. At first it gets whole prompts, padded at the left; then one token a row."""
Built = Callable[[Any, int, list[int]], Any]
"""From the state that a text's end was drawn from, the text's row in it, and the tokens of prompt and text, to what
they have built. Of a text that is cut, the state has not read the last token."""


def generate(
    step: Step,
    prompts: Sequence[Sequence[int]],
    *,
    eos: int,
    unk: int = -1,
    options: Sampling,
    seeds: Sequence[int],
    max_new_tokens: int,
    number: int = 1,
    batch_size: int = 64,
    device: torch.device | str = "cpu",
    progress: bool = False,
    choices_per_token: int = 1,
    built: Built | None = None,
    begin: Callable[[Sequence[int]], StepState] | None = None,
) -> list[Generated]:
    """`number` texts after each prompt, those of a prompt together, without the prompt and without the closing eos.

    Texts are sampled, each with its own generator, so that it does not depend on the batch it was in; or they are
    the likeliest that a beam finds, the best first. A text that reaches `max_new_tokens` before eos is cut there, and
    in a search comes after all those that are not; how many were cut is logged.

    Args:
        step: the model. What it returns is normalised, so that log-probabilities of texts are those of the model.
        prompts: token ids, at least one each (BOS, where there is nothing else).
        eos: the id that ends a text.
        unk: the id of unknown words, which texts hold only where the options say so; -1: there is none.
        options: how the next token is chosen; `BeamOptions` with a beam: how texts are searched for; `TokenOptions`:
            the least tokens of a text, for one step a token.
        seeds: one a text; a search needs none of them.
        max_new_tokens: the most tokens of a text.
        number: texts of each prompt; at most the size of a beam.
        batch_size: texts at once; of a search hypotheses, but those of a prompt are never parted.
        device: where tokens live; generators too, where it has float64.
        progress: show a progress bar, of a search in prompts.
        choices_per_token: steps of a token, of systems that also draw its part of a structure.
        built: gives the structure of each text; None: there is none.
        begin: the state that a batch of texts, by number, begins from; None: the step gets None.

    Raises:
        UserError: a beam has fewer hypotheses, or has found fewer texts, than `number`.
    """
    beam_size = options.beam_size if isinstance(options, BeamOptions) else None
    if beam_size is not None and number > beam_size:
        raise UserError(
            f"A beam of {beam_size} hypotheses has no {number} texts of a prompt: raise beam_size, or lower -n."
        )
    if beam_size is None:
        prompts = [prompt for prompt in prompts for _ in range(number)]
    by_length = sorted(range(len(prompts)), key=lambda place: len(prompts[place]))
    at_once = batch_size if beam_size is None else max(1, batch_size // beam_size)
    most, device = max_new_tokens * choices_per_token, torch.device(device)
    unit = "texts" if beam_size is None else "prompts"
    texts: dict[int, list[Generated]] = {}
    with torch.inference_mode(), progress_bar("generating", total=len(prompts), unit=unit, shown=progress) as advance:
        least = options.min_new_tokens if isinstance(options, TokenOptions) else 0
        common: dict[str, Any] = {
            "eos": eos, "never": [] if options.unknown or unk < 0 else [unk], "least": least, "most": most,
            "device": device, "built": built, "advance": advance,
        }  # fmt: skip
        for start in range(0, len(prompts), at_once):
            places = by_length[start : start + at_once]
            chosen = [prompts[place] for place in places]
            if isinstance(options, BeamOptions) and beam_size is not None:
                written = _searched_texts(step, chosen, options, number, **common)
            else:
                state = None if begin is None else begin(places)
                written = _sampled_texts(step, chosen, options, [seeds[place] for place in places], state, **common)
            texts |= zip(places, written, strict=True)
    in_order = [text for place in range(len(prompts)) for text in texts[place]]
    if cut := sum(len(text.ids) == most for text in in_order):
        logger.warning("%d of %d texts were cut at %d new tokens, before their end", cut, len(in_order), max_new_tokens)
    return in_order


def left_padded(prompts: Sequence[Sequence[int]], *, filler: int, device: torch.device) -> tuple[Tensor, Tensor | None]:
    """Prompts in one tensor, padded at the left, and where they are; None where nothing is padded."""
    longest = max(len(prompt) for prompt in prompts)
    padded = [[filler] * (longest - len(prompt)) + list(prompt) for prompt in prompts]
    tokens = torch.tensor(padded, device=device)
    if all(len(prompt) == longest for prompt in prompts):
        return tokens, None
    missing = torch.tensor([longest - len(prompt) for prompt in prompts], device=device)
    return tokens, mask_of(missing, longest)


def _mixed(distribution: Tensor | Mixture) -> Float[Tensor, "batch vocab"]:
    return distribution.log_probs if isinstance(distribution, Mixture) else distribution


def _without(log_probs: Float[Tensor, "batch vocab"], ids: Sequence[int]) -> Float[Tensor, "batch vocab"]:
    """Log-probabilities but for some tokens; not normalised again."""
    for token in ids:
        log_probs = without(log_probs, token)
    return log_probs


def _sampled_texts(
    step: Step,
    prompts: Sequence[Sequence[int]],
    sampling: Sampling,
    seeds: Sequence[int],
    state: StepState | None,
    *,
    eos: int,
    never: Sequence[int],
    least: int,
    most: int,
    device: torch.device,
    built: Built | None,
    advance: Callable[[int], None],
) -> list[list[Generated]]:
    """One text of each prompt."""
    generators = [Generator(precise_device(device)).manual_seed(seed) for seed in seeds]
    texts: list[list[int]] = [[] for _ in prompts]
    structures: list[Any] = [None for _ in prompts]
    totals = torch.zeros(len(prompts), dtype=torch.float64, device=precise_device(device))
    rows = list(range(len(prompts)))  # the texts of the step's batch, finished ones included until they leave it
    running = set(rows)
    tokens, padding = left_padded(prompts, filler=eos, device=device)
    for length in range(most):
        distribution, state = step(tokens, padding, state)
        ids = [*never, eos] if length < least else never
        possible = _without(_mixed(distribution), ids) if ids else distribution
        drawn = sample(possible, sampling, [generators[row] for row in rows])
        places = [place for place, row in enumerate(rows) if row in running]
        totals[[rows[place] for place in places]] += log_probs_of(distribution, drawn)[places]
        tokens, padding = drawn[:, None], None
        before = len(running)
        for place, (row, token) in enumerate(zip(rows, drawn.tolist(), strict=True)):
            if row in running and token != eos:
                texts[row].append(token)
            if row in running and built is not None and (token == eos or length + 1 == most):
                structures[row] = built(state, place, [*prompts[row], *texts[row]])
            if token == eos:
                running.discard(row)
        advance(before - len(running))
        if not running:
            break
        if len(rows) - len(running) >= COMPACT_AT * len(rows):
            places = [place for place, row in enumerate(rows) if row in running]
            rows = [rows[place] for place in places]
            remaining = torch.tensor(places, device=device)
            tokens, state = tokens[remaining], state.select(remaining)
    advance(len(running))
    return [[Generated(*text)] for text in zip(texts, structures, totals.tolist(), strict=True)]


def _searched_texts(
    step: Step,
    prompts: Sequence[Sequence[int]],
    options: BeamOptions,
    number: int,
    *,
    eos: int,
    never: Sequence[int],
    least: int,
    most: int,
    device: torch.device,
    built: Built | None,
    advance: Callable[[int], None],
) -> list[list[Generated]]:
    """The `number` best texts that a beam finds after each prompt, the best first.

    A prompt is done when no hypothesis can become better than the texts at hand, which holds for log-probabilities at
    most 0.

    Raises:
        UserError: there are fewer.
    """
    assert options.beam_size is not None
    ended: list[list[_Valued]] = [[] for _ in prompts]
    cut: list[list[_Valued]] = [[] for _ in prompts]

    def add(to: list[list[_Valued]], hypotheses: Survivors, ids: Tensor, length: int) -> None:
        rows, _, of_items = hypotheses.on_cpu.tolist()
        for item, row, score, text in zip(of_items, rows, hypotheses.scores.tolist(), ids.tolist(), strict=True):
            structure = None if built is None else built(state, row, [*prompts[item], *text])
            to[item].append((score / length**options.length_normalization, Generated(text, structure, score)))

    tokens, padding = left_padded(prompts, filler=eos, device=device)
    state: Any = None
    ids = torch.zeros(len(prompts), 0, dtype=torch.long)  # on the CPU, as all else that follows pruning
    items = torch.arange(len(prompts), device=device)
    scores = torch.zeros(len(prompts), dtype=sum_type(device), device=device)
    running = len(prompts)
    for length in range(1, most + 1):
        distribution, state = step(tokens, padding, state)
        log_probs = _without(_mixed(distribution), [*never, eos] if length <= least else never)
        best = pruned(scores, log_probs, items, beam_size=options.beam_size)
        rows, chosen, of_items = best.on_cpu
        ids, totals = torch.cat((ids[rows], chosen[:, None]), 1), best.scores.cpu()
        is_end = chosen == eos
        if bool(is_end.any()):
            add(ended, best.of(is_end), ids[is_end, :-1], length)
        # the most that a hypothesis of each prompt can reach, and what its texts at hand have
        reachable = totals.new_full((len(prompts),), -torch.inf)
        bound = totals[~is_end] / most**options.length_normalization
        reachable.scatter_reduce_(0, of_items[~is_end], bound, "amax")
        values = [sorted((value for value, _ in texts), reverse=True) for texts in ended]
        at_hand = reachable.new_tensor([own[number - 1] if len(own) >= number else -torch.inf for own in values])
        goes_on = ~is_end & (reachable > at_hand)[of_items]
        best, ids = best.of(goes_on), ids[goes_on]
        still = len(torch.unique(best.on_cpu[2]))
        advance(running - still)
        running = still
        if length == most:
            add(cut, best, ids, length)
        if length == most or not running:
            break
        state, items, scores = state.select(best.rows), best.items, best.scores
        tokens, padding = best.candidates[:, None], None
    advance(running)
    texts = [
        [text for valued in (own, own_cut) for _, text in sorted(valued, key=itemgetter(0), reverse=True)]
        for own, own_cut in zip(ended, cut, strict=True)
    ]
    if (fewest := min(map(len, texts))) < number:
        raise UserError(
            f"The beam has found {fewest} texts of a prompt, and {number} are wanted: raise beam_size or "
            "max_new_tokens, or lower -n."
        )
    return [own[:number] for own in texts]
