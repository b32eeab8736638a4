"""Sizes tried one combination after the other, gone on with, and the best taken into the table."""

import json
from pathlib import Path

import pytest
import yaml

from depgen.errors import UserError
from depgen.reporting.definition import load_definition
from depgen.reporting.grid import grid, grid_of_table, with_values
from depgen.reporting.jobs import Job, fit
from tests.reporting.stub import Stub

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
        sizes = yaml.safe_load(Path(options["--config"]).read_text())["model"]["init_args"]
        (run / "sizes.json").write_text(json.dumps([sizes["embedding_size"], sizes["context"]["init_args"]["size"]]))

    def validate(self, options, environment):
        run = Path(options["--run"])
        k, h = json.loads((run / "sizes.json").read_text())
        perplexity = 100 + 10 * abs(k - 48) + abs(h - 32)
        content = {"checkpoint": str(run / "checkpoints" / "best.ckpt"), "metrics": {"val/perplexity": perplexity}}
        (run / "validate.json").write_text(json.dumps(content))


@pytest.fixture
def job(project):
    (project / "experiments" / "base_toy_small.yaml").write_text(SIZED)
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
    rows = (project / "results/toy/grid/Base-small.csv").read_text().splitlines()
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
    written = job.config.read_text()
    assert written == SIZED.replace("embedding_size: 64", "embedding_size: 48").replace(
        "size: 64  # H", "size: 32  # H"
    )
    depgen = Sized()
    run = fit(job, depgen).run
    assert depgen.calls == []  # nothing is trained again
    assert json.loads((run / "sizes.json").read_text()) == [48, 32]
    assert f"adopted: {job.config}" in text
    with pytest.raises(UserError, match="has a run of its own"):
        grid(job, {K: ["32"], H: ["32"]}, adopt=True, depgen=depgen)
    grid(job, {K: ["32", "48", "64"], H: ["32"]}, depgen=depgen)  # what was tried before is as good as ever
    assert depgen.verbs == ["fit", "validate"]


def test_settings_that_are_not_there_are_refused_before_anything_is_trained(job):
    depgen = Sized()
    with pytest.raises(UserError, match=r"no value at model\.init_args\.width"):
        grid(job, {"model.init_args.width": ["32"]}, depgen=depgen)
    with pytest.raises(UserError, match=r"no value at model\.init_args\.context"):
        grid(job, {"model.init_args.context": ["32"]}, depgen=depgen)
    assert depgen.calls == []
    with pytest.raises(UserError, match="expected setting=value,value"):
        grid_of_table("toy", vary=["size"], profile="small")
    with pytest.raises(UserError, match="has no experiment"):
        grid_of_table("toy", vary=["size=1"], profile="small", row="Old")


def test_values_keep_their_comments_and_neighbours():
    text = with_values(SIZED, {H: "7", K: "8"}, where="x")
    before, after = yaml.safe_load(SIZED), yaml.safe_load(text)
    before["model"]["init_args"]["context"]["init_args"]["size"] = 7
    before["model"]["init_args"]["embedding_size"] = 8
    assert after == before
    assert text.startswith("# A comment that stays.\n")
    assert "size: 7  # H\n" in text
