"""`equipoise worker`: settles the rounds of a service."""

from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.serve import DatabaseOption, DataOption, LeaseOption, check_installed


def worker(
    data: DataOption = Path("equipoise-data"),
    database: DatabaseOption = None,
    processes: Annotated[
        int, typer.Option(help="Processes to sample with; 0 for one on each core.", min=0, max=1_024)
    ] = 1,
    lease: LeaseOption = 30.0,
) -> None:
    """Work for a service: take the settlements that were started, and compute them.

    A service brings one worker along; more can run beside it, or on other machines that reach the database and have a
    copy of the data folder's key. Killing one loses no more than the answer it was about to find.

    Example: equipoise worker --data consortium
    """
    check_installed()
    import logging

    from equipoise.service.context import Context
    from equipoise.service.jobs.worker import run_until_signalled
    from equipoise.service.logs import configure_logging

    context = Context.open(data, database)
    configure_logging()
    logging.getLogger("equipoise.worker").setLevel(logging.INFO)
    try:
        run_until_signalled(context, lease=lease, processes=processes or None)
    finally:
        context.close()
