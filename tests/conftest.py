"""Shape checks on every public tensor function, and one thread so that results repeat."""

import gc
import os
import shutil
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("WANDB_MODE", "disabled")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import hypothesis
import jaxtyping
from filelock import FileLock

from tests.shape_checks import shapes_checked

# No test fails because a machine is slow.
hypothesis.settings.register_profile("patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("patient")
gc.disable()  # until all tests are collected: what is imported stays
ROOT = Path(__file__).parents[1]
TENSOR_MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in (ROOT / "depgen").rglob("*.py")
    if "from jaxtyping import" in path.read_text(encoding="utf-8")
]
"""Modules with functions of tensors. The others have plain types, which mypy checks."""
jaxtyping.jaxtyped = shapes_checked
jaxtyping.install_import_hook(TENSOR_MODULES, "beartype.beartype")


def pytest_collection_modifyitems(items):
    """The one test of many minutes begins first, so that no process waits for it at the end."""
    items.sort(key=lambda item: item.name != "test_depgens_commands_run_one_after_the_other")


def pytest_collection_finish():
    """Let full collections look through what tests make alone, not through the libraries and the tests."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory):
    """A folder of this run of the tests that all its processes share: under a lock, one makes what all need."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def made_once(shared_folder, tmp_path_factory):
    """Makes a folder by its name and a function, once for all processes; each process has a copy of its own."""

    def made(name, make):
        original = shared_folder / name
        with FileLock(shared_folder / f"{name}.lock"):
            if not original.exists():
                make(part := shared_folder / f"{name}.part")
                part.rename(original)
        return Path(shutil.copytree(original, tmp_path_factory.mktemp("made") / name))

    return made
