"""How the texts of a table are made, and how their files are named."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt
from pydantic.dataclasses import dataclass

from depgen.locations import lines_sha256


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Generation:
    """How the texts of a table are made.

    Attributes:
        prompt_sentences: sentences of each test document given as the prompt; the next one is the reference.
        top_p: nucleus.
        temperature: of the mixed distribution.
        seed: of sampling; the seed of the run is added to it.
        max_new_tokens: length at which a text without an end is cut.
        samples: how many texts are written from nothing, where there are no prompts; by size where that differs.
        documents: how many test documents, the first ones, give prompts; None: all. By size where that differs.
        options: further options of the systems' generation, such as `boost`.
    """

    prompt_sentences: NonNegativeInt = 4
    top_p: Annotated[float, Field(gt=0, le=1)] = 0.5
    temperature: PositiveFloat = 1.0
    seed: int = 0
    max_new_tokens: PositiveInt = 60
    samples: PositiveInt | Mapping[str, PositiveInt] | None = None
    documents: PositiveInt | Mapping[str, PositiveInt | None] | None = None
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict, hash=False)

    @property
    def number(self) -> int:
        """How many texts are written from nothing, at one size."""
        assert isinstance(self.samples, int)
        return self.samples

    def at(self, size: str) -> "Generation":
        """The same at one size."""
        numbers = {"samples": self.samples, "documents": self.documents}
        changes: dict[str, Any] = {
            name: number[size] for name, number in numbers.items() if isinstance(number, Mapping)
        }
        return dataclasses.replace(self, **changes)

    def file_of(self, *, training_seed: int, weights: str) -> str:
        """The name of a file of texts: all that they depend on, but for their number and the prompts themselves.

        >>> Generation(top_p=0.7).file_of(training_seed=2, weights="3f9a41d07c2288ab")
        '4-sentences_top-p-0.7_temperature-1.0_seed-2_tokens-60_weights-3f9a41d07c22.jsonl'
        """
        begin = f"{self.prompt_sentences}-sentences" if self.samples is None else "nothing"
        more = "".join(
            f"_{name}-{lines_sha256([json.dumps(value, sort_keys=True)])[:8]}"
            for name, value in sorted(self.options.items())
        )
        return (
            f"{begin}_top-p-{self.top_p}_temperature-{self.temperature}_seed-{self.seed + training_seed}"
            f"_tokens-{self.max_new_tokens}{more}_weights-{weights[:12]}.jsonl"
        )
