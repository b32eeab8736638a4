"""Commands of depgen that another one runs: what it is told reaches them, and it waits for them."""

import os
import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.slow

SLEEPER = """#!{python}
import pathlib, signal, sys, time

def save(number, frame):
    time.sleep(0.2)
    pathlib.Path({saved!r}).write_text("saved")
    sys.exit()

for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, save)
pathlib.Path({begun!r}).touch()
time.sleep(60)
"""
PARENT = """
import signal, sys
from depgen.training.experiment_runs import run_depgen
sys.executable = sys.argv[1]
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a background job is started without
run_depgen(["fit"], {})
print("went on")
"""


def test_a_command_that_a_terminal_interrupts_saves_before_the_one_that_runs_it_ends(tmp_path):
    saved, begun, sleeper = tmp_path / "saved", tmp_path / "begun", tmp_path / "sleeper"
    sleeper.write_text(SLEEPER.format(python=sys.executable, saved=str(saved), begun=str(begun)))
    sleeper.chmod(0o755)
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(sleeper)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        process_group=0,
    ) as parent:  # fmt: skip
        wait_for(begun)
        os.killpg(parent.pid, signal.SIGINT)
        printed, complaints = parent.communicate(timeout=60)
    assert saved.read_text() == "saved"
    assert "KeyboardInterrupt" in complaints, complaints
    assert not printed


def wait_for(path, seconds=60):
    deadline = time.monotonic() + seconds
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
