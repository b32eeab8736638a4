import re
import shutil
import subprocess
from pathlib import Path

import pytest

from depgen.reporting.definition import load_definition

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def make(*arguments: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", *arguments], cwd=folder, capture_output=True, text=True, check=False)


def dry_run(*arguments: str, folder: Path = ROOT) -> str:
    done = make("--dry-run", *arguments, folder=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def commands(*arguments: str) -> list[str]:
    """What depgen would be called with, spaces made single."""
    lines = dry_run(*arguments).splitlines()
    return [" ".join(line.split("-m depgen ")[1].split()) for line in lines if "-m depgen " in line]


@pytest.fixture
def fresh(tmp_path):
    """A checkout without .venv."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def test_help_is_the_default_and_lists_every_target():
    text = make().stdout
    assert text == make("help").stdout
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony is not None
    for target in phony.group(1).replace("$(table2_targets)", "").split():
        assert re.search(rf"^  {target} +\S", text, re.MULTILINE), target
    assert "    table2-DM-Transformer-left-chain\n" in text


def test_the_rows_are_those_of_the_table(monkeypatch):
    monkeypatch.chdir(ROOT)
    rows = [row.slug for row in load_definition("dmlm_table2").rows if row.experiment]
    assert [line.strip() for line in make("help").stdout.splitlines() if "  table2-" in line] == [
        f"table2-{row}" for row in rows
    ]


def test_table_2_makes_each_row_and_then_the_table():
    lines = commands("reproduce-table2")
    assert lines == [
        "reproduce dmlm_table2 --row 'Transformer'",
        "reproduce dmlm_table2 --row 'DM-Transformer'",
        "reproduce dmlm_table2 --row 'DM-Transformer-left-chain'",
        "reproduce dmlm_table2 --row 'DM-Transformer-random-trees'",
        "table dmlm_table2 --format text",
    ]
    assert commands("reproduce-dmlm-table2") == lines


def test_profile_and_seeds_are_passed_on():
    text = dry_run("table2-DM-Transformer", "PROFILE=small", "SEEDS=3 4")
    assert "--row 'DM-Transformer' --profile small --seeds '[3,4]'" in text
    assert "record dmlm_table2 --profile paper" in dry_run("record", "PROFILE=paper")


def test_set_up_installs_torch_first_and_only_when_needed(fresh):
    text = dry_run("demo", folder=fresh)
    assert text.index("pip install --quiet torch==2.13.0") < text.index("pip install --quiet --editable '.[dev]'")
    assert text.index(".[dev]") < text.index("reproduce demo")
    assert "pip install --quiet torch" not in dry_run("demo", "TORCH=", folder=fresh)
    (fresh / ".venv").mkdir()
    (fresh / ".venv/.ready").touch()
    assert "pip" not in dry_run("test", folder=fresh)


def test_no_python_is_an_error_with_a_remedy(fresh):
    (fresh / "bin").mkdir()
    for tool in ("bash", "sed"):
        (fresh / "bin" / tool).symlink_to(str(shutil.which(tool)))
    done = make("setup", f"PATH={fresh / 'bin'}", f"SHELL={shutil.which('bash')}", folder=fresh)
    assert done.returncode != 0
    assert "depgen needs Python 3.11 or 3.12" in done.stderr
    assert "PYTHON=/path/to/python3.11" in done.stderr


@pytest.mark.parametrize(
    ("target", "command"),
    [
        ("test", "-m pytest -n 2"),
        ("lint", "-m ruff format --check ."),
        ("lint", "lint-imports"),
        ("parser", "train-parser --config experiments/parser_ewt_lowercased.yaml"),
        ("tables", "table demo"),
        ("bench", "pytest tests/benchmarks"),
    ],
)
def test_targets(target, command):
    assert command in dry_run(target)
