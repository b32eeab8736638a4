"""People's answers beside the published tables."""

import csv
import io
import json
import shutil
from pathlib import Path

import pytest

from depgen.cli import main
from depgen.errors import UserError
from depgen.reporting.human import pairwise, score, single, write_folder
from depgen.reporting.table import load_definition
from tests.reporting.raters import answer, side_of

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
