"""Every system on a device without float64, as Macs are, and what a GPU would have to be waited for in its steps."""

import json
import os
import subprocess
import sys

import pytest
from filelock import FileLock

from tests.contract.systems import SYSTEMS
from tests.fixtures.kinds import EXPERIMENTS
from tests.single_precision import others

pytestmark = pytest.mark.slow


def outcomes_of(folder, float64):
    """Torch takes the device's name for good, so another process learns it, once for all processes of tests."""
    folder.mkdir(exist_ok=True)
    with FileLock(folder / "lock"):
        if not (folder / "outcomes.json").exists():
            run(folder, float64)
    return json.loads((folder / "outcomes.json").read_text(encoding="utf-8"))


def run(folder, float64):
    roots = {f"DEPGEN_{name.upper()}": str(folder / name) for name in ("data", "cache", "models")}
    environment = {**os.environ, **roots, "DEPGEN_RUNS": str(folder / "encoder" / "runs"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.single_precision", str(folder), float64]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


@pytest.fixture(scope="module")
def without_float64(shared_folder):
    return outcomes_of(shared_folder / "without_float64", "without")


@pytest.fixture(scope="module")
def with_float64(shared_folder):
    return outcomes_of(shared_folder / "with_float64", "with")


@pytest.mark.parametrize("name", [*EXPERIMENTS, *(f"{name}, used" for name in SYSTEMS)])
def test_a_system_trains_and_works_without_float64(without_float64, name):
    assert not isinstance(without_float64[name], str), without_float64[name]


@pytest.mark.parametrize("name", [*EXPERIMENTS, *others()])
def test_a_training_step_waits_for_no_result(with_float64, name):
    steps = with_float64[name]
    assert not isinstance(steps, str), steps
    assert len(steps) >= 2
    assert steps == [[]] * len(steps)


SEARCHED = [f"{name}, searched" for name, system in SYSTEMS.items() if system.structures]
WRITTEN = [f"{name}, written" for name in SYSTEMS if name.startswith("ITEXP")]


@pytest.mark.parametrize("name", [*SEARCHED, *WRITTEN])
def test_a_step_of_search_waits_twice_at_most_whatever_the_beam(with_float64, name):
    """A pruning, which is a token or an action of a tree; of ITEXP a level, beside the making of tables and texts."""
    narrow, wide = with_float64[name]
    assert narrow["steps"] >= 4
    for found in (narrow, wide):
        once = 14 if name in WRITTEN else 0
        assert len(found["waits"]) <= 2 * found["steps"] + once, found["waits"]
