"""The guard's comparison: what counts as a difference, and which are let pass."""

from tests.guard.comparison import Found, Listed, differences, unexpected

OLD = {
    "loss": Found("exact", "1.25"),
    "item": Found("item", -3.0),
    "total": Found("total", 100.0),
    "text": Found("exact", "a b"),
    "none": Found("total", float("nan")),
}


def changed(name, value):
    return differences(OLD, {**OLD, name: Found(OLD[name].kind, value)})


def test_what_counts_as_a_difference():
    assert differences(OLD, dict(OLD)) == {}
    assert changed("loss", "1.2500001") == {"loss": ("1.25", "1.2500001")}
    assert changed("text", "a c") == {"text": ("a b", "a c")}
    assert changed("item", -3.000009) == {}
    assert changed("item", -3.00002).keys() == {"item"}
    assert changed("total", 100.00009) == {}
    assert changed("total", 100.0002).keys() == {"total"}
    assert changed("none", 1.0).keys() == {"none"}
    fewer = {name: value for name, value in OLD.items() if name != "item"}
    assert differences(OLD, fewer) == {"item": ("-3.0", "nothing")}
    assert differences(fewer, OLD) == {"item": ("nothing", "-3.0")}


def test_only_listed_differences_pass_and_only_while_they_are_there():
    found = changed("total", 101.0)
    wanted = Listed("tot*", "100", "101", "another schedule")
    assert unexpected(found, []) == ["total: 100.0 -> 101.0"]
    assert unexpected(found, [wanted]) == []
    (line,) = unexpected({}, [wanted])
    assert line.startswith("tot*: listed")
