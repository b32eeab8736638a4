"""Sizes tried one combination after the other, gone on with, and the best taken into the table."""

import dataclasses
import functools
import json
from pathlib import Path

import pytest
import yaml

from depgen.errors import UserError
from depgen.reporting.definition import load_definition
from depgen.reporting.grid import grid, grid_of_table, with_values
from depgen.reporting.jobs import Job, fit
from tests.reporting.stub import Stub, leave_numbers

SIZED = """# A comment that stays.
seed_everything: 1
model:
  class_path: depgen.models.dclm.DCLM
  init_args:
    context:
      class_path: depgen.models.dclm.ContextToContext
      init_args:
        size: 64  # H
    embedding_size: 64
data:
  class_path: depgen.data.text.TextData
"""
K, H = "model.init_args.embedding_size", "model.init_args.context.init_args.size"


class Sized(Stub):
    """Validation perplexity by the sizes: 100 + 10 |K - 48| + |H - 32|."""

    def fit(self, options, environment):
        super().fit(options, environment)
        (run,) = (path.parent for path in Path(environment["DEPGEN_RUNS"]).glob("*/*/run.json"))
        sizes = yaml.safe_load((run / "config.yaml").read_text())["model"]["init_args"]
        (run / "sizes.json").write_text(json.dumps([sizes["embedding_size"], sizes["context"]["init_args"]["size"]]))

    def validate(self, options, environment):
        run = Path(options["--run"])
        k, h = json.loads((run / "sizes.json").read_text())
        perplexity = 100 + 10 * abs(k - 48) + abs(h - 32)
        leave_numbers(run / "validate.json", {"val/perplexity": perplexity})


@pytest.fixture
def job(project):
    (project / "experiments/sizes/small/base_toy.yaml").write_text(SIZED)
    definition = load_definition("toy")
    return Job(definition, definition.row("Base"), "small", 1)


def test_every_combination_is_trained_once_and_the_best_is_named(job, project):
    depgen = Sized()
    text = grid(job, {K: ["32", "48"], H: ["32", "64"]}, depgen=depgen)
    assert depgen.verbs == ["fit", "validate"] * 4
    assert [line.strip() for line in text.splitlines()[1:]] == [
        "embedding_size 32, size 32\t260.00 (0.00)",
        "embedding_size 32, size 64\t292.00 (0.00)",
        "embedding_size 48, size 32\t100.00 (0.00)  <- best",
        "embedding_size 48, size 64\t132.00 (0.00)",
    ]
    rows = (project / "results/toy/grid/Base-small-seed1.csv").read_text().splitlines()
    assert rows[0] == "embedding_size,size,dev_perplexity,parameters_millions,run"
    assert rows[3].startswith("48,32,100.0000,0.0001,")


def test_longer_lists_train_what_is_missing(job):
    depgen = Sized()
    grid(job, {K: ["32"], H: ["32", "64"]}, depgen=depgen)
    grid(job, {K: ["32", "64"], H: ["32", "64"]}, depgen=depgen)
    assert depgen.verbs == ["fit", "validate"] * 4


def test_a_killed_training_is_gone_on_with(job):
    with pytest.raises(UserError, match="killed"):
        grid(job, {K: ["32"], H: ["32"]}, depgen=Sized(dies_in="fit"))
    depgen = Sized()
    grid(job, {K: ["32"], H: ["32"]}, depgen=depgen)
    assert "--resume" in depgen.calls[0][0]


def test_the_best_becomes_the_tables_own(job):
    text = grid(job, {K: ["32", "48"], H: ["32"]}, adopt=True, depgen=Sized())
    written = job.config.files[-1].read_text()
    assert written == SIZED.replace("embedding_size: 64", "embedding_size: 48").replace(
        "size: 64  # H", "size: 32  # H"
    )
    depgen = Sized()
    run = fit(job, depgen).run
    assert depgen.calls == []  # nothing is trained again
    assert json.loads((run / "sizes.json").read_text()) == [48, 32]
    assert f"adopted: {job.config.files[-1]}" in text
    again = grid(job, {K: ["32"], H: ["32"]}, adopt=True, depgen=depgen)
    assert again == f"Base, small, seed 1: adopted: {job.config.files[-1]}, {run}"
    assert (depgen.calls, job.config.files[-1].read_text()) == ([], written)
    grid(job, {K: ["32", "48", "64"], H: ["32"]}, depgen=depgen)  # what was tried before is as good as ever
    assert depgen.verbs == ["fit", "validate"]


def test_a_run_that_was_not_adopted_is_in_the_way_before_anything_is_trained(job, project, monkeypatch):
    for name in ("dm_toy", "chain_toy"):
        (project / f"experiments/sizes/small/{name}.yaml").write_text(SIZED)
    last = dataclasses.replace(job, row=job.definition.row("DM-Base, left chain"))
    fit(last, Sized())
    depgen = Sized()
    monkeypatch.setattr("depgen.reporting.grid.run_depgen", depgen)
    with pytest.raises(UserError, match="DM-Base, left chain, small, seed 1 "):
        grid_of_table("toy", vary=[f"{K}=32"], size="small", adopt=True)
    assert depgen.calls == []


def test_a_table_tries_each_run_once_and_with_the_first_seed_of_its_profile(job, project, monkeypatch):
    path = project / "experiments/tables/toy.yaml"
    content = path.read_text().replace("seeds: [1, 2]", "seeds: {small: [7, 1], paper: [3]}")
    path.write_text(content + "  - {name: Part, experiment: base_toy, runs_of: toy/Base}\n")
    for name in ("dm_toy", "chain_toy"):
        (project / f"experiments/sizes/small/{name}.yaml").write_text(SIZED)
    depgen = Sized()
    monkeypatch.setattr("depgen.reporting.grid.grid", functools.partial(grid, depgen=depgen))
    text = grid_of_table("toy", vary=[f"{K}=32"], size="small")
    assert depgen.verbs == ["fit", "validate"] * 3
    assert [part.splitlines()[0].split(":")[0] for part in text.split("\n\n")] == [
        "Base, small, seed 7",
        "DM-Base, small, seed 7",
        "DM-Base, left chain, small, seed 7",
    ]


@pytest.mark.parametrize("at", ["shutil.copytree", "pathlib.Path.rename", "depgen.reporting.grid._take"])
def test_an_adoption_that_was_stopped_is_ended_by_the_same_command(job, monkeypatch, at):
    def die(*args, **kwargs):
        raise KeyboardInterrupt

    depgen, values = Sized(), {K: ["32", "48"], H: ["32"]}
    with monkeypatch.context() as patch:
        patch.setattr(at, die)
        with pytest.raises(KeyboardInterrupt):
            grid(job, values, adopt=True, depgen=depgen)
    assert job.config.files[-1].read_text() == SIZED
    grid(job, values, adopt=True, depgen=depgen)
    assert "embedding_size: 48" in job.config.files[-1].read_text()
    assert depgen.verbs == ["fit", "validate"] * 2
    assert json.loads((fit(job, depgen).run / "sizes.json").read_text()) == [48, 32]
    assert depgen.verbs == ["fit", "validate"] * 2
    assert not list(job.runs.glob(".part-*"))


def test_an_experiment_changed_after_the_adoption_stays(job):
    grid(job, {K: ["32", "48"], H: ["32"]}, adopt=True, depgen=Sized())
    changed = job.config.files[-1].read_text().replace("embedding_size: 48", "embedding_size: 96")
    job.config.files[-1].write_text(changed)
    grid(job, {K: ["32", "48"], H: ["32"]}, adopt=True, depgen=Sized())
    assert job.config.files[-1].read_text() == changed


class Diverges(Sized):
    """All but one combination end in NaN, or that one too."""

    def __init__(self, best: int | None) -> None:
        super().__init__()
        self.best = best

    def validate(self, options, environment):
        run = Path(options["--run"])
        perplexity = 70.0 if json.loads((run / "sizes.json").read_text())[0] == self.best else float("nan")
        leave_numbers(run / "validate.json", {"val/perplexity": perplexity})


def test_a_perplexity_that_is_no_number_is_not_the_best(job):
    text = grid(job, {K: ["32", "48"], H: ["32"]}, depgen=Diverges(best=48))
    assert [line.strip() for line in text.splitlines() if "best" in line] == [
        "embedding_size 48, size 32\t70.00 (0.00)  <- best"
    ]
    with pytest.raises(UserError, match="no combination has a finite validation perplexity"):
        grid(dataclasses.replace(job, seed=2), {K: ["32"], H: ["32"]}, adopt=True, depgen=Diverges(best=None))


def test_figures_of_shorter_lists_other_seeds_and_other_settings_stand_beside_those_there(job, project):
    folder = project / "results/toy/grid"
    for seed, values in ((1, {K: ["32", "48"]}), (2, {K: ["32"]}), (1, {K: ["48"]}), (1, {K: ["48"], H: ["32"]})):
        grid(dataclasses.replace(job, seed=seed), values, depgen=Sized())
    assert {path.name for path in folder.iterdir()} == {"Base-small-seed1.csv", "Base-small-seed2.csv"}
    lines = (folder / "Base-small-seed1.csv").read_text().splitlines()
    assert [line.split(",")[:3] for line in lines] == [
        ["embedding_size", "size", "dev_perplexity"],
        ["32", "", "292.0000"], ["48", "", "132.0000"], ["48", "32", "100.0000"],
    ]  # fmt: skip


def test_the_order_of_settings_names_no_other_folder(job):
    depgen = Sized()
    grid(job, {K: ["32"], H: ["32"]}, depgen=depgen)
    grid(job, {H: ["32"], K: ["32"]}, depgen=depgen)
    assert depgen.verbs == ["fit", "validate"]


def test_a_row_that_goes_on_from_anothers_run_is_told_it(job, project):
    row = dataclasses.replace(job.row, encoder_of="toy/Later")
    with pytest.raises(UserError, match="which no experiment makes"):
        grid(dataclasses.replace(job, row=row), {K: ["32"]}, depgen=Sized())
    (project / "experiments/sizes/small/dm_toy.yaml").write_text(SIZED)
    tuned, depgen = dataclasses.replace(job, row=dataclasses.replace(job.row, encoder_of="toy/DM-Base")), Sized()
    grid(tuned, {K: ["32"]}, adopt=True, depgen=depgen)
    assert depgen.verbs == ["fit", "fit", "validate"]
    told = dict(zip(depgen.calls[1][0][1::2], depgen.calls[1][0][2::2], strict=True))
    assert "toy/DM-Base/small-seed1" in told["--data.init_args.encoder"]
    fit(tuned, depgen)
    assert depgen.verbs == ["fit", "fit", "validate"]


@pytest.mark.parametrize(
    ("vary", "message"),
    [
        ([f"{K}=32", f"{K}=64"], "share the name 'embedding_size': give one of them, once"),
        ([f"{H}=32", "model.init_args.size=64"], "share the name 'size'"),
        ([f"{K}=[32"], r"model\.init_args\.embedding_size=\[32 is no YAML: give values with commas"),
    ],
)
def test_settings_that_would_be_mixed_up_are_refused(job, vary, message):
    with pytest.raises(UserError, match=message):
        grid_of_table("toy", vary=vary, size="small", row="Base")


def test_settings_that_are_not_there_are_refused_before_anything_is_trained(job):
    depgen = Sized()
    with pytest.raises(UserError, match=r"no value at model\.init_args\.width"):
        grid(job, {"model.init_args.width": ["32"]}, depgen=depgen)
    with pytest.raises(UserError, match=r"no value at model\.init_args\.context"):
        grid(job, {"model.init_args.context": ["32"]}, depgen=depgen)
    assert depgen.calls == []
    with pytest.raises(UserError, match="expected setting=value,value"):
        grid_of_table("toy", vary=["size"], size="small")
    with pytest.raises(UserError, match="has no experiment"):
        grid_of_table("toy", vary=["size=1"], size="small", row="Old")


def test_values_keep_their_comments_and_neighbours():
    text = with_values(SIZED, {H: "7", K: "8"}, where="x")
    before, after = yaml.safe_load(SIZED), yaml.safe_load(text)
    before["model"]["init_args"]["context"]["init_args"]["size"] = 7
    before["model"]["init_args"]["embedding_size"] = 8
    assert after == before
    assert text.startswith("# A comment that stays.\n")
    assert "size: 7  # H\n" in text
