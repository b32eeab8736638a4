"""What tables say: their parts, sizes and seeds, the shared columns, and the numbers of the papers."""

from pathlib import Path

import pytest
import yaml

from depgen.evaluation.coherence import CoherenceOptions
from depgen.evaluation.text_measures import TEXT_MEASURES
from depgen.reporting.measures import measures_of
from depgen.reporting.table import is_made, load_definition, settings_as, table_names
from depgen.yaml_files import read_settings

ROOT = Path(__file__).parents[2]


@pytest.fixture
def published(monkeypatch):
    """The package's own tables."""
    monkeypatch.chdir(ROOT)


def test_reads_columns_rows_and_slugs(change):
    change("seeds: [1, 2]", "seeds: {paper: [1, 2, 3], small: [4]}")
    change("quoted: Someone 1999", "floor: next word, x: 3")
    change("measures: [", "parsing: parsing_toy\nmeasures: [depgen.reporting.measures.parses.Trees, ")
    definition = load_definition("toy")
    assert [column.key for column in definition.columns] == ["bleu1", "selfbleu2", "perplexity"]
    assert [column.weighed_by for column in definition.columns] == [None, None, "tokens"]
    assert [row.slug for row in definition.rows] == ["Old", "Base", "DM-Base", "DM-Base-left-chain", "Later"]
    assert definition.row("DM-Base-left-chain") is definition.row("DM-Base, left chain")
    assert definition.generation.top_p == 0.5
    assert (definition.size(), definition.size("paper")) == ("small", "paper")
    assert (definition.seeds_at("small"), definition.seeds_at("paper")) == ((4,), (1, 2, 3))
    assert [(row.is_floor, row.x) for row in definition.rows[:2]] == [(True, 3.0), (False, None)]
    made = [row.name for row in definition.rows if is_made(row, size="small")]
    assert made == ["Old", "Base", "DM-Base", "DM-Base, left chain"], "a floor's rule needs no experiment"


def test_a_column_may_be_its_key_alone_and_differ_from_the_shared_one(project, change):
    shared = {"bleu1": {"header": "BLEU", "higher_better": True, "decimals": 1, "test": "paired_t"}}
    (project / "experiments/tables/columns.yaml").write_text(yaml.safe_dump(shared))
    change("  - {key: bleu1, header: B-1, higher_better: true, test: paired_t}", "  - bleu1")
    column = load_definition("toy").columns[0]
    assert (column.header, column.higher_better, column.decimals, column.test) == ("BLEU", True, 1, "paired_t")
    change("  - bleu1", "  - {key: bleu1, decimals: 3}")
    assert load_definition("toy").columns[0] == column.model_copy(update={"decimals": 3})
    assert table_names() == ["toy"]


def test_an_experiment_may_be_named_by_its_path(project, change):
    (project / "mine").mkdir()
    (project / "mine" / "own.yaml").write_text((project / "experiments/dm_toy.yaml").read_text())
    change("experiment: dm_toy", "experiment: own.yaml")
    (project / "mine" / "table.yaml").write_text((project / "experiments/tables/toy.yaml").read_text())
    row = load_definition("mine/table.yaml").row("DM-Base")
    assert row.experiment_at("paper").file == Path("mine/own.yaml"), "it lies next to the table"


def test_options_make_another_experiment_of_a_row(change):
    change(
        "name: Later",
        "name: Later, experiment: dm_toy, options: {seed_everything: {small: 5, paper: 6}, trainer.max_epochs: 3}",
    )
    row = load_definition("toy").row("Later")
    assert row.experiment_at("paper").arguments == [
        "--config", "experiments/dm_toy.yaml", "--seed_everything=6", "--trainer.max_epochs=3",
    ]  # fmt: skip
    assert row.experiment_at("small").settings["seed_everything"] == 5
    assert row.experiment_at("small").digest != load_definition("toy").row("DM-Base").experiment_at("small").digest


def test_rows_of_another_table_come_without_its_published_numbers(project):
    toy = load_definition("toy")
    text = (project / "experiments/tables/toy.yaml").read_text()
    again = f"{text.replace('toy', 'again').split('rows:')[0]}rows: toy\n"
    (project / "experiments/tables/again.yaml").write_text(again)
    none = {"values": {}, "stars": (), "in_paper": False}
    assert load_definition("again").rows == tuple(row.model_copy(update=none) for row in toy.rows)


# -- the papers' numbers ----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("published")
def test_the_shared_columns_are_those_that_several_tables_have():
    keys = [column.key for name in table_names() for column in load_definition(name).columns]
    assert all(keys.count(key) > 1 for key in read_settings(ROOT / "experiments/tables/columns.yaml"))


@pytest.mark.usefixtures("published")
def test_table_2_says_what_the_paper_says():
    definition = load_definition("dmlm-table2")
    paper = [row for row in definition.rows if row.in_paper]
    assert [row.name for row in paper] == [
        "PRPN", "ON-LSTM", "AWD-LSTM", "DM-LSTM", "Transformer", "DM-Transformer", "GPT-2", "DM-GPT-2",
    ]  # fmt: skip
    published = [column for column in definition.columns if column.key in paper[0].values]
    assert [column.higher_better for column in published] == [True] * 6 + [False] * 2
    sums = [round(sum(row.values.values()), 2) for row in paper]  # totals of the printed rows
    assert sums == [369.42, 371.5, 372.67, 375.67, 371.8, 375.14, 376.56, 382.18]
    assert sum(len(row.stars) for row in paper) == 15
    assert all(not set(row.stars) & {"distinct2", "distinct3"} for row in paper)
    assert all(row.experiment for row in definition.rows)
    assert (definition.column("perplexity").test, definition.column("perplexity").higher_better) == ("paired_t", False)
    measures = {column.measure or column.key for column in definition.columns}
    assert measures <= {*TEXT_MEASURES, "perplexity", "word_perplexity"}
    assert {column.header: column.judge for column in definition.columns if column.judge is not None} == {
        "BERTScore (MiniLM)": "sentence-transformers/all-MiniLM-L6-v2", "SmolLM2 PPL": "HuggingFaceTB/SmolLM2-135M",
    }  # fmt: skip


@pytest.mark.usefixtures("published")
def test_the_perplexity_tables_say_what_the_paper_says():
    lstms, transformers = load_definition("dmlm_table7"), load_definition("dmlm_table13")
    totals = [round(sum(row.values.get(c.key, 0.0) for row in lstms.rows), 1) for c in lstms.columns]
    assert totals == [186.0, 486.7, 706.2]  # of the printed columns
    assert [row.name for row in lstms.rows if row.quoted is None] == ["DM-LSTM", "DM-LSTM, left chain"]
    assert [sum(row.values.values()) for row in transformers.rows] == pytest.approx([231.4, 189.2, 280.8, 273.4])


UDGN_SUMS = {
    "udgn_table1": [153.3, 148.1, 143.4],
    "udgn_table2": [35.8, 38.2, 46.1, 42.7, 43.1, 47.9, 96.4, 95.2, 107.8, 111.7],
    "udgn_table3": [2.88, 2.63, 4.25],
    "udgn_table4": [282.0, 216.7, 269.7, 283.0],
    "udgn_table5": [553.09, 603.69, 614.16],
    "udgn_table7": [2.34, 2.41, 3.93],
    "udgn_table8": [283.1, 273.9, 270.7, 275.5],
    "udgn_table9": [352.8, 275.6, 259.2, 273.1],
}
"""Of each row of the paper's tables, all numbers added up."""
UDGN_DEVIATIONS = {
    "udgn_table2": [0, 0, 0, 0, 0, 0, 0, 0, 0, 2.5],
    "udgn_table3": [0.44, 0.32, 0.72],
    "udgn_table4": [4.6, 7.0, 10.6, 7.1],
    "udgn_table7": [0.17, 0.33, 0.59],
    "udgn_table8": [4.3, 6.9, 27.2, 7.2],
    "udgn_table9": [11.0, 10.8, 21.8, 10.8],
}
"""Of the rows of those of these tables that print them, all standard deviations added up."""


@pytest.mark.usefixtures("published")
@pytest.mark.parametrize("table", UDGN_SUMS)
def test_udgns_tables_say_what_the_paper_says(table):
    rows = [row for row in load_definition(table).rows if row.values]
    assert all(row.in_paper for row in rows)
    assert [round(sum(row.values.values()), 2) for row in rows] == UDGN_SUMS[table]
    assert [round(sum(row.deviations.values()), 2) for row in rows] == UDGN_DEVIATIONS.get(table, [0] * len(rows))


@pytest.mark.usefixtures("published")
def test_table_3_of_dclm_says_what_the_paper_says():
    definition = load_definition("dclm_table3")
    assert [round(sum(row.values.values()), 2) for row in definition.rows] == [81.0, 79.74, 79.63, 85.53, 87.03, 72.85]
    assert [row.name for row in definition.rows if row.stars] == ["ADCLM", "CODCLM", "CCDCLM"]
    trained = {row.name: row.experiment for row in load_definition("dclm_table2").rows}
    assert all(trained.get(row.name, row.experiment) == row.experiment for row in definition.rows)
    assert {row.name: row.experiment for row in load_definition("coherence_tasks").rows} == trained


@pytest.mark.usefixtures("published")
@pytest.mark.parametrize("table", ["dclm_table3", "coherence_tasks"])
def test_what_systems_are_asked_is_there(table):
    definition = load_definition(table)
    tasks = [settings_as(CoherenceOptions, name).task for name in measures_of(definition)[0].tasks]
    assert {column.key.split("_")[0] for column in definition.columns} == {*tasks}
    assert len({*tasks}) == len(tasks)
