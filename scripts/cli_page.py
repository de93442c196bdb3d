"""Write the reference of all commands into docs/cli.md, between two markers, from the commands themselves.

    python scripts/cli_page.py

`tests/test_documents.py` compares the page with the commands.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from equipoise.cli.app import LazyCommand, app

PAGE = Path(__file__).resolve().parents[1] / "docs" / "cli.md"
BEGIN, END = "<!-- commands: begin -->\n", "<!-- commands: end -->\n"


def reference() -> str:
    """Write all commands: groups and commands with their arguments and options."""
    group: Any = get_command(app)
    lines: list[str] = []
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        lines += (
            _group(command, f"equipoise {name}") if hasattr(command, "commands") else _command(command, "equipoise")
        )
    return "\n".join(lines) + "\n"


def replaced(page: str) -> str:
    """Put the reference between the markers of a page."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n{reference()}\n{END}{rest.split(END)[1]}"


def _group(group: Any, name: str) -> Iterator[str]:
    yield f"### {name}\n"
    yield f"{group.help}\n"
    for command in group.commands.values():
        yield from _command(command, name, level=4)


def _command(lazy: LazyCommand, group: str, *, level: int = 3) -> Iterator[str]:
    command = lazy.load()
    yield f"{'#' * level} {group} {lazy.name}\n"
    summary, _, example = _words(command.help).partition("Example: ")
    yield f"{summary.strip()}\n"
    if example:
        yield f"```text\n{example.strip()}\n```\n"
    rows = [_row(parameter) for parameter in command.params if not parameter.hidden and parameter.name != "help"]
    if rows:
        yield "| argument or option | meaning |\n|---|---|"
        yield from rows
        yield ""


def _row(parameter: Any) -> str:
    meaning = _words(parameter.help or "")
    if parameter.param_type_name == "argument":
        name = parameter.metavar or parameter.name.upper()
        meaning = meaning or {"NAMES": "Names of what to run.", "NAME": "A name."}.get(name, "")
        return f"| `{name}`{_times(parameter)} | {_cell(meaning)} |"
    kind = "" if parameter.is_flag else f" {_kind(parameter)}"
    names = _cell(", ".join(f"`{name}{kind}`" for name in reversed(parameter.opts)))
    default = parameter.default
    if default not in (None, False, "", ()) and not callable(default) and "[" not in meaning and not parameter.is_flag:
        meaning += f" Default: {default}."
    if parameter.required:
        meaning += " Required."
    return f"| {names}{_times(parameter)} | {_cell(meaning)} |"


def _kind(parameter: Any) -> str:
    kinds = {int: "N", float: "NUMBER", Path: "FILE"}
    annotation = parameter.type_descriptor.annotation
    return str(parameter.metavar or kinds.get(annotation, "TEXT"))


def _times(parameter: Any) -> str:
    return " …" if parameter.multiple or parameter.nargs == -1 else ""


def _words(text: str) -> str:
    """Join the lines of a paragraph; paragraphs stay apart."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
