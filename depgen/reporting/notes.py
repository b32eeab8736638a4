"""The lines under a table: what the marks mean, who wins, what is missing, and where every number comes from."""

from collections.abc import Iterator, Mapping, Sequence

from depgen.reporting.comparison import LEVEL, Results, SystemComparison, empty_texts, judges, seeds_scored, summarise
from depgen.reporting.definition import Column, Generation, Row, TableDefinition
from depgen.reporting.digests import change_since
from depgen.reporting.measured import Ours
from depgen.reporting.resamples import differences
from depgen.reporting.results import OF_DOCUMENTS, UNKNOWN, Result
from depgen.reporting.verdicts import verdicts

MATCHED = 0.01


def notes_of(
    definition: TableDefinition,
    *,
    size: str,
    ours: Mapping[str, Ours],
    comparisons: Sequence[SystemComparison],
    tests: int,
) -> list[str]:
    """Every line under the table, in order."""
    results = {name: each.results for name, each in ours.items()}
    shown = {name: each.shown for name, each in ours.items()}
    lines = list(_marks(definition, ours, tests))
    lines += _scored(definition, ours)
    lines += _before_changes(definition, shown)
    lines += _reduced(definition, shown)
    lines += verdicts(definition, comparisons)
    lines += differences(definition, results)
    lines += _not_computed(definition, size, shown)
    if alone := [column.header for column in definition.columns if column.published_only]:
        lines.append(f"Only the paper has {_listed(alone)}: the data are not at hand, and ours stay empty.")
    lines += _empty(definition, comparisons, shown)
    for column in definition.columns:
        if column.explanation is not None:
            lines.append(f"{column.header}: {column.explanation}.")
        lines += _unknown(column, definition, shown)
    lines += _unknown_to_judges(definition, shown)
    lines += _settings(definition, shown)
    lines += [f"{row.name}: {row.note}." for row in definition.rows if row.note is not None]
    for row in definition.rows:
        lines += _floor(row, shown.get(row.name, ()))
    lines += _budget(definition, shown)
    lines += _time(definition, shown)
    lines += _data(definition, shown)
    lines += _weights(definition, shown)
    lines += _precision(definition, shown)
    for row in definition.rows:
        each = ours[row.name]
        lines += _origin(row, "local and measured" if each.joined else "local", each.results)
    for row in definition.rows:
        lines += _origin(row, "measured", () if (apart := ours[row.name].apart) is None else apart.results)
    lines += _texts(definition, shown)
    if any(shown.get(row.name) for row in definition.rows if not row.is_floor):
        lines.append("Seeds vary weights, dropout and sampling; the order of the data is the same for all.")
    if not any(shown.values()) and any(row.experiment is not None for row in definition.rows):
        lines.append(f"Nothing of ours yet at size {size}: depgen reproduce {definition.argument}.")
    return lines + [f"{note.rstrip('.')}." for note in definition.notes]


def _marks(definition: TableDefinition, ours: Mapping[str, Ours], tests: int) -> Iterator[str]:
    """What the signs in the cells mean."""
    local = any(each.results for each in ours.values())
    measured = any(each.apart is not None for each in ours.values())
    if any(row.values for row in definition.rows):
        yield f"paper: {definition.source}; * there is the paper's own mark."
    sizes = all(column.higher_better is None for column in definition.columns)
    if measured:
        best = "; * significantly better than the best other system of its block, by a test when recorded"
        yield f"measured: tracked in experiments/measured{'' if sizes else best}."
    if local and sizes:
        yield f"local: from results/{definition.table}."
    elif local:
        star = (
            f"local: from results/{definition.table}, mean over seeds; * significantly better than the best other "
            f"system of its block, p < {LEVEL}"
        )
        correction = (
            f", Holm's correction over the table's {tests} test{'' if tests == 1 else 's'}"
            if tests
            else "; nothing to test yet"
        )
        how = "two-sided; paired over items, their scores averaged over seeds, unless said otherwise"
        yield f"{star} ({how}{correction})."
        by_test: dict[str, list[str]] = {"paired_t": [], "paired_bootstrap": [], "welch_t": []}
        by_test |= {"none": []}
        for column in definition.ours:
            if column.higher_better is not None:
                by_test[column.test].append(column.header)
        names = {
            "paired_t": "paired t-test",
            "paired_bootstrap": "paired bootstrap",
            "welch_t": "Welch's t-test for independent samples, those of all seeds together",
            "none": "not tested",
        }
        yield "Tests: " + "; ".join(f"{names[test]}: {', '.join(on)}" for test, on in by_test.items() if on) + "."
    if any(row.values for row in definition.rows) and (measured or local):
        yield "difference: ours (local if there is one, else measured) less the paper's. n/c: not computed, see below."
    if any(row.values for row in definition.rows) and not all(row.in_paper or row.is_floor for row in definition.rows):
        yield "†: not in the paper."


def _scored(definition: TableDefinition, ours: Mapping[str, Ours]) -> Iterator[str]:
    """What joined lines are, and which rows have intervals and tests by some of their seeds only."""
    if any(each.joined for each in ours.values()):
        yield (
            "joined: local seeds and those of the same configuration tracked in experiments/measured, as one system; "
            "tracked seeds keep no per-item scores, so that intervals and tests are by those of the local ones."
        )
    for name, each in ours.items():
        seeds = dict.fromkeys(seeds_scored(definition, each.results) if each.results else ())
        if each.apart is not None and not each.results:
            seeds = dict.fromkeys(each.apart.scored_seeds)
        if seeds and len(seeds) < len(each.shown):
            of = f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))} alone (of {len(each.shown)})"
            yield f"{name}: intervals, around the mean of all, and tests by the items of {of}."


def _not_computed(definition: TableDefinition, size: str, shown: Results) -> Iterator[str]:
    """Each missing measure with its reason, rows of the same reason together; and how to measure again."""
    missing: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for column in definition.ours:
        reasons: dict[str, list[str]] = {}
        for row in definition.rows:
            for reason in why_missing(row, column, shown.get(row.name, ())):
                reasons.setdefault(reason, []).append(row.name)
        for reason, names in reasons.items():
            missing.setdefault((reason, tuple(names)), []).append(column.header)
    if missing and definition.generation is not None:
        command = f"depgen reproduce {definition.argument} --size {size} --remeasure"
        yield f"n/c: `{command}` measures the texts again once what was missing is there, without training."
    for (reason, rows), headers in missing.items():
        yield f"Not computed: {_listed(headers)} ({_listed(rows)}): {reason.rstrip('.')}."


def why_missing(row: Row, column: Column, results: Sequence[Result]) -> list[str]:
    """Why seeds of a row have no figure of a measure of ours, each reason once.

    What is measured has a figure or a reason for every column that the table has then; sizes of a corpus and the
    perplexity under a source are all that their rows are asked for.
    """
    said = [result.not_computed[column.key] for result in results if column.key in result.not_computed]
    asked = row.corpus_of is None and row.floor_of is None
    if asked and any(column.key not in {*result.metrics, *result.not_computed} for result in results):
        said.append("measured before the table had this column (--remeasure computes it where the run is kept)")
    if len(judges(results, column.key)) > 1:
        said.append("its seeds were judged by different models, over which there is no mean")
    return list(dict.fromkeys(said))


def _empty(definition: TableDefinition, comparisons: Sequence[SystemComparison], shown: Results) -> Iterator[str]:
    """How many texts of each row are empty, if any is; and which measures of which systems do not compare for that."""
    counted = {row.name: count for row in definition.rows if (count := empty_texts(shown.get(row.name, ())))}
    written = "texts" if definition.generation is not None and definition.generation.samples else "endings"
    if any(empty for empty, _ in counted.values()):
        for name, (empty, texts) in counted.items():
            yield f"{name}: {empty:,} of {texts:,} {written} are empty."
    headers: dict[str, dict[str, None]] = {}
    for item in comparisons:
        if item.incomparable is not None:
            headers.setdefault(item.incomparable, {})[definition.column(item.column).header] = None
    for reason, names in headers.items():
        yield f"Not compared: {_listed(list(names))}, since {reason}; no star and no verdict between these two."


def _texts(definition: TableDefinition, shown: Results) -> Iterator[str]:
    """How texts were made, rows that made them alike together."""
    if definition.generation is None:
        return
    ways: dict[Generation | None, list[str]] = {}
    for row in definition.rows:
        for result in shown.get(row.name, ()) if not row.is_floor else ():
            names = ways.setdefault(result.generation, [])
            if row.name not in names:
                names.append(row.name)
    for way, names in ways.items():
        made = way or definition.generation
        of = f" of {_listed(names)}" if len(ways) > 1 else ""
        begun = (
            f"prompted with the first {made.prompt_sentences} sentences of each test document, the next one is the "
            "reference"
            if made.samples is None
            else f"{made.samples:,} from nothing, for each seed"
        )
        own = sorted({column.top_p for column in definition.columns if column.top_p is not None})
        nucleus = ", ".join(map(str, own)) or made.top_p
        line = (
            f"Texts{of}: {begun}; top-p {nucleus}, temperature {made.temperature}, sampling seed {made.seed} + the "
            f"run's, at most {made.max_new_tokens} tokens"
        )
        kept = "" if way is not None else " (as the table says now; these results do not keep their settings)"
        yield f"{line}{kept}."


def _settings(definition: TableDefinition, shown: Results) -> Iterator[str]:
    """What a measure depends on, once for each different setting, with its rows where a measure has several."""
    columns: dict[str, list[str]] = {}
    for column in definition.columns:
        settings: dict[str, dict[str, None]] = {}
        for row in definition.rows:
            for result in shown.get(row.name, ()):
                if column.key in result.settings:
                    settings.setdefault(result.settings[column.key], {})[row.name] = None
        for setting, names in sorted(settings.items()):
            of = f" ({_listed(list(names))})" if len(settings) > 1 else ""
            columns.setdefault(setting, []).append(column.header + of)
    for setting, headers in columns.items():
        yield f"{_listed(headers)} settings: {setting}."


def _unknown(column: Column, definition: TableDefinition, shown: Results) -> Iterator[str]:
    """How many of the tokens that a perplexity, or of the words that a judgement of documents, is over are `<unk>`.

    Systems of the same share stand together.
    """
    likelihood = column.key == "perplexity"
    key, shares = "unk_rate" if likelihood else column.key + OF_DOCUMENTS, dict[str, list[str]]()
    for row in definition.rows:
        found = [result.metrics[key] for result in shown.get(row.name, ()) if key in result.metrics]
        if found:
            shares.setdefault(f"{100 * sum(found) / len(found):.2f} %", []).append(row.name)
    if shares:
        each = "; ".join(f"{share} ({_listed(names)})" for share, names in shares.items())
        unequal = "; perplexities with unequal shares do not compare" if likelihood and len(shares) > 1 else ""
        yield f"{column.header}: {'test tokens' if likelihood else 'words'} that are <unk>: {each}{unequal}."


def _unknown_to_judges(definition: TableDefinition, shown: Results) -> Iterator[str]:
    """How much of each row's texts the judge of a measure could not read, by which it spares them."""
    for row in definition.rows:
        means = ((each.header, summarise(shown.get(row.name, ()), each.key + UNKNOWN)) for each in definition.columns)
        shares = [f"{header} {100 * share.mean:.2f} %" for header, share in means if share is not None]
        if shares:
            yield f"{row.name}: words of its texts that the oracle reads as <unk>: {', '.join(shares)}."


def _floor(row: Row, results: Sequence[Result]) -> Iterator[str]:
    """The source's perplexity on the test stories, and its own."""
    if not row.is_floor or not results or "perplexity" not in results[0].metrics:
        return
    metrics = results[0].metrics
    line = f"{row.name}: perplexity of the test stories under the source {metrics['perplexity']:.2f}"
    if "source_perplexity" in metrics:
        line += f"; of the source itself {metrics['source_perplexity']:.2f} (exact entropy per token)"
    yield f"{line}."


def _before_changes(definition: TableDefinition, shown: Results) -> Iterator[str]:
    """The rows whose numbers were made before a change that touches them, and have not been made again."""
    rows: dict[str, list[str]] = {}
    for row in definition.rows:
        for change in {change_since(result.config_sha256) for result in shown.get(row.name, ())}:
            if change is not None:
                rows.setdefault(change, []).append(row.name)
    for change, names in sorted(rows.items()):
        yield f"Before {change}: {'; '.join(names)}."


def _reduced(definition: TableDefinition, shown: Results) -> Iterator[str]:
    """A warning where published numbers stand beside ones from less data, unless sizes are what the table is about."""
    trained = [row for row in definition.rows if row.corpus_of is None and not definition.sizes_vary]
    names = [row.name for row in trained if any(result.data.reduced for result in shown.get(row.name, ()))]
    if names and any(row.values for row in definition.rows):
        yield (
            f"Trained on less data than was published ({_listed(names)}): compare these rows with one another; their "
            "difference from the paper is no verdict on the system."
        )


def _budget(definition: TableDefinition, shown: Results) -> Iterator[str]:
    """Whether the systems of each block saw the same number of training tokens."""
    groups: dict[str | None, list[Row]] = {}
    for row in definition.rows:
        groups.setdefault(row.group, []).append(row)
    for group, rows in groups.items():
        seen = {row.name: tokens for row in rows if (tokens := _tokens(shown.get(row.name, ()))) is not None}
        if len(seen) < 2:
            continue
        matched = max(seen.values()) <= (1 + MATCHED) * min(seen.values())
        each = ", ".join(f"{name} {tokens:,.0f}" for name, tokens in seen.items())
        words = "matched (within 1 %)" if matched else "NOT matched"
        yield f"Budget{f' of {group}' if group else ''}, training tokens seen over all phases: {words}: {each}."


def _time(definition: TableDefinition, shown: Results) -> Iterator[str]:
    """What training took on processors, by which rows compare that ran beside other work; on a GPU that says little."""
    taken = {}
    for row in definition.rows:
        on_cpu = [each for each in shown.get(row.name, ()) if each.hardware.startswith("CPU")]
        minutes = [each.processor_seconds / 60 for each in on_cpu if each.processor_seconds is not None]
        if minutes:
            taken[row.name] = f"{row.name} {sum(minutes) / len(minutes):.0f}"
    if taken:
        yield f"Training, minutes of processor time, validation included: {_listed(list(taken.values()))}."


def _data(definition: TableDefinition, shown: Results) -> Iterator[str]:
    """A warning where not all systems saw the same data, or parts of one corpus; a floor's rule saw none."""
    versions: dict[str | None, list[str]] = {}
    for row in definition.rows:
        if row.floor is not None or row.corpus_of is not None or row.other_data:
            continue
        sources = [result.data for result in shown.get(row.name, ())]
        for version in dict.fromkeys(each.corpus if definition.sizes_vary else each.fingerprint for each in sources):
            versions.setdefault(version, []).append(row.name)
    if len(versions) > 1:
        parts = " | ".join(", ".join(names) for names in versions.values())
        yield f"NOT the same data (text or reading options differ), so these don't compare: {parts}."


def _weights(definition: TableDefinition, shown: Results) -> Iterator[str]:
    """A warning where systems of a block that may be pretrained began from different weights."""
    groups: dict[str | None, dict[str, list[str]]] = {}
    for row in definition.rows:
        for beginning in dict.fromkeys(result.beginning for result in shown.get(row.name, ())):
            if beginning is not None:
                groups.setdefault(row.group, {}).setdefault(beginning, []).append(row.name)
    for begun in groups.values():
        if len(begun) > 1:
            parts = " | ".join(f"{_listed(names)} ({beginning})" for beginning, names in begun.items())
            yield f"NOT begun from the same weights, so these don't compare: {parts}."


def _precision(definition: TableDefinition, shown: Results) -> Iterator[str]:
    """Which rows were trained in another precision than their experiments ask for, and by which seeds."""
    for row in definition.rows:
        others: dict[str, list[str]] = {}
        for result in shown.get(row.name, ()):
            if result.precision is not None:
                others.setdefault(result.precision, []).append(str(result.seed))
        for precision, seeds in others.items():
            yield (
                f"{row.name}, seed{'s' if len(seeds) > 1 else ''} {', '.join(seeds)}: trained in {precision}, not in "
                "the precision of the experiment; networks differ by rounding, as they do between machines."
            )


def _listed(names: Sequence[str]) -> str:
    """Names with commas between, or semicolons where a name holds a comma.

    >>> _listed(["DM-Transformer", "DM-Transformer, left chain"])
    'DM-Transformer; DM-Transformer, left chain'
    """
    return ("; " if any("," in name for name in names) else ", ").join(names)


def _tokens(results: Sequence[Result]) -> float | None:
    counts = [result.budget.train_tokens for result in results if result.budget.train_tokens is not None]
    return sum(counts) / len(counts) if counts else None


def _origin(row: Row, source: str, results: Sequence[Result]) -> Iterator[str]:
    """Data, trees, seeds, size, machine, day and code of a row's numbers."""
    if not results:
        return
    first, seeds = results[0], ", ".join(str(result.seed) for result in results)
    data = first.data.corpus + (" (reduced)" if first.data.reduced else "")
    if first.data.train_documents is not None:
        data += f", {first.data.train_documents:,} training documents"
    parts = [data]
    if not row.is_floor:
        parts += [f"trees: {first.trees or 'none'}", f"seeds: {seeds}"]
    begun = dict.fromkeys(result.beginning for result in results if result.beginning is not None)
    if begun:
        parts.append(f"from {' / '.join(begun)}")
    if first.parameters is not None:
        parts.append(f"{first.parameters / 1e6:.1f} M parameters")
    if first.budget.epochs is not None:
        parts.append(f"{first.budget.epochs} epochs")
    for name in ("hardware", "date", "commit"):
        parts.append(" / ".join(dict.fromkeys(str(getattr(result, name)) for result in results)))
    measured_with = dict.fromkeys(result.measured_commit for result in results if result.measured_commit is not None)
    if measured_with and set(measured_with) != {result.commit for result in results}:
        parts.append(f"measured by {' / '.join(measured_with)}")
    yield f"{row.name} ({source}): " + "; ".join(parts) + "."
    if len({result.config_sha256 for result in results}) > 1:
        yield f"{row.name} ({source}): its seeds were made from different configurations."
