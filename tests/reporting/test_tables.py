import csv
import dataclasses
import io
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from depgen.errors import UserError
from depgen.evaluation.text.measures import NAMES, TextOptions, text_metrics
from depgen.reporting.definition import TOKENS, Generation, load_definition
from depgen.reporting.intervals import intervals
from depgen.reporting.jobs import Job
from depgen.reporting.layout import Cell
from depgen.reporting.measured import read_measured
from depgen.reporting.measurement import sift
from depgen.reporting.numbers import Numbers
from depgen.reporting.record import record
from depgen.reporting.results import DataSource, read_results
from depgen.reporting.tables import show, table
from depgen.reporting.texts import options_for
from depgen.training.experiment_runs import run_depgen

SAME = [1.0, 2.0, 3.0, 4.0]
HIGHER = [1.6, 2.5, 3.5, 4.6]

MARKDOWN = """\
**Invented numbers (size small)**

| System |  | B-1 ↑ | SB-2 ↓ | PPL ↓ |
|---|---|--:|--:|--:|
| Old (quoted: Someone 1999) | paper | 9.00 |  |  |
| Base | paper | 10.00 | 90.0 |  |
|  | local | 10.25 ± 0.35 | n/c | 50.00 ± 1.41 |
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
    for seed, base, dm, ppl in ((1, 10.0, 10.9, 49.0), (2, 10.5, 11.1, 51.0)):
        store(
            "Base", seed, {"bleu1": base, "perplexity": ppl, "unk_rate": 0.0113}, {"bleu1": SAME}, not_computed=reason
        )
        store("DM-Base", seed, {"bleu1": dm, "perplexity": 45.0}, {"bleu1": HIGHER}, not_computed=reason)


def test_markdown_is_what_one_would_write_by_hand(results):
    text = table("toy", size="small")
    assert text.startswith("Size small: as given.\n\n")
    assert text.split("\n\n- ")[0].removeprefix("Size small: as given.\n\n") + "\n" == MARKDOWN


def test_the_notes_say_what_a_reader_must_know(results):
    notes = table("toy", size="small").split("\n\n- ")[1]
    assert "Holm's correction over the table's 1 test)" in notes
    assert "paired t-test: B-1; paired bootstrap: SB-2; not tested: PPL." in notes
    assert "DM-Base against Base: wins B-1 (+0.75 ± 0.54, p = 0.00032), PPL (+5.00 ± 2.00)." in notes
    assert "Not computed: SB-2 (Base, DM-Base): only one text." in notes
    assert (
        "Budget of b, training tokens seen over all phases: matched (within 1 %): Base 40,000, DM-Base 40,000." in notes
    )
    assert "Base (local): Stories (reduced), 1,000 training documents; trees: left chain; seeds: 1, 2" in notes
    assert "4 epochs; CPU (x86_64), 2 cores, 1 thread; 2026-01-02; 0123456789ab" in notes
    assert "- PPL: per token.\n- PPL: test tokens that are <unk>: 1.13 % (Base).\n" in notes
    assert "- Seeds vary weights, dropout and sampling; the order of the data is the same for all.\n" in notes
    assert "- Trained on less data than was published (Base, DM-Base): compare these rows" in notes
    assert "- †: not in the paper.\n" in notes
    assert "sampling seed 10 + the run's" in notes


def test_unequal_shares_of_unknown_words_are_called_so(store):
    store("Base", 1, {"perplexity": 50.0, "unk_rate": 0.01})
    store("DM-Base", 1, {"perplexity": 45.0, "unk_rate": 0.02})
    notes = table("toy", size="small")
    assert "<unk>: 1.00 % (Base); 2.00 % (DM-Base); perplexities with unequal shares do not compare." in notes


@pytest.mark.parametrize(
    ("metrics", "said"),
    [
        ({"perplexity": 8.1}, "under the source 8.10."),
        (
            {"perplexity": 8.1, "source_perplexity": 8.25},
            "under the source 8.10; of the source itself 8.25 (exact entropy per token).",
        ),
    ],
)
def test_the_floor_tells_the_stories_from_the_source(store, project, metrics, said):
    path = project / "experiments/tables/toy.yaml"
    path.write_text(path.read_text() + "  - {name: Floor, floor_of: base_toy, in_paper: false}\n")
    store("Floor", 1, metrics)
    text = table("toy", size="small")
    assert f"- Floor: perplexity of the test stories {said}\n" in text
    assert "Seeds vary" not in text


def test_perplexity_is_tested_over_stories_and_lower_wins(store, monkeypatch, project):
    path = project / "experiments/tables/toy.yaml"
    path.write_text(
        path.read_text().replace(
            "higher_better: false, explanation", "higher_better: false, test: paired_t, explanation"
        )
    )
    for seed in (1, 2):
        store("Base", seed, {"perplexity": 50.0}, {"perplexity": HIGHER, TOKENS: np.full(len(HIGHER), 7.0)})
        store("DM-Base", seed, {"perplexity": 45.0}, {"perplexity": SAME, TOKENS: np.full(len(SAME), 7.0)})
    assert "| 45.00 ± 0.00\\* |" in table("toy", size="small")
    store("Base", 2, {"perplexity": 50.0})
    text = table("toy", size="small")
    assert "| 45.00 ± 0.00\\* |" in text
    assert "- Base: intervals, around the mean of all, and tests by the items of seed 1 alone (of 2)." in text
    store("Base", 1, {"perplexity": 50.0})
    text = table("toy", size="small")
    assert "| 45.00 ± 0.00 |" in text
    assert "not tested: no per-item scores of Base" in text


def test_the_tables_own_perplexity_is_tested_and_its_keys_are_those_of_the_measures(monkeypatch):
    monkeypatch.chdir(Path(__file__).parents[2])
    for name in ("dmlm_table2", "demo"):
        definition = load_definition(name)
        assert definition.column("perplexity").test == "paired_t"
        assert not definition.column("perplexity").higher_better
        assert {column.key for column in definition.columns} <= {*NAMES, "perplexity", "word_perplexity", "union"}


def test_weights_that_are_not_there_are_the_reason_in_the_table(project, store):
    path = project / "experiments/tables/toy.yaml"
    column = "  - {key: lm_perplexity, header: GPT-2 PPL, higher_better: false}\n"
    path.write_text(path.read_text().replace("rows:\n", f"{column}rows:\n", 1))
    definition = load_definition("toy")
    job = Job(definition, definition.row("Base"), "small", 1)
    given = TextOptions(perplexity_model="nowhere", device="cpu")
    options = options_for(job, definition.columns, given, run_depgen)
    evaluation = text_metrics(["c d x", "e g h"], ["c d", "e f"], options)
    found = sift(job, Numbers(evaluation.metrics, not_computed=evaluation.not_computed))
    store("Base", 1, {"bleu1": 1.0}, not_computed=found.not_computed)
    assert "Not computed: GPT-2 PPL (Base): no weights at nowhere" in table("toy", size="small")


def test_notes_in_the_terminal_are_wrapped(results):
    notes = table("toy", size="small", format="text").split("┘\n")[1]
    assert max(len(line) for line in notes.splitlines()) <= 120


def test_unequal_data_is_called_so(store):
    from depgen.reporting.results import DataSource

    store("Base", 1, {"bleu1": 1.0})
    assert "NOT the same data" not in table("toy", size="small")
    store("DM-Base", 1, {"bleu1": 1.0}, data=DataSource("Stories", reduced=False, fingerprint="other"))
    assert "these don't compare: Base | DM-Base." in table("toy", size="small")


def test_a_rule_that_has_learnt_from_nothing_has_no_data_to_be_unequal(store, project):
    from depgen.reporting.results import DataSource

    path = project / "experiments" / "tables" / "toy.yaml"
    floor = "  - {name: Later, floor: next word}"
    path.write_text(
        path.read_text().replace("  - {name: Later, group: b, values: {bleu1: 11.0}}", floor) + "parsing: p\n"
    )
    store("Base", 1, {"bleu1": 1.0})
    store("Later", 1, {"bleu1": 1.0}, data=DataSource("A treebank", reduced=False, fingerprint="other"))
    assert "NOT the same data" not in table("toy", size="small")


def test_sizes_that_vary_on_purpose_are_not_warned_of_and_other_text_is(store, project):
    assert load_definition(str(Path(__file__).parents[2] / "experiments/tables/udgn_table9.yaml")).sizes_vary
    path = project / "experiments/tables/toy.yaml"
    path.write_text(f"{path.read_text()}sizes_vary: true\n")
    store("Base", 1, {"bleu1": 10.0})
    less = DataSource("Stories", reduced=True, train_documents=500, fingerprint="g")
    store("DM-Base", 1, {"bleu1": 12.0}, data=less)
    text = table("toy", size="small")
    assert "NOT the same data" not in text
    assert "less data than was published" not in text
    assert "DM-Base (local): Stories (reduced), 500 training documents" in text
    store("DM-Base", 1, {"bleu1": 12.0}, data=dataclasses.replace(less, corpus="News"))
    assert "NOT the same data (text or reading options differ), so these don't compare: Base | DM-Base." in table(
        "toy", size="small"
    )


def test_a_row_that_is_to_learn_from_other_data_is_not_warned_of(store, project):
    path = project / "experiments/tables/toy.yaml"
    store("Base", 1, {"bleu1": 10.0})
    store("DM-Base", 1, {"bleu1": 12.0}, data=DataSource("News", reduced=False, fingerprint="g"))
    assert "NOT the same data" in table("toy", size="small")
    path.write_text(path.read_text().replace("  - name: DM-Base\n", "  - name: DM-Base\n    other_data: true\n"))
    assert "NOT the same data" not in table("toy", size="small")


def test_unequal_budgets_are_called_so(store):
    from depgen.reporting.results import Budget

    store("Base", 1, {"bleu1": 1.0}, budget=Budget(4, 41_000))
    store("DM-Base", 1, {"bleu1": 1.0}, budget=Budget(4, 40_000))
    assert "NOT matched: Base 41,000, DM-Base 40,000" in table("toy", size="small")


def test_tracked_local_and_published_stand_side_by_side(results):
    record("toy", size="small")
    lines = table("toy", size="small").splitlines()
    place = lines.index("| DM-Base | paper | 12.00\\* | 80.0 |  |")
    assert lines[place + 1] == "|  | measured | 11.00 ± 0.14\\* | n/c | 45.00 ± 0.00 |"
    assert lines[place + 2] == "|  | local | 11.00 ± 0.14\\* | n/c | 45.00 ± 0.00 |"
    assert lines[place + 3] == "|  | difference | -1.00 |  |  |"


def test_files_are_written_where_they_are_asked_for(results, project):
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
    assert (float(mine["value"]), mine["seeds"], mine["star"]) == (11.0, "2", "1")
    (missing,) = [row for row in rows if row["word"] and row["system"] == "Base"]
    assert (missing["measure"], missing["value"], missing["word"]) == ("selfbleu2", "", "n/c")


def test_latex_escapes_and_rules_off_the_blocks(results, project):
    path = project / "experiments/tables/toy.yaml"
    path.write_text(path.read_text().replace("caption: Invented numbers", "caption: 100 % R&D_x"))
    text = table("toy", size="small", format="latex")
    assert r"\caption{100 \% R\&D\_x (size small)}" in text
    assert r"DM-Base & paper & 12.00$^{*}$ & 80.0 &  \\" in text
    assert r"local & 10.25 $\pm$ 0.35 & n/c" in text
    assert text.count(r"\midrule") == 2


def test_the_terminal_gets_the_same_numbers(results):
    text = table("toy", size="small", format="text")
    assert "│ 11.00 ± 0.14* │" in text
    assert "Old (quoted: Someone 1999)" in text


def test_a_table_without_results_says_how_to_make_them(project):
    assert "Nothing of ours yet at size paper: depgen reproduce toy." in table("toy", size="paper")
    with pytest.raises(UserError, match="expected one of small, paper"):
        table("toy", size="large")


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        (Cell(), ""),
        (Cell(word="n/c"), "n/c"),
        (Cell(1.005, decimals=1), "1.0"),
        (Cell(-0.5, signed=True), "-0.50"),
        (Cell(-0.001, signed=True), "0.00"),
        (Cell(0.5, 0.25, star=True, signed=True), "+0.50 ± 0.25*"),
    ],
)
def test_cells(cell, words):
    assert show(cell) == words


OTHER_DATA = DataSource("Stories", reduced=True, train_documents=1000, fingerprint="of other files")


def test_tracked_and_local_seeds_of_one_configuration_are_one_line(store, project):
    store("Base", 1, {"bleu1": 10.0})
    record("toy", size="small")
    shutil.rmtree(project / "results")
    store("Base", 2, {"bleu1": 12.0})
    text = table("toy", size="small")
    assert "|  | joined | 11.00 ± 1.41 | n/c | n/c |\n|  | difference | +1.00 |  |  |" in text
    assert "| measured |" not in text
    assert "- joined: local seeds and those of the same configuration tracked" in text
    assert (
        "Base (local and measured): Stories (reduced), 1,000 training documents; trees: left chain; seeds: 1, 2" in text
    )
    for other in ({"config_sha256": "other"}, {"data": OTHER_DATA}, {"trees": "gold"}, {"beginning": "weights"}):
        store("Base", 2, {"bleu1": 12.0}, **other)
        text = table("toy", size="small")
        assert "|  | measured | 10.00 | n/c | n/c |\n|  | local | 12.00 | n/c | n/c |" in text, other
    with pytest.raises(UserError, match=r"seed 1 .*other data, .*other trees"):
        record("toy", size="small")


def test_figures_of_different_judges_are_not_joined_and_not_averaged(store, project):
    store("Base", 1, {"bleu1": 10.0}, settings={"bleu1": "scorer a"})
    record("toy", size="small")
    shutil.rmtree(project / "results")
    store("Base", 2, {"bleu1": 12.0}, settings={"bleu1": "scorer b"})
    text = table("toy", size="small")
    assert "|  | measured | 10.00 | n/c | n/c |\n|  | local | 12.00 | n/c | n/c |" in text
    with pytest.raises(UserError, match=r"seed 1 .*small .*other models.*bleu1.*--remeasure"):
        record("toy", size="small")
    store("Base", 1, {"bleu1": 10.0}, {"bleu1": SAME}, settings={"bleu1": "scorer a"})
    store("Base", 2, {"bleu1": 12.0}, {"bleu1": SAME}, settings={"bleu1": "scorer b"})
    text = table("toy", size="small")
    assert "|  | local | n/c | n/c | n/c |\n" in text
    assert "|  | difference |" not in text, "there is nothing to take from the paper's"
    assert "Not computed: B-1 (Base): its seeds were judged by different models, over which there is no mean." in text
    assert "`depgen reproduce toy --size small --remeasure` measures the texts again" in text
    assert intervals(load_definition("toy"), {"Base": read_results("toy", "Base", size="small")}) == {}


def test_the_notes_name_the_rows_of_each_judge(store):
    for seed in (1, 2):
        store("Base", seed, {"bleu1": 10.0}, {"bleu1": SAME}, settings={"bleu1": "scorer a", "selfbleu2": "by n"})
        store("DM-Base", seed, {"bleu1": 11.0}, {"bleu1": HIGHER}, settings={"bleu1": "scorer b", "selfbleu2": "by n"})
    text = table("toy", size="small")
    assert "- B-1 (Base) settings: scorer a.\n- B-1 (DM-Base) settings: scorer b.\n- SB-2 settings: by n.\n" in text
    assert "- Not compared: B-1, since Base and DM-Base were judged by different models or settings; no star" in text


def test_a_number_over_part_of_the_seeds_is_marked(store):
    store("Base", 1, {"bleu1": 10.0, "perplexity": 50.0})
    store("Base", 2, {"bleu1": 11.0})
    text = table("toy", size="small")
    assert "|  | local | 10.50 ± 0.71 | n/c | 50.00‡ |" in text
    assert "- ‡: over some of the row's seeds only: Base (local) PPL: 1 of 2.\n" in text
    rows = list(csv.DictReader(io.StringIO(table("toy", size="small", format="csv"))))
    ours = [row for row in rows if (row["system"], row["numbers"]) == ("Base", "local")]
    assert [(row["seeds"], row["word"]) for row in ours] == [("2", ""), ("2", "n/c"), ("1", "")]


def test_empty_texts_are_counted_and_forbid_comparison(store):
    for seed in (1, 2):
        store("Base", seed, {"bleu1": 10.0, "perplexity": 50.0, "texts": 1000.0, "empty": 0.0}, {"bleu1": SAME})
        store("DM-Base", seed, {"bleu1": 11.0, "perplexity": 45.0, "texts": 1000.0, "empty": 156.0}, {"bleu1": HIGHER})
    text = table("toy", size="small")
    assert "| 11.00 ± 0.00 |" in text
    assert "- Base: 0 of 2,000 endings are empty.\n- DM-Base: 312 of 2,000 endings are empty.\n" in text
    assert (
        "- Not compared: B-1, since 0.0 % of the texts of Base are empty and 15.6 % of those of DM-Base; no star"
        in text
    )
    assert "wins PPL (+5.00 ± 0.00); not compared B-1 (+1.00 ± 0.00)." in text


def test_the_note_says_how_the_texts_were_made_not_how_the_table_would_now(store):
    store("Base", 1, {"bleu1": 10.0}, generation=Generation(top_p=0.9, seed=3))
    assert "- Texts: prompted with the first 4 sentences" in table("toy", size="small")
    assert "top-p 0.9, temperature 1.0, sampling seed 3 + the run's" in table("toy", size="small")
    store("DM-Base", 1, {"bleu1": 10.0})
    text = table("toy", size="small")
    assert "- Texts of DM-Base: " in text
    assert "sampling seed 10 + the run's, at most 60 tokens (as the table says now" in text


def test_what_two_standard_errors_mean_with_so_few_seeds(store):
    for seed in (1, 2, 3):
        store("DM-Base", seed, {"perplexity": 45.0 + seed})
        if seed < 3:
            store("Base", seed, {"perplexity": 50.0 + seed})
    text = table("toy", size="small")
    assert "exceed two standard errors by chance in about 14 % (2 seeds against 3) of" in text


def test_a_floor_has_no_spread(store, project):
    path = project / "experiments/tables/toy.yaml"
    path.write_text(path.read_text() + "  - {name: Floor, floor_of: base_toy, in_paper: false}\n")
    for seed in (1, 2):
        store("Floor", seed, {"perplexity": 8.1})
    assert "| Floor | local |  |  | 8.10 |" in table("toy", size="small")


def test_not_computed_says_how_to_measure_texts_again(results, project):
    hint = "- n/c: `depgen reproduce toy --size small --remeasure` measures the texts again"
    assert hint in table("toy", size="small")
    path = project / "experiments/tables/toy.yaml"
    path.write_text(path.read_text().replace("generation: {prompt_sentences: 4, seed: 10}\n", ""))
    text = table("toy", size="small")
    assert "--remeasure" not in text
    assert "Not computed: SB-2" in text


def test_figures_older_than_a_column_say_so_in_it(results, project):
    path = project / "experiments/tables/toy.yaml"
    newer = "  - {key: own, header: Own, higher_better: true}\n"
    floor = "  - {name: Floor, floor_of: base_toy, in_paper: false}\n"
    path.write_text(path.read_text().replace("rows:\n", f"{newer}rows:\n", 1) + floor)
    record("toy", size="small")
    shutil.rmtree(project / "results")
    text = table("toy", size="small")
    assert "|  | measured | 10.25 ± 0.35 | n/c | 50.00 ± 1.41 | n/c |" in text
    assert "Not computed: Own (Base, DM-Base): measured before the table had this column (--remeasure" in text
    assert "| Floor (not run yet) | local |  |  |  |  |" in text


def test_what_only_the_paper_has_is_no_gap_of_ours(store, project):
    reasons = {"selfbleu2": "nothing here computes it yet"}
    for seed in (1, 2):
        store("Base", seed, {"bleu1": 10.0, "perplexity": 50.0}, not_computed=reasons)
    path = project / "experiments/tables/toy.yaml"
    path.write_text(path.read_text().replace("test: paired_bootstrap", "published_only: true, test: paired_bootstrap"))
    record("toy", size="small")
    text = table("toy", size="small")
    assert (
        "| Base | paper | 10.00 | 90.0 |  |\n|  | measured | 10.00 ± 0.00 |  | 50.00 ± 0.00 |\n"
        "|  | local | 10.00 ± 0.00 |  | 50.00 ± 0.00 |" in text
    )
    assert "- Only the paper has SB-2: the data are not at hand, and ours stay empty.\n" in text
    assert not re.search("ot computed|n/c|bootstrap: SB-2", text.replace("n/c: not computed, see below", ""))
    (tracked,) = read_measured(load_definition("toy"), size="small").values()
    assert [result.not_computed for result in tracked.results] == [{}, {}]


def test_a_header_may_hold_any_letters_in_latex(results, project):
    path = project / "experiments/tables/toy.yaml"
    path.write_text(path.read_text().replace("header: B-1", "header: 'UP^~DOWN\\'"))
    text = table("toy", size="small", format="latex")
    assert (
        r"System &  & UP\textasciicircum{}\textasciitilde{}DOWN\textbackslash{} $\uparrow$ & SB-2 $\downarrow$ &"
        in text
    )


def test_the_code_that_measured_is_named_where_it_did_not_train(store):
    store("Base", 1, {"bleu1": 10.0}, measured_commit="feedfeedfeed")
    assert "0123456789ab; measured by feedfeedfeed." in table("toy", size="small")


def test_what_a_network_began_from_stands_at_its_rows_origin(store):
    store("Base", 1, {"bleu1": 10.0}, beginning="random weights")
    store("DM-Base", 1, {"bleu1": 10.0})
    text = table("toy", size="small")
    assert "trees: left chain; seeds: 1; from random weights; 2.5 M parameters" in text
    assert text.count("from random weights") == 1
    assert "NOT begun" not in text
    store("DM-Base", 1, {"bleu1": 10.0}, beginning="gpt2")
    said = "NOT begun from the same weights, so these don't compare: Base (random weights) | DM-Base (gpt2)."
    assert said in table("toy", size="small")


def test_rows_without_their_experiment_and_quoted_ones_that_we_make(store, project):
    (project / "experiments/chain_toy.yaml").unlink()
    path = project / "experiments/tables/toy.yaml"
    path.write_text(path.read_text().replace("quoted: Someone 1999", "quoted: Someone 1999, experiment: base_toy"))
    text = table("toy", size="small")
    assert "| DM-Base, left chain† (not built yet) |" in text
    assert "| Old (quoted: Someone 1999; not run yet) | paper | 9.00 |" in text
    store("Old", 1, {"bleu1": 8.0})
    assert "| Old (quoted: Someone 1999) | paper | 9.00 |  |  |\n|  | local | 8.00 |" in table("toy", size="small")


def test_a_size_has_no_direction(store, project):
    path = project / "experiments/tables/toy.yaml"
    column = "  - {key: parameters, header: Size, higher_better: null, decimals: 0}\n"
    path.write_text(path.read_text().replace("rows:\n", f"{column}rows:\n", 1))
    for row, size in (("Base", 3.0), ("DM-Base", 9.0)):
        for seed in (1, 2):
            store(row, seed, {"parameters": size})
    text = table("toy", size="small")
    assert "| PPL ↓ | Size |" in text
    assert "not tested: PPL." in text
    assert "DM-Base against Base" not in text


def test_all_tables_at_once_each_at_a_profile_that_it_has(results, project):
    one = (project / "experiments/tables/toy.yaml").read_text()
    other = one.replace("table: toy", "table: only\nsizes: [demo]").replace("Invented numbers", "Others")
    (project / "experiments/tables/only.yaml").write_text(other)
    text = table(size="small", files=True)
    assert text.index("**Others (size demo)**") < text.index("**Invented numbers (size small)**")
    assert (project / "results/only/table-demo.md").is_file()
    lines = list(csv.DictReader(io.StringIO(table(size="small", format="csv"))))
    assert {line["table"] for line in lines} == {"toy", "only"}
    assert {line["size"] for line in lines} == {"small", "demo"}
    for of_all in (table, record):
        with pytest.raises(UserError, match=r"'papr'\. Did you mean 'paper'\?.*demo, paper, small"):
            of_all(size="papr")
    with pytest.raises(UserError, match="--output takes one table"):
        table(size="small", output=project / "x.md")


def test_a_table_that_no_experiment_makes_promises_none(project):
    text = (project / "experiments/tables/toy.yaml").read_text()
    for name in ("base_toy", "dm_toy", "chain_toy"):
        text = text.replace(f"experiment: {name}", "note: asked of people")
    (project / "experiments/tables/toy.yaml").write_text(text.replace(", note: no syntax", ""))
    text = table("toy", size="small")
    assert "not built yet" not in text
    assert "depgen reproduce" not in text


def test_time_on_processors_is_listed_where_it_was_kept(store):
    store("Base", 1, {"bleu1": 1.0}, processor_seconds=600.0)
    store("Base", 2, {"bleu1": 1.0}, processor_seconds=720.0)
    store("DM-Base", 1, {"bleu1": 1.0})
    assert "- Training, minutes of processor time, validation included: Base 11." in table("toy", size="small")
