"""The command line. Each command group is a module; heavy imports happen inside the command that needs them.

Exit codes are those of `equipoise.errors`; `equipoise --help` lists them.
"""

import sys

from equipoise.errors import EquipoiseError


def main() -> None:
    """Run the command line: a mistake prints one message, never a traceback."""
    from equipoise.cli.app import app
    from equipoise.cli.output import visible

    try:
        app()
    except EquipoiseError as error:
        sys.stderr.write(f"Error: {visible(str(error))}\n")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        sys.exit(130)
