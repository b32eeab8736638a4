"""What a run says of its making, and the words for machines and commits."""

import re
import subprocess

import torch

import depgen
from depgen.training.provenance import commit, versions


def test_the_commit_notices_a_change_anywhere_in_the_package(tmp_path, monkeypatch):
    package = tmp_path / "package"
    (package / "models").mkdir(parents=True)
    for name in ("__init__.py", "models/system.py"):
        (package / name).write_text("")
    monkeypatch.setattr(depgen, "__file__", str(package / "__init__.py"))
    assert commit() is None  # outside git
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    for arguments in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "first"]):
        subprocess.run(["git", "-C", str(tmp_path), *arguments], check=True)
    assert re.fullmatch("[0-9a-f]{40}", commit())
    (package / "models" / "system.py").write_text("changed = True")
    assert commit().endswith("+changes")


def test_the_version_of_torch_names_its_build(monkeypatch):
    monkeypatch.setattr(torch, "__version__", "2.13.0+cu130")
    assert versions()["torch"] == "2.13.0+cu130"
