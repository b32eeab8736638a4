"""What a benchmark prints and writes of a figure that has a goal."""

import json

from tests.benchmarks.figures import figure, write_figures


def test_a_figure_says_whether_it_meets_its_goal(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DEPGEN_RESULTS", str(tmp_path))
    figures = {
        "mixture / base": figure(1.04, "x", at_most=1.25),
        "modelling / base": figure(1.4, "x", at_most=1.25),
        "speed": figure(447.0, "tokens/s"),
    }
    write_figures("made", figures)
    assert capsys.readouterr().out.splitlines() == [
        "",
        "made: mixture / base 1.04 x (goal 1.25 x: met)",
        "made: modelling / base 1.4 x (goal 1.25 x: NOT met)",
        "made: speed 447.0 tokens/s",
    ]
    assert json.loads((tmp_path / "bench/made.json").read_text()) == figures
