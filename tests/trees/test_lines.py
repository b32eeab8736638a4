import gzip

from depgen.trees.lines import read_lines


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
