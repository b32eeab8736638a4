import csv

from depgen.training import logs
from depgen.training.logs import CurveLogger


def rows(folder):
    """The lines of the curve without the times; columns are named once each."""
    with (folder / "metrics.csv").open(newline="") as stream:
        header, *lines = csv.reader(stream)
    assert len(set(header)) == len(header)
    clocks = [name for name in header if "seconds" in name]
    named = [dict(zip(header, line, strict=True)) for line in lines]
    return [{name: value for name, value in row.items() if name not in clocks} for row in named]


def times(folder, clock):
    with (folder / "metrics.csv").open(newline="") as stream:
        return [float(row[clock]) for row in csv.DictReader(stream)]


def test_values_of_a_step_share_a_line(tmp_path):
    logger = CurveLogger(tmp_path)
    logger.log_metrics({"train/loss": 0.1, "epoch": 0}, step=4)
    logger.log_metrics({"val/loss": 2.5, "epoch": 0}, step=4)
    logger.log_metrics({"train/loss": float("nan")}, step=9)
    logger.save()
    assert rows(tmp_path) == [
        {"step": "4", "epoch": "0", "train/loss": "0.1", "val/loss": "2.5"},
        {"step": "9", "epoch": "", "train/loss": "nan", "val/loss": ""},
    ]


def test_a_resumed_curve_keeps_its_past_and_drops_what_was_lost_and_its_clocks_skip_the_pause(tmp_path, monkeypatch):
    now = [100.0]
    for clock in ("seconds", "processor_seconds"):
        monkeypatch.setitem(logs.CLOCKS, clock, lambda: now[0])
    logger = CurveLogger(tmp_path)
    for step in range(4):
        now[0] += 10
        logger.log_metrics({"a": step}, step=step)
    logger.save()
    now[0] = 5000.0
    resumed = CurveLogger(tmp_path)
    now[0] += 3
    resumed.forget_from(2)
    now[0] += 1
    resumed.log_metrics({"a": 20}, step=2)
    now[0] += 5
    resumed.log_metrics({"b": 2}, step=2)
    resumed.save()
    assert [(row["step"], row["a"], row["b"]) for row in rows(tmp_path)] == [
        ("0", "0", ""),
        ("1", "1", ""),
        ("2", "20", "2"),
    ]
    assert times(tmp_path, "seconds") == times(tmp_path, "processor_seconds") == [10, 20, 26]
