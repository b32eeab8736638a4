"""A progress bar for what takes longer than a glance."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(doing: str, *, total: int, unit: str, shown: bool = True) -> Iterator[Callable[[int], None]]:
    """A function that advances a bar on standard error by a number of units; without effect where it is not shown.

    It is shown on a terminal alone: in a file it would be one line, written at the end.
    """
    if not (shown and sys.stderr.isatty()):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn(unit), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(TextColumn(doing), *columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(doing, total=total)
        yield lambda count: bar.update(task, advance=count)
