"""Options that several commands share."""

import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

Command = Callable[..., None]

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DeltaOption = Annotated[float, typer.Option(help="Delta at which (epsilon, delta) is shown.")]
# Whether a file can be read is for the command to find out: its message and exit code are better than the parser's.
AgreementArgument = Annotated[Path, typer.Argument(help="The agreement file.", metavar="AGREEMENT", readable=False)]
LedgerArgument = Annotated[Path, typer.Argument(help="The ledger file.", metavar="LEDGER", readable=False)]
PartyOption = Annotated[str, typer.Option(help="Your name in the agreement.")]
LedgerOption = Annotated[
    Path, typer.Option(help="Your ledger: one for all tables that share individuals.", readable=False)
]
COHORT = typer.Option(
    help="Which part of the ledger's individuals it is about; parts are disjoint and public; the dearest counts."
)
CohortOption = Annotated[str, COHORT]
ALLOW_CLIPPING = typer.Option(
    "--allow-clipping", help="Release although much of a column lies outside the agreed bounds."
)
AllowClippingOption = Annotated[bool, ALLOW_CLIPPING]
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


def with_options(
    parameter: str,
    names: tuple[str, ...],
    known: Mapping[str, tuple[Any, Any]],
    defaults: Mapping[str, Any],
    build: Callable[[dict[str, Any]], Any],
) -> Callable[[Command], Command]:
    """Give a command options that it receives together, as one parameter.

    Parameters
    ----------
    parameter : str
        The command's parameter in whose place the options stand.
    names : tuple of str
        The options that this command has.
    known : mapping
        Type and `typer.Option` of every option.
    defaults : mapping
        Default of every option.
    build : callable
        Makes the parameter's value from what was given; it may refuse that before the command begins.
    """

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def run(**given: Any) -> None:
            chosen = {name: given.pop(name) for name in names}
            command(**{parameter: build(chosen)}, **given)

        options = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=defaults[name],
                annotation=Annotated[known[name]],
            )
            for name in names
        ]
        parameters: list[inspect.Parameter] = []
        for each in inspect.signature(command).parameters.values():
            parameters += options if each.name == parameter else [each]
        keyword = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
        run.__signature__ = inspect.Signature(keyword, return_annotation=None)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in keyword} | {"return": None}
        return run

    return decorate
