"""Existing runs next to each other: their test measures with intervals, and paired tests over the test items."""

import dataclasses
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from depgen.errors import UserError
from depgen.evaluation.trained import system_class
from depgen.locations import file_sha256, lines_sha256, runs_root, write_atomically
from depgen.reporting.compare import compare, marked
from depgen.reporting.definition import Column, Row, TableDefinition
from depgen.reporting.intervals import intervals
from depgen.reporting.layout import lay_out
from depgen.reporting.measurement import numbers_of_test
from depgen.reporting.results import Result, as_text
from depgen.reporting.run_facts import facts_of
from depgen.reporting.store import Ours, training_of
from depgen.reporting.tables import Format, render
from depgen.training.configuration_digest import config_digest
from depgen.training.experiment_runs import SplitNumbers, kept_test
from depgen.training.runs import experiment_name, find_run, has_size, read_record

_KINDS = {
    "exact": "exact likelihood",
    "pseudo": "pseudo-likelihood (each word masked in turn)",
    "bound": "bound on the likelihood",
    "unknown": "likelihood of an unknown kind",
}
_UNSHOWN = ("loss", "unk_rate")
_DIRECTED = ("spearman", "pearson")
"""How names of other test measures end of which more is better."""


@dataclass(frozen=True)
class TestedRun:
    """A run with what `depgen test` left in it.

    Attributes:
        run: its folder.
        test: its numbers.
        result: the same as a result without a table; its measures say what kind of likelihood they are of.
        vocabulary: the digest of its vocabulary.
    """

    run: Path
    test: SplitNumbers
    result: Result
    vocabulary: str

    @property
    def key(self) -> tuple[object, ...]:
        """What the seeds of one system share."""
        return training_of(self.result)


@dataclass(frozen=True)
class System:
    """Runs that differ in their seed alone."""

    name: str
    runs: tuple[TestedRun, ...]


def compare_runs(
    runs: Sequence[str],
    *,
    format: Format | Literal["json"] = "text",
    output: Path | None = None,
) -> str:
    """The test measures of existing runs next to each other, with intervals, and tests between every two systems.

    Runs that differ in their seed alone are one system: its numbers are means with standard deviations, and Welch's
    t-test compares seeds. Tests over items are paired and corrected by Holm's method over all tests made here.
    Perplexities of different vocabularies are compared per word; those of different kinds of likelihood are not.

    Args:
        runs: run folders, experiments (their newest runs), or seeds of one such as `dmlm_ewt_gold/small/seed2`.
        format: `text` for the terminal; json holds every test with its p-values.
        output: a file for the text, in place of the terminal.

    Raises:
        UserError: fewer than two systems, a run that does not exist or is not tested, runs that were tested on
            different data or items, or without a common measure.
    """
    tested = [read_tested(find_run(reference)) for reference in runs]
    tested = list({each.run.absolute(): each for each in tested}.values())
    _check_same_items(tested)
    systems = group(tested)
    if len(systems) < 2:
        raise UserError(
            f"compare: expected at least two systems, found {len(systems)} ({systems[0].name}). Name another run; runs "
            "that differ in their seed alone are one system."
        )
    ours = joined(systems)
    text = _json(ours, systems) if format == "json" else _table(ours, format)
    if output is None:
        return text
    write_atomically(output, text)
    return f"{output}: {len(systems)} systems, {len(tested)} runs."


def read_tested(run: Path) -> TestedRun:
    """A run with its test numbers.

    Raises:
        UserError: it is not tested, or a file of it is damaged.
    """
    test, record = kept_test(run), read_record(run)
    vocabulary = lines_sha256([file_sha256(path) for path in sorted((run / "vocabulary").glob("*")) if path.is_file()])
    found, kind = numbers_of_test(test), getattr(system_class(run), "likelihood", "unknown")
    found.settings.update(_settings(test, _KINDS[kind], vocabulary))
    result = Result(
        table="runs",
        row="",
        size="",
        seed=int(record.get("seed") or 0),
        metrics=found.metrics,
        items={name: as_text(scores) for name, scores in found.items.items()},
        settings=found.settings,
        date=str(record.get("finished") or "")[:10],
        config_sha256=config_digest(run / "config.yaml"),
        **vars(facts_of(run)),
    )
    return TestedRun(run, test, result, vocabulary)


def _settings(test: SplitNumbers, kind: str, vocabulary: str) -> Iterator[tuple[str, str]]:
    """What the perplexities depend on: those that differ in it are not compared."""
    if test.item_tokens is not None:
        yield "perplexity", f"{kind}, {test.item_tokens.sum():,.0f} tokens of vocabulary {vocabulary[:8]}"
    if test.item_words is not None:
        yield "word_perplexity", f"{kind}, {test.item_words.sum():,.0f} words"


def _check_same_items(tested: Sequence[TestedRun]) -> None:
    """Raise UserError unless all runs were tested on the same sentences, as far as is known.

    Runs of older tests do not say what data they were tested on: those must have as many items. Systems that are tested
    on one stream have other items of the same data.
    """
    known = [each for each in tested if each.test.data is not None]
    for each in known[1:]:
        if (difference := _difference(known[0].test, each.test)) is not None:
            raise UserError(
                f"{known[0].run} and {each.run} were tested on different data: {difference}. Test them on the same "
                "corpus, read in the same way; a test of an earlier version again: depgen test --run ..."
            )
    scored = [(each, len(each.test.item_nll)) for each in tested if each.test.item_nll is not None]
    for each, items in scored[1:]:
        if items != scored[0][1] and len(known) < len(tested):
            raise UserError(
                f"{scored[0][0].run} was tested on {scored[0][1]} items, {each.run} on {items}, and not every run says "
                "on which data. Test them again on the same data: depgen test --run ..."
            )


def _difference(first: SplitNumbers, second: SplitNumbers) -> str | None:
    """How the sentences of two tests differ, or the items that they are divided into; None where they do not."""
    if first.data == second.data:
        return None
    if first.sentences is None or second.sentences is None:
        return f"the digests of the test split are {str(first.data)[:12]} and {str(second.data)[:12]}"
    if first.sentences != second.sentences:
        return f"the digests of the test sentences are {first.sentences[:12]} and {second.sentences[:12]}"
    words = [each.item_words for each in (first, second) if each.item_words is not None]
    if len(words) > 1 and len(words[0]) == len(words[1]) and (words[0] != words[1]).any():
        return "the sentences are the same, but are divided into other items"
    return None


def group(tested: Sequence[TestedRun]) -> list[System]:
    """The runs as systems, each with a name that no other has."""
    groups: dict[tuple[object, ...], list[TestedRun]] = {}
    for each in tested:
        again = sum((each.key, each.result.seed) == (other.key, other.result.seed) for other in _before(each, tested))
        groups.setdefault((each.key, again), []).append(each)
    for name_of in (experiment_name, _place, str):
        names = [name_of(runs[0].run) for runs in groups.values()]
        if len(set(names)) == len(names):
            break
    return [
        System(name, tuple(sorted(runs, key=lambda each: each.result.seed)))
        for name, runs in zip(names, groups.values(), strict=True)
    ]


def _before(run: TestedRun, tested: Sequence[TestedRun]) -> Sequence[TestedRun]:
    return tested[: [each.run for each in tested].index(run.run)]


def _place(run: Path) -> str:
    """The folder of an experiment's size, or of the run where it is not keyed, below `$DEPGEN_RUNS`."""
    folder, root = run.absolute(), runs_root().absolute()
    folder = folder.parents[1] if has_size(run) else folder
    return str(folder.relative_to(root) if folder.is_relative_to(root) else folder)


def joined(systems: Sequence[System]) -> Ours:
    """The systems' numbers as those of a table, in which each is judged against every later one."""
    rows = tuple(
        Row(
            system.name,
            against=tuple(other.name for other in systems[number:]),
            note=", ".join(str(each.run) for each in system.runs),
        )
        for number, system in enumerate(systems, start=1)
    )
    results = tuple(dataclasses.replace(run.result, row=each.name) for each in systems for run in each.runs)
    columns = tuple(_columns([run for system in systems for run in system.runs]))
    if not columns:
        raise UserError(f"{', '.join(each.name for each in systems)} have no test measure in common.")
    caption = "Runs compared on the test split"
    definition = TableDefinition("runs", caption, "", columns, rows, sizes=("",))
    return Ours(definition, "", results, frozenset((each.row, each.seed) for each in results))


def _columns(tested: Sequence[TestedRun]) -> Iterator[Column]:
    """The measures that all runs have: perplexity is tested per token of one vocabulary, else per word."""
    shared = set.intersection(*(set(each.result.metrics) for each in tested))
    by_word = len({each.vocabulary for each in tested}) > 1 and all("words" in each.result.items for each in tested)
    if by_word:
        yield Column("word_perplexity", "PPL per word", False, test="paired_t")
    if "perplexity" in shared:
        yield Column("perplexity", "PPL per token", None if by_word else False, test="none" if by_word else "paired_t")
    for name in sorted(shared - {"perplexity", "word_perplexity", *_UNSHOWN}):
        if not name.endswith(("_low", "_high")):
            yield Column(name, name, True if name.endswith(_DIRECTED) else None)


def _table(ours: Ours, format: Format) -> str:
    """The comparison as a table of results, less the note of where tables have their numbers from."""
    layout = lay_out(ours)
    notes = tuple(note for note in layout.notes if not note.startswith("Numbers: "))
    return render(dataclasses.replace(layout, notes=notes), format=format)


def _json(ours: Ours, systems: Sequence[System]) -> str:
    comparisons, tests = compare(ours)
    marks, bounds = marked(ours, comparisons), intervals(ours)
    content = {
        "systems": [
            {
                "system": system.name,
                "runs": [str(each.run) for each in system.runs],
                "measures": {
                    column.key: {
                        "value": figure.mean,
                        "deviation": figure.deviation,
                        "by_seed": figure.values,
                        "interval": bounds.get((system.name, column.key), (None,))[0],
                        "mark": marks.get((system.name, column.key), ""),
                        "of": figure.judge,
                    }
                    for column in ours.definition.columns
                    if (figure := ours.figure(system.name, column.key)) is not None
                },
            }
            for system in systems
        ],
        "comparisons": [
            {**dataclasses.asdict(item), "verdict": item.verdict}
            for item in comparisons
            if item.other in ours.definition.row(item.row).against
        ],
        "tests_corrected_for": tests,
    }
    return json.dumps(content, indent=2) + "\n"
