import pytest

from depgen.errors import UserError
from depgen.reporting import provenance
from depgen.reporting.provenance import choose_profile, hardware_in_words, short_commit


@pytest.mark.parametrize(
    ("profiles", "asked", "gpu", "chosen", "why"),
    [
        (("small", "paper"), None, False, "small", "no GPU was found"),
        (("small", "paper"), None, True, "paper", "a GPU was found"),
        (("small", "paper"), "", True, "paper", "a GPU was found"),
        (("small", "paper"), "small", True, "small", "as asked for"),
        (("demo",), None, True, "demo", "the only one"),
    ],
)
def test_the_profile_and_why(monkeypatch, profiles, asked, gpu, chosen, why):
    monkeypatch.setattr(provenance, "found_gpu", lambda: gpu)
    profile, reason = choose_profile(profiles, asked)
    assert profile == chosen
    assert reason.startswith(f"Profile {chosen}: ")
    assert why in reason


def test_an_unknown_profile_is_refused():
    with pytest.raises(UserError, match="No profile 'huge' here: expected one of small, paper"):
        choose_profile(("small", "paper"), "huge")


def test_machines_in_words():
    assert hardware_in_words({"gpus": ["A", "A", "B"], "cpus": 8}) == "2 x A, 1 x B"
    assert hardware_in_words({}) == "CPU (unknown), ? cores, ? threads"


def test_commits():
    assert short_commit("a" * 40) == "a" * 12
    assert short_commit("a" * 40 + "+changes") == "a" * 12 + "+"
    assert short_commit(None) == "unknown"
