"""Every system on a device without float64, as Macs are, and what a GPU would have to be waited for in its steps."""

import json
import multiprocessing

import pytest

from tests import single_precision
from tests.contract.systems import SYSTEMS
from tests.fixtures.kinds import EXPERIMENTS


def outcomes_of(folder, *, float64):
    """Torch takes the device's name for good, so another process learns it."""
    process = multiprocessing.get_context("fork").Process(
        target=single_precision.write_outcomes, args=(folder,), kwargs={"doubles": float64}
    )
    process.start()
    process.join()
    assert process.exitcode == 0
    return json.loads((folder / "outcomes.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def without_float64(tmp_path_factory):
    return outcomes_of(tmp_path_factory.mktemp("without_float64"), float64=False)


@pytest.fixture(scope="module")
def with_float64(tmp_path_factory):
    return outcomes_of(tmp_path_factory.mktemp("with_float64"), float64=True)


@pytest.mark.parametrize("name", [*EXPERIMENTS, *(f"{name}, used" for name in SYSTEMS)])
def test_a_system_trains_and_works_without_float64(without_float64, name):
    assert not isinstance(without_float64[name], str), without_float64[name]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_training_step_waits_for_no_result(with_float64, name):
    steps = with_float64[name]
    assert not isinstance(steps, str), steps
    assert len(steps) >= 2
    assert steps == [[]] * len(steps)
