import pytest

from depgen.errors import UserError
from depgen.reporting.curves import curves_figure, draw_curves
from depgen.reporting.record import record
from tests.reporting.conftest import make_result


def test_one_line_a_seed_and_the_lowest_point_of_each(store, project):
    for seed in (1, 2):
        store("Base", seed, {"bleu1": 1.0})
    store("DM-Base", 1, {"bleu1": 1.0}, curve=())
    text = draw_curves("toy", profile="small")
    assert (project / "results/toy/curves-small.png").read_bytes().startswith(b"\x89PNG")
    assert text.splitlines()[1:] == [f"Base, seed {seed}: lowest 70.00 after 20,000 tokens" for seed in (1, 2)]


def test_tracked_curves_stand_in_for_local_ones(store, project):
    import shutil

    store("Base", 1, {"bleu1": 1.0})
    record("toy", profile="small")
    shutil.rmtree(project / "results")
    assert "Base, seed 1" in draw_curves("toy", profile="small", rows=["Base"], output=project / "c.png")
    assert (project / "c.png").is_file()


def test_no_curve_is_an_error_with_a_remedy(project):
    with pytest.raises(UserError, match="depgen reproduce toy"):
        draw_curves("toy", profile="small")


def test_the_axes_hold_the_points():
    figure = curves_figure({"Base": [make_result("Base", 1, {})], "DM": [make_result("DM", 1, {})]}, title="t")
    (axes,) = figure.axes
    assert list(axes.lines[0].get_xdata()) == [10_000, 20_000, 40_000]
    assert (list(axes.lines[1].get_xdata()), list(axes.lines[1].get_ydata())) == ([20_000], [70.0])
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["Base", "DM"]


def test_a_row_asked_for_without_a_curve_is_named(store, project, caplog):
    store("Base", 1, {"bleu1": 1.0})
    store("DM-Base", 1, {"bleu1": 1.0}, curve=())
    draw_curves("toy", profile="small", rows=["Base", "DM-Base"], output=project / "c.png")
    assert "DM-Base has no validation curve at profile small" in caplog.text
    assert "left chain" not in caplog.text
