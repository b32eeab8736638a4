"""Results of another configuration or other data than today's are named, and marked in the table."""

import csv
import dataclasses
import hashlib
import io
import os

import pytest
import yaml

from depgen.cli import main
from depgen.data.experiment import data_of
from depgen.data.record import source_of
from depgen.locations import file_sha256
from depgen.reporting.definition import load_definition
from depgen.reporting.generation import Generation
from depgen.reporting.jobs import Job
from depgen.reporting.results import read_result, result_path, write_result
from depgen.reporting.store import measured_path
from depgen.reporting.tables import table
from tests.reporting.conftest import make_result

TEXT = {"class_path": "depgen.data.corpora.TextLines", "init_args": {"folder": "mine", "steps": []}}


@pytest.fixture
def made(project, monkeypatch):
    """The toy table on text of one's own, with two results of each row."""
    monkeypatch.setenv("DEPGEN_DATA", str(project / "data"))
    (project / "data/mine").mkdir(parents=True)
    for split in ("train", "valid", "test"):
        (project / f"data/mine/{split}.txt").write_text("she ran .\nshe won .\n")
    for name in ("base_toy", "dm_toy"):
        path = project / f"experiments/{name}.yaml"
        settings = yaml.safe_load(path.read_text())
        settings["data"]["init_args"] = {"corpus": TEXT, "max_documents": 1}
        path.write_text(yaml.safe_dump(settings))
        (project / f"experiments/sizes/small/{name}.yaml").write_text("seed_everything: 3\n")
    for row in ("Base", "DM-Base"):
        config = load_definition("toy").row(row).experiment_at("small")
        source = source_of(data_of(config).corpus, max_documents=1)
        for seed in (1, 2):
            result = make_result(row, seed, {"perplexity": 9.0}, config_sha256=config.digest, data=source)
            write_result(result, result_path("toy", row, size="small", seed=seed))
    return project


def checked(capsys):
    assert main(["reproduce", "toy", "--check"]) == 0
    return [line for line in capsys.readouterr().out.splitlines() if "out of date" in line]


def shown():
    return " ".join(table("toy", size="small", format="text").split())


def test_results_of_today_are_not_marked(made, capsys):
    assert checked(capsys) == []
    assert "out of date" not in shown()


def test_a_changed_configuration_is_named_and_marked(made, capsys):
    path = made / "experiments/dm_toy.yaml"
    path.write_text(path.read_text().replace("max_documents: 1", "max_documents: 2"))
    first, second = checked(capsys)
    assert "results/toy/DM-Base/small-seed1.json" in first
    assert "dm_toy.yaml (size small) was changed; --redo" in first
    assert "DM-Base, small, seed 2" in second
    found = shown()
    assert "DM-Base (out of date)" in found
    assert "Base (out of date)" not in found.replace("DM-Base (out of date)", "")
    assert "DM-Base, seeds 1, 2 are out of date: made before experiments/dm_toy.yaml" in found
    assert "depgen reproduce toy --size small --row ROW --redo" in found


def test_changed_data_are_named_and_marked(made, capsys):
    (made / "data/mine/test.txt").write_text("he ran .\n")
    lines = checked(capsys)
    assert len(lines) == 4
    assert all("other data of" in line and "--redo" in line for line in lines)
    assert shown().count("(out of date)") == 2


def test_data_that_are_not_at_hand_tell_nothing(made, capsys):
    (made / "data/mine/test.txt").unlink()
    assert "out of date" not in shown()


def test_results_that_are_out_of_date_are_not_recorded(made, capsys):
    assert main(["record", "toy", "--size", "small"]) == 0
    before = measured_path("toy").read_text()
    path = made / "experiments/dm_toy.yaml"
    path.write_text(path.read_text().replace("max_documents: 1", "max_documents: 2"))
    assert main(["record", "toy", "--size", "small"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "results/toy: " in line
    assert "DM-Base, seed 2: made before experiments/dm_toy.yaml" in line
    assert "depgen reproduce toy --row DM-Base --size small --seeds [1,2] --redo" in line
    assert "Base, seed" not in line.replace("DM-Base, seed", "")
    assert measured_path("toy").read_text() == before


@pytest.mark.parametrize(
    ("former", "latter", "named"), [("CausalLM", "CausalML", "CausalML"), ("model:", "model: {", "dm_toy.yaml")]
)
def test_a_configuration_that_no_longer_reads_is_named_and_the_table_shown(made, former, latter, named):
    path = made / "experiments/dm_toy.yaml"
    path.write_text(path.read_text().replace(former, latter))
    found = shown()
    assert "DM-Base (out of date)" in found
    assert "DM-Base, seeds 1, 2 are out of date: its configuration no longer reads" in found
    assert named in found
    assert "Base (out of date)" not in found.replace("DM-Base (out of date)", "")


def result_of(row, seed, **changes):
    """A stored result of a row with other entries."""
    path = result_path("toy", row, size="small", seed=seed)
    write_result(dataclasses.replace(read_result(path), **changes), path)


def test_a_spreadsheet_says_what_is_out_of_date(made):
    path = made / "experiments/dm_toy.yaml"
    path.write_text(path.read_text().replace("max_documents: 1", "max_documents: 2"))
    lines = list(csv.DictReader(io.StringIO(table("toy", size="small", format="csv"))))
    old = {(line["system"], line["numbers"]) for line in lines if line["out_of_date"]}
    assert old == {("DM-Base", "local")}
    assert {line["system"] for line in lines} > {"DM-Base"}
    (reason,) = {line["out_of_date"] for line in lines} - {""}
    assert reason.startswith("seed 1: made before experiments/dm_toy.yaml")
    assert "; seed 2: made before" in reason


def test_other_generation_settings_are_marked_in_the_table_too(made, capsys):
    result_of("DM-Base", 2, generation=Generation(top_p=0.3))
    assert "--remeasure makes it again" in "".join(checked(capsys))
    found = shown()
    assert "DM-Base, seed 2 is out of date: made with other generation settings" in found
    assert "--row ROW --remeasure`" in found


@pytest.mark.slow
def test_other_weights_are_marked_in_the_table_too(made, capsys):
    definition = load_definition("toy")
    training = Job(definition, definition.row("DM-Base"), "small", 1).training
    run = training.root / "2026-01-01"
    (run / "checkpoints").mkdir(parents=True)
    (run / "config.yaml").write_text(yaml.safe_dump(training.experiment.settings))
    (run / "run.json").write_text('{"finished": "2026-01-01"}')
    (run / "checkpoints/best.ckpt").write_bytes(b"first")
    result_of("DM-Base", 1, weights_sha256=file_sha256(run / "checkpoints/best.ckpt"))
    assert checked(capsys) == []
    assert "out of date" not in shown()
    (run / "checkpoints/best.ckpt").write_bytes(b"other")
    (line,) = checked(capsys)
    assert "of other weights than those of" in line
    assert "DM-Base, seed 1 is out of date: of other weights than those of" in shown()


def test_a_file_is_read_once_for_all_rows_of_a_table(made, monkeypatch):
    files = [made / f"data/mine/{split}.txt" for split in ("train", "valid", "test")]
    for path in files:
        os.utime(path, (1, 1))
    read = []
    digest = hashlib.file_digest
    monkeypatch.setattr(hashlib, "file_digest", lambda stream, name: read.append(stream.name) or digest(stream, name))
    shown()
    assert sorted(read) == sorted(map(str, files))
    files[0].write_text("he ran .\nshe won .\n")
    assert shown().count("(out of date)") == 2
