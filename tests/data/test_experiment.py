import pytest
import yaml

from depgen.data.experiment import data_of
from depgen.errors import UserError


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"data: [", "expected YAML, found: "),
        (b"data: caf\xe9", "expected UTF-8, found "),
        (b"model: 1", "expected `data`, a class and its options"),
    ],
)
def test_a_broken_file_is_named(tmp_path, content, message):
    path = tmp_path / "a.yaml"
    path.write_bytes(content)
    with pytest.raises(UserError) as error:
        data_of(path)
    assert str(error.value).startswith(f"{path}: {message}")


def test_what_is_refused_within_a_choice_of_classes_is_said_in_its_own_words(tmp_path):
    corpus = {"class_path": "depgen.data.generated.GeneratedLanguage", "init_args": {"train": -1}}
    data = {"class_path": "depgen.data.text.TextData", "init_args": {"corpus": corpus}}
    (tmp_path / "a.yaml").write_text(yaml.safe_dump({"data": data}))
    with pytest.raises(UserError, match=r"^GeneratedLanguage: sizes"):
        data_of(tmp_path / "a.yaml")
