"""The digests of tracked results, and the marks on results made before a correction."""

from pathlib import Path

import pytest

from depgen.reporting.definition import load_definition
from depgen.reporting.jobs import Job
from depgen.reporting.store import read_tracked
from depgen.reporting.tables import table
from depgen.training.experiment import Experiment, sizes_of

TABLES = sorted(path.stem for path in Path("experiments/measured").glob("*.jsonl"))


@pytest.mark.slow
def test_every_experiment_has_a_digest_at_every_size_and_no_two_the_same():
    names: dict[str, list[str]] = {}
    for path in sorted(Path("experiments").glob("*.yaml")):
        for experiment in (Experiment(path, size) for size in sizes_of(path)):
            names.setdefault(experiment.digest, []).append(str(experiment))
    assert len(names) > 130
    assert [same for same in names.values() if len(same) > 1] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_every_tracked_result_is_of_an_experiment_of_today_or_says_what_came_since(name):
    """Sizes of corpora, which depend on no configuration, are left out."""
    definition = load_definition(name)
    for size in definition.sizes:
        for result in read_tracked(definition, size=size)[0]:
            row = definition.row(result.row)
            if row.floor != "corpus" and result.made_before is None:
                assert result.config_sha256 == Job(definition, row, size, result.seed).config.digest, result.row


@pytest.mark.usefixtures("project")
def test_rows_made_before_a_correction_are_marked_until_they_are_made_again(store):
    store("Base", 1, {"bleu1": 10.0}, made_before="the new plateau")
    store("DM-Base", 1, {"bleu1": 12.0})
    assert "made before the new plateau: Base" in table("toy", size="small")
    store("Base", 1, {"bleu1": 10.0})
    assert "made before" not in table("toy", size="small")
