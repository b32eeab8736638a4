import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from depgen.reporting.case_study import load_study
from depgen.reporting.definition import load_definition
from depgen.reporting.experiments import table_names

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
    lines = dry_run(*arguments).replace("\\\n", " ").splitlines()
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
    phony = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = [target for line in phony for target in line.split() if re.fullmatch("[a-z0-9-]+", target)]
    assert {"help", "demo", "reproduce-table2"} <= set(named)
    exhibits = [*TABLES, "dmlm_table8", "dmlm_table9", "dmlm_table16", "dmlm_figure3", "udgn_figure5"]
    for target in [*named, *(f"reproduce-{name.replace('_', '-')}" for name in exhibits)]:
        assert re.search(rf"^  {target} +\S", text, re.MULTILINE), target
    assert re.search(r"^    table13- +Transformer DM-Transformer GPT-2 DM-GPT-2$", text, re.MULTILINE)


TABLES = [
    *(f"dmlm_{name}" for name in ("table2", "table4", "table5", "table7", "table13", "beyond", "ptb_lines")),
    "wikinews",
    *(f"udgn_table{number}" for number in (1, 2, 3, 4, 5, 7, 8, 9)),
    "udgn_rate",
    "udgn_ewt",
    "udgn_figure4",
    "udgn_figure6",
    "dclm_table1",
    "dclm_table2",
    "dclm_table2_wikitext2",
    "dclm_table2_wikinews",
    "dclm_table2_wsj",
    "dclm_table2_nant",
    "dclm_table3",
    "dclm_table3_wsj",
    "dclm_figure3",
    "dclm_figure3_wsj",
    "dclm_figure3_nant",
    "coherence_tasks",
    "document_contexts",
    "scoreboard",
]
PICTURES = {
    **{table: f"curves {table}" for table in ("dmlm_table7", "dmlm_table13", "dmlm_ptb_lines")},
    "udgn_figure4": "series udgn_figure4",
    "udgn_figure6": "series udgn_figure6",
    **{
        table: f"curves {table} --against steps --measure log_likelihood"
        for table in ("dclm_figure3", "dclm_figure3_wsj", "dclm_figure3_nant")
    },
}


def test_union_takes_up_raw_stories_where_they_are(monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("DEPGEN_DATA", str(tmp_path))
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path / "cache"))
    train = "train-union --config experiments/union_rocstories_small.yaml"
    assert commands("union") == [train]
    raw = tmp_path / "rocstories"
    raw.mkdir()
    for name in ("raw_cased.csv", "raw_lowercased.csv", "train.csv", "valid.csv", "test.csv"):
        (raw / name).touch()
    made = tmp_path / "cache" / "rocstories"
    apart = f"--apart_from '[{raw}/valid.csv,{raw}/test.csv]'"
    assert commands("union") == [
        f"delexicalize --source {raw}/raw_cased.csv --output {made}/cased.csv {apart}",
        f"delexicalize --source {raw}/raw_lowercased.csv --output {made}/lowercased.csv "
        f"--tagger ewt_lowercased {apart}",
        f"{train} --data.corpus.init_args.additional_train '[{made}/cased.csv,{made}/lowercased.csv]'",
    ]


@pytest.mark.parametrize("table", TABLES)
def test_a_table_makes_each_of_its_rows_and_is_then_rendered(table, monkeypatch):
    monkeypatch.chdir(ROOT)
    rows = commands(f"reproduce-{table.replace('_', '-')}")
    assert (rows.pop() if table in PICTURES else None) == PICTURES.get(table)
    assert rows.pop() == f"table {table} --format text --files"
    assert sorted(row for row in rows if not row.startswith("train-parser")) == sorted(
        f"reproduce {table} --row '{row.slug}'"
        for row in load_definition(table).rows
        if row.experiment or row.floor or row.corpus_of
    )


def test_every_table_that_is_trained_for_has_its_target(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert set(table_names()) - {"demo"} == set(TABLES)


@pytest.mark.parametrize(("profile", "config"), [("small", "parser_ewt_supar_small"), ("paper", "parser_ewt_supar")])
def test_the_row_of_supars_trees_has_its_parser_first(profile, config):
    assert commands("beyond-DM-SuPar-trees", f"PROFILE={profile}") == [
        f"train-parser --config experiments/{config}.yaml",
        f"reproduce dmlm_beyond --row 'DM-SuPar-trees' --profile {profile}",
    ]
    assert commands("reproduce-dmlm-beyond").count(commands("supar-parser")[0]) == 1


def test_the_scoreboard_has_a_short_name():
    assert commands("scoreboard") == commands("reproduce-scoreboard")


def test_table_2_has_a_short_name():
    assert commands("reproduce-table2") == commands("reproduce-dmlm-table2")


@pytest.mark.parametrize(("study", "table"), [("table8", "table2"), ("table9", "table5"), ("table16", "table5")])
def test_a_case_study_makes_the_texts_that_it_shows(study, table):
    *before, last = commands(f"reproduce-dmlm-{study}", "PROFILE=small")
    assert last == f"case-study dmlm_{study} --profile small"
    assert before == commands(f"reproduce-dmlm-{table}", "PROFILE=small")
    assert load_study(f"dmlm_{study}").table == f"dmlm_{table}"


def test_figure_3_is_drawn_by_a_dm_transformer_that_is_trained_first():
    assert commands("reproduce-dmlm-figure3", "FIGURE3=table13", "PROFILE=small") == [
        "reproduce dmlm_table13 --row 'DM-Transformer' --profile small",
        "attention --table dmlm_table13 --profile small --output results/dmlm_figure3/attention.png",
    ]
    assert commands("reproduce-dmlm-figure3")[0] == "reproduce dmlm_table4 --row 'DM-Transformer'"


def test_the_grid_of_sizes():
    assert commands("dclm-grid", "K=32 48", "H=64", "ADOPT=1", "PROFILE=small") == [
        "grid dclm_table2 --profile small --adopt --vary model.init_args.embedding_size=32,48 "
        "model.init_args.context.init_args.size=64"
    ]
    assert commands("dclm-grid")[0].endswith("context.init_args.size=32,48,64,96,128,256")
    assert commands("dclm-grid", "GRID=dclm_table2_wsj")[0].startswith("grid dclm_table2_wsj --vary")


def test_profile_and_seeds_are_passed_on():
    text = dry_run("table2-DM-Transformer", "PROFILE=small", "SEEDS=3 4")
    assert "--row 'DM-Transformer' --profile small --seeds '[3,4]'" in text
    row = dry_run("table2-DM-Transformer", "PROFILE=small", "PRECISION=32-true")
    assert "--row 'DM-Transformer' --profile small  --precision 32-true" in row
    assert commands("record", "PROFILE=paper") == ["record --profile paper"]
    assert commands("tables", "PROFILE=small") == [
        "table --profile small --format text --files",
        "case-study --profile small",
    ]


@pytest.mark.parametrize("table", ["table2", "table4", "table5", "table13"])
def test_a_folder_of_weights_goes_to_the_rows_that_begin_from_them(table):
    rows = [each for each in commands(f"reproduce-dmlm-{table}", "GPT2=/some/gpt2") if each.startswith("reproduce ")]
    assert [row.split("'")[1] for row in rows if row.endswith(" --pretrained '/some/gpt2'")] == ["GPT-2", "DM-GPT-2"]
    assert not any("--pretrained" in row for row in commands("reproduce-scoreboard", "GPT2=/some/gpt2"))


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
    assert "depgen needs Python 3.11 to 3.14" in done.stderr
    assert "PYTHON=/path/to/python3.11" in done.stderr


@pytest.mark.parametrize(
    ("target", "command"),
    [
        ("test", "-m pytest -n 2"),
        ("lint", "-m ruff format --check ."),
        ("lint", "lint-imports"),
        ("parser", "train-parser --config experiments/parser_ewt_lowercased.yaml"),
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


def test_a_matrix_without_a_python_is_an_error(fresh):
    (fresh / "bin").mkdir()
    done = make("test-matrix", f"PATH={fresh / 'bin'}", f"SHELL={shutil.which('bash')}", folder=fresh)
    assert done.returncode != 0
    assert "install one" in done.stderr


def test_the_interpreters_are_those_that_the_package_allows():
    allowed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert allowed == ">=3.11,<3.15"
    assert "pythons := python3.11 python3.12 python3.13 python3.14\n" in (ROOT / "Makefile").read_text()
