"""Generation speed: incremental against re-running the prefix for every token. Writes results/bench/generation.json.

Random weights at the paper's size, 6 x 512 and 31,000 words; batch 64, prompts of 40 tokens, 50 new ones.
"""

import torch
from torch import Generator

from depgen.backbones.transformer import Transformer
from depgen.decoding.sampling import sample
from depgen.decoding.settings import Sampling
from depgen.language_models.left_to_right import LeftToRight
from depgen.models.causal_lm import CausalLM
from depgen.models.dmlm import DMLM
from tests.benchmarks.figures import figure, seconds, write_figures

SPEED_UP = 10.0
"""The goal: incremental generation over re-running the prefix."""


def incremental(model: LeftToRight, prompts: torch.Tensor, new: int, generators: list[Generator]) -> None:
    """Draws `new` tokens for each prompt, with a state."""
    tokens, state = prompts, None
    for _ in range(new):
        log_probs, state = model.generation_step(tokens, None, state)
        tokens = sample(log_probs, Sampling(top_p=0.5), generators)[:, None]


def rerun(model: LeftToRight, tokens: torch.Tensor, generators: list[Generator]) -> None:
    """Draws one token from the whole prefix, without a state."""
    sample(model.generation_step(tokens, None, None)[0], Sampling(top_p=0.5), generators)


@torch.inference_mode()
def measure(
    model: LeftToRight, *, batch: int = 64, prompt: int = 40, new: int = 50, vocabulary: int = 31_000
) -> tuple[float, float]:
    """New tokens per second, incrementally and by re-running.

    Re-running is timed at the first, the middle and the last prefix and summed by Simpson's rule: its cost is a
    polynomial of low degree in the length.
    """
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model.eval().to(device)
    generators = [Generator(device).manual_seed(item) for item in range(batch)]
    tokens = torch.randint(vocabulary, (batch, prompt + new), device=device)
    incremental(model, tokens[:, :prompt], 2, generators)
    step_by_step = seconds(lambda: incremental(model, tokens[:, :prompt], new, generators))
    lengths = (prompt, prompt + (new - 1) // 2, prompt + new - 1)
    first, middle, last = (seconds(lambda n=n: rerun(model, tokens[:, :n], generators)) for n in lengths)
    again = new * (first + 4 * middle + last) / 6
    return batch * new / step_by_step, batch * new / again


def test_generation():
    figures = {}
    for name, system in (("Transformer", CausalLM), ("DM-Transformer", DMLM)):
        torch.manual_seed(0)
        fast, slow = measure(system(Transformer, 31_000))
        figures[f"generation, {name}, incremental"] = figure(fast, "tokens/s")
        figures[f"generation, {name}, re-running the prefix"] = figure(slow, "tokens/s")
        figures[f"generation, {name}, speed-up"] = figure(fast / slow, "x", at_least=SPEED_UP)
    write_figures("generation", figures)
    assert figures
