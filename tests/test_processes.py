import os

import pytest

from depgen.processes import PARENT, end_with_parent, process_rank


@pytest.mark.parametrize(
    ("variables", "rank"),
    [({}, 0), ({"RANK": "3", "LOCAL_RANK": "1"}, 3), ({"SLURM_PROCID": "2"}, 2),
     ({"SLURM_PROCID": "0", "LOCAL_RANK": "1"}, 1)],
)  # fmt: skip
def test_the_variables_are_read_in_lightnings_order(monkeypatch, variables, rank):
    for name in ("RANK", "LOCAL_RANK", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert process_rank() == rank


def test_processes_started_later_do_not_watch_the_same_parent(monkeypatch):
    monkeypatch.setenv(PARENT, str(os.getppid()))
    end_with_parent()
    assert PARENT not in os.environ
