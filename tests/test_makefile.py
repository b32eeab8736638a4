import re
import shutil
import subprocess
from itertools import accumulate
from pathlib import Path

import pytest

from depgen.cli.verbs import VERBS
from depgen.reporting.table import load_definition

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def make(*arguments: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", *arguments], cwd=folder, capture_output=True, text=True, check=False)


def dry_run(*arguments: str, folder: Path = ROOT) -> str:
    done = make("--dry-run", "python=absent", *arguments, folder=folder)  # no list of rows
    assert done.returncode == 0, done.stderr
    return done.stdout


def commands(*arguments: str) -> list[str]:
    """What depgen would be called with, spaces made single."""
    lines = dry_run(*arguments).replace("\\\n", " ").splitlines()
    return [" ".join(line.split("-m depgen ")[1].split()) for line in lines if "-m depgen " in line]


@pytest.fixture
def fresh(tmp_path):
    """A checkout without .venv."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


TABLES, STUDIES = (
    sorted(path.stem for path in (ROOT / "experiments" / folder).glob("*.yaml") if path.stem != "columns")
    for folder in ("tables", "case_studies")
)


@pytest.mark.parametrize("name", [*TABLES, *STUDIES])
def test_every_table_and_case_study_has_its_target(name):
    drawn = ("dmlm_figure3", "udgn_figure5")
    assert name in drawn or commands(f"reproduce-{name.replace('_', '-')}") == [f"reproduce {name}"]


def test_options_are_passed_on():
    assert commands("reproduce-table2", "SIZE=paper", "SEEDS=3 4") == ["reproduce dmlm_table2 --size paper --seeds 3 4"]


def test_every_target_calls_verbs_that_there_are():
    targets = re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    called = {command for target in targets for command in commands(target)}
    assert {"annotate --train experiments/parser_ewt.yaml", "reproduce demo"} <= called
    assert not [command for command in called if not {*accumulate(command.split()[:2], "{} {}".format)} & VERBS.keys()]


def test_figures_are_drawn_by_a_system_that_is_trained_first():
    assert commands("reproduce-dmlm-figure3", "SIZE=paper") == [
        "reproduce dmlm_table4 --rows DM-Transformer --size paper",
        "plot attention --run dmlm_news/paper --output results/dmlm_figure3/attention.png",
    ]
    assert load_definition("udgn_table3").row("UDGN").experiment == "udgn_ewt"
    train, draw = commands("reproduce-udgn-figure5")
    assert train == "reproduce udgn_table3 --rows UDGN"
    assert "--run udgn_ewt/small" in draw
    assert load_definition("dmlm_table4").row("DM-Transformer").experiment == "dmlm_news"


def test_set_up_installs_torch_first_and_only_when_needed(fresh):
    text = dry_run("demo", folder=fresh)
    users = "pip install --quiet --editable '.[text-metrics,plots,names]'"
    assert text.index("pip install --quiet torch==2.13.0") < text.index(users) < text.index("reproduce demo")
    assert ".[dev]" not in text
    developers = dry_run("test", folder=fresh)
    assert developers.index(users) < developers.index("pip install --quiet --editable '.[dev]'")
    assert "pip install --quiet torch" not in dry_run("demo", "TORCH=", folder=fresh)
    (fresh / ".venv").mkdir()
    (fresh / ".venv/.ready").touch()
    assert "pip" not in dry_run("demo", folder=fresh)
    (fresh / ".venv/.developer").touch()
    assert "pip" not in dry_run("test", folder=fresh)
