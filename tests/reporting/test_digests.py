"""The digests of tracked results, and the marks on results made before a correction."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from depgen.reporting.jobs import Job
from depgen.reporting.render import tracked_page
from depgen.reporting.results import measured_path, read_tracked, why_outdated
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
        for result in read_tracked(definition, size=size).results:
            row = definition.row(result.row)
            if row.floor != "corpus" and result.made_before is None:
                assert result.config_sha256 == Job(definition, row, size, result.seed).config.digest, result.row


@pytest.mark.usefixtures("project")
def test_a_result_is_out_of_date_once_its_configuration_changes_or_it_was_made_before_a_correction():
    path = Path("experiments/dm_toy.yaml")
    definition = load_definition("toy")
    job = Job(definition, definition.row("DM-Base"), "small", 1)
    result = make_result("DM-Base", 1, {}, config_sha256=job.config.digest)
    assert why_outdated(result, job.config) is None
    assert why_outdated(replace(result, made_before="a correction"), job.config) == "made before a correction"
    path.write_text(path.read_text().replace("max_epochs: 2", "max_epochs: 3"))
    assert why_outdated(result, job.config) == "made before experiments/dm_toy.yaml (size small) was changed"
    assert why_outdated(replace(result, beginning="gpt2"), job.config) is None, "a command named its weights"
    path.write_text(path.read_text().replace("max_epochs", "max_epoch"))
    assert why_outdated(result, job.config).startswith("its configuration no longer reads")


@pytest.mark.usefixtures("project")
def test_a_tracked_line_of_another_digest_is_shown_with_a_note():
    definition = load_definition("toy")
    digest = definition.row("Base").experiment_at("small").digest
    result = make_result("Base", 1, {"bleu1": 10.0}, config_sha256=digest)
    lines = [{"kind": "result", **asdict(replace(result, seed=seed))} for seed in (1, 2)]
    lines[1] |= {"config_sha256": "of before", "metrics": {"bleu1": 12.0}}
    measured_path("toy").parent.mkdir(parents=True)
    measured_path("toy").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    page = tracked_page(definition, "small")
    assert "| measured | 11.00 ± 1.41 |" in page
    assert "- Out of date: made before experiments/base_toy.yaml (size small) was changed: Base (seed 2)." in page
