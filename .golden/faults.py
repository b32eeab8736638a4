"""Plants one-line faults and says which the tests catch: `python .golden/faults.py TREE [--only NAME ...] [--record]`.

Each fault of `faults.yaml` is planted in a scratch copy of the tree, and the tests named there run with `-x -q` in a fork;
slow ones too with `--slow`, and for faults that say `slow: true`. A fault whose line stands
nowhere is "not found": give it a second place under `also`, or strike it out with a reason.
"""

import argparse
import importlib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
LIST = HERE / "faults.yaml"


def places(fault: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """File, line and fault of each layout of a fault."""
    yield fault["file"], fault["old"], fault["new"]
    for other in fault.get("also", ()):
        if isinstance(other, str):
            yield other, fault["old"], fault["new"]
        else:
            yield other.get("file", fault["file"]), other["old"], other["new"]


def place_in(tree: Path, fault: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """The layout that a tree has; else any file of the package in which the line stands once."""
    for file, old, new in places(fault):
        if (tree / file).is_file() and (tree / file).read_text(encoding="utf-8").count(old) == 1:
            return file, old, new
    for file, old, new in places(fault):
        holders = [path for path in (tree / "depgen").rglob("*.py") if path.read_text(encoding="utf-8").count(old) == 1]
        if len(holders) == 1:
            return str(holders[0].relative_to(tree)), old, new
    return None


def scratch(tree: Path, folder: Path) -> Path:
    """A copy of what tests read of a tree."""
    copy = folder / "tree"
    copy.mkdir()
    for name in ("depgen", "tests", "experiments"):
        shutil.copytree(tree / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in tree.iterdir():
        if path.is_file() and path.name != ".git":
            shutil.copy(path, copy / path.name)
    return copy


HEAVY = (
    "torch", "lightning", "jsonargparse", "torchmetrics", "pandas", "scipy.stats", "hypothesis", "datasets", "beartype",
    "numba", "transformers", "spacy", "pytest",
)  # fmt: skip
"""Libraries that are imported once, before the forks in which tests run."""


def fails(copy: Path, tests: list[str], *, slow: bool, limit: float) -> bool | None:
    """Whether a test fails; None: none was run, or not within the limit."""
    for library in HEAVY:
        importlib.import_module(library)
    import pytest

    marked = ["-m", "not gpu and not real_data"] if slow else []
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        os.chdir(copy)
        os.environ |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(copy)}
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        sys.dont_write_bytecode = False
        sys.path[:0] = [str(copy)]
        output = os.open(copy.parent / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1), os.dup2(output, 2)
        signal.alarm(int(limit))
        code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *marked, *tests])
        sys.stdout.flush()
        os._exit(int(code))
    _, status = os.waitpid(child, 0)
    try:
        os.killpg(child, signal.SIGKILL)  # what it may have left
    except ProcessLookupError:
        pass
    ended = os.waitstatus_to_exitcode(status)
    if ended not in (0, 1, 5):
        print((copy.parent / "output.txt").read_text(errors="replace")[-1000:])
    return {0: False, 1: True, 2: True}.get(ended)


def outcome(copy: Path, fault: Mapping[str, Any], *, limit: float, slow: bool) -> str:
    """`caught by TESTS`, `not caught`, `not found` or `no test`."""
    place = place_in(copy, fault)
    if place is None:
        return "not found"
    file, old, new = place
    path = copy / file
    content = path.read_text(encoding="utf-8")
    tests = [test for test in fault["tests"] if (copy / test).exists()]
    if not tests:
        return "no test"
    path.write_text(content.replace(old, new), encoding="utf-8")
    try:
        for with_slow in (False, True) if slow or fault.get("slow") else (False,):
            for test in tests:
                if fails(copy, [test], slow=with_slow, limit=limit):
                    return f"caught by {test}{' (slow)' if with_slow else ''}"
    finally:
        path.write_text(content, encoding="utf-8")
    return "not caught"


def main() -> int:
    """The number of faults that are not caught."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tree", type=Path)
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--find", action="store_true", help="only say where each line stands")
    parser.add_argument("--rest", action="store_true", help="only those of which faults.yaml does not say what caught them")
    parser.add_argument("--backwards", action="store_true", help="from the last to the first, beside another process")
    parser.add_argument("--slow", action="store_true", help="slow tests too, where no other one fails")
    parser.add_argument("--record", action="store_true", help="write what was caught into faults.yaml")
    parser.add_argument("--limit", type=float, default=600, help="seconds of a test file")
    arguments = parser.parse_args()
    faults = yaml.safe_load(LIST.read_text(encoding="utf-8"))
    chosen = [fault for fault in faults if not arguments.only or fault["name"] in arguments.only]
    if arguments.rest:
        chosen = [fault for fault in chosen if "caught" not in fault]
    if arguments.backwards:
        chosen.reverse()
    if unknown := {*arguments.only} - {fault["name"] for fault in faults}:
        parser.error(f"no such faults: {sorted(unknown)}")
    if arguments.find:
        for fault in chosen:
            place = place_in(arguments.tree, fault)
            print(f"{fault['name']}: {'NOT FOUND' if place is None else place[0]}")
        return sum(place_in(arguments.tree, fault) is None for fault in chosen)
    missed = 0
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        copy = scratch(arguments.tree.resolve(), Path(folder))
        for fault in chosen:
            known = next(each for each in yaml.safe_load(LIST.read_text(encoding="utf-8")) if each["name"] == fault["name"])
            if arguments.rest and "caught" in known:  # by another process in the meantime
                continue
            started = time.time()
            found = outcome(copy, fault, limit=arguments.limit, slow=arguments.slow)
            missed += not found.startswith("caught")
            print(f"{fault['name']}: {found} ({time.time() - started:.0f} s)", flush=True)
            if arguments.record:
                record(fault["name"], found)
    print(f"{len(chosen) - missed} of {len(chosen)} caught.")
    return missed


def record(name: str, found: str) -> None:
    """Write a fault's outcome under it."""
    lines = LIST.read_text(encoding="utf-8").splitlines()
    start = lines.index(f"- name: {name}")
    stop = next((k for k in range(start + 1, len(lines)) if not lines[k].startswith("  ")), len(lines))
    block = [line for line in lines[start:stop] if not line.startswith("  caught:")]
    value = found.removeprefix("caught by ") if found.startswith("caught") else f'"NO: {found}"'
    lines[start:stop] = [*block, f"  caught: {value}"]
    LIST.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
