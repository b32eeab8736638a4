"""What readers, writers and checks of trees refuse: input, and what the message must name."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from depgen.errors import UserError
from depgen.trees.conllu import format_conllu, format_deps, read_conllu, write_conllu
from depgen.trees.graph import check_graph
from depgen.trees.pieces import piece_edges, piece_heads
from depgen.trees.sdp import format_sdp, read_sdp
from depgen.trees.sentence import Document, Sentence, check_tree
from depgen.trees.text_files import format_of, read_columns, read_lines


def conllu(*rows):
    """Lines of number, form, head, relation and DEPS; a text in place of these is a line."""
    lines = (row if isinstance(row, str) else "\t".join([*map(str, row[:2]), *"____", *map(str, row[2:]), "_"])
             for row in rows)  # fmt: skip
    return "\n".join(lines) + "\n"


def sdp(*rows):
    """Lines with a tab for each blank."""
    return "\n".join(row.replace(" ", "\t") for row in rows) + "\n"


def graphs(path):
    return read_conllu(path, graphs=True)


def by_tabs(path):
    return read_columns(path, separator="tab")


def by_commas(path):
    return read_columns(path, separator="comma")


GO, HOME = (1, "Go", 0, "root", "0:root"), (2, "home", 1, "obj", "1:obj")


@pytest.mark.parametrize(
    ("reader", "content", "message"),
    [
        (read_lines, b"fine\nab\xe9cd\n", "a:2: expected UTF-8, found byte 0xe9 at byte 3 of the line"),
        (read_lines, b"fine\nab\0cd\n", "a:2: expected UTF-8, found byte 0x00 at byte 3 of the line"),
        (read_lines, "ab\n".encode("utf-16"), "by iconv -f utf-16 -t utf-8."),
        (read_lines, b"", "a: the file is empty"),
        (read_lines, b"one\rtwo\r", r"a: expected lines that end in \n or \r\n, found ends of \r alone"),
        (by_tabs, 'a\tb\n"Go , " he said\tx\n', "a:2: expected cells whose quote marks match"),
        (by_commas, 'a,b\n"Go , " he said,x\n', "a:2: expected cells whose quote marks match"),
        (by_commas, 'a,b\n1,2\n"Go,x\n', "a:3: expected cells whose quote marks match"),
        (by_commas, "a,b\nyes, no,1\n", "a:2: expected 2 columns, found 3"),
        (by_tabs, "a\tb\n1\n", "a:2: expected 2 columns, found 1"),
        (by_commas, "a,a\n1,2\n", "a:1: expected columns of different names, found a twice"),
        (by_commas, "\n\n", "a: expected the names of columns"),
        (read_conllu, "# nothing\n\n", "a: expected sentences in CoNLL-U, found none"),
        (read_conllu, conllu(GO, (2, "home", 9, "obj", "_")), "a:2: token 2 has head 9, but the sentence has 2 words"),
        (read_conllu, conllu((1, "Go", 2, "x", "_"), (2, "home", 1, "y", "_")), "no root"),
        (read_conllu, conllu(GO, (4, "home", 1, "obj", "_")), "a:2: expected token 2, found 4"),
        (read_conllu, conllu(GO, (2, "", 1, "obj", "_")), "a:2: expected a form, found '' for token 2"),
        (read_conllu, conllu(GO, "2\thome"), "a:2: expected 10 columns separated by tabs, found 2"),
        (read_conllu, conllu(GO, (2, "home", "_", "obj", "_")), "a:2: expected the number of token 2's head, found '_"),
        (graphs, conllu(GO, (2, "home", 1, "obj", "9:obj")), "a:2: node 2 has head 9, which is no node"),
        (graphs, conllu(GO, (2, "home", 1, "obj", "obj")), "a:2: node 2: expected DEPS as head:label"),
        (graphs, conllu(GO, (2, "home", 1, "obj", "1:obj|1:obj")), "a:2: token 2 (home) has head 1 with label obj tw"),
        (graphs, conllu(GO, (2, "home", 1, "obj", "2:obj")), "a:2: token 2 (home) is its own head"),
        (graphs, conllu(GO, HOME, *[("2.1", "x", "_", "_", "1:y")] * 2), "a:3: expected one node of each number"),
        (read_sdp, "#SDP 2015\n#1\n\n", "a: expected sentences in SDP, found none"),
        (read_sdp, "#SDP 2016\n" + sdp("1 Go go VB + -"), "a:1: expected #SDP 2015, or an SDP file"),
        (read_sdp, sdp("1 Go go VB +"), "a:1: expected at least 6 columns separated by tabs, found 5"),
        (read_sdp, sdp("1 Go go VB + + _", "3 on on RB - - x"), "a:2: expected token 2, found 3"),
        (read_sdp, sdp("1 Go go VB + + _", "2 on on RB - - x y"), "a:2: expected 7 columns, 6 and one for each of 1"),
        (read_sdp, "#SDP 2015\n" + sdp("1 Go go VB + + _"), "a:2: expected 8 columns, 7 and one for each of"),
        (read_sdp, sdp("1 Go go VB 1 -"), "a:1: expected + or - as top of token 1, found '1'"),
        (read_sdp, sdp("1 Go go VB + _"), "a:1: expected + or - as pred of token 1, found '_"),
        (read_sdp, sdp("1 Go go VB + + _", "2 on on RB - - "), "a:2: token 2 (on) hangs on 1 by an edge without"),
    ],
)  # fmt: skip
def test_a_file_is_named_with_its_line(tmp_path, reader, content, message):
    path = tmp_path / "a"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError) as error:
        list(reader(path))
    assert message in str(error.value)
    assert str(error.value).startswith(str(path))


@pytest.mark.parametrize("content", [gzip.compress(b"one\ntwo\n" * 99, mtime=0)[:-9], b"no gzip"])
def test_a_packed_file_that_is_damaged_is_named(tmp_path, content):
    (tmp_path / "a.gz").write_bytes(content)
    with pytest.raises(UserError, match=r"a\.gz:\d+: damaged or cut short"):
        list(read_lines(tmp_path / "a.gz"))


def test_a_file_that_is_not_there_is_named_with_one_of_a_like_name(tmp_path):
    (tmp_path / "news.txt").write_text("a\n")
    with pytest.raises(UserError, match=r"No file at .*nwes.txt.*Did you mean 'news.txt'"):
        list(read_lines(tmp_path / "nwes.txt"))


def written(edges):
    return lambda: format_sdp(Sentence(("a", "b"), edges=edges), "1")


def graph(*edges):
    return lambda: check_graph(edges, 3, lambda token: f"here:{token}", words=["x", "y", "z"])


def tree(*heads, **options):
    return lambda: check_tree(heads, "here", words="abc", **options)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: format_of(Path("wsj.mrg.gz")), "wsj.mrg.gz: expected text, "),
        *((lambda text=text: format_conllu(Sentence((text,))), "without tabs and line ends") for text in ("a\tb", "")),
        (lambda: format_conllu(Sentence(())), "no sentences without words"),
        (lambda: format_conllu(Sentence(("a",), (-1,))), "not annotated"),
        *((lambda label=label: format_deps(((0, 1, label),), 1), "DEPS: expected labels without")
          for label in ("", "a|b", "a\tb", "a\nb")),
        (written(None), "1: SDP holds sentences of words with a graph"),
        (written(((0, 1, "root"),)), "expected the label top at edges from 0 and there alone, found 'root' from 0"),
        (written(((2, 1, "_"),)), "expected labels other than _"),
        (written(((2, 1, "a"), (2, 1, "b"))), "one label for a head and a dependent, found two from 2 to 1"),
        (written(((2, 1, "a\tb"),)), "without tabs and line ends"),
        (written(((3, 1, "a"),)), "SDP: token 1 has head 3, but the sentence has 2 words"),
        (lambda: format_sdp(Sentence(("a",), edges=()), ""), "SDP: expected an identifier in one line"),
        (graph((1, 4, "a")), "here:3: token 4 has a head, but the sentence has 3 words"),
        (graph((5, 2, "a")), "here:2: token 2 (y) has head 5, but the sentence has 3 words"),
        (graph((2, 2, "a")), "here:2: token 2 (y) is its own head"),
        (graph((1, 2, "a"), (1, 2, "b"), (1, 2, "a")), "here:2: token 2 (y) has head 1 with label a twice"),
        (graph((1, 3, "")), "here:3: token 3 (z) hangs on 1 by an edge without a label"),
        (tree(0, 2), "here: token 2 is its own head"),
        (tree(2, 3, 2), "here: the sentence has no root: no token has head 0"),
        (tree(0, 3, 2), "here: tokens 2 (b) -> 3 (c) -> 2 (b) head one another in a cycle"),
        (tree(0, 0, 2, single_root=True), "here: tokens 1 and 2 have head 0, but one root is allowed"),
        (tree(0, 1, -1), "here: token 3 has head -1, but the sentence has 3 words"),
        *((lambda pieces=pieces: piece_heads([2, 0, 2], pieces), "Expected pieces of each of 3 words")
          for pieces in ([0, 2], [1, 0, 2], [0, 1, 2, 3], [0, 1, 0, 2])),
        (lambda: piece_edges(np.zeros(3, int), np.zeros(0, int), [1, 0]), "pieces of each of 2 words in order"),
    ],
)  # fmt: skip
def test_what_a_format_or_a_structure_cannot_hold_is_refused(call, message):
    with pytest.raises(UserError) as error:
        call()
    assert message in str(error.value)


@pytest.mark.parametrize("bad", [
    Document((), "empty"), Document((Sentence(("a",)),), "two\nlines"), Document((Sentence(("b\tc",)),), "d"),
])  # fmt: skip
def test_a_refusal_half_way_leaves_what_was_there(tmp_path, bad):
    path = tmp_path / "a.conllu"
    path.write_text("before")
    with pytest.raises(UserError, match="CoNLL-U"):
        write_conllu([Document((Sentence(("a",)),), "d"), bad], path)
    assert (path.read_text(), list(tmp_path.iterdir())) == ("before", [path])
