"""The root command and its groups."""

from typing import Annotated

import typer

from equipoise._version import __version__
from equipoise.cli import advise, agreement, demo, doctor, mediate, party, predict, report, reproduce

EPILOG = (
    "Exit codes: 0 done, 1 unexpected failure, 2 wrong usage, 3 agreement, 4 table, "
    "5 privacy refused, 6 submission, 7 key, 8 posterior, 9 settlement, "
    "10 experiment, 130 interrupted."
)

app = typer.Typer(
    help="Fair incentives for private collaborative machine learning.",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(agreement.app, name="agreement")
party.app.command(name="advise")(advise.advise)
app.add_typer(party.app, name="party")
app.command(name="mediate")(mediate.mediate)
app.command(name="report")(report.report)
app.command(name="predict")(predict.predict)
app.command(name="demo")(demo.demo)
app.command(name="doctor")(doctor.doctor)
app.command(name="reproduce")(reproduce.reproduce)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"equipoise {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Fair incentives for private collaborative machine learning."""
