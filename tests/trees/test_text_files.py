"""Lines, and tables as pandas, R, spreadsheets and people write them."""

import gzip

import pandas
import pytest

from depgen.trees.text_files import read_columns, read_lines

TEXTS = ['She said " go " .', '" Go away , " she said .', "Well , no", ""]


def read(path, separator):
    return [(line, list(row.values())) for line, row in read_columns(path, separator=separator)]


@pytest.mark.parametrize("quoting", [0, 1, 2])
@pytest.mark.parametrize(("separator", "name"), [(",", "comma"), ("\t", "tab")])
def test_what_pandas_writes_is_read_back(tmp_path, separator, name, quoting):
    path = tmp_path / "a"
    frame = pandas.DataFrame({"text": TEXTS, "item": range(4)})
    frame.to_csv(path, sep=separator, quoting=quoting, index=False)
    rows = read(path, name)
    assert rows == [(line, [text, str(line - 2)]) for line, text in enumerate(TEXTS, start=2)]


def test_one_column_keeps_its_empty_texts(tmp_path):
    for separator in ("comma", "tab"):
        path = tmp_path / separator
        path.write_text('text\nA b .\n""\n\nC .\n')
        assert read(path, separator) == [(2, ["A b ."]), (3, [""]), (5, ["C ."])]


def test_a_table_may_be_packed_begin_with_a_mark_and_have_lines_in_cells(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress('\ufefftext,item\r\n"a\nb",1\r\n,\r\nc,2\r\n'.encode()))
    assert read(path, "comma") == [(2, ["a\nb", "1"]), (5, ["c", "2"])]


def test_a_cell_may_hold_a_long_document(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text\n" + "word " * 30_000)
    assert [len(cells[0].split()) for _, cells in read(path, "comma")] == [30_000]


def test_quote_marks_of_the_text_stay_where_cells_are_not_quoted(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text('good\tbad\n" Go , " she said .\tHe said " no " .\n" No ! "\tx\n')
    assert [cells for _, cells in read(path, "tab_unquoted")] == [
        ['" Go , " she said .', 'He said " no " .'], ['" No ! "', "x"],
    ]  # fmt: skip


def test_numbers_and_lines(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(
        b"\xef\xbb\xbfone\r\n\ntwo \xe2\x80\xa8 more\nthree"
    )  # a byte-order mark, and U+2028 within a line
    assert list(read_lines(path)) == [(1, "one"), (2, ""), (3, "two \u2028 more"), (4, "three")]


def test_unpacks_gzip(tmp_path):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"one\ntwo\n", mtime=0))
    assert list(read_lines(path)) == [(1, "one"), (2, "two")]
