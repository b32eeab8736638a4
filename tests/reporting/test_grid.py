"""Options tried one combination after the other, continued where they were stopped, the best one marked."""

from pathlib import Path

import pytest
import yaml

from depgen.errors import UserError
from depgen.reporting import grid
from depgen.reporting.definition import load_definition
from depgen.reporting.grid import grid_of_table
from depgen.reporting.jobs import Job, finished_run
from tests.reporting.stub import Stub, leave_numbers

SIZED = """
seed_everything: 1
model:
  class_path: depgen.models.dclm.DCLM
  init_args:
    context:
      class_path: depgen.models.dclm.ContextToContext
      init_args:
        size: 64
    embedding_size: 64
data:
  class_path: depgen.data.text.TextData
  init_args:
    corpus: {class_path: depgen.data.generated.GeneratedStories}
"""
K, H = "model.init_args.embedding_size", "model.init_args.context.init_args.size"


class Sized(Stub):
    """Validation perplexity by the sizes: 100 + 10 |K - 48| + |H - 32|; that of some K is no number."""

    diverges = ()

    def validate(self, options, environment):
        run = Path(options["--run"])
        arguments = yaml.safe_load((run / "config.yaml").read_text())["model"]["init_args"]
        k, h = arguments["embedding_size"], arguments["context"]["init_args"]["size"]
        perplexity = float("nan") if k in self.diverges else 100.0 + 10 * abs(k - 48) + abs(h - 32)
        leave_numbers(run / "validate.json", {"val/perplexity": perplexity})


@pytest.fixture
def depgen(project, monkeypatch):
    (project / "experiments/base_toy.yaml").write_text(SIZED)
    depgen = Sized()
    monkeypatch.setattr(grid, "run_depgen", depgen)
    return depgen


def tried(*vary, **options):
    return grid_of_table("toy", vary=vary, **{"row": "Base", **options}).splitlines()


def test_every_combination_is_trained_once_and_the_best_is_marked(depgen, project):
    first, *lines = tried(f"{K}=32,48", f"{H}=[32, 64]")
    assert first == "Base, small, seed 1: dev perplexity, parameters in millions"
    assert [line.split("\truns/")[0].strip() for line in lines] == [
        "embedding_size 32\tsize 32\t260.00\t0.00",
        "embedding_size 32\tsize 64\t292.00\t0.00",
        "embedding_size 48\tsize 32\t100.00\t0.00",
        "embedding_size 48\tsize 64\t132.00\t0.00",
    ]
    assert [line.endswith("<- best") for line in lines] == [False, False, True, False]
    kept = (project / "results/toy/grid-Base-small-seed1.tsv").read_text().splitlines()
    assert kept == [line.removeprefix("  ") for line in lines]
    tried(f"{H}=32", f"{K}=32,48,64")
    assert depgen.verbs == ["fit", "validate"] * 5, "longer lists train what is missing, in whatever order"


def test_what_was_stopped_is_continued(depgen):
    depgen.dies_in = "fit"
    with pytest.raises(UserError, match="killed"):
        tried(f"{K}=32")
    depgen.dies_in = None
    tried(f"{K}=32")
    assert "--resume" in depgen.calls[1][0]


def test_the_run_is_that_of_a_row_with_these_options(depgen, project):
    tried(f"{K}=32")
    path = project / "experiments/tables/toy.yaml"
    path.write_text(path.read_text() + f"  - {{name: Narrow, experiment: base_toy, options: {{{K}: 32}}}}\n")
    definition = load_definition("toy")
    assert finished_run(Job(definition, definition.row("Narrow"), "small", 1)) is not None


def test_a_table_tries_each_run_once_and_with_the_first_seed_of_its_size(depgen, project):
    path = project / "experiments/tables/toy.yaml"
    content = path.read_text().replace("seeds: [1, 2]", "seeds: {small: [7, 1], paper: [3]}")
    path.write_text(content + "  - {name: Part, experiment: base_toy}\n")
    for name in ("dm_toy", "chain_toy"):
        (project / f"experiments/{name}.yaml").write_text(SIZED)
    text = grid_of_table("toy", vary=[f"{K}=32"])
    assert depgen.verbs == ["fit", "validate"] * 3
    assert [part.splitlines()[0].split(":")[0] for part in text.split("\n\n")] == [
        "Base, small, seed 7",
        "DM-Base, small, seed 7",
        "DM-Base, left chain, small, seed 7",
    ]


def test_a_perplexity_that_is_no_number_is_not_the_best(depgen):
    depgen.diverges = (48,)
    assert [line.split("\t")[0].strip() for line in tried(f"{K}=32,48") if "best" in line] == ["embedding_size 32"]
    depgen.diverges = (49, 50)
    assert not [line for line in tried(f"{K}=49,50") if "best" in line]


@pytest.mark.parametrize(
    ("vary", "row", "message"),
    [
        ("size", "Base", r"--vary: expected option=value,value.*'size'"),
        (f"{K}=", "Base", r"--vary: expected option=value,value"),
        ("model.init_args.widht=32", "Base", r"base_toy.yaml.*widht"),
        ("model.init_args.context=32", "Base", r"context: a class is replaced as a whole"),
        (f"{K}=32", "Old", r"Row Old of toy has no experiment"),
    ],
)
def test_what_can_not_be_tried_is_refused_before_anything_is_trained(depgen, vary, row, message):
    with pytest.raises(UserError, match=message):
        tried(vary, row=row)
    assert depgen.calls == []
