"""Tables as they are printed: every format from one frame, what stands below, and what is said of its numbers."""

import csv
import io
import re
import subprocess
import sys

import pytest

from depgen.reporting.pages import table
from depgen.reporting.render import Cell, page_of
from depgen.reporting.results import Budget, DataSource
from depgen.reporting.table import Generation
from tests.reporting.conftest import toy_results

SAME = [1.0, 2.0, 3.0, 4.0]
HIGHER = [1.6, 2.5, 3.5, 4.6]
MARKDOWN = """\
**Invented numbers (size small)**

| System |  | B-1 ↑ | SB-2 ↓ | PPL ↓ | <unk> |
|---|---|--:|--:|--:|--:|
| Old (quoted: Someone 1999) | paper | 9.00 |  |  |  |
| Base | paper | 10.00 | 90.0 |  |  |
|  | local | 10.25 ± 0.07 | – | 50.00 ± 1.41 | 1.13 % |
|  | difference | +0.25 |  |  |  |
| DM-Base | paper | 12.00\\* | 80.0 |  |  |
|  | local | 11.00 ± 0.14\\* | – | 45.00 ± 0.00 |  |
|  | difference | -1.00 |  |  |  |
| DM-Base, left chain† (not run: 0.5 core-hours a seed) |  |  |  |  |  |
| Later (not built yet) | paper | 11.00 |  |  |  |
"""


@pytest.fixture
def results(store):
    reason = {"selfbleu2": "only one text"}
    for seed, base, dm, ppl in ((1, 10.2, 10.9, 49.0), (2, 10.3, 11.1, 51.0)):
        metrics = {"bleu1": base, "perplexity": ppl, "unk_rate": 0.0113}
        store("Base", seed, metrics, {"bleu1": SAME}, not_computed=reason)
        store("DM-Base", seed, {"bleu1": dm, "perplexity": 45.0}, {"bleu1": HIGHER}, not_computed=reason)


def notes():
    """The lines below the table, by what they are about."""
    return dict(note.split(": ", 1) for note in page_of(toy_results()).notes)


def run_of(row):
    """What the table of runs says of a row, by column."""
    runs = page_of(toy_results()).extras["Runs"]
    return runs[runs["System"] == row].iloc[0].to_dict()


def verdicts():
    """The verdicts of DM-Base against Base, by measure."""
    frame = page_of(toy_results()).extras["Verdicts"]
    return {line["measure"]: line for line in frame.to_dict("records")}


def shown(row, column, numbers="local"):
    """A cell's words."""
    cells = page_of(toy_results()).cells
    (cell,) = [each for each in cells if (each.row, each.numbers, each.measure) == (row, numbers, column)]
    return cell.text(2)


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        (Cell("A", "", "ppl"), ""),
        (Cell("A", "local", "ppl"), "–"),
        (Cell("A", "local", "ppl", 1.005), "1.0"),
        (Cell("A", "difference", "ppl", -0.001), "0.0"),
        (Cell("A", "difference", "ppl", 0.5, 0.25, mark="*"), "+0.5 ± 0.2*"),
        (Cell("A", "local", "ppl", 2.0, 0.5, 1.0, 3.0, 2, "*"), "2.0 ± 0.5 [1.0, 3.0]*"),
    ],
)
def test_cells(cell, words):
    assert cell.text(1) == words


@pytest.mark.usefixtures("results")
def test_every_format_has_the_same_numbers(project, change):
    assert table("toy", size="small").partition("\n\n**Verdicts**")[0].endswith(MARKDOWN.rstrip("\n"))
    assert "│ 11.00 ± 0.14* │" in table("toy", size="small", format="text")
    rows = list(csv.DictReader(io.StringIO(table("toy", size="small", format="csv"))))
    (mine,) = [row for row in rows if (row["system"], row["numbers"], row["measure"]) == ("DM-Base", "local", "bleu1")]
    assert (float(mine["value"]), mine["seeds"], mine["mark"], mine["low"]) == (11.0, "2", "*", "")
    assert {row["unknown"] for row in rows if row["measure"] == "perplexity"} == {"0.0113", ""}
    change("caption: Invented numbers", "caption: 100 % R&D_x")
    change("header: B-1", "header: 'UP^~DOWN\\'")
    text = table("toy", size="small", format="latex", output=project / "out.tex")
    assert r"\caption{100 \% R\&D\_x (size small)}" in text
    assert r"DM-Base & paper & 12.00$^{*}$ & 80.0 &  &  \\" in text
    assert r"local & 10.25 $\pm$ 0.07 & --" in text
    assert r"System &  & UP\textasciicircum{}\textasciitilde{}DOWN\textbackslash{} $\uparrow$ & SB-2" in text
    assert text.count(r"\midrule") == 2, "a rule between groups"
    assert all(line.startswith("%") for line in text.partition("\\end{table}\n")[2].splitlines())
    assert (project / "out.tex").read_text() == text


@pytest.mark.usefixtures("results")
def test_verdicts_have_gain_and_p_values(store):
    found = verdicts()
    assert (found["B-1"]["gain"], found["B-1"]["verdict"], found["PPL"]["verdict"]) == ("+0.75", "wins", "undecided")
    assert re.fullmatch(r"0\.0\d+", found["B-1"]["p (seeds)"])
    assert re.fullmatch(r"0\.000\d+", found["B-1"]["p (items)"])
    assert (found["PPL"]["gain"], found["PPL"]["p (items)"]) == ("+5.00", "")
    store("Base", 1, {"bleu1": 10.2})
    assert verdicts()["B-1"]["p (items)"] == "not tested: no per-item scores of Base", "a seed lacks them"
    store("DM-Base", 1, {"bleu1": 11.0}, settings={"bleu1": "scorer b"})
    store("DM-Base", 2, {"bleu1": 11.0}, settings={"bleu1": "scorer b"})
    assert verdicts()["B-1"]["verdict"] == "not compared: judged by different models or settings"


@pytest.mark.parametrize(("share", "verdict"), [(0.0212, "undecided"), (0.0214, "not compared: the shares of <unk>")])
@pytest.mark.usefixtures("results")
def test_perplexities_over_other_shares_of_unk_do_not_compare(store, share, verdict):
    for seed in (1, 2):
        store("DM-Base", seed, {"bleu1": 11.0, "perplexity": 45.0, "unk_rate": share})
    assert verdicts()["PPL"]["verdict"].startswith(verdict)
    assert not verdicts()["B-1"]["verdict"].startswith("not compared")


@pytest.mark.usefixtures("results")
def test_the_runs_have_their_origin(store):
    assert run_of("Base") == {
        "System": "Base", "data": "Stories (reduced), 1,000 documents", "trees": "left chain", "seeds": "1, 2",
        "parameters (M)": "2.50", "epochs": "4", "tokens (M)": "0.0400", "<unk>": "1.13 %",
        "machine": "CPU (x86_64), 2 cores, 1 thread", "date": "2026-01-02", "commit": "0123456789ab",
    }  # fmt: skip
    store("Base", 2, {"bleu1": 1.0, "texts": 9.0, "empty": 2.0}, clock=((1.0, 30.0), (2.0, 120.0)), beginning="gpt2")
    store("DM-Base", 2, {"bleu1": 1.0}, processor_seconds=600.0, measured_commit="feed", precision="32-true")
    assert (run_of("Base")["minutes"], run_of("DM-Base")["minutes"]) == ("2", "10")
    assert (run_of("DM-Base")["precision"], run_of("Base")["began from"]) == ("32-true", "gpt2")
    assert (run_of("Base")["measured by"], run_of("DM-Base")["measured by"]) == ("", "feed")
    assert run_of("Base")["empty texts"] == "2 of 9"


@pytest.mark.usefixtures("results")
def test_at_most_eight_notes_and_what_they_say(store, change):
    change("seeds: [1, 2]", "seeds: [1, 2]\nnotes: [One., Two]")
    way = Generation(top_p=0.9, seed=3)
    other = DataSource("Stories", reduced=False, fingerprint="other")
    store("Base", 3, {"bleu1": 1.0}, settings={"bleu1": "scorer a"}, generation=way, made_before="the new plateau")
    store("DM-Base", 3, {"bleu1": 11.0}, data=other, budget=Budget(4, 50_000))
    store("DM-Base, left chain", 1, {"bleu1": 1.0}, settings={"bleu1": "scorer a"})
    found = notes()
    assert len(found) <= 8
    assert "items by a paired t-test (B-1), a paired bootstrap (SB-2)" in found["Marks"]
    assert "less data than was published (all rows)" in found["Compare with care"]
    assert "NOT the same data (text or reading options differ): " in found["Compare with care"]
    assert "b: Base 40,000; DM-Base 43,333" in found["Training tokens NOT matched"]
    assert "SB-2 (Base, DM-Base): only one text" in found["Not computed"]
    assert "B-1 (Base): its seeds were judged by different models" in found["Not computed"]
    assert "Base PPL: over 2 of 3 seeds" in found["Not computed"]
    assert "SB-2, PPL (DM-Base, left chain): not measured; --remeasure" in found["Not computed"]
    assert found["Out of date"] == "made before the new plateau: Base (seed 3)."
    assert "B-1: scorer a" in found["Settings"]
    assert "top_p 0.9, temperature 1.0, seed 3" in found["Settings"]
    assert found["Notes"] == "PPL: per token; DM-Base, left chain: no syntax; One; Two."


def test_what_only_the_paper_has_or_does_not_compare_has_no_difference(store, change):
    store("Base", 1, {"bleu1": 10.0, "perplexity": 50.0})
    change("test: paired_bootstrap", "published_only: true, test: paired_bootstrap")
    assert notes()["Not computed"] == "SB-2: the data are not at hand."
    assert shown("Base", "bleu1", "difference") == "0.00"
    change("higher_better: true, test: paired_t", "higher_better: true, comparable: false, test: paired_t")
    assert "difference" not in {cell.numbers for cell in page_of(toy_results()).cells}


@pytest.mark.usefixtures("results")
def test_all_tables_at_once_each_at_a_size_that_it_has(project):
    one = (project / "experiments/tables/toy.yaml").read_text()
    other = one.replace("table: toy", "table: only\nsizes: [paper]").replace("Invented numbers", "Others")
    (project / "experiments/tables/only.yaml").write_text(other)
    text = table(size="small", files=True)
    assert text.index("**Others**") < text.index("**Invented numbers (size small)**")
    assert {path.suffix for path in (project / "results/only").iterdir()} == {".md", ".tex", ".csv", ".txt"}
    lines = list(csv.DictReader(io.StringIO(table(size="small", format="csv"))))
    assert {(line["table"], line["size"]) for line in lines} == {("toy", "small"), ("only", "paper")}


def test_the_text_of_a_wide_table_is_not_cut(store):
    data = DataSource("A corpus with a long name", reduced=True, train_documents=1000)
    for row in ("Base", "DM-Base", "DM-Base, left chain"):
        metrics = {"bleu1": 1.0, "texts": 9816.0, "empty": 1532.0, "unk_rate": 0.01}
        for seed in (1, 2):
            store(row, seed, metrics, commit=f"{seed}123456789ab+", measured_commit="cdef01234567", data=data)
    text = table("toy", size="small", format="text")
    assert "…" not in text
    assert text.count("│ DM-Base, left chain │ A") == 1
    assert max(len(line) for line in text.rpartition("┘\n")[2].splitlines()) <= 120


@pytest.mark.slow
def test_a_table_does_not_wait_for_torch():
    script = (
        "import sys, depgen.reporting.plots; from depgen.reporting.pages import table; "
        "table('dmlm_table2', size='small'); sys.exit(str('torch' in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stderr.strip() == "False"
