"""The command line. Each command group is a module; heavy imports happen inside the command that needs them.

Exit codes are those of `equipoise.errors`; `equipoise --help` lists them.
"""

import sys
import warnings
from typing import TextIO

from equipoise.errors import EquipoiseError, KeyFileWarning


def main() -> None:
    """Run the command line: a mistake prints one message, never a traceback."""
    from equipoise.cli.app import app
    from equipoise.cli.output import visible

    warnings.showwarning = _show_warning
    try:
        app()
    except EquipoiseError as error:
        sys.stderr.write(f"Error: {visible(str(error))}\n")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        sys.exit(130)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Our own as one line, without code."""
    from equipoise.cli.output import visible

    if issubclass(category, KeyFileWarning):
        text = f"Warning: {visible(str(message))}\n"
    else:
        text = warnings.formatwarning(message, category, filename, lineno, line)
    (file or sys.stderr).write(text)
