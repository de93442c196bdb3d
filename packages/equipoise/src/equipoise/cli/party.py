"""`equipoise party`: the commands of the party's data scientist, on the party's own machine."""

import json
import sys
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from equipoise._util.display import Table
from equipoise._util.files import exists, write_new_file
from equipoise._util.text import counted, short
from equipoise.agreement import Agreement
from equipoise.agreement.explanation import contribution
from equipoise.cli.ledger import readings
from equipoise.cli.options import (
    AgreementArgument,
    DecimalOption,
    DelimiterOption,
    JsonOption,
    LedgerOption,
    OutputOption,
    PartyOption,
    TableArgument,
    YesOption,
)
from equipoise.cli.output import (
    claim_output,
    echo,
    print_json,
    print_lines,
    print_table,
    reading_progress,
    warnings_as_lines,
)
from equipoise.cli.releasing import release_options
from equipoise.errors import SubmissionError
from equipoise.models import Layout, ScaledColumn
from equipoise.models.guarantee import DEFAULT_DELTA, approx_dp, epsilon_of, guessing, in_full
from equipoise.party import release as party_release
from equipoise.party.csv_stream import stated_table
from equipoise.party.options import ReleaseOptions
from equipoise.party.release import Plan, Preview
from equipoise.party.statistics import CLIPPED_IS_MANY
from equipoise.protocol.keys import create_key, public_hex
from equipoise.protocol.submission import Submission


def keygen(
    output: Annotated[Path, typer.Option("--output", "-o", help="File for the private key.")],
    as_json: JsonOption = False,
) -> None:
    """Make a signing key; its public half goes into the agreement.

    Example: equipoise party keygen -o north.key
    """
    public = public_hex(create_key(output))
    if as_json:
        print_json({"key": str(output), "public_key": public})
        return
    echo(f'Wrote {output}; keep it to yourself. For the agreement:\n\npublic_key = "{public}"')


@release_options("epsilon", "zcdp", "approx", "key", "again", "cap_zcdp", "family", "cohort", "allow_clipping")
def release(
    agreement: AgreementArgument,
    table: TableArgument,
    party: PartyOption,
    ledger: LedgerOption,
    options: ReleaseOptions,
    output: OutputOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show all that would leave; spend nothing.")] = False,
    delimiter: DelimiterOption = None,
    decimal: DecimalOption = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Read a table, spend privacy once, and write the signed submission.

    On a terminal you see what would be spent, and are asked before it is.

    Example: equipoise party release agreement.toml north.csv --party north --epsilon 0.2 --ledger north.ledger
    """
    agreed = Agreement.load(agreement)
    target = output or Path(f"{party}.submission.json")
    if not dry_run:
        claim_output(target, SubmissionError)
    source = stated_table(table, delimiter, decimal)
    with warnings_as_lines(), ExitStack() as reading:
        progress = reading.enter_context(reading_progress(f"Reading {table.name}", quiet=as_json))

        def confirm(plan: Plan) -> bool:
            # The progress bar would draw over the question.
            reading.close()
            return confirmed(plan, yes=yes)

        if dry_run:
            seen = party_release.preview(agreed, source, options, party=party, ledger=ledger, progress=progress)
        else:
            submission = party_release.release(
                agreed, source, options, party=party, ledger=ledger, confirm=confirm, progress=progress
            )
    if dry_run:
        show_preview(seen, as_json=as_json)
        if exists(target):
            print_lines(f"{str(target)!r} exists: a release needs another name, with --output.", err=True)
        return
    write_submission(submission, target)
    show_submission(submission, agreed, target, ledger, as_json=as_json, spent=True)


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
    agreed = Agreement.load(agreement)
    target = output or Path(f"{party}.submission.json")
    claim_output(target, SubmissionError)
    submission = party_release.resend(agreed, party=party, ledger=ledger)
    write_submission(submission, target)
    show_submission(submission, agreed, target, ledger, as_json=as_json, spent=False)


def write_submission(submission: Submission, path: Path) -> None:
    """Write the submission durably, all of it or nothing. If this fails, the ledger still holds it."""
    try:
        write_new_file(path, submission.to_json(), mode=0o644)
    except OSError as error:
        raise SubmissionError(
            f"cannot write {str(path)!r}: {error.strerror}; the submission is safe in the ledger, get it with "
            "`equipoise party resend`"
        ) from error


def confirmed(plan: Plan, *, yes: bool) -> bool:
    """Announce a new ledger; on a terminal also show what would be spent, and ask. Scripts are not asked."""
    if plan.new_ledger:
        print_lines(
            f"{plan.ledger.name} is a NEW ledger: it knows of no earlier release of these individuals, and will never "
            f"spend more than its cap, zCDP {plan.cap_zcdp:g}.",
            err=True,
        )
    if plan.charged_zcdp > plan.guarantee.zcdp:
        stated, charged = plan.guarantee.zcdp, plan.charged_zcdp
        print_lines(
            f"This release protects {plan.unit}, and {plan.ledger.name} counts what {plan.total_unit} lose: zCDP "
            f"{stated:g} counts {charged / stated:g} times, as zCDP {charged:g}.",
            err=True,
        )
    if yes or not sys.stdin.isatty():
        return True
    after = plan.spent_zcdp + plan.charged_zcdp
    print_lines(f"About to release {counted(plan.count, 'row')}, for good:", err=True)
    for line in (
        f"privacy: {in_full(plan.guarantee)}",
        guessing(plan.guarantee.zcdp, individual=plan.unit.individual),
        f"ledger {plan.ledger.name}: spent {spent_in_words(plan.spent_zcdp)} before, {spent_in_words(after)} after, "
        f"for {plan.total_unit}; of its cap zCDP {plan.cap_zcdp:g}, zCDP {max(0.0, plan.cap_zcdp - after):g} would be "
        "left",
        *(
            f"column {name}: {f'{share:.1%}' if share else 'none'} of the first values moved to an end of the range "
            "(for your eyes only)"
            for name, share in plan.clipped.items()
        ),
    ):
        print_lines(line, bullet=True, err=True)
    return typer.confirm("Spend this?", default=False, err=True)


def spent_in_words(zcdp: float) -> str:
    """Return a cost in words, as zCDP and as (epsilon, delta)."""
    if zcdp == 0:
        return "nothing"
    return f"zCDP {zcdp:g}, that is ({epsilon_of(zcdp, DEFAULT_DELTA):.3g}, {short(DEFAULT_DELTA)})-DP,"


def show_submission(
    submission: Submission, agreement: Agreement, path: Path, ledger: Path, *, as_json: bool, spent: bool
) -> None:
    """Print what was written and what it cost."""
    guarantee = submission.stated
    if as_json:
        print_json(
            {
                "submission": str(path),
                "id": submission.id,
                "count": submission.count,
                "ledger": str(ledger),
                "spent": spent,
                "guarantee": readings(guarantee),
            }
        )
        return
    cost = f"spent {in_full(guarantee)}" if spent else "spent nothing: these are the bytes released before"
    sums = counted(len(submission.statistic), "perturbed sum")
    print_lines(f"Wrote {path}: {sums} over {counted(submission.count, 'row')}.")
    print_lines(f"Privacy: {cost}; recorded in {ledger}.")
    print_lines(guessing(guarantee.zcdp, individual=agreement.privacy.individual))
    print_lines(f"Send {path.name} to the mediator of agreement {agreement.identity[:12]}…. Nothing else need leave.")


def show_preview(preview: Preview, *, as_json: bool) -> None:
    """Print a submission of the form that would leave, and what each part reveals."""
    sample, layout = preview.submission, preview.layout
    if as_json:
        print_json(
            {
                "would_send": json.loads(sample.to_json()),
                "placeholders": "statistic: noise around zero, not your data; id and signature: zeros; "
                "public_key: zeros unless a key exists",
                "guarantee": readings(preview.guarantee),
                "stays_here": {
                    "clipped": preview.clipped,
                    "columns_not_read": preview.ignored_columns,
                    **({"individuals_by_rows": preview.individuals} if preview.individuals else {}),
                    "odd": [asdict(problem) for problem in preview.odd],
                },
            }
        )
        return
    print_lines(
        "DRY RUN: nothing is spent, nothing is written. A submission of this form would leave, and nothing else. The "
        "statistic shown is noise around zero, because even your perturbed numbers on this screen would be a release; "
        "id and signature, and the key if there is none yet, are zeros."
    )
    echo(f"\n{sample.to_json().decode()}")
    print_table(
        Table(
            "What each part reveals",
            ("part", "content", "reveals"),
            [
                ("agreement", sample.agreement[:12] + "…", "which agreement this is for; public"),
                ("party, public_key, signature", sample.party, "who you are"),
                ("id", "hash of the ledger entry", "nothing; it contains a random number"),
                ("count", f"{sample.count:,}", f"your exact number of {_counted(layout)}, unprotected"),
                (
                    "guarantee",
                    approx_dp(preview.guarantee),
                    f"how much privacy you chose: {in_full(preview.guarantee)}",
                ),
                ("statistic", counted(len(layout), "integer"), "sums over rows, protected by noise as below"),
            ],
            numeric_from=9,
        )
    )
    individual = None if layout.individuals is None else layout.individuals.column
    print_lines(guessing(preview.guarantee.zcdp, released="this release", individual=individual))
    echo()
    shown = list(zip(layout.entries, layout.noise_deviations(preview.guarantee), strict=True))
    rows = [(f"sum of {entry.name}", f"{deviation:.4g}") for entry, deviation in shown[:12]]
    more = [(f"… and {len(shown) - 12} more", "")] if len(shown) > 12 else []
    print_table(
        Table(
            f"Noise on each sum, to which one row adds {contribution(layout)}",
            ("sum", "standard deviation"),
            rows + more,
        )
    )
    _show_private_notes(preview)


def _counted(layout: Layout) -> str:
    """Name what the public row count counts."""
    individuals = layout.individuals
    return "rows" if individuals is None or individuals.aggregate is None else f"values of {individuals.column}"


def _show_private_notes(preview: Preview) -> None:
    notes = []
    if preview.layout.individuals is not None and preview.individuals:
        some = [f"{number:,} with {counted(rows, 'row')}" for rows, number in preview.individuals.items()]
        more = [f"{len(some) - 8} other numbers of rows, up to {max(preview.individuals):,}"] if len(some) > 8 else []
        notes.append(f"{preview.layout.individuals.column}: {', '.join(some[:8] + more)}")
    if preview.ignored_columns:
        notes.append(f"columns never read: {', '.join(preview.ignored_columns)}")
    for name, share in preview.clipped.items():
        if share > 0:
            many = (
                "; that is much, and a release refuses it without --allow-clipping: is the column in the agreed unit, "
                "or is the range too narrow?"
            )
            hint = many if share > CLIPPED_IS_MANY else ""
            notes.append(
                f"{name}: {share:.1%} of the first rows lie beyond the agreed range and are moved to its ends{hint}"
            )
    bounded = any(isinstance(column, ScaledColumn) for column in preview.layout.columns)
    if bounded and not any(preview.clipped.values()):
        notes.append("no value of the first rows lies beyond the agreed range")
    notes += [
        f"{problem.column}: {problem.problem}, in {counted(problem.count, 'row')}; {problem.remedy}"
        for problem in preview.odd
    ]
    if notes:
        echo("For your eyes only (not private, never sent):")
    for note in notes:
        print_lines(note, bullet=True)
