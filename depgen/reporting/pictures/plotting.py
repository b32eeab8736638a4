"""Figures without a display, written as PNG, PDF or SVG."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from depgen.errors import UserError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ENDINGS = (".png", ".pdf", ".svg")
_TEXT = {"svg.fonttype": "none", "pdf.fonttype": 42}
"""Text stays text in SVG, and fonts are TrueType in PDF, as publishers want them."""


def figure(width: float, height: float) -> "Figure":
    """An empty figure of that size in inches, drawn by Agg whatever the machine's display.

    Raises:
        UserError: matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UserError(f"Pictures need matplotlib ({error}). Install it: pip install 'depgen[plots]'.") from error
    drawing = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(drawing)
    return drawing


def save(drawing: "Figure", path: Path) -> None:
    """Write a picture in the format that the file's name ends in; folders are made.

    Raises:
        UserError: the name ends in none of `ENDINGS`.
    """
    from matplotlib import rc_context

    check_picture(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with rc_context(_TEXT):
        drawing.savefig(path, dpi=150)


def check_picture(path: Path, *, without_matplotlib: Sequence[str] = ()) -> None:
    """Raises UserError unless a picture can be written under that name; to be called before long work.

    Args:
        path: the file to be written.
        without_matplotlib: endings that the caller writes by itself.

    Raises:
        UserError: the name ends in none of `ENDINGS` and the caller's, or matplotlib is needed and not installed.
    """
    endings, ending = list(dict.fromkeys((*without_matplotlib, *ENDINGS))), path.suffix.lower()
    if ending not in endings:
        raise UserError(
            f"Expected the name of a picture, which ends in {', '.join(endings[:-1])} or {endings[-1]}, found {path}."
        )
    if ending not in without_matplotlib:
        figure(1.0, 1.0)
