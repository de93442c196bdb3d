"""Progress of long work, for people who wait."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


@contextmanager
def progress_bar(wanted: bool | None, label: str, total: float) -> Iterator[Callable[[float], None] | None]:
    """A bar on the terminal: when asked for, or by default when standard error is one."""
    if wanted is False:
        yield None
        return
    console = Console(stderr=True, force_terminal=wanted or None)
    if wanted is None and not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda amount: bar.advance(task, amount)
