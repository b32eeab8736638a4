"""The z-test over resampled test sets as a table's test, and the lines of paired differences beside it."""

import numpy as np
import pytest
import yaml

from depgen.metrics.coherence import one_sided_p
from depgen.reporting.comparison import compare, starred
from depgen.reporting.definition import load_definition
from depgen.reporting.resamples import differences
from depgen.reporting.results import read_results

TOY = {
    "table": "toy",
    "caption": "Invented coherence",
    "source": "an invented paper, Table 3",
    "columns": [{"key": "order", "header": "Accuracy", "higher_better": True, "test": "z_test"}],
    "rows": [
        {"name": "Base", "experiment": "base_toy"},
        {"name": "DM-Base", "experiment": "dm_toy", "against": ["Base"]},
        {"name": "DM-Base, left chain", "experiment": "chain_toy", "against": ["Base"]},
    ],
}


@pytest.fixture
def definition(project):
    (project / "experiments/published/toy.yaml").write_text(yaml.safe_dump(TOY))
    return load_definition("toy")


@pytest.fixture
def results(definition, store):
    """Two seeds each of two systems, and one of a system whose resampled sets were not kept."""
    generator = np.random.default_rng(0)
    draws = generator.normal(scale=3, size=(2, 1000))
    kept = {}
    for row, accuracy in (("Base", 70.0), ("DM-Base", 70.5)):
        for seed in (1, 2):
            own = accuracy + draws[seed - 1] + generator.normal(scale=0.1, size=1000)
            items = {"order": [accuracy - 1, accuracy + 1], "order_resamples": own}
            store(row, seed, {"order": accuracy}, items)
            kept.setdefault(row, []).append(own)
    store("DM-Base, left chain", 1, {"order": 71.0}, {"order": [71.0, 71.0]})
    found = {row.name: read_results("toy", row.slug, profile="small") for row in definition.rows}
    return found, {row: np.mean(each, 0) for row, each in kept.items()}


def test_the_z_test_is_over_resampled_sets(definition, results):
    found, kept = results
    comparisons, _ = compare(definition, found)
    (pair,) = [each for each in comparisons if (each.row, each.other) == ("DM-Base", "Base")]
    difference = kept["DM-Base"].mean() - kept["Base"].mean()
    z = difference / np.sqrt((kept["DM-Base"].var() + kept["Base"].var()) / 1000)
    tests = len({frozenset((each.row, each.other)) for each in comparisons if each.p_value is not None})
    assert pair.p_value == pytest.approx(2 * one_sided_p(z) * tests)
    untested = [each for each in comparisons if "DM-Base, left chain" in (each.row, each.other)]
    assert untested
    assert all(each.untested == "no per-item scores of DM-Base, left chain" for each in untested)
    assert not {name for name, _ in starred(definition, found, untested)}


def test_pairs_have_their_interval_beside_z(definition, results):
    found, kept = results
    explained, line = differences(definition, found)
    paired = kept["DM-Base"] - kept["Base"]
    low, high = np.quantile(paired, [0.025, 0.975])
    assert line.startswith(f"DM-Base against Base: Accuracy {paired.mean():+.2f} [{low:.2f}, {high:.2f}], z = ")
    assert high - low < 1, "what both draws share is gone"
    assert "takes resampled sets for independent observations" in explained
    assert list(differences(definition, {})) == []
