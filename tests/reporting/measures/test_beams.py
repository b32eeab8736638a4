"""One trained run measured by several beams, each a row; and pictures of what it attends to and of its graphs."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from depgen.data.experiment import data_of
from depgen.errors import UserError
from depgen.evaluation.system import load
from depgen.reporting.jobs import Job, finished_run
from depgen.reporting.measures import measures_of
from depgen.reporting.measures.scoring import FirstOfTest
from depgen.reporting.results import read_result
from depgen.reporting.system_plots import plot_trees
from depgen.reporting.table import load_definition
from tests.evaluation.oracles_of_stories import in_process
from tests.invented_syntax import write_syntax
from tests.reporting.commands import tables_made
from tests.reporting.measures.test_syntax import EXPERIMENTS, MEASURE

pytestmark = pytest.mark.slow

OWN_BEAM = EXPERIMENTS["bound"]["model"]["init_args"]["beam_size"]
PICTURE = "--table beams --row b-1 --sentence 'the dog ran .'"
TABLE = {
    "table": "beams",
    "caption": "Invented beams",
    "source": "nobody's",
    "seeds": [1],
    "measures": [
        {"class_path": "depgen.reporting.measures.scoring.FirstOfTest", "init_args": {"documents": 10_000}},
        {"class_path": f"{MEASURE}.SyntacticSuites", "init_args": {"protocol": "plain"}},
    ],
    "columns": [
        {"key": "perplexity", "header": "PPL", "higher_better": False, "test": "paired_t"},
        {"key": "word_perplexity", "header": "word PPL", "higher_better": False, "test": "paired_t"},
        {"key": "suites", "header": "SG", "higher_better": True, "test": "paired_t"},
    ],
    "rows": [
        {"name": "own", "experiment": "bound", "in_paper": False},
        {"name": "b = 1", "experiment": "bound", "beam_size": 1, "in_paper": False},
    ],
    "pictures": [f"attention {PICTURE} --layer -1 --attention_head 0", f"trees {PICTURE}"],
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder in which the table was made, and the verbs that were called."""
    folder, called = tmp_path_factory.mktemp("place"), []
    write_syntax(folder / "data")

    def run(arguments, environment):
        called.append(" ".join(arguments[:2]) if arguments[0] == "plot" else arguments[0])
        in_process(arguments, environment)

    experiments = {"tables/beams": TABLE, "bound": {**EXPERIMENTS["bound"], "small": {}}}
    with tables_made(folder, experiments, "beams", depgen=run) as said:
        yield folder, called, said["beams"]


def job_of(row):
    definition = load_definition("beams")
    return Job(definition, definition.row(row), "small", 1)


def test_rows_of_other_beams_share_a_run_and_its_test(made):
    _, called, text = made
    assert called == ["fit", "test", "plot attention", "plot trees"]
    own, one = (read_result(job_of(row).result) for row in ("own", "b-1"))
    assert own.run == one.run
    assert own.metrics["perplexity"] != one.metrics["perplexity"]
    bounds = [[each.settings[f"{key}_bound"] for key in ("perplexity", "suites")] for each in (own, one)]
    said = "lower bounds of log-likelihoods, over {}"
    assert bounds[0] == [said.format(f"{OWN_BEAM} hypotheses")] * 2
    assert bounds[1] == [said.format("1 hypothesis")] * 2
    assert own.settings["perplexity"].startswith("the first ")
    assert "°" not in text.split("SG")[0], "figures are comparable"


@pytest.mark.usefixtures("made")
def test_perplexities_of_all_test_sentences_are_those_of_the_test():
    run = finished_run(job_of("own"))
    tested = json.loads((run / "test.json").read_text())["metrics"]
    result = read_result(job_of("own").result)
    for name in ("perplexity", "word_perplexity"):
        assert result.metrics[name] == pytest.approx(tested[f"test/{name}"], rel=1e-5)
    with np.load(run / "test_items.npz") as items:
        order = np.argsort(items["items"])
        expected = (items["nll"] / items["tokens"])[order]
    np.testing.assert_allclose(result.scores("perplexity"), expected, rtol=1e-5)


@pytest.mark.usefixtures("made")
def test_the_first_documents_are_those_of_the_whole():
    run, row = finished_run(job_of("own")), SimpleNamespace(beam_size=3)
    corpus, job, trained = data_of(run / "config.yaml").corpus, SimpleNamespace(row=row), SimpleNamespace(run=run)
    measured = SimpleNamespace(job=job, trained=trained, corpus=corpus)
    whole, first = (FirstOfTest(count).measure(measured) for count in (10_000, 2))
    np.testing.assert_allclose(first.items["perplexity"], whole.items["perplexity"][:2], rtol=1e-6)
    assert first.settings["perplexity"] == "the first 2 test sentences"
    with pytest.raises(UserError, match="documents: expected at least 1"):
        FirstOfTest(0)


@pytest.mark.usefixtures("made")
def test_a_larger_row_gives_the_beam_of_its_suites(monkeypatch):
    sizes = []
    model = type(load(str(finished_run(job_of("own")))).model)
    own = model.log_probs
    monkeypatch.setattr(model, "log_probs", lambda self, batch: sizes.append(self.beam_size) or own(self, batch))
    definition = load_definition("beams")
    for row, expected in (("own", OWN_BEAM), ("b-1", 1)):
        sizes.clear()
        trained = SimpleNamespace(run=finished_run(job_of(row)))
        measures_of(definition)[1].measure(SimpleNamespace(job=job_of(row), trained=trained))
        assert {*sizes} == {expected}


def test_pictures_lie_with_the_table(made):
    folder = made[0] / "results" / "beams"
    assert (folder / "attention-b-1.png").read_bytes().startswith(b"\x89PNG")
    assert "dog" in (folder / "trees-b-1.svg").read_text()
    with pytest.raises(UserError, match="name one of them"):
        plot_trees(run="some/run", table="beams", row="own", sentence="the dog", output=folder / "a.svg")


def test_tables_of_one_run_and_of_pictures_have_the_experiments_of_the_others(monkeypatch):
    monkeypatch.chdir(Path(__file__).parents[3])
    shared = {row.name: (row.experiment, row.options) for row in load_definition("gilt_table1").rows}
    for table in ("gilt_beams", "gilt_figure3"):
        rows = load_definition(table).rows
        assert all((row.experiment, row.options) in shared.values() for row in rows)
    assert [row.beam_size for row in load_definition("gilt_beams").rows] == [1, 5, 20, 100]
