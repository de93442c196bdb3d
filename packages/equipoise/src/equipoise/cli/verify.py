"""`equipoise verify`: check the export of a round, without any service."""

import re
from pathlib import Path
from typing import Annotated

import typer

from equipoise._util.canonical import read_limited
from equipoise._util.files import exists
from equipoise.cli.options import JsonOption
from equipoise.cli.output import echo, print_json
from equipoise.client.verify.check import check_export
from equipoise.errors import RepetitionError, VerificationError

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
    noise_secret: Annotated[
        Path | None,
        typer.Option(
            help="File with the secret of degraded rewards' noise, from `equipoise operator noise-secret`; with "
            "--again, rewards are made anew as well.",
            readable=False,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check an exported round offline: signatures, digests, log, receipts, submissions, rewards, audit.

    With --again, what could not be compared exactly is "not repeatable", and ends with exit code 13.

    Example: equipoise verify round.zip --receipt north.receipt.json --reward north.nc
    """
    if noise_secret is not None and not again:
        raise typer.BadParameter("it is used to settle anew; add --again.", param_hint="--noise-secret")
    given = [("EXPORT", export), *(("--receipt", file) for file in receipt or ())]
    given += [] if noise_secret is None else [("--noise-secret", noise_secret)]
    for name, path in (*given, *(("--reward", file) for file in reward or ())):
        if not exists(path):
            raise typer.BadParameter(f"there is no file {str(path)!r}; nothing was checked.", param_hint=name)
    checks = check_export(
        export,
        service=service,
        receipts=receipt or (),
        rewards=reward or (),
        again=again,
        noise_secret=None if noise_secret is None else _read_secret(noise_secret),
    )
    failed = [check for check in checks if check.outcome == "failed"]
    if as_json:
        print_json({"export": str(export), "genuine": not failed, "checks": [vars(check) for check in checks]})
    else:
        for check in checks:
            echo(f"{check.outcome:16}{check.title}")
            if check.message and check.outcome == "ok":
                echo(f"{'':16}{check.message}")
    if failed:
        # Whoever changed it, the service still has the right one.
        remedy = "; get it again from the operator" if failed[0].title in _DAMAGED else ""
        raise VerificationError(failed[0].message + remedy)
    if not as_json:
        echo("The export is consistent.")
    if unrepeated := [check for check in checks if check.outcome == "not repeatable"]:
        raise RepetitionError(f"not everything could be repeated: {unrepeated[0].message}")


def _read_secret(path: Path) -> str:
    """Read the secret of a round's noise, without ever repeating it in a message."""
    try:
        secret = read_limited(path, max_bytes=1_000).decode("ascii").strip()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise VerificationError(f"cannot read the noise secret in {str(path)!r}: {reason}") from error
    if not re.fullmatch("[0-9a-f]{64}", secret):
        raise VerificationError(
            f"{str(path)!r} holds no noise secret, which is 64 hexadecimal digits; get the file that "
            "`equipoise operator noise-secret` wrote"
        )
    return secret
