"""Options of generation, each a frozen dataclass. Nothing here imports torch: a table's file does not wait for it.

A system names its own dataclass as `generation_options`: fields with types, defaults and a line each under
`Attributes:` are its options in `depgen generate` and in Python; values out of range raise `UserError` when it is made.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from depgen.errors import UserError, check_at_least, did_you_mean

Options = TypeVar("Options")


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen; the filters apply in the order temperature, top-k, top-p.

    Attributes:
        top_p: keep the smallest set of likeliest tokens whose mass reaches it, the one that crosses it included
            (nucleus sampling, Holtzman et al. 2020); 1 keeps all.
        temperature: log-probabilities are divided by it and renormalised.
        top_k: keep the k likeliest tokens; 0 keeps all.
        greedy: take the likeliest token; nothing is drawn and the other settings are without effect.
        unknown: let texts hold `<unk>`; by default its probability goes to the other tokens. ITEXP never writes it.
    """

    top_p: float = 1.0
    temperature: float = 1.0
    top_k: int = 0
    greedy: bool = False
    unknown: bool = False

    def __post_init__(self) -> None:
        check_at_least(0, top_k=self.top_k)
        if not 0 < self.top_p <= 1:
            raise UserError(f"top-p must be above 0 and at most 1, but is {self.top_p}")
        if not 0 < self.temperature < float("inf"):
            raise UserError(
                f"the temperature must be above 0 and finite (--greedy is its limit), but is {self.temperature}"
            )

    @property
    def unfiltered(self) -> bool:
        """Whether tokens are drawn from the distribution as it is."""
        return self.top_p == 1 and self.temperature == 1 and not self.top_k and not self.greedy


@dataclass(frozen=True)
class BeamOptions(Sampling):
    """How a text is generated: sampled, or searched for.

    Attributes:
        beam_size: search for the likeliest texts with this many hypotheses a prompt, in place of sampling; several
            texts a prompt are then the best of them, the likeliest first.
        length_normalization: hypotheses of different lengths are compared by their log-probability over
            tokens**length_normalization: 0 is the log-probability itself, 1 the mean per token.
    """

    beam_size: int | None = None
    length_normalization: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(1, beam_size=self.beam_size)
        if not 0 <= self.length_normalization < float("inf"):
            raise UserError(f"length_normalization: expected 0 or more, found {self.length_normalization}.")
        if self.beam_size is None:
            if self.length_normalization:
                raise UserError("length_normalization compares the hypotheses of a beam: give beam_size too.")
        elif not self.unfiltered:
            raise UserError("A beam draws nothing: leave out top_p, temperature, top_k and greedy, or beam_size.")


@dataclass(frozen=True)
class TokenOptions(BeamOptions):
    """How a text is generated token by token.

    Attributes:
        min_new_tokens: a text does not end before it has this number of new tokens; the probability of an earlier end
            goes to the other tokens.
    """

    min_new_tokens: int = 0


@dataclass(frozen=True)
class StructureOptions(BeamOptions):
    """How a text is generated with its structure; filters and beams hold for the choices of structure as for tokens.

    Attributes:
        prompt_beam_size: hypotheses about the structure of a prompt, of which the likeliest is continued.
    """

    prompt_beam_size: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(1, prompt_beam_size=self.prompt_beam_size)


@dataclass(frozen=True)
class DocumentOptions(Sampling):
    """How a document is continued sentence by sentence.

    Attributes:
        sentences: new sentences of each document.
    """

    sentences: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(1, sentences=self.sentences)


def made_options(kind: type[Options], values: Mapping[str, Any], *, system: str) -> Options:
    """A system's options with these values, the others as by default.

    Raises:
        UserError: the system has no such option, or a value is out of range.
    """
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    for name in values:
        if name not in known:
            raise UserError(
                f"{system} has no option of generation {name!r}.{did_you_mean(name, known)} It has {', '.join(known)}."
            )
    return kind(**values)
