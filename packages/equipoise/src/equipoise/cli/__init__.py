"""The command line: one module for each group of commands, imported when one of them runs (`equipoise.cli.app`).

Exit codes are those of `equipoise.errors`; `equipoise --help` lists them.
"""

from equipoise.cli.app import main

__all__ = ["main"]
