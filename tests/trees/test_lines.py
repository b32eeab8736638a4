import gzip
from pathlib import Path

import pytest

from depgen.errors import UserError
from depgen.trees.lines import read_lines, read_texts


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


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"fine\nab\xe9cd\n", "a.txt:2: expected UTF-8, found byte 0xe9 at byte 3 of the line"),
        ("a.txt", b"fine\nab\0cd\n", "a.txt:2: expected UTF-8, found byte 0x00 at byte 3 of the line"),
        ("a.txt", "ab\n".encode("utf-16-le"), "found byte 0x00 at byte 2 of the line; convert the file"),
        ("a.txt", "ab\n".encode("utf-16"), "by iconv -f utf-16 -t utf-8."),
        ("a.txt", b"", "a.txt: the file is empty"),
        ("a.txt", b"one\rtwo\r", r"a.txt: expected lines that end in \n or \r\n, found ends of \r alone"),
        ("a.gz", gzip.compress(b"one\ntwo\n" * 99, mtime=0)[:-9], "cut short"),
        ("a.gz", b"no gzip", "a.gz:1: damaged or cut short"),
    ],
)
def test_errors(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UserError) as error:
        list(read_lines(path))
    assert message in str(error.value)


def test_missing_file(tmp_path):
    (tmp_path / "news.txt").write_text("a\n")
    for name, remedy in (("nwes.txt", "Did you mean 'news.txt'"), ("zz", "Check"), ("below/a", "no folder .*below")):
        with pytest.raises(UserError, match=f"No file at .*{name}.*{remedy}"):
            list(read_lines(tmp_path / name))
    with pytest.raises(UserError, match="expected a file, found a folder"):
        list(read_lines(tmp_path))


def test_texts_are_lines_and_only_line_feeds_end_them(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_bytes("\ufeffa\u2028b\r\n\n c\x0bd\n".encode())
    assert read_texts(path) == ["a\u2028b", "", " c\x0bd"]
    path.write_bytes(b"a\nb")
    assert read_texts(path) == ["a", "b"]
    path.write_bytes(b"a\n\n")
    assert read_texts(path) == ["a", ""]


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_a_file_that_may_not_be_read_is_named(tmp_path, monkeypatch, name):
    def denied(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    path = tmp_path / name
    path.write_bytes(b"one\n")
    monkeypatch.setattr(Path, "open", denied)
    monkeypatch.setattr(gzip, "open", denied)
    with pytest.raises(UserError, match=rf"{name} can't be read \(Permission denied\)"):
        list(read_lines(path))
