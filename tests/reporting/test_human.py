"""People's answers beside the published tables."""

import csv
import io
import itertools
import json
import math
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import rankdata

from depgen.cli import main
from depgen.errors import UserError
from depgen.metrics.significance import bootstrap_interval
from depgen.reporting.human import (
    QUESTIONS,
    export,
    item_means,
    krippendorff_alpha,
    pairwise,
    read_key,
    read_outcome,
    score,
    signed_rank,
    single,
    write_folder,
)
from depgen.reporting.table import load_definition
from tests.reporting.raters import answer, compared, mixed, side_of

NAN = np.nan
# Krippendorff, "Computing Krippendorff's alpha-reliability" (2011), section C: four observers, twelve units.
OBSERVERS = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, NAN, NAN, NAN],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NAN, 3],
        [NAN, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NAN],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NAN],
    ]
)


def test_alpha_of_krippendorffs_own_example():
    # By hand: the coincidences agree on 7 + 10 + 8 + 4 + 3 = 32 of 40 values, the values' counts are 9, 13, 10, 5, 3:
    # ((40 - 1) 32 - 344) / (40 (40 - 1) - 344) = 904 / 1216, where 344 = 9 8 + 13 12 + 10 9 + 5 4 + 3 2.
    assert krippendorff_alpha(OBSERVERS) == pytest.approx(904 / 1216, abs=1e-12)
    # The same source prints 0.849 for the interval level of these data.
    assert krippendorff_alpha(OBSERVERS, "interval") == pytest.approx(0.849, abs=5e-4)


def test_alpha_where_there_is_nothing_to_agree_on():
    assert krippendorff_alpha(np.ones((3, 4))) is None
    assert krippendorff_alpha(np.array([[1.0, NAN], [NAN, 0.0]])) is None
    assert krippendorff_alpha(np.array([[1.0, 0.0]])) is None
    assert krippendorff_alpha(np.array([[1.0, 0.0, -1.0]] * 3)) == 1.0
    assert signed_rank(np.array([0.0, 0.0, NAN])) == 1.0


def test_the_papers_rates_do_not_bear_out_one_of_its_stars():
    # DM-LSTM against AWD-LSTM in logicality: 43.0 % wins, 34.5 % losses, starred for p < 0.01.
    for judged, p_value in ((400, 0.053), (500, 0.029)):
        wins, losses = round(0.43 * judged), round(0.345 * judged)
        units = np.repeat([1.0, -1.0, 0.0], [wins, losses, judged - wins - losses])
        assert signed_rank(units) == pytest.approx(p_value, abs=5e-4)


# -- draws ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("items", [10, 11])
def test_every_rater_sees_each_system_first_in_half_of_the_pairs(items):
    shown = compared(30, number=items, raters=5, seed=3).shown
    words = {"DM-Net": "alpha", "Net": "beta"}
    for _, sheet in shown.groupby("rater"):
        assert set(sheet["item"]) == {f"item-{place}" for place in range(1, items + 1)}
        assert (sheet["system_1"] == "Net").sum() in {items // 2, (items + 1) // 2}
        for row in sheet.to_dict("records"):
            number = row["line"] - 1
            assert row["context"] == f"context {number} ."
            assert {row["system_1"], row["system_2"]} == {*words}
            assert all(row[f"text_{side}"] == f"{words[row[f'system_{side}']]} {number} ." for side in (1, 2))
    assert len({tuple(sheet["item"]) for _, sheet in shown.groupby("rater")}) == 5


def test_the_seed_decides_everything_and_another_rater_changes_nothing_for_the_others():
    three, four = compared(30, number=9, raters=3), compared(30, number=9, raters=4)
    assert four.shown[four.shown["rater"] != "rater-4"].equals(three.shown)
    assert three.name == compared(30, number=9, raters=3).name
    assert three.name != compared(30, number=9, raters=3, seed=5).name


def test_empty_and_identical_pairs_are_left_out_and_counted():
    systems = {"A": ["a", "", "same  text", "b", "c"], "B": ["x", "y", " same text", "  ", "z"]}
    questionnaire = pairwise(systems, ["k"] * 5, number=2)
    assert questionnaire.left_out == 3
    assert {*questionnaire.shown["line"]} == {1, 5}
    assert single("turing", {"A": ["a", "", "b"], "B": ["x", "y"]}, number=2).left_out == 1


def test_single_sentences_are_mixed():
    questionnaire = mixed(sentences=40, number=20, raters=2)
    items = questionnaire.shown.drop_duplicates("item").sort_values("item", key=lambda names: names.str[5:].astype(int))
    assert items["system_1"].value_counts().to_dict() == {"Net": 20, "Web": 20, "Real data": 20}
    changes = sum(one != other for one, other in itertools.pairwise(items["system_1"]))
    assert changes > 25  # 40 expected by chance, 2 if the names told who wrote


def test_ratings_are_shared_evenly():
    questionnaire = mixed("rating", 60, number=60, raters=18, per_sentence=3)
    shown = questionnaire.shown
    assert {*shown.groupby("item")["rater"].nunique()} == {3}
    assert {*shown.groupby(["rater", "system_1"]).size()} == {10}
    assert shown["item"].nunique() == 180
    owners = list(shown.loc[shown["rater"] == "rater-1", "system_1"])
    assert owners != sorted(owners)


# -- folders ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Texts of two systems, their contexts and human sentences."""
    monkeypatch.chdir(tmp_path)
    for name, word in (("a", "alpha"), ("b", "beta"), ("contexts", "beginning"), ("real", "human")):
        Path(f"{name}.txt").write_text("".join(f"{word} {number} .\n" for number in range(1, 9)))
    for name in "ab":
        rows = [{"prompt": f"beginning {n} .", "text": f"{name} {n}"} for n in range(1, 9)]
        Path(f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return tmp_path


def test_what_is_sent_says_nothing_of_who_wrote_what(files, capsys):
    arguments = ["--texts", "DM-Net=a.txt", "Base-Net=b.txt", "--number", "5", "--raters", "2"]
    assert main(["human-eval", "export", *arguments, "--contexts", "contexts.txt", "--output", "pair"]) == 0
    assert "5 items of DM-Net, Base-Net for 2 raters in pair." in capsys.readouterr().out
    assert main(["human-eval", "export", *arguments, "--real", "real.txt", "--output", "mixed"]) == 0
    sent = [path for folder in ("pair", "mixed") for path in (files / folder / "raters").iterdir()]
    assert sorted(path.name for path in sent) == sorted(["instructions.txt", "rater-1.csv", "rater-2.csv"] * 2)
    for path in sent:
        content = path.read_text(encoding="utf-8-sig")
        assert not any(word in content for word in ("Net", "Real data", "a.txt", "b.txt", "real.txt"))
    questionnaire = read_key(files / "pair")
    rows = list(csv.DictReader(io.StringIO((files / "pair/raters/rater-2.csv").read_text(encoding="utf-8-sig"))))
    assert {row["questionnaire"] for row in rows} == {questionnaire.name}
    shown = questionnaire.shown[questionnaire.shown["rater"] == "rater-2"]
    columns = ["item", "context", "text_1", "text_2"]
    assert [[row[name] for name in columns] for row in rows] == shown[columns].to_numpy().tolist()


def test_contexts_are_the_prompts_of_json_lines(files):
    export(texts=["A=a.jsonl", "B=b.jsonl"], number=4, output=files / "out")
    shown = read_key(files / "out").shown
    assert all(shown["context"] == [f"beginning {line} ." for line in shown["line"]])
    Path("contexts.txt").write_text("another\n" * 8)
    with pytest.raises(UserError, match="different contexts"):
        export(texts=["A=a.jsonl", "B=b.jsonl"], contexts=Path("contexts.txt"), number=4, output=files / "other")


@pytest.mark.parametrize("questionnaire", [compared(number=5), mixed(number=5), mixed("rating", number=5)])
def test_the_key_restores_the_questionnaire(questionnaire, tmp_path):
    write_folder(questionnaire, tmp_path)
    instructions = (tmp_path / "raters/instructions.txt").read_text()
    assert questionnaire.kind == "pairwise" or "read 15 sentences" in instructions
    restored = read_key(tmp_path)
    assert (restored.name, restored.systems) == (questionnaire.name, questionnaire.systems)
    assert restored.shown.equals(questionnaire.shown)
    write_folder(questionnaire, tmp_path)
    with pytest.raises(UserError, match="belongs to another questionnaire"):
        write_folder(mixed(number=4), tmp_path)


# -- answers ----------------------------------------------------------------------------------------------------------


def figures(outcome):
    """Values by system and measure."""
    return outcome.figures.set_index(["system", "measure"])["value"].to_dict()


def test_sides_are_undone(tmp_path):
    write_folder(compared(number=8, raters=3), tmp_path)
    # All prefer alpha's grammar. In logic, two of three raters do; the third prefers the text shown first.
    answer(
        tmp_path,
        lambda rater, row: {
            "grammaticality": side_of(row, "alpha"),
            "logicality": "1" if rater == "rater-3" else side_of(row, "alpha"),
        },
    )
    outcome = read_outcome(tmp_path)
    values = figures(outcome)
    assert [values["DM-Net vs. Net", f"grammaticality_{name}"] for name in ("win", "lose", "tie")] == [100, 0, 0]
    assert values["DM-Net vs. Net", "grammaticality_alpha"] is None
    assert values["DM-Net vs. Net", "grammaticality_p_items"] == pytest.approx(2 / 2**8)  # all signs alike
    assert values["DM-Net vs. Net", "logicality_win"] == pytest.approx(100 * 20 / 24)
    # In 4 of 8 items 4 of 6 ordered pairs of raters differ; of all 24 answers 20 are 1 and 4 are -1.
    alpha = 1 - (4 * 4 / 2 / 24) / (2 * 20 * 4 / (24 * 23))
    assert values["DM-Net vs. Net", "logicality_alpha"] == pytest.approx(alpha)
    turned = figures(read_outcome(tmp_path, ["Net vs. DM-Net"]))
    assert turned["Net vs. DM-Net", "logicality_lose"] == pytest.approx(100 * 20 / 24)
    assert turned["Net vs. DM-Net", "logicality_alpha"] == pytest.approx(values["DM-Net vs. Net", "logicality_alpha"])


def test_missing_answers_and_raters_are_counted(tmp_path):
    write_folder(compared(number=4, raters=3), tmp_path)
    answer(
        tmp_path,
        lambda rater, row: {
            "grammaticality": "" if row["item"] == "item-2" else " TIE ",
            "logicality": "" if row["item"] == "item-2" and rater == "rater-3" else side_of(row, "alpha"),
        },
    )
    (tmp_path / "answers/rater-1.csv").unlink()
    path = tmp_path / "answers/rater-2.csv"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if ",item-3," not in line) + ",,,,,,,\n")
    outcome = read_outcome(tmp_path)
    assert outcome.raters == 2
    assert outcome.missing == 5  # three blanks and a line with two answers
    values = figures(outcome)
    assert (values["DM-Net vs. Net", "grammaticality_tie"], values["DM-Net vs. Net", "logicality_win"]) == (100, 100)


def test_sentences_are_judged_by_their_writers(tmp_path):
    write_folder(mixed(number=4, raters=5), tmp_path)
    answer(
        tmp_path,
        lambda rater, row: {"human": "yes" if rater < "rater-5" and not row["text"].startswith("gamma") else "no"},
    )
    outcome = read_outcome(tmp_path)
    values = figures(outcome)
    assert [values[name, "human"] for name in ("Net", "Web", "Real data")] == pytest.approx([0.8, 0.0, 0.8])
    # 8 of 12 items have 4 yes and 1 no: 8 of their 20 ordered pairs differ; of 60 answers 32 are yes.
    assert values["", "alpha"] == pytest.approx(1 - (8 * 8 / 4 / 60) / (2 * 32 * 28 / (60 * 59)))


def test_ratings_are_means_and_deviations_over_sentences(tmp_path):
    write_folder(mixed("rating", 60, number=60, raters=18, per_sentence=3), tmp_path)

    def judge(rater, row):
        word, number = row["text"].split()[:2]
        return {"rating": "5" if word == "human" else str(1 + (int(number) + int(rater.split("-")[1])) % 4)}

    answer(tmp_path, judge)
    outcome = read_outcome(tmp_path)
    shown = outcome.questionnaire.shown
    own = shown[shown["system_1"] == "Net"]
    ratings = own.assign(
        rating=[float(judge(row["rater"], {"text": row["text_1"]})["rating"]) for row in own.to_dict("records")]
    ).groupby("item")["rating"]
    values = figures(outcome)
    assert values["Net", "rating"] == pytest.approx(ratings.mean().mean())
    assert values["Net", "deviation"] == pytest.approx(ratings.std(ddof=1).mean())
    assert (values["Real data", "rating"], values["Real data", "deviation"]) == (5, 0)
    answers = [
        (row["rater"], row["item"], float(judge(row["rater"], {"text": row["text_1"]})["rating"]))
        for row in shown.to_dict("records")
    ]
    table = pd.DataFrame(answers, columns=["rater", "item", "value"]).pivot(index="rater", columns="item")
    assert values["", "alpha"] == pytest.approx(krippendorff_alpha(table.to_numpy(), "interval"))


def test_what_spreadsheets_make_of_a_sheet_is_read(tmp_path):
    write_folder(mixed(number=2, raters=1), tmp_path)
    answer(tmp_path, lambda rater, row: {"human": "yes" if row["text"].startswith("human") else "no"})
    before = figures(read_outcome(tmp_path))
    path = tmp_path / "answers/rater-1.csv"
    path.write_bytes(path.read_bytes().replace(b"human ", "human\u2028".encode()))
    assert figures(read_outcome(tmp_path)) == before
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b",", b";").replace(b"\n", b"\r\n"))
    path.rename(tmp_path / "answers/rater-1.CSV")
    assert figures(read_outcome(tmp_path)) == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("rater-1", "rater-9"), "of rater-9 in .*: unknown to the key"),
        (lambda text: text.replace("item-2,", "item-77,"), "item-77 of rater-1 in .*: unknown to the key"),
        (lambda text: text.replace("item-2,", "item-1,"), "item-1 of rater-1 in .*: .* answered twice"),
        (lambda text: text.replace("q-", "p-"), "in p-.*: unknown to the key"),
        (lambda text: text.replace(",tie", ",draw", 1), "grammaticality is 'draw'; expected 1, 2, tie"),
        (lambda text: text.replace("logicality", "logic"), "logicality are not there"),
        (lambda text: re.sub(",tie,1", ",tie,", text), "logicality: expected at least one answer"),
    ],
)
def test_answers_that_do_not_fit_are_refused(tmp_path, change, message):
    write_folder(compared(number=4, raters=1), tmp_path)
    with pytest.raises(UserError, match="No answers"):
        read_outcome(tmp_path)
    answer(tmp_path, lambda *_: dict(zip(QUESTIONS["pairwise"], ("tie", "1"), strict=True)))
    path = tmp_path / "answers/rater-1.csv"
    path.write_text(change(path.read_text()))
    with pytest.raises(UserError, match=message):
        read_outcome(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"texts": ["A=a.txt"]}, "two systems, found 1"),
        ({"texts": ["A=a.txt", "A=b.txt"]}, "A=b.txt: expected NAME=FILE, with another name"),
        ({"contexts": None}, "give --contexts FILE"),
        ({}, "at least 100 texts of A and B to draw from, found 8"),
        ({"contexts": Path("short.txt"), "number": 1}, "a text of A for each of the 1 contexts, found 8"),
        ({"rate": True, "contexts": None, "number": 5, "raters": 4, "per_sentence": 3}, "--per_sentence"),
    ],
)
def test_questionnaires_that_cannot_be_made_are_refused(files, options, message):
    (files / "short.txt").write_text("one\n")
    with pytest.raises(UserError, match=message):
        export(**{"texts": ["A=a.txt", "B=b.txt"], "contexts": Path("contexts.txt"), "output": Path("out"), **options})
    assert not Path("out").exists()


APART = {"nominal": lambda one, other: one != other, "interval": lambda one, other: (one - other) ** 2}


def alpha_by_pairs(ratings, level="nominal"):
    """1 - observed / expected disagreement, counted pair by pair; a unit's pairs weigh 1 / (its values - 1)."""
    apart = APART[level]
    units = [[value for value in unit if not np.isnan(value)] for unit in ratings.T]
    units = [unit for unit in units if len(unit) > 1]
    values = [value for unit in units for value in unit]
    observed = sum(
        sum(apart(*pair) for pair in itertools.permutations(unit, 2)) / (len(unit) - 1) for unit in units
    ) / len(values)
    pairs = list(itertools.permutations(values, 2))
    return 1 - observed / (sum(apart(*pair) for pair in pairs) / len(pairs))


@pytest.mark.parametrize("level", ["nominal", "interval"])
def test_alpha_is_one_less_observed_over_expected_disagreement(level):
    generator = np.random.default_rng(0)
    for _ in range(20):
        ratings = generator.integers(-1, 2, (5, 12)).astype(float)
        ratings[generator.random(ratings.shape) < 0.3] = NAN
        assert krippendorff_alpha(ratings, level) == pytest.approx(alpha_by_pairs(ratings, level), abs=1e-12)


def test_the_test_is_the_normal_approximation_of_the_rank_sum():
    units = np.random.default_rng(3).choice([1.0, 0.0, -1.0], (5, 100), p=[0.4, 0.3, 0.3]).mean(axis=0)
    tested = units[units != 0]
    ranks = rankdata(abs(tested))
    # Under no difference each rank has either sign by a fair coin: the signed ranks' sum has variance sum r^2.
    z = (ranks * np.sign(tested)).sum() / np.sqrt((ranks**2).sum())
    assert signed_rank(units) == pytest.approx(math.erfc(abs(z) / math.sqrt(2)), rel=1e-9)
    assert signed_rank(np.array([0.0, 0.0, NAN])) == 1.0


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    generator = np.random.default_rng(7)
    covered = 0
    for _ in range(100):  # items differ in how often they are preferred, so that their raters are alike
        chances = generator.beta(2, 2, 100)
        share = bootstrap_interval(item_means((generator.random((5, 100)) < chances).astype(float)))
        covered += share.low <= 0.5 <= share.high
    assert 88 <= covered <= 99


# -- beside published figures -----------------------------------------------------------------------------------------

ROOT = Path(__file__).parents[2]
PUBLISHED = Path("experiments/tables/human")


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A project with the published tables."""
    shutil.copytree(ROOT / PUBLISHED, tmp_path / PUBLISHED)
    monkeypatch.chdir(tmp_path)


def compare(folder, *names):
    texts = {name: [f"{word} {n}" for n in range(40)] for name, word in zip(names, ("alpha", "beta"), strict=True)}
    write_folder(pairwise(texts, ["so"] * 40, number=40), Path(folder))
    # Grammar: all alike. Logic: alpha, for four of five raters.
    answer(
        Path(folder),
        lambda rater, row: {
            "grammaticality": "tie",
            "logicality": side_of(row, "beta" if rater == "rater-5" else "alpha"),
        },
    )


def numbers(folders, system, whose="local"):
    """(value, star) by measure of one of a system's lines."""
    rows = csv.DictReader(io.StringIO(score([Path(folder) for folder in folders], format="csv")))
    return {
        row["measure"]: (float(row["value"]), row["mark"] == "*")
        for row in rows
        if row["value"] and (row["system"], row["numbers"]) == (system, whose)
    }


def test_pairs_stand_beside_the_published_ones_in_their_direction(capsys):
    compare("forth", "DM-Transformer", "Transformer")
    compare("back", "ON-LSTM", "DM-LSTM")
    compare("other", "DM-Net", "Net")
    folders = ["forth", "back", "other"]
    assert main(["human-eval", "score", *folders, "--output", "table.md"]) == 0
    assert Path("table.md").read_text() == capsys.readouterr().out
    forth = numbers(folders, "DM-Transformer vs. Transformer")
    assert (forth["logicality_win"], forth["logicality_lose"]) == ((80.0, True), (20.0, False))
    assert forth["grammaticality_tie"] == (100.0, False)
    assert "grammaticality_alpha" not in forth
    back = numbers(folders, "DM-LSTM vs. ON-LSTM")
    assert (back["logicality_win"], back["logicality_lose"]) == ((20.0, False), (80.0, True))
    assert numbers(folders, "DM-Transformer vs. Transformer", "paper")["logicality_win"] == (50.6, True)
    assert "DM-Net vs. Net†" in Path("table.md").read_text()
    values = {row["measure"]: row["value"] for row in json.loads(score([Path("forth")], json=True))}
    assert values["grammaticality_alpha"] is None
    assert values["logicality_p_items"] < 1e-6
    compare("again", "Transformer", "DM-Transformer")
    with pytest.raises(UserError, match="A pair is in two folders"):
        score([Path("forth"), Path("again")])


@pytest.mark.parametrize(
    ("kind", "question", "answers", "system", "published"),
    [
        ("turing", "human", ("yes", "no"), "Transformer", {"human": 0.4}),
        ("rating", "rating", ("5", "2"), "ITEXP, words", {"rating": 3.28, "deviation": 0.73}),
        ("rating", "rating", ("5", "2"), "x10", {"rating": 3.16, "deviation": 0.79}),
    ],
)
def test_single_sentences_stand_beside_the_table_that_has_the_systems(kind, question, answers, system, published):
    texts = {system: [f"one {n}" for n in range(9)], "Net": [f"other {n}" for n in range(9)]}
    write_folder(single(kind, texts, number=9, raters=3), Path("out"))
    answer(Path("out"), lambda rater, row: {question: answers[row["text"].startswith("other")]})
    ours = {"yes": 1.0, "5": 5.0}[answers[0]]
    assert numbers(["out"], system)[question] == (ours, False)
    assert {name: value for name, (value, _) in numbers(["out"], system, "paper").items()} == published
    assert not numbers(["out"], system, "difference")
    text = score([Path("out")])
    assert "Net†" in text
    assert "out: alpha 1." in text
    compare("pair", "DM-Net", "Net")
    with pytest.raises(UserError, match="they make different tables"):
        score([Path("out"), Path("pair")])


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
