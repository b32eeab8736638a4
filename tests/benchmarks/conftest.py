"""Two threads, where a goal is of two cores; all other benchmarks have one."""

import pytest
import torch


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)
