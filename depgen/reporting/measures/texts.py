"""A row's texts: generated into the folder of its run at every nucleus that a column has, then measured."""

import dataclasses
import json
import logging
import sys
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from depgen.errors import UserError
from depgen.evaluation.generation import json_lines
from depgen.evaluation.system import load
from depgen.evaluation.text_documents import document_of
from depgen.evaluation.text_measures import TextOptions, measure_texts
from depgen.evaluation.text_oracle import trained_oracle
from depgen.evaluation.union import scorer_of
from depgen.language_models.document import DocumentLanguageModel
from depgen.locations import runs_root, write_atomically
from depgen.reporting.jobs import Job
from depgen.reporting.measures import Measure, Numbers, TrainedRow
from depgen.reporting.results import UNKNOWN, Result
from depgen.reporting.table import Column, Generation, TableDefinition, experiment_of
from depgen.training.experiment_runs import Depgen

logger = logging.getLogger(__name__)

OF_AN_ORACLE = ("lm", "rlm", "oracle_perplexity")
"""The text measures that a table's oracle takes."""
FOLDER = "texts"
"""The folder of a run that keeps its texts."""


def prompts_of(corpus: Any, generation: Generation) -> tuple[tuple[str, ...], tuple[str, ...]]:  # noqa: ANN401
    """Prompts and references: the first sentences of the test documents, and the sentence after them."""
    prompts, references, count = [], [], generation.prompt_sentences
    assert not isinstance(generation.documents, Mapping)
    for document in islice(corpus.documents("test"), generation.documents):
        if len(document.sentences) <= count:
            raise UserError(
                f"{document.identifier}: the table wants {count} sentences as prompt and one as reference, found "
                f"{len(document.sentences)} sentences."
            )
        prompts.append(" ".join(word for sentence in document.sentences[:count] for word in sentence.words))
        references.append(" ".join(document.sentences[count].words))
    return tuple(prompts), tuple(references)


def generated(row: TrainedRow, prompts: Sequence[str] | None = None, **how: Any) -> pd.DataFrame:  # noqa: ANN401
    """One text for each prompt, a row each, as `depgen generate --json` writes them; kept as a file beside the run.

    Texts that are there already are kept: text i depends on prompt i, the settings and the weights alone. So a file of
    more texts serves as well.

    Args:
        row: whose run writes.
        prompts: what the texts continue; None for as many texts from nothing as the table wants.
        how: what differs from the table's generation, such as `top_p` and `temperature`.

    Raises:
        UserError: the model does not generate texts, or reads its prompts sentence by sentence.
    """
    generation = dataclasses.replace(row.generation, **how)
    begin = [""] * generation.number if prompts is None else list(prompts)
    name = generation.file_of(training_seed=row.job.seed, weights=row.trained.weights_sha256)
    file = row.trained.run / FOLDER / name
    with row.job.training.lock():  # another table may want the same texts
        texts = _read(file) if file.is_file() else None
        if texts is None or list(texts["prompt"][: len(begin)]) != begin:
            if texts is not None:
                logger.warning("%s is generated again: it has other prompts, or fewer.", file)
            _generate(row, begin, generation, file)
            texts = _read(file)
    return texts[: len(begin)]


def _generate(row: TrainedRow, begin: Sequence[str], generation: Generation, file: Path) -> None:
    """Write the file of texts after some prompts."""
    system = load(row.trained.run, device=row.options.device)
    if isinstance(system.model, DocumentLanguageModel):
        run = row.trained.run
        raise UserError(f"{run}: its system reads documents sentence by sentence; `Texts` measures only other systems.")
    nothing = not any(begin)
    texts = system.generate(
        None if nothing else [document_of(prompt) for prompt in begin],
        number=len(begin) if nothing else 1,
        max_new_tokens=generation.max_new_tokens,
        seed=generation.seed + row.job.seed,
        top_p=generation.top_p,
        temperature=generation.temperature,
        unknown=True,  # as the published systems
        detokenized=False,
        **generation.options,
        progress=sys.stderr.isatty(),
    )
    write_atomically(file, "".join(f"{line}\n" for line in json_lines(texts)))


def _read(file: Path) -> pd.DataFrame:
    with file.open(encoding="utf-8") as lines:
        return pd.DataFrame([json.loads(line) for line in lines])


def texts_of(result: Result, top_p: float | None = None, **how: Any) -> pd.DataFrame | None:  # noqa: ANN401
    """The texts that a result was measured on, of a nucleus, by default its table's own; None where there are none.

    Args:
        result: whose.
        top_p: the nucleus.
        how: what else differs from the generation of the result, such as `temperature`.
    """
    if result.generation is None or result.run is None or result.weights_sha256 is None:
        return None
    changes: dict[str, Any] = {**how, **({} if top_p is None else {"top_p": top_p})}
    generation = dataclasses.replace(result.generation, **changes)
    name = generation.file_of(training_seed=result.seed, weights=result.weights_sha256)
    file = runs_root() / result.run / FOLDER / name
    if not file.is_file():
        return None
    number = generation.documents if generation.samples is None else generation.number
    assert not isinstance(number, Mapping)
    return _read(file)[:number]


class Texts(Measure):
    """Measures of the texts that a row writes, on the texts of each nucleus.

    Args:
        empty: what an empty text is worth (`TextOptions.empty`); None takes that of the text measures' options.
    """

    needs = "generation"

    def __init__(self, *, empty: Literal["zero", "drop"] | None = None) -> None:
        self.empty = empty

    def measure(self, row: TrainedRow) -> Numbers:
        """The text measures of the table's columns; `texts` and `empty` count over the texts of all nuclei."""
        generation, numbers = row.generation, Numbers({"texts": 0.0, "empty": 0.0})
        options = row.options if self.empty is None else dataclasses.replace(row.options, empty=self.empty)
        prompts, references = (None, None) if generation.samples is not None else prompts_of(row.corpus, generation)
        counted = set[float]()
        for (top_p, judge), columns in judged_texts(row.job.definition, generation).items():
            texts = generated(row, prompts, top_p=top_p)
            texts = texts[["text"]] if references is None else texts.assign(reference=references)
            names = None if judge is None else {column.measure or column.key for column in columns}
            measured = measure_texts(texts, options_for(row.job, columns, options, row.depgen), names)
            measures = measured.rows.set_index("name")
            for name in ("texts", "empty") if top_p not in counted else ():
                numbers.metrics[name] += float(measures[name].iloc[0])
            counted.add(top_p)
            is_tables_own = judge is None and any(column.top_p is None for column in columns)
            own = [(name, name) for name in measures.index if is_tables_own]
            for key, name in [*own, *((column.key, column.measure or column.key) for column in columns)]:
                if name not in measures.index:
                    continue
                score = measures.loc[name]
                if pd.notna(score["not_computed"]):
                    numbers.not_computed[key] = score["not_computed"]
                    continue
                numbers.metrics[key] = float(score["value"])
                if pd.notna(score["settings"]):
                    numbers.settings[key] = score["settings"]
                if pd.notna(score["unknown"]):
                    numbers.metrics[key + UNKNOWN] = float(score["unknown"])
                if name in measured.items:
                    of_texts = measured.items["text"].notna()
                    numbers.items[key] = measured.items[name][~of_texts if name == "rlm" else of_texts].to_numpy()
        return numbers


def options_for(job: Job, columns: Sequence[Column], options: TextOptions, depgen: Depgen) -> TextOptions:
    """The options for columns of one judge: no model is loaded, and no oracle trained, for a measure that has none.

    A column's judge takes the place of the usual model, not of another one that the options name.
    """
    measures = {column.measure or column.key for column in columns}
    if measures.isdisjoint(OF_AN_ORACLE):
        oracle = None
    elif options.oracle is not None:
        oracle = options.oracle
    elif job.definition.oracle is None:
        raise UserError(
            f"Table {job.definition.table} has columns of an oracle, but it names no `oracle`: name its experiment."
        )
    else:
        experiment = experiment_of(job.definition.oracle, size=job.size)
        oracle = str(trained_oracle(experiment.file, size=experiment.size, depgen=depgen))
    judge = columns[0].judge
    encoder, causal = (
        judge if judge is not None and model == usual else model
        for model, usual in (
            (options.bertscore_model, TextOptions.bertscore_model),
            (options.perplexity_model, TextOptions.perplexity_model),
        )
    )
    return dataclasses.replace(
        options,
        bertscore_model=encoder if "bertscore" in measures else None,
        perplexity_model=causal if "lm_perplexity" in measures else None,
        union=(options.union or scorer_of(job.size)) if "union" in measures else None,
        oracle=oracle,
        reverse="rlm" in measures,
    )


def generation_of(definition: TableDefinition) -> Generation:
    """How the texts of a table are made."""
    if definition.generation is None:
        raise UserError(f"Table {definition.table} has no texts: its definition names no `generation`.")
    return definition.generation


def judged_texts(definition: TableDefinition, generation: Generation) -> dict[tuple[float, str | None], list[Column]]:
    """The columns of each nucleus and judge, in the table's order; None where columns name no judge."""
    columns: dict[tuple[float, str | None], list[Column]] = {}
    for column in definition.columns:
        nucleus = generation.top_p if column.top_p is None else column.top_p
        columns.setdefault((nucleus, column.judge), []).append(column)
    return columns
