"""Existing runs next to each other: their test measures with intervals, and paired tests over the test items."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from depgen.data.vocabulary import VOCABULARY_FILE
from depgen.errors import UserError
from depgen.evaluation.trained import system_class
from depgen.locations import below_runs, file_sha256, write_atomically
from depgen.reporting.measures import numbers_of_test
from depgen.reporting.render import Format, page_of, render
from depgen.reporting.results import Result, Results, arguments_at, facts_of, packed
from depgen.reporting.table import Column, Row, TableDefinition
from depgen.training.class_paths import known_classes_alone
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


def compare_runs(runs: Sequence[str], *, format: Format = "text", output: Path | None = None) -> str:
    """The test measures of existing runs next to each other, with intervals, and tests between every two systems.

    Runs that differ in their seed alone are one system: its numbers are means with standard deviations, and Welch's
    t-test compares seeds. Tests over items are paired. All p-values are corrected by Holm's method: over items over all
    tests made here, over seeds over all pairs of a measure.
    Perplexities of different vocabularies are compared per word. Those of different kinds of likelihood have a column
    each, and those over shares of `<unk>` that differ by more than a point have no verdict.

    Args:
        runs: run folders, experiments (their newest runs), or seeds of one such as `dmlm_ewt_gold/small/seed2`.
        format: `text` for the terminal; json holds every number, and every test with its p-values.
        output: a file for the text, in place of the terminal.

    Raises:
        UserError: fewer than two systems, a run that does not exist or is not tested, runs that were tested on
            different data or items, or without a common measure.
    """
    tested = [_read_tested(run) for run in dict.fromkeys(map(find_run, runs))]
    for first, second in combinations(tested, 2):
        if (difference := _difference(first.test, second.test)) is not None:
            raise UserError(
                f"{first.run} and {second.run} were tested on different data: {difference}. Test them on the same "
                "corpus, read in the same way: depgen test --run ..."
            )
    systems = _systems(tested)
    if len(systems) < 2:
        raise UserError(
            f"compare: expected at least two systems, found {len(systems)} ({', '.join(systems)}). Name another run; "
            "runs that differ in their seed alone are one system."
        )
    page = page_of(_joined(systems))
    notes = tuple(note for note in page.notes if not note.startswith("Numbers: "))  # no files of a table's
    text = render(dataclasses.replace(page, notes=notes), format=format)
    if output is None:
        return text
    write_atomically(output, text)
    return f"{output}: {len(systems)} systems, {len(tested)} runs."


def _read_tested(run: Path) -> TestedRun:
    """A run with its test numbers; perplexities with other settings do not compare."""
    config = run / "config.yaml"
    with known_classes_alone(config):
        digest = Experiment(config).digest
    test, vocabulary = kept_test(run), file_sha256(run / VOCABULARY_FILE)
    numbers, kind = numbers_of_test(test), getattr(system_class(run), "likelihood", "unknown")
    judge, own = _KINDS[kind], _perplexities(kind)
    if kind == "pseudo":  # which words it is tested on
        arguments = arguments_at(settings_of(config), "model.init_args")
        draws = [f"{called} {arguments[name]}" for name, called in _DRAWS.items() if name in arguments]
        judge += f" ({', '.join(draws)})"
    if test.item_tokens is not None:
        tokens = f"{test.item_tokens.sum():,.0f} test tokens"
        numbers.settings[own["perplexity"]] = f"{judge}, {tokens}, vocabulary {vocabulary[:8]}"
    if test.item_words is not None:
        numbers.settings[own["word_perplexity"]] = f"{judge}, {test.item_words.sum():,.0f} test words"
    record = read_record(run)
    result = Result(
        table="runs",
        row="",
        size="",
        seed=int(record.get("seed") or 0),
        metrics={own.get(name, name): value for name, value in numbers.metrics.items()},
        not_computed={name: f"of {judge}" for other in {*_KINDS} - {kind} for name in _perplexities(other).values()},
        items={name: packed(scores) for name, scores in numbers.items.items()},
        settings=numbers.settings,
        date=str(record.get("finished") or "")[:10],
        config_sha256=digest,
        **vars(facts_of(run)),
    )
    return TestedRun(run, test, result, vocabulary)


def _perplexities(kind: str) -> dict[str, str]:
    """The names that perplexities of a kind of likelihood have here: those of different kinds do not compare."""
    end = "" if kind == "exact" else f"_{kind}"
    return {name: name + end for name in ("perplexity", "word_perplexity")}


def _difference(first: SplitNumbers, second: SplitNumbers) -> str | None:
    """How the sentences of two tests differ, or the items that they are divided into; None where they do not.

    Tests whose data are unknown must have equally many items. Else tests with different numbers of items are accepted:
    such items are not paired.
    """
    if first.data is None or second.data is None:
        numbers = {len(test.item_nll) for test in (first, second) if test.item_nll is not None}
        return f"their items are {' and '.join(map(str, sorted(numbers)))}" if len(numbers) > 1 else None
    if first.data != second.data:
        if first.sentences is None or second.sentences is None:
            return f"the digests of the test split are {first.data[:12]} and {second.data[:12]}"
        if first.sentences != second.sentences:
            return f"the digests of the test sentences are {first.sentences[:12]} and {second.sentences[:12]}"
    words = [test.item_words for test in (first, second) if test.item_words is not None]
    if len(words) > 1 and len(words[0]) == len(words[1]) and words[0].sum() == words[1].sum():
        return "the sentences are the same, but are divided into other items" if (words[0] != words[1]).any() else None
    return None


def _systems(tested: Sequence[TestedRun]) -> dict[str, list[TestedRun]]:
    """The runs of each system, by seed, under a name that no other has; of one seed again, they are of another one."""
    groups: dict[tuple[object, int], list[TestedRun]] = {}
    for run in tested:
        result = run.result
        training = (result.config_sha256, result.data.fingerprint, result.trees, result.beginning)
        alike = [other for (same, _), runs in groups.items() if same == training for other in runs]
        again = sum(other.result.seed == result.seed for other in alike)
        groups.setdefault((training, again), []).append(run)
    systems = [sorted(runs, key=lambda run: run.result.seed) for runs in groups.values()]
    named = {experiment_name(runs[0].run): runs for runs in systems}
    if len(named) < len(systems):
        named = {below_runs(str(runs[0].run.absolute())): runs for runs in systems}
    return named


def _joined(systems: Mapping[str, Sequence[TestedRun]]) -> Results:
    """The systems' numbers as those of a table, in which each is judged against every later one."""
    names = list(systems)
    notes = {name: ", ".join(str(tested.run) for tested in runs) for name, runs in systems.items()}
    rows = tuple(
        Row(name=name, against=tuple(names[place:]), note=notes[name]) for place, name in enumerate(names, start=1)
    )
    results = tuple(dataclasses.replace(tested.result, row=name) for name, runs in systems.items() for tested in runs)
    columns = tuple(_columns([tested for runs in systems.values() for tested in runs]))
    if not columns:
        raise UserError(f"{', '.join(names)} have no test measure in common.")
    caption = "Runs compared on the test split"
    definition = TableDefinition(table="runs", caption=caption, source="", columns=columns, rows=rows, sizes=("",))
    return Results(definition, "", results, frozenset(names))


def _columns(tested: Sequence[TestedRun]) -> Iterator[Column]:
    """The perplexities of each kind, tested per token of one vocabulary, else per word; and what all runs have."""
    shared = set.intersection(*(set(run.result.metrics) for run in tested))
    for kind, words in _KINDS.items():
        per_token, per_word = _perplexities(kind).values()
        own = [run for run in tested if per_token in run.result.metrics]
        by_word = len({run.vocabulary for run in own}) > 1 and all("words" in run.result.items for run in own)
        header = "" if kind == "exact" else f", {words}"
        if by_word:
            yield Column(
                key=per_word,
                header=f"PPL per word{header}",
                higher_better=False,
                test="paired_t",
                items="word_perplexity",
            )
        if own:
            yield Column(
                key=per_token,
                header=f"PPL per token{header}",
                higher_better=None if by_word else False,
                test="none" if by_word else "paired_t",
                items="perplexity",
            )
    kinds = {name for kind in _KINDS for name in _perplexities(kind).values()}
    for name in sorted(shared - kinds - {*_UNSHOWN}):
        if not name.endswith(("_low", "_high")):
            yield Column(key=name, header=name, higher_better=True if name.endswith(_DIRECTED) else None)
