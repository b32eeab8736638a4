"""Progress bars are for terminals; a log holds lines alone."""

import sys

from depgen.progress import progress_bar


def test_a_bar_is_drawn_on_a_terminal_alone(capsys, monkeypatch):
    for is_terminal in (False, True):
        monkeypatch.setattr(sys.stderr, "isatty", lambda is_terminal=is_terminal: is_terminal)
        with progress_bar("parsing", total=2, unit="sentences") as advance:
            advance(2)
        assert (capsys.readouterr().err != "") == is_terminal
