"""The result of one row at one size and seed, from its trained model or from what needs no training."""

import math
from typing import Any

import numpy as np

from depgen.data.corpus import SPLITS
from depgen.data.experiment import data_of
from depgen.data.levels import LevelData
from depgen.data.record import DataSource, source_of
from depgen.data.record import measure as measure_corpus
from depgen.errors import UserError
from depgen.evaluation.text.measures import TextOptions
from depgen.locations import below_runs, file_sha256, lines_sha256
from depgen.reporting.jobs import Job, finished_runs, fit
from depgen.reporting.measures.parses import measure_floor, measure_trees, treebank_of_table
from depgen.reporting.measures.speed import RANDOM, measure_speed
from depgen.reporting.numbers import MeasuredRow, Numbers, TrainedRow, measures_of
from depgen.reporting.results import Result, RunFacts, packed
from depgen.reporting.run_facts import facts_of, other_precision
from depgen.reporting.table import TOKENS, WORDS
from depgen.training import provenance
from depgen.training.evaluated import SplitNumbers
from depgen.training.experiment_runs import DEV, Depgen, measure_dev, measure_test
from depgen.training.runs import best_checkpoint


def measure(job: Job, depgen: Depgen, options: TextOptions, *, remeasure: bool = False) -> Result:
    """The result of a row that is trained: fit, test, generate, each skipped once done; and the table's measures.

    With `remeasure` it is tested again where the numbers of the single items were not kept.
    """
    trained = fit(job, depgen)
    numbers = numbers_of_test(measure_test(job.training, trained.run, depgen, remeasure=remeasure))
    keys = {column.key for column in job.definition.columns}
    if any(key.startswith(DEV) for key in keys):
        numbers.metrics.update(measure_dev(job.training, trained.run, depgen))
    corpus, facts = data_of(trained.run / "config.yaml").corpus, facts_of(trained.run)
    row = TrainedRow(job=job, corpus=corpus, options=options, depgen=depgen, trained=trained, facts=facts)
    for given in measures_of(job.definition):
        measured = given.measure(row)
        for name in given.replaces if measured.metrics else ():
            numbers.metrics.pop(name, None)
            numbers.items.pop(name, None)
        numbers.add(measured)
    epochs, seen = facts.budget.epochs, facts.budget.train_tokens
    sizes = {"parameters": facts.parameters, "epoch_tokens": seen / epochs if seen and epochs else None}
    numbers.metrics.update({key: size / 1e6 for key, size in sizes.items() if key in keys and size is not None})
    return _result(
        job,
        numbers,
        facts,
        generation=job.generation,
        weights_sha256=trained.weights_sha256,
        run=below_runs(str(trained.run)),
        precision=other_precision(trained.run, job.config),
    )


def numbers_of_test(tested: SplitNumbers) -> Numbers:
    """The numbers of a test, with those of its items: mean nats per token and per word, weighed by tokens and words."""
    numbers = Numbers(dict(tested.metrics))
    if "joint_perplexity" in numbers.metrics:
        numbers.not_computed["perplexity"] = "the test is of texts with their trees"
    if tested.item_nll is not None and tested.item_tokens is not None:
        numbers.items.update({"perplexity": tested.item_nll, TOKENS: tested.item_tokens})
        if tested.item_words is not None:
            with np.errstate(divide="ignore", invalid="ignore"):  # an item that was not scored has no words
                per_word = tested.item_nll * tested.item_tokens / tested.item_words
            numbers.items.update({"word_perplexity": per_word, WORDS: tested.item_words})
    return numbers


def _result(job: Job, numbers: Numbers, facts: RunFacts | DataSource, **more: Any) -> Result:  # noqa: ANN401
    """The finite numbers, measured here and now; without a run's facts, nothing was trained on the data."""
    commit = provenance.short_commit(provenance.commit())
    if isinstance(facts, DataSource):
        hardware = provenance.hardware_in_words(provenance.hardware())
        facts = RunFacts(data=facts, hardware=hardware, commit=commit)
    endless = {name: f"it came out as {v}" for name, v in numbers.metrics.items() if not math.isfinite(v)}
    return Result(
        table=job.definition.table,
        row=job.row.name,
        size=job.size,
        seed=job.seed,
        metrics={name: value for name, value in numbers.metrics.items() if name not in endless},
        not_computed={**endless, **numbers.not_computed},
        items={name: packed(scores) for name, scores in numbers.items.items()},
        settings=numbers.settings,
        date=provenance.today(),
        config_sha256=job.config.digest,
        measured_commit=commit,
        **vars(facts),
        **more,
    )


def floor(job: Job, depgen: Depgen, options: TextOptions) -> Result:
    """What needs no training: of a corpus, a split, a source, a system's speed, trees by a rule or of runs."""
    for split in SPLITS:
        if job.row.floor == split:
            corpus, numbers = data_of(job.config).corpus, Numbers()
            row = MeasuredRow(job=job, corpus=corpus, options=options, depgen=depgen)
            for given in measures_of(job.definition):
                numbers.add(given.measure_split(row, split))
            return _result(job, numbers, source_of(corpus))
    if job.row.consensus_of is not None:
        members = finished_runs(job.definition, job.definition.row(job.row.consensus_of), job.size)
        runs = [run for run in members.values() if run is not None]
        digest = lines_sha256(file_sha256(best_checkpoint(run)) for run in runs)
        numbers = _heads_alone(job, "consensus", measure_trees(job, runs))
        return _result(job, numbers, facts_of(runs[0]).data, weights_sha256=digest)
    if job.row.floor == "corpus":
        return _sizes(job)
    if job.row.floor == "source":
        corpus = data_of(job.config).corpus
        if not hasattr(corpus, "floor"):
            raise UserError(f"{job.config}: {type(corpus).__name__} has no known source, so there is no floor.")
        return _result(job, Numbers({"perplexity": math.exp(corpus.floor())}), source_of(corpus))
    if job.row.floor == "speed":
        return _result(job, measure_speed(job.config, job.row.beam_size), RANDOM)
    return _result(job, _heads_alone(job, "rule", measure_floor(job)), source_of(treebank_of_table(job).corpus))


def _sizes(job: Job) -> Result:
    """Documents of a corpus, and tokens and sentences a document, split by split; of data with levels, these too."""
    data = data_of(job.config)
    metrics = dict[str, float]()
    for split, sizes in measure_corpus(data.corpus).items():
        name = "dev" if split == "valid" else split
        metrics[f"{name}_documents"] = float(sizes.documents or 0)
        metrics[f"{name}_tokens"], metrics[f"{name}_sentences"] = sizes.mean_length, sizes.mean_sentences
        if isinstance(data, LevelData):
            metrics[f"{name}_levels"] = float(data.level_sizes(split)[0].sum())
    if isinstance(data, LevelData):
        expansions, types = data.vocabulary.tables["expansions"], len(data.vocabulary.types)
        metrics |= {"expansions": float(len(expansions)), "types": float(types)}
    return _result(job, Numbers(metrics), source_of(data.corpus))


def _heads_alone(job: Job, giver: str, numbers: Numbers) -> Numbers:
    """The numbers of trees without a system, which have none of the table's other measures."""
    for column in job.definition.ours:
        if column.key not in numbers.metrics:
            numbers.not_computed.setdefault(column.key, f"a {giver} gives heads and nothing else")
    return numbers
