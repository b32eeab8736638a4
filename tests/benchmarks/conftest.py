"""An option of benchmarks, and two threads, where a goal is of two cores; all other benchmarks have one."""

import pytest
import torch


def pytest_addoption(parser):
    parser.addoption("--sentences", type=int, help="of bench_levels; by default 32, and 8,000 on a GPU")


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)
