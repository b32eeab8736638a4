"""The time of `depgen --help`, and that of other commands against the import of Lightning; a new process each time."""

import resource
import subprocess
import sys
from statistics import median

from tests.benchmarks.figures import figure, seconds, write_figures
from tests.fixtures.make import trained

ROUNDS, GOAL = 5, 1.5


def python(*arguments):
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def cpu_seconds(*arguments):
    """Of a fresh interpreter, user and system."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    python(*arguments)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_start(tmp_path):
    run = trained(tmp_path, "dmlm")["dmlm"]
    file = tmp_path / "ten.txt"
    file.write_text("the mother was happy .\n" * 10)
    commands = {
        "depgen help fit": ["help", "fit"],
        "depgen fit --print_config": ["fit", "--config", "experiments/demo_dm_transformer.yaml", "--print_config"],
        "depgen score of ten sentences": ["score", str(file), "--run", str(run)],
    }
    took = min(seconds(lambda: python("-m", "depgen", "--help")) for _ in range(ROUNDS))
    ratios = {name: [] for name in commands}
    for _ in range(ROUNDS):
        base = cpu_seconds("-c", "import lightning.pytorch")
        for name, arguments in commands.items():
            ratios[name].append(cpu_seconds("-m", "depgen", *arguments) / base)
    figures = {
        f"{name} / import lightning.pytorch": figure(median(each), "x", at_most=GOAL) for name, each in ratios.items()
    }
    write_figures("start", {"depgen --help": figure(took, "s", at_most=1.0), **figures})
    assert took > 0
