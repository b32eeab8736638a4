import pytest

from depgen.errors import UserError
from depgen.trees.dependency_columns import read_dependency_columns
from depgen.trees.sentence import Sentence


def test_sentences(tmp_path):
    path = tmp_path / "a.dp"
    path.write_text("Dogs\tNNS\t2\nbark\tVBP\t0\n\n\nYes\tUH\t0\n")
    assert list(read_dependency_columns(path)) == [
        Sentence(("Dogs", "bark"), (2, 0), tags=("NNS", "VBP")),
        Sentence(("Yes",), (0,), tags=("UH",)),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Dogs\tNNS\t2\nbark\t0\n", "a.dp:2: expected form, tag and head"),
        ("\tNNS\t0\n", "a.dp:1: expected form, tag and head"),
        ("Dogs\tNNS\tx\n", "a.dp:1: expected form, tag and head"),
        ("Dogs\tNNS\t3\nbark\tVBP\t0\n", "a.dp:1: token 1 has head 3, but the sentence has 2 words"),
        ("\n", "a.dp: expected sentences of form, tag and head, found none"),
    ],
)
def test_errors_name_file_and_line(tmp_path, text, message):
    path = tmp_path / "a.dp"
    path.write_text(text)
    with pytest.raises(UserError) as error:
        list(read_dependency_columns(path))
    assert message in str(error.value)
