import itertools
import json
import math

import numpy as np
import pytest
import yaml
from scipy import stats

from depgen.metrics.significance import paired_bootstrap
from depgen.reporting.compare import best_cells, best_other, compare
from depgen.reporting.table import TOKENS, load_definition
from tests.reporting.conftest import ORDER_COLUMN, first_column
from tests.reporting.conftest import toy_results as toy

ITEMS = 200


def of(comparisons, row, other="Base", column="bleu1"):
    (found,) = [each for each in comparisons if (each.row, each.other, each.column) == (row, other, column)]
    return found


def item_tests(comparisons):
    """How many tests over items were made."""
    return len({(each.column, frozenset((each.row, each.other))) for each in comparisons if each.p_items is not None})


@pytest.fixture
def scores():
    generator = np.random.default_rng(3)
    base = generator.normal(10, 3, ITEMS)
    return {
        "base": base,
        "better": base + generator.normal(0.5, 1, ITEMS),
        "same": base + generator.normal(0, 1, ITEMS),
    }


@pytest.fixture
def put(store):
    """Stores systems by their items; the measure is the items' mean, each seed a little off."""

    def stored(rows, *, key="bleu1", seeds=(1, 2), metrics=None, settings=None):
        for row, items in rows.items():
            for seed in seeds:
                figures = {key: float(np.nanmean(items)) + 0.01 * seed, **(metrics or {}).get(row, {})}
                store(row, seed, figures, {key: items}, settings=(settings or {}).get(row, {}))

    return stored


def test_perplexity_is_tested_by_what_it_is_the_mean_of_nats_over_all_tokens(change, store):
    change("higher_better: false, expl", "higher_better: false, test: paired_t, expl")
    generator = np.random.default_rng(5)
    tokens = np.repeat([1.0, 50.0], ITEMS // 2)  # worse on each of the short texts, better on each of the long ones
    base = generator.normal(4, 0.1, ITEMS)
    nats = {"Base": base, "DM-Base": base + np.where(tokens > 1, -0.1, 0.2) + generator.normal(0, 0.01, ITEMS)}
    for row, each in nats.items():
        store(row, 1, {"perplexity": math.exp(np.average(each, weights=tokens))}, {"perplexity": each, TOKENS: tokens})
    found = of(compare(toy()), "DM-Base", column="perplexity")
    assert found.gain > 0
    first, second = (nats[row] * tokens / tokens.mean() for row in ("DM-Base", "Base"))
    assert found.p_items == pytest.approx(stats.ttest_rel(first, second).pvalue)
    assert found.items == ITEMS
    assert nats["DM-Base"].mean() > base.mean(), "each text alike would tell the other direction"


def test_the_p_value_is_scipys_after_holm(put, scores):
    put({"Base": scores["base"], "DM-Base": scores["better"], "DM-Base, left chain": scores["same"]})
    comparisons = compare(toy())
    raw = {
        frozenset(pair): stats.ttest_rel(first, second).pvalue
        for pair, first, second in (
            (("DM-Base", "Base"), scores["better"], scores["base"]),
            (("DM-Base", "DM-Base, left chain"), scores["better"], scores["same"]),
        )
    }
    # the best other of Base and of the chain is DM-Base; DM-Base's is whichever of the two is higher
    assert item_tests(comparisons) == 2
    low, high = sorted(raw.values())
    expected = {low: 2 * low, high: max(2 * low, high)}
    for comparison in comparisons:
        pair = frozenset((comparison.row, comparison.other))
        assert comparison.p_items == pytest.approx(min(1, expected[raw[pair]]))
    assert best_cells(toy(), comparisons) == {("DM-Base", "bleu1")}
    mine, theirs = of(comparisons, "DM-Base"), of(comparisons, "Base", "DM-Base")
    assert (mine.verdict, theirs.verdict, mine.gain) == ("wins", "loses", pytest.approx(-theirs.gain))
    put({"DM-Base": scores["same"], "DM-Base, left chain": scores["base"]})
    comparisons = compare(toy())
    assert ({item.verdict for item in comparisons}, best_cells(toy(), comparisons)) == ({"undecided"}, set())


def test_with_one_seed_items_alone_say_who_is_ahead(put, scores):
    put({"Base": scores["base"]}, seeds=(1,))
    put({"DM-Base": scores["better"]})
    comparisons = compare(toy())
    assert of(comparisons, "DM-Base").verdict == "ahead over items only"
    assert of(comparisons, "Base", "DM-Base").verdict == "behind over items only"
    assert all(item.p_seeds is None and item.p_items < 0.05 for item in comparisons)
    assert best_cells(toy(), comparisons) == set()


def test_seeds_that_vary_too_much_undo_what_items_say(put, store, scores):
    put({"Base": scores["base"], "DM-Base": scores["better"]})
    assert of(compare(toy()), "DM-Base").verdict == "wins"
    for seed, shift in ((1, -2.0), (2, 2.0)):
        items = scores["better"] + shift
        store("DM-Base", seed, {"bleu1": float(items.mean())}, {"bleu1": items})
    mine = of(compare(toy()), "DM-Base")
    assert mine.p_items < 0.05
    assert mine.p_seeds == pytest.approx(
        stats.ttest_ind(
            [scores["better"].mean() - 2, scores["better"].mean() + 2],
            [scores["base"].mean() + 0.01, scores["base"].mean() + 0.02],
            equal_var=False,
        ).pvalue
    )
    assert mine.verdict == "undecided"
    assert best_cells(toy(), compare(toy())) == set()


def test_planned_comparisons_alone_are_tested_by_ranks(change, put, store):
    plans = [("DM-Base", "Base", "perplexity"), ("DM-Base", "DM-Base, left chain", "perplexity")]
    planned = [dict(zip(("row", "against", "column"), plan, strict=True)) for plan in plans]
    change("seeds: [1, 2]", f"seeds: [0, 1, 2, 3]\nplanned: {json.dumps(planned)}")
    values = {"Base": (50, 51, 52, 53), "DM-Base": (48, 49, 47, 46), "DM-Base, left chain": (47.5, 48, 52, 51)}
    for row, figures in values.items():
        for seed, figure in enumerate(figures):
            assert not compare(toy()), "none is tested before all runs are there"
            store(row, seed, {"perplexity": float(figure)})
    first, second = compare(toy())
    raw = []
    for other in ("Base", "DM-Base, left chain"):  # all divisions of the eight figures into two fours
        both = stats.rankdata([*values["DM-Base"], *values[other]])
        sums = [abs(sum(each) - both.sum() / 2) for each in itertools.combinations(both, 4)]
        raw.append(np.mean([each >= abs(both[:4].sum() - both.sum() / 2) - 1e-9 for each in sums]))
    assert raw == [2 / 70, 16 / 70]
    assert (first.p_seeds, second.p_seeds) == (pytest.approx(2 * raw[0]), pytest.approx(raw[1]))
    assert (first.gain, first.p_items) == (4.0, None)
    low, high = first.interval  # of Base's mean less DM-Base's: lower perplexity is better
    draws = [[np.mean(each) for each in itertools.product(values[row], repeat=4)] for row in ("Base", "DM-Base")]
    np.testing.assert_allclose((low, high), np.percentile(np.subtract.outer(*draws), (2.5, 97.5)), atol=0.06)


def test_seeds_decide_where_no_items_are_tested(store):
    for row, values in (("Base", (50.0, 50.2)), ("DM-Base", (49.0, 49.2))):
        for seed, value in enumerate(values):
            store(row, seed, {"perplexity": value})
    comparisons = compare(toy())
    assert item_tests(comparisons) == 0
    assert {item.row: item.verdict for item in comparisons} == {"Base": "loses", "DM-Base": "wins"}
    assert {item.untested for item in comparisons} == {"no test for this measure"}


FAMILY = {"Base": 12.0, "DM-Base, left chain": 8.0, "Later": 7.0}
"""Gains of DM-Base over each. Two seeds each, 2 apart: t = gain / sqrt(2), 2 degrees of freedom:
p = 1 - t / sqrt(2 + t ** 2).

By hand: p = 0.01361, 0.02986, 0.03848; by Holm's method three times the first, and twice the second for both others.
"""


def judged(against):
    """The toy table with perplexity alone, DM-Base judged against these rows and no other against any."""
    definition = load_definition("toy")
    rows = [row.model_copy(update={"against": against if row.name == "DM-Base" else ()}) for row in definition.rows]
    return definition.model_copy(update={"columns": (definition.column("perplexity"),), "rows": tuple(rows)})


@pytest.mark.parametrize("there", [3, 2])
def test_tests_over_seeds_of_named_pairs_are_corrected_those_that_are_missing_included(store, there):
    definition = judged(tuple(FAMILY))
    for row, gain in {"DM-Base": 0.0, **dict(list(FAMILY.items())[:there])}.items():
        for seed, value in ((1, 49.0), (2, 51.0)):
            store(row, seed, {"perplexity": value + gain})
    comparisons = compare(toy(definition))
    by_hand = {"Base": 0.0408, "DM-Base, left chain": 0.0597, "Later": 0.0597}
    verdicts = {"Base": "wins", "DM-Base, left chain": "undecided", "Later": "undecided"}
    for other in list(FAMILY)[:there]:
        found = of(comparisons, "DM-Base", other, "perplexity")
        assert found.p_seeds == pytest.approx(by_hand[other], abs=5e-5)
        assert found.verdict == verdicts[other]
        assert of(comparisons, other, "DM-Base", "perplexity").p_seeds == found.p_seeds


def test_tests_over_seeds_of_the_other_pairs_are_a_family_of_their_own(store):
    rows = {"Base": (50.0, 52.0), "DM-Base": (44.0, 45.0), "DM-Base, left chain": (60.0, 61.0)}
    for row, (first, second) in rows.items():
        store(row, 1, {"perplexity": first})
        store(row, 2, {"perplexity": second})
    raw = [stats.ttest_ind(rows["DM-Base"], rows[name], equal_var=False).pvalue for name in list(rows)[::2]]
    for against in ((), ("Base",)):
        definition = judged(against)
        comparisons = compare(toy(definition))
        found = [of(comparisons, name, "DM-Base", "perplexity").p_seeds for name in list(rows)[::2]]
        assert found == pytest.approx(raw if against else [max(raw), 2 * min(raw)])  # alone in their families, or two


def test_what_cannot_be_tested_says_why(put, store, scores):
    put({"Base": scores["base"]})
    for items, said in ((None, "no per-item scores of DM-Base"), ([1.0, 2.0], "200 items and DM-Base 2|2 items and")):
        for seed in (1, 2):
            store("DM-Base", seed, {"bleu1": 11.0}, None if items is None else {"bleu1": items})
        for each in compare(toy()):
            assert any(part in each.untested for part in said.split("|"))


def test_rivals_are_judged_by_the_same_judge(put, scores):
    rows = {"Base": scores["base"], "DM-Base": scores["better"], "DM-Base, left chain": scores["better"] + 5}
    judges = {"Base": "a", "DM-Base": "a", "DM-Base, left chain": "b"}
    put(rows, settings={row: {"bleu1": judge} for row, judge in judges.items()})
    ours = toy()
    assert best_other(ours, ours.definition.row("Base"), ours.definition.column("bleu1")).name == "DM-Base"
    comparisons = compare(ours)
    assert best_cells(ours, comparisons) == {("DM-Base", "bleu1")}
    assert not [item for item in comparisons if "DM-Base, left chain" in (item.row, item.other)]


def test_a_test_that_points_the_other_way_decides_nothing(store, scores):
    for row, figure, items in (("Base", 12.0, scores["base"]), ("DM-Base", 10.0, scores["better"])):
        for seed in (1, 2):
            store(row, seed, {"bleu1": figure + seed / 100}, {"bleu1": items})
    comparisons = compare(toy())
    assert item_tests(comparisons) == 1
    assert {(item.p_items, item.verdict) for item in comparisons} == {(1.0, "undecided")}
    assert best_cells(toy(), comparisons) == set()


@pytest.mark.parametrize(("empty", "verdict"), [(1.0, "wins"), (3.0, "not compared")])
def test_unequal_shares_of_empty_texts_do_not_compare(put, scores, empty, verdict):
    counts = {"Base": {"texts": 200.0, "empty": 0.0}, "DM-Base": {"texts": 200.0, "empty": empty}}
    put({"Base": scores["base"], "DM-Base": scores["better"]}, metrics=counts)
    comparisons = compare(toy())
    mine = of(comparisons, "DM-Base")
    assert mine.verdict == verdict
    assert item_tests(comparisons) == (verdict == "wins")
    assert bool(best_cells(toy(), comparisons)) == (verdict == "wins")
    assert (mine.incomparable is None) == (verdict == "wins")


@pytest.mark.parametrize(("key", "measure"), [("union", None), ("bertscore", None), ("cold", "distinct2")])
def test_a_measure_in_which_an_empty_text_scores_nothing_does_not_compare(put, scores, key, measure):
    counts = {"Base": {"texts": 200.0, "empty": 0.0}, "DM-Base": {"texts": 200.0, "empty": 3.0}}
    put({"Base": scores["base"], "DM-Base": scores["better"]}, key=key, metrics=counts)
    comparisons = compare(toy(first_column(key=key, measure=measure)))
    assert {each.verdict for each in comparisons} == {"not compared"}
    assert item_tests(comparisons) == 0


def test_figures_of_different_judges_do_not_compare(put, scores):
    rows = {"Base": scores["base"], "DM-Base": scores["better"]}
    put(rows, settings={"Base": {"bleu1": "scorer a"}, "DM-Base": {"bleu1": "scorer a"}})
    alike = compare(toy())
    assert ({each.verdict for each in alike}, item_tests(alike)) == ({"wins", "loses"}, 1)
    put(rows, settings={"Base": {"bleu1": "scorer a"}, "DM-Base": {"bleu1": "scorer b"}})
    comparisons = compare(toy())
    assert item_tests(comparisons) == 0
    assert of(comparisons, "DM-Base").verdict == "not compared"
    assert "judged by different models" in of(comparisons, "DM-Base").incomparable
    assert best_cells(toy(), comparisons) == set()


def test_samples_that_belong_to_nothing_are_compared_by_welch_over_all_seeds(store, scores):
    first = [scores["base"], scores["same"][:150]]
    second = [scores["better"] + 1, scores["better"][:120] + 1]
    second[0][3] = np.nan
    for row, samples in (("Base", first), ("DM-Base", second)):
        for seed, items in enumerate(samples, start=1):
            store(row, seed, {"bleu1": float(np.nanmean(items))}, {"bleu1": items})
    definition = first_column(test="welch_t")
    comparisons = compare(toy(definition))
    pooled = np.concatenate(second)
    expected = stats.ttest_ind(np.concatenate(first), pooled[~np.isnan(pooled)], equal_var=False).pvalue
    assert item_tests(comparisons) == 1
    assert [each.p_items for each in comparisons] == pytest.approx([expected] * len(comparisons))
    for seed in (1, 2):
        store("Base", seed, {"bleu1": 9.0}, {"bleu1": [9.0] if seed == 1 else []})
    assert all(each.untested.startswith("fewer than two items") for each in compare(toy(definition)))


def of_words(store, right, words, *, seeds=(1, 2)):
    """Systems by their right words of each sentence, and the table: sentences weigh by their words."""
    for row, each in right.items():
        for seed in seeds:
            figure = 100 * each.sum() / words.sum() + seed / 1000
            store(row, seed, {"bleu1": figure}, {"bleu1": 100 * each / words, "parsed_words": words})
    return first_column(weights="parsed_words")


def test_sentences_are_compared_by_their_words(store, project):
    """Better in all short sentences, worse in the few long ones that hold most words."""
    words = np.array([2.0] * 150 + [40.0] * 150)
    generator = np.random.default_rng(8)
    base = generator.binomial(words.astype(int), 0.5).astype(float)
    other = base + np.where(words < 10, 1.0, -2.0) * (generator.random(300) < 0.7)
    other = other.clip(0, words)
    ours = toy(of_words(store, {"Base": base, "DM-Base": other}, words))
    plain = (100 * (other - base) / words).mean()
    share = 100 * (other.sum() - base.sum()) / words.sum()
    assert plain > 0 > share
    comparisons = compare(ours)
    assert item_tests(comparisons) == 1
    mine = of(comparisons, "DM-Base")
    assert mine.gain == pytest.approx(share)
    # each sentence counts by its share of the words
    raw = stats.ttest_rel(100 * other / words.mean(), 100 * base / words.mean()).pvalue
    assert mine.p_items == pytest.approx(raw)
    assert mine.verdict == "loses"
    assert best_cells(ours, comparisons) == {("Base", "bleu1")}


def test_no_seed_varies_a_floor(store, project):
    definition = judged(("Base",))
    rows = [row.model_copy(update={"floor": "source"} if row.name == "Base" else {}) for row in definition.rows[1:3]]
    definition = definition.model_copy(update={"rows": tuple(rows)})
    store("Base", 1, {"perplexity": 50.0})
    for seed, value in ((1, 48.0), (2, 48.02)):
        store("DM-Base", seed, {"perplexity": value})
        (found,) = compare(toy(definition))
        assert found.verdict == ("undecided", "wins")[seed - 1]
    assert found.gain == pytest.approx(1.99)


COHERENCE = {
    "table": "toy",
    "caption": "Invented coherence",
    "source": "an invented paper, Table 3",
    "columns": [ORDER_COLUMN],
    "rows": [
        {"name": "Base", "experiment": "base_toy"},
        {"name": "DM-Base", "experiment": "dm_toy", "against": ["Base"]},
        {"name": "DM-Base, left chain", "experiment": "chain_toy", "against": ["Base"]},
    ],
}
DOCUMENTS = np.repeat(np.arange(10), 4)


@pytest.fixture
def of_documents(project, store):
    """Two seeds each of two systems over pieces of ten documents, and one that does not say what its pieces are of."""
    (project / "experiments/tables/toy.yaml").write_text(yaml.safe_dump(COHERENCE))
    generator = np.random.default_rng(0)
    documents, kept = generator.normal(scale=5, size=10)[DOCUMENTS], {}
    for row, gain in (("Base", 0), ("DM-Base", documents + 2)):
        for seed in (1, 2):
            pieces = 70 + gain + generator.normal(size=40)
            store(row, seed, {"order": float(pieces.mean())}, {"order": pieces, "order_documents": DOCUMENTS})
            kept.setdefault(row, []).append(pieces)
    store("DM-Base, left chain", 1, {"order": 71.0}, {"order": np.full(40, 71.0)})
    return {row: np.mean(each, 0) for row, each in kept.items()}


def test_our_test_draws_whole_documents(of_documents):
    kept = of_documents
    comparisons = compare(toy())
    pair = of(comparisons, "DM-Base", column="order")
    expected = paired_bootstrap(kept["DM-Base"], kept["Base"], groups=DOCUMENTS)
    assert item_tests(comparisons) == 1
    assert pair.p_items == expected.p_value
    assert expected.p_value > 5 * paired_bootstrap(kept["DM-Base"], kept["Base"]).p_value
    untested = [each for each in comparisons if "DM-Base, left chain" in (each.row, each.other)]
    assert untested
    assert all("are of other documents" in each.untested for each in untested)
    assert not best_cells(toy(), untested)
