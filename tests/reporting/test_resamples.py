"""Tests and paired differences over whole documents, and the published z-test over resampled sets beside them."""

import math

import numpy as np
import pytest
import yaml

from depgen.errors import UserError
from depgen.metrics.coherence import one_sided_p, paired_interval, z_statistic
from depgen.metrics.significance import paired_bootstrap
from depgen.reporting.comparison import compare, starred
from depgen.reporting.definition import load_definition
from depgen.reporting.resamples import differences
from depgen.reporting.results import read_results
from tests.reporting.conftest import ORDER_COLUMN

TOY = {
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


@pytest.fixture
def definition(project):
    (project / "experiments/tables/toy.yaml").write_text(yaml.safe_dump(TOY))
    return load_definition("toy")


DOCUMENTS = np.repeat(np.arange(10), 4)


@pytest.fixture
def results(definition, store):
    """Two seeds each of two systems over pieces of ten documents, and one that does not say what its pieces are of."""
    generator = np.random.default_rng(0)
    draws, documents = generator.normal(scale=3, size=(2, 1000)), generator.normal(scale=5, size=10)[DOCUMENTS]
    kept, sets = {}, {}
    for row, accuracy, gain in (("Base", 70.0, 0), ("DM-Base", 72.0, documents + 2)):
        for seed in (1, 2):
            pieces, own = 70 + gain + generator.normal(size=40), accuracy + draws[seed - 1]
            own = own + generator.normal(scale=0.1, size=1000)
            items = {"order": pieces, "order_resamples": own, "order_documents": DOCUMENTS}
            store(row, seed, {"order": float(pieces.mean())}, items)
            kept.setdefault(row, []).append(pieces)
            sets.setdefault(row, []).append(own)
    store(
        "DM-Base, left chain", 1, {"order": 71.0}, {"order": np.full(40, 71.0), "order_resamples": np.full(1000, 71.0)}
    )
    found = {row.name: read_results("toy", row.slug, size="small") for row in definition.rows}
    return found, {row: np.mean(each, 0) for row, each in kept.items()}, sets


def test_our_test_draws_whole_documents(definition, results):
    found, kept, _ = results
    comparisons, tests = compare(definition, found)
    (pair,) = [each for each in comparisons if (each.row, each.other) == ("DM-Base", "Base")]
    expected = paired_bootstrap(kept["DM-Base"], kept["Base"], groups=DOCUMENTS)
    assert tests == 1
    assert pair.p_value == expected.p_value
    assert expected.p_value > 5 * paired_bootstrap(kept["DM-Base"], kept["Base"]).p_value
    untested = [each for each in comparisons if "DM-Base, left chain" in (each.row, each.other)]
    assert untested
    assert all(
        "of DM-Base, left chain do not say which are pieces of one document" in each.untested for each in untested
    )
    assert not {name for name, _ in starred(definition, found, untested)}


def test_pairs_have_their_interval_and_the_published_z_beside_it(definition, results):
    found, kept, sets = results
    explained, line, other = differences(definition, found)
    interval = paired_interval(kept["DM-Base"], kept["Base"], DOCUMENTS)
    means = tuple(np.mean(sets[row]) for row in ("DM-Base", "Base"))
    deviations = tuple(np.sqrt(np.mean(np.var(sets[row], axis=1))) for row in ("DM-Base", "Base"))
    z = z_statistic(means, deviations)
    assert z == pytest.approx((means[0] - means[1]) / math.sqrt((deviations[0] ** 2 + deviations[1] ** 2) / 1000))
    assert deviations[0] > 1.2 * np.std(np.mean(sets["DM-Base"], axis=0)), "the mean of two seeds varies less than one"
    assert line == (
        f"DM-Base against Base: Accuracy {interval.value:+.2f} [{interval.low:.2f}, {interval.high:.2f}], "
        f"published z = {z:.2f} (p = {one_sided_p(z):.2g})."
    )
    assert one_sided_p(z) < 1e-9, "which the paper would take for a win"
    assert "no star or verdict of ours" in explained
    assert other.startswith("DM-Base, left chain against Base: Accuracy not compared: the items of DM-Base, left chain")
    assert list(differences(definition, {})) == []


def test_the_published_test_is_a_z_test_and_no_test_of_ours(project):
    for key, value in (("test", "z_test"), ("published_test", "paired_t")):
        content = {**TOY, "columns": [{**TOY["columns"][0], key: value}]}
        (project / "experiments/tables/toy.yaml").write_text(yaml.safe_dump(content))
        with pytest.raises(UserError, match=rf"columns\[0\] \(order\): {key}: expected .*, found '{value}'"):
            load_definition("toy")
