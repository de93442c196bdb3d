"""What `equipoise party` prints and writes."""

import json
import sys
from dataclasses import asdict
from pathlib import Path

import typer

from equipoise._util.files import write_new_file
from equipoise._util.text import counted, short
from equipoise.agreement import Agreement
from equipoise.agreement.explanation import contribution
from equipoise.cli.output import echo, print_json, print_lines, print_table
from equipoise.errors import SubmissionError
from equipoise.guarantee import DEFAULT_DELTA, Guarantee, approx_dp, epsilon_of, guess_percent, guessing, in_full
from equipoise.models import ScaledColumn
from equipoise.party.history import History
from equipoise.party.release import CLIPPED_IS_MANY, Plan, Preview
from equipoise.protocol.submission import Submission


def write_submission(submission: Submission, path: Path) -> None:
    """Write all of it or nothing, durably. Should this fail, the ledger still holds it."""
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
    if yes or not sys.stdin.isatty():
        return True
    after = plan.spent_zcdp + plan.guarantee.zcdp
    print_lines(f"About to release {counted(plan.count, 'row')}, for good:", err=True)
    for line in (
        f"privacy: {in_full(plan.guarantee)}",
        guessing(plan.guarantee.zcdp),
        f"ledger {plan.ledger.name}: spent {_spent(plan.spent_zcdp)} before, {_spent(after)} after; of its cap zCDP "
        f"{plan.cap_zcdp:g}, zCDP {max(0.0, plan.cap_zcdp - after):g} would be left",
        *(
            f"column {name}: {f'{share:.1%}' if share else 'none'} of the first values clipped (for your eyes only)"
            for name, share in plan.clipped.items()
        ),
    ):
        print_lines(line, bullet=True, err=True)
    return typer.confirm("Spend this?", default=False, err=True)


def _spent(zcdp: float) -> str:
    if zcdp == 0:
        return "nothing"
    return f"zCDP {zcdp:g}, that is ({epsilon_of(zcdp, DEFAULT_DELTA):.3g}, {short(DEFAULT_DELTA)})-DP,"


def show_submission(
    submission: Submission, agreement: Agreement, path: Path, ledger: Path, *, as_json: bool, spent: bool
) -> None:
    """Say what was written and what it cost."""
    guarantee = submission.stated
    if as_json:
        print_json(
            {
                "submission": str(path),
                "id": submission.id,
                "count": submission.count,
                "ledger": str(ledger),
                "spent": spent,
                "guarantee": _readings(guarantee),
            }
        )
        return
    cost = f"spent {in_full(guarantee)}" if spent else "spent nothing: these are the bytes released before"
    sums = counted(len(submission.statistic), "perturbed sum")
    print_lines(f"Wrote {path}: {sums} over {counted(submission.count, 'row')}.")
    print_lines(f"Privacy: {cost}; recorded in {ledger}.")
    print_lines(guessing(guarantee.zcdp))
    print_lines(f"Send {path.name} to the mediator of agreement {agreement.identity[:12]}…. Nothing else need leave.")


def show_preview(preview: Preview, *, as_json: bool) -> None:
    """Show a submission of the form that would leave, and what each part reveals."""
    sample, layout = preview.submission, preview.layout
    if as_json:
        print_json(
            {
                "would_send": json.loads(sample.to_json()),
                "placeholders": "statistic: noise around zero, not your data; id and signature: zeros; "
                "public_key: zeros unless a key exists",
                "guarantee": _readings(preview.guarantee),
                "stays_here": {"clipped": preview.clipped, "columns_not_read": preview.ignored_columns},
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
        "What each part reveals",
        ("part", "content", "reveals"),
        [
            ("agreement", sample.agreement[:12] + "…", "which agreement this is for; public"),
            ("party, public_key, signature", sample.party, "who you are"),
            ("id", "hash of the ledger entry", "nothing; it contains a random number"),
            ("count", f"{sample.count:,}", "your exact number of rows, unprotected"),
            ("guarantee", approx_dp(preview.guarantee), f"how much privacy you chose: {in_full(preview.guarantee)}"),
            ("statistic", counted(len(layout), "integer"), "sums over rows, protected by noise as below"),
        ],
        numeric_from=9,
    )
    print_lines(guessing(preview.guarantee.zcdp, released="this release"))
    echo()
    shown = list(zip(layout.entries, layout.noise_deviations(preview.guarantee), strict=True))
    rows = [(f"sum of {entry.name}", f"{deviation:.4g}") for entry, deviation in shown[:12]]
    more = [(f"… and {len(shown) - 12} more", "")] if len(shown) > 12 else []
    print_table(
        f"Noise on each sum, to which one row adds {contribution(layout)}", ("sum", "standard deviation"), rows + more
    )
    _show_private_notes(preview)


def _show_private_notes(preview: Preview) -> None:
    notes = []
    if preview.ignored_columns:
        notes.append(f"columns never read: {', '.join(preview.ignored_columns)}")
    for name, share in preview.clipped.items():
        if share > 0:
            many = (
                "; that is much, and a release refuses it without --allow-clipping: is the column in the agreed unit, "
                "or are the bounds too narrow?"
            )
            hint = many if share > CLIPPED_IS_MANY else ""
            notes.append(f"{name}: {share:.1%} of the first rows lie outside the agreed bounds and are clipped{hint}")
    bounded = any(isinstance(column, ScaledColumn) for column in preview.layout.columns)
    if bounded and not any(preview.clipped.values()):
        notes.append("no value of the first rows lies outside the agreed bounds")
    if notes:
        echo("For your eyes only (not private, never sent):")
    for note in notes:
        print_lines(note, bullet=True)


def show_history(history: History, path: Path, *, order: float, delta: float, as_json: bool) -> None:
    """Show a verified ledger."""
    total = Guarantee.from_zcdp(history.total_zcdp, order=order)
    if as_json:
        print_json(
            {
                "ledger": str(path),
                "family": history.family,
                "cap_zcdp": history.cap_zcdp,
                "total": _readings(total, delta),
                "remaining_zcdp": max(0.0, history.cap_zcdp - total.zcdp),
                "spends": [asdict(spend) for spend in history.spends],
                "amendments": history.amendments,
            }
        )
        return
    family = f" for {history.family}" if history.family else ""
    print_lines(f"Ledger {path}{family}: {counted(len(history.spends), 'spend')}, chain intact.")
    echo()

    def readings(zcdp: float) -> tuple[str, ...]:
        return f"{epsilon_of(zcdp, delta):.3g}", guess_percent(zcdp), f"{zcdp * order:.4g}", f"{zcdp:.4g}"

    rows: list[tuple[str, ...]] = [
        (
            spend.time[:16].replace("T", " "),
            spend.party,
            spend.agreement[:8],
            f"{spend.count:,}",
            *readings(spend.zcdp),
            "" if spend.finished else "cut off; counts",
        )
        for spend in history.spends
    ]
    rows += [
        ("total", "", "", "", *readings(history.total_zcdp), ""),
        ("cap", "", "", "", *readings(history.cap_zcdp), ""),
    ]
    privacy = (f"(eps, {short(delta)})", "guess", "Rényi eps", "zCDP")
    headers = ("time (UTC)", "party", "agreement", "rows", *privacy, "note")
    width = len(headers) if history.unfinished else len(headers) - 1
    title = f"Privacy spent; Rényi eps at order {order:g}"
    print_table(title, headers[:width], [row[:width] for row in rows], numeric_from=3)
    print_lines(guessing(history.total_zcdp, released="all that was released"))
    for amendment in history.amendments:
        changes = [f"cap zCDP {amendment['cap']:g}"] if amendment["cap"] is not None else []
        changes += [f"bounds of {name} {values}" for name, values in amendment["domains"].items()]
        print_lines(f"Amended {amendment['time'][:10]}: {', '.join(changes)} ({amendment['reason']})")


def _readings(guarantee: Guarantee, delta: float = DEFAULT_DELTA) -> dict[str, float]:
    return {
        "order": guarantee.order,
        "epsilon": guarantee.epsilon,
        "zcdp": guarantee.zcdp,
        "epsilon_delta": guarantee.epsilon_at(delta),
        "delta": delta,
        "guess": guarantee.guess,
    }
