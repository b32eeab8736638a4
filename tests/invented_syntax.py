"""Minimal pairs and suites made on the spot, laid out like BLiMP and the suites of Hu et al. (2020)."""

import json
from pathlib import Path

NAMES = ("tom", "anna", "the dog", "the cat", "the boy", "the girl", "a man", "a woman", "the bird", "my aunt", "he")


def write_syntax(folder: Path) -> None:
    """Write `blimp` with two paradigms of eleven pairs, and `syntaxgym` with three suites, into the data folder."""
    (folder / "blimp").mkdir(parents=True)
    for paradigm, good, bad in (("agreement_1", "was", "were"), ("agreement_2", "is", "are")):
        rows = [
            {
                "sentence_good": f"{name} {good} happy.",
                "sentence_bad": f"{name} {bad} happy.",
                "linguistics_term": "agreement",
                "UID": paradigm,
                "pairID": str(number),
            }
            for number, name in enumerate(NAMES)
        ]
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
        (folder / "blimp" / f"{paradigm}.jsonl").write_text(text, encoding="utf-8")
    (folder / "syntaxgym").mkdir()
    for name in ("number_src", "cleft", "nn-nv-rpl"):
        formulas = ["(2;%match%) < (2;%mismatch%)", "(*;%match%) < (*;%mismatch%)"]
        items = [
            {
                "item_number": number,
                "conditions": [
                    {
                        "condition_name": condition,
                        "regions": [
                            {"region_number": place, "content": content}
                            for place, content in enumerate((subject, verb, "", "happy"), start=1)
                        ],
                    }
                    for condition, verb in (("match", "was"), ("mismatch", "were"))
                ],
            }
            for number, subject in enumerate(NAMES, start=1)
        ]
        suite = {
            "meta": {"name": name, "metric": "sum"},
            "predictions": [{"type": "formula", "formula": formula} for formula in formulas],
            "items": items,
        }
        (folder / "syntaxgym" / f"{name}.json").write_text(json.dumps(suite), encoding="utf-8")
