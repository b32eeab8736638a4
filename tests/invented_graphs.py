"""Tiny runs of GiLT, trained on the spot: of words, and of pieces of words."""

from pathlib import Path
from unittest.mock import patch

import yaml

from depgen.cli import main
from tests.fixtures.kinds import EXPERIMENTS, GOLD, PIECES, SENTENCES, text
from tests.fixtures.make import write_inputs

ROOTS = ("data", "cache", "models", "runs")


def write_graph_runs(folder: Path) -> None:
    """`runs/gilt`, of words, and `runs/pieces`, of GPT-2's pieces; the corpora, models and caches that they need."""
    write_inputs(folder)
    experiment = EXPERIMENTS["gilt"]
    pieces = {**experiment, "data": text(PIECES, corpus=SENTENCES, annotator=GOLD, tokens_per_batch=600)}
    with patch.dict("os.environ", {f"DEPGEN_{root.upper()}": str(folder / root) for root in ROOTS}):
        for name, settings in {"gilt": experiment, "pieces": pieces}.items():
            (folder / f"{name}.yaml").write_text(yaml.safe_dump(settings))
            assert main(["fit", "--config", str(folder / f"{name}.yaml"), "--name", name]) == 0
