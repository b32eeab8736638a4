"""From export over simulated raters to the table, with a truth that is known."""

import csv
import io
import json
import random
import shutil
from pathlib import Path

import numpy as np
import pytest

from depgen.cli import main
from depgen.errors import UserError
from depgen.evaluation.human.outcome import read_outcome
from depgen.evaluation.human.questionnaire import read_key
from depgen.evaluation.human.statistics import krippendorff_alpha
from depgen.reporting.human_export import export
from depgen.reporting.human_scores import score
from depgen.reporting.table import load_definition
from tests.evaluation.human.raters import fill, side_of

ROOT = Path(__file__).parents[2]
PUBLISHED = Path("experiments/tables/human")


@pytest.fixture(autouse=True)
def place(project):
    """A project with the published tables and texts of two systems and of humans."""
    shutil.copytree(ROOT / PUBLISHED, project / PUBLISHED)
    for name, word in (("a", "alpha"), ("b", "beta"), ("real", "human"), ("contexts", "beginning")):
        (project / f"{name}.txt").write_text("".join(f"{word} {line} .\n" for line in range(1, 61)))
    return project


def compare(folder, *names, **options):
    texts = [f"{name}={file}.txt" for name, file in zip(names, "ab", strict=True)]
    export(texts=texts, contexts=Path("contexts.txt"), output=Path(folder), **{"number": 40, **options})


def of_rows(folder):
    """Make the key that of a table's rows at size small, as earlier versions wrote it."""
    key = Path(folder, "key.json")
    content = json.loads(key.read_text()) | {"profile": "small"}
    del content["of_paper"]
    key.write_text(json.dumps(content))


def answer(folder, judge):
    """Let every rater of a questionnaire answer."""
    for sheet in Path(folder, "raters").glob("*.csv"):
        fill(sheet.read_text(encoding="utf-8-sig"), Path(folder, "answers", sheet.name), judge)


def line_of(row):
    return int(row["context"].split()[1])


def judge(rater, row):
    """Grammaticality: alpha up to line 30, ties up to 45, then beta. Logicality: alpha, for all raters but one."""
    line = line_of(row)
    better = side_of(row, "alpha") if line <= 30 else "tie" if line <= 45 else side_of(row, "beta")
    other = "beta" if rater == "rater-5" else "alpha"
    return {"grammaticality": better, "logicality": side_of(row, other)}


def numbers(table, system):
    """(measure, value, star) of a system's own line."""
    rows = [row for row in csv.DictReader(io.StringIO(table)) if row["value"]]
    return {r["measure"]: (float(r["value"]), r["mark"] == "*") for r in rows if (r["system"], r["numbers"]) == system}


def test_what_raters_think_comes_back(capsys):
    compare("out", "DM-Transformer", "Transformer")
    of_rows("out")
    answer("out", judge)
    assert main(["human-eval", "score", "out", "--format", "csv", "--output", "table.csv"]) == 0
    table = capsys.readouterr().out
    assert Path("table.csv").read_text() == table
    lines = [item.line for item in read_key(Path("out/key.json")).items]
    shares = [100 * sum(low < line <= high for line in lines) / 40 for low, high in ((0, 30), (45, 60), (30, 45))]
    found = numbers(table, ("DM-Transformer vs. Transformer", "local"))
    assert [found[f"grammaticality_{name}"][0] for name in ("win", "lose", "tie")] == shares
    assert found["grammaticality_alpha"][0] == pytest.approx(1.0)
    assert found["logicality_win"] == (80.0, True)
    assert found["logicality_lose"] == (20.0, False)
    assert found["logicality_tie"] == (0.0, False)
    # Four of five say 1, one says -1: per item 2 (4) (1) of 20 ordered pairs differ, of all 200 answers 2 (160) (40).
    assert found["logicality_alpha"][0] == pytest.approx(1 - (8 / 20) / (2 * 160 * 40 / (200 * 199)))
    paper = numbers(table, ("DM-Transformer vs. Transformer", "paper"))
    assert paper["logicality_win"] == (50.6, True)
    difference = numbers(table, ("DM-Transformer vs. Transformer", "difference"))
    assert difference["logicality_win"][0] == pytest.approx(29.4)


def test_a_pair_takes_the_papers_direction():
    compare("forth", "DM-Transformer", "Transformer")
    answer("forth", judge)
    compare("back", "Transformer", "DM-Transformer")
    answer("back", judge)
    forth, back = (
        numbers(score([Path(each)], format="csv"), ("DM-Transformer vs. Transformer", "local"))
        for each in ("forth", "back")
    )
    assert back["logicality_win"] == (20.0, False)
    assert back["logicality_lose"] == (80.0, True)
    assert back["grammaticality_alpha"][0] == pytest.approx(forth["grammaticality_alpha"][0])
    [plain] = json.loads(score([Path("back")], json=True))
    assert plain["systems"] == ["DM-Transformer", "Transformer"]
    with pytest.raises(UserError, match="A pair stands in two folders"):
        score([Path("forth"), Path("back")])


def test_several_pairs_make_one_table_and_strangers_follow():
    compare("one", "DM-LSTM", "PRPN")
    compare("two", "DM-Net", "Net")
    of_rows("one")
    for folder in ("one", "two"):
        answer(folder, judge)
    table = score([Path("two"), Path("one")], format="markdown")
    assert table.startswith("**Pairwise human evaluation of story endings on ROCStories (size small)**\n")
    systems = [line.split(" | ")[:2] for line in table.splitlines() if line.startswith("| ")]
    assert systems[1:4] == [["| DM-LSTM vs. PRPN", "paper"], ["| ", "local"], ["| ", "difference"]]
    assert systems[-1] == ["| DM-Net vs. Net†", "local"]
    assert "- †: not in the paper." in table


def test_texts_from_files_are_not_compared_with_the_papers():
    compare("out", "DM-Transformer", "Transformer")
    answer("out", judge)
    table = score([Path("out")], format="csv")
    assert numbers(table, ("DM-Transformer vs. Transformer", "local"))["logicality_win"] == (80.0, True)
    assert not numbers(table, ("DM-Transformer vs. Transformer", "difference"))
    said = score([Path("out")])
    assert said.startswith("**Pairwise human evaluation of other texts; the paper's numbers: Pairwise human")
    assert "no difference from the paper's numbers is shown" in said
    sheet = Path("out/raters/rater-1.html").read_text()
    assert "[MALE]" not in sheet
    assert "the texts may be lower-cased" in sheet
    of_rows("out")
    said = score([Path("out")])
    assert "difference" in said
    assert "other texts" not in said.splitlines()[0]


def test_what_is_not_the_papers_is_found_folder_by_folder():
    compare("files", "DM-LSTM", "PRPN")
    compare("rows", "DM-LSTM", "ON-LSTM")
    of_rows("rows")
    for folder in ("files", "rows"):
        answer(folder, judge)
    table = score([Path("files"), Path("rows")], format="csv")
    assert not numbers(table, ("DM-LSTM vs. PRPN", "difference"))
    assert numbers(table, ("DM-LSTM vs. ON-LSTM", "difference"))["logicality_win"][0] == pytest.approx(80.0 - 48.4)
    said = score([Path("files"), Path("rows")])
    assert said.startswith("**Pairwise human evaluation of story endings on ROCStories (size small)**\n")
    assert "Texts from files or of other tables (files) are not those of the paper's systems" in said


def test_what_is_missing_is_said():
    compare("out", "DM-Net", "Net")
    answer("out", lambda rater, row: judge(rater, row) | ({"logicality": ""} if line_of(row) % 2 else {}))
    odd = sum(item.line % 2 for item in read_key(Path("out/key.json")).items)
    Path("out/answers/rater-2.csv").unlink()
    table = score([Path("out")])
    assert f"40 items, 4 of 5 raters (none from rater-2); {4 * odd} of 320 answers missing" in table
    assert "0 with an empty text, 0 of identical texts (empty texts: DM-Net 0 of 60, Net 0 of 60)" in table
    assert 40 < float(table.split("the text shown first won ")[1].split(" %")[0]) < 60
    assert "texts of DM-Net from a.txt, Net from b.txt." in table
    assert "logicality: win 75.0 [75.0, 75.0], lose 25.0 [25.0, 25.0], tie 0.0 [0.0, 0.0]" in table
    answer("out", lambda rater, row: {"grammaticality": "tie"})
    with pytest.raises(UserError, match="out: logicality: expected at least one answer"):
        score([Path("out")])


def test_chance_gets_no_star_and_agreement_about_nothing_none():
    compare("out", "DM-Net", "Net", number=60)
    coin = random.Random(1)
    answer("out", lambda rater, row: {"grammaticality": coin.choice(("1", "2", "tie")), "logicality": "tie"})
    found = numbers(score([Path("out")], format="csv"), ("DM-Net vs. Net", "local"))
    assert not any(star for _, star in found.values())
    assert abs(found["grammaticality_alpha"][0]) < 0.1
    assert found["logicality_tie"][0] == 100.0
    assert "| 100.0 | – |" in score([Path("out")])


def test_a_turing_test_is_laid_out_like_table_6():
    export(texts=["Transformer=a.txt", "Net=b.txt"], real=Path("real.txt"), number=50, output=Path("out"))

    def judge_sentence(rater, row):
        word, line = row["text"].split()[:2]
        limit = {"alpha": 15, "beta": 60, "human": 45}[word]
        return {"human": "yes" if int(line) <= limit and rater != "rater-1" else "no"}

    answer("out", judge_sentence)
    table = score([Path("out")], format="csv")
    asked = read_key(Path("out/key.json"))
    for system, limit in (("Transformer", 15), ("Net", 60), ("Real data", 45)):
        judged = [item.line <= limit for item in asked.items if item.systems == (system,)]
        assert numbers(table, (system, "local"))["human"][0] == pytest.approx(0.8 * sum(judged) / 50)
    assert numbers(table, ("Transformer", "paper"))["human"][0] == 0.4
    assert "Net†" in score([Path("out")])
    assert "Net 0.800 [0.800, 0.800]" in score([Path("out")])
    [plain] = json.loads(score([Path("out")], json=True))
    assert plain["human"]["Net"]["value"] == pytest.approx(0.8)
    assert 0 < plain["alpha"]["human"] < 1
    assert plain["alpha_level"] == "nominal"
    compare("pair", "DM-Net", "Net")
    answer("pair", judge)
    with pytest.raises(UserError, match="they make different tables"):
        score([Path("out"), Path("pair")])


def test_ratings_are_laid_out_like_table_4_or_5_of_itexp():
    for names in (("ITEXP, words", "Validation sentences"), ("x10", "Net")):
        folder = names[0].split(",")[0]
        texts = [f"{name}={file}.txt" for name, file in zip(names, ("a", "real"), strict=True)]
        export(texts=texts, rate=True, number=60, raters=18, per_sentence=3, output=Path(folder))
        sheet = (Path(folder) / "raters/rater-1.html").read_text()
        assert sheet.count("<section") == 20
        assert sheet.count('value="5"') == 20

        def judge_sentence(rater, row):
            word, line = row["text"].split()[:2]
            return {"rating": "5" if word == "human" else str(1 + (int(line) + int(rater.split("-")[1])) % 2)}

        answer(folder, judge_sentence)
        asked, table = read_key(Path(folder, "key.json")), score([Path(folder)], format="csv")
        given = [
            [1 + (item.line + int(sheet.rater.split("-")[1])) % 2 for sheet in asked.sheets if item.name in sheet.items]
            for item in asked.items
            if item.systems == (names[0],)
        ]
        found = numbers(table, (names[0], "local"))
        assert found["rating"][0] == pytest.approx(np.mean(given))
        assert found["deviation"][0] == pytest.approx(np.std(given, axis=1, ddof=1).mean())
        assert numbers(table, (names[1], "local"))["rating"][0] == 5
    assert numbers(score([Path("ITEXP")], format="csv"), ("ITEXP, words", "paper"))["rating"][0] == 3.28
    assert numbers(score([Path("x10")], format="csv"), ("x10", "paper"))["deviation"][0] == 0.79
    said = score([Path("x10")])
    assert "120 items, 18 of 18 raters; 0 of 360 answers missing" in said
    assert "Mean rating: x10 1." in said
    [plain] = json.loads(score([Path("x10")], json=True))
    expected = krippendorff_alpha(read_outcome(Path("x10")).answers.given["rating"], "interval")
    assert (plain["alpha"], plain["alpha_level"]) == ({"rating": expected}, "interval")
    assert f"Krippendorff's alpha (interval) of the raters: {expected:.3f}." in said
    other = Path("x10/answers/rater-2.csv").read_text().replace("rater-2", "rater-1")
    Path("x10/answers/rater-1.csv").write_text(other)
    with pytest.raises(UserError, match=r"there is no .item-\d+. in the questionnaire of rater-1"):
        score([Path("x10")])


@pytest.mark.parametrize("format", ["markdown", "latex", "text", "csv"])
def test_every_format_shows_ours(format):
    compare("out", "DM-LSTM", "ON-LSTM")
    answer("out", judge)
    assert "80.0" in score([Path("out")], format=format) or "80," in score([Path("out")], format=format)


def test_the_published_numbers_are_the_papers(monkeypatch):
    monkeypatch.chdir(ROOT)
    table = load_definition("human/dmlm_table3")
    assert len(table.rows) == 5
    for row in table.rows:
        for aspect in ("grammaticality", "logicality"):
            assert sum(row.values[f"{aspect}_{name}"] for name in ("win", "lose", "tie")) == pytest.approx(100.0)
        assert set(row.stars) == {"grammaticality_win", "logicality_win"}
    alphas = [row.values[f"{aspect}_alpha"] for row in table.rows for aspect in ("grammaticality", "logicality")]
    assert sum(alphas) == pytest.approx(2.914)
    turing = load_definition("human/dmlm_table6")
    assert sum(row.values["human"] for row in turing.rows) == pytest.approx(3.983)
    assert turing.rows[-1].name == "Real data"


def test_the_caption_names_the_nucleus_of_ours():
    compare("out", "DM-Transformer", "Transformer")
    answer("out", judge)
    assert "ours" not in score([Path("out")]).splitlines()[0]
    key = Path("out/key.json")
    key.write_text(json.dumps(json.loads(key.read_text()) | {"top_p": 0.7}))
    assert "; ours with p = 0.7" in score([Path("out")]).splitlines()[0]
    assert json.loads(score([Path("out")], json=True))[0]["top_p"] == 0.7


def test_answers_are_found_whatever_the_case_of_their_names():
    compare("out", "DM-Transformer", "Transformer")
    answer("out", judge)
    before = score([Path("out")])
    Path("out/answers/rater-1.csv").rename("out/answers/rater-1.CSV")
    assert score([Path("out")]) == before


def test_a_key_file_in_place_of_its_folder_is_refused():
    compare("out", "DM-Transformer", "Transformer")
    with pytest.raises(UserError, match=r"No key at out/key\.json/key\.json.*: give the folder"):
        score([Path("out/key.json")])
