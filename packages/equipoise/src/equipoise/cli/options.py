"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DeltaOption = Annotated[float, typer.Option(help="Delta at which (epsilon, delta) is shown.")]
# Whether a file can be read is for the command to find out: its message and exit code are better than the parser's.
AgreementArgument = Annotated[Path, typer.Argument(help="The agreement file.", metavar="AGREEMENT", readable=False)]
LedgerArgument = Annotated[Path, typer.Argument(help="The ledger file.", metavar="LEDGER", readable=False)]
PartyOption = Annotated[str, typer.Option(help="Your name in the agreement.")]
LedgerOption = Annotated[
    Path, typer.Option(help="Your ledger: one for all tables that share individuals.", readable=False)
]
CohortOption = Annotated[
    str,
    typer.Option(
        help="Which part of the ledger's individuals it is about; parts are disjoint and public; the dearest counts."
    ),
]
AllowClippingOption = Annotated[
    bool,
    typer.Option("--allow-clipping", help="Release although much of a column lies outside the agreed bounds."),
]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask before spending.")]
OutputOption = Annotated[Path | None, typer.Option("--output", "-o", help="File to write [PARTY.submission.json].")]
MembershipOption = Annotated[
    Path, typer.Option(help="Your note of where you are a member, as `equipoise join` wrote it.", readable=False)
]
RoundOption = Annotated[str | None, typer.Option("--round", help="Which round, if there are several.", metavar="ID")]
TableArgument = Annotated[
    Path,
    typer.Argument(help="CSV, Parquet or Arrow file, or a folder of Parquet files.", metavar="TABLE", readable=False),
]
DelimiterOption = Annotated[
    str | None, typer.Option(help="What separates the cells of a CSV file, if not what its ending says; tab for tabs.")
]
DecimalOption = Annotated[
    str | None, typer.Option(help="What separates decimals in a CSV file, a point or a comma.", metavar="[.|,]")
]
