"""A table as one YAML file says it: columns, rows, the published numbers, and what makes each row of ours."""

import dataclasses
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from depgen.decoding.settings import Sampling
from depgen.errors import UserError, check_at_least, did_you_mean
from depgen.reporting.experiments import experiment_of, is_path, table_names, table_path, table_settings
from depgen.reporting.fields import read_as
from depgen.reporting.generation import Generation
from depgen.training.experiment import SIZES, Experiment

TestName = Literal["paired_t", "paired_bootstrap", "welch_t", "none"]
TOKENS, WORDS = "tokens", "words"
"""The names of the items' numbers of tokens and of words."""
_PERPLEXITIES = {"perplexity": TOKENS, "word_perplexity": WORDS}
"""Figures that are exponentials of their items' mean, and what this mean is over."""
_NAME = re.compile(r"[\w.-]*\w[\w.-]*")


@dataclass(frozen=True)
class Column:
    """One measure of a table.

    Attributes:
        key: its name in result files.
        header: what is printed over it.
        higher_better: the direction of the measure; None for a size, in which no system wins.
        decimals: digits after the point.
        test: between a system and the best other one: paired over items, or Welch's where the items of two systems do
            not belong together.
        items: the per-item scores that the test takes; None takes those named like the key.
        spread: whether the notes give those pairs' ranges over seeds, and Levene's test that they spread alike.
        weights: per-item numbers that the scores are weighed by, such as words where the figure is over all words; None
            weighs every item alike (and nats per token by tokens).
        explanation: one line for the notes, for measures that the paper lacks.
        measure: the text measure that it shows; None takes the one named like the key.
        top_p: the nucleus of the texts that are measured; None takes the table's own.
        published_only: whether only the paper has figures of it, on data that are not at hand; ours stay empty.
        comparable: whether ours compare with the paper's; if not, no difference is printed.
    """

    key: str
    header: str
    higher_better: bool | None
    decimals: int = 2
    test: TestName = "none"
    items: str | None = None
    spread: bool = False
    weights: str | None = None
    explanation: str | None = None
    measure: str | None = None
    top_p: float | None = None
    published_only: bool = False
    comparable: bool = True

    def __post_init__(self) -> None:
        check_at_least(0, decimals=self.decimals)
        if self.top_p is not None:
            Sampling(top_p=self.top_p)

    @property
    def weighed_by(self) -> str | None:
        """The items' numbers that their scores are weighed by, in intervals and in tests alike."""
        return self.weights or _PERPLEXITIES.get(self.items or self.key)

    @property
    def is_perplexity(self) -> bool:
        """Whether the figure is the exponential of its items' mean, which are nats per token or per word."""
        return (self.items or self.key) in _PERPLEXITIES


@dataclass(frozen=True)
class Row:
    """One system of a table.

    Attributes:
        name: as the paper prints it.
        experiment: the YAML in `experiments/` (without its ending), or the path of one, that makes the row; None where
            nothing does yet.
        options: of `depgen fit`, without dashes, over the experiment: `model.init_args.mask_rate: 0.1`. A value may
            differ by size: `{small: 256, paper: 1024}`.
        floor: what gives the row without training. A rule that knows nothing of the words, as `depgen parsing-scores`
            names it: its trees. Of the experiment's corpus: `source`, the perplexity of the test split under the source
            that generated it, which no model can be expected to pass; `corpus`, its sizes; or `train`, `valid` or
            `test`, the sentences of this split in the place of a system's texts. Of its system: `speed`, with fresh
            weights.
        consensus_of: another row, whose runs of all seeds of the table parse together (`depgen parse --run A B`).
        beam_size: hypotheses about the structure of a text that its measures sum over, where scores are bounds; None:
            those of the run.
        other_data: whether the row is to show what learning from other data comes to, which is no slip to warn of.
        group: systems that are compared with one another (the paper's blocks); tests stay inside a group.
        against: rows that this one is judged against, one verdict each.
        in_paper: whether the paper has the row.
        values: published numbers by column key.
        deviations: the paper's standard deviations over runs, by column key.
        stars: columns where the paper marks a significant win.
        quoted: whom the paper itself quotes for this row.
        x: the row's place on the axis of `depgen series`.
        note: one line for the notes.
    """

    name: str
    experiment: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    floor: str | None = None
    consensus_of: str | None = None
    beam_size: int | None = None
    other_data: bool = False
    group: str | None = None
    against: Sequence[str] = ()
    in_paper: bool = True
    values: Mapping[str, float] = field(default_factory=dict)
    deviations: Mapping[str, float] = field(default_factory=dict)
    stars: Sequence[str] = ()
    quoted: str | None = None
    x: float | None = None
    note: str | None = None

    def __post_init__(self) -> None:
        check_at_least(1, beam_size=self.beam_size)
        if self.options and self.experiment is None:
            raise UserError("options: expected an experiment, whose options they are.")
        if alone := sorted(set(self.deviations) - set(self.values)):
            raise UserError(f"deviations: {', '.join(alone)} have no values.")

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

        >>> Row("A", "a", options={"model.init_args.head_size": {"small": 256, "paper": 1024}}).options_at("small")
        {'model.init_args.head_size': 256}

        Raises:
            UserError: an option has values for other sizes alone.
        """
        found = {}
        for name, value in self.options.items():
            differs = isinstance(value, Mapping) and value and set(value) <= set(SIZES)
            if differs and size not in value:
                raise UserError(
                    f"Row {self.name}: options: {name}: no value for size {size}, only for {', '.join(value)}."
                )
            found[name] = value[size] if differs else value
        return found

    def experiment_at(self, size: str) -> Experiment:
        """What makes the row at a size.

        Raises:
            UserError: no experiment does; or its file is not there or has no such size.
        """
        if self.experiment is None:
            raise UserError(f"Row {self.name}: no experiment makes it.")
        return experiment_of(self.experiment, size=size, options=self.options_at(size))

    @property
    def slug(self) -> str:
        """The name as folders and make targets spell it: spaces and commas become one dash.

        >>> Row("DM-Transformer, left chain").slug
        'DM-Transformer-left-chain'
        """
        return re.sub(r"[^\w.+-]+", "-", self.name).strip("-")


@dataclass(frozen=True)
class TableDefinition:
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
        parsing: the YAML in `experiments/` (without its ending), as `depgen parsing-scores` reads it, of the trees that
            rows are judged by, floors among them; None where no measure is of trees.
        notes: lines printed below the table.
        pictures: what draws it: verbs of depgen with their options, such as `series`.
        given: the name or path that the user gave.
    """

    table: str
    caption: str
    source: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    sizes: tuple[str, ...] = SIZES
    seeds: tuple[int, ...] | Mapping[str, tuple[int, ...]] = (1, 2)
    measures: tuple[Any, ...] = ()
    generation: Generation | None = None
    oracle: str | None = None
    parsing: str | None = None
    notes: tuple[str, ...] = ()
    pictures: tuple[str, ...] = ()
    given: str | None = None

    @property
    def argument(self) -> str:
        """What a command is given for this table: the path that it was read from, else its name."""
        return shlex.quote(self.given or self.table)

    def command(self, size: str, row: Row | None = None, *, seeds: Sequence[int] = (), option: str = "") -> str:
        """What makes its rows, or one: `depgen reproduce toy --row DM-Base --size small --seeds [1,2] --redo`."""
        of_row = "" if row is None else f" --row {row.slug}"
        of_seeds = f" --seeds [{','.join(map(str, seeds))}]" if seeds else ""
        return f"depgen reproduce {self.argument}{of_row} --size {size}{of_seeds} {option}".rstrip()

    def seeds_at(self, size: str) -> tuple[int, ...]:
        """The seeds of a size."""
        return self.seeds[size] if isinstance(self.seeds, Mapping) else self.seeds

    def row(self, name: str) -> Row:
        """The row of that name or slug.

        Raises:
            UserError: there is none; the rows are listed.
        """
        for row in self.rows:
            if name in (row.name, row.slug):
                return row
        known = ", ".join(row.slug for row in self.rows)
        meant = did_you_mean(name, [each for row in self.rows for each in (row.name, row.slug)])
        raise UserError(f"Table {self.table} has no row {name!r}.{meant} Its rows: {known}.")

    @property
    def named_pairs(self) -> tuple[frozenset[str], ...]:
        """The rows that are judged against one another, each two once."""
        return tuple(dict.fromkeys(frozenset((row.name, other)) for row in self.rows for other in row.against))

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
    read = read_as(TableDefinition, table_settings(path), str(path))
    definition = dataclasses.replace(read, given=name, rows=tuple(_located(row, path.parent) for row in read.rows))
    _check(definition, str(path))
    for row in definition.rows:
        _check_row(definition, row, f"{path}: row {row.name}")
    return definition


def chosen_table(table: str, size: str | None) -> tuple[TableDefinition, str, str]:
    """The table of that name with the given size or its usual one, and a line that says why this one.

    Raises:
        UserError: there is no such table, or it has no such size.
    """
    definition = load_definition(table)
    return definition, *choose_size(definition.sizes, size)


def chosen_tables(table: str | None, size: str | None) -> Iterator[tuple[TableDefinition, str, str]]:
    """The table of that name, or every table: each with its size, and a line that says why this one.

    Of all tables, each is at the given size or at its only one; tables without either are left out.

    Raises:
        UserError: there is no such table, or it has no such size, or no table has it.
    """
    if table is not None:
        yield chosen_table(table, size)
        return
    definitions = [load_definition(name) for name in table_names()]
    known = sorted({each for definition in definitions for each in definition.sizes})
    if size and size not in known:
        raise UserError(f"No table has a size {size!r}.{did_you_mean(size, known)} Expected one of {', '.join(known)}.")
    for definition in definitions:
        if not size or size in definition.sizes or len(definition.sizes) == 1:
            yield definition, *choose_size(definition.sizes, size if size in definition.sizes else None)


def choose_size(sizes: Sequence[str], size: str | None = None) -> tuple[str, str]:
    """The size to work at, and one line that says which and why; unless given, the first of the table's: `small`.

    Raises:
        UserError: the table has no such size.
    """
    if size and size not in sizes:
        raise UserError(f"No size {size!r} here: expected one of {', '.join(sizes)}.")
    if size:
        return size, f"Size {size}: as given."
    others = "".join(f" (--size {other} for the other)" for other in sizes[1:])
    return sizes[0], f"Size {sizes[0]}: {'the default' if others else 'the only one of this table'}{others}."


def _located(row: Row, folder: Path) -> Row:
    """The row, with a path to an experiment that lies next to the table's file and not in the working folder."""
    given = row.experiment
    if given is not None and is_path(given) and not Path(given).is_file() and (folder / given).is_file():
        return dataclasses.replace(row, experiment=str(folder / given))
    return row


def _check(definition: TableDefinition, where: str) -> None:
    """Raises UserError unless names are unique and serve as folders, and every size has its seeds and texts."""
    keys, names = [column.key for column in definition.columns], [row.name for row in definition.rows]
    for kind, given in (("column", keys), ("row", names)):
        if len(set(given)) != len(given):
            raise UserError(f"{where}: a {kind} is listed twice: {', '.join(given)}.")
    samples = definition.generation and definition.generation.samples
    for kind, values in (("seeds", definition.seeds), ("samples", samples)):
        if isinstance(values, Mapping) and set(values) != set(definition.sizes):
            expected, found = ", ".join(definition.sizes), ", ".join(values)
            raise UserError(f"{where}: {kind}: expected those of the sizes {expected}, found those of {found}.")
    lists = {"columns": keys, "rows": names, "sizes": definition.sizes}
    for kind, some in (*lists.items(), *(("seeds", definition.seeds_at(size)) for size in definition.sizes)):
        if not some:
            raise UserError(f"{where}: {kind}: expected at least one.")
    for name in (definition.table, *definition.sizes, *(row.slug for row in definition.rows)):
        if not _NAME.fullmatch(name.replace("+", "-")):
            raise UserError(f"{where}: {name!r} names a folder: expected letters, digits, dots and dashes.")
    slugs = {row.slug: row.name for row in definition.rows}
    for row in definition.rows:
        if (other := slugs[row.slug]) != row.name:
            raise UserError(
                f"{where}: rows {row.name!r} and {other!r} share the folder {row.slug}; rename one of them."
            )


def _check_row(definition: TableDefinition, row: Row, where: str) -> None:
    """Raises UserError unless all that a row names is in its table, and it has options for every size."""
    if row.is_floor and row.experiment is None and definition.parsing is None:
        kind = "floor" if row.floor else "consensus_of"
        raise UserError(f"{where}: {kind}: expected `parsing` to name the trees that judge it.")
    for size in definition.sizes:
        row.options_at(size)
    keys, names = {column.key for column in definition.columns}, {each.name for each in definition.rows}
    trained = [each.name for each in definition.rows if each.trained is not None]
    if row.consensus_of is not None and (row.consensus_of not in trained or row.floor or row.experiment):
        raise UserError(
            f"{where}: consensus_of {row.consensus_of!r}: expected a row that is trained ({', '.join(trained)}), and "
            "neither a floor nor an experiment."
        )
    if strangers := sorted({*row.values, *row.stars} - keys):
        raise UserError(f"{where}: {', '.join(strangers)} are no columns ({', '.join(sorted(keys))}).")
    for other in row.against:
        if other not in names or other == row.name:
            raise UserError(f"{where}: against {other!r}, which is no{' other' if other == row.name else ''} row.")
