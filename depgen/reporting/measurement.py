"""The result of one row at one size and seed, from its trained model or from its source."""

import dataclasses
import math

import numpy as np

from depgen.data.corpus import SPLITS
from depgen.data.experiment import data_of
from depgen.data.levels import LevelData
from depgen.data.record import DataSource, source_of
from depgen.data.record import measure as measure_corpus
from depgen.errors import UserError
from depgen.evaluation.text.measures import TextOptions
from depgen.locations import below_runs
from depgen.reporting.jobs import Job, fit, members, weights_of
from depgen.reporting.measures.parses import measure_floor, measure_trees, treebank_of_table
from depgen.reporting.measures.speed import RANDOM, measure_speed
from depgen.reporting.numbers import MeasuredRow, Numbers, TrainedRow, measures_of
from depgen.reporting.results import Result, packed
from depgen.reporting.run_facts import facts_of, other_precision
from depgen.reporting.table import TOKENS, WORDS
from depgen.training import provenance
from depgen.training.evaluated import SplitNumbers
from depgen.training.experiment_runs import DEV, Depgen, measure_dev, measure_test


def measure(job: Job, depgen: Depgen, options: TextOptions, *, remeasure: bool = False, wait: bool = True) -> Result:
    """The result of a row that is trained: fit, test, generate, each skipped once done; and the text measures.

    Args:
        job: the row at a size and seed.
        depgen: runs a command.
        options: of the text measures.
        remeasure: test again where the numbers of the single items were not kept.
        wait: for another process that trains the row's experiment, or generates texts of its run.

    Raises:
        UserError: a step failed.
        filelock.Timeout: another process works on it, and this one does not wait.
    """
    trained = fit(job, depgen, wait=wait)
    found = numbers_of_test(measure_test(job.training, trained.run, depgen, remeasure=remeasure))
    asked = {column.key for column in job.definition.columns}
    if any(key.startswith(DEV) for key in asked):
        found.metrics.update(measure_dev(job.training, trained.run, depgen))
    data = data_of(trained.run / "config.yaml")
    facts = facts_of(trained.run, data)
    row = TrainedRow(
        job=job, corpus=data.corpus, options=options, depgen=depgen, wait=wait, trained=trained, facts=facts
    )
    for each in measures_of(job.definition):
        measured = each.measure(row)
        for name in each.replaces if measured.metrics else ():
            found.metrics.pop(name, None)
            found.items.pop(name, None)
        found.add(measured)
    found.metrics.update({name: value for name, value in facts.in_millions.items() if name in asked})
    return dataclasses.replace(
        _result(job, found, facts.data),
        **vars(facts),
        config_sha256=trained.config_sha256,
        generation=job.generation,
        weights_sha256=trained.weights_sha256,
        run=below_runs(str(trained.run)),
        precision=other_precision(trained.run, job.config),
    )


def numbers_of_test(tested: SplitNumbers) -> Numbers:
    """The numbers of a test, with those of its items: mean nats per token and per word, weighed by tokens and words."""
    found = Numbers(dict(tested.metrics))
    if "joint_perplexity" in found.metrics:
        found.not_computed["perplexity"] = "the test is of texts with their trees"
    if tested.item_nll is not None and tested.item_tokens is not None:
        found.items.update({"perplexity": tested.item_nll, TOKENS: tested.item_tokens})
        if tested.item_words is not None:
            with np.errstate(divide="ignore", invalid="ignore"):  # an item that was not scored has no words
                per_word = tested.item_nll * tested.item_tokens / tested.item_words
            found.items.update({"word_perplexity": per_word, WORDS: tested.item_words})
    return found


def _result(job: Job, found: Numbers, data: DataSource) -> Result:
    """The finite numbers of what was found, of here and now."""
    found = sift(found)
    return Result(
        table=job.definition.table,
        row=job.row.name,
        size=job.size,
        seed=job.seed,
        metrics=found.metrics,
        not_computed=found.not_computed,
        items={name: packed(scores) for name, scores in found.items.items()},
        settings=found.settings,
        data=data,
        hardware=provenance.hardware_in_words(provenance.hardware()),
        date=provenance.today(),
        commit=provenance.short_commit(provenance.commit()),
        config_sha256=job.config.digest,
        measured_commit=provenance.short_commit(provenance.commit()),
    )


def floor(job: Job, depgen: Depgen, options: TextOptions, *, wait: bool = True) -> Result:
    """What can be had without training: of a corpus, a split, a source, a system's speed, trees by a rule or of runs.

    Raises:
        UserError: it cannot be had.
        filelock.Timeout: another process works on it, and this one does not wait.
    """
    for split in SPLITS:
        if job.row.floor == split:
            corpus, found = data_of(job.config).corpus, Numbers()
            row = MeasuredRow(job=job, corpus=corpus, options=options, depgen=depgen, wait=wait)
            for each in measures_of(job.definition):
                found.add(each.measure_split(row, split))
            return _result(job, found, source_of(corpus))
    if job.row.consensus_of is not None:
        runs = [run for run in members(job).values() if run is not None]
        result = _heads_alone(job, "consensus", measure_trees(job, runs), facts_of(runs[0]).data)
        return dataclasses.replace(result, weights_sha256=weights_of(job))
    if job.row.floor == "corpus":
        return _sizes(job)
    if job.row.floor == "source":
        corpus = data_of(job.config).corpus
        if not hasattr(corpus, "floor"):
            raise UserError(f"{job.config}: {type(corpus).__name__} has no known source, so there is no floor.")
        return _result(job, Numbers({"perplexity": math.exp(corpus.floor())}), source_of(corpus))
    if job.row.floor == "speed":
        return _result(job, measure_speed(job.config, job.row.beam_size), RANDOM)
    return _heads_alone(job, "rule", measure_floor(job), source_of(treebank_of_table(job).corpus))


def _sizes(job: Job) -> Result:
    """Documents of a corpus, and tokens and sentences a document, split by split; of data with levels, these too.

    Raises:
        MissingDataError: the corpus is not at hand.
    """
    data = data_of(job.config)
    corpus = data.corpus
    found, metrics = measure_corpus(corpus), dict[str, float]()
    for split, sizes in found.items():
        name = "dev" if split == "valid" else split
        metrics[f"{name}_documents"] = float(sizes.documents or 0)
        metrics[f"{name}_tokens"], metrics[f"{name}_sentences"] = sizes.mean_length, sizes.mean_sentences
        if isinstance(data, LevelData):
            metrics[f"{name}_levels"] = float(data.level_sizes(split)[0].sum())
    if isinstance(data, LevelData):
        expansions, types = data.vocabulary.tables["expansions"], len(data.vocabulary.types)
        metrics |= {"expansions": float(len(expansions)), "types": float(types)}
    source = source_of(corpus)
    return _result(job, Numbers(metrics), source)


def _heads_alone(job: Job, giver: str, found: Numbers, data: DataSource) -> Result:
    """The result of trees without a system, which have none of the table's other measures."""
    for column in job.definition.ours:
        if column.key not in found.metrics:
            found.not_computed.setdefault(column.key, f"a {giver} gives heads and nothing else")
    return _result(job, found, data)


def sift(found: Numbers) -> Numbers:
    """The finite numbers, and the reasons for those that are not there."""
    kept = {name: value for name, value in found.metrics.items() if math.isfinite(value)}
    reasons = {name: f"it came out as {value}" for name, value in found.metrics.items() if not math.isfinite(value)}
    return Numbers(kept, found.items, found.settings, {**reasons, **found.not_computed})
