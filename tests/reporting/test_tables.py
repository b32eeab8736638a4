import csv
import io
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from depgen.errors import UserError
from depgen.evaluation.text.measures import NAMES, TextOptions, text_metrics
from depgen.reporting.definition import TOKENS, load_definition
from depgen.reporting.generation import Generation
from depgen.reporting.jobs import Job
from depgen.reporting.layout import Cell, lay_out
from depgen.reporting.measurement import sift
from depgen.reporting.measures.texts import options_for
from depgen.reporting.numbers import Numbers
from depgen.reporting.record import record
from depgen.reporting.results import Budget, DataSource
from depgen.reporting.store import read_ours
from depgen.reporting.tables import table
from depgen.training.experiment_runs import run_depgen

SAME = [1.0, 2.0, 3.0, 4.0]
HIGHER = [1.6, 2.5, 3.5, 4.6]

MARKDOWN = """\
**Invented numbers (size small)**

| System |  | B-1 ↑ | SB-2 ↓ | PPL ↓ |
|---|---|--:|--:|--:|
| Old (quoted: Someone 1999) | paper | 9.00 |  |  |
| Base | paper | 10.00 | 90.0 |  |
|  | local | 10.25 ± 0.07 | n/c | 50.00 ± 1.41 |
|  | difference | +0.25 |  |  |
| DM-Base | paper | 12.00\\* | 80.0 |  |
|  | local | 11.00 ± 0.14\\* | n/c | 45.00 ± 0.00 |
|  | difference | -1.00 |  |  |
| DM-Base, left chain† (not run yet) | local |  |  |  |
| Later (not built yet) | paper | 11.00 |  |  |
"""


@pytest.fixture
def results(store):
    reason = {"selfbleu2": "only one text"}
    for seed, base, dm, ppl in ((1, 10.2, 10.9, 49.0), (2, 10.3, 11.1, 51.0)):
        store(
            "Base", seed, {"bleu1": base, "perplexity": ppl, "unk_rate": 0.0113}, {"bleu1": SAME}, not_computed=reason
        )
        store("DM-Base", seed, {"bleu1": dm, "perplexity": 45.0}, {"bleu1": HIGHER}, not_computed=reason)


@pytest.fixture
def change(project):
    """Changes the text of the toy table's file."""
    path = project / "experiments/tables/toy.yaml"

    def changed(old, new):
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))

    return changed


def layout(size="small"):
    return lay_out(read_ours(load_definition("toy"), size=size))


def notes():
    """The lines below the table, by what they are about."""
    return dict(note.split(": ", 1) for note in layout().notes)


def run_of(row):
    """What the table of runs says of a row, by column."""
    (runs,) = [each for each in layout().extras if each.title == "Runs"]
    (found,) = [dict(zip(runs.head, each, strict=True)) for each in runs.rows if each[0] == row]
    return found


def verdict(row="DM-Base", other="Base"):
    (verdicts,) = [each for each in layout().extras if each.title == "Verdicts"]
    (found,) = [dict(zip(verdicts.head, each, strict=True)) for each in verdicts.rows if each[:2] == (row, other)]
    return found


def shown(row, column, numbers="local"):
    """A cell's words."""
    found = layout()
    place = [each.key for each in found.definition.columns].index(column)
    (lines,) = [system.lines for system in found.systems if system.row.name == row]
    return str(lines[numbers][place])


def test_markdown_is_what_one_would_write_by_hand(results):
    text = table("toy", size="small")
    assert text.partition("\n\n**Verdicts**")[0].endswith(MARKDOWN.rstrip("\n"))
    assert "| DM-Base | Base | " in text


def test_at_most_ten_notes_and_what_they_say(results, change):
    change("seeds: [1, 2]", "seeds: [1, 2]\nnotes: [One., Two]")
    found = notes()
    assert len(layout().notes) <= 10
    assert "paired t-test: B-1; paired bootstrap: SB-2; none: PPL" in found["Marks"]
    assert "the table's 1 test" in found["Marks"]
    assert "SB-2 (all rows): only one text" in found["Not computed"]
    assert "--size small --remeasure" in found["Not computed"]
    assert "(all rows)" in found["Compare with care"], "reduced data"
    assert found["Columns"] == "PPL: per token."
    assert found["Rows"] == "DM-Base, left chain: no syntax."
    assert "sampling seed 10 + " in found["Texts"]
    assert found["Notes"] == "One; Two."
    assert "†" in found["Marks"]


def test_the_runs_have_their_origin(results, store):
    assert run_of("Base") == {
        "System": "Base", "data": "Stories (reduced), 1,000 documents", "trees": "left chain", "seeds": "1, 2",
        "parameters (M)": "2.50", "epochs": "4", "tokens (M)": "0.0400", "<unk>": "1.13 %",
        "machine": "CPU (x86_64), 2 cores, 1 thread", "date": "2026-01-02", "commit": "0123456789ab",
    }  # fmt: skip
    store("Base", 2, {"bleu1": 1.0}, clock=((1.0, 30.0), (2.0, 120.0)), precision="32-true", beginning="gpt2")
    store("DM-Base", 2, {"bleu1": 1.0}, processor_seconds=600.0, measured_commit="feedfeedfeed")
    assert (run_of("Base")["minutes"], run_of("DM-Base")["minutes"]) == ("2", "10")
    assert (run_of("Base")["precision"], run_of("Base")["began from"]) == ("32-true", "gpt2")
    assert (run_of("Base")["measured by"], run_of("DM-Base")["measured by"]) == ("", "feedfeedfeed")


def test_verdicts_name_measure_gain_and_tests(results):
    found = verdict()
    assert found["wins"].startswith("B-1 +0.75")
    assert found["undecided"].startswith("PPL +5.00 (seeds p 0.1")
    assert "p" in found["wins"]
    assert found["loses"] == ""
    assert re.search(r"B-1 \+0.75 \(seeds p 0.0\d+, .*items p 0.000\d+\)", found["wins"])


def test_numbers_of_several_judges_have_letters(store):
    store("Base", 1, {"bleu1": 10.0, "perplexity": 5.0}, settings={"bleu1": "scorer a"})
    assert shown("Base", "bleu1") == "10.00"
    store("DM-Base", 1, {"bleu1": 11.0}, settings={"bleu1": "scorer b"})
    assert (shown("Base", "bleu1"), shown("DM-Base", "bleu1")) == ("10.00ᵃ", "11.00ᵇ")
    assert shown("Base", "perplexity") == "5.00"
    assert all(each in notes()["Settings"] for each in ("B-1ᵃ: scorer a", "B-1ᵇ: scorer b"))
    assert "ᵃ ᵇ: judged by different models" in notes()["Marks"]
    store("DM-Base, left chain", 1, {"bleu1": 11.0}, settings={"bleu1": "a scorer"})
    assert "ᵃ ᵇ ᶜ: judged by different models" in notes()["Marks"]
    assert notes()["Settings"] == "B-1ᵃ: scorer a; B-1ᵇ: scorer b; B-1ᶜ: a scorer."


def test_figures_that_do_not_compare_with_the_papers_have_no_difference(store, change):
    store("Base", 1, {"bleu1": 10.0, "selfbleu2": 80.0})
    assert shown("Base", "bleu1", "difference") == "0.00"
    change("higher_better: true, test: paired_t", "higher_better: true, comparable: false, test: paired_t")
    assert shown("Base", "bleu1", "difference") == ""
    assert shown("Base", "selfbleu2", "difference") == "-10.0"


def test_one_seed_gets_another_mark_than_two(store):
    for row, items in (("Base", SAME), ("DM-Base", HIGHER)):
        store(row, 1, {"bleu1": float(np.mean(items))}, {"bleu1": items})
    assert shown("DM-Base", "bleu1").endswith("°")
    assert verdict()["ahead over items only"].startswith("B-1 +0.55")
    assert "°" in notes()["Marks"]


def test_unequal_shares_of_unknown_words_are_called_so(store):
    store("Base", 1, {"perplexity": 50.0, "unk_rate": 0.01})
    store("DM-Base", 1, {"perplexity": 45.0, "unk_rate": 0.02})
    assert "PPL over unequal shares of <unk>: 1.00 % (Base), 2.00 % (DM-Base)" in notes()["Compare with care"]
    store("DM-Base", 1, {"perplexity": 45.0, "unk_rate": 0.01})
    assert "<unk>" not in notes()["Compare with care"]


def test_the_floor_is_that_of_the_test_split(store, change):
    change("rows:\n", "rows:\n  - {name: Floor, experiment: base_toy, floor: source, in_paper: false}\n")
    store("Floor", 1, {"perplexity": 8.1})
    assert re.findall(r"\d\.\d\d", notes()["Rows"]) == ["8.10"]


def test_perplexity_is_tested_over_stories_and_lower_wins(store, change):
    change("higher_better: false, explanation", "higher_better: false, test: paired_t, explanation")
    tokens = np.full(len(HIGHER), 7.0)
    for seed in (1, 2):
        store("Base", seed, {"perplexity": 50.0 + seed / 100}, {"perplexity": HIGHER, TOKENS: tokens})
        store("DM-Base", seed, {"perplexity": 45.0 + seed / 100}, {"perplexity": SAME, TOKENS: tokens})
    assert shown("DM-Base", "perplexity").endswith("*")
    for seed in (1, 2):
        store("Base", seed, {"perplexity": 50.0 + seed / 100})
    assert "no per-item scores of Base" in verdict()["wins"], "seeds alone decide"


def test_the_tables_own_perplexity_is_tested_and_its_keys_are_those_of_the_measures(monkeypatch):
    monkeypatch.chdir(Path(__file__).parents[2])
    for name in ("dmlm_table2", "demo"):
        definition = load_definition(name)
        assert definition.column("perplexity").test == "paired_t"
        assert not definition.column("perplexity").higher_better
        assert {column.key for column in definition.columns} <= {*NAMES, "perplexity", "word_perplexity", "union"}


def test_weights_that_are_not_there_are_the_reason_in_the_table(store, change):
    change("rows:\n", "  - {key: lm_perplexity, header: GPT-2 PPL, higher_better: false}\nrows:\n")
    definition = load_definition("toy")
    job = Job(definition, definition.row("Base"), "small", 1)
    given = TextOptions(perplexity_model="nowhere", device="cpu")
    options = options_for(job, definition.columns, given, run_depgen)
    evaluation = text_metrics(["c d x", "e g h"], ["c d", "e f"], options)
    found = sift(Numbers(evaluation.metrics, not_computed=evaluation.not_computed))
    store("Base", 1, {"bleu1": 1.0}, not_computed=found.not_computed)
    assert "GPT-2 PPL (all rows): no weights at nowhere" in notes()["Not computed"]


def test_notes_in_the_terminal_are_wrapped(results):
    text = table("toy", size="small", format="text").rpartition("┘\n")[2]
    assert max(len(line) for line in text.splitlines()) <= 120


def test_unequal_data_is_called_so(store):
    store("Base", 1, {"bleu1": 1.0})
    assert "NOT the same data" not in notes()["Compare with care"]
    store("DM-Base", 1, {"bleu1": 1.0}, data=DataSource("Stories", reduced=False, fingerprint="other"))
    assert "NOT the same data (text or reading options differ): Base | DM-Base" in notes()["Compare with care"]


def test_a_row_that_is_to_learn_from_other_data_is_not_warned_of(store, change):
    store("Base", 1, {"bleu1": 10.0})
    less = DataSource("Stories", reduced=True, train_documents=500, fingerprint="g")
    store("DM-Base", 1, {"bleu1": 12.0}, data=less)
    assert "NOT the same data" in notes()["Compare with care"]
    change("  - name: DM-Base\n", "  - name: DM-Base\n    other_data: true\n")
    assert "NOT the same data" not in notes()["Compare with care"]
    assert run_of("DM-Base")["data"] == "Stories (reduced), 500 documents"


def test_unequal_budgets_are_called_so(store):
    store("Base", 1, {"bleu1": 1.0}, budget=Budget(4, 41_000))
    store("DM-Base", 1, {"bleu1": 1.0}, budget=Budget(4, 40_000))
    assert "NOT matched: Base 41,000; DM-Base 40,000" in notes()["Compare with care"]
    store("Base", 1, {"bleu1": 1.0}, budget=Budget(4, 40_100))
    assert "NOT matched" not in notes()["Compare with care"]


def test_seeds_of_two_configurations_are_called_so(store):
    store("Base", 1, {"bleu1": 1.0}, config_sha256="a")
    store("Base", 2, {"bleu1": 1.0}, config_sha256="b")
    assert "seeds of Base are of different configurations" in notes()["Compare with care"]


def test_files_are_written_where_they_are_wanted(results, project):
    folder = project / "results" / "toy"
    table("toy", size="small", output=project / "out.tex", format="latex")
    assert not [path for path in folder.iterdir() if path.is_file()]
    table("toy", size="small", files=True)
    assert {path.name for path in folder.iterdir() if path.is_file()} == {
        f"table-small.{ending}" for ending in ("md", "tex", "csv", "txt")
    }
    assert (project / "out.tex").read_text() == (folder / "table-small.tex").read_text()


def test_csv_holds_one_number_a_line(results):
    rows = list(csv.DictReader(io.StringIO(table("toy", size="small", format="csv"))))
    (mine,) = [row for row in rows if (row["system"], row["numbers"], row["measure"]) == ("DM-Base", "local", "bleu1")]
    assert (float(mine["value"]), mine["seeds"], mine["mark"]) == (11.0, "2", "*")
    (missing,) = [row for row in rows if row["word"] and row["system"] == "Base"]
    assert (missing["measure"], missing["value"], missing["word"]) == ("selfbleu2", "", "n/c")


def test_latex_escapes_and_rules_off_the_blocks(results, change):
    change("caption: Invented numbers", "caption: 100 % R&D_x")
    change("header: B-1", "header: 'UP*^~DOWN\\'")
    text = table("toy", size="small", format="latex")
    assert r"\caption{100 \% R\&D\_x (size small)}" in text
    assert r"DM-Base & paper & 12.00$^{*}$ & 80.0 &  \\" in text
    assert r"local & 10.25 $\pm$ 0.07 & n/c" in text
    assert r"System &  & UP*\textasciicircum{}\textasciitilde{}DOWN\textbackslash{} $\uparrow$ & SB-2" in text
    assert text.count(r"\midrule") == 2
    assert all(line.startswith("%") for line in text.partition("\\end{table}\n")[2].splitlines())


def test_the_terminal_gets_the_same_numbers(results):
    text = table("toy", size="small", format="text")
    assert "│ 11.00 ± 0.14* │" in text
    assert "Old (quoted: Someone 1999)" in text


def test_a_table_without_results_says_how_to_make_them(project):
    assert "depgen reproduce toy" in table("toy", size="paper")
    with pytest.raises(UserError, match="one of small, paper"):
        table("toy", size="large")


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        (Cell(), ""),
        (Cell(word="n/c"), "n/c"),
        (Cell(1.005, decimals=1), "1.0"),
        (Cell(-0.5, signed=True), "-0.50"),
        (Cell(-0.001, signed=True), "0.00"),
        (Cell(0.5, 0.25, mark="*", signed=True), "+0.50 ± 0.25*"),
        (Cell(0.5, mark="*", signs="‡"), "0.50*‡"),
        (Cell(2.0, 0.5, mark="*", decimals=1, interval=(1.0, 3.0)), "2.0 ± 0.5 [1.0, 3.0]*"),
    ],
)
def test_cells(cell, words):
    assert str(cell) == words


def test_tracked_and_local_seeds_of_one_training_are_one_line(store, project):
    store("Base", 1, {"bleu1": 10.0})
    record("toy", size="small")
    shutil.rmtree(project / "results")
    store("Base", 2, {"bleu1": 12.0})
    assert shown("Base", "bleu1", "joined") == "11.00 ± 1.41"
    assert shown("Base", "bleu1", "difference") == "+1.00"
    assert "joined: " in notes()["Numbers"]
    assert run_of("Base")["seeds"] == "1, 2"


def test_figures_of_different_judges_are_not_averaged(store):
    store("Base", 1, {"bleu1": 10.0}, settings={"bleu1": "scorer a"})
    store("Base", 2, {"bleu1": 12.0}, settings={"bleu1": "scorer b"})
    assert shown("Base", "bleu1") == "n/c"
    assert not any("difference" in system.lines for system in layout().systems)
    assert "B-1 (all rows): its seeds were judged by different models" in notes()["Not computed"]


def test_the_notes_name_the_rows_of_each_judge(store):
    for seed in (1, 2):
        store("Base", seed, {"bleu1": 10.0}, settings={"bleu1": "scorer a", "selfbleu2": "by n"})
        store("DM-Base", seed, {"bleu1": 11.0}, settings={"bleu1": "scorer b", "selfbleu2": "by n"})
    found = notes()["Settings"]
    assert all(each in found for each in ("B-1ᵃ: scorer a", "B-1ᵇ: scorer b", "SB-2: by n"))


def test_a_number_over_part_of_the_seeds_is_marked(store):
    store("Base", 1, {"bleu1": 10.0, "perplexity": 50.0})
    store("Base", 2, {"bleu1": 11.0})
    assert shown("Base", "perplexity") == "50.00‡"
    assert "Base PPL: 1 of 2" in notes()["Marks"]
    assert "PPL (Base)" not in notes()["Not computed"], "there is a figure"
    rows = list(csv.DictReader(io.StringIO(table("toy", size="small", format="csv"))))
    ours = [row for row in rows if (row["system"], row["numbers"]) == ("Base", "local")]
    assert [(row["seeds"], row["word"]) for row in ours] == [("2", ""), ("2", "n/c"), ("1", "")]


def test_empty_texts_are_counted_and_forbid_comparison(store):
    for seed in (1, 2):
        store("Base", seed, {"bleu1": 10.0, "perplexity": 50.0 + seed, "texts": 1000.0, "empty": 0.0}, {"bleu1": SAME})
        metrics = {"bleu1": 11.0, "perplexity": 45.0 + seed / 10, "texts": 1000.0, "empty": 156.0}
        store("DM-Base", seed, metrics, {"bleu1": HIGHER})
    assert shown("DM-Base", "bleu1") == "11.00 ± 0.00"
    assert (run_of("Base")["empty texts"], run_of("DM-Base")["empty texts"]) == ("", "312 of 2,000")
    assert re.match("B-1, .*empty.*: Base / DM-Base", notes()["Not compared"])
    assert (verdict()["wins"][:3], verdict()["not compared"]) == ("PPL", "B-1")
    store("DM-Base, left chain", 1, {"selfbleu2": 9.0, "bleu1": 9.0, "texts": 1000.0, "empty": 900.0})
    store("DM-Base", 3, {"selfbleu2": 9.0, "texts": 1000.0, "empty": 156.0})
    reason = "the shares of empty texts differ by more than 1 point"
    found = notes()["Not compared"]
    assert found.count(reason) == 1
    assert found.startswith(f"B-1, SB-2, {reason}: Base / DM-Base | ")
    assert found.count("Base / DM-Base |") == 1


def test_the_note_says_how_the_texts_were_made_not_how_the_table_would_now(store):
    store("Base", 1, {"bleu1": 10.0}, generation=Generation(top_p=0.9, seed=3))
    assert "top-p 0.9, temperature 1.0, sampling seed 3 + " in notes()["Texts"]
    store("DM-Base", 1, {"bleu1": 10.0})
    assert re.search(r"DM-Base: .*sampling seed 10 \+ .*do not keep", notes()["Texts"])


def test_a_floor_has_no_spread(store, change):
    change("rows:\n", "rows:\n  - {name: Floor, experiment: base_toy, floor: source, in_paper: false}\n")
    for seed in (1, 2):
        store("Floor", seed, {"perplexity": 8.1})
    assert shown("Floor", "perplexity") == "8.10"


def test_a_table_without_texts_names_no_way_to_measure_them(results, change):
    change("generation: {prompt_sentences: 4, seed: 10}\nmeasures: [depgen.reporting.measures.texts.Texts]\n", "")
    assert "SB-2" in notes()["Not computed"]
    assert "`depgen" not in notes()["Not computed"]


def test_figures_older_than_a_column_say_so_in_it(results, change):
    change("rows:\n", "  - {key: own, header: Own, higher_better: true}\nrows:\n")
    change("rows:\n", "rows:\n  - {name: Floor, experiment: base_toy, floor: source, in_paper: false}\n")
    assert shown("Base", "own") == "n/c"
    assert "Own (all rows): not measured; --remeasure" in notes()["Not computed"]
    assert "| Floor (not run yet) | local |  |  |  |  |" in table("toy", size="small")


def test_what_only_the_paper_has_is_no_gap_of_ours(store, change):
    for seed in (1, 2):
        store("Base", seed, {"bleu1": 10.0, "perplexity": 50.0})
    change("test: paired_bootstrap", "published_only: true, test: paired_bootstrap")
    assert shown("Base", "selfbleu2") == ""
    assert notes()["Not computed"].startswith("`depgen") is False
    assert notes()["Not computed"] == "SB-2: the data are not at hand."


def test_what_a_network_began_from_is_in_its_run(store):
    store("Base", 1, {"bleu1": 10.0}, beginning="random weights")
    store("DM-Base", 1, {"bleu1": 10.0})
    assert (run_of("Base")["began from"], run_of("DM-Base")["began from"]) == ("random weights", "")
    assert "NOT begun" not in notes()["Compare with care"]
    store("DM-Base", 1, {"bleu1": 10.0}, beginning="gpt2")
    said = "NOT begun from the same weights: Base (random weights) | DM-Base (gpt2)"
    assert said in notes()["Compare with care"]


def test_rows_without_their_experiment_and_quoted_ones_that_we_make(store, project, change):
    for path in (project / "experiments").rglob("chain_toy*.yaml"):
        path.unlink()
    change("quoted: Someone 1999", "quoted: Someone 1999, experiment: base_toy")
    text = table("toy", size="small")
    assert "| DM-Base, left chain† (not built yet) |" in text
    assert "| Old (quoted: Someone 1999; not run yet) | paper | 9.00 |" in text
    store("Old", 1, {"bleu1": 8.0})
    assert "| Old (quoted: Someone 1999) | paper | 9.00 |  |  |\n|  | local | 8.00 |" in table("toy", size="small")


def test_a_size_has_no_direction(store, change):
    change("rows:\n", "  - {key: parameters, header: Size, higher_better: null, decimals: 0}\nrows:\n")
    for row, size in (("Base", 3.0), ("DM-Base", 9.0)):
        for seed in (1, 2):
            store(row, seed, {"parameters": size})
    assert "| PPL ↓ | Size |" in table("toy", size="small")
    assert "Size" not in notes()["Marks"]
    assert not any(each.title == "Verdicts" for each in layout().extras)


def test_all_tables_at_once_each_at_a_size_that_it_has(results, project):
    one = (project / "experiments/tables/toy.yaml").read_text()
    other = one.replace("table: toy", "table: only\nsizes: [paper]").replace("Invented numbers", "Others")
    (project / "experiments/tables/only.yaml").write_text(other)
    text = table(size="small", files=True)
    assert text.index("**Others (size paper)**") < text.index("**Invented numbers (size small)**")
    assert (project / "results/only/table-paper.md").is_file()
    lines = list(csv.DictReader(io.StringIO(table(size="small", format="csv"))))
    assert {line["table"] for line in lines} == {"toy", "only"}
    assert {line["size"] for line in lines} == {"small", "paper"}
    for of_all in (table, record):
        with pytest.raises(UserError, match=r"'papr'.*'paper'.*paper, small"):
            of_all(size="papr")
    with pytest.raises(UserError, match="--output"):
        table(size="small", output=project / "x.md")


def test_a_table_that_no_experiment_makes_promises_none(project):
    text = (project / "experiments/tables/toy.yaml").read_text()
    for name in ("base_toy", "dm_toy", "chain_toy"):
        text = text.replace(f"experiment: {name}", "note: asked of people")
    (project / "experiments/tables/toy.yaml").write_text(text.replace(", note: no syntax", ""))
    text = table("toy", size="small")
    assert "not built yet" not in text
    assert "depgen reproduce" not in text


def test_the_text_of_a_wide_table_is_not_cut(store):
    data = DataSource("A corpus with a long name", reduced=True, train_documents=1000)
    for row in ("Base", "DM-Base", "DM-Base, left chain"):
        metrics = {"bleu1": 1.0, "texts": 9816.0, "empty": 1532.0, "unk_rate": 0.01}
        for seed in (1, 2):
            commit = f"{seed}123456789ab+"
            store(
                row, seed, metrics, commit=commit, measured_commit="cdef01234567", data=data, beginning="random weights"
            )
    text = table("toy", size="small", format="text")
    assert "…" not in text
    assert text.count("│ DM-Base, left chain │ A") == 1
