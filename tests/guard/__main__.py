"""`make guard BASE=COMMIT`: what the command line of another commit and of this tree compute, number by number.

Both work on the same generated data, in one environment, on one machine. Training losses, weights, sampled texts and
parses are equal bit for bit; scores of single items within 1e-5 nats, totals within 1e-6 of their size. What may differ
is listed in `differences.yaml`.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.fixtures.kinds import EXPERIMENTS
from tests.fixtures.make import Place, make_parsers, union_numbers, write_inputs
from tests.guard.comparison import Numbers, differences, listed, unexpected
from tests.guard.kinds import FURTHER, write_further_inputs
from tests.guard.verbs import numbers_of_parsers, numbers_of_run, numbers_of_texts, totals

HERE = Path(__file__).parent
DEMO = ("--data.init_args.corpus.init_args.train", "24", "--data.init_args.corpus.init_args.valid", "6")
DEMOS = {
    "demo_transformer": ("--trainer.max_epochs", "2"),
    "demo_dm_transformer": (
        "--trainer.max_epochs", "2",
    ),
}  # fmt: skip
"""Experiments that each tree has itself, made short."""


def numbers_of_tree(tree: Path, home: Path) -> Numbers:
    """All that the command line of a tree computes in a folder that holds its inputs."""
    numbers: Numbers = {}
    with Place(tree, home) as place:
        place("train-union", "--config", home / "experiments" / "union.yaml")
        numbers |= totals("union", json.dumps(union_numbers(place)))
        numbers |= totals("parsers", json.dumps(make_parsers(place)))
        numbers |= numbers_of_parsers(place) | numbers_of_texts(place)
        for kind in (*EXPERIMENTS, *FURTHER):
            place.fit(kind, "finished")
            numbers |= numbers_of_run(place, kind, place.run(kind, "finished"))
        for kind, options in DEMOS.items():
            before = place.runs()
            place("fit", "--config", tree / "experiments" / f"{kind}.yaml", "--trainer.accelerator", "cpu",
                  "--trainer.precision", "32-true", *DEMO, *options)  # fmt: skip
            (run,) = place.runs() - before
            numbers |= numbers_of_run(place, kind, run)
    return numbers


def main(base: str) -> int:
    """The exit code: 0 if nothing differs but what is listed."""
    repository = Path(subprocess.check_output(["git", "rev-parse", "--show-toplevel"], text=True).strip())
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        tree = folder / "base"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", tree, base], check=True)
        try:
            with ThreadPoolExecutor(2) as both:
                places = (folder / "old", folder / "new")
                write_inputs(places[0])
                write_further_inputs(places[0])
                shutil.copytree(*places)
                old, new = both.map(numbers_of_tree, (tree, repository), places)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", tree], check=True)
            shutil.rmtree(tree, ignore_errors=True)
    found = differences(old, new)
    wrong = unexpected(found, listed(HERE / "differences.yaml"))
    print(f"{len(old)} numbers of {base}, {len(new)} of this tree; {len(found)} differ.")
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
