"""The table of commands, and the program that runs them.

Until a command runs, only its line in the table is known. Then its module is imported with everything it needs.
`equipoise --help`, a group's help and a shell's completion therefore load none of it.
"""

import errno
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from typing import Annotated, Any, TextIO

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from equipoise._util.text import visible
from equipoise._version import __version__
from equipoise.cli.interrupt import INTERRUPTED
from equipoise.errors import CacheWarning, EquipoiseError, KeyFileWarning

EPILOG = (
    "Exit codes: 0 done, 1 unexpected failure, 2 wrong usage, 3 agreement, 4 table, "
    "5 privacy refused, 6 submission, 7 key, 8 posterior, 9 settlement, "
    "10 experiment, 11 service, 12 verification, 13 not repeatable, 130 interrupted."
)

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)  # the disk is full, or the user's quota of it


@dataclass(frozen=True)
class Command:
    """A command: the module that holds its function, and the first line of the function's docstring.

    Names of modules in `equipoise.cli` begin with a dot.
    """

    module: str
    help: str


@dataclass(frozen=True)
class Group:
    """Commands under a common name."""

    help: str
    commands: Mapping[str, Command]


# A command is the function of its name, with _ for -.
COMMANDS: Mapping[str, Command | Group] = {
    "agreement": Group(
        "Write and check agreements.",
        {
            "new": Command(".agreement", "Write a commented example agreement to edit."),
            "draft": Command(
                ".agreement",
                "Draft an agreement from a table's column names and types, with questions for people to answer.",
            ),
            "bounds": Command(
                ".agreement", "Propose bounds from what parties have bought; combining costs nothing more."
            ),
            "check": Command(".agreement", "Validate an agreement and explain in words what is agreed."),
        },
    ),
    "party": Group(
        "Release a private statistic, keep the ledger.",
        {
            "keygen": Command(".party", "Make a signing key; its public half goes into the agreement."),
            "advise": Command(".advise", "Say what each epsilon would buy you, before you release anything."),
            "release": Command(".party", "Read a table, spend privacy once, and write the signed submission."),
            "combine": Command(
                ".home",
                "Combine your reward with your own rows, at home: the model you should predict with. It must not leave "
                "the house.",
            ),
            "compare": Command(
                ".home",
                "Compare your own rows, your reward and both, by how well they predict held-out rows of yours; nothing "
                "is sent.",
            ),
            "resend": Command(
                ".party", "Write the submission already made under an agreement again; it costs nothing."
            ),
            "ledger": Command(
                ".ledger", "Verify a ledger and show what has been spent, as Rényi epsilon, zCDP and (epsilon, delta)."
            ),
            "bounds": Command(
                ".bounds",
                "Buy bounds of columns that nobody knows by heart: noisy counts in public bins, paid from the ledger.",
            ),
            "spend": Command(
                ".ledger",
                "Record privacy that something else spent on the same individuals: another tool, a published table.",
            ),
            "amend": Command(
                ".ledger",
                "Record a decision in the ledger: a new cap, changed bounds, or how many rows an individual has.",
            ),
        },
    ),
    "mediate": Command(
        ".mediate", "Settle a round: value what each submission brings, make every party's reward, write the reports."
    ),
    "report": Command(".mediate", "Write the report of a settlement: one HTML file that needs nothing else."),
    "predict": Command(
        ".predict", "Predict the target of new rows, with intervals; what is known of the target is compared with it."
    ),
    "join": Command(
        ".member", "Make your key at home, ask to join, and note where you are a member. Doing it again is harmless."
    ),
    "submit": Command(".member", "Release from a table, spend privacy once, and hand the submission over."),
    "status": Command(
        ".member", "Say where you stand: approved or not, invited, submitted, settling (with the time left), settled."
    ),
    "fetch": Command(".member", "Get your reward and your edition of the report; exit code 11 while there is none."),
    "login": Command(".member", "Print a link that signs your browser in, once, within ten minutes."),
    "verify": Command(
        ".verify",
        "Check an exported round offline: signatures, digests, log, receipts, submissions, rewards, audit.",
    ),
    "demo": Command(
        ".demo.rounds",
        "Play a whole round: agreement, private releases of three hospitals, settlement, audit, rewards, predictions.",
    ),
    "doctor": Command(
        ".doctor",
        "Check the installation, the noise, and ledgers. Exit code 1 if a check failed.",
    ),
}


# Commands of distributions that may not be installed.
ELSEWHERE = {
    **dict.fromkeys(("serve", "worker", "operator", "demo-service"), "equipoise-service"),
    "reproduce": "equipoise-paper",
}


class LazyCommand(TyperCommand):
    """A command that is imported when it runs, or when its own help or completion is needed."""

    def __init__(self, name: str, command: Command) -> None:
        super().__init__(name, help=command.help)
        self._module = command.module

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Parse the arguments with the real command, which replaces this one in the context."""
        return self.load().make_context(info_name, args, parent=parent, **extra)

    def load(self) -> Any:
        """Return the real command, made from its function."""
        assert self.name is not None
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        alone.command(self.name)(getattr(import_module(self._module, "equipoise.cli"), self.name.replace("-", "_")))
        return get_command(alone)


class LazyGroup(TyperGroup):
    """All commands: those of the table, and those that other distributions register under `equipoise.commands`.

    Other distributions are searched only if a command is not in the table, or if all are listed, because that takes
    longer than the rest.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._add(COMMANDS)

    def list_commands(self, ctx: Any) -> list[str]:
        """Name all commands that are installed."""
        self._add_registered()
        return super().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command by its name; if it is not installed, say which distribution has it."""
        if cmd_name not in self.commands:
            self._add_registered()
        if cmd_name not in self.commands and cmd_name in ELSEWHERE:
            distribution = ELSEWHERE[cmd_name]
            ctx.fail(
                f"the command {cmd_name!r} comes with {distribution}; install it with `pip install {distribution}`"
            )
        return super().get_command(ctx, cmd_name)

    def _add_registered(self) -> None:
        for point in entry_points(group="equipoise.commands"):
            self._add(point.load())

    def _add(self, commands: Mapping[str, Command | Group]) -> None:
        for name, command in commands.items():
            if isinstance(command, Command):
                self.add_command(LazyCommand(name, command))
                continue
            inner: dict[str, Any] = {key: LazyCommand(key, each) for key, each in command.commands.items()}
            group = TyperGroup(
                name=name, commands=inner, help=command.help, no_args_is_help=True, rich_markup_mode=None
            )  # fmt: skip
            self.add_command(group)


app = typer.Typer(
    cls=LazyGroup,
    help="Fair incentives for private collaborative machine learning.",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"equipoise {__version__}\n")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Fair incentives for private collaborative machine learning."""


def main() -> None:
    """Run the command line; a mistake prints a message, never a traceback."""
    warnings.showwarning = _show_warning
    try:
        app()
    except EquipoiseError as error:
        sys.stderr.write(f"Error: {visible(str(error))}\n")
        sys.exit(error.exit_code)
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        where = f" of {visible(str(error.filename))!r}" if error.filename else ""
        sys.stderr.write(f"Error: the disk{where} is full ({error.strerror}); free some room, and run it again\n")
        sys.exit(EquipoiseError.exit_code)
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        sys.exit(INTERRUPTED)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print each of our own warnings on a single line, without code."""
    if issubclass(category, KeyFileWarning | CacheWarning):
        text = f"Warning: {visible(str(message))}\n"
    else:
        text = warnings.formatwarning(message, category, filename, lineno, line)
    (file or sys.stderr).write(text)
