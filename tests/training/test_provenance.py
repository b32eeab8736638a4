"""Words for machines and commits."""

from depgen.training.provenance import hardware_in_words, short_commit


def test_machines_in_words():
    assert hardware_in_words({"gpus": ["A", "A", "B"], "cpus": 8}) == "2 x A, 1 x B"
    assert hardware_in_words({}) == "CPU (unknown), ? cores, ? threads"


def test_commits():
    assert short_commit("a" * 40) == "a" * 12
    assert short_commit("a" * 40 + "+changes") == "a" * 12 + "+"
    assert short_commit(None) == "unknown"
