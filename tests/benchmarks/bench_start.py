"""The time of `depgen --help`, in a new process."""

import subprocess
import sys

from tests.benchmarks.figures import figure, seconds, write_figures


def test_start():
    command = [sys.executable, "-m", "depgen", "--help"]
    took = min(seconds(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL)) for _ in range(5))
    write_figures("start", {"depgen --help": figure(took, "s", at_most=1.0)})
    assert took > 0
