"""Figures without a display."""

from pathlib import Path
from typing import TYPE_CHECKING

from depgen.errors import UserError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    """Write a PNG; folders are made.

    Raises:
        UserError: the file's name does not end in .png.
    """
    check_png(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(path, dpi=150)


def check_png(path: Path) -> None:
    """Nothing, if a picture can be written under that name; to be asked before long work.

    Raises:
        UserError: the file's name does not end in .png, or matplotlib is not installed.
    """
    if path.suffix.lower() != ".png":
        raise UserError(f"Pictures are PNG files: expected a name that ends in .png, found {path}.")
    figure(1.0, 1.0)
