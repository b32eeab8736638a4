"""Tables as pandas, R, spreadsheets and people write them: which quote marks belong to the text."""

import gzip

import pandas
import pytest

from depgen.errors import UserError
from depgen.trees.columns import read_columns

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
    path.write_text('good\tbad\n" Go , " she said .\t" Goes , " she said .\n" No ! "\tHe said " no " .\n')
    assert [cells for _, cells in read(path, "tab")] == [
        ['" Go , " she said .', '" Goes , " she said .'],
        ['" No ! "', 'He said " no " .'],
    ]


@pytest.mark.parametrize(
    ("content", "separator", "message"),
    [
        ('a\tb\n"Go !"\tx\n', "tab", "a:2: expected quote marks .* either"),
        ('a\tb\n"Go ""now"" !"\tx\n" Go , " he said\tx\n', "tab", "a:3: expected quote marks .* either"),
        ('a,b\n"Go , " he said,x\n', "comma", "a:2: .*quote marks that do not match"),
        ('a,b\n1,2\n"Go,x\n', "comma", "a:3: .*quote marks that do not match"),
        ("a,b\nyes, no,1\n", "comma", "a:2: expected 2 columns.*found 3.*commas"),
        ("a\tb\n1\n", "tab", "a:2: expected 2 columns.*found 1.*tabs"),
        ("a,a\n1,2\n", "comma", "a:1: .*found a twice"),
        ("\n\n", "comma", "a: expected the names of columns"),
    ],
)
def test_what_may_be_read_in_two_ways_or_in_none_is_refused(tmp_path, content, separator, message):
    path = tmp_path / "a"
    path.write_text(content)
    with pytest.raises(UserError, match=message):
        read(path, separator)


def test_columns_of_r_are_read(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text('"good"\t"bad"\n"The dog sees Mary ."\t"The dog see Mary ."\n')
    assert list(read_columns(path, separator="tab")) == [
        (2, {"good": "The dog sees Mary .", "bad": "The dog see Mary ."})
    ]
