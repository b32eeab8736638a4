import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from depgen.reporting.definition import load_definition

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
    sorted(path.stem for path in (ROOT / "experiments" / folder).glob("*.yaml"))
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
        '#!/bin/bash\n[[ -n $FAILS && $* == *$FAILS* ]] && echo "${*:3}" >> calls && exit 2\n'
        "[[ $* == *--list* ]] && printf 'Base\\nDM-Base,-chain\\n' && exit\n"
        'echo "${*:3}" >> calls\n'
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


def test_help_is_the_default_and_lists_targets_tables_and_case_studies():
    text = make().stdout
    assert text == make("help").stdout
    phony = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = [target for line in phony for target in line.split() if target.islower()]
    assert {"help", "demo", "parser", "union"} <= set(named)
    assert len(TABLES) > 30
    assert STUDIES
    exhibits = [f"reproduce-{name.replace('_', '-')}" for name in (*TABLES, *STUDIES)]
    for target in [*named, *exhibits]:
        assert re.search(rf"^  {target} .*\S", text, re.MULTILINE), target


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


@pytest.mark.parametrize("fails", ["--prepare", "--list", "--row Base"])
def test_what_fails_ends_the_target(checkout, monkeypatch, fails):
    monkeypatch.setenv("FAILS", fails)
    assert make("reproduce-mine", folder=checkout).returncode != 0
    assert (checkout / "calls").read_text().splitlines()[-1].endswith(fails)


def test_tables_of_dmlm_have_short_names(checkout):
    assert calls(checkout, "reproduce-other") == calls(checkout, "reproduce-dmlm-other")
    assert make("reproduce-nothing", folder=checkout).returncode != 0


def test_a_case_study_makes_its_table_first(checkout):
    *table, last = calls(checkout, "reproduce-study", "SIZE=paper")
    assert table == calls(checkout, "reproduce-dmlm-other", "SIZE=paper")
    assert last == "case-study dmlm_study --size paper"


def test_options_are_passed_on(checkout):
    options = "--size paper --seeds [3,4] --precision 32-true --pretrained /some/gpt2"
    variables = ("SIZE=paper", "SEEDS=3 4", "PRECISION=32-true", "GPT2=/some/gpt2")
    assert calls(checkout, "row/mine/DM-Base", *variables) == [f"reproduce mine --row DM-Base {options}"]
    made = calls(checkout, "reproduce-mine", *variables)
    assert made[0] == f"reproduce mine --prepare {options}"
    assert all(call.endswith(options) for call in made)
    assert calls(checkout, "record", "SIZE=paper") == ["record --size paper"]
    assert calls(checkout, "tables", "SIZE=small") == [
        "table --size small --format text --files",
        "case-study --size small",
    ]


def test_parsers_and_union_come_first_in_what_table_2_would_do():
    text = dry_run("reproduce-table2")
    assert re.search(r"reproduce dmlm_table2 --prepare +# .*parsers, UNION", text)
    assert text.index("--prepare") < text.rindex("reproduce dmlm_table2")


def test_figure_3_is_drawn_by_a_dm_transformer_that_is_trained_first():
    assert commands("reproduce-dmlm-figure3", "SIZE=paper") == [
        "reproduce 'dmlm_table4' --row 'DM-Transformer' --size paper",
        "attention --run dmlm_news/paper --output results/dmlm_figure3/attention.png",
    ]
    assert commands("reproduce-figure3") == [
        "reproduce 'dmlm_table4' --row 'DM-Transformer'",
        "attention --run dmlm_news/small --output results/dmlm_figure3/attention.png",
    ]
    assert load_definition("dmlm_table4").row("DM-Transformer").experiment == "dmlm_news"


def test_figure_5_is_drawn_by_the_udgn_that_is_trained_first():
    train, draw = commands("reproduce-udgn-figure5")
    assert train == "reproduce 'udgn_table3' --row 'UDGN'"
    assert "--run udgn_ewt/small" in draw
    assert load_definition("udgn_table3").row("UDGN").experiment == "udgn_ewt"


def test_every_parser_is_trained_by_its_file():
    assert [call.split(" --config ") for call in commands("parser")] == [
        ["train-parser", f"experiments/{path.name}"] for path in sorted((ROOT / "experiments").glob("parser_*.yaml"))
    ]


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


def test_no_python_is_an_error_with_a_remedy(fresh):
    (fresh / "bin").mkdir()
    for tool in ("bash", "sed"):
        (fresh / "bin" / tool).symlink_to(str(shutil.which(tool)))
    done = make("setup", f"PATH={fresh / 'bin'}", f"SHELL={shutil.which('bash')}", folder=fresh)
    assert done.returncode != 0
    assert "depgen needs Python 3.11 to 3.14" in done.stderr
    assert "PYTHON=/path/to/python3.11" in done.stderr


@pytest.mark.parametrize(
    ("target", "command"),
    [
        ("test", "-m pytest -n auto --maxprocesses 4 --dist worksteal\n"),
        ("test-all", "-m pytest -n auto --maxprocesses 4 --dist worksteal -m 'not gpu and not real_data'"),
        ("lint", "-m ruff format --check ."),
        ("lint", "lint-imports"),
        ("union", "reproduce dmlm_table2 --row PRPN --prepare"),
        ("bench", "pytest tests/benchmarks"),
    ],
)
def test_targets(target, command):
    assert command in dry_run(target)


def fake_python(folder, name, *, works=True):
    """A stand-in on PATH that answers whether its version is supported."""
    path = folder / name
    path.write_text(f"#!/bin/bash\nexit {0 if works else 1}\n")
    path.chmod(0o755)


def test_the_matrix_tests_every_python_at_hand(fresh):
    (fresh / "bin").mkdir()
    for name, works in (("python3.11", True), ("python3.13", True), ("python3.12", False)):
        fake_python(fresh / "bin", name, works=works)
    make_path, shell = shutil.which("make"), shutil.which("bash")
    (fresh / "bin" / "make").symlink_to(str(make_path))
    done = make("--dry-run", "test-matrix", f"PATH={fresh / 'bin'}", f"SHELL={shell}", folder=fresh)
    assert done.returncode == 0, done.stderr
    for version in ("python3.11", "python3.13"):
        assert f"{version} -m venv --clear .matrix/{version}" in done.stdout
        assert f".matrix/{version}/bin/python -m pip install --quiet --editable '.[dev]'" in done.stdout
        assert f".matrix/{version}/bin/python -m pytest" in done.stdout
    assert ".matrix/python3.12/" not in done.stdout
    assert "rm " not in done.stdout, "environments are kept"


def test_the_matrix_says_which_pythons_it_leaves_out(fresh):
    (fresh / "bin").mkdir()
    fake_python(fresh / "bin", "python3.12", works=False)
    done = make("test-matrix", f"PATH={fresh / 'bin'}", f"SHELL={shutil.which('bash')}", folder=fresh)
    assert "python3.12: does not start" in done.stdout


def test_a_matrix_without_a_python_is_an_error(fresh):
    (fresh / "bin").mkdir()
    done = make("test-matrix", f"PATH={fresh / 'bin'}", f"SHELL={shutil.which('bash')}", folder=fresh)
    assert done.returncode != 0
    assert "install one" in done.stderr


def test_the_interpreters_are_those_that_the_package_allows():
    allowed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert allowed == ">=3.11,<3.15"
    assert "pythons := python3.11 python3.12 python3.13 python3.14\n" in (ROOT / "Makefile").read_text()
