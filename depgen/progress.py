"""A progress bar for what takes longer than a glance."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(doing: str, *, total: int, unit: str, shown: bool = True) -> Iterator[Callable[[int], None]]:
    """A function that moves a bar on standard error on by a number of units; without effect where it is not shown."""
    if not shown:
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
