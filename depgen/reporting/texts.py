"""A row's texts and what they are worth: written at every nucleus that the table has a column for, then measured."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from depgen.errors import UserError
from depgen.evaluation.text.measures import TextEvaluation, TextOptions, text_metrics
from depgen.evaluation.text.oracle import trained_oracle
from depgen.evaluation.union.scoring import ROCSTORIES
from depgen.locations import file_sha256
from depgen.reporting.definition import Column, TableDefinition
from depgen.reporting.experiments import experiment_of
from depgen.reporting.jobs import Job, generate, how_written, prompts_of
from depgen.reporting.numbers import Generation, Numbers, TrainedRow
from depgen.reporting.results import UNKNOWN
from depgen.training.experiment_runs import Depgen
from depgen.training.runs import best_checkpoint

_Value = TypeVar("_Value")

OF_AN_ORACLE = ("lm", "rlm", "oracle_perplexity")
"""The text measures that a table's oracle takes."""


def _named(evaluation: TextEvaluation, names: Mapping[str, str]) -> Numbers:
    """Measures of texts under other names; shares of unknown words are metrics too, named after their measure."""
    unknown = _renamed(evaluation.unknown, names)
    return Numbers(
        _renamed(evaluation.metrics, names) | {f"{name}{UNKNOWN}": share for name, share in unknown.items()},
        _renamed(evaluation.items, names),
        _renamed(evaluation.settings, names),
        _renamed(evaluation.not_computed, names),
    )


def _renamed(found: Mapping[str, _Value], names: Mapping[str, str]) -> dict[str, _Value]:
    return {name: found[measure] for measure, name in names.items() if measure in found}


def measure_texts(row: TrainedRow) -> Numbers:
    """The text measures of a row, on the texts of each nucleus; `texts` and `empty` count over all of them.

    Raises:
        UserError: the model does not write, or a measure can't be had.
    """
    job = row.job
    generation = job.generation
    assert generation is not None
    prompts = None if generation.samples is not None else prompts_of(row.corpus, generation)
    found = Numbers()
    texts = empty = 0
    for top_p, columns in nuclei(job.definition, generation).items():
        written = generate(job, row.trained, prompts, top_p=top_p, device=row.options.device)
        evaluation = text_metrics(
            list(written),
            None if prompts is None else list(prompts.references),
            options_for(job, columns, row.options, row.depgen),
            prompts=None if prompts is None else prompts.prompts,
        )
        texts, empty = texts + evaluation.texts, empty + evaluation.empty
        if any(column.top_p is None for column in columns):
            found.add(_named(evaluation, {name: name for name in (*evaluation.metrics, *evaluation.not_computed)}))
        for column in columns:
            found.add(_named(evaluation, {column.measure or column.key: column.key}))
    found.metrics.update(texts=float(texts), empty=float(empty))
    return found


def options_for(job: Job, columns: Sequence[Column], options: TextOptions, depgen: Depgen) -> TextOptions:
    """The options for some columns: no model is loaded, and no oracle trained, for a measure that has none.

    Raises:
        UserError: a column wants an oracle and the table names none, or it can't be trained.
    """
    measures = {column.measure or column.key for column in columns}
    if measures.isdisjoint(OF_AN_ORACLE):
        oracle = None
    elif options.oracle is not None:
        oracle = options.oracle
    elif job.definition.oracle is None:
        raise UserError(
            f"Table {job.definition.table} has columns of an oracle, but its texts name no `oracle`: name its "
            "experiment."
        )
    else:
        experiment = experiment_of(job.definition.oracle, size=job.size)
        oracle = str(trained_oracle(experiment.file, size=experiment.size, depgen=depgen))
    return dataclasses.replace(
        options,
        bertscore_model=options.bertscore_model if "bertscore" in measures else None,
        perplexity_model=options.perplexity_model if "lm_perplexity" in measures else None,
        mauve_model=options.mauve_model if "mauve" in measures else None,
        union=(options.union or ROCSTORIES) if "union" in measures else None,
        oracle=oracle,
        reverse="rlm" in measures,
    )


def are_of_other_weights(job: Job, run: Path) -> bool:
    """Whether texts of the job lie there that say to be of other weights than a run's best checkpoint."""
    assert job.generation is not None
    digest = file_sha256(best_checkpoint(run))
    for top_p in nuclei(job.definition, job.generation):
        how = how_written(job.folder / job.generation.file_of(top_p))
        if how.get("checkpoint_sha256", digest) != digest:
            return True
    return False


def nuclei(definition: TableDefinition, generation: Generation) -> dict[float, list[Column]]:
    """The columns of each nucleus, in the table's order."""
    found: dict[float, list[Column]] = {}
    for column in definition.columns:
        found.setdefault(generation.top_p if column.top_p is None else column.top_p, []).append(column)
    return found
