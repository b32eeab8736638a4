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


@pytest.mark.parametrize(
    ("number", "to_both"), [(signal.SIGTERM, False), (signal.SIGINT, True)], ids=["SIGTERM", "a terminal's interrupt"]
)
def test_a_command_that_is_told_to_end_saves_before_the_one_that_runs_it_ends(tmp_path, number, to_both):
    saved, begun, sleeper = tmp_path / "saved", tmp_path / "begun", tmp_path / "sleeper"
    sleeper.write_text(SLEEPER.format(python=sys.executable, saved=str(saved), begun=str(begun)))
    sleeper.chmod(0o755)
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(sleeper)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        process_group=0,
    ) as parent:  # fmt: skip
        wait_for(begun)
        if to_both:
            os.killpg(parent.pid, number)
        else:
            parent.send_signal(number)
        printed, complaints = parent.communicate(timeout=60)
    assert saved.read_text() == "saved"
    assert parent.returncode == -number or "KeyboardInterrupt" in complaints, complaints
    assert not printed


CHILD = """#!{python}
import sys
import pathlib, signal, time
from depgen.processes import end_with_parent

def save(number, frame):
    pathlib.Path({saved!r}).write_text("saved")
    sys.exit()

signal.signal(signal.SIGTERM, save)
end_with_parent()
pathlib.Path({begun!r}).touch()
time.sleep(60)
"""


def test_a_command_saves_and_ends_when_the_one_that_runs_it_is_killed(tmp_path):
    saved, begun, child = tmp_path / "saved", tmp_path / "begun", tmp_path / "child"
    child.write_text(CHILD.format(python=sys.executable, saved=str(saved), begun=str(begun)))
    child.chmod(0o755)
    with subprocess.Popen([sys.executable, "-c", PARENT, str(child)]) as parent:
        wait_for(begun)
        parent.kill()
    wait_for(saved)
    assert saved.exists()


def wait_for(path, seconds=60):
    deadline = time.monotonic() + seconds
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
