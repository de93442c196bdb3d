"""`equipoise doctor`: whether this machine is fit for the work."""

from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.options import JsonOption


def doctor(
    ledger: Annotated[
        list[Path] | None, typer.Option(help="A ledger to verify; repeat for each.", readable=False)
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check the installation, the noise, the device, the cache, and ledgers. Exit code 1 if a check failed.

    Example: equipoise doctor --ledger north.ledger
    """
    from equipoise.cli.output import print_json, print_lines, print_table
    from equipoise.doctor import examine

    checks = examine(tuple(ledger or ()))
    failed = [check for check in checks if check.status == "failed"]
    if as_json:
        print_json({"fit": not failed, "checks": [check.to_json() for check in checks]})
    else:
        print_table(
            "What was checked",
            ("check", "result", "found"),
            [(check.name, check.status, check.found) for check in checks],
            numeric_from=9,
        )
        for check in checks:
            if check.status != "ok":
                print_lines(f"{check.name} {check.status}: {check.found}. Remedy: {check.remedy}.", bullet=True)
        if all(check.status == "ok" for check in checks):
            print_lines("Everything is as it should be.")
    if failed:
        raise typer.Exit(1)
