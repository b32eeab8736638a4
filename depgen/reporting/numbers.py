"""What is measured of a row: numbers, the measures that give them, and how its texts are made."""

import dataclasses
import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from depgen.data.corpus import Split
from depgen.decoding.settings import Sampling
from depgen.errors import UserError, check_at_least
from depgen.locations import lines_sha256

if TYPE_CHECKING:
    from depgen.evaluation.text.measures import TextOptions
    from depgen.reporting.jobs import Job
    from depgen.reporting.run_facts import RunFacts
    from depgen.training.experiment_runs import Depgen, FinishedRun


@dataclass(frozen=True)
class Numbers:
    """Numbers by column key, per-item ones, what gave them, and why others are not there; as in `Result`."""

    metrics: dict[str, float] = field(default_factory=dict)
    items: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    not_computed: dict[str, str] = field(default_factory=dict)

    def add(self, other: "Numbers") -> None:
        """Take another's in; of a name that both have, the other's."""
        self.metrics.update(other.metrics)
        self.items.update(other.items)
        self.settings.update(other.settings)
        self.not_computed.update(other.not_computed)

    def drop(self, names: Collection[str]) -> None:
        """Take out the numbers of these names and their items."""
        for name in names:
            self.metrics.pop(name, None)
            self.items.pop(name, None)


@dataclass(frozen=True)
class Generation:
    """How the texts of a table are made.

    Attributes:
        prompt_sentences: sentences of each test document given as the prompt; the next one is the reference.
        top_p: nucleus.
        temperature: of the mixed distribution.
        seed: of sampling; the seed of the run is added to it.
        max_new_tokens: length at which a text without an end is cut.
        samples: how many texts are written from nothing, where there are no prompts; by size where that differs.
        options: further options of the systems' generation, such as `boost`.
    """

    prompt_sentences: int = 4
    top_p: float = 0.5
    temperature: float = 1.0
    seed: int = 0
    max_new_tokens: int = 60
    samples: int | Mapping[str, int] | None = None
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        Sampling(top_p=self.top_p, temperature=self.temperature)
        check_at_least(1, max_new_tokens=self.max_new_tokens)
        check_at_least(int(self.samples is None), prompt_sentences=self.prompt_sentences)
        for each in self.samples.values() if isinstance(self.samples, Mapping) else (self.samples,):
            check_at_least(1, samples=each)

    @property
    def number(self) -> int:
        """How many texts are written from nothing, at one size."""
        assert isinstance(self.samples, int)
        return self.samples

    def at(self, size: str) -> "Generation":
        """The same at one size."""
        if not isinstance(self.samples, Mapping):
            return self
        return dataclasses.replace(self, samples=self.samples[size])

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


@dataclass(frozen=True, kw_only=True)
class MeasuredRow:
    """What the measures of a table are given.

    Attributes:
        job: the row at a size and seed.
        corpus: of its experiment.
        options: models and policies of the text measures.
        depgen: runs a command.
        wait: for other processes that work on the row's run, or train what a measure needs.
    """

    job: "Job"
    corpus: Any
    options: "TextOptions"
    depgen: "Depgen"
    wait: bool = True

    @property
    def generation(self) -> Generation:
        """How the texts of the table are made at the row's size, which measures of texts need."""
        assert self.job.generation is not None
        return self.job.generation


@dataclass(frozen=True, kw_only=True)
class TrainedRow(MeasuredRow):
    """What measures are given of a row that is trained.

    Attributes:
        trained: its finished run.
        facts: of the run.
    """

    trained: "FinishedRun"
    facts: "RunFacts"


class Measure(ABC):
    """Gives numbers of a trained row that its own test does not; a table names its measures by class path.

    Attributes:
        replaces: metrics of the row's own test that these numbers replace.
        needs: what the table must name for it, `samples` within its `generation`; None where it needs nothing.
    """

    replaces: Sequence[str] = ()
    needs: Literal["generation", "samples", "parsing"] | None = None

    @abstractmethod
    def measure(self, row: TrainedRow) -> Numbers:
        """The numbers of a row."""

    def measure_split(self, row: MeasuredRow, split: Split) -> Numbers:
        """The numbers of sentences of a split, in the place of a system's texts.

        Raises:
            UserError: it has no such numbers.
        """
        raise UserError(
            f"Row {row.job.row.name}: floor: {type(self).__name__} measures trained systems alone, no sentences of a "
            "split."
        )

    def keys(self) -> Collection[str] | None:
        """The names of its numbers, with `*` for any word; None where they are not known before it measures."""
        return None
