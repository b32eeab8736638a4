import subprocess
import sys
from pathlib import Path

import pytest

from depgen.errors import UserError
from depgen.evaluation.coherence.arrangements import CoherenceTask
from depgen.reporting.definition import choose_size, is_made, load_definition
from depgen.reporting.experiments import experiment_of, settings_as, table_names
from depgen.reporting.numbers import measures_of
from tests.reporting.conftest import TABLE

ROOT = Path(__file__).parents[2]


def test_reads_columns_rows_and_slugs(project):
    definition = load_definition("toy")
    assert [column.key for column in definition.columns] == ["bleu1", "selfbleu2", "perplexity"]
    assert [row.slug for row in definition.rows] == ["Old", "Base", "DM-Base", "DM-Base-left-chain", "Later"]
    assert definition.row("DM-Base-left-chain") is definition.row("DM-Base, left chain")
    assert definition.generation is not None
    assert definition.generation.top_p == 0.5


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("caption: Invented numbers", "captoin: x", "unknown captoin"),
        ("caption: Invented numbers\n", "", "caption must be given"),
        ("test: paired_t}", "test: sign}", r"\(bleu1\): test: expected 'paired_t'.*, found 'sign'"),
        ("values: {bleu1: 9.0}", "values: {bleu9: 9.0}", "bleu9 are no columns"),
        ("against: [Base]", "against: [Bass]", "'Bass', which is no row"),
        (
            "values: {bleu1: 9.0}",
            "values: {bleu1: nine}",
            r"rows\[0\] \(Old\): values: bleu1: expected a number, found 'nine'",
        ),
        ("name: Later", "name: Old", "a row is listed twice"),
        ("name: Later", "name: DM-Base left chain", "'DM-Base, left chain' and 'DM-Base left chain' share the folder"),
        ("seeds: [1, 2]", "seeds: 1", "seeds: expected a list, found 1"),
        ("seeds: [1, 2]", "seeds: [one]", r"seeds\[0\]: expected a whole number, found 'one'"),
        ("seeds: [1, 2]", "seeds: []", "seeds: expected at least one"),
        ("seeds: [1, 2]", "seeds: {small: [1], paper: []}", "seeds: expected at least one"),
        ("seeds: [1, 2]", "seeds: {small: 1, paper: [1]}", "seeds: small: expected a list, found 1"),
        ("seeds: [1, 2]", "seeds: {small: [1]}", "seeds: expected those of the sizes small, paper, found those of"),
        ("seeds: [1, 2]", "notes: one line", "notes: expected a list, found 'one line'"),
        ("against: [Base]", "against: Base", r"rows\[2\] .*: against: expected a list, found 'Base'"),
        (
            "quoted: Someone 1999",
            "floor: next word",
            "row Old: floor: expected `parsing`",
        ),
        ("table: toy", "[", "expected YAML"),
        ("name: Later", "name: 0.1", r"rows\[4\] .*: name: expected text, found 0.1"),
        ("decimals: 1", "decimals: '1'", r"columns\[1\] \(\w+\): decimals: expected a whole number, found '1'"),
        ("decimals: 1", "decimals: -1", r"columns\[1\] \(selfbleu2\): decimals: expected at least 0, found -1"),
        ("decimals: 1", "published_only: 1", r"columns\[1\] \(\w+\): published_only: expected true or false, found 1"),
        ("name: Later", "name: Later, x: three", r"rows\[4\] .*: x: expected a number, found 'three'"),
        (
            "generation: {prompt_sentences: 4",
            "generation: {max_new_tokens: 0, prompt_sentences: 4",
            "generation: max_new_tokens: expected at least 1, found 0",
        ),
        (
            "generation: {prompt_sentences: 4",
            "generation: {prompt_sentences: 0",
            "generation: prompt_sentences: expected at least 1, found 0",
        ),
        (
            "generation: {prompt_sentences: 4",
            "generation: {samples: {small: 0, paper: 10}, prompt_sentences: 0",
            "generation: samples: expected at least 1, found 0",
        ),
        (
            "generation: {prompt_sentences: 4",
            "generation: {samples: {small: many, paper: 10}, prompt_sentences: 0",
            r"toy\.yaml: generation: samples: ",
        ),
        ("decimals: 1", "top_p: 1.5", r"columns\[1\] .*: top-p must be above 0 and at most 1, but is 1\.5"),
        (
            "generation: {prompt_sentences: 4",
            "generation: {temperature: 0, prompt_sentences: 4",
            "generation: the temperature must be above 0",
        ),
        (
            "generation: {prompt_sentences: 4",
            "generation: {prompt_sentences: four",
            r"toy\.yaml: generation: prompt_sentences: expected a whole number",
        ),
        ("values: {bleu1: 9.0}", "values: {bleu1: .nan}", "bleu1: expected a finite number, found nan"),
        ("against: [Base]", "against: [DM-Base]", "against 'DM-Base', which is no other row"),
        ("table: toy", "table: ../../escape", "'../../escape' names a folder: expected letters"),
        ("table: toy", "table: ..", "names a folder"),
        ("name: Later", "name: ..", "names a folder"),
        ("seeds: [1, 2]", "sizes: []", "sizes: expected at least one"),
        ("seeds: [1, 2]", "sizes: [../x]", "names a folder"),
        ("caption: Invented numbers", "captoin: x", "unknown captoin. Did you mean 'caption'"),
    ],
)
def test_a_slip_in_the_file_is_named(project, old, new, message):
    path = project / "experiments/tables/toy.yaml"
    assert old in TABLE
    path.write_text(TABLE.replace(old, new, 1))
    with pytest.raises(UserError, match=message):
        load_definition("toy")


def test_whole_numbers_serve_where_a_number_is_wanted(project):
    path = project / "experiments/tables/toy.yaml"
    path.write_text(TABLE.replace("decimals: 1", "top_p: 1", 1).replace("name: Later", "name: Later, x: 3", 1))
    definition = load_definition("toy")
    found = [*(column.top_p for column in definition.columns), *(row.x for row in definition.rows)]
    assert [(each, type(each)) for each in found if each is not None] == [(1.0, float), (3.0, float)]


def test_seeds_are_those_of_a_profile_where_they_differ(project):
    path = project / "experiments/tables/toy.yaml"
    path.write_text(TABLE.replace("seeds: [1, 2]", "seeds: {paper: [1, 2, 3], small: [4]}"))
    definition = load_definition("toy")
    assert (definition.seeds_at("small"), definition.seeds_at("paper")) == ((4,), (1, 2, 3))


@pytest.mark.slow
def test_reading_a_table_does_not_wait_for_torch():
    script = (
        "import sys, depgen.reporting.pictures.series; from depgen.reporting.tables import table; "
        "table('dmlm_table2', size='small'); sys.exit(str('torch' in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stderr.strip() == "False"


def test_a_table_of_trees_has_floors_weights_and_places_in_a_series(project):
    path = project / "experiments/tables/toy.yaml"
    text = TABLE.replace("quoted: Someone 1999", "floor: next word").replace(
        "measures: [", "parsing: parsing_toy\nmeasures: [depgen.reporting.measures.parses.Trees, "
    )
    text = text.replace("test: paired_t}", "test: paired_t, weights: parsed_words}").replace(
        "group: a", "group: a, x: 0.5"
    )
    path.write_text(text)
    definition = load_definition("toy")
    assert definition.parsing == "parsing_toy"
    assert [column.weights for column in definition.columns] == ["parsed_words", None, None]
    assert [(row.floor, row.x, row.is_floor) for row in definition.rows[:2]] == [
        ("next word", 0.5, True),
        (None, None, False),
    ]
    for size in ("small", "paper"):
        made = [row.name for row in definition.rows if is_made(row, size=size)]
        assert made == ["Old", "Base", "DM-Base", "DM-Base, left chain"], "a floor's rule needs no experiment"


def test_unknown_tables_and_rows_list_those_there_are(project):
    with pytest.raises(UserError, match=r"Did you mean 'toy'\? Tables: toy"):
        load_definition("tory")
    with pytest.raises(UserError, match=r"no row 'dm-bas'\. Did you mean 'DM-Base'\?.*DM-Base-left-chain"):
        load_definition("toy").row("dm-bas")
    with pytest.raises(UserError, match=r"has no row 'xyz'\. Its rows"):
        load_definition("toy").row("xyz")


def test_a_size_adds_its_overlay(project):
    small, paper = (experiment_of("dm_toy", size=size) for size in ("small", "paper"))
    assert [path.name for path in small.files] == ["dm_toy.yaml", "toy.yaml"]
    assert [path.name for path in paper.files] == ["dm_toy.yaml"]
    assert (small.settings["seed_everything"], paper.settings["seed_everything"]) == (3, 1)
    with pytest.raises(UserError, match=r"No experiment file .*dn_toy\.yaml\. Did you mean 'dm_toy'"):
        experiment_of("dn_toy", size="small")


def test_an_experiment_may_be_named_by_its_path(project):
    (project / "mine").mkdir()
    (project / "mine" / "own.yaml").write_text((project / "experiments/dm_toy.yaml").read_text())
    assert experiment_of("mine/own.yaml", size="paper").file == Path("mine/own.yaml")
    with pytest.raises(UserError, match=r"own\.yaml has no size 'small': .*mine/sizes/small"):
        experiment_of("mine/own.yaml", size="small")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("name: Later, options: {seed_everything: 2}", r"rows\[4\] \(Later\): options: expected an experiment"),
        (
            "name: Later, experiment: dm_toy, options: {seed_everything: {small: 2}}",
            "Later: options: seed_everything: no value for size paper, only for small",
        ),
    ],
)
def test_options_that_no_size_could_use_are_refused(project, options, message):
    (project / "experiments/tables/toy.yaml").write_text(TABLE.replace("name: Later", options, 1))
    with pytest.raises(UserError, match=message):
        load_definition("toy")


def test_options_make_another_experiment_of_a_row(project):
    text = "name: Later, experiment: dm_toy, options: {seed_everything: {small: 5, paper: 6}, trainer.max_epochs: 3}"
    (project / "experiments/tables/toy.yaml").write_text(TABLE.replace("name: Later", text, 1))
    row = load_definition("toy").row("Later")
    assert row.experiment_at("paper").arguments == [
        "--config", "experiments/dm_toy.yaml", "--seed_everything=6", "--trainer.max_epochs=3",
    ]  # fmt: skip
    assert row.experiment_at("small").settings["seed_everything"] == 5
    assert row.experiment_at("small").digest != load_definition("toy").row("DM-Base").experiment_at("small").digest


def test_rows_of_another_table_come_without_its_published_numbers(project):
    toy = load_definition("toy")
    text = (project / "experiments/tables/toy.yaml").read_text()
    (project / "experiments/tables/again.yaml").write_text(
        f"{text.replace('toy', 'again').split('rows:')[0]}rows: toy\n"
    )
    again = load_definition("again")
    assert [row.name for row in again.rows] == [row.name for row in toy.rows]
    assert any(row.values for row in toy.rows)
    for row, other in zip(again.rows, toy.rows, strict=True):
        assert (row.experiment, row.options, row.against) == (other.experiment, other.options, other.against)
        assert (row.values, tuple(row.stars), row.in_paper) == ({}, (), False)
    (project / "experiments/tables/again.yaml").write_text(
        f"{text.replace('toy', 'again').split('rows:')[0]}rows: tox\n"
    )
    with pytest.raises(UserError, match="tox"):
        load_definition("again")


def test_table_2_says_what_the_paper_says(monkeypatch):
    monkeypatch.chdir(ROOT)
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
    assert "GeneratedLanguage" not in str(definition)
    assert load_definition("demo").sizes == ("paper",)


def test_the_perplexity_tables_say_what_the_paper_says(monkeypatch):
    monkeypatch.chdir(ROOT)
    lstms, transformers = load_definition("dmlm_table7"), load_definition("dmlm_table13")
    totals = [round(sum(row.values.get(c.key, 0.0) for row in lstms.rows), 1) for c in lstms.columns]
    assert totals == [186.0, 486.7, 706.2]  # of the printed columns
    assert [row.name for row in lstms.rows if row.quoted is None] == ["DM-LSTM", "DM-LSTM, left chain"]
    assert [sum(row.values.values()) for row in transformers.rows] == pytest.approx([231.4, 189.2, 280.8, 273.4])
    assert lstms.generation is transformers.generation is None


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


@pytest.mark.parametrize("table", UDGN_SUMS)
def test_udgns_tables_say_what_the_paper_says(monkeypatch, table):
    monkeypatch.chdir(ROOT)
    rows = [row for row in load_definition(table).rows if row.values]
    assert all(row.in_paper for row in rows)
    assert [round(sum(row.values.values()), 2) for row in rows] == UDGN_SUMS[table]
    assert [round(sum(row.deviations.values()), 2) for row in rows] == UDGN_DEVIATIONS.get(table, [0] * len(rows))


def test_a_row_is_made_where_its_file_is_there(project):
    definition = load_definition("toy")
    assert [row.name for row in definition.rows if is_made(row, size="small")] == [
        "Base", "DM-Base", "DM-Base, left chain",
    ]  # fmt: skip
    (project / "experiments/sizes/small/toy.yaml").rename(project / "experiments/sizes/small/base_toy.yaml")
    assert not is_made(definition.row("DM-Base"), size="small")
    assert is_made(definition.row("DM-Base"), size="paper")
    assert table_names() == ["toy"]


def test_table_3_of_dclm_says_what_the_paper_says(monkeypatch):
    monkeypatch.chdir(ROOT)
    definition = load_definition("dclm_table3")
    assert [round(sum(row.values.values()), 2) for row in definition.rows] == [81.0, 79.74, 79.63, 85.53, 87.03, 72.85]
    assert [row.name for row in definition.rows if row.stars] == ["ADCLM", "CODCLM", "CCDCLM"]
    trained = {row.name: row.experiment for row in load_definition("dclm_table2").rows}
    assert all(trained.get(row.name, row.experiment) == row.experiment for row in definition.rows)
    tasks = load_definition("coherence_tasks")
    assert {row.name: row.experiment for row in tasks.rows} == trained
    assert tasks.seeds == definition.seeds == load_definition("dclm_table2").seeds


def test_what_systems_are_asked_is_there(monkeypatch):
    monkeypatch.chdir(ROOT)
    for table in ("dclm_table3", "coherence_tasks"):
        definition = load_definition(table)
        tasks = [settings_as(CoherenceTask, name) for name in measures_of(definition)[0].tasks]
        assert {column.key.split("_")[0] for column in definition.columns} == {each.task for each in tasks}
        assert len({each.task for each in tasks}) == len(tasks)


@pytest.mark.parametrize(
    ("sizes", "given", "chosen", "why"),
    [
        (("small", "paper"), None, "small", "the default"),
        (("small", "paper"), "", "small", "--size paper"),
        (("small", "paper"), "paper", "paper", "as given"),
        (("paper",), None, "paper", "the only one"),
    ],
)
def test_the_size_and_why(sizes, given, chosen, why):
    size, reason = choose_size(sizes, given)
    assert size == chosen
    assert reason.startswith(f"Size {chosen}: ")
    assert why in reason


def test_an_unknown_size_is_refused():
    with pytest.raises(UserError, match="No size 'huge' here: expected one of small, paper"):
        choose_size(("small", "paper"), "huge")
