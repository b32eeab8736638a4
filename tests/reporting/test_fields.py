from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from depgen.errors import UserError
from depgen.reporting.fields import made_as, read_as


@dataclass(frozen=True)
class Leaf:
    name: str
    weight: float = 1.0

    def __post_init__(self) -> None:
        if self.weight < 0:
            raise UserError("weight: expected at least 0.")


@dataclass(frozen=True)
class Tree:
    leaves: tuple[Leaf, ...]
    root: Leaf | None = None
    sizes: int | Mapping[str, int] = 1
    values: Mapping[str, float] = field(default_factory=dict)


def test_lists_and_dataclasses_are_read_and_whole_numbers_serve_as_numbers():
    content = {"leaves": [{"name": "a", "weight": 2}], "root": {"name": "r"}, "sizes": {"small": 3}, "values": {}}
    assert read_as(Tree, content, "t.yaml") == Tree((Leaf("a", 2.0),), Leaf("r"), {"small": 3})
    assert isinstance(read_as(Tree, content, "t.yaml").leaves[0].weight, float)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, r"t\.yaml: leaves must be given\. Mend it"),
        ([], r"t\.yaml: expected names and values, found \[\]"),
        ({"leaves": {}}, "leaves: expected a list"),
        ({"leaves": ["a"]}, r"leaves\[0\]: expected names and values, found 'a'"),
        ({"leaves": [{"name": "a"}, {"weight": 1}]}, r"leaves\[1\]: name must be given"),
        ({"leaves": [{"name": "a", "wieght": 1}]}, r"leaves\[0\] \(a\): unknown wieght\. Did you mean 'weight'\?"),
        ({"leaves": [{"name": "a", "weight": -1}]}, r"leaves\[0\] \(a\): weight: expected at least 0\. Mend"),
        ({"leaves": [], "root": {"nam": "x"}}, r"root: unknown nam\. Did you mean 'name'"),
        ({"leaves": [], "root": {"name": "x", "weight": True}}, "root: weight: expected a number, found True"),
        ({"leaves": [], "sizes": {"small": "x"}}, "sizes: small: expected a whole number, found 'x'"),
        ({"leaves": [], "values": {"a": float("inf")}}, "values: a: expected a finite number, found inf"),
    ],
)
def test_a_slip_names_file_entry_key_and_remedy(content, message):
    with pytest.raises(UserError, match=message):
        read_as(Tree, content, "t.yaml", remedy=" Mend it.")


def test_what_a_class_refuses_is_said_in_its_words():
    assert made_as(Leaf, {"name": "a"}) == Leaf("a")
    with pytest.raises(UserError, match=r"^weight: expected at least 0"):
        made_as(Leaf, {"name": "a", "weight": -1})
    with pytest.raises(UserError, match="wieght"):
        made_as(list[Leaf], [{"name": "a", "wieght": 1}])
