"""After a move that renames classes or options: is every resolved configuration the same but for the names?

`python .golden/configurations.py OLD NEW --rename .golden/moves/FILE.py [--write]`

OLD and NEW are worktrees, before and after the move. FILE.py has

    def renamed(values: dict) -> dict:
        \"\"\"The resolved values of an experiment in the terms of the new tree; see `moves/example.py`.\"\"\"

and may have

    def fingerprints() -> dict[str, str]:
        \"\"\"New fingerprints of data and trees, by the former ones.\"\"\"

    def labels(label: str) -> str:
        \"\"\"What an experiment, or a table's row, is called now (`udgn_ewt small`, `dmlm_table2 DM-PRPN paper`).\"\"\"

Every experiment at every size and every row of every table is resolved in both trees (the values that differ from
defaults, as the digest sees them); `renamed` of the old ones must equal the new ones, value by value. With --write and
without a difference, digests and fingerprints in NEW's `experiments/measured/*.jsonl` and `digests.json` become the new
ones, and the pages of NEW's tables must render as those of OLD.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from commands import Depgen, load_move


def differences(one: Any, other: Any, place: str = "") -> Iterator[str]:
    """A line for each value that differs, with its place."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for name in sorted(one.keys() | other.keys(), key=str):
            here = f"{place}.{name}" if place else str(name)
            if name not in one:
                yield f"{here}: nothing -> {json.dumps(other[name])[:200]}"
            elif name not in other:
                yield f"{here}: {json.dumps(one[name])[:200]} -> nothing"
            else:
                yield from differences(one[name], other[name], here)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, pair in enumerate(zip(one, other, strict=True)):
            yield from differences(*pair, f"{place}[{number}]")
    elif one != other or isinstance(one, bool) is not isinstance(other, bool):
        yield f"{place}: {json.dumps(one)[:200]} -> {json.dumps(other)[:200]}"


def asked(tree: Path, *probes: str) -> list[Any]:
    """What probes of a tree answer."""
    with tempfile.TemporaryDirectory(prefix="golden-") as folder, Depgen(tree, Path(folder)) as depgen:
        return [depgen.probe(name, **({"folder": ""} if name == "tables" else {})) for name in probes]


def rewritten(line: str, digests: Mapping[str, str], fingerprints: Mapping[str, str]) -> str:
    """A tracked line with the new digest and fingerprints; all else stays as it is written."""
    content = json.loads(line)
    changes: dict[str, str] = {}
    if (digest := content.get("config_sha256")) in digests:
        changes[digest] = digests[digest]
    for value in fingerprints_in(content):
        if value in fingerprints:
            changes[value] = fingerprints[value]
    for former, new in changes.items():
        line = line.replace(f'"{former}"', f'"{new}"')
    return line


def fingerprints_in(content: Any) -> Iterator[str]:
    """The texts under every `fingerprint` and `trees` of a line."""
    if isinstance(content, Mapping):
        for name, value in content.items():
            if isinstance(value, str) and (name in ("fingerprint", "trees") or name.endswith("_fingerprint")):
                yield value
            else:
                yield from fingerprints_in(value)
    elif isinstance(content, list):
        for value in content:
            yield from fingerprints_in(value)


def last_of(digest: str, successors: Mapping[str, str]) -> str:
    """What `digests.json` leads a digest to."""
    for _ in range(len(successors) + 1):
        if digest not in successors:
            return digest
        digest = successors[digest]
    raise ValueError(f"{digest} leads back to itself")


def write(tree: Path, digests: Mapping[str, str], fingerprints: Mapping[str, str]) -> None:
    """Bring the new digests and fingerprints into the tracked lines of a tree."""
    folder = tree / "experiments" / "measured"
    table = folder / "digests.json"
    content = json.loads(table.read_text(encoding="utf-8")) if table.is_file() else {}
    successors = content.get("today", {})
    known = {**{former: digests.get(last, last) for former in successors for last in [last_of(former, successors)]}, **digests}
    lines = changed = 0
    for path in sorted(folder.glob("*.jsonl")):
        former = path.read_text(encoding="utf-8").splitlines()
        new = [rewritten(line, known, fingerprints) for line in former]
        lines += len(former)
        changed += sum(one != other for one, other in zip(former, new, strict=True))
        path.write_text("".join(f"{line}\n" for line in new), encoding="utf-8")
    print(f"{changed} of {lines} tracked lines are rewritten.")
    if not content:
        return
    # chains end in what the lines hold now; a digest that no line held stays a name of its successor
    content["today"] = {former: new for former, new in known.items() if former != new}
    for name in ("of_no_file_today", "before"):
        if name in content:
            own = {former: value for former, value in content[name].items() if known.get(former, former) == former}
            content[name] = {**{known.get(former, former): value for former, value in content[name].items()}, **own}
    table.write_text(f"{json.dumps(content, indent=1, ensure_ascii=False)}\n", encoding="utf-8")
    print(f"{len(content['today'])} former digests lead to those of today.")


def main() -> int:
    """The exit code: 1 where a value or a page differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--rename", type=Path, required=True)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    move = load_move(arguments.rename)
    labels = getattr(move, "labels", lambda label: label)
    fingerprints = move.fingerprints() if hasattr(move, "fingerprints") else {}
    before, pages = asked(arguments.old, "configurations", "tables")
    (after,) = asked(arguments.new, "configurations")
    gone = getattr(move, "gone", ())
    old = {labels(label): each for label, each in before.items() if not label.startswith(gone)}
    after = {label: each for label, each in after.items() if not label.startswith(gone)}
    wrong, digests = 0, {}
    for label in sorted(old.keys() | after.keys()):
        if label not in old or label not in after:
            print(f"{label}: only in {'NEW' if label not in old else 'OLD'}")
            wrong += 1
            continue
        expected = json.loads(json.dumps(move.renamed(json.loads(json.dumps(old[label]["values"])))))
        lines = list(differences(expected, after[label]["values"]))
        for line in lines:
            print(f"{label}: {line}")
        wrong += bool(lines)
        known = digests.setdefault(old[label]["digest"], after[label]["digest"])
        if known != after[label]["digest"]:
            print(f"{label}: its digest {old[label]['digest']} would become two: configurations that were one differ")
            wrong += 1
    changed = {former: new for former, new in digests.items() if former != new}
    new_digests = {each["digest"] for each in after.values()}
    if len({*digests.values()}) < len(digests):
        print("Configurations that differed have one digest now:")
        for digest in new_digests:
            same = sorted(label for label, each in after.items() if each["digest"] == digest)
            if len({old[label]["digest"] for label in same if label in old}) > 1:
                print("  " + ", ".join(same))
                wrong += 1
    print(f"{len(old)} configurations, {wrong} wrong; {len(changed)} of {len(digests)} digests change.")
    if wrong or not arguments.write:
        return int(bool(wrong))
    write(arguments.new, changed, fingerprints)
    (rendered,) = asked(arguments.new, "tables")
    differing = [name for name in sorted(pages.keys() | rendered.keys()) if pages.get(name) != rendered.get(name)]
    for name in differing:
        print(f"{name} renders otherwise.")
    print(f"{len(rendered) - len(differing)} of {len(rendered)} tables and pages render as before.")
    return int(bool(differing))


if __name__ == "__main__":
    sys.exit(main())
