import csv
import dataclasses
import io
import math
import shutil

import numpy as np
import pytest
import yaml
from scipy import stats

from depgen.reporting.compare import compare
from depgen.reporting.definition import load_definition
from depgen.reporting.intervals import intervals
from depgen.reporting.record import record
from depgen.reporting.store import measured_path, read_ours
from depgen.reporting.tables import table

ITEMS = 400


def toy(definition=None):
    return read_ours(definition or load_definition("toy"), size="small")


def ends(row="Base", column="bleu1", definition=None):
    """The interval of a number; None where there is none."""
    return intervals(toy(definition)).get((row, column), (None, None))[0]


@pytest.fixture
def scores():
    generator = np.random.default_rng(5)
    return [generator.normal(10, 3, ITEMS) for _ in range(2)]


@pytest.fixture(autouse=True)
def base(project):
    """A folder without results."""


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
    assert intervals(toy()) == {}


def test_a_perplexity_of_words_weighs_its_items_by_their_words(store, project):
    path = project / "experiments/tables/toy.yaml"
    content = yaml.safe_load(path.read_text())
    content["columns"].append({"key": "word_perplexity", "header": "word PPL", "higher_better": False})
    path.write_text(yaml.safe_dump(content))
    nll, words = np.array([2.0, 3.0, 4.0, 9.0]), np.array([5.0, 6.0, 7.0, 1.0])
    figure = float(np.exp((nll * words).sum() / words.sum()))
    kept = {"word_perplexity": nll, "words": words}
    store("Base", 1, {"word_perplexity": figure}, kept)
    low, high = ends(column="word_perplexity")
    assert low < figure < high
    other = {"word_perplexity": nll, "words": np.ones(4)}
    store("Base", 1, {"word_perplexity": figure}, other)
    assert intervals(toy()) == {}


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
    store("Base", 1, {"bleu1": share}, kept)
    assert intervals(toy(definition)) == {}, "the plain mean of the sentences is not the figure"
    found = ends(definition=of_words)
    expected = stats.bootstrap(
        (right, words), lambda a, b: 100 * a.sum() / b.sum(), n_resamples=5_000, paired=True, vectorized=False,
        method="percentile", rng=0,
    ).confidence_interval  # fmt: skip
    assert found == pytest.approx((expected.low, expected.high), abs=0.15)
    store("Base", 1, {"bleu1": share}, {"bleu1": kept["bleu1"]})
    assert intervals(toy(of_words)) == {}


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


@pytest.mark.parametrize("figure", [11.0, 9.0])
def test_items_that_give_another_number_give_no_interval(store, scores, figure):
    store("Base", 1, {"bleu1": figure}, {"bleu1": scores[0]})
    assert intervals(toy()) == {}


def test_a_number_over_a_seed_without_items_has_no_interval(store, scores):
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


def test_the_table_shows_deviation_and_interval(store, scores):
    stored(store, scores)
    low, high = ends()
    mean, deviation = np.mean(scores), np.std([each.mean() for each in scores], ddof=1)
    text = table("toy", size="small")
    assert f"| local | {mean:.2f} ± {deviation:.2f} [{low:.2f}, {high:.2f}] |" in text
    (row,) = [
        row
        for row in csv.DictReader(io.StringIO(table("toy", size="small", format="csv")))
        if (row["numbers"], row["measure"]) == ("local", "bleu1")
    ]
    assert (float(row["low"]), float(row["high"])) == pytest.approx((low, high))


@pytest.mark.parametrize("limit", [0, 1_000_000])
def test_tracked_numbers_keep_their_intervals(store, scores, project, monkeypatch, limit):
    monkeypatch.setattr("depgen.reporting.record.MAX_BYTES", limit)
    stored(store, scores)
    before = ends()
    record("toy", size="small")
    assert '"intervals"' in measured_path("toy").read_text()
    assert ('"items"' in measured_path("toy").read_text()) == (limit > 0)
    shutil.rmtree(project / "results")
    assert ends() == pytest.approx(before, rel=1e-5)
    store("Base", 1, {"bleu1": 15.0})
    assert ends() is None, "it is of another number"


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
    comparisons, _ = compare(toy())
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


def test_gains_are_shown_with_their_intervals(two_systems):
    (gain,) = [each for each in compare(toy())[0] if (each.row, each.column) == ("DM-Base", "selfbleu2")]
    low, high = gain.interval
    assert f"[{low:+.1f}, {high:+.1f}]" in table("toy", size="small").partition("**Verdicts**")[2]


def test_items_that_do_not_belong_together_give_a_gain_no_interval(store, scores):
    definition, figures = load_definition("toy"), [float(each.mean()) for each in scores]
    pieces = np.repeat(np.arange(ITEMS // 4), 4)

    def gain(second, definition=definition, **items):
        store("Base", 1, {"bleu1": figures[0]}, {"bleu1": scores[0], **items})
        store("DM-Base", 1, {"bleu1": float(second["bleu1"].mean())}, second)
        return next(each.interval for each in compare(toy(definition))[0] if each.row == "DM-Base")

    assert gain({"bleu1": scores[1]}) is not None
    assert gain({"bleu1": scores[1][:50]}) is None
    assert gain({"bleu1": scores[1]}, bleu1_documents=pieces) is None
    assert gain({"bleu1": scores[1], "bleu1_documents": pieces}, bleu1_documents=pieces) is not None
    assert gain({"bleu1": scores[1], "bleu1_documents": pieces[::-1]}, bleu1_documents=pieces) is None
    unpaired = dataclasses.replace(definition.columns[0], test="welch_t")
    assert gain({"bleu1": scores[1]}, dataclasses.replace(definition, columns=(unpaired,))) is None
