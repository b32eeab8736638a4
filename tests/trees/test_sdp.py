"""SDP files of both releases, in the three representations: read, written, refused."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from depgen.trees.sdp import read_sdp
from depgen.trees.sentence import Document, Sentence
from tests.trees.trees import FORMS, graphs, write_sdp


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
def test_documents_are_written_back_byte_for_byte_but_for_lemmas_and_frames(written, name, tmp_path):
    release = "2014" if "2014" in name else "2015"
    lines = [line.split("\t") for line in SAMPLES[name].splitlines()]
    for line in lines:
        if len(line) > 2:
            line[2:3] = "_"
            line[6 : 6 + (release == "2015")] = "_" * (release == "2015")
    path = written("".join("\t".join(line) + "\n" for line in lines))
    write_sdp(read_sdp(path), tmp_path / "out.sdp", release=release)
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


def test_headers_and_comments_between_sentences_are_no_identifiers(written):
    comments = "# text = Ada tried to\n#20001003\n" + PAS.split("\n", 2)[2]
    named = "# text = Ada\n# sent_id = p-4\n" + PAS.split("\n", 2)[2] + "# text = Ada\n" + PAS.split("\n", 2)[2]
    read = list(read_sdp(written(PSD + PAS + comments + "#SDP 2015\n\n" + named)))
    names = ["20001001", "20001002", "20001001", "20001003", "p-4", "a.sdp:36"]
    assert [document.identifier for document in read] == names
    assert {document.sentences for document in read[2:]} == {read[2].sentences}


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
