"""ITEXP's perplexities are named for what they are, of a text with its tree: `joint_perplexity`, not `perplexity`.

`python .golden/moves/w4_trees.py TREE` renames the numbers in a tree's tracked lines of ITEXP, and drops their curves of
validation perplexity, which is logged no more; then `depgen record` renews the pages. Of configurations, `LevelData` has
no `trees_for` and no `left_dependents` any more: no experiment set them.
"""

import copy
import json
import sys
from pathlib import Path
from typing import Any

TABLES = ("itexp_headline", "itexp_table3")
JOINT = {"perplexity": "joint_perplexity", "word_perplexity": "joint_word_perplexity"}


def renamed(values: dict[str, Any]) -> dict[str, Any]:
    """The resolved configuration of today for one of before."""
    values = copy.deepcopy(values)
    data = values.get("data") or {}
    if data.get("class_path") == "depgen.data.levels.LevelData":
        for name in ("trees_for", "left_dependents"):
            data.get("init_args", {}).pop(name, None)
    return values


def main(tree: Path) -> None:
    """Rewrite the tracked lines."""
    for table in TABLES:
        path = tree / "experiments" / "measured" / f"{table}.jsonl"
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        kept = []
        for line in lines:
            if line["row"].startswith("ITEXP"):
                if line["kind"] == "curve" or line["kind"] == "intervals" and {*line["intervals"]} == {"perplexity"}:
                    continue
                line["metrics"] = {JOINT.get(name, name): value for name, value in line["metrics"].items()}
                line["not_computed"] = {"perplexity": "the test is of texts with their trees"}
            kept.append(line)
        lines = kept
        path.write_text("".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
