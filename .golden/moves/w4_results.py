"""The tracked results in the lines of today, once: `python .golden/moves/w4_results.py NEW`, run from the former tree.

What items gave (intervals of figures and gains, tests) is computed by the former tree's code and written as lines of its
own, so that no number changes; the items themselves are no longer tracked. No configuration is renamed.
"""

import json
import sys
from pathlib import Path
from typing import Any

NOT_TRACKED = ("items", "curve", "clock")


def renamed(values: Any) -> Any:
    """Values in the new terms: nothing changed."""
    return values


def digits(number: float) -> float:
    """Ten significant digits, as CSV shows them."""
    return float(f"{number:.10g}")


def lines_of(name: str) -> list[dict[str, Any]]:
    """All lines of a table: the results as they were written, then what items gave."""
    from depgen.reporting.compare import compare
    from depgen.reporting.definition import load_definition
    from depgen.reporting.intervals import intervals
    from depgen.reporting.store import measured_path, read_ours, tracked_lines

    lines = []
    for _, line in tracked_lines(measured_path(name)):
        if "seed" not in line:
            continue
        place = {"row": line["row"], "size": line["size"], "seed": line["seed"]}
        lines.append({"kind": "result", **{key: value for key, value in line.items() if key not in NOT_TRACKED}})
        if curve := {key: line[key] for key in ("curve", "clock") if line.get(key)}:
            lines.append({"kind": "curve", **place, **curve})
    definition = load_definition(name)
    for size in definition.sizes:
        ours = read_ours(definition, size=size, local=False)
        by_row: dict[Any, dict[str, Any]] = {}
        for (row, measure), (ends, _) in intervals(ours).items():
            seeds = sorted(ours.figures[row, measure].values)
            place = {"kind": "intervals", "row": row, "size": size, "seeds": seeds, "intervals": {}}
            by_row.setdefault((row, *seeds), place)["intervals"][measure] = [*map(digits, ends)]
        lines += by_row.values()
        seen = set()
        for item in compare(ours)[0]:
            pair = (item.column, frozenset((item.row, item.other)))
            if pair in seen or (item.p_items is None and item.interval is None):
                continue
            seen.add(pair)
            lines.append(
                {
                    "kind": "comparison",
                    "row": item.row,
                    "size": size,
                    "against": item.other,
                    "measure": item.column,
                    "test": definition.column(item.column).test,
                    "seeds": sorted(ours.figures[item.row, item.column].values),
                    "other_seeds": sorted(ours.figures[item.other, item.column].values),
                    "gain": digits(item.gain),
                    **({} if item.p_items is None else {"p": digits(item.p_items)}),
                    **({} if item.items is None else {"items": item.items}),
                    **({} if item.interval is None else {"interval": [*map(digits, item.interval)]}),
                }
            )
    return lines


if __name__ == "__main__":
    for path in sorted(Path("experiments/measured").glob("*.jsonl")):
        text = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines_of(path.stem))
        (Path(sys.argv[1]) / path).write_text(text, encoding="utf-8")
