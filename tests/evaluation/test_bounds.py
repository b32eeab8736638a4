"""Scores that are bounds: the beam counts, is given back, is named in every row, and prefixes are never likelier."""

import csv
import json

import numpy as np
import pytest

import depgen
from depgen.cli import main
from depgen.errors import UserError
from depgen.evaluation.unit_scores import beam_of
from tests.evaluation.test_system import MODELS, system_of

SENTENCES = ["The mother ran , quickly .", "She was kind .", "a"]


@pytest.fixture(params=["gilt", "pieces"])
def system(request, graph_runs):
    return depgen.load(request.param, device="cpu")


@pytest.mark.slow
def test_a_much_larger_beam_gives_a_tighter_bound(system):
    system.model.counts_per_hypothesis = None
    found = [system.score(SENTENCES, beam_size=size, by="all") for size in (1, 3, 30)]
    bounds = [each["log_prob"].item() for each in found]
    assert bounds == sorted(bounds)
    assert [each["beam_size"].item() for each in found] == [1, 3, 30]
    assert {each["likelihood"].item() for each in found} == {"bound"}
    assert system.model.beam_size == 3, "the run's"
    assert system.score(SENTENCES, by="all").equals(found[1])


@pytest.mark.slow
def test_prefixes_are_never_likelier_than_shorter_ones(system):
    for size in (1, 4):
        surprisals = system.score("The mother ran , quickly .", beam_size=size)["surprisal"]
        assert (surprisals >= -1e-5).all()
        assert (np.diff(surprisals.cumsum()) >= -1e-5).all()


def test_exact_scores_take_no_beam():
    system = system_of(MODELS["causal"])
    assert system.score(["a"], by="all")["beam_size"].item() is None
    with pytest.raises(UserError, match="beam_size"), beam_of(system.model, 0):
        pass


@pytest.mark.slow
def test_the_beam_is_given_back_after_a_mistake(graph_runs):
    model = depgen.load("gilt", device="cpu").model
    with pytest.raises(ZeroDivisionError), beam_of(model, 7):
        1 // (model.beam_size - 7)
    assert model.beam_size == 3


@pytest.mark.slow
def test_a_verb_takes_a_beam_and_names_it(graph_runs, tmp_path, capsys):
    (tmp_path / "text.txt").write_text("She ran .\n")
    found = []
    for size in (2, 20):
        command = ["score", str(tmp_path / "text.txt"), "--run", "pieces", "--device", "cpu", "--beam_size", str(size)]
        assert main([*command, "--json"]) == 0
        rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert {(row["likelihood"], row["beam_size"]) for row in rows} == {("bound", size)}
        found.append(sum(row["log_prob"] for row in rows))
    assert found[0] < found[1]


@pytest.mark.slow
def test_the_test_split_takes_a_beam_and_keeps_the_runs_own_numbers(graph_runs, capsys):
    run = next((graph_runs / "runs/gilt").iterdir())
    found = {}
    for more in ((), ("--beam_size", "9")):
        assert main(["test", "--run", str(run), "--trainer.accelerator", "cpu", *more]) == 0
        printed = dict(line.split("\t") for line in capsys.readouterr().out.splitlines() if "\t" in line)
        assert printed["likelihood"] == "bound"
        found[printed["beam_size"]] = float(printed["test/loss"])
    assert found["9"] < found["3"]
    measured = json.loads((run / "test.json").read_text())["metrics"]
    assert "test/perplexity" in measured
    with (run / "metrics.csv").open() as stream:
        logged = set(csv.DictReader(stream).fieldnames)
    assert "val/loss" in logged
    assert not {"val/perplexity", "val/word_perplexity"} & logged, "of tokens and arcs, with the graphs given"
    kept = json.loads((run / "test.json").read_text())["metrics"]["test/loss"]
    assert kept == pytest.approx(found["3"], rel=1e-5)
    assert main(["fit", "--resume", str(run), "--beam_size", "3"]) == 2
    assert "unrecognized arguments: --beam_size" in capsys.readouterr().err
