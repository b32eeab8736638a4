"""`make guard BASE=COMMIT`: what the command line of another commit and of this tree compute, number by number.

Both work on the same generated data, in one environment, on one machine. Training losses, weights, sampled texts and
parses are equal bit for bit; scores of single items within 1e-5 nats, totals within 1e-6 of their size. What may differ
is listed in `differences.yaml`.
"""

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch

from tests.fixtures.kinds import EXPERIMENTS
from tests.fixtures.make import MASKED, Place, make_parsers, union_numbers, write_inputs
from tests.guard.comparison import Found, Numbers, differences, listed, unexpected

HERE = Path(__file__).parent
DEMO = ("--data.init_args.corpus.init_args.train", "24", "--data.init_args.corpus.init_args.valid", "6")
DEMOS = {
    "demo_transformer": ("--trainer.max_epochs", "2"),
    "demo_dm_transformer": (
        "--trainer.max_epochs", "2", "--model.init_args.dependency_modeling_epochs", "1",
        "--model.init_args.language_modeling_epochs", "1",
    ),
}  # fmt: skip
"""Experiments that each tree has itself, made short."""
PREDICTED = {"on_lstm": "bracketings", "udgn": "trees"}
"""Folders that `depgen predict` writes."""


def numbers_of_tree(tree: Path, home: Path) -> Numbers:
    """All that the command line of a tree computes in a folder that holds its inputs."""
    numbers: Numbers = {}
    with Place(tree, home) as place:
        place("train-union", "--config", home / "experiments" / "union.yaml")
        for name, value in flat("union", union_numbers(place)).items():
            numbers[name] = Found("total", value)
        for name, value in flat("parsers", make_parsers(place)).items():
            if not name.endswith("words_per_second"):
                numbers[name] = Found("total", value)
        for kind in EXPERIMENTS:
            place.fit(kind, "finished")
            numbers |= numbers_of_run(place, kind, place.run(kind, "finished"))
        for kind, options in DEMOS.items():
            place("fit", "--config", tree / "experiments" / f"{kind}.yaml", "--trainer.accelerator", "cpu",
                  "--trainer.precision", "32-true", *DEMO, *options)  # fmt: skip
            (run,) = (home / "runs" / kind).iterdir()
            numbers |= numbers_of_run(place, kind, run)
    return numbers


def numbers_of_run(place: Place, kind: str, run: Path) -> Numbers:
    """Losses, weights, scores, texts and parses of a finished run."""
    numbers: Numbers = {f"{kind}/{name}": Found("exact", value) for name, value in training_losses(run).items()}
    for file in ("best.ckpt", "resume.ckpt"):
        weights = torch.load(run / "checkpoints" / file, weights_only=True)["state_dict"]
        for name, value in weights.items():
            digest = hashlib.sha256(value.contiguous().numpy().tobytes()).hexdigest()[:16]
            numbers[f"{kind}/{file}/{name}"] = Found("exact", f"{list(value.shape)} {digest}")
    place("test", "--run", run, "--trainer.accelerator", "cpu")
    for name, value in json.loads((run / "test.json").read_text())["metrics"].items():
        numbers[f"{kind}/{name}"] = Found("total", value)
    if (run / "test_items.npz").is_file():
        with np.load(run / "test_items.npz") as items:
            for item, nll in zip(items["items"].tolist(), items["nll"].tolist(), strict=True):
                numbers[f"{kind}/test item {item}"] = Found("item", nll)
    if kind == "similarity":
        return numbers
    common, text = ("--run", run, "--device", "cpu"), place.home / "text.txt"
    rows = map(json.loads, place("score", text, "--by", "word", "--json", *common).splitlines())
    for number, row in enumerate(rows):
        numbers[f"{kind}/score {number} {row['word']}"] = Found("item", row["log_prob"])
    if kind in MASKED:
        heads = ("--attention_head", "[1,0]") if kind == "masked_transformer" else ()
        numbers[f"{kind}/parse"] = Found("exact", place("parse", "--input", text, "--form", "as_is", *common, *heads))
    else:
        numbers[f"{kind}/generate"] = Found("exact", place("generate", "-n", "2", "--max_new_tokens", "12", *common))
    if kind in PREDICTED:
        place("predict", "--run", run, "--trainer.accelerator", "cpu")
        for path in sorted((run / PREDICTED[kind]).iterdir()):
            numbers[f"{kind}/predict/{path.name}"] = Found("exact", path.read_text())
    return numbers


def training_losses(run: Path) -> dict[str, str]:
    """Every logged training loss, as it is written."""
    header, *rows = ((run / "metrics.csv").read_text()).splitlines()
    names = header.split(",")
    found = {}
    for row in rows:
        values = dict(zip(names, row.split(","), strict=True))
        found |= {f"step {values['step']} {n}": v for n, v in values.items() if n.startswith("train/") and v}
    return found


def flat(name: str, value: object) -> dict[str, float]:
    """Numbers of nested lists and dictionaries, by their places."""
    if isinstance(value, dict):
        return {key: n for part, each in value.items() for key, n in flat(f"{name}/{part}", each).items()}
    if isinstance(value, list):
        return {key: n for place, each in enumerate(value) for key, n in flat(f"{name}/{place}", each).items()}
    return {name: float(value)} if isinstance(value, (int, float)) and not isinstance(value, bool) else {}


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
