"""The digests of tracked results."""

from pathlib import Path

import pytest

from depgen.errors import UserError
from depgen.reporting.jobs import Job
from depgen.reporting.pages import record_table
from depgen.reporting.results import tracked_results, write_result
from depgen.reporting.table import load_definition
from depgen.training.experiment import Experiment, sizes_of
from tests.reporting.conftest import make_result

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
        for result in tracked_results(definition, size=size):
            row = definition.row(result.row)
            if row.floor != "corpus" and result.made_before is None:
                assert result.config_sha256 == Job(definition, row, size, result.seed).config.digest, result.row


@pytest.mark.usefixtures("project")
def test_a_result_of_a_changed_experiment_is_not_recorded():
    definition, path = load_definition("toy"), Path("experiments/dm_toy.yaml")
    job = Job(definition, definition.row("DM-Base"), "small", 1)
    write_result(make_result("DM-Base", 1, {"bleu1": 1.0}, config_sha256=job.config.digest), job.result)
    assert [*record_table(definition, "small")]
    path.write_text(path.read_text().replace("max_epochs: 2", "max_epochs: 3"))
    with pytest.raises(UserError, match=r"DM-Base, seed 1: made before .*reproduce toy --size small --redo"):
        [*record_table(definition, "small")]
