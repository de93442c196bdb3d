"""`equipoise party`: what the party's data scientist does, on the party's own machine."""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from equipoise.cli.options import (
    AgreementArgument,
    AllowClippingOption,
    DeltaOption,
    JsonOption,
    LedgerArgument,
    LedgerOption,
    OutputOption,
    PartyOption,
    YesOption,
)
from equipoise.cli.output import echo
from equipoise.guarantee import DEFAULT_DELTA

if TYPE_CHECKING:
    from equipoise.party.release import Plan

app = typer.Typer(help="Release a private statistic, keep the ledger.", no_args_is_help=True, rich_markup_mode=None)


@app.command()
def keygen(
    output: Annotated[Path, typer.Option("--output", "-o", help="File for the private key.")],
    as_json: JsonOption = False,
) -> None:
    """Make a signing key; its public half goes into the agreement.

    Example: equipoise party keygen -o north.key
    """
    from equipoise.cli.output import print_json
    from equipoise.protocol.keys import create_key, public_hex

    public = public_hex(create_key(output))
    if as_json:
        print_json({"key": str(output), "public_key": public})
        return
    echo(f'Wrote {output}; keep it to yourself. For the agreement:\n\npublic_key = "{public}"')


@app.command()
def release(
    agreement: AgreementArgument,
    table: Annotated[
        Path,
        typer.Argument(
            help="CSV, Parquet or Arrow file, or a folder of Parquet files.", metavar="TABLE", readable=False
        ),
    ],
    party: PartyOption,
    ledger: LedgerOption,
    epsilon: Annotated[float | None, typer.Option(help="Rényi epsilon at the agreed order.")] = None,
    zcdp: Annotated[float | None, typer.Option(help="The guarantee as zCDP rho instead.")] = None,
    approx: Annotated[
        tuple[float, float] | None,
        typer.Option(help="The guarantee as (epsilon, delta) instead.", metavar="EPSILON DELTA"),
    ] = None,
    key: Annotated[Path | None, typer.Option(help="Signing key; by default one is kept beside the ledger.")] = None,
    output: OutputOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show all that would leave; spend nothing.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Spend anew although there was a release.")] = False,
    cap_zcdp: Annotated[float | None, typer.Option(help="For a new ledger: the most it may ever spend.")] = None,
    family: Annotated[str, typer.Option(help="For a new ledger: which individuals it covers.")] = "",
    allow_clipping: AllowClippingOption = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Read a table, spend privacy once, and write the signed submission.

    On a terminal you see what would be spent, and are asked before it is.

    Example: equipoise party release agreement.toml north.csv --party north --epsilon 0.2 --ledger north.ledger
    """
    from equipoise.agreement import Agreement
    from equipoise.cli.output import claim_output, reading_progress, warnings_as_lines
    from equipoise.cli.party_output import confirmed, show_preview, show_submission, write_submission
    from equipoise.errors import SubmissionError
    from equipoise.party import release as party_release

    agreed = Agreement.load(agreement)
    target = output or Path(f"{party}.submission.json")
    claim_output(target, SubmissionError)
    with warnings_as_lines(), ExitStack() as reading:
        progress = reading.enter_context(reading_progress(f"Reading {table.name}", quiet=as_json))

        def confirm(plan: "Plan") -> bool:
            reading.close()  # or the progress bar would draw over the question
            return confirmed(plan, yes=yes)

        if dry_run:
            seen = party_release.preview(
                agreed, table, party=party, ledger=ledger, epsilon=epsilon, zcdp=zcdp, approx=approx, key=key,
                again=again, cap_zcdp=cap_zcdp, progress=progress,
            )  # fmt: skip
        else:
            submission = party_release.release(
                agreed, table, party=party, ledger=ledger, epsilon=epsilon, zcdp=zcdp, approx=approx, key=key,
                again=again, cap_zcdp=cap_zcdp, family=family, allow_clipping=allow_clipping, confirm=confirm,
                progress=progress,
            )  # fmt: skip
    if dry_run:
        show_preview(seen, as_json=as_json)
        return
    write_submission(submission, target)
    show_submission(submission, agreed, target, ledger, as_json=as_json, spent=True)


@app.command()
def resend(
    agreement: AgreementArgument,
    party: PartyOption,
    ledger: LedgerOption,
    output: OutputOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the submission already made under an agreement again; it costs nothing.

    Example: equipoise party resend agreement.toml --party north --ledger north.ledger -o copy.json
    """
    from equipoise.agreement import Agreement
    from equipoise.cli.output import claim_output
    from equipoise.cli.party_output import show_submission, write_submission
    from equipoise.errors import SubmissionError
    from equipoise.party import release as party_release

    agreed = Agreement.load(agreement)
    target = output or Path(f"{party}.submission.json")
    claim_output(target, SubmissionError)
    submission = party_release.resend(agreed, party=party, ledger=ledger)
    write_submission(submission, target)
    show_submission(submission, agreed, target, ledger, as_json=as_json, spent=False)


@app.command()
def ledger(
    path: LedgerArgument,
    order: Annotated[float, typer.Option(help="Rényi order at which totals are shown.")] = 2.0,
    delta: DeltaOption = DEFAULT_DELTA,
    check: Annotated[list[Path] | None, typer.Option(help="A submission this ledger must account for; repeat.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Verify a ledger and show what has been spent, as Rényi epsilon, zCDP and (epsilon, delta).

    Example: equipoise party ledger north.ledger --delta 1e-6
    """
    from equipoise.cli.party_output import show_history
    from equipoise.errors import LedgerError
    from equipoise.party.ledger import Ledger
    from equipoise.protocol.submission import Submission

    book = Ledger(path)
    history = book.read()
    for submission_path in check or ():
        if not book.accounts_for(Submission.load(submission_path)):
            raise LedgerError(
                f"{str(path)!r} does not account for {str(submission_path)!r}: another ledger paid for it, or this one "
                "was rewritten or rolled back"
            )
    show_history(history, path, order=order, delta=delta, as_json=as_json)


@app.command()
def amend(
    path: LedgerArgument,
    reason: Annotated[str, typer.Option(help="Why; it stays in the ledger.")],
    cap_zcdp: Annotated[float | None, typer.Option(help="The new cap on everything spent.")] = None,
    accept_bounds: Annotated[
        Path | None, typer.Option(help="Accept this agreement's bounds where they differ from earlier ones.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Record a decision in the ledger: a new cap, or bounds that have changed for a reason other than the data.

    Example: equipoise party amend north.ledger --cap-zcdp 0.5 --reason "board decision of 3 May"
    """
    from equipoise.agreement import Agreement
    from equipoise.cli.output import print_json
    from equipoise.errors import LedgerError
    from equipoise.party.ledger import Ledger, domains_of

    if cap_zcdp is None and accept_bounds is None:
        raise LedgerError("nothing to amend; give --cap-zcdp or --accept-bounds")
    book = Ledger(path)
    known = book.read().domains
    agreed = domains_of(Agreement.load(accept_bounds)) if accept_bounds else {}
    changed = {name: values for name, values in agreed.items() if name in known and known[name] != values}
    if accept_bounds is not None and not changed:
        raise LedgerError(f"no bounds of {str(accept_bounds)!r} differ from those in the ledger; nothing to accept")
    book.amend(reason=reason, cap_zcdp=cap_zcdp, domains=changed)
    if as_json:
        bounds = {name: {"before": known[name], "now": values} for name, values in changed.items()}
        print_json({"ledger": str(path), "cap_zcdp": book.read().cap_zcdp, "bounds": bounds, "reason": reason})
        return
    if cap_zcdp is not None:
        echo(f"The cap is now zCDP {cap_zcdp:g}.")
    for name, values in changed.items():
        echo(f"{name}: {known[name]} is now {values}.")
