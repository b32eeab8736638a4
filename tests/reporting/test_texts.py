import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from depgen.errors import UserError
from depgen.evaluation.text.measures import TextOptions
from depgen.evaluation.text.oracle import TextLosses
from depgen.reporting import jobs, reproduce, texts
from depgen.reporting.definition import load_definition
from depgen.reporting.jobs import Job
from depgen.reporting.measures import Texts
from depgen.reporting.numbers import Generation
from depgen.reporting.results import read_result
from depgen.reporting.tables import table
from tests.reporting.stub import Stub

FREE = """
table: free
caption: Texts from nothing
source: an invented paper, Table 2
seeds: [1, 2]
measures:
  - class_path: depgen.reporting.measures.Texts
    init_args: {samples: {small: 4, paper: 9}, top_p: 1.0, seed: 10, oracle: oracle_toy}
columns:
  - {key: lm, header: LM, higher_better: false, test: welch_t}
  - {key: cold, header: p=0.3, measure: oracle_perplexity, top_p: 0.3, higher_better: false, test: welch_t}
  - {key: warm, header: p=0.9, measure: oracle_perplexity, top_p: 0.9, higher_better: false, test: welch_t}
  - {key: gpt_cold, header: GPT p=0.3, measure: lm_perplexity, top_p: 0.3, higher_better: false}
  - {key: gpt_warm, header: GPT p=0.9, measure: lm_perplexity, top_p: 0.9, higher_better: false}
rows:
  - {name: Base, experiment: base_toy, values: {lm: 5.0}}
  - {name: DM-Base, experiment: dm_toy, against: [Base]}
"""


class Oracle:
    """Stands in for a trained one: a text costs the nucleus that it was written with, so far as its file tells."""

    def __init__(self, monkeypatch):
        self.asked = []
        monkeypatch.setattr(texts, "trained_oracle", self.trained)
        monkeypatch.setattr("depgen.evaluation.text.measures.find_oracle", Path)
        monkeypatch.setattr("depgen.evaluation.text.measures.text_losses", self.losses)

    def trained(self, config, *, size, depgen):
        self.asked.append(f"{config} {size}")
        return Path("the-oracle")

    def losses(self, given, run, *, device):
        assert run == Path("the-oracle")
        nll = np.array([float(text.split()[1]) if text else np.nan for text in given])
        return TextLosses(nll, np.ones(len(given), dtype=np.int64), "toy oracle", 0.5)


class Writer(Stub):
    """Writes the nucleus into every text."""

    def generate(self, *, prompts, number, output, top_p, **options):
        assert prompts is None
        self.written.append({"number": number, "top_p": top_p, **options})
        output.write_text("".join(f"text {top_p}\n" if index else "\n" for index in range(number)))


@pytest.fixture
def stub(project, monkeypatch):
    (project / "experiments/tables/free.yaml").write_text(FREE)
    stub = Writer()
    monkeypatch.setattr(jobs, "write_texts", stub.generate)
    stub.oracle = Oracle(monkeypatch)
    return stub


def a_job(table="free", size="small", seed=2):
    definition = load_definition(table)
    return Job(definition, definition.row("DM-Base"), size, seed)


def test_every_nucleus_of_one_run_fills_its_columns(stub):
    job = a_job()
    reproduce.make(job, depgen=stub, options=TextOptions(resamples=10))
    assert stub.verbs == ["fit", "test"]
    assert [(each["number"], each["top_p"], each["seed"]) for each in stub.written] == [
        (4, 1.0, 12), (4, 0.3, 12), (4, 0.9, 12),
    ]  # fmt: skip
    result = read_result(job.result)
    assert result.metrics["lm"] == pytest.approx(1.0)
    assert result.metrics["cold"] == pytest.approx(np.exp(0.3))
    assert result.metrics["warm"] == pytest.approx(np.exp(0.9))
    assert (result.metrics["texts"], result.metrics["empty"]) == (12, 3)
    items = np.load(job.result.parent / result.items["cold"])
    np.testing.assert_allclose(items, [np.nan, *[np.exp(0.3)] * 3])
    assert "gpt_cold" in result.not_computed
    assert "toy oracle" in result.settings["warm"]
    assert result.generation == Generation(top_p=1.0, seed=10, samples=4)
    assert stub.oracle.asked == ["experiments/oracle_toy.yaml small"] * 3


@pytest.fixture(autouse=True)
def oracle_experiment(project):
    (project / "experiments/oracle_toy.yaml").write_text("data: {}\n")


def test_texts_are_kept_by_nucleus_and_number(stub):
    job = a_job()
    reproduce.make(job, depgen=stub)
    names = {path.name for path in job.folder.glob("texts*")}
    assert names == {f"texts{nucleus}.{ending}" for nucleus in ("", "-p0.3", "-p0.9") for ending in ("txt", "json")}
    assert json.loads((job.folder / "texts-p0.3.json").read_text())["samples"] == 4
    assert not (job.folder / "prompts.txt").exists()
    reproduce.make(job, depgen=stub, remeasure=True)
    assert len(stub.written) == 3
    other = dataclasses.replace(job.definition, measures=(Texts(samples=5, top_p=1.0, seed=10, oracle="oracle_toy"),))
    assert "other generation settings" in reproduce.make(dataclasses.replace(job, definition=other), depgen=stub)
    reproduce.make(dataclasses.replace(job, definition=other), depgen=stub, remeasure=True)
    assert [each["number"] for each in stub.written] == [4] * 3 + [5] * 3


def test_the_table_names_its_samples_tests_and_oracle(stub):
    for row in ("Base", "DM-Base"):
        definition = load_definition("free")
        reproduce.make(Job(definition, definition.row(row), "small", 1), depgen=stub)
    text = table("free", size="small")
    assert "Texts: 4 without a prompt, for each seed, top-p 0.3, 0.9, temperature 1.0" in text
    assert "Welch's t-test: LM, p=0.3, p=0.9; none: GPT" in text
    assert "p=0.3, p=0.9: toy oracle, in GPT-2's place" in text
    assert "3 of 12" in text
    assert "Not computed: GPT p=0.3, GPT p=0.9 (all rows)" in text


def test_what_the_oracle_does_not_know_stands_in_the_notes_of_each_row(stub):
    definition = load_definition("free")
    reproduce.make(Job(definition, definition.row("Base"), "small", 1), depgen=stub)
    found = read_result(Job(definition, definition.row("Base"), "small", 1).result).metrics
    assert {name: found[name] for name in found if "unk" in name} == {
        "lm_unk_rate": 0.5, "oracle_perplexity_unk_rate": 0.5, "cold_unk_rate": 0.5, "warm_unk_rate": 0.5,
    }  # fmt: skip
    said = table("free", size="small")
    assert all(
        f"{each}: words of the texts that the oracle reads as <unk>: 50.00 %" in said for each in ("LM", "p=0.9")
    )


def test_numbers_of_other_weights_than_the_runs_are_said_to_be(stub, project):
    first = a_job()
    reproduce.make(first, depgen=stub)
    (project / "experiments/tables/other.yaml").write_text(FREE.replace("table: free", "table: other"))
    job = a_job("other")
    reproduce.make(job, depgen=stub)
    assert "other weights" not in reproduce.make(job, depgen=stub)
    reproduce.make(first, depgen=stub, redo=True)
    (job.training.finished() / "checkpoints" / "best.ckpt").write_bytes(b"other weights")
    assert "(of other weights than those of runs/dm_toy/small/seed2/" in reproduce.make(job, depgen=stub)
    reproduce.make(job, depgen=stub, remeasure=True)
    assert "other weights" not in reproduce.make(job, depgen=stub)


def test_two_tables_share_the_runs_of_one_experiment(stub, project):
    first = a_job()
    reproduce.make(first, depgen=stub)
    (project / "experiments/tables/other.yaml").write_text(FREE.replace("table: free", "table: other"))
    job = a_job("other")
    assert job.result != first.result
    reproduce.make(job, depgen=stub)
    assert stub.verbs == ["fit", "test"], "nothing is trained twice"


def test_a_column_of_union_asks_for_the_scorer_of_stories_unless_another_is_named(stub):
    job = a_job("toy")
    assert texts.options_for(job, job.definition.columns, TextOptions(union="mine"), stub).union is None
    columns = (dataclasses.replace(job.definition.columns[0], key="union"),)
    assert texts.options_for(job, columns, TextOptions(), stub).union == "rocstories"
    assert texts.options_for(job, columns, TextOptions(union="mine"), stub).union == "mine"


def test_no_oracle_is_trained_for_columns_that_want_none(stub):
    job = a_job("toy")
    options = texts.options_for(job, job.definition.columns, TextOptions(), stub)
    assert (options.oracle, options.reverse) == (None, False)
    assert not stub.oracle.asked
    free = a_job()
    reverse = (dataclasses.replace(free.definition.columns[0], key="rlm"),)
    assert texts.options_for(free, reverse, TextOptions(), stub).reverse
    assert not texts.options_for(free, free.definition.columns, TextOptions(oracle="mine"), stub).reverse
    assert texts.options_for(free, free.definition.columns, TextOptions(oracle="mine"), stub).oracle == "mine"
    none = dataclasses.replace(free, definition=dataclasses.replace(free.definition, measures=(Texts(samples=4),)))
    with pytest.raises(UserError, match=r"Table free .*no `oracle`"):
        texts.options_for(none, free.definition.columns, TextOptions(), stub)


def test_a_profile_without_a_number_of_samples_is_refused(stub, project):
    (project / "experiments/tables/free.yaml").write_text(FREE.replace("paper: 9", "large: 9"))
    with pytest.raises(UserError, match=r"samples: .*paper"):
        load_definition("free")
    assert Generation(samples=7).at("small").samples == 7
    assert Generation().at("small").samples is None
