"""Results of another configuration or other data than today's are named, and marked in the table."""

import pytest
import yaml

from depgen.cli import main
from depgen.data.experiment import data_of
from depgen.data.source import source_of
from depgen.reporting.definition import load_definition
from depgen.reporting.results import result_path, write_result
from depgen.reporting.store import measured_path
from depgen.reporting.tables import table
from tests.reporting.conftest import make_result

TEXT = {"class_path": "depgen.data.text_lines.TextLines", "init_args": {"folder": "mine"}}


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
