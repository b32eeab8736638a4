"""The table of former digests, and the marks on results made before a change."""

import json
from pathlib import Path

import pytest

from depgen.errors import UserError
from depgen.reporting.definition import load_definition
from depgen.reporting.digests import change_since, digest_today, digests_path
from depgen.reporting.experiments import table_names
from depgen.reporting.jobs import Job
from depgen.reporting.store import read_tracked
from depgen.reporting.tables import table
from depgen.training.experiment import Experiment, sizes_of

TABLES = sorted(path.stem for path in Path("experiments/measured").glob("*.jsonl"))


def write(**tables):
    path = digests_path()
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"today": {}, "before": {}, **tables}))


@pytest.mark.slow
def test_every_experiment_has_a_digest_at_every_size_and_no_two_the_same():
    found: dict[str, list[str]] = {}
    for path in sorted(Path("experiments").glob("*.yaml")):
        for each in (Experiment(path, size) for size in sizes_of(path)):
            found.setdefault(each.digest, []).append(str(each))
    assert len(found) > 130
    assert [names for names in found.values() if len(names) > 1] == []


@pytest.mark.slow
def test_former_digests_lead_to_experiments_of_today():
    listed = json.loads(digests_path().read_text())
    bases = [Experiment(path, size) for path in Path("experiments").glob("*.yaml") for size in sizes_of(path)]
    rows = [
        row.experiment_at(size)
        for definition in map(load_definition, table_names())
        for row in definition.rows
        if row.experiment is not None
        for size in definition.sizes
    ]
    known = {each.digest for each in (*bases, *rows)} | set(listed["before"])
    known |= {digest_today(digest) for digest in listed["of_no_file_today"]}
    assert len(listed["today"]) > 100
    assert {digest_today(digest) for digest in listed["today"]} - known == set()


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_every_tracked_result_is_of_an_experiment_of_today_or_listed(name):
    listed = json.loads(digests_path().read_text())
    former = {digest_today(digest) for digest in listed["of_no_file_today"]} | set(listed["before"])
    definition = load_definition(name)
    for size in definition.sizes:
        for result in read_tracked(definition, size=size)[0]:
            config = Job(definition, definition.row(result.row), size, result.seed).config
            assert result.config_sha256 in {config.digest, *former}, f"{result.row}, seed {result.seed}: {config}"


def test_successors_are_followed_and_a_circle_is_refused(project):
    assert digest_today("a") == "a"
    write(today={"a": "b", "b": "c"})
    assert [digest_today(each) for each in "abcd"] == ["c", "c", "c", "d"]
    write(today={"a": "b", "b": "a"})
    with pytest.raises(UserError, match=r"digests\.json"):
        digest_today("a")


def test_rows_made_before_a_change_are_marked_until_they_are_made_again(project, store):
    store("Base", 1, {"bleu1": 10.0}, config_sha256="old")
    store("DM-Base", 1, {"bleu1": 12.0}, config_sha256="fresh")
    assert "made before" not in table("toy", size="small")
    write(today={"old": "older"}, before={"older": "the new plateau"})
    assert change_since("older") == "the new plateau"
    assert "made before the new plateau: Base" in table("toy", size="small")
    store("Base", 1, {"bleu1": 10.0}, config_sha256="fresh")
    assert "made before" not in table("toy", size="small")
