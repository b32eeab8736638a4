"""Pairs and suites under runs that were trained on the spot, by the commands of the guide."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from depgen.cli import main
from tests.invented_data import write_corpora
from tests.invented_syntax import write_syntax

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "experiments/guides/syntax.md").read_text(encoding="utf-8")
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL) for line in block.splitlines()]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with corpora, pairs, suites and a run of the guide's name."""
    folder = tmp_path_factory.mktemp("syntax")
    write_corpora(folder / "data")
    write_syntax(folder / "data")
    experiment = str(ROOT / "experiments/transformer_rocstories.yaml")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in ("data", "cache", "runs"):
            patch.setenv(f"DEPGEN_{name.upper()}", str(folder / name))
        assert main(["fit", "--config", experiment, "--size", "small", "--trainer.max_epochs=1"]) == 0
    for run in (folder / "runs").iterdir():
        run.rename(run.with_name("transformer_rocstories"))
    return folder


@pytest.fixture
def here(place, monkeypatch, tmp_path):
    """An empty folder, with the data and runs of the other."""
    monkeypatch.chdir(tmp_path)
    for name in ("data", "cache", "runs"):
        monkeypatch.setenv(f"DEPGEN_{name.upper()}", str(place / name))
    shutil.copy(place / "data/blimp/agreement_1.jsonl", tmp_path)
    (tmp_path / "my_pairs.tsv").write_text("good\tbad\nhe was late .\the were late .\n")
    return tmp_path


def lines(name):
    return [json.loads(line) for line in Path(name).read_text().splitlines()]


def test_commands_of_the_guide(here, capsys):
    assert len(COMMANDS) == 3
    for command in COMMANDS:
        assert main(shlex.split(command)[1:]) == 0, capsys.readouterr().err
    assert [each["id"] for each in lines("pairs.jsonl")] == [str(number) for number in range(11)] * 2
    assert [each["level"] for each in lines("accuracies.jsonl")] == ["paradigm", "phenomenon", "overall"]
    assert {each["suite"] for each in lines("items.jsonl")} == {"number_src", "cleft"}
    assert {len(each["holds"]) for each in lines("items.jsonl")} == {1}
    header = capsys.readouterr().out.splitlines()[0].split("\t")
    named = {name for row in re.findall(r"^\| (`.*?) \|", GUIDE, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}
    assert {"likelihood", "chance", "unknown", "known_accuracy", "identical", "decided"} <= named
    assert {*header} >= {"likelihood", "chance", "unknown", "known_accuracy", "identical", "decided"}
