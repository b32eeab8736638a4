"""How texts are drawn, in words alone: what reads a table's file does not wait for torch."""

from dataclasses import dataclass

from depgen.errors import UserError


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen; the filters apply in the order temperature, top-k, top-p.

    Attributes:
        top_p: keep the smallest set of likeliest tokens whose mass reaches it, the one that crosses it included
            (nucleus sampling, Holtzman et al. 2020); 1 keeps all.
        temperature: log-probabilities are divided by it and renormalised.
        top_k: keep the k likeliest tokens; 0 keeps all.
        greedy: take the likeliest token; nothing is drawn and the other settings are without effect.

    Raises:
        UserError: for a value out of range.
    """

    top_p: float = 1.0
    temperature: float = 1.0
    top_k: int = 0
    greedy: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.top_p <= 1:
            raise UserError(f"top-p must be above 0 and at most 1, but is {self.top_p}")
        if not 0 < self.temperature < float("inf"):
            found = f"the temperature must be above 0 and finite, but is {self.temperature}"
            raise UserError(f"{found}; it is greedy decoding that takes the likeliest token")
        if self.top_k < 0:
            raise UserError(f"top-k must be 0 (all tokens) or more, but is {self.top_k}")

    @property
    def unfiltered(self) -> bool:
        """Whether tokens are drawn from the distribution as it is."""
        return self.top_p == 1 and self.temperature == 1 and not self.top_k and not self.greedy
