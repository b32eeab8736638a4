import pytest

from depgen.errors import UserError
from depgen.reporting.pictures.curves import Curve, curves_figure, draw_curves
from depgen.reporting.record import record
from depgen.reporting.report import _DRAWN_HERE


def test_one_line_a_seed_and_the_lowest_point_of_each(store, project):
    for seed in (1, 2):
        store("Base", seed, {"bleu1": 1.0})
    store("DM-Base", 1, {"bleu1": 1.0}, curve=())
    text = draw_curves("toy", size="small")
    assert (project / "results/toy/curves-small.png").read_bytes().startswith(b"\x89PNG")
    assert text.splitlines()[1:] == [f"Base, seed {seed}: lowest 70.00 after 20,000 tokens" for seed in (1, 2)]


def test_tracked_curves_stand_in_for_local_ones(store, project):
    import shutil

    store("Base", 1, {"bleu1": 1.0})
    record("toy", size="small")
    shutil.rmtree(project / "results")
    assert "Base, seed 1" in draw_curves("toy", size="small", rows=["Base"], output=project / "c.png")
    assert (project / "c.png").is_file()


def test_no_curve_is_an_error_with_a_remedy(project):
    with pytest.raises(UserError, match="depgen reproduce toy"):
        draw_curves("toy", size="small")


def test_the_axes_hold_the_points():
    points = ((10_000.0, 90.0), (20_000.0, 70.0), (40_000.0, 75.0))
    curves = [Curve("Base", "Base, seed 1", points), Curve("Base", "Base, seed 2", points), Curve("DM", "DM", points)]
    (axes,) = curves_figure(curves, title="t", axis="tokens").axes
    assert list(axes.lines[0].get_xdata()) == [10_000, 20_000, 40_000]
    assert (list(axes.lines[1].get_xdata()), list(axes.lines[1].get_ydata())) == ([20_000], [70.0])
    assert [line.get_color() for line in axes.lines] == ["C0"] * 4 + ["C1"] * 2
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["Base", "DM"]
    assert (axes.get_xlabel(), axes.get_yscale()) == ("tokens", "log")


CLOCK = ((100.0, 60.0), (200.0, 150.0), (400.0, 270.0))


@pytest.mark.slow
def test_steps_and_minutes_are_drawn_where_a_run_kept_them(store, project, caplog):
    store("Base", 1, {"bleu1": 1.0}, clock=CLOCK)
    store("Base", 2, {"bleu1": 1.0})
    text = draw_curves("toy", size="small", against="minutes", output=project / "c.png")
    assert text.splitlines()[1:] == ["Base, seed 1: lowest 70.00 after 2.5 minutes"]
    assert "Base: not every seed kept its minutes" in caplog.text
    assert "lowest 70.00 after 200 steps" in draw_curves("toy", size="small", against="steps")
    draw_curves("toy", size="small", against="minutes")
    assert {path.name for path in (project / "results/toy").glob("*.png")} == {
        "curves-small-steps.png", "curves-small-minutes.png",
    }  # fmt: skip
    assert not any(_DRAWN_HERE.fullmatch(path.name) for path in (project / "results/toy").glob("*.png"))
    assert _DRAWN_HERE.fullmatch("curves-small.png")
    store("Base", 1, {"bleu1": 1.0})
    with pytest.raises(UserError, match="No validation curve against steps"):
        draw_curves("toy", size="small", against="steps")


def test_any_runs_beside_one_another(project):
    for name, values in (("a", (90.0, 60.0)), ("b", (80.0, 85.0))):
        run = project / "runs" / name / "1"
        run.mkdir(parents=True)
        (run / "run.json").write_text("{}")
        lines = [f"{9 + 10 * epoch},{epoch},{value},{30 * (epoch + 1)}\n" for epoch, value in enumerate(values)]
        (run / "metrics.csv").write_text("step,epoch,val/perplexity,seconds\n" + "".join(lines))
    text = draw_curves(runs=["a/1", "runs/b/1"], output=project / "c.png")
    assert text.splitlines()[1:] == ["a/1: lowest 60.00 after 20 steps", "b/1: lowest 80.00 after 10 steps"]
    assert "b/1: lowest 80.00 after 0.5 minutes" in draw_curves(runs=["b/1"], against="minutes")
    with pytest.raises(UserError, match="take --against steps or minutes"):
        draw_curves(runs=["a/1"], against="tokens")
    with pytest.raises(UserError, match="Name a table, or --runs"):
        draw_curves()
    for choice in ({"rows": ["Base"]}, {"size": "small"}):
        with pytest.raises(UserError, match="--rows and --size choose among a table's results"):
            draw_curves(runs=["a/1"], **choice)


def test_a_row_asked_for_without_a_curve_is_named(store, project, caplog):
    store("Base", 1, {"bleu1": 1.0})
    store("DM-Base", 1, {"bleu1": 1.0}, curve=())
    draw_curves("toy", size="small", rows=["Base", "DM-Base"], output=project / "c.png")
    assert "DM-Base has no validation curve at size small" in caplog.text
    assert "left chain" not in caplog.text
