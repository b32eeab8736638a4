import pytest

from depgen.data.experiment import data_of
from depgen.errors import UserError


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"data: [", "expected YAML, found: "),
        (b"data: caf\xe9", "expected UTF-8, found "),
        (b"model: 1", "expected `data`, the data module"),
    ],
)
def test_a_broken_file_is_named(tmp_path, content, message):
    path = tmp_path / "a.yaml"
    path.write_bytes(content)
    with pytest.raises(UserError) as error:
        data_of(path)
    assert str(error.value).startswith(f"{path}: {message}")
