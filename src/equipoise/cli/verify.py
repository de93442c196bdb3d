"""`equipoise verify`: check the export of a round, without any service."""

from pathlib import Path
from typing import Annotated

import typer

from equipoise._util.files import exists
from equipoise.cli.options import JsonOption
from equipoise.cli.output import echo, print_json
from equipoise.client.verify.check import check_export
from equipoise.errors import VerificationError

_DAMAGED = ("the archive can be read safely", "every file is as it was signed")


def verify(
    export: Annotated[Path, typer.Argument(help="The export, a .zip file.", metavar="EXPORT", readable=False)],
    service: Annotated[
        str | None, typer.Option(help="The service's fingerprint; an export signed by another is refused.")
    ] = None,
    receipt: Annotated[
        list[Path] | None,
        typer.Option(
            help="A receipt of your own, of a submission or a reward, that the log must agree with; repeat for more.",
            readable=False,
        ),
    ] = None,
    reward: Annotated[
        list[Path] | None,
        typer.Option(
            help="A reward as you fetched it, which must be the one decided and handed out; repeat for more.",
            readable=False,
        ),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Also settle anew from the submissions, and compare the decisions.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check an exported round offline: signatures, digests, log, receipts, submissions, rewards, audit.

    Example: equipoise verify round.zip --receipt north.receipt.json --reward north.nc
    """
    given = [("EXPORT", export), *(("--receipt", one) for one in receipt or ())]
    for name, path in (*given, *(("--reward", one) for one in reward or ())):
        if not exists(path):
            raise typer.BadParameter(f"there is no file {str(path)!r}; nothing was checked.", param_hint=name)
    found = check_export(export, service=service, receipts=receipt or (), rewards=reward or (), again=again)
    failed = [check for check in found if check.outcome == "failed"]
    if as_json:
        print_json({"export": str(export), "genuine": not failed, "checks": [vars(check) for check in found]})
    else:
        for check in found:
            echo(f"{check.outcome:13}{check.title}")
            if check.message and check.outcome == "ok":
                echo(f"{'':13}{check.message}")
    if failed:
        # Whoever changed it, the service still has the right one.
        remedy = "; get it again from the operator" if failed[0].title in _DAMAGED else ""
        raise VerificationError(failed[0].message + remedy)
    if not as_json:
        echo("The export is consistent.")
