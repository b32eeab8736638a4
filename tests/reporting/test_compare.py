import dataclasses
import math

import numpy as np
import pytest
from scipy import stats

from depgen.reporting.comparison import best_other, compare, starred, summarise
from depgen.reporting.definition import TOKENS, load_definition

ITEMS = 200


@pytest.fixture
def scores():
    generator = np.random.default_rng(3)
    base = generator.normal(10, 3, ITEMS)
    return {
        "base": base,
        "better": base + generator.normal(0.5, 1, ITEMS),
        "same": base + generator.normal(0, 1, ITEMS),
    }


def results_of(store, scores, *, seeds=(1, 2), chain=None):
    """Base, DM-Base and, where given, the chain; the measure is the items' mean, each seed a little off."""
    rows = {"Base": scores["base"], "DM-Base": scores["better"]}
    if chain is not None:
        rows["DM-Base, left chain"] = chain
    return {
        row: [store(row, seed, {"bleu1": float(items.mean()) + 0.01 * seed}, {"bleu1": items}) for seed in seeds]
        for row, items in rows.items()
    }


def test_perplexity_is_tested_by_what_it_is_the_mean_of_nats_over_all_tokens(project, store):
    path = project / "experiments/tables/toy.yaml"
    path.write_text(
        path.read_text().replace("higher_better: false, expl", "higher_better: false, test: paired_t, expl")
    )
    generator = np.random.default_rng(5)
    tokens = np.repeat([1.0, 50.0], ITEMS // 2)  # worse on each of the short texts, better on each of the long ones
    base = generator.normal(4, 0.1, ITEMS)
    nats = {"Base": base, "DM-Base": base + np.where(tokens > 1, -0.1, 0.2) + generator.normal(0, 0.01, ITEMS)}
    results = {
        row: [
            store(
                row, 1, {"perplexity": math.exp(np.average(each, weights=tokens))}, {"perplexity": each, TOKENS: tokens}
            )
        ]
        for row, each in nats.items()
    }
    (found,) = (each for each in compare(load_definition("toy"), results)[0] if each.row == "DM-Base")
    assert found.gain > 0
    assert not found.contradicted
    first, second = (nats[row] * tokens / tokens.mean() for row in ("DM-Base", "Base"))
    assert found.p_value == pytest.approx(stats.ttest_rel(first, second).pvalue)
    assert nats["DM-Base"].mean() > base.mean(), "each text alike would tell the other direction"


def test_mean_and_deviation_over_seeds(store):
    results = [store("Base", seed, {"bleu1": value}) for seed, value in ((1, 10.0), (2, 12.0), (3, 14.0))]
    summary = summarise(results, "bleu1")
    assert (summary.mean, summary.deviation, summary.seeds) == (12.0, 2.0, 3)
    assert summarise(results[:1], "bleu1").deviation is None
    assert summarise(results, "perplexity") is None


def test_the_p_value_is_scipys_after_holm(store, scores):
    comparisons, tests = compare(load_definition("toy"), results_of(store, scores, chain=scores["same"]))
    raw = {
        frozenset(pair): stats.ttest_rel(first, second).pvalue
        for pair, first, second in (
            (("DM-Base", "Base"), scores["better"], scores["base"]),
            (("DM-Base", "DM-Base, left chain"), scores["better"], scores["same"]),
        )
    }
    # the best other of Base and of the chain is DM-Base; DM-Base's is whichever of the two is higher
    assert tests == 2
    low, high = sorted(raw.values())
    expected = {low: 2 * low, high: max(2 * low, high)}
    for comparison in comparisons:
        pair = frozenset((comparison.row, comparison.other))
        assert comparison.p_value == pytest.approx(min(1, expected[raw[pair]]))


def test_the_winner_alone_is_starred(store, scores):
    definition, results = load_definition("toy"), results_of(store, scores, chain=scores["same"])
    comparisons, _ = compare(definition, results)
    assert starred(definition, results, comparisons) == {("DM-Base", "bleu1")}
    by_row = {(item.row, item.other): item for item in comparisons}
    assert by_row["DM-Base", "Base"].verdict == "wins"
    assert by_row["Base", "DM-Base"].verdict == "loses"
    assert by_row["Base", "DM-Base"].gain == pytest.approx(-by_row["DM-Base", "Base"].gain)


def test_chance_wins_no_star(store, scores):
    definition = load_definition("toy")
    results = results_of(store, {"base": scores["base"], "better": scores["same"]})
    comparisons, _ = compare(definition, results)
    assert starred(definition, results, comparisons) == set()
    assert {item.verdict for item in comparisons} == {"undecided"}


def test_lower_is_better_where_the_table_says_so(store, scores):
    definition = load_definition("toy")
    results = {
        "Base": [
            store("Base", seed, {"selfbleu2": 90.0 + seed / 10}, {"selfbleu2": scores["better"]}) for seed in (1, 2)
        ],
        "DM-Base": [store("DM-Base", seed, {"selfbleu2": 80.0}, {"selfbleu2": scores["base"]}) for seed in (1, 2)],
    }
    comparisons, _ = compare(definition, results)
    assert starred(definition, results, comparisons) == {("DM-Base", "selfbleu2")}
    (mine,) = [item for item in comparisons if item.row == "DM-Base"]
    assert mine.gain == pytest.approx(10.15)
    assert mine.margin == pytest.approx(2 * math.sqrt(0.05**2 * 2 / 2))


def test_one_seed_leaves_the_verdict_open(store, scores):
    comparisons, _ = compare(load_definition("toy"), results_of(store, scores, seeds=(1,)))
    assert {item.verdict for item in comparisons} == {"undecided"}
    assert all(item.margin is None and item.significant for item in comparisons)


def test_a_margin_decides_where_nothing_is_tested(store):
    results = {
        "Base": [store("Base", seed, {"perplexity": value}) for seed, value in ((1, 50.0), (2, 50.2))],
        "DM-Base": [store("DM-Base", seed, {"perplexity": value}) for seed, value in ((1, 49.0), (2, 49.2))],
    }
    comparisons, tests = compare(load_definition("toy"), results)
    assert tests == 0
    assert {item.row: item.verdict for item in comparisons} == {"Base": "loses", "DM-Base": "wins"}
    assert {item.untested for item in comparisons} == {"no test for this measure"}


def test_what_cannot_be_tested_says_why(store, scores):
    results = results_of(store, scores)
    results["DM-Base"] = [store("DM-Base", seed, {"bleu1": 11.0}) for seed in (1, 2)]
    comparisons, _ = compare(load_definition("toy"), results)
    assert {item.untested for item in comparisons} == {"no per-item scores of DM-Base"}
    results["DM-Base"] = [store("DM-Base", seed, {"bleu1": 11.0}, {"bleu1": [1.0, 2.0]}) for seed in (1, 2)]
    comparisons, _ = compare(load_definition("toy"), results)
    assert {item.untested for item in comparisons} == {
        "Base has 200 items and DM-Base 2",
        "DM-Base has 2 items and Base 200",
    } & {item.untested for item in comparisons}


def test_equal_systems_are_not_told_apart(store, scores):
    results = results_of(store, {"base": scores["base"], "better": scores["base"]})
    comparisons, _ = compare(load_definition("toy"), results)
    assert {item.p_value for item in comparisons} == {1.0}


def test_rivals_come_from_the_same_block(store):
    definition = load_definition("toy")
    results = {"Old": [store("Old", 1, {"bleu1": 99.0})], "Base": [store("Base", 1, {"bleu1": 1.0})]}
    assert best_other(definition, results, definition.row("Base"), definition.column("bleu1")) is None


def test_a_test_that_points_the_other_way_decides_nothing(store, scores):
    rows = (("Base", 12.0, scores["base"]), ("DM-Base", 10.0, scores["better"]))
    results = {
        row: [store(row, seed, {"bleu1": figure}, {"bleu1": items}) for seed in (1, 2)] for row, figure, items in rows
    }
    definition = load_definition("toy")
    comparisons, tests = compare(definition, results)
    assert tests == 1
    assert {item.untested for item in comparisons} == {"the items differ in the other direction than the figures"}
    assert {item.verdict for item in comparisons} == {"undecided"}
    assert starred(definition, results, comparisons) == set()


@pytest.mark.parametrize(("empty", "verdict"), [(1.0, "wins"), (3.0, "not compared")])
def test_unequal_shares_of_empty_texts_do_not_compare(store, scores, empty, verdict):
    results = {}
    for row, items, count in (("Base", scores["base"], 0.0), ("DM-Base", scores["better"], empty)):
        metrics = {"bleu1": float(items.mean()), "texts": 200.0, "empty": count}
        results[row] = [store(row, seed, metrics, {"bleu1": items}) for seed in (1, 2)]
    definition = load_definition("toy")
    comparisons, tests = compare(definition, results)
    (mine,) = [item for item in comparisons if item.row == "DM-Base"]
    assert mine.verdict == verdict
    assert tests == (verdict == "wins")
    assert bool(starred(definition, results, comparisons)) == (verdict == "wins")
    if verdict != "wins":
        assert "1.5 % of those of DM-Base" in mine.incomparable


@pytest.mark.parametrize(("key", "measure"), [("union", None), ("bertscore", None), ("cold", "distinct2")])
def test_a_measure_in_which_an_empty_text_scores_nothing_does_not_compare(store, scores, key, measure):
    results = {}
    for row, items, count in (("Base", scores["base"], 0.0), ("DM-Base", scores["better"], 3.0)):
        metrics = {key: float(items.mean()), "texts": 200.0, "empty": count}
        results[row] = [store(row, seed, metrics, {key: items}) for seed in (1, 2)]
    definition = load_definition("toy")
    column = dataclasses.replace(definition.columns[0], key=key, measure=measure)
    comparisons, tests = compare(dataclasses.replace(definition, columns=(column,)), results)
    assert {each.verdict for each in comparisons} == {"not compared"}
    assert tests == 0


def test_figures_of_different_judges_do_not_compare(store, scores):
    def results(judge):
        return {
            row: [
                store(row, seed, {"bleu1": float(items.mean())}, {"bleu1": items}, settings={"bleu1": judged_by})
                for seed in (1, 2)
            ]
            for row, items, judged_by in (("Base", scores["base"], "scorer a"), ("DM-Base", scores["better"], judge))
        }

    definition = load_definition("toy")
    alike, tests = compare(definition, results("scorer a"))
    assert ({each.verdict for each in alike}, tests) == ({"wins", "loses"}, 1)
    comparisons, tests = compare(definition, results("scorer b"))
    assert ({each.verdict for each in comparisons}, tests) == ({"not compared"}, 0)
    assert "judged by different models" in comparisons[0].incomparable
    assert starred(definition, results("scorer b"), comparisons) == set()


def test_seeds_of_different_judges_have_no_mean(store):
    first = store("Base", 1, {"bleu1": 10.0, "perplexity": 40.0}, settings={"bleu1": "scorer a"})
    second = store("Base", 2, {"bleu1": 12.0, "perplexity": 42.0}, settings={"bleu1": "scorer b"})
    unmeasured = store("Base", 3, {"perplexity": 41.0}, settings={"bleu1": "scorer c"})
    assert summarise([first, second], "bleu1") is None
    assert summarise([first, unmeasured], "bleu1").mean == 10.0
    assert summarise([first, second], "perplexity").mean == 41.0


def test_samples_that_belong_to_nothing_are_compared_by_welch_over_all_seeds(store, scores, project):
    path = project / "experiments/tables/toy.yaml"
    path.write_text(
        path.read_text().replace("higher_better: true, test: paired_t", "higher_better: true, test: welch_t")
    )
    first = [scores["base"], scores["same"][:150]]
    second = [scores["better"] + 1, scores["better"][:120] + 1]
    second[0][3] = np.nan
    results = {
        row: [
            store(row, seed, {"bleu1": float(np.nanmean(items))}, {"bleu1": items})
            for seed, items in enumerate(samples, start=1)
        ]
        for row, samples in (("Base", first), ("DM-Base", second))
    }
    comparisons, tests = compare(load_definition("toy"), results)
    pooled = np.concatenate(second)
    expected = stats.ttest_ind(np.concatenate(first), pooled[~np.isnan(pooled)], equal_var=False).pvalue
    assert tests == 1
    assert [each.p_value for each in comparisons] == pytest.approx([expected] * len(comparisons))
    results["Base"] = [store("Base", 1, {"bleu1": 9.0}, {"bleu1": [9.0]})]
    assert {each.untested for each in compare(load_definition("toy"), results)[0]} == {
        "fewer than two items with a score"
    }


def of_words(store, right, words, *, seeds=(1, 2)):
    """A table whose first column is the share of all words, and each row's results: sentences weigh by their words."""
    definition = load_definition("toy")
    column = dataclasses.replace(definition.columns[0], weights="parsed_words")
    results = {
        row: [
            store(
                row,
                seed,
                {"bleu1": 100 * each.sum() / words.sum()},
                {"bleu1": 100 * each / words, "parsed_words": words},
            )
            for seed in seeds
        ]
        for row, each in right.items()
    }
    return dataclasses.replace(definition, columns=(column,)), results


def test_sentences_are_compared_by_their_words(store):
    """Better in all short sentences, worse in the few long ones that hold most words."""
    words = np.array([2.0] * 150 + [40.0] * 150)
    generator = np.random.default_rng(8)
    base = generator.binomial(words.astype(int), 0.5).astype(float)
    other = base + np.where(words < 10, 1.0, -2.0) * (generator.random(300) < 0.7)
    other = other.clip(0, words)
    definition, results = of_words(store, {"Base": base, "DM-Base": other}, words)
    plain = (100 * (other - base) / words).mean()
    share = 100 * (other.sum() - base.sum()) / words.sum()
    assert plain > 0 > share
    comparisons, tests = compare(definition, results)
    assert tests == 1
    (mine,) = [each for each in comparisons if each.row == "DM-Base"]
    assert mine.gain == pytest.approx(share)
    # each sentence counts by its share of the words
    raw = stats.ttest_rel(100 * other / words.mean(), 100 * base / words.mean()).pvalue
    assert mine.p_value == pytest.approx(raw)
    assert mine.verdict == "loses"
    assert starred(definition, results, comparisons) == {("Base", "bleu1")}


def test_sentences_without_their_weights_are_not_tested(store):
    words = np.arange(1.0, 31.0)
    definition, results = of_words(store, {"Base": words / 2, "DM-Base": words / 3}, words)
    results["DM-Base"] = [store("DM-Base", 1, {"bleu1": 100 / 3}, {"bleu1": np.full(30, 100 / 3)})]
    comparisons, tests = compare(definition, results)
    assert tests == 0
    assert {each.untested for each in comparisons} == {"no per-item scores of DM-Base"}


def test_no_seed_varies_a_floor(store):
    definition = load_definition("toy")
    rows = [
        dataclasses.replace(row, floor_of="base_toy" if row.name == "Base" else None, against=("Base",))
        for row in definition.rows
        if row.name in ("Base", "DM-Base")
    ]
    definition = dataclasses.replace(definition, rows=tuple(rows))
    floor = [store("Base", 1, {"perplexity": 50.0})]
    seeds = [store("DM-Base", seed, {"perplexity": value}) for seed, value in ((1, 48.0), (2, 49.0))]
    ((found,), _) = compare(definition, {"Base": floor, "DM-Base": seeds})
    assert (found.gain, found.verdict) == (1.5, "wins")
    assert found.margin == pytest.approx(2 * math.sqrt(0.5 / 2))
    ((alone,), _) = compare(definition, {"Base": floor, "DM-Base": seeds[:1]})
    assert (alone.margin, alone.verdict) == (None, "undecided")
