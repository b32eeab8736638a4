"""What is printed below a table: its marks, what does not compare, what is missing, verdicts, and the runs."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from depgen.metrics.significance import levene_over_seeds
from depgen.reporting.age import Age
from depgen.reporting.compare import LEVEL, SystemComparison
from depgen.reporting.definition import Column, Row
from depgen.reporting.extras import mean_of, p_value_in_words, tokens_of
from depgen.reporting.intervals import CONFIDENCE, RESAMPLES, SEED
from depgen.reporting.results import BOUND, OF_DOCUMENTS, UNKNOWN, Result
from depgen.reporting.store import Ours

MATCHED = 0.01
"""How far, relative, the training tokens of compared systems may lie apart."""
_LETTERS = "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲ"
UNMEASURED = "not measured; --remeasure computes it where the run is kept"
SEVERAL_JUDGES = "its seeds were judged by different models, over which there is no mean"


def notes_of(
    ours: Ours,
    comparisons: Sequence[SystemComparison],
    tests: int,
    outdated: Mapping[tuple[str, int], Age],
) -> list[str]:
    """At most ten lines, each of one kind.

    Args:
        ours: all numbers of the table.
        comparisons: of its systems.
        tests: how many tests these are corrected for.
        outdated: why local results are out of date, by row and seed.
    """
    definition = ours.definition
    kinds: Sequence[tuple[str, Iterable[str]]] = (
        ("Numbers", _sources(ours)),
        ("Marks", _marks(ours, tests)),
        ("Compare with care", (*_outdated(ours, outdated), *_care(ours))),
        ("Not computed", _not_computed(ours)),
        ("Not compared", _not_compared(ours, comparisons)),
        ("Columns", [f"{each.header}: {each.explanation}" for each in definition.columns if each.explanation]),
        ("Settings", _settings(ours)),
        ("Rows", (*_rows(ours), *_spreads(ours))),
        ("Texts", _texts(ours)),
        ("Notes", definition.notes),
    )
    return [
        f"{kind}: {'; '.join(each.rstrip('.') for each in lines)}." for kind, given in kinds if (lines := list(given))
    ]


def _sources(ours: Ours) -> Iterator[str]:
    """Where the numbers of each line come from."""
    definition = ours.definition
    found = {ours.source(result.row) for result in ours.results}
    published = any(row.values for row in definition.rows)
    if published:
        yield f"paper: {definition.source}, with its own marks"
    if found & {"measured", "joined"}:
        yield "measured: tracked in experiments/measured"
    if found & {"local", "joined"}:
        yield f"local: from results/{definition.table}"
    if "joined" in found:
        yield "joined: local seeds and tracked ones of the same training"
    if published and found:
        yield "difference: ours less the paper's"
    if not found and any(row.trained is not None for row in definition.rows):
        yield f"nothing of ours yet at size {ours.size}: depgen reproduce {definition.argument}"


_TESTS = {
    "paired_t": "paired t-test",
    "paired_bootstrap": "paired bootstrap",
    "welch_t": "Welch's t-test",
    "none": "none",
}


def _marks(ours: Ours, tests: int) -> Iterator[str]:
    """What the signs in the cells mean."""
    definition = ours.definition
    if ours.results:
        yield "±: standard deviation over seeds"
        yield (
            f"[low, high]: {100 * CONFIDENCE:.0f} % bootstrap percentile interval over test items ({RESAMPLES:,} "
            f"resamples, seed {SEED}), the models held fixed"
        )
        directed = [column for column in definition.ours if column.higher_better is not None]
        by_test = {name: [each.header for each in directed if each.test == name] for name in _TESTS}
        used = "; ".join(f"{_TESTS[name]}: {_listed(headers)}" for name, headers in by_test.items() if headers)
        if directed:
            number = f"{tests} test{'' if tests == 1 else 's'}"
            corrected = f", corrected by Holm's method over the table's {number}" if tests else ""
            yield (
                f"*: better than the best other system of its group, two-sided p < {LEVEL} over seeds (Welch's t-test) "
                f"and, where items are tested, over items ({used}){corrected}; a recorded test keeps its correction"
            )
            named = len(definition.named_pairs)
            family = f"{named} pairs of the verdicts, those without a test included; other pairs apart" if named else ""
            yield f"p over seeds: corrected by Holm's method, in each measure over the {family or 'pairs of its marks'}"
            yield "°: the same over items only, of runs whose seeds allow no test: it says nothing of other seeds"
            yield (
                "gains in the verdicts: positive where the system named first is better, also where lower figures are "
                "better"
            )
    if judges := max((len(judges_of(ours, column.key)) for column in definition.columns), default=0):
        yield f"{' '.join(_LETTERS[:judges])}: judged by different models (see Settings), not compared with one another"
    if partial := list(_partial(ours)):
        yield f"‡: over some of the row's seeds only ({'; '.join(partial)})"
    if any(row.values for row in definition.rows) and not all(row.in_paper or row.is_floor for row in definition.rows):
        yield "†: not in the paper"
    if ours.results:
        yield "n/c: not computed"


def _partial(ours: Ours) -> Iterator[str]:
    """Which numbers are over fewer seeds than their row has."""
    for row, column in itertools.product(ours.definition.rows, ours.definition.ours):
        figure, seeds = ours.figure(row.name, column.key), len(ours.of(row.name))
        if figure is not None and len(figure.values) < seeds:
            yield f"{row.name} {column.header}: {len(figure.values)} of {seeds}"


def _outdated(ours: Ours, outdated: Mapping[tuple[str, int], Age]) -> Iterator[str]:
    """The rows and seeds of each reason, and how to make them again."""
    seeds = _grouped(((row, age.reason), str(seed)) for (row, seed), age in outdated.items())
    for (row, reason), each in seeds.items():
        several = len(each) > 1
        yield f"{row}, seed{'s' * several} {_listed(each)} {'are' if several else 'is'} out of date: {reason}"
    for remedy in dict.fromkeys(age.remedy for age in outdated.values()):
        yield f"`depgen reproduce {ours.definition.argument} --size {ours.size} --row ROW {remedy}` makes a row again"


def _care(ours: Ours) -> Iterator[str]:
    """What keeps rows from being compared with one another or with the paper."""
    yield from _reduced(ours)
    yield from _other_data(ours)
    yield from _budgets(ours)
    yield from _weights(ours)
    yield from _unknown(ours)
    for row in ours.definition.rows:
        if len({result.config_sha256 for result in ours.of(row.name)}) > 1:
            yield f"the seeds of {row.name} are of different configurations"
    rows = _grouped((result.made_before, row.name) for row, result in _results(ours))
    for change, names in sorted((change, names) for change, names in rows.items() if change is not None):
        yield f"made before {change}: {_rows_listed(ours, names)}"


def _reduced(ours: Ours) -> Iterator[str]:
    """A warning where ours saw less data than the published systems, unless a row shows other data on purpose."""
    reduced = [row for row, result in _results(ours) if result.data.reduced and row.floor != "corpus"]
    names = list(dict.fromkeys(row.name for row in reduced if row.values or not row.other_data))
    if names and any(row.values for row in ours.definition.rows):
        yield (
            f"trained on less data than was published ({_rows_listed(ours, names)}), so that differences from the "
            "paper are no verdict on a system"
        )


def _other_data(ours: Ours) -> Iterator[str]:
    """A warning where not all systems saw the same data, or parts of one corpus; a floor's rule saw none."""
    same = [(row, result) for row, result in _results(ours) if not row.is_floor and not row.other_data]
    versions = _grouped((result.data.fingerprint, row.name) for row, result in same)
    if len(versions) > 1:
        yield f"NOT the same data (text or reading options differ): {' | '.join(map(_listed, versions.values()))}"


def _budgets(ours: Ours) -> Iterator[str]:
    """The groups whose systems saw different numbers of training tokens."""
    definition = ours.definition
    for group in dict.fromkeys(row.group for row in definition.rows):
        means = {row.name: mean_of(ours, row, tokens_of) for row in definition.rows if row.group == group}
        seen = {name: tokens for name, tokens in means.items() if tokens is not None}
        if len(seen) > 1 and max(seen.values()) > (1 + MATCHED) * min(seen.values()):
            each = _listed([f"{name} {tokens:,.0f}" for name, tokens in seen.items()])
            yield f"training tokens{f' of {group}' if group else ''} NOT matched: {each}"


def _weights(ours: Ours) -> Iterator[str]:
    """The groups whose systems began from different weights."""
    for group in dict.fromkeys(row.group for row in ours.definition.rows):
        results = [each for each in _results(ours) if each[0].group == group and each[1].beginning is not None]
        begun = _grouped((result.beginning, row.name) for row, result in results)
        if len(begun) > 1:
            parts = " | ".join(f"{_listed(names)} ({beginning})" for beginning, names in begun.items())
            yield f"NOT begun from the same weights: {parts}"


def _results(ours: Ours) -> Iterator[tuple[Row, Result]]:
    """Every result of ours with its row, in the table's order."""
    yield from ((row, result) for row in ours.definition.rows for result in ours.of(row.name))


_Key = TypeVar("_Key")


def _grouped(pairs: Iterable[tuple[_Key, str]]) -> dict[_Key, list[str]]:
    """The names of each key, each once; both in order.

    >>> _grouped([("a", "x"), ("b", "y"), ("a", "z"), ("a", "x")])
    {'a': ['x', 'z'], 'b': ['y']}
    """
    found: dict[_Key, list[str]] = {}
    for key, name in dict.fromkeys(pairs):
        found.setdefault(key, []).append(name)
    return found


def _unknown(ours: Ours) -> Iterator[str]:
    """Perplexities over different shares of unknown words, and shares of them that a judge reads."""
    for column in ours.definition.columns:
        of_documents = (column.key + OF_DOCUMENTS, ": words that are <unk>", 1)
        of_texts = (column.key + UNKNOWN, ": words of the texts that the oracle reads as <unk>", 1)
        unequal = ("unk_rate", " over unequal shares of <unk>", 2)
        for key, said, least in (unequal if column.key == "perplexity" else of_documents, of_texts):
            figures = [(row.name, ours.figure(row.name, key)) for row in ours.definition.rows]
            shares = _grouped((f"{100 * each.mean:.2f} %", name) for name, each in figures if each is not None)
            if len(shares) >= least:
                listed = ", ".join(f"{share} ({_listed(names)})" for share, names in shares.items())
                yield f"{column.header}{said}: {listed}"


def _not_computed(ours: Ours) -> Iterator[str]:
    """Each missing measure with its reason, rows of the same reason together; and how to measure again."""
    definition = ours.definition
    rows_of = _grouped(
        ((column.header, reason), row.name)
        for column, row in itertools.product(definition.ours, definition.rows)
        if (reason := reason_of(ours, row, column)) is not None
    )
    missing = _grouped(((reason, tuple(names)), header) for (header, reason), names in rows_of.items())
    for (reason, rows), headers in missing.items():
        yield f"{_listed(headers)} ({_rows_listed(ours, rows)}): {reason.rstrip('.')}"
    if missing and definition.generation is not None:
        yield f"`{definition.command(ours.size, option='--remeasure')}` measures the texts again without training"
    if alone := [column.header for column in definition.columns if column.published_only]:
        yield f"{_listed(alone)}: the data are not at hand"


def reason_of(ours: Ours, row: Row, column: Column) -> str | None:
    """Why a row has no figure of a measure of ours; None where it has one, or is not expected to.

    What is measured has a figure or a reason for every column of the table at that time; the sizes of a corpus and the
    perplexity under a source are all that their rows have.
    """
    results = ours.of(row.name)
    if not results or column.published_only or ours.figure(row.name, column.key) is not None:
        return None
    if any(column.key in result.metrics for result in results):
        return SEVERAL_JUDGES
    said = dict.fromkeys(result.not_computed[column.key] for result in results if column.key in result.not_computed)
    if said:
        return "; ".join(said)
    return None if row.is_floor and row.experiment is not None else UNMEASURED


def _not_compared(ours: Ours, comparisons: Sequence[SystemComparison]) -> Iterator[str]:
    """Which measures of which systems do not compare, and why."""
    rows = [row.name for row in ours.definition.rows]
    found = [each for each in comparisons if each.incomparable is not None]
    for reason, columns in _grouped((str(each.incomparable), each.column) for each in found).items():
        headers = [column.header for column in ours.definition.columns if column.key in columns]
        pairs = {frozenset((each.row, each.other)) for each in found if each.incomparable == reason}
        listed = " | ".join(" / ".join(pair) for pair in itertools.combinations(rows, 2) if frozenset(pair) in pairs)
        yield f"{_listed(headers)}, {reason}: {listed}"


def judges_of(ours: Ours, measure: str) -> dict[str, str]:
    """A letter for each judge of a measure's numbers; empty where there is one, with whom all compare."""
    judges = dict.fromkeys(figure.judge for (_, key), figure in ours.figures.items() if key == measure)
    return dict(zip(judges, _LETTERS, strict=False)) if len(judges) > 1 else {}


def _settings(ours: Ours) -> Iterator[str]:
    """What a measure depends on, once for each different setting, with its letter where a measure has several."""
    columns: dict[str, list[str]] = {}
    for column in ours.definition.columns:
        letters = judges_of(ours, column.key)
        for key in (column.key, column.key + BOUND):
            rows = _grouped((each.settings[key], each.row) for each in ours.results if key in each.settings)
            for setting in (*(each for each in letters if each in rows), *sorted(rows.keys() - letters)):
                is_named = len(rows) > 1 or key != column.key
                of = letters.get(setting, f" ({_listed(rows[setting])})") if is_named else ""
                columns.setdefault(setting, []).append(column.header + of)
    for setting, headers in columns.items():
        yield f"{_listed(headers)}: {setting}"


def _rows(ours: Ours) -> Iterator[str]:
    """What is to be known of single rows."""
    for row in ours.definition.rows:
        if row.note is not None:
            yield f"{row.name}: {row.note}"
        floor = ours.figure(row.name, "perplexity")
        if row.floor == "source" and floor is not None:
            yield f"{row.name}: perplexity of the test split under the source {floor.mean:.2f}"


def _spreads(ours: Ours) -> Iterator[str]:
    """How far the seeds of rows lie apart that are judged against one another, and whether one spread is larger."""
    definition = ours.definition
    for column, row in itertools.product(definition.columns, definition.rows):
        for other in row.against if column.spread else ():
            figures = [(name, ours.figure(name, column.key)) for name in (row.name, other)]
            found = [(name, list(figure.values.values())) for name, figure in figures if figure is not None]
            if len(found) == 2 and (p_value := levene_over_seeds(found[0][1], found[1][1])) is not None:
                digits = column.decimals
                ranges = [f"{name} {min(each):.{digits}f} to {max(each):.{digits}f}" for name, each in found]
                tested = f"Levene's test that they spread alike: {p_value_in_words(p_value)}"
                yield f"{column.header} over seeds: {' | '.join(ranges)} ({tested})"


def _texts(ours: Ours) -> Iterator[str]:
    """How texts were made, rows with the same settings together."""
    definition = ours.definition
    if definition.generation is None:
        return
    ways = _grouped((result.generation, row.name) for row, result in _results(ours) if not row.is_floor)
    own = sorted({column.top_p for column in definition.columns if column.top_p is not None})
    for way, names in ways.items():
        made = way or definition.generation
        begun = (
            f"each prompt is the first {made.prompt_sentences} sentences of a test document, the next is the reference"
            if made.samples is None
            else f"{made.samples:,} without a prompt, for each seed"
        )
        of = f"{_rows_listed(ours, names)}: " if len(ways) > 1 else ""
        yield (
            f"{of}{begun}, top-p {', '.join(map(str, own)) or made.top_p}, temperature {made.temperature}, sampling "
            f"seed {made.seed} + the run's, at most {made.max_new_tokens} tokens"
            + ("" if way is not None else " (the table's settings of today; these results do not keep theirs)")
        )


def _rows_listed(ours: Ours, names: Sequence[str]) -> str:
    """The names of rows; `all rows` where these are all that have results."""
    return "all rows" if set(names) >= {each.row for each in ours.results} else _listed(names)


def _listed(names: Sequence[str]) -> str:
    """Names with commas between, or semicolons where a name holds a comma.

    >>> _listed(["DM-Transformer", "DM-Transformer, left chain"])
    'DM-Transformer; DM-Transformer, left chain'
    """
    return ("; " if any("," in name for name in names) else ", ").join(names)
