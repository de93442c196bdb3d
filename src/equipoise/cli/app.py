"""The root command and its groups."""

from typing import Annotated

import typer

from equipoise._version import __version__
from equipoise.cli import (
    advise,
    agreement,
    doctor,
    fetch,
    join,
    login,
    mediate,
    operator,
    party,
    predict,
    report,
    reproduce,
    serve,
    status,
    submit,
    verify,
    worker,
)
from equipoise.cli.demo import command as demo
from equipoise.cli.demo import service_command as demo_service
from equipoise.cli.output import echo

EPILOG = (
    "Exit codes: 0 done, 1 unexpected failure, 2 wrong usage, 3 agreement, 4 table, "
    "5 privacy refused, 6 submission, 7 key, 8 posterior, 9 settlement, "
    "10 experiment, 11 service, 12 verification, 130 interrupted."
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
app.command(name="join")(join.join)
app.command(name="submit")(submit.submit)
app.command(name="status")(status.status)
app.command(name="fetch")(fetch.fetch)
app.command(name="login")(login.login)
app.command(name="verify")(verify.verify)
app.add_typer(operator.app, name="operator")
app.command(name="demo")(demo.demo)
app.command(name="demo-service")(demo_service.demo_service)
app.command(name="doctor")(doctor.doctor)
app.command(name="serve")(serve.serve)
app.command(name="worker")(worker.worker)
app.command(name="reproduce")(reproduce.reproduce)


def _print_version(wanted: bool) -> None:
    if wanted:
        echo(f"equipoise {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Fair incentives for private collaborative machine learning."""
