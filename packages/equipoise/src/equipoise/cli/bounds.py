"""`equipoise party bounds`, and tables of the bounds that it bought."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from equipoise._util.display import Table
from equipoise._util.files import write_new_file
from equipoise._util.text import counted
from equipoise.cli.options import (
    CohortOption,
    DecimalOption,
    DelimiterOption,
    JsonOption,
    LedgerOption,
    PartyOption,
    TableArgument,
    YesOption,
)
from equipoise.cli.output import claim_output, print_json, print_lines, print_table, warnings_as_lines
from equipoise.cli.party import spent_in_words
from equipoise.errors import SubmissionError, TableError
from equipoise.models import Individuals
from equipoise.models.layout import Aggregate
from equipoise.party.bounds import BoundsRelease, release_bounds
from equipoise.party.csv_stream import stated_table
from equipoise.party.proposal import Proposal, proposed
from equipoise.protocol.keys import fingerprint


def bounds(
    table: TableArgument,
    column: Annotated[list[str], typer.Option(help="A column of numbers whose bounds are wanted; repeat for each.")],
    party: PartyOption,
    ledger: LedgerOption,
    zcdp: Annotated[float, typer.Option(help="What all columns together cost, as zCDP rho.")] = 0.01,
    individual: Annotated[str | None, typer.Option(help="The column that says whose row it is.")] = None,
    rows_per_individual: Annotated[
        int | None, typer.Option(min=1, max=100, help="The most rows anybody may have [1].")
    ] = None,
    aggregate: Annotated[
        Aggregate | None, typer.Option(help="Make one row of all that somebody has: mean, first or last.")
    ] = None,
    key: Annotated[Path | None, typer.Option(help="Signing key; by default one is kept beside the ledger.")] = None,
    cap_zcdp: Annotated[float | None, typer.Option(help="For a new ledger: the most it may ever spend.")] = None,
    cohort: CohortOption = "",
    delimiter: DelimiterOption = None,
    decimal: DecimalOption = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write [PARTY.bounds.json].")] = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Buy bounds of columns that nobody knows by heart: noisy counts in public bins, paid from the ledger.

    Each party sends its file to whoever drafts the agreement: `equipoise agreement bounds` combines them.

    Example: equipoise party bounds north.csv --column age --column bmi --party north --ledger north.ledger
    """
    if individual is None and (rows_per_individual is not None or aggregate is not None):
        raise TableError(
            "--rows-per-individual and --aggregate need --individual, the column that says whose row it is"
        )
    if rows_per_individual is not None and aggregate is not None:
        raise TableError("--aggregate makes one row of all that somebody has; leave out --rows-per-individual")
    target = output or Path(f"{party}.bounds.json")
    claim_output(target, SubmissionError)
    if not yes and sys.stdin.isatty():
        print_lines(f"About to spend {spent_in_words(zcdp)} on bounds of {', '.join(column)}, for good.", err=True)
        if not typer.confirm("Spend this?", default=False, err=True):
            raise typer.Exit(1)
    whose = None if individual is None else Individuals(individual, rows_per_individual or 1, False, aggregate)
    with warnings_as_lines():
        release = release_bounds(
            stated_table(table, delimiter, decimal), column, party=party, ledger=ledger, zcdp=zcdp, key=key,
            cap_zcdp=cap_zcdp, cohort=cohort, individuals=whose,
        )  # fmt: skip
    try:
        write_new_file(target, release.to_json(), mode=0o644)
    except OSError as error:
        # The counts are paid for, so they must not be lost.
        sys.stdout.write(release.to_json().decode())
        raise SubmissionError(f"cannot write {str(target)!r}: {error.strerror}; it is printed instead") from error
    if as_json:
        print_json({"output": str(target), **file_as_json(release), "columns": column})
        return
    print_lines(
        f"Wrote {target}: counts with noise of standard deviation {release.deviation:.3g} rows, which cost zCDP "
        f"{zcdp:g}. Nothing else need leave. Whoever drafts the agreement runs: equipoise agreement bounds FILES"
    )
    show_proposals([release])


def file_as_json(release: BoundsRelease) -> dict[str, Any]:
    """Return a file's statements about itself, for `--json`."""
    return {
        "party": release.party,
        "rows": release.count,
        "zcdp": release.zcdp,
        "deviation": release.deviation,
        "fingerprint": fingerprint(release.public_key),
    }


def proposal_as_json(proposal: Proposal) -> dict[str, Any]:
    """Return a proposal for `--json`."""
    return {**asdict(proposal), "is_told": proposal.is_told}


def show_proposals(releases: Sequence[BoundsRelease]) -> None:
    """Print what all files propose together, and each alone, with what the noise leaves open."""
    together = proposed(releases)
    alone = {release.party: proposed([release]) for release in releases} if len(releases) > 1 else {}
    rows = []
    for name, proposal in together.items():
        rows.append((name, "all" if alone else releases[0].party, *_cells(proposal)))
        rows += [("", f"{party} alone", *_cells(own[name])) for party, own in alone.items() if name in own]
    print_table(
        Table(
            "Proposed from noisy counts. What lies outside would be clipped; how much that may be follows from the "
            "noise and the number of rows. Round as knowledge of the columns suggests.",
            ("column", "from", "bounds", "95 % are about", "outside or missing"),
            rows,
            numeric_from=9,
        )
    )
    for line in _open_questions(together):
        print_lines(line)
    for release in releases:
        print_lines(
            f"{release.party}: {counted(release.count, 'row')}, noise of {release.deviation:.3g} rows on each count "
            f"(zCDP {release.zcdp:g}), signed with the key {fingerprint(release.public_key)}",
            bullet=True,
        )


def alone_in_words(releases: Sequence[BoundsRelease], name: str) -> Iterator[str]:
    """Yield, for each file that has a column, the bounds that it proposes alone."""
    for release in releases:
        if name in release.counts:
            own = proposed([release])[name]
            yield f"{release.party} alone: {_range(own.bounds)}"


def _cells(proposal: Proposal) -> tuple[str, str, str]:
    low, high = proposal.outside
    typical = _range(proposal.typical) if proposal.typical is not None else "cannot tell"
    return _range(proposal.bounds), typical, f"{low:.0%} to {high:.0%}"


def _range(ends: tuple[float, float] | None) -> str:
    return "hidden by noise" if ends is None else f"{ends[0]:.3g} to {ends[1]:.3g}"


def _open_questions(proposals: dict[str, Proposal]) -> Iterator[str]:
    for name, proposal in proposals.items():
        if not proposal.is_told:
            seen = (
                "noise hides all values"
                if proposal.bounds is None
                else f"up to {proposal.outside[1]:.0%} of the rows may lie outside these bounds, or be missing"
            )
            yield (
                f"{name}: too little was spent to tell; {seen}. About {max(2, round(proposal.times_zcdp)):,} times the "
                "zCDP, or more parties, would tell; so may common knowledge."
            )
