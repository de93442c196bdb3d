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
# How a settlement is computed, the same for files and for a service.
RhoOption = Annotated[str | None, typer.Option(help='Fairness exponent up to 1, or "max", if left to you [as agreed].')]
MechanismOption = Annotated[
    str | None, typer.Option(help="How rewards are made, if left to you: tempering or noise [as agreed].")
]
TeamOption = Annotated[
    list[str] | None, typer.Option(help="Parties that team up, if left to you, as a,b,c; repeat for each [one team].")
]
SeedOption = Annotated[
    int | None, typer.Option(help="Another seed than follows from the submissions; the report says it was chosen.")
]
PrecisionOption = Annotated[float, typer.Option(help="Standard error wanted of targets and rewards, in nats.")]
DrawsOption = Annotated[int, typer.Option(help="Draws of a posterior, to begin with.")]
BudgetOption = Annotated[int | None, typer.Option(help="Coalitions to value, when there are too many to value all.")]
PartialOption = Annotated[
    bool, typer.Option("--partial", help="Settle although some of the parties have not submitted.")
]
DeviateOption = Annotated[
    bool,
    typer.Option("--deviate", help="Settle otherwise than agreed all the same; every report shows a broken promise."),
]
ForceOption = Annotated[bool, typer.Option(help="Settle even with posteriors that have not converged.")]
