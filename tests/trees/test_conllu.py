import pytest
from hypothesis import given
from hypothesis import strategies as st

from depgen.trees.conllu import read_blocks, read_conllu, write_conllu
from depgen.trees.sentence import Document, Sentence
from tests.trees.trees import documents

TREEBANK = """\
# sent_id = lone
1\tWait\twait\tVERB\tVB\t_\t0\troot\t0:root\t_

# newdoc id = letter
# sent_id = letter-1
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\tVBP\t_\t3\taux\t3:aux\t_
2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t3:advmod\t_
3\tgo\tgo\tVERB\tVB\t_\t0\troot\t0:root|3.1:ref\t_
3.1\tgo\tgo\tVERB\tVB\t_\t_\t_\t3:conj|0:root\t_

# sent_id = letter-2
1\tYes\tyes\tINTJ\tUH\t_\t0\troot\t_\t_

# newdoc
1\tNo\tno\tINTJ\tUH\t_\t0\troot\t0:root\t_
"""


@pytest.fixture
def treebank(tmp_path):
    path = tmp_path / "a.conllu"
    path.write_text(TREEBANK)
    return path


def test_documents_ranges_and_empty_nodes(treebank):
    lone, letter, last = read_conllu(treebank)
    assert (lone.identifier, letter.identifier, last.identifier) == ("lone", "letter", "a.conllu:15")
    assert letter.sentences[0] == Sentence(
        ("Do", "n't", "go"),
        (3, 3, 0),
        ("aux", "advmod", "root"),
        ("VBP", "RB", "VB"),
    )


def test_graphs_are_not_looked_at(treebank):
    trees = list(read_conllu(treebank))
    treebank.write_text(treebank.read_text().replace("3:advmod", "7-advmod"))
    assert list(read_conllu(treebank)) == trees


def test_sentence_by_sentence_with_universal_tags(treebank):
    found = list(read_conllu(treebank, tags="upos", by_document=False))
    assert [document.identifier for document in found] == ["lone", "letter-1", "letter-2", "a.conllu:16"]
    assert found[1].sentences[0].tags == ("AUX", "PART", "VERB")


@pytest.mark.slow
@given(written=st.lists(documents(), min_size=1, max_size=3), tags=st.sampled_from(["xpos", "upos"]))
def test_round_trip(tmp_path_factory, written, tags):
    path = tmp_path_factory.mktemp("round") / "trip.conllu"
    write_conllu(written, path, tags=tags)
    assert list(read_conllu(path, tags=tags)) == written


def test_a_last_line_without_end(tmp_path):
    path = tmp_path / "a.conllu"
    path.write_text("1\thi" + "\t_" * 8)
    assert list(read_conllu(path)) == [Document((Sentence(("hi",)),), "a.conllu:1")]


def test_a_tree_is_replaced_and_all_else_stays(treebank):
    lone, letter, yes, no = read_blocks(treebank)
    assert letter.bare_sentence("xpos") == Sentence(("Do", "n't", "go"), tags=("VBP", "RB", "VB"))
    assert letter.with_tree((0, 1, 2), ("root", "dep", "dep")) == (
        "# newdoc id = letter\n# sent_id = letter-1\n# text = Don't go\n"
        "1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_\n"
        "1\tDo\tdo\tAUX\tVBP\t_\t0\troot\t_\t_\n"
        "2\tn't\tnot\tPART\tRB\t_\t1\tdep\t_\t_\n"
        "3\tgo\tgo\tVERB\tVB\t_\t2\tdep\t_\t_\n"
    )
    assert "".join(block.with_tree((0,), ("dep",)) for block in (lone, yes, no)).count("\t0\tdep\t") == 3


def test_a_text_stays_and_one_that_is_missing_follows_the_spaces(tmp_path):
    path = tmp_path / "a.conllu"
    rows = "1\tNo\t_\t_\t_\t_\t9\t_\t_\tX=1|SpaceAfter=No\n2\t!\t_\t_\t_\t_\t2\tx\t_\t_\n"
    path.write_text(f"{rows}# late\n\n\n# text =  as  it\n{rows}")
    first, second = (block.with_tree((0, 1), ("root", "dep")) for block in read_blocks(path))
    expected = rows.replace("\t9\t_", "\t0\troot").replace("\t2\tx", "\t1\tdep")
    assert first == f"# text = No!\n{expected}# late\n"
    assert second == f"# text =  as  it\n{expected}"
