"""Progress bars are for terminals; a log holds lines alone."""

import sys

import pytest

from depgen.annotation.spacy_training import _progress as steps_of_a_parser
from depgen.progress import progress_bar


def a_bar():
    with progress_bar("parsing", total=2, unit="sentences") as advance:
        advance(2)


def some_steps():
    assert list(steps_of_a_parser(2)) == [1, 2]


@pytest.mark.parametrize("made", [a_bar, some_steps])
def test_a_bar_is_drawn_on_a_terminal_alone(made, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path / "cache"))
    made()
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    made()
    assert capsys.readouterr().err != ""
