"""Drawing the next token from log-probabilities: temperature, top-k and nucleus, with one generator per text."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64, Int
from torch import Generator, Tensor

from depgen.decoding.settings import Sampling
from depgen.nn.precise import precise, restored

FIRST_CANDIDATES = 256
"""How many of the likeliest tokens are sorted at first to find a nucleus; eight times as many if it is larger."""


@dataclass(frozen=True)
class Mixture:
    """A distribution over tokens as the weighted mean of several.

    Attributes:
        log_weights: of the parts; -inf or very low for those without weight.
        probabilities: of the tokens in each part.
    """

    log_weights: Float[Tensor, "batch parts"]
    probabilities: Float[Tensor, "batch parts vocab"]

    @property
    def log_probs(self) -> Float[Tensor, "batch vocab"]:
        """The mixed distribution; O(parts x vocab) a row."""
        return (self.log_weights[:, None].exp() @ self.probabilities)[:, 0].log()

    def drawn_part(self, generators: Sequence[Generator]) -> Float[Tensor, "batch vocab"]:
        """Log-probabilities of one part a row, drawn by weight with one variate."""
        reached = precise(self.log_weights).exp().cumsum(1)
        drawn = _uniform(reached[:, -1:], generators) * reached[:, -1:]
        part = torch.searchsorted(reached, drawn, right=True).clamp_max(reached.size(1) - 1)
        part = part.to(self.probabilities.device)
        return self.probabilities.take_along_dim(part[..., None], 1)[:, 0].log()


def sample(
    distribution: Float[Tensor, "batch vocab"] | Mixture, sampling: Sampling, generators: Sequence[Generator]
) -> Int[Tensor, " batch"]:
    """One token per row, drawn as an exponential race: the least exponential variate over probability wins.

    Each row uses its own generator, always for one variate per token of the vocabulary: so what is drawn depends
    neither on the other rows nor, but for near-ties of 1e-6, on how they change the rounding. Of a mixture that nothing
    filters, a part is drawn first, by one variate more, and then its token: the same distribution without mixing.
    Log-probabilities need not be normalised.
    """
    if isinstance(distribution, Mixture):
        log_probs = distribution.drawn_part(generators) if sampling.unfiltered else distribution.log_probs
    else:
        log_probs = distribution
    if sampling.greedy:
        return log_probs.argmax(1)
    scores = log_probs.to(torch.promote_types(log_probs.dtype, torch.float32))
    if sampling.temperature != 1:
        # the maximum goes first, so that a temperature near 0 does not overflow
        scores = (scores - scores.amax(1, keepdim=True)) / sampling.temperature
    uniform = _uniform(scores, generators)
    if sampling.top_p == 1 and not sampling.top_k:
        return _winner(scores, uniform)
    scores, tokens = _candidates(scores, sampling)
    return tokens.gather(1, _winner(scores, uniform.gather(1, tokens))[:, None])[:, 0]


def log_probs_of(
    distribution: Float[Tensor, "batch vocab"] | Mixture, tokens: Int[Tensor, " batch"]
) -> Float64[Tensor, " batch"]:
    """Log-probabilities (nats) of one token a row, as the distribution has them before any filter.

    >>> log_probs_of(torch.tensor([[0.25, 0.75]]).log(), torch.tensor([1])).exp()
    tensor([0.7500], dtype=torch.float64)
    """
    if isinstance(distribution, Mixture):
        of_parts = distribution.probabilities.take_along_dim(tokens[:, None, None], 2)[..., 0]
        return (precise(distribution.log_weights) + precise(of_parts).log()).logsumexp(1)
    return precise(distribution.gather(1, tokens[:, None])[:, 0])


def nucleus(
    log_probs: Float[Tensor, "batch candidates"], log_mass: Float[Tensor, "batch 1"], top_p: float
) -> Float[Tensor, "batch candidates"]:
    """Log-probabilities of the nucleus, -inf outside; rows are in descending order, and all tokens sum to `log_mass`.

    >>> nucleus(torch.tensor([[0.5, 0.3, 0.2]]).log(), torch.zeros(1, 1), 0.6).exp()
    tensor([[0.5000, 0.3000, 0.0000]])
    """
    mass = (precise(log_probs) - precise(log_mass)).exp().cumsum(1)
    outside = (mass[:, :-1] >= top_p).to(log_probs.device)
    return torch.cat((log_probs[:, :1], log_probs[:, 1:].masked_fill(outside, -torch.inf)), 1)


def _candidates(scores: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """Scores (-inf for those filtered) and ids of the likeliest tokens, among which are all those kept."""
    vocabulary = scores.size(1)
    if sampling.top_k:
        scores, tokens = scores.topk(min(sampling.top_k, vocabulary), 1)
        return nucleus(scores, scores.logsumexp(1, keepdim=True), sampling.top_p), tokens
    log_mass = scores.logsumexp(1, keepdim=True)
    count = min(FIRST_CANDIDATES, vocabulary)
    while True:
        likeliest, tokens = scores.topk(count, 1)
        inside = nucleus(likeliest, log_mass, sampling.top_p)
        # Once a token is outside the nucleus, so are all after it.
        if count == vocabulary or bool(inside[:, -1].isneginf().all()):
            return inside, tokens
        count = min(8 * count, vocabulary)


def _winner(scores: Tensor, uniform: Tensor) -> Tensor:
    """The token of least e/p with e = -log(1 - u), in log space."""
    exponential = -torch.log1p(-uniform)
    exponential = exponential.clamp_min(torch.finfo(scores.dtype).tiny)
    return (scores - exponential.log()).argmax(1)


def _uniform(scores: Tensor, generators: Sequence[Generator]) -> Tensor:
    """Uniform variates in the type of the scores.

    Drawn with 53 bits, for with 24 a token rarer than 6e-8 would win whenever its variate is 0.
    """
    device = generators[0].device if generators else scores.device
    variates = torch.empty(scores.shape, dtype=torch.float64, device=device)
    for row, generator in zip(variates, generators, strict=True):
        row.uniform_(generator=generator)
    return restored(variates, scores)


def drawn(
    log_probs: Float[Tensor, "rows candidates"],
    sampling: Sampling,
    uniform: Float[Tensor, " rows"],
    *,
    log_factors: Float[Tensor, " candidates"] | None = None,
) -> Int[Tensor, " rows"]:
    """One candidate per row, where the mass of the filtered distribution up to it crosses a uniform variate of [0, 1).

    Log-probabilities need not be normalised; -inf is never drawn. `log_factors` are logarithms of what the
    probabilities of candidates are multiplied by after the filters.

    >>> drawn(torch.tensor([[0.5, 0.3, 0.2]]).log(), Sampling(top_p=0.6), torch.tensor([0.99])).tolist()
    [1]
    """
    scores = precise(log_probs)
    factors = None if log_factors is None else precise(log_factors)
    if sampling.greedy:
        return (scores if factors is None else scores + factors).argmax(1).to(log_probs.device)
    scores = (scores - scores.amax(1, keepdim=True)) / sampling.temperature
    ids = None
    if sampling.top_p < 1 or sampling.top_k:
        scores, ids = _candidates(scores, sampling)
    if factors is not None:
        scores = scores + (factors if ids is None else factors[ids])
    mass = scores.softmax(1).cumsum(1)
    # A float64 below 1 times the whole mass is below that mass, so that a candidate with mass is found.
    place = torch.searchsorted(mass, uniform.to(mass)[:, None] * mass[:, -1:], right=True)
    return (place if ids is None else ids.gather(1, place))[:, 0].to(log_probs.device)
