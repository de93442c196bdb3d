"""`equipoise serve` and `equipoise worker`: the mediator as a service."""

import json
import logging
import sys
from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.options import JsonOption
from equipoise.cli.output import echo
from equipoise.errors import ServiceError

DataOption = Annotated[
    Path, typer.Option(help="Folder for the service's key and database; made if it is not there.", readable=False)
]
DatabaseOption = Annotated[
    str | None,
    typer.Option(
        help="PostgreSQL instead of SQLite in the folder, as postgresql://user@host/name.",
        envvar="EQUIPOISE_DATABASE",
        show_default=False,
    ),
]

LeaseOption = Annotated[
    float, typer.Option(help="Seconds of silence after which another worker takes over what one was at.", min=1)
]


def serve(
    data: DataOption = Path("equipoise-data"),
    database: DatabaseOption = None,
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen at; 0 for any that is free.", min=0, max=65_535)] = 8351,
    public_url: Annotated[
        str | None, typer.Option(help="Address at which people reach the service [where it listens].")
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="Certificate for TLS, in PEM form.", readable=False)] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its private key, in PEM form.", readable=False)] = None,
    behind_proxy: Annotated[
        list[str] | None,
        typer.Option(help="Address or network that a reverse proxy connects from; repeat for more.", metavar="ADDRESS"),
    ] = None,
    worker: Annotated[
        bool, typer.Option("--worker/--no-worker", help="Bring a worker along, or leave settling to others.")
    ] = True,
    lease: LeaseOption = 30.0,
    rate: Annotated[float, typer.Option(help="Requests a second that one address may make.", min=0.1)] = 100.0,
    begin_anew: Annotated[
        bool,
        typer.Option(
            "--begin-anew", help="Begin another service, with a new key, where the database of an earlier one is gone."
        ),
    ] = False,
    operator_link: Annotated[
        bool, typer.Option("--operator-link", help="Print a new one-time link for an operator, and end.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Run a service: parties submit, the operator settles, everyone sees what they may.

    At the first start it prints a link that makes whoever opens it the operator, once. Without TLS it can be reached
    from this machine alone. Requests are logged to the standard error, one JSON line each.

    Example: equipoise serve --data consortium --public-url https://rounds.example.org --behind-proxy 127.0.0.1
    """
    from equipoise_service import serving
    from equipoise_service.settings import Rates, Settings

    if (tls_cert is None) != (tls_key is None):
        raise ServiceError("--tls-cert and --tls-key belong together; give both")
    settings = Settings(
        public_url=public_url or "http://127.0.0.1",
        trusted_proxies=tuple(behind_proxy or ()),
        tls=None if tls_cert is None or tls_key is None else (tls_cert, tls_key),
        rates=Rates.of(rate),
    )
    deployment = serving.Deployment(data, database, host, port, public_url, begin_anew)
    if operator_link:
        link = serving.operator_link(deployment, settings)
        _say({"operator_link": link}, [_INVITATION, link], as_json=as_json)
        return

    def announce(url: str, link: str | None, fingerprint: str) -> None:
        lines = ["", f"The service is at {url}", f"Its fingerprint, for parties to compare: {fingerprint}", ""]
        # The empty lines set the link apart from the log.
        lines += [] if link is None else [_INVITATION, "", f"    {link}", ""]
        _say({"url": url, "operator_link": link, "fingerprint": fingerprint}, lines, as_json=as_json)

    serving.serve(deployment, settings, worker=worker, lease=lease, announce=announce)


_INVITATION = "To become its operator, open this once, within a day:"


def _say(document: dict[str, str | None], lines: list[str], *, as_json: bool) -> None:
    echo(json.dumps(document) if as_json else "\n".join(lines))
    sys.stdout.flush()


def worker(
    data: DataOption = Path("equipoise-data"),
    database: DatabaseOption = None,
    processes: Annotated[
        int,
        typer.Option(help="Processes to sample in; 0 for a thread on each core.", min=0, max=1_024),
    ] = 1,
    lease: LeaseOption = 30.0,
) -> None:
    """Work for a service: take the settlements that were started, and compute them.

    A service brings one worker along; more can run beside it, or on other machines that reach the database and have a
    copy of the data folder's key. Killing one loses no more than the answer it was about to find.

    Example: equipoise worker --data consortium
    """
    from equipoise_service.context import Context
    from equipoise_service.jobs.worker import run_until_signalled
    from equipoise_service.logs import configure_logging

    context = Context.open(data, database)
    configure_logging()
    logging.getLogger("equipoise.worker").setLevel(logging.INFO)
    try:
        run_until_signalled(context, lease=lease, processes=processes or None)
    finally:
        context.close()
