"""YAML files of settings: what is refused, with file and line."""

import pytest

from depgen.errors import UserError
from depgen.yaml_files import read_settings, yaml_value


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a: 1\nb: 2\na: 3\n", r"f\.yaml:3: the key 'a' is on line 1 already"),
        ("a:\n  - {b: 1, b: 2}\n", r"f\.yaml:2: the key 'b' is on line 2 already"),
        ("a: [1\n", r"f\.yaml: expected YAML, found: "),
        ("a: !!python/object/apply:os.system [ls]\n", r"f\.yaml: expected YAML, found: "),
    ],
)
def test_what_is_refused(text, complaint):
    with pytest.raises(UserError, match=complaint):
        yaml_value(text, "f.yaml")


def test_aliases_are_read():
    assert yaml_value("a: &a {x: 1}\nb: *a\nc: {<<: *a, y: 2}\n", "f.yaml") == {
        "a": {"x": 1}, "b": {"x": 1}, "c": {"x": 1, "y": 2},
    }  # fmt: skip


@pytest.mark.parametrize(("content", "complaint"), [(b"", "settings in YAML"), (b"a: \xff\n", "UTF-8")])
def test_files_without_settings_are_named(tmp_path, content, complaint):
    path = tmp_path / "f.yaml"
    path.write_bytes(content)
    with pytest.raises(UserError, match=rf"f\.yaml: expected {complaint}"):
        read_settings(path)
