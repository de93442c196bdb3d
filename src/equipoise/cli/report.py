"""`equipoise report`: a settlement as a page to read, for the operator or for one party."""

from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.options import JsonOption
from equipoise.cli.output import echo


def report(
    folder: Annotated[
        Path, typer.Argument(help="Folder of a settlement, as mediation left it.", metavar="FOLDER", readable=False)
    ],
    party: Annotated[
        str | None, typer.Option(help="Make the edition of this party, which holds nothing of the others'.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write [FOLDER/report.html, or FOLDER/for/PARTY/report.html]."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write the report of a settlement: one HTML file that needs nothing else.

    The operator's edition has everybody's numbers. Give a party only its own edition.

    Example: equipoise report out --party north -o north.html
    """
    from equipoise.cli.output import print_json
    from equipoise.mediation.audit import audited
    from equipoise.mediation.folders import REPORT, folder_of
    from equipoise.mediation.settlement import Settlement
    from equipoise.report import write_report

    settlement = audited(Settlement.load(folder))  # by the very draws that are there
    usual = folder / REPORT if party is None else folder_of(folder, party) / REPORT
    path = usual if output is None else output
    write_report(settlement, path, party=party)
    if as_json:
        audit = {finding.code: finding.verdict for finding in settlement.audit}
        print_json({"report": str(path), "party": party, "decisions": settlement.decisions, "audit": audit})
        return
    whose = "the operator" if party is None else party
    echo(f"The report for {whose} is {path}. Open it in a browser, or print it.")
