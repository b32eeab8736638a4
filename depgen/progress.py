"""A progress bar for what takes longer than a glance."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(doing: str, *, total: int, unit: str, shown: bool | None = None) -> Iterator[Callable[[int], None]]:
    """A function that advances a bar on standard error by a number of units; without effect where it is not shown.

    Unless `shown` says so, it is shown on a terminal alone: in a file it would be one line, written at the end.
    """
    if not (sys.stderr.isatty() if shown is None else shown):
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
