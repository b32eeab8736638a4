"""Results of a table: what replaces what, means over seeds, and bootstrap intervals over items."""

import json
import math
import shutil

import numpy as np
import pytest
import yaml
from scipy import stats

from depgen.data.corpora import Brown
from depgen.data.experiment import data_of
from depgen.data.vocabulary import Vocabulary
from depgen.reporting.compare import compare
from depgen.reporting.pages import record_table
from depgen.reporting.results import (
    Budget,
    beginning_of,
    facts_of,
    measured_path,
    packed,
    read_curve,
    read_result,
    read_results,
    write_result,
)
from depgen.reporting.table import load_definition
from tests.invented_data import write_corpora
from tests.reporting.conftest import first_column, make_result
from tests.reporting.conftest import toy_results as toy

ITEMS = 400


def test_a_result_comes_back_as_it_was_written(tmp_path):
    items = {"bleu1": packed(np.array([10.5, np.nan]))}
    result = make_result("Base", 1, {"bleu1": 10.5}, not_computed={"union": "no weights"}, items=items)
    write_result(result, tmp_path / "r.json")
    assert read_result(tmp_path / "r.json") == result
    assert np.array_equal(result.scores("bleu1"), [10.5, np.nan], equal_nan=True)


def test_results_come_by_seed_and_their_items_as_columns(store):
    for seed in (10, 2, 1):
        store("Base", seed, {"bleu1": float(seed)}, {"bleu1": [seed, 2.0, np.nan if seed == 2 else 0.0]})
    assert [result.seed for result in read_results("toy", "Base", size="small")] == [1, 2, 10]
    items = toy().items["Base", "bleu1"].scores
    assert np.array_equal(items, [[1.0, 2.0, 10.0], [2.0, 2.0, 2.0], [0.0, np.nan, 0.0]], equal_nan=True)
    store("Base", 3, {"bleu1": 1.0})
    assert toy().items == {}, "a seed lacks them"


def test_local_results_replace_a_rows_tracked_ones_and_never_mix_with_them(store, project):
    for seed in (1, 2):
        store("Base", seed, {"bleu1": 10.0 * seed}, settings={"bleu1": "scorer a"})
    assert [*record_table(load_definition("toy"), "small")]
    shutil.rmtree(project / "results")
    assert (toy().figure("Base", "bleu1").mean, toy().source("Base")) == (15.0, "measured")
    store("Base", 3, {"bleu1": 40.0}, settings={"bleu1": "scorer b"})
    assert (toy().figure("Base", "bleu1").values, toy().source("Base")) == ({3: 40.0}, "local")
    assert toy(local=False).figure("Base", "bleu1").mean == 15.0


def test_mean_and_deviation_over_seeds(store):
    for seed, value in ((1, 10.0), (2, 12.0), (3, 14.0)):
        store("Base", seed, {"bleu1": value})
    store("DM-Base", 1, {"bleu1": 3.0})
    figure = toy().figure("Base", "bleu1")
    assert (figure.mean, figure.deviation, figure.values) == (12.0, 2.0, {1: 10.0, 2: 12.0, 3: 14.0})
    assert toy().figure("DM-Base", "bleu1").deviation is None
    assert toy().figure("Base", "selfbleu2") is None, "the paper's number is none of ours"


def test_seeds_of_different_judges_have_no_mean(store):
    store("Base", 1, {"bleu1": 10.0, "perplexity": 40.0}, settings={"bleu1": "scorer a"})
    store("Base", 2, {"bleu1": 12.0, "perplexity": 42.0}, settings={"bleu1": "scorer b"})
    assert toy().figure("Base", "bleu1") is None
    assert toy().figure("Base", "perplexity").mean == 41.0


def test_a_floor_has_one_result(store, change):
    change("rows:\n", "rows:\n  - {name: Floor, experiment: base_toy, floor: source, in_paper: false}\n")
    for seed in (1, 2):
        store("Floor", seed, {"perplexity": 8.0 + seed})
    assert toy().figure("Floor", "perplexity").values == {1: 9.0}


RESULT = {
    "kind": "result", "row": "Base", "size": "small", "seed": 1, "metrics": {"bleu1": 9.0}, "hardware": "x",
    "data": {"corpus": "S", "reduced": False}, "date": "2026-01-01", "commit": "c", "config_sha256": "d",
}  # fmt: skip


@pytest.mark.parametrize(("seeds", "holds"), [([1], False), ([1, 2], True)])
def test_tracked_lines_are_read_and_an_interval_of_some_seeds_is_not_of_the_mean_of_all(project, seeds, holds):
    lines = [
        RESULT,
        {**RESULT, "seed": 2, "metrics": {"bleu1": 11.0}},
        {**RESULT, "size": "paper"},
        {"kind": "curve", "row": "Base", "size": "small", "seed": 2, "curve": [[10.0, 90.0]]},
        {"kind": "intervals", "row": "Base", "size": "small", "seeds": seeds, "intervals": {"bleu1": [8.0, 12.0]}},
    ]
    measured_path("toy").parent.mkdir(parents=True)
    measured_path("toy").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    results = toy()
    assert [(run.metrics["bleu1"], run.curve) for run in results.runs] == [(9.0, ()), (11.0, ((10.0, 90.0),))]
    assert results.intervals == ({("Base", "bleu1"): (8.0, 12.0)} if holds else {})


# -- intervals --------------------------------------------------------------------------------------------------------


def ends(row="Base", column="bleu1", definition=None):
    """The interval of a number; None where there is none."""
    return toy(definition).intervals.get((row, column))


@pytest.fixture
def scores():
    generator = np.random.default_rng(5)
    return [generator.normal(10, 3, ITEMS) for _ in range(2)]


def stored(store, scores):
    for seed, each in enumerate(scores):
        store("Base", seed, {"bleu1": float(np.nanmean(each))}, {"bleu1": each})


def test_a_mean_has_the_interval_of_scipys_bootstrap(store, scores):
    """Over two seeds: of the items' means over seeds."""
    stored(store, scores)
    mine = np.mean(scores, axis=0)
    expected = stats.bootstrap((mine,), np.mean, n_resamples=20_000, method="percentile", rng=0).confidence_interval
    assert ends() == pytest.approx((expected.low, expected.high), abs=0.03)


def test_a_perplexity_weighs_its_items_by_their_tokens(store):
    generator = np.random.default_rng(6)
    tokens = generator.integers(1, 40, ITEMS).astype(float)
    nll = generator.normal(4, 1, ITEMS) / np.sqrt(tokens) + 4
    figure = float(np.exp((nll * tokens).sum() / tokens.sum()))
    kept = {"perplexity": nll, "tokens": tokens}
    store("Base", 1, {"perplexity": figure}, kept)
    found = ends(column="perplexity")

    def perplexity(nll, tokens):
        return np.exp((nll * tokens).sum() / tokens.sum())

    expected = stats.bootstrap(
        (nll, tokens), perplexity, n_resamples=5_000, paired=True, vectorized=False, method="percentile", rng=0
    ).confidence_interval
    assert found == pytest.approx((expected.low, expected.high), rel=0.004)
    assert found[0] < figure < found[1]
    store("Base", 1, {"perplexity": figure}, {"perplexity": nll})
    assert toy().intervals == {}


def test_items_are_weighed_by_what_the_column_says(store):
    """Right words of each sentence resampled: the interval is that of the share of all words."""
    generator = np.random.default_rng(7)
    words = generator.integers(1, 40, ITEMS).astype(float)
    right = generator.binomial(words.astype(int), np.clip(0.9 - words / 80, 0, 1)).astype(float)
    share, plain = 100 * right.sum() / words.sum(), float(np.mean(100 * right / words))
    assert abs(share - plain) > 5
    kept = {"bleu1": 100 * right / words, "parsed_words": words}
    definition = load_definition("toy")
    of_words = first_column(weights="parsed_words")
    store("Base", 1, {"bleu1": share}, kept)
    assert toy(definition).intervals == {}, "the plain mean of the sentences is not the figure"
    found = ends(definition=of_words)
    expected = stats.bootstrap(
        (right, words), lambda a, b: 100 * a.sum() / b.sum(), n_resamples=5_000, paired=True, vectorized=False,
        method="percentile", rng=0,
    ).confidence_interval  # fmt: skip
    assert found == pytest.approx((expected.low, expected.high), abs=0.15)
    store("Base", 1, {"bleu1": share}, {"bleu1": kept["bleu1"]})
    assert toy(of_words).intervals == {}


def test_pieces_of_a_document_are_drawn_together(store, scores):
    """As if each document were an item that weighs as much as it has pieces: here four each."""
    mine = scores[0]
    store("Base", 1, {"bleu1": float(mine.mean())}, {"bleu1": mine})
    whole = ends()

    def cut(documents):
        items = {"bleu1": np.repeat(mine, 4), "bleu1_documents": documents}
        store("Base", 1, {"bleu1": float(mine.mean())}, items)
        return ends()

    assert cut(np.repeat(np.arange(ITEMS), 4)) == pytest.approx(whole)
    apart = cut(np.arange(4 * ITEMS))
    assert apart[1] - apart[0] == pytest.approx((whole[1] - whole[0]) / 2, rel=0.1)
    assert cut(np.zeros(4 * ITEMS)) is None, "one document is no sample"


def test_undefined_items_do_not_count_and_repeats_are_the_same(store, scores):
    holed = [np.where(np.arange(ITEMS) % 5 == 0, np.nan, each) for each in scores[:1]]
    stored(store, holed)
    first = ends()
    assert first == ends()
    assert first[0] < np.nanmean(holed[0]) < first[1]
    width = 2 * 1.96 * np.nanstd(holed[0]) / np.sqrt(ITEMS * 0.8)
    assert first[1] - first[0] == pytest.approx(width, rel=0.1)


def test_a_figure_that_its_items_do_not_give_or_a_seed_lacks_has_no_interval(store, scores):
    store("Base", 1, {"bleu1": 11.0}, {"bleu1": scores[0]})
    assert toy().intervals == {}
    stored(store, scores)
    assert ends() is not None
    store("Base", 3, {"bleu1": 16.0})
    assert ends() is None


def test_systems_with_other_numbers_of_items_do_not_move_each_others(store, scores):
    stored(store, scores)
    alone = ends()
    store("DM-Base", 1, {"bleu1": float(scores[0][:50].mean())}, {"bleu1": scores[0][:50]})
    assert ends() == alone
    low, high = ends("DM-Base")
    assert high - low > 2 * (alone[1] - alone[0])


TOKENS = np.random.default_rng(8).integers(1, 40, ITEMS).astype(float)


@pytest.fixture
def two_systems(store, project):
    """Nats per token and wrong words of the same sentences, which are hard for both systems, two seeds of each."""
    path = project / "experiments/tables/toy.yaml"
    weighed = "test: paired_bootstrap, weights: parsed_words}"
    path.write_text(path.read_text().replace("decimals: 1, test: paired_bootstrap}", f"decimals: 1, {weighed}"))
    generator = np.random.default_rng(9)
    hardness, found = generator.normal(4, 1, ITEMS) / np.sqrt(TOKENS), {}
    for row, easier in (("Base", 0.0), ("DM-Base", 0.1)):
        for seed in (1, 2):
            nll = 4 - easier + hardness + generator.normal(0, 0.2, ITEMS)
            wrong = 100 * np.clip(nll / 8, 0, 1)
            figures = {
                "perplexity": float(np.exp((nll * TOKENS).sum() / TOKENS.sum())),
                "selfbleu2": float((wrong * TOKENS).sum() / TOKENS.sum()),
            }
            items = {"perplexity": nll, "tokens": TOKENS, "selfbleu2": wrong, "parsed_words": TOKENS}
            found.setdefault(row, []).append(store(row, seed, figures, items))
    return found


@pytest.mark.parametrize("key", ["perplexity", "selfbleu2"])
def test_a_gain_has_the_interval_of_both_systems_resampled_at_once(two_systems, key):
    comparisons = compare(toy())
    (gain,) = [each for each in comparisons if (each.row, each.column) == ("DM-Base", key)]
    (loss,) = [each for each in comparisons if (each.row, each.column) == ("Base", key)]
    assert gain.interval == pytest.approx(tuple(-end for end in reversed(loss.interval)))

    items = {row: [each.scores(key) for each in two_systems[row]] for row in two_systems}

    def figure(row, drawn):
        weights = TOKENS[drawn]
        means = [(each[drawn] * weights).sum() / weights.sum() for each in items[row]]
        return np.mean(np.exp(means) if key == "perplexity" else means)

    generator = np.random.default_rng(10)
    draws = [generator.integers(0, ITEMS, ITEMS) for _ in range(3000)]
    expected = np.quantile([figure("Base", drawn) - figure("DM-Base", drawn) for drawn in draws], [0.025, 0.975])
    width = expected[1] - expected[0]
    assert gain.interval == pytest.approx(tuple(expected), abs=0.06 * width)
    assert gain.interval[0] < gain.gain < gain.interval[1]
    alone = [ends(row, key) for row in two_systems]
    assert width < 0.85 * math.hypot(*(high - low for low, high in alone)), "what is hard for both does not count"


def test_items_that_do_not_belong_together_give_a_gain_no_interval(store, scores):
    definition, figures = load_definition("toy"), [float(each.mean()) for each in scores]
    pieces = np.repeat(np.arange(ITEMS // 4), 4)

    def gain(second, definition=definition, **items):
        store("Base", 1, {"bleu1": figures[0]}, {"bleu1": scores[0], **items})
        store("DM-Base", 1, {"bleu1": float(second["bleu1"].mean())}, second)
        return next(each.interval for each in compare(toy(definition)) if each.row == "DM-Base")

    assert gain({"bleu1": scores[1]}) is not None
    assert gain({"bleu1": scores[1][:50]}) is None
    assert gain({"bleu1": scores[1]}, bleu1_documents=pieces) is None
    assert gain({"bleu1": scores[1], "bleu1_documents": pieces}, bleu1_documents=pieces) is not None
    assert gain({"bleu1": scores[1], "bleu1_documents": pieces[::-1]}, bleu1_documents=pieces) is None
    assert gain({"bleu1": scores[1]}, first_column(test="welch_t")) is None


# -- what a run folder tells ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("logged", "curve", "clock"),
    [
        (
            "epoch,train/loss,val/perplexity\n5,0,3.0,\n9,0,,50.5\n19,1,,40.25",
            ((1000, 50.5), (2000, 40.25)),
            (),
        ),
        (
            "epoch,val/perplexity,seconds\n4,0,80.0,1\n9,0,60.0,2\n14,1,50.0,3\n19,1,45.0,4",  # two in each epoch
            ((500, 80), (1000, 60), (1500, 50), (2000, 45)),
            ((5, 1), (10, 2), (15, 3), (20, 4)),
        ),
        ("epoch,val/perplexity,val/word_perplexity\n9,0,20.0,80.0\n19,1,,", ((1000, 80),), ()),
        ("epoch,val/dependency_loss,val/perplexity\n9,0,5.0,\n19,1,,40.0", ((2000, 40),), ()),  # a phase without it
        ("epoch,val/perplexity,seconds\n9,0,50.5,\n19,1,40.25,15.5", ((1000, 50.5), (2000, 40.25)), ()),
        ("epoch,val/loss,seconds\n5,0,,3.5\n9,0,5.5,7.25\n19,1,4.5,15.5", (), ((10, 7.25), (20, 15.5))),
    ],
)
def test_a_curve_is_against_tokens_and_the_clock_against_steps(tmp_path, logged, curve, clock):
    path = tmp_path / "metrics.csv"
    path.write_text(f"step,{logged}\n")
    assert read_curve(path, tokens_per_epoch=1000) == (2, curve, clock)


@pytest.mark.parametrize(
    ("backbone", "weights"),
    [
        ("{pretrained: null}", "random weights"),
        ("{pretrained: gpt2}", "gpt2"),
        ("{pretrained: /some/where/gpt2}", "gpt2"),
        ("{}", None),
    ],
)
def test_what_a_pretrained_network_began_from_stands_in_its_runs_configuration(tmp_path, backbone, weights):
    path = tmp_path / "config.yaml"
    path.write_text(f"model: {{init_args: {{backbone: {{class_path: Some, init_args: {backbone}}}}}}}\n")
    assert beginning_of(path) == weights
    path.write_text("model: {class_path: Whole}\n")
    assert beginning_of(path) is None


# -- sentences and documents of one corpus -----------------------------------------------------------------------------

BROWN = {"class_path": "depgen.data.corpora.Brown"}
SENTENCES = {**BROWN, "init_args": {"steps": ["depgen.data.steps.SingleSentences"]}}


@pytest.fixture
def facts(tmp_path, monkeypatch):
    """What a run that reads this corpus by this data module says of itself."""
    write_corpora(tmp_path / "data")
    for name in ("data", "cache"):
        monkeypatch.setenv(f"DEPGEN_{name.upper()}", str(tmp_path / name))
    (tmp_path / "metrics.csv").write_text("step,epoch,val/perplexity,seconds\n9,0,50.5,7.0\n19,1,40.25,15.5\n")
    Vocabulary.of_words(["the", "."]).save(tmp_path / "vocabulary.json")

    def of(data, corpus, **options):
        settings = {"data": {"class_path": data, "init_args": {"corpus": corpus, **options}}}
        (tmp_path / "config.yaml").write_text(yaml.safe_dump(settings))
        module = data_of(tmp_path / "config.yaml")
        module.use_vocabulary(tmp_path / "vocabulary.json")
        (tmp_path / "run.json").write_text(json.dumps({"tokens_per_epoch": int(module.target_counts().sum())}))
        return facts_of(tmp_path)

    return of


def test_tokens_are_words_and_an_end_a_sentence_whether_documents_are_read_whole_or_not(facts, tmp_path):
    documents = facts("depgen.data.documents.DocumentData", BROWN)
    sentences = facts("depgen.data.text.TextData", SENTENCES)
    lines = [s for document in Brown().documents("train") for s in document.sentences]
    assert documents.budget == sentences.budget == Budget(2, 2 * sum(len(line) + 1 for line in lines))
    assert documents.curve == sentences.curve
    assert documents.processor_seconds is None
    path = tmp_path / "metrics.csv"
    path.write_text("step,epoch,val/perplexity,processor_seconds\n9,0,50.5,3.0\n19,1,40.25,6.5\n19,1,,\n")
    assert facts("depgen.data.text.TextData", SENTENCES).processor_seconds == 6.5
    assert facts("depgen.data.text.TextData", BROWN).budget.train_tokens < documents.budget.train_tokens
