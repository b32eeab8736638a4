"""The verb `evaluate`: measures of a run, of a pretrained model or of files."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import fields
from itertools import takewhile
from pathlib import Path
from typing import Any

from depgen.evaluation.measure import check_table_output, measure_function, options_class, takes_system, written
from depgen.trees.text_form import FormName


def evaluate(
    measures: Sequence[str],
    *,
    run: str | None = None,
    form: FormName | None = None,
    first_word_space: bool | None = None,
    output: Path | None = None,
    item_output: Path | None = None,
    json: bool = False,
    device: str | None = None,
    **options: Any,  # noqa: ANN401 - those of the measures
) -> Iterator[str] | None:
    """The rows of one or more measures; tab-separated.

    Args:
        measures: one or more of attachment, bracketing, coherence, corpus, correlations, dependent-loss, minimal-pairs,
            parsing, syntactic-suites, text. `depgen evaluate MEASURE --help` lists the options of one.
        run: what `depgen.load` takes; by default the newest run.
        form: what words are brought into, as in `depgen score`.
        first_word_space: whether the first word is encoded with a space before it, as in `depgen score`.
        output: a file for the rows, with commas if its name ends in `.csv`; without it they are printed.
        item_output: a file for the items, as JSON lines.
        json: JSON lines instead of tab-separated columns.
        device: cpu, cuda, …; by default a GPU where there is one.
        options: of the measures; each gets those of its dataclass.

    Raises:
        UserError: no such measure, run or file, or a system that the measure is not for.
    """
    check_table_output(item_output, json=True)
    check_table_output(output, json=json)
    functions = [measure_function(name) for name in measures]
    options["device"] = device  # which measures of texts have too
    system = None
    if any(map(takes_system, functions)):
        from depgen.evaluation.system import load

        system = load(run, device=device, form=form, first_word_space=first_word_space)
        sys.stderr.write(f"Measured: {system.checkpoint}\n")
    found = []
    for function in functions:
        kind = options_class(function)
        own = kind(**{field.name: options[field.name] for field in fields(kind) if field.name in options})
        found.append(function(system, own) if takes_system(function) else function(own))
    if item_output is not None:
        written([each.items for each in found], output=item_output, json=True)
    rows = [each.rows for each in found]
    if len(rows) > 1:
        rows = [each.assign(measure=name) for name, each in zip(measures, rows, strict=True)]
    return written(rows, output=output, json=json, digits=4)


def options_of_measures(arguments: Sequence[str]) -> list[type]:
    """The dataclasses of the options of the measures that are named before the first option."""
    names = takewhile(lambda argument: not argument.startswith("-"), arguments)
    return [options_class(measure_function(name)) for name in names]


def options_of_heat_map(arguments: Sequence[str]) -> list[type]:
    """The dataclass of the options of the measure that `plot heat-map` draws."""
    return [options_class(measure_function("correlations"))]
