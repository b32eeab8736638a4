"""Existing runs next to each other: their test measures with intervals, and paired tests over the test items."""

import dataclasses
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

from depgen.data.vocabulary import VOCABULARY_FILE
from depgen.errors import UserError
from depgen.evaluation.trained import system_class
from depgen.locations import below_runs, file_sha256, write_atomically
from depgen.reporting.compare import best_cells, compare
from depgen.reporting.measurement import numbers_of_test
from depgen.reporting.pretrained import arguments_at
from depgen.reporting.render import Format, page_of, render
from depgen.reporting.results import Result, Results, packed
from depgen.reporting.run_facts import facts_of
from depgen.reporting.table import Column, Row, TableDefinition
from depgen.training.evaluated import SplitNumbers, kept_test
from depgen.training.experiment import Experiment, settings_of
from depgen.training.runs import experiment_name, find_run, read_record

_KINDS = {
    "exact": "exact likelihood",
    "pseudo": "masked words, drawn at random",
    "bound": "bound on the likelihood",
    "unknown": "likelihood of an unknown kind",
}
_UNSHOWN = ("loss", "unk_rate")
_DRAWS = {"mask_rate": "rate", "evaluation_masks": "draws"}
"""What decides which words a masked model is tested on, and how it is called."""
_DIRECTED = ("spearman", "pearson")
"""How names of other test measures end of which more is better."""


@dataclass(frozen=True)
class TestedRun:
    """A run with its test numbers, the same as a result without a table, and the digest of its vocabulary."""

    run: Path
    test: SplitNumbers
    result: Result
    vocabulary: str


def compare_runs(
    runs: Sequence[str],
    *,
    format: Format | Literal["json"] = "text",
    output: Path | None = None,
) -> str:
    """The test measures of existing runs next to each other, with intervals, and tests between every two systems.

    Runs that differ in their seed alone are one system: its numbers are means with standard deviations, and Welch's
    t-test compares seeds. Tests over items are paired. All p-values are corrected by Holm's method: over items over all
    tests made here, over seeds over all pairs of a measure.
    Perplexities of different vocabularies are compared per word; those of different kinds of likelihood are not.

    Args:
        runs: run folders, experiments (their newest runs), or seeds of one such as `dmlm_ewt_gold/small/seed2`.
        format: `text` for the terminal; json holds every test with its p-values.
        output: a file for the text, in place of the terminal.

    Raises:
        UserError: fewer than two systems, a run that does not exist or is not tested, runs that were tested on
            different data or items, or without a common measure.
    """
    tested = [_read_tested(find_run(reference)) for reference in runs]
    tested = list({each.run.absolute(): each for each in tested}.values())
    _check_same_items(tested)
    systems = _systems(tested)
    if len(systems) < 2:
        raise UserError(
            f"compare: expected at least two systems, found {len(systems)} ({', '.join(systems)}). Name another run; "
            "runs that differ in their seed alone are one system."
        )
    results = _joined(systems)
    if format == "json":
        text = _json(results, systems)
    else:
        page = page_of(results)
        notes = tuple(note for note in page.notes if not note.startswith("Numbers: "))  # no files of a table's
        text = render(dataclasses.replace(page, notes=notes), format=format)
    if output is None:
        return text
    write_atomically(output, text)
    return f"{output}: {len(systems)} systems, {len(tested)} runs."


def _read_tested(run: Path) -> TestedRun:
    """A run with its test numbers; perplexities with other settings do not compare.

    Raises:
        UserError: it is not tested, or a file of it is damaged.
    """
    test, record = kept_test(run), read_record(run)
    vocabulary = file_sha256(run / VOCABULARY_FILE)
    found, kind = numbers_of_test(test), getattr(system_class(run), "likelihood", "unknown")
    judge = _KINDS[kind]
    if kind == "pseudo":  # which words it is tested on
        arguments = arguments_at(settings_of(run / "config.yaml"), "model.init_args")
        judge += (
            f" ({', '.join(f'{called} {arguments[name]}' for name, called in _DRAWS.items() if name in arguments)})"
        )
    if test.item_tokens is not None:
        tokens = f"{test.item_tokens.sum():,.0f} test tokens"
        found.settings["perplexity"] = f"{judge}, {tokens}, vocabulary {vocabulary[:8]}"
    if test.item_words is not None:
        found.settings["word_perplexity"] = f"{judge}, {test.item_words.sum():,.0f} test words"
    result = Result(
        table="runs",
        row="",
        size="",
        seed=int(record.get("seed") or 0),
        metrics=found.metrics,
        items={name: packed(scores) for name, scores in found.items.items()},
        settings=found.settings,
        date=str(record.get("finished") or "")[:10],
        config_sha256=Experiment(run / "config.yaml").digest,
        **vars(facts_of(run)),
    )
    return TestedRun(run, test, result, vocabulary)


def _check_same_items(tested: Sequence[TestedRun]) -> None:
    """Raise UserError unless all runs were tested on the same sentences; unknown ones must be as many."""
    for first, second in combinations(tested, 2):
        if None not in (first.test.data, second.test.data):
            difference = _difference(first.test, second.test)
        else:
            numbers = [len(each.test.item_nll) for each in (first, second) if each.test.item_nll is not None]
            difference = f"their items are {' and '.join(map(str, numbers))}" if len(set(numbers)) > 1 else None
        if difference is not None:
            raise UserError(
                f"{first.run} and {second.run} were tested on different data: {difference}. Test them on the same "
                "corpus, read in the same way: depgen test --run ..."
            )


def _difference(first: SplitNumbers, second: SplitNumbers) -> str | None:
    """How the sentences of two tests differ, or the items that they are divided into; None where they do not.

    Tests with different numbers of items are accepted: such items are not paired.
    """
    if first.data != second.data:
        if first.sentences is None or second.sentences is None:
            return f"the digests of the test split are {str(first.data)[:12]} and {str(second.data)[:12]}"
        if first.sentences != second.sentences:
            return f"the digests of the test sentences are {first.sentences[:12]} and {second.sentences[:12]}"
    words = [each.item_words for each in (first, second) if each.item_words is not None]
    if len(words) > 1 and len(words[0]) == len(words[1]) and words[0].sum() == words[1].sum():
        return "the sentences are the same, but are divided into other items" if (words[0] != words[1]).any() else None
    return None


def _systems(tested: Sequence[TestedRun]) -> dict[str, list[TestedRun]]:
    """The runs of each system, by seed, under a name that no other has; of one seed again, they are of another one."""
    groups: dict[tuple[object, int], list[TestedRun]] = {}
    before = Counter[object]()
    for each in tested:
        result = each.result
        training = (result.config_sha256, result.data.fingerprint, result.trees, result.beginning)
        groups.setdefault((training, before[training, each.result.seed]), []).append(each)
        before[training, each.result.seed] += 1
    systems = [sorted(runs, key=lambda each: each.result.seed) for runs in groups.values()]
    named = {experiment_name(runs[0].run): runs for runs in systems}
    if len(named) < len(systems):
        named = {below_runs(str(runs[0].run.absolute())): runs for runs in systems}
    return named


def _joined(systems: Mapping[str, Sequence[TestedRun]]) -> Results:
    """The systems' numbers as those of a table, in which each is judged against every later one."""
    names = list(systems)
    notes = {name: ", ".join(str(each.run) for each in runs) for name, runs in systems.items()}
    rows = tuple(
        Row(name=name, against=tuple(names[place:]), note=notes[name]) for place, name in enumerate(names, start=1)
    )
    results = tuple(dataclasses.replace(run.result, row=name) for name, runs in systems.items() for run in runs)
    columns = tuple(_columns([run for runs in systems.values() for run in runs]))
    if not columns:
        raise UserError(f"{', '.join(names)} have no test measure in common.")
    caption = "Runs compared on the test split"
    definition = TableDefinition(table="runs", caption=caption, source="", columns=columns, rows=rows, sizes=("",))
    return Results(definition, "", results, frozenset(names))


def _columns(tested: Sequence[TestedRun]) -> Iterator[Column]:
    """The measures that all runs have: perplexity is tested per token of one vocabulary, else per word."""
    shared = set.intersection(*(set(each.result.metrics) for each in tested))
    by_word = len({each.vocabulary for each in tested}) > 1 and all("words" in each.result.items for each in tested)
    if by_word:
        yield Column(key="word_perplexity", header="PPL per word", higher_better=False, test="paired_t")
    if "perplexity" in shared:
        yield Column(
            key="perplexity",
            header="PPL per token",
            higher_better=None if by_word else False,
            test="none" if by_word else "paired_t",
        )
    for name in sorted(shared - {"perplexity", "word_perplexity", *_UNSHOWN}):
        if not name.endswith(("_low", "_high")):
            yield Column(key=name, header=name, higher_better=True if name.endswith(_DIRECTED) else None)


def _json(results: Results, systems: Mapping[str, Sequence[TestedRun]]) -> str:
    """All figures by system and measure, and every comparison."""
    comparisons, tests = compare(results)
    best = best_cells(results, comparisons)
    measures: dict[str, dict[str, Any]] = {name: {} for name in systems}
    for (name, key), figure in results.figures.items():
        if key in {column.key for column in results.definition.columns}:
            measures[name][key] = {
                "value": figure.mean,
                "deviation": figure.deviation,
                "by_seed": figure.values,
                "interval": results.intervals.get((name, key)),
                "mark": "*" if (name, key) in best else "",
                "of": figure.judge,
            }
    named = [item for item in comparisons if item.other in results.definition.row(item.row).against]
    content = {
        "systems": [
            {"system": name, "runs": [str(each.run) for each in runs], "measures": measures[name]}
            for name, runs in systems.items()
        ],
        "comparisons": [{**dataclasses.asdict(item), "verdict": item.verdict} for item in named],
        "tests_corrected_for": tests,
    }
    return json.dumps(content, indent=2) + "\n"
