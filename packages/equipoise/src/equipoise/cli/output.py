"""Output: JSON for scripts, tables for people, a progress bar on terminals.

Names, titles and messages come from other people, so everything that is printed goes through `visible`.
"""

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich import box
from rich import table as rich_table
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from equipoise._util.display import Table
from equipoise._util.files import exists, is_writable_folder
from equipoise._util.text import paragraph, visible
from equipoise.errors import ClippingWarning, EquipoiseError, KeyFileWarning
from equipoise.estimate import Estimate


def echo(text: str = "", *, err: bool = False) -> None:
    """Print a line, on standard error if `err` is set."""
    typer.echo(visible(text), err=err)


def print_json(document: Any) -> None:
    """Print a JSON document."""
    echo(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))


def print_lines(text: str, *, bullet: bool = False, err: bool = False) -> None:
    """Print a paragraph, wrapped between words to the width of the terminal."""
    echo(paragraph(text, "- " if bullet else ""), err=err)


def print_alarm(text: str) -> None:
    """Print a message that nobody should overlook on standard error, in red if the terminal has colours."""
    typer.secho(paragraph(text), fg="red", bold=True, err=True)


def print_table(table: Table) -> None:
    """Print a table under its title, followed by its notes."""
    shown = rich_table.Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for index, header in enumerate(table.headers):
        shown.add_column(Text(visible(header)), justify="right" if index >= table.numeric_from else "left")
    for row in table.rows:
        shown.add_row(*(Text(visible(_cell(cell))) for cell in row))
    print_lines(table.title)
    Console(soft_wrap=False).print(shown)
    for note in table.notes:
        print_lines(note, bullet=True)


def _cell(cell: object) -> str:
    """Return a cell as text; an estimate is as short as its error allows, since terminals are narrow."""
    if isinstance(cell, Estimate) and cell.error > 0:
        decimals = 2 if cell.error >= 0.005 else 3
        return f"{cell.value:.{decimals}f} ± {cell.error:.{decimals}f}"
    return str(cell)


def claim_output(path: Path, error: type[EquipoiseError]) -> None:
    """Refuse an output that exists, or could not be written, before anything is spent or computed."""
    if exists(path):
        raise error(f"{str(path)!r} exists; choose another name with --output, or move it away")
    if not is_writable_folder(path.absolute().parent):
        raise error(f"cannot write into {str(path.absolute().parent)!r}; choose another place with --output")


def claim_folder(path: Path) -> None:
    """Create a folder that must not exist yet."""
    try:
        path.mkdir(parents=True)
    except FileExistsError as error:
        raise EquipoiseError(f"{str(path)!r} exists; remove it or choose another folder with --output") from error
    except OSError as error:
        raise EquipoiseError(f"cannot make the folder {str(path)!r}: {error.strerror}; choose another") from error


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Print each of our own warnings on a single line, without code; other libraries' are for developers."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        for ours in (ClippingWarning, KeyFileWarning):
            warnings.simplefilter("always", ours)
        yield
    for warning in caught:
        echo(f"Warning: {warning.message}", err=True)


@contextmanager
def reading_progress(label: str, *, quiet: bool) -> Iterator[Callable[[float | None, int], None] | None]:
    """Show a progress bar on standard error from the first rows on, or nothing if that is not a terminal."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield None
        return
    columns = (
        TextColumn(label),
        BarColumn(),
        TextColumn("{task.fields[rows]:,} rows"),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=console, transient=True)
    task = bar.add_task(label, total=None, rows=0)

    def report(fraction: float | None, rows: int) -> None:
        bar.start()
        bar.update(task, rows=rows, completed=fraction or 0.0, total=None if fraction is None else 1.0)

    try:
        yield report
    finally:
        bar.stop()
