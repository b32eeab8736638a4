"""A table as one YAML file says it: columns, rows, the published numbers, and what makes each row of ours.

Also where these files lie, and how their content is checked.
"""

import dataclasses
import json
import re
import shlex
from collections.abc import Hashable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import GenericAlias, MappingProxyType
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    TypeAdapter,
    ValidationError,
)
from pydantic.dataclasses import dataclass
from pydantic_core import to_json

from depgen.errors import UserError, did_you_mean
from depgen.locations import lines_sha256
from depgen.training.experiment import SIZES, Experiment
from depgen.yaml_files import made_as, read_settings

# -- files of experiments ---------------------------------------------------------------------------------------------

_Kind = TypeVar("_Kind")


def experiments_root() -> Path:
    """The folder of experiment files: `./experiments`, else the one beside the package."""
    here, beside = Path("experiments"), Path(__file__).resolve().parents[2] / "experiments"
    for folder in (here, beside):
        if (folder / "tables").is_dir():
            return folder
    raise UserError(
        f"No folder of experiments at {here.absolute()} or {beside}. Run from the root of a checkout of depgen."
    )


def experiment_of(name: str, *, size: str, options: Mapping[str, Any] = MappingProxyType({})) -> Experiment:
    """An experiment at a size, by its name in `experiments/` or by the path of its YAML file.

    Raises:
        UserError: the file or one of its parts is not there, or it has no such size.
    """
    experiment = Experiment(experiment_file(name), size, options)
    _ = experiment.settings
    return experiment


def is_path(name: str | None) -> bool:
    """Whether a table or an experiment is named by the path of its file."""
    return name is not None and name.endswith((".yaml", ".yml"))


def experiment_file(name: str) -> Path:
    """The YAML file of an experiment by its name or its path."""
    path = Path(name) if is_path(name) else experiments_root() / f"{name}.yaml"
    if not path.is_file():
        meant = did_you_mean(path.stem, [each.stem for each in path.parent.glob("*.yaml")])
        raise UserError(f"No experiment file {path}.{meant}")
    return path


COLUMNS = "columns.yaml"
"""Beside the tables: the columns that recur, by key."""


def table_names() -> list[str]:
    """Every table that has a definition, by name."""
    return sorted(path.stem for path in (experiments_root() / "tables").glob("*.yaml") if path.name != COLUMNS)


def table_path(name: str) -> Path:
    """The file of a table of the package."""
    return experiments_root() / "tables" / f"{name}.yaml"


def settings_as(kind: type[_Kind], name: str) -> _Kind:
    """The object that a file of settings makes: what the systems of a table are judged by."""
    path = experiment_file(name)
    try:
        made = made_as(kind, read_settings(path))
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    assert isinstance(made, kind)
    return made


# -- content of files -------------------------------------------------------------------------------------------------

_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


def read_as(kind: type[_Kind], content: object, where: str) -> _Kind:
    """The dataclass or pydantic model with that content; UserError for a name or a value that it does not have."""
    try:
        # As JSON, in which strict types take a list for a tuple and a whole number for a number.
        (read,) = _adapter(kind).validate_json(  # type: ignore[arg-type]  # a class is hashable
            to_json([content], inf_nan_mode="constants")
        )
    except ValidationError as error:
        slips = [f"{'.'.join(map(str, slip['loc'][1:]))}: {slip['msg']}" for slip in error.errors()]
        raise UserError(f"{where}: {'; '.join(slips)}.") from None
    assert isinstance(read, kind)
    return read


@cache
def _adapter(kind: Hashable) -> TypeAdapter[tuple[Any]]:
    """Reads a list of one: pydantic takes a configuration for everything but a dataclass itself."""
    alone: Any = GenericAlias(tuple, (kind,))
    return TypeAdapter(alone, config=_STRICT)


# -- how texts are made -----------------------------------------------------------------------------------------------


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
        samples, documents = (
            number[size] if isinstance(number, Mapping) else number for number in (self.samples, self.documents)
        )
        return dataclasses.replace(self, samples=samples, documents=documents)

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


# -- a table ----------------------------------------------------------------------------------------------------------

TestName = Literal["paired_t", "paired_bootstrap", "welch_t", "none"]
TOKENS, WORDS = "tokens", "words"
"""The names of the items' numbers of tokens and of words."""
_PERPLEXITIES = {"perplexity": TOKENS, "word_perplexity": WORDS}
"""Measures that are exponentials of their items' mean, and what this mean is over."""


class _Part(BaseModel):
    """A part of a table: an unknown name in it is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Column(_Part):
    """One measure of a table.

    Attributes:
        key: its name in result files. A table may give the key alone where `tables/columns.yaml` has the rest, and
            then what differs.
        header: what is printed over it.
        higher_better: the direction of the measure; None for a size, in which no system wins.
        decimals: digits after the point.
        test: between two systems over items: paired, or Welch's where their items do not belong together.
        items: the item scores that the test takes; None takes those named like the key.
        weights: numbers of the items that the scores are weighed by, such as words where the measure is over all words;
            None weighs every item alike (and nats per token by tokens).
        explanation: one line for the notes, for measures that the paper lacks.
        measure: the text measure that it shows; None takes the one named like the key.
        judge: the pretrained model of that measure, which the header names too: a folder, or a name on the hub, that is
            sought on this machine alone. None takes the usual one. A model named on the command line replaces both.
        top_p: the nucleus of the texts that are measured; None takes the table's own.
        published_only: whether only the paper has numbers of it, on data that are not at hand; ours stay empty.
        comparable: whether ours compare with the paper's; if not, no difference is printed.
    """

    key: str
    header: str
    higher_better: bool | None
    decimals: NonNegativeInt = 2
    test: TestName = "none"
    items: str | None = None
    weights: str | None = None
    explanation: str | None = None
    measure: str | None = None
    judge: str | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    published_only: bool = False
    comparable: bool = True

    @property
    def scores(self) -> str:
        """The name of its item scores."""
        return self.items or self.key

    @property
    def weighed_by(self) -> str | None:
        """The items' numbers that their scores are weighed by, in intervals and in tests alike."""
        return self.weights or _PERPLEXITIES.get(self.scores)

    @property
    def is_perplexity(self) -> bool:
        """Whether it is the exponential of its items' mean, which are nats per token or per word."""
        return self.scores in _PERPLEXITIES

    def gain(self, value: float, other: float) -> float:
        """How much better a value is than another one.

        >>> Column(key="ppl", header="PPL", higher_better=False).gain(40.0, 42.0)
        2.0
        """
        return value - other if self.higher_better else other - value


class Row(_Part):
    """One system of a table.

    Attributes:
        name: as the paper prints it.
        experiment: the YAML in `experiments/` (without its ending), or the path of one, that makes the row; None where
            nothing does yet.
        options: of `depgen fit`, without dashes, over the experiment: `model.init_args.mask_rate: 0.1`. A value may
            differ by size: `{small: 256, paper: 1024}`.
        floor: what gives the row without training. A rule that knows nothing of the words, as `depgen evaluate parsing`
            names it: its trees. Of the experiment's corpus: `source`, the perplexity of the test split under the source
            that generated it, which no model can be expected to pass; `corpus`, its sizes; or `train`, `valid` or
            `test`, the sentences of this split in the place of a system's texts. Of its system: `speed`, with fresh
            weights.
        consensus_of: another row, whose runs of all seeds of the table parse together (`depgen parse --run A B`).
        beam_size: hypotheses about the structure of a text that its measures sum over, where scores are bounds; None:
            those of the run.
        other_data: whether the row is to show what learning from other data comes to, which is no slip to warn of.
        group: systems that are compared with one another (the paper's blocks); marks stay inside a group.
        against: rows that this one is judged against, one verdict each.
        in_paper: whether the paper has the row.
        values: published numbers by column key.
        deviations: the paper's standard deviations over runs, by column key.
        stars: columns where the paper marks a significant win.
        quoted: whom the paper itself quotes for this row.
        core_hours: what each seed of the row takes, training and measures, by size; without sizes that were not timed.
        x: the row's place on the axis of `depgen plot series`.
        note: one line for the notes.
    """

    name: str
    experiment: str | None = None
    options: Mapping[str, Any] = Field(default_factory=dict)
    floor: str | None = None
    consensus_of: str | None = None
    beam_size: PositiveInt | None = None
    other_data: bool = False
    group: str | None = None
    against: tuple[str, ...] = ()
    in_paper: bool = True
    values: Mapping[str, float] = Field(default_factory=dict)
    deviations: Mapping[str, float] = Field(default_factory=dict)
    stars: tuple[str, ...] = ()
    quoted: str | None = None
    core_hours: Mapping[str, PositiveFloat] = Field(default_factory=dict)
    x: float | None = None
    note: str | None = None

    @property
    def is_floor(self) -> bool:
        """Whether nothing is trained for it: no seed varies it."""
        return self.floor is not None or self.consensus_of is not None

    @property
    def trained(self) -> str | None:
        """The experiment that is trained for it; None where none is."""
        return None if self.is_floor else self.experiment

    def options_at(self, size: str) -> dict[str, Any]:
        """The options at a size.

        >>> row = Row(name="A", options={"model.init_args.head_size": {"small": 256, "paper": 1024}})
        >>> row.options_at("small")
        {'model.init_args.head_size': 256}
        """
        sizes = {
            name
            for name, value in self.options.items()
            if isinstance(value, Mapping) and value and {*value} <= {*SIZES}
        }
        return {name: value[size] if name in sizes else value for name, value in self.options.items()}

    def experiment_at(self, size: str) -> Experiment:
        """What makes the row at a size; UserError where no experiment does, or its file lacks this size."""
        if self.experiment is None:
            raise UserError(f"Row {self.name}: no experiment makes it.")
        return experiment_of(self.experiment, size=size, options=self.options_at(size))

    @property
    def slug(self) -> str:
        """The name as folders and make targets spell it: spaces and commas become one dash.

        >>> Row(name="DM-Transformer, left chain").slug
        'DM-Transformer-left-chain'
        """
        return re.sub(r"[^\w.+-]+", "-", self.name).strip("-")


class Planned(_Part):
    """A comparison that was written down before the first run: one system against another in one measure."""

    row: str
    against: str
    column: str


class TableDefinition(_Part):
    """A whole table.

    Attributes:
        table: its name, as in `results/<table>/`.
        caption: printed over it.
        source: of the published numbers.
        sizes: those that it can be made at; a single one leaves no choice.
        seeds: of training, unless a command names others; by size where that differs.
        columns: measures, in order.
        rows: systems, in order; in a file also the name of another table, for its rows without published numbers.
        measures: class paths, with arguments, of what gives numbers beyond those of each row's own test.
        generation: how the texts of the table are made; None where no measure needs any.
        oracle: the experiment of the language model that judges texts; None where no column needs one.
        parsing: the YAML in `experiments/` (without its ending), as `depgen evaluate parsing` reads it, of the trees
            that rows are judged by, floors among them; None where no measure is of trees.
        planned: the only comparisons that are tested: over seeds, by the exact rank-sum test, corrected over all of
            them. Without any, tests are those of the columns and rows.
        notes: lines printed below the table.
        pictures: what draws it: kinds of `depgen plot` with their options, such as `series`.
        given: the name or path that the user gave.
    """

    table: str
    caption: str
    source: str
    columns: Annotated[tuple[Column, ...], Field(min_length=1)]
    rows: Annotated[tuple[Row, ...], Field(min_length=1)]
    sizes: Annotated[tuple[str, ...], Field(min_length=1)] = SIZES
    seeds: tuple[int, ...] | Mapping[str, tuple[int, ...]] = (1, 2)
    measures: tuple[Any, ...] = ()
    generation: Generation | None = None
    oracle: str | None = None
    parsing: str | None = None
    planned: tuple[Planned, ...] = ()
    notes: tuple[str, ...] = ()
    pictures: tuple[str, ...] = ()
    given: str | None = None

    @property
    def argument(self) -> str:
        """What a command is given for this table: the path that it was read from, else its name."""
        return shlex.quote(self.given or self.table)

    def command(self, size: str, row: Row | None = None, *, option: str = "") -> str:
        """What makes its rows, or one: `depgen reproduce toy --rows DM-Base --size small --redo`."""
        of_row = "" if row is None else f" --rows {row.slug}"
        return f"depgen reproduce {self.argument}{of_row} --size {size} {option}".rstrip()

    def size(self, size: str | None = None) -> str:
        """The size to work at: the given one, else the first of the table, `small`."""
        if size and size not in self.sizes:
            raise UserError(f"{self.argument}: no size {size!r}: expected one of {', '.join(self.sizes)}.")
        return size or self.sizes[0]

    def seeds_at(self, size: str) -> tuple[int, ...]:
        """The seeds of a size."""
        return self.seeds[size] if isinstance(self.seeds, Mapping) else self.seeds

    def row(self, name: str) -> Row:
        """The row of that name or slug."""
        for row in self.rows:
            if name in (row.name, row.slug):
                return row
        meant = did_you_mean(name, [each for row in self.rows for each in (row.name, row.slug)])
        known = ", ".join(row.slug for row in self.rows)
        raise UserError(f"Table {self.table} has no row {name!r}.{meant} Its rows: {known}.")

    @property
    def ours(self) -> tuple[Column, ...]:
        """The measures that can be had here."""
        return tuple(column for column in self.columns if not column.published_only)

    def column(self, key: str) -> Column:
        """The column of that key; a KeyError where there is none."""
        return {column.key: column for column in self.columns}[key]


def is_made(row: Row, *, size: str) -> bool:
    """Whether something makes the row: a floor's rule, or an experiment that is there at this size."""
    try:
        return bool(row.experiment_at(size)) if row.experiment is not None else row.is_floor
    except UserError:
        return False


def load_definition(name: str) -> TableDefinition:
    """The table of that name (dashes and underscores alike), or of the YAML file at a path; UserError otherwise."""
    path = Path(name) if is_path(name) else table_path(name.replace("-", "_"))
    if not path.is_file():
        known = table_names()
        meant = did_you_mean(name.replace("-", "_"), known)
        raise UserError(f"No table {name!r}: {path} is not there.{meant} Tables: {', '.join(known) or 'none'}.")
    settings = _settings(path)
    for row in settings["rows"]:  # the file of an experiment may lie next to the table's
        given = row.get("experiment")
        if is_path(given) and not Path(given).is_file() and (path.parent / given).is_file():
            row["experiment"] = str(path.parent / given)
    definition = read_as(TableDefinition, {**settings, "given": name}, str(path))
    _check(definition, str(path))
    return definition


def _settings(path: Path) -> dict[str, Any]:
    """What a table's file holds, with the shared columns and the rows of another table in it."""
    settings, none = read_settings(path), {"values": {}, "deviations": {}, "stars": [], "in_paper": False}
    shared_path = experiments_root() / "tables" / COLUMNS
    shared = read_settings(shared_path) if shared_path.is_file() else {}
    columns = [{"key": each} if isinstance(each, str) else each for each in settings.get("columns") or ()]
    settings["columns"] = [{**(shared.get(str(each.get("key"))) or {}), **each} for each in columns]
    if isinstance(other := settings.get("rows"), str):
        settings["rows"] = [{**row, **none} for row in read_settings(table_path(other))["rows"]]
    settings["rows"] = [dict(row) for row in settings.get("rows") or ()]
    return settings


def _check(definition: TableDefinition, where: str) -> None:
    """Raises UserError where two parts share a name or a folder, or one names another that is not there."""
    keys, names = [column.key for column in definition.columns], [row.name for row in definition.rows]
    for kind, known in (("column", keys), ("row", names), ("folder of rows", [row.slug for row in definition.rows])):
        if len(set(known)) != len(known):
            raise UserError(f"{where}: a {kind} is there twice: {', '.join(known)}.")
    how = definition.generation
    numbers = () if how is None else (("samples", how.samples), ("documents", how.documents))
    for kind, values in (("seeds", definition.seeds), *numbers):
        if isinstance(values, Mapping) and {*values} != {*definition.sizes}:
            raise UserError(f"{where}: {kind}: expected those of the sizes {', '.join(definition.sizes)}.")
    for plan in definition.planned:
        if plan.column not in keys or not {plan.row, plan.against} <= {*names}:
            raise UserError(f"{where}: planned: {plan.row}, {plan.against}, {plan.column}: no such row or column.")
    trained = [row.name for row in definition.rows if row.trained is not None]
    for row in definition.rows:
        if row.is_floor and row.experiment is None and definition.parsing is None:
            raise UserError(f"{where}: row {row.name}: expected `parsing` to name the trees that judge it.")
        named = {
            "columns": ({*row.values, *row.deviations, *row.stars}, keys),
            "rows": (row.against, [name for name in names if name != row.name]),
            "trained rows": ({row.consensus_of} - {None}, trained),
        }
        for kind, (given, known) in named.items():
            if strangers := sorted(set(map(str, given)) - set(known)):
                raise UserError(f"{where}: row {row.name}: {', '.join(strangers)}: no {kind} ({', '.join(known)}).")


def chosen_table(table: str, size: str | None) -> tuple[TableDefinition, str]:
    """The table of that name, and the size to work at."""
    definition = load_definition(table)
    return definition, definition.size(size)


def chosen_tables(table: str | None, size: str | None) -> Iterator[tuple[TableDefinition, str]]:
    """The table of that name, or every table that has the given size or only one, with the size to work at."""
    if table is not None:
        yield chosen_table(table, size)
        return
    for definition in map(load_definition, table_names()):
        if not size or size in definition.sizes or len(definition.sizes) == 1:
            yield definition, definition.size(size if size in definition.sizes else None)
