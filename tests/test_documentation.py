"""The pages of the Python interface, by the very command of `make docs`."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_pages_are_made_of_docstrings_without_a_warning(tmp_path):
    make = [
        "make",
        "--no-print-directory",
        "-n",
        "-o",
        ".venv/.developer",
        "docs",
        "documented=depgen.metrics depgen.trees",
    ]
    said = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    command = said.replace(".venv/bin/python", f"{sys.executable} -W error::UserWarning", 1).replace(
        "results/api", str(tmp_path), 1
    )
    assert command.count(str(tmp_path)) == command.count(sys.executable) == 1
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    pages = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.html")}
    assert {"depgen.html", "depgen/metrics/bleu.html", "depgen/trees/conllu.html", "index.html"} <= pages
    assert 'id="load"' in (tmp_path / "depgen.html").read_text(), "a name that is imported late"
    assert 'id="distinct"' in (tmp_path / "depgen" / "metrics" / "bleu.html").read_text()
