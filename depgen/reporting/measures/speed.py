"""How fast an experiment's system scores text, and in how much memory: Table 5 of Huang et al. (2026).

No training: neither figure depends on the weights, since a beam is full after the first words whatever they are. The
sentences are random pieces. In them, as in the paper's text, 24 words are 33 tokens.
"""

import time
from collections.abc import Sequence

import numpy as np
import torch

from depgen.data.record import DataSource
from depgen.data.vocabulary import Vocabulary, special_tokens
from depgen.errors import UserError
from depgen.evaluation.unit_scores import beam_of
from depgen.language_models.left_to_right import LeftToRight
from depgen.language_models.structured import StructuredLanguageModel
from depgen.reporting.numbers import Numbers
from depgen.training.experiment import Experiment
from depgen.training.hyper_parameters import build

SPEED, BATCHED, MEMORY = "tokens_per_second", "batched_tokens_per_second", "cuda_memory"
TYPES = 32_772
"""The size of the paper's vocabulary."""
SENTENCES, WORDS, TOKENS = 4, 24, 33
RANDOM = DataSource(f"{SENTENCES} random sentences", reduced=False)
"""What is scored."""


def measure_speed(experiment: Experiment, beam_size: int | None = None) -> Numbers:
    """Tokens a second, ends included, of sentences one by one and all at once; and the memory of the former, in GiB.

    All in single precision, with warm caches, and token by token from the state after the tokens before, as in
    generation: a system without a beam does not read a sentence at once.

    Args:
        experiment: its system is built with fresh weights.
        beam_size: hypotheses of a sentence; None: the system's own, or none.

    Raises:
        UserError: the system does not score token by token, or has no beam and is given one.
    """
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = build(experiment.settings["model"], vocabulary_size=TYPES).eval().to(device)
    if not isinstance(model, LeftToRight):
        raise UserError(f"{experiment}: expected a system that scores token by token, found {type(model).__name__}.")
    vocabulary, numbers = random_vocabulary(), Numbers()
    sentences = random_sentences(vocabulary)
    with beam_of(model, beam_size) as size, torch.inference_mode():

        def tokens_per_second(parts: Sequence[list[list[int]]]) -> float:
            began = now(device)
            for rows in parts:
                if size is None:
                    _step_through(model, rows, vocabulary)
                else:
                    model.sentence_log_probs([[row] for row in rows], vocabulary=vocabulary)
            return SENTENCES * (TOKENS + 1) / (now(device) - began)

        alone = [[sentence] for sentence in sentences]
        tokens_per_second(alone[:1])  # to warm up
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        numbers.metrics[SPEED] = tokens_per_second(alone)
        if device.type == "cuda":
            numbers.metrics[MEMORY] = torch.cuda.max_memory_allocated(device) / 2**30
        else:
            numbers.not_computed[MEMORY] = "measured on a GPU alone"
        tokens_per_second([sentences])  # to warm up
        numbers.metrics[BATCHED] = tokens_per_second([sentences])
    return numbers


def _step_through(model: LeftToRight, rows: Sequence[list[int]], vocabulary: Vocabulary) -> None:
    """Score sentences of one length, token by token, by a system that scores exactly."""
    if isinstance(model, StructuredLanguageModel):
        raise UserError(f"{type(model).__name__} also draws a structure, and its scores are exact: nothing to time.")
    ids = torch.tensor(rows, device=model.device)
    tokens = torch.nn.functional.pad(ids, (1, 1), value=vocabulary.eos)
    total, state = torch.zeros(len(rows), device=model.device), None
    for place in range(tokens.size(1) - 1):
        log_probs, state = model.generation_step(tokens[:, place : place + 1], None, state)
        total += log_probs.gather(1, tokens[:, place + 1 :][:, :1])[:, 0]
    assert bool(total.isfinite().all())


def now(device: torch.device) -> float:
    """Seconds, once the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def random_vocabulary() -> Vocabulary:
    """As many pieces as the paper's vocabulary has; the first half begin words."""
    from tokenizers import Tokenizer, models

    special = special_tokens()
    pieces = [f"{'▁' if number < TYPES // 2 else ''}{number}" for number in range(len(special), TYPES)]
    scored = [(piece, 0.0) for piece in (*special.values(), *pieces)]
    return Vocabulary(Tokenizer(models.Unigram(scored, 1, False)).to_str(), specials=special)


def random_sentences(vocabulary: Vocabulary) -> list[list[int]]:
    """Token ids of sentences, all as long."""
    generator, found = np.random.default_rng(0), list[list[int]]()
    begins, continues = (np.flatnonzero(vocabulary.opens_word == each)[-TYPES // 3 :] for each in (True, False))
    for _ in range(SENTENCES):
        ids = generator.choice(begins, TOKENS)
        others = 1 + generator.permutation(TOKENS - 1)[: TOKENS - WORDS]
        ids[others] = generator.choice(continues, len(others))
        found.append(ids.tolist())
    return found
