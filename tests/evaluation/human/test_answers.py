import numpy as np
import pytest

from depgen.errors import UserError
from depgen.evaluation.human.answers import read_answers
from depgen.evaluation.human.forms import sheet_csv
from tests.evaluation.human.raters import answered, compared, fill, mixed, side_of


def prefers_alpha(rater, row):
    return {"grammaticality": side_of(row, "alpha"), "logicality": "tie"}


def says_human(rater, row):
    return {"human": "yes" if row["text"].startswith("human") else "no"}


def test_sides_are_undone(tmp_path):
    asked = compared(number=8, raters=3)
    answers = read_answers(asked, answered(asked, tmp_path, prefers_alpha))
    assert answers.raters == ("rater-1", "rater-2", "rater-3")
    assert np.array_equal(answers.given["grammaticality"], np.ones((3, 8)))
    assert np.array_equal(answers.given["logicality"], np.zeros((3, 8)))
    assert answers.missing == 0
    assert answers.first_shown == 0.5  # alpha always wins and stands first in half of the pairs


def test_a_liking_for_the_first_text_favours_nobody(tmp_path):
    asked = compared(number=8, raters=3)
    answers = read_answers(asked, answered(asked, tmp_path, lambda *_: {"grammaticality": "1", "logicality": "2"}))
    assert np.array_equal(answers.given["grammaticality"].sum(axis=1), np.zeros(3))
    assert np.array_equal(answers.given["grammaticality"], -answers.given["logicality"])
    assert answers.first_shown == 0.5
    only = read_answers(asked, answered(asked, tmp_path, lambda *_: {"grammaticality": "1", "logicality": "tie"}))
    assert only.first_shown == 1.0


def test_answers_stand_at_their_items_whatever_the_order(tmp_path):
    asked = compared(number=8, raters=2)
    chosen = {item.name: ("alpha" if index % 3 else "beta") for index, item in enumerate(asked.items)}
    paths = answered(asked, tmp_path, lambda _, row: {"grammaticality": side_of(row, chosen[row["item"]])})
    expected = [1.0 if index % 3 else -1.0 for index in range(8)]
    assert np.array_equal(read_answers(asked, paths[::-1]).given["grammaticality"], [expected, expected])


def test_a_turing_test_is_one_where_human(tmp_path):
    asked = mixed(number=4, raters=2)
    answers = read_answers(asked, answered(asked, tmp_path, says_human))
    expected = [float(item.systems == ("Real data",)) for item in asked.items]
    assert np.array_equal(answers.given["human"], [expected, expected])
    assert answers.first_shown is None


def test_missing_answers_and_raters_are_counted(tmp_path):
    asked = compared(number=4, raters=3)
    blank = asked.items[1].name

    def skips(rater, row):
        return {"grammaticality": "" if row["item"] == blank else " TIE ", "logicality": "tie"}

    paths = answered(asked, tmp_path, skips)[1:]
    lines = paths[0].read_text().splitlines(keepends=True)
    gone = next(line.split(",")[2] for line in lines[1:] if blank not in line)
    paths[0].write_text("".join(line for line in lines if f",{gone}," not in line) + ",,,,,,,\n")
    answers = read_answers(asked, paths)
    assert answers.raters == ("rater-2", "rater-3")
    assert answers.missing == 4  # two blanks and one line with two answers
    names = [item.name for item in asked.items]
    assert np.isnan(answers.given["grammaticality"][:, names.index(blank)]).all()
    assert np.isnan(answers.given["logicality"][0, names.index(gone)])
    assert np.isfinite(answers.given["logicality"][1]).all()


def test_what_spreadsheets_make_of_a_sheet_is_read(tmp_path):
    asked = mixed(number=2, raters=1)
    [path] = answered(asked, tmp_path, says_human)
    as_it_is = read_answers(asked, [path]).given["human"]
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b",", b";").replace(b"\n", b"\r\n"))
    assert np.array_equal(read_answers(asked, [path]).given["human"], as_it_is)


@pytest.mark.parametrize("odd", ["\u2028", "\x85", "\x0c", "\x1c"])
def test_only_line_ends_end_rows(tmp_path, odd):
    asked = mixed(number=2, raters=1)
    [path] = answered(asked, tmp_path, says_human)
    as_it_is = read_answers(asked, [path]).given["human"]
    path.write_text(path.read_text(encoding="utf-8").replace("human ", f"human{odd}"), encoding="utf-8")
    assert np.array_equal(read_answers(asked, [path]).given["human"], as_it_is)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("rater-1", "rater-9"), r"a.csv:2: rater 'rater-9' is none of rater-1, rater-2"),
        (lambda text: text.replace("item-2,", "item-77,"), r"a.csv:\d: there is no 'item-77'"),
        (lambda text: text.replace("item-2,", "item-1,"), r"a.csv:\d: item-1 occurs twice"),
        (lambda text: text.replace("q-", "p-"), r"a.csv:2: this answers questionnaire 'p-.*', the key is of q-"),
        (lambda text: text.replace(",tie", ",draw", 1), r"grammaticality is 'draw'; expected one of 1, 2, tie"),
        (lambda text: text.replace("logicality", "logic"), r"a.csv:1: .*logicality are not there"),
        (lambda text: text.splitlines()[0], "expected answers below the header, found none"),
        (lambda text: "", "a.csv:1: expected the columns"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path, change, message):
    asked = compared(number=4, raters=2)
    path = fill(
        sheet_csv(asked, asked.sheets[0]), tmp_path / "a.csv", lambda *_: {"grammaticality": "tie", "logicality": "1"}
    )
    path.write_text(change(path.read_text()))
    with pytest.raises(UserError, match=message):
        read_answers(asked, [path])


def test_a_rater_answers_once(tmp_path):
    asked = compared(number=4, raters=2)
    paths = answered(asked, tmp_path, prefers_alpha)
    copy = tmp_path / "copy.csv"
    copy.write_text(paths[0].read_text())
    with pytest.raises(UserError, match=r"copy\.csv:2: rater-1 .*rater-1\.csv"):
        read_answers(asked, [*paths, copy])


def test_files_are_wanted_that_can_be_read(tmp_path):
    asked = compared(number=4)
    with pytest.raises(UserError, match="No answers"):
        read_answers(asked, [])
    with pytest.raises(UserError, match="expected a rater's CSV file"):
        read_answers(asked, [tmp_path / "none.csv"])
    (tmp_path / "latin.csv").write_bytes(b"\xe9")
    with pytest.raises(UserError, match="expected UTF-8"):
        read_answers(asked, [tmp_path / "latin.csv"])
