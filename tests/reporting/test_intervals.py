import csv
import dataclasses
import io

import numpy as np
import pytest
import yaml
from scipy import stats

from depgen.reporting.definition import load_definition
from depgen.reporting.intervals import intervals
from depgen.reporting.measured import measured_path
from depgen.reporting.record import record
from depgen.reporting.tables import table

ITEMS = 400


@pytest.fixture
def scores():
    generator = np.random.default_rng(5)
    return [generator.normal(10, 3, ITEMS) for _ in range(2)]


def stored(store, scores):
    return [
        store("Base", seed, {"bleu1": float(np.nanmean(each))}, {"bleu1": each}) for seed, each in enumerate(scores)
    ]


def test_a_mean_has_the_interval_of_scipys_bootstrap(store, scores):
    """Over two seeds: of the items' means over seeds."""
    (found,) = intervals(load_definition("toy"), {"Base": stored(store, scores)})["Base"].values()
    mine = np.mean(scores, axis=0)
    expected = stats.bootstrap((mine,), np.mean, n_resamples=20_000, method="percentile", rng=0).confidence_interval
    assert found == pytest.approx((expected.low, expected.high), abs=0.03)


def test_a_perplexity_weighs_its_items_by_their_tokens(store):
    generator = np.random.default_rng(6)
    tokens = generator.integers(1, 40, ITEMS).astype(float)
    nll = generator.normal(4, 1, ITEMS) / np.sqrt(tokens) + 4
    figure = float(np.exp((nll * tokens).sum() / tokens.sum()))
    kept = {"perplexity": nll, "tokens": tokens}
    results = {"Base": [store("Base", 1, {"perplexity": figure}, kept)]}
    (found,) = intervals(load_definition("toy"), results)["Base"].values()

    def perplexity(nll, tokens):
        return np.exp((nll * tokens).sum() / tokens.sum())

    expected = stats.bootstrap(
        (nll, tokens), perplexity, n_resamples=5_000, paired=True, vectorized=False, method="percentile", rng=0
    ).confidence_interval
    assert found == pytest.approx((expected.low, expected.high), rel=0.004)
    assert found[0] < figure < found[1]
    results = {"Base": [store("Base", 1, {"perplexity": figure}, {"perplexity": nll})]}
    assert intervals(load_definition("toy"), results) == {}


def test_a_perplexity_of_words_weighs_its_items_by_their_words(store, project):
    path = project / "experiments/published/toy.yaml"
    content = yaml.safe_load(path.read_text())
    content["columns"].append({"key": "word_perplexity", "header": "word PPL", "higher_better": False})
    path.write_text(yaml.safe_dump(content))
    nll, words = np.array([2.0, 3.0, 4.0, 9.0]), np.array([5.0, 6.0, 7.0, 1.0])
    figure = float(np.exp((nll * words).sum() / words.sum()))
    kept = {"word_perplexity": nll, "words": words}
    low, high = intervals(load_definition("toy"), {"Base": [store("Base", 1, {"word_perplexity": figure}, kept)]})[
        "Base"
    ]["word_perplexity"]
    assert low < figure < high
    other = {"word_perplexity": nll, "words": np.ones(4)}
    assert intervals(load_definition("toy"), {"Base": [store("Base", 1, {"word_perplexity": figure}, other)]}) == {}


def test_items_are_weighed_by_what_the_column_says(store):
    """Right words of each sentence resampled: the interval is that of the share of all words."""
    generator = np.random.default_rng(7)
    words = generator.integers(1, 40, ITEMS).astype(float)
    right = generator.binomial(words.astype(int), np.clip(0.9 - words / 80, 0, 1)).astype(float)
    share, plain = 100 * right.sum() / words.sum(), float(np.mean(100 * right / words))
    assert abs(share - plain) > 5
    kept = {"bleu1": 100 * right / words, "parsed_words": words}
    definition = load_definition("toy")
    weighed = dataclasses.replace(definition.columns[0], weights="parsed_words")
    of_words = dataclasses.replace(definition, columns=(weighed,))
    results = {"Base": [store("Base", 1, {"bleu1": share}, kept)]}
    assert intervals(definition, results) == {}, "the plain mean of the sentences is not the figure"
    (found,) = intervals(of_words, results)["Base"].values()
    expected = stats.bootstrap(
        (right, words), lambda a, b: 100 * a.sum() / b.sum(), n_resamples=5_000, paired=True, vectorized=False,
        method="percentile", rng=0,
    ).confidence_interval  # fmt: skip
    assert found == pytest.approx((expected.low, expected.high), abs=0.15)
    lacking = {"Base": [store("Base", 1, {"bleu1": share}, {"bleu1": kept["bleu1"]})]}
    assert intervals(of_words, lacking) == {}


def test_pieces_of_a_document_are_drawn_together(store, scores):
    """As if each document were an item that weighs as much as it has pieces: here four each."""
    definition, mine = load_definition("toy"), scores[0]
    whole = intervals(definition, {"Base": [store("Base", 1, {"bleu1": float(mine.mean())}, {"bleu1": mine})]})

    def cut(documents):
        items = {"bleu1": np.repeat(mine, 4), "bleu1_documents": documents}
        return intervals(definition, {"Base": [store("Base", 1, {"bleu1": float(mine.mean())}, items)]})

    assert cut(np.repeat(np.arange(ITEMS), 4))["Base"]["bleu1"] == pytest.approx(whole["Base"]["bleu1"])
    apart = cut(np.arange(4 * ITEMS))["Base"]["bleu1"]
    assert apart[1] - apart[0] == pytest.approx((whole["Base"]["bleu1"][1] - whole["Base"]["bleu1"][0]) / 2, rel=0.1)
    assert "Base" not in cut(np.zeros(4 * ITEMS)), "one document is no sample"


def test_undefined_items_do_not_count_and_repeats_are_the_same(store, scores):
    holed = [np.where(np.arange(ITEMS) % 5 == 0, np.nan, each) for each in scores[:1]]
    results = {"Base": stored(store, holed)}
    definition = load_definition("toy")
    first = intervals(definition, results)["Base"]["bleu1"]
    assert first == intervals(definition, results)["Base"]["bleu1"]
    assert first[0] < np.nanmean(holed[0]) < first[1]
    width = 2 * 1.96 * np.nanstd(holed[0]) / np.sqrt(ITEMS * 0.8)
    assert first[1] - first[0] == pytest.approx(width, rel=0.1)


@pytest.mark.parametrize("figure", [11.0, 9.0])
def test_items_that_give_another_number_give_no_interval(store, scores, figure):
    results = {"Base": [store("Base", 1, {"bleu1": figure}, {"bleu1": scores[0]})]}
    assert intervals(load_definition("toy"), results) == {}


def test_a_seed_without_items_leaves_the_interval_to_the_others(store, scores):
    others = stored(store, scores)
    results = {"Base": [*others, store("Base", 3, {"bleu1": 10.0})]}
    assert intervals(load_definition("toy"), results) == intervals(load_definition("toy"), {"Base": others}) != {}
    assert intervals(load_definition("toy"), {"Base": results["Base"][-1:]}) == {}


def test_systems_with_other_numbers_of_items_do_not_move_each_others(store, scores):
    definition = load_definition("toy")
    alone = intervals(definition, {"Base": stored(store, scores)})["Base"]
    short = [store("DM-Base", 1, {"bleu1": float(scores[0][:50].mean())}, {"bleu1": scores[0][:50]})]
    both = intervals(definition, {"Base": stored(store, scores), "DM-Base": short})
    assert both["Base"] == alone
    low, high = both["DM-Base"]["bleu1"]
    assert high - low > 2 * (alone["bleu1"][1] - alone["bleu1"][0])


def test_the_table_shows_bounds_half_widths_or_seeds(store, scores):
    results = stored(store, scores)
    low, high = intervals(load_definition("toy"), {"Base": results})["Base"]["bleu1"]
    mean = np.mean(scores)
    deviation = np.std([each.mean() for each in scores], ddof=1)
    text = table("toy", profile="small")
    assert f"| local | {mean:.2f} ± {deviation:.2f} [{low:.2f}, {high:.2f}] |" in text
    assert "- ±: standard deviation over seeds (none for one seed). [low, high]: 95 % bootstrap percentile" in text
    text = table("toy", profile="small", spread="half_width")
    assert f"| local | {mean:.2f} ± {(high - low) / 2:.2f} |" in text
    assert "- ±: half the width of the 95 % bootstrap percentile interval over test items (2,000 resamples" in text
    text = table("toy", profile="small", spread="seeds")
    assert f"| local | {mean:.2f} ± {deviation:.2f} |" in text
    (row,) = [
        row
        for row in csv.DictReader(io.StringIO(table("toy", profile="small", format="csv", spread="seeds")))
        if row["numbers"] == "local"
    ]
    assert (float(row["low"]), float(row["high"])) == pytest.approx((low, high))


def test_tracked_numbers_keep_their_intervals(store, scores, project):
    results = stored(store, scores)
    low, high = intervals(load_definition("toy"), {"Base": results})["Base"]["bleu1"]
    record("toy", profile="small")
    entry = yaml.safe_load(measured_path("toy", "Base").read_text())["profiles"]["small"]
    assert entry["intervals"]["bleu1"] == pytest.approx([low, high], rel=1e-5)
    lines = table("toy", profile="small").splitlines()
    (measured,) = [line for line in lines if "| measured |" in line]
    assert f"[{low:.2f}, {high:.2f}]" in measured
