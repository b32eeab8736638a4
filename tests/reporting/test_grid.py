"""Options tried one combination after the other, continued where they were stopped, the best one marked."""

import json
import re

import pytest

from depgen.errors import UserError
from depgen.reporting import grid
from depgen.reporting.definition import load_definition
from depgen.reporting.grid import grid_of_table
from depgen.reporting.jobs import Job, finished_run
from depgen.training.runs import all_runs, read_record

BACKBONE = "model.init_args.backbone.init_args"
W, L = f"{BACKBONE}.width", f"{BACKBONE}.layers"


@pytest.fixture
def depgen(depgen, monkeypatch):
    monkeypatch.setattr(grid, "run_depgen", depgen)
    return depgen


def tried(*vary, **options):
    return grid_of_table("toy", vary=vary, **{"row": "Base", **options}).splitlines()


@pytest.mark.slow
def test_every_combination_is_trained_once_and_the_best_is_marked(depgen, project):
    first, *lines = tried(f"{W}=4,8", f"{L}=[1]")
    assert first == "Base, small, seed 1: dev perplexity, parameters in millions"
    cells = [line.removesuffix("  <- best").strip().split("\t") for line in lines]
    assert [each[:2] for each in cells] == [["width 4", "layers 1"], ["width 8", "layers 1"]]
    perplexities = []
    for *_, perplexity, parameters, run in cells:
        metrics = json.loads((project / run / "validate.json").read_text())["metrics"]
        assert perplexity == f"{metrics['val/perplexity']:.2f}"
        assert parameters == f"{read_record(project / run)['parameters'] / 1e6:.2f}"
        perplexities.append(metrics["val/perplexity"])
    best = perplexities.index(min(perplexities))
    assert [line.endswith("<- best") for line in lines] == [place == best for place in range(2)]
    kept = (project / "results/toy/grid-Base-small-seed1.tsv").read_text().splitlines()
    assert kept == [line.removeprefix("  ") for line in lines]
    tried(f"{L}=1", f"{W}=16,8")
    assert depgen.verbs == ["fit", "validate"] * 3, "other lists train what is missing, in whatever order"


@pytest.mark.slow
def test_what_was_stopped_is_continued(depgen):
    depgen.stops_in = "fit"
    with pytest.raises(UserError, match="killed"):
        tried(f"{W}=4")
    depgen.stops_in = None
    tried(f"{W}=4")
    assert "--resume" in depgen.calls[1][0]


@pytest.mark.slow
def test_the_run_is_that_of_a_row_with_these_options(depgen, project):
    tried(f"{W}=4")
    path = project / "experiments/tables/toy.yaml"
    path.write_text(path.read_text() + f"  - {{name: Narrow, experiment: base_toy, options: {{{W}: 4}}}}\n")
    definition = load_definition("toy")
    assert finished_run(Job(definition, definition.row("Narrow"), "small", 1)) is not None


@pytest.mark.slow
def test_a_table_tries_each_run_once_and_with_the_first_seed_of_its_size(depgen, project):
    path = project / "experiments/tables/toy.yaml"
    content = path.read_text().replace("seeds: [1, 2]", "seeds: {small: [2, 1], paper: [3]}")
    path.write_text(content + "  - {name: Part, experiment: base_toy}\n")
    text = grid_of_table("toy", vary=[f"{W}=4"])
    assert depgen.verbs == ["fit", "validate"] * 3
    assert [part.splitlines()[0].split(":")[0] for part in text.split("\n\n")] == [
        "Base, small, seed 2",
        "DM-Base, small, seed 2",
        "DM-Base, left chain, small, seed 2",
    ]


@pytest.mark.slow
def test_a_perplexity_that_is_no_number_is_not_the_best(depgen):
    def diverge(width):
        (run,) = (each for each in all_runs() if f"width-{width}-" in str(each))
        path = run / "validate.json"
        path.write_text(re.sub(r"(val/perplexity.: )[\d.]+", r"\1NaN", path.read_text()))

    tried(f"{W}=4,8")
    diverge(8)
    assert [line.split("\t")[0].strip() for line in tried(f"{W}=4,8") if "best" in line] == ["width 4"]
    diverge(4)
    assert not [line for line in tried(f"{W}=4,8") if "best" in line]


@pytest.mark.parametrize(
    ("vary", "row", "message"),
    [
        ("size", "Base", r"--vary: expected option=value,value.*'size'"),
        (f"{W}=", "Base", r"--vary: expected option=value,value"),
        ("model.init_args.widht=32", "Base", r"base_toy.yaml.*widht"),
        ("model.init_args.backbone=32", "Base", r"backbone: a class is replaced as a whole"),
        (f"{W}=4", "Old", r"Row Old of toy has no experiment"),
    ],
)
def test_what_can_not_be_tried_is_refused_before_anything_is_trained(depgen, vary, row, message):
    with pytest.raises(UserError, match=message):
        tried(vary, row=row)
    assert depgen.calls == []
