"""SDP files of both releases, in the three representations: read, written, refused."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from depgen.errors import UserError
from depgen.trees.sdp import format_sdp, read_sdp, read_sdp_blocks, write_sdp
from depgen.trees.sentence import Document, Sentence
from tests.trees.trees import FORMS, graphs


def rows(text):
    """Lines with a tab for each run of blanks."""
    return "".join("\t".join(line.split()) + "\n" for line in text.strip("\n").split("\n"))


# Ada is the argument of two verbs; `to` hangs on nothing; the top of the second sentence is no predicate; the third
# sentence has no edges.
DM_2014 = rows("""
#20001001
1 Ada Ada NNP - - ARG1 _ ARG1
2 tried try VBD + + _ _ _
3 to to TO - - _ _ _
4 almost almost RB - + _ _ _
5 sing sing VB - + ARG2 ARG1 _
6 . _ . - - _ _ _

#20001002
1 Rain rain NN + -
2 ! ! . - -

#20002001
1 Um um UH - -
""") + "\n"  # fmt: skip

DM = "#SDP 2015\n" + rows("""
#20001001
1 Ada Ada NNP - - named:x-c ARG1 _ ARG1
2 tried try VBD + + v:e-i-h _ _ _
3 to to TO - - _ _ _ _
4 almost almost RB - + a:e-h _ _ _
5 sing sing VB - + v:e-i ARG2 ARG1 _
6 . _ . - - _ _ _ _

#20001002
1 Rain rain NN + - n:x
2 ! ! . - - _
""") + "\n"  # fmt: skip

PAS = "#SDP 2015\n" + rows("""
#20001001
1 Old old JJ - + _ _ _ _
2 bells bell NNS - - _ adj_ARG1 verb_ARG1 _
3 rang ring VBD + + _ _ _ adj_ARG1
4 loudly loudly RB - + _ _ _ _
""") + "\n"  # fmt: skip

PSD = "#SDP 2015\n" + rows("""
#20001001
1 Ada Ada NNP - - _ _ ACT-arg _
2 and and CC + + _ _ _ _
3 Max Max NNP - - _ _ ACT-arg CONJ.member
4 sing sing VBP - + ev-w2887f1 CONJ.member _ _
5 so so RB - + _ TWHEN _ _

#20001002
1 No no UH - - _
""") + "\n"  # fmt: skip
SAMPLES = {"DM 2014": DM_2014, "DM": DM, "PAS": PAS, "PSD": PSD}


@pytest.fixture
def written(tmp_path):
    def write(text, name="a.sdp"):
        path = tmp_path / name
        path.write_bytes(text.encode() if name.endswith("sdp") else gzip.compress(text.encode()))
        return path

    return write


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_are_written_back_byte_for_byte(written, name):
    path = written(SAMPLES[name])
    header = "" if "2014" in name else "#SDP 2015\n"
    blocks = list(read_sdp_blocks(path))
    assert (header + "".join(block.text for block in blocks)).encode() == path.read_bytes()
    for block in blocks:
        lines, edges = block.text[:-1], block.edges()
        assert block.with_graph(edges) == lines
        assert block.with_graph(()) != lines or not edges
        emptied = read_sdp_blocks(written(header + block.with_graph(()), "b.sdp"))
        assert next(emptied).with_graph(edges) == lines  # from a graph without edges all columns come back


@pytest.mark.parametrize("name", ["DM 2014", "PAS"])
def test_documents_without_lemmas_and_frames_are_written_back_byte_for_byte(written, name, tmp_path):
    lines = [line.split("\t") for line in SAMPLES[name].splitlines()]
    text = "".join("\t".join([*line[:2], "_", *line[3:]] if len(line) > 2 else line) + "\n" for line in lines)
    path = written(text)
    write_sdp(read_sdp(path), tmp_path / "out.sdp", release="2014" if "2014" in name else "2015")
    assert (tmp_path / "out.sdp").read_bytes() == path.read_bytes()


def test_a_word_of_two_heads_a_top_that_is_no_predicate_and_no_edges(written):
    first, second, third = read_sdp(written(DM_2014))
    assert [document.identifier for document in (first, second, third)] == ["20001001", "20001002", "20002001"]
    assert first.sentences == (
        Sentence(
            ("Ada", "tried", "to", "almost", "sing", "."),
            tags=("NNP", "VBD", "TO", "RB", "VB", "."),
            edges=((2, 1, "ARG1"), (5, 1, "ARG1"), (0, 2, "top"), (2, 5, "ARG2"), (4, 5, "ARG1")),
        ),
    )
    assert second.sentences[0].edges == ((0, 1, "top"),)
    assert third.sentences[0].edges == ()
    assert next(read_sdp(written(DM, "a.sdp.gz"))).sentences == first.sentences


def test_documents_by_identifiers(written, tmp_path):
    path = written(DM_2014.replace("#20002001", "#x"))
    documents = list(read_sdp(path, by_document=True))
    assert [(document.identifier, len(document.sentences)) for document in documents] == [("20001", 2), ("x", 1)]
    write_sdp(documents, tmp_path / "out.sdp", release="2014")
    assert list(read_sdp(tmp_path / "out.sdp", by_document=True)) == documents


def test_frames_and_lemmas_stay_where_a_graph_is_replaced(written):
    block = next(read_sdp_blocks(written(DM)))
    found = block.with_graph(((0, 5, "top"), (3, 6, "x")))
    assert found == rows("""
#20001001
1 Ada Ada NNP - - named:x-c _
2 tried try VBD - - v:e-i-h _
3 to to TO - + _ _
4 almost almost RB - - a:e-h _
5 sing sing VB + - v:e-i _
6 . _ . - - _ x
""")


LINE = "2\ttried\ttry\tVBD\t+\t+"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("ARG2\tARG1\t_\n", "ARG2\tARG1\n", "a.sdp:6: expected 9 columns, 6 and one for each of 3 predicates (pred +)"),
        ("ARG2\tARG1\t_\n", "ARG2\tARG1\t_\t_\n", "a.sdp:6: expected 9 columns, 6 and one for each of 3 predicates"),
        ("RB\t-\t+", "RB\t-\t-", "a.sdp:2: expected 8 columns, 6 and one for each of 2 predicates"),
        (LINE, "2\ttried\ttry\tVBD", "a.sdp:3: expected"),
        ("1\tUm\tum\tUH\t-\t-", "1\tUm\tum\tUH\t-", "a.sdp:14: expected at least 6 columns separated by tabs, found 5"),
        (LINE, "3\ttried\ttry\tVBD\t+\t+", "a.sdp:3: expected token 2, found '3'"),
        (LINE, "x\ttried\ttry\tVBD\t+\t+", "a.sdp:3: expected token 2, found 'x'"),
        (LINE, "2\t \ttry\tVBD\t+\t+", "a.sdp:3: expected a form, found ' ' for token 2"),
        (LINE, "2\ttried\ttry\tVBD\t1\t+", "a.sdp:3: expected + or - as top of token 2, found '1'"),
        (LINE, "2\ttried\ttry\tVBD\t+\t_", "a.sdp:3: expected + or - as pred of token 2, found '_'"),
        (f"{LINE}\t_", f"{LINE}\tARG1", "a.sdp:3: token 2 (tried) is its own head"),
        ("sing\tVB\t-\t+\tARG2", "sing\tVB\t-\t+\t", "a.sdp:6: token 5 (sing) hangs on 2 by an edge without a label"),
        ("#20001001\n", "#SDP 2016\n#20001001\n", "a.sdp:1: expected #SDP 2015, or an SDP file of 2014 without such"),
        ("#20001001\n", "#SDP 2015\n#20001001\n", "a.sdp:3: expected 10 columns, 7 and one for each of 3 predicates"),
    ],
)
def test_errors_name_file_and_line(written, old, new, message):
    assert old in DM_2014
    with pytest.raises(UserError) as error:
        list(read_sdp(written(DM_2014.replace(old, new, 1))))
    assert message in str(error.value)


def test_a_file_of_comments_holds_no_sentences(written):
    with pytest.raises(UserError, match="expected sentences in SDP, found none"):
        list(read_sdp(written("#SDP 2015\n#20001001\n\n")))


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        (None, "1: SDP holds sentences of words with a graph"),
        (((0, 1, "root"),), "expected the label top at edges from 0 and there alone, found 'root' from 0"),
        (((2, 1, "top"),), "expected the label top at edges from 0 and there alone, found 'top' from 2"),
        (((2, 1, "_"),), "expected labels other than _"),
        (((2, 1, "a"), (2, 1, "b")), "one label for a head and a dependent, found two from 2 to 1"),
        (((2, 1, "a\tb"),), "without tabs and line ends"),
        (((3, 1, "a"),), "SDP: token 1 has head 3, but the sentence has 2 words"),
    ],
)
def test_what_the_format_cannot_hold_is_refused(edges, message):
    with pytest.raises(UserError) as error:
        format_sdp(Sentence(("a", "b"), edges=edges), "1")
    assert message in str(error.value)


def test_documents_of_no_sentences_are_refused_and_leave_what_was_there(tmp_path):
    path = tmp_path / "a.sdp"
    path.write_text("before")
    good = Document((Sentence(("a",), edges=()),), "d")
    for bad in (Document((), "empty"), Document((Sentence(("a",), edges=()),), "")):
        with pytest.raises(UserError):
            write_sdp([good, bad], path)
    assert (path.read_text(), list(tmp_path.iterdir())) == ("before", [path])


@st.composite
def writable(draw):
    length = draw(st.integers(1, 5))
    edges = {(head, dependent): label for head, dependent, label in draw(graphs(length))}
    named = [(head, dependent, "top" if head == 0 else label) for (head, dependent), label in edges.items()]
    named = tuple(edge for edge in named if (edge[0] == 0) == (edge[2] == "top"))
    column = st.lists(FORMS, min_size=length, max_size=length).map(tuple)
    return Sentence(draw(column), tags=draw(column), edges=named)


@given(written=st.lists(writable(), min_size=1, max_size=3), release=st.sampled_from(["2014", "2015"]))
def test_round_trip(tmp_path_factory, written, release):
    path = tmp_path_factory.mktemp("round") / "trip.sdp"
    documents = [Document((sentence,), f"2{number:07d}") for number, sentence in enumerate(written)]
    write_sdp(documents, path, release=release)
    assert list(read_sdp(path)) == documents
