"""A measure in training: the numbers of the verb, and the same weights as without it."""

import csv

import pytest
import torch
import yaml

from depgen.cli import main
from depgen.evaluation.syntax.pairs import PairOptions, minimal_pairs
from depgen.evaluation.system import load
from depgen.training.checkpoints import load_checkpoint
from tests.evaluation.oracles_of_stories import write_experiment


@pytest.mark.slow
def test_a_measure_is_logged_as_the_verb_gives_it_and_changes_no_weight(tmp_path, monkeypatch):
    monkeypatch.setenv("DEPGEN_RUNS", str(tmp_path / "runs"))
    pairs = tmp_path / "pairs.tsv"
    rows = ["the king sleeps .\tthe king sleep .", "the girls sleep .\tthe girls sleeps .", "she runs .\tshe run ."]
    pairs.write_text("\n".join(["good\tbad", *rows]) + "\n")
    config = write_experiment(tmp_path / "plain.yaml")
    settings = yaml.safe_load(config.read_text())
    evaluate = {
        "class_path": "depgen.evaluation.callback.Evaluate",
        "init_args": {"measure": "minimal-pairs", "options": {"pairs": str(pairs), "tokens": "whitespace"}},
    }
    settings["trainer"]["callbacks"].append(evaluate)
    (tmp_path / "measured.yaml").write_text(yaml.safe_dump(settings))
    for name in ("plain", "measured"):
        assert main(["fit", "--config", str(tmp_path / f"{name}.yaml"), "--trainer.max_epochs", "2"]) == 0
    plain, measured = (next((tmp_path / "runs" / name).iterdir()) for name in ("plain", "measured"))
    weights = [load_checkpoint(run / "checkpoints/resume.ckpt")["state_dict"] for run in (plain, measured)]
    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())
    with (measured / "metrics.csv").open() as stream:
        logged = [row for row in csv.DictReader(stream) if row.get("minimal-pairs/accuracy")]
    assert len(logged) == 2
    last = minimal_pairs(load(measured / "checkpoints/resume.ckpt"), PairOptions(pairs=pairs, tokens="whitespace"))
    for name in ("accuracy", "pairs", "chance"):
        assert float(logged[-1][f"minimal-pairs/{name}"]) == pytest.approx(last.rows.iloc[-1][name])
