"""What gives the numbers of a table's rows beyond those of their own tests; a table names them by class path."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from depgen.data.corpus import Split
from depgen.errors import UserError
from depgen.reporting.results import RunFacts
from depgen.reporting.table import TOKENS, WORDS, Generation, TableDefinition
from depgen.training.evaluated import SplitNumbers
from depgen.yaml_files import made_as

if TYPE_CHECKING:
    from depgen.evaluation.text_measures import TextOptions
    from depgen.reporting.jobs import Job
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


def numbers_of_test(tested: SplitNumbers) -> Numbers:
    """The numbers of a test, with those of its items: mean nats per token and per word, weighed by tokens and words."""
    numbers = Numbers(dict(tested.metrics))
    if "joint_perplexity" in numbers.metrics:
        numbers.not_computed["perplexity"] = "the test is of texts with their trees"
    if tested.item_nll is not None and tested.item_tokens is not None:
        numbers.items.update({"perplexity": tested.item_nll, TOKENS: tested.item_tokens})
        if tested.item_words is not None:
            with np.errstate(divide="ignore", invalid="ignore"):  # an item that was not scored has no words
                per_word = tested.item_nll * tested.item_tokens / tested.item_words
            numbers.items.update({"word_perplexity": per_word, WORDS: tested.item_words})
    return numbers


@dataclass(frozen=True, kw_only=True)
class MeasuredRow:
    """What the measures of a table are given."""

    job: "Job"
    corpus: Any
    options: "TextOptions"
    depgen: "Depgen"

    @property
    def generation(self) -> Generation:
        """How the texts of the table are made at the row's size, which measures of texts need."""
        assert self.job.generation is not None
        return self.job.generation


@dataclass(frozen=True, kw_only=True)
class TrainedRow(MeasuredRow):
    """What measures are given of a row that is trained: its finished run, too, and the facts of it."""

    trained: "FinishedRun"
    facts: RunFacts


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
        """The numbers of sentences of a split, in the place of a system's texts; UserError where it has none."""
        raise UserError(
            f"Row {row.job.row.name}: floor: {type(self).__name__} measures trained systems alone, no sentences of a "
            "split."
        )


def measures_of(definition: TableDefinition) -> list[Measure]:
    """The measures of a table, each made from its class path and arguments; what they compute with is imported."""
    try:
        measures: list[Measure] = made_as(list[Measure], [*definition.measures])
    except UserError as error:
        raise UserError(f"{definition.argument}: measures: {error}") from None
    samples = definition.generation and definition.generation.samples
    named = {"generation": definition.generation, "samples": samples, "parsing": definition.parsing}
    for measure in measures:
        if measure.needs is not None and named[measure.needs] is None:
            raise UserError(f"{definition.argument}: {measure.needs} must be given: {type(measure).__name__} needs it.")
    return measures
