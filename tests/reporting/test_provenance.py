"""Words for machines and commits, and the size that a table is made at."""

import pytest

from depgen.errors import UserError
from depgen.reporting.definition import choose_size
from depgen.reporting.provenance import hardware_in_words, short_commit


@pytest.mark.parametrize(
    ("sizes", "given", "chosen", "why"),
    [
        (("small", "paper"), None, "small", "the default"),
        (("small", "paper"), "", "small", "--size paper"),
        (("small", "paper"), "paper", "paper", "as given"),
        (("paper",), None, "paper", "the only one"),
    ],
)
def test_the_size_and_why(sizes, given, chosen, why):
    size, reason = choose_size(sizes, given)
    assert size == chosen
    assert reason.startswith(f"Size {chosen}: ")
    assert why in reason


def test_an_unknown_size_is_refused():
    with pytest.raises(UserError, match="No size 'huge' here: expected one of small, paper"):
        choose_size(("small", "paper"), "huge")


def test_machines_in_words():
    assert hardware_in_words({"gpus": ["A", "A", "B"], "cpus": 8}) == "2 x A, 1 x B"
    assert hardware_in_words({}) == "CPU (unknown), ? cores, ? threads"


def test_commits():
    assert short_commit("a" * 40) == "a" * 12
    assert short_commit("a" * 40 + "+changes") == "a" * 12 + "+"
    assert short_commit(None) == "unknown"
