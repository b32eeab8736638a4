import shutil
import subprocess
from pathlib import Path

import pytest

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


@pytest.fixture
def checkout(tmp_path):
    """A checkout with the tables `mine` and `dmlm_other`, whose `depgen` notes what it is called with."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    for folder in ("tables", "case_studies"):
        (tmp_path / "experiments" / folder).mkdir(parents=True)
    for name in ("mine", "dmlm_other"):
        (tmp_path / f"experiments/tables/{name}.yaml").write_text(f"table: {name}\ncaption: Of {name}\n")
    (tmp_path / "experiments/case_studies/dmlm_study.yaml").write_text("study: dmlm_study\ntable: dmlm_other\n")
    (tmp_path / ".venv/bin").mkdir(parents=True)
    python = tmp_path / ".venv/bin/python"
    python.write_text(
        "#!/bin/bash\n[[ $* == *--list* ]] && printf 'Base\\nDM-Base,-chain\\n' && exit\necho \"${*:3}\" >> calls\n"
    )
    python.chmod(0o755)
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / ".venv/.ready").touch()
    return tmp_path


def calls(folder: Path, *arguments: str) -> list[str]:
    """What depgen is called with by these targets."""
    (folder / "calls").unlink(missing_ok=True)
    done = make(*arguments, folder=folder)
    assert done.returncode == 0, done.stderr
    return (folder / "calls").read_text().splitlines()


@pytest.mark.parametrize("name", [*TABLES, *STUDIES])
def test_every_table_and_case_study_has_its_target(name):
    text = dry_run(f"reproduce-{name.replace('_', '-')}")
    assert f"reproduce {name} --prepare" in text if name in TABLES else f"case-study {name}" in text


@pytest.mark.parametrize("jobs", [[], ["-j4"]])
def test_a_new_table_needs_no_edit(checkout, jobs):
    first, *rows, last = calls(checkout, "reproduce-mine", *jobs)
    assert first == "reproduce mine --prepare"
    assert sorted(rows) == ["reproduce mine --row Base", "reproduce mine --row DM-Base,-chain"]
    assert last == "reproduce mine"


def test_a_case_study_makes_its_table_first(checkout):
    *table, last = calls(checkout, "reproduce-study", "SIZE=paper")
    assert table == calls(checkout, "reproduce-dmlm-other", "SIZE=paper")
    assert last == "case-study dmlm_study --size paper"


def test_options_are_passed_on(checkout):
    options = "--size paper --seeds [3,4] --precision 32-true --pretrained /some/gpt2"
    variables = ("SIZE=paper", "SEEDS=3 4", "PRECISION=32-true", "GPT2=/some/gpt2")
    assert calls(checkout, "row/mine/DM-Base", *variables) == [f"reproduce mine --row DM-Base {options}"]
    assert all(call.endswith(options) for call in calls(checkout, "reproduce-mine", *variables))
    assert calls(checkout, "record", "SIZE=paper") == ["record --size paper"]
    assert calls(checkout, "tables", "SIZE=small") == ["table --size small --format text --files"]


def test_figures_are_drawn_by_a_system_that_is_trained_first():
    assert commands("reproduce-dmlm-figure3", "SIZE=paper") == [
        "reproduce 'dmlm_table4' --row 'DM-Transformer' --size paper",
        "plot attention --run dmlm_news/paper --output results/dmlm_figure3/attention.png",
    ]
    assert load_definition("udgn_table3").row("UDGN").experiment == "udgn_ewt"
    train, draw = commands("reproduce-udgn-figure5")
    assert train == "reproduce 'udgn_table3' --row 'UDGN'"
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
