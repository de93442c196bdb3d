"""What `equipoise party` prints and writes."""

import json
import os
from dataclasses import asdict
from pathlib import Path

import typer

from equipoise.agreement import Agreement
from equipoise.cli.output import print_json, print_table
from equipoise.errors import SubmissionError
from equipoise.guarantee import DEFAULT_DELTA, Guarantee, epsilon_of
from equipoise.party.durable import write_new_file
from equipoise.party.history import History
from equipoise.party.release import Preview
from equipoise.wire import Submission

_CLIPPED_IS_MANY = 0.05


def claim_output(path: Path) -> None:
    """Refuse an output that could not be written, before anything is spent."""
    if path.exists():
        raise SubmissionError(f"{str(path)!r} exists; choose another name with --output")
    if not path.resolve().parent.is_dir() or not os.access(path.resolve().parent, os.W_OK):
        raise SubmissionError(f"cannot write into {str(path.resolve().parent)!r}; choose another place with --output")


def write_submission(submission: Submission, path: Path) -> None:
    """Write all of it or nothing, durably. Should this fail, the ledger still holds it for --resend."""
    try:
        write_new_file(path, submission.to_json(), mode=0o644)
    except OSError as error:
        raise SubmissionError(
            f"cannot write {str(path)!r}: {error.strerror}; the submission is safe in the ledger, get it with --resend"
        ) from error


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
    cost = f"spent {_in_words(guarantee)}" if spent else "spent nothing: these are the bytes released before"
    typer.echo(f"Wrote {path}: {len(submission.statistic)} perturbed sums over {submission.count:,} rows.")
    typer.echo(f"Privacy: {cost}; recorded in {ledger}.")
    typer.echo(f"Send {path.name} to the mediator of agreement {agreement.identity[:12]}…. Nothing else need leave.")


def show_preview(preview: Preview, *, as_json: bool) -> None:
    """Show every byte that would leave, and what each part reveals."""
    sample, layout = preview.submission, preview.layout
    if as_json:
        print_json(
            {
                "would_send": json.loads(sample.to_json()),
                "statistic_is": "noise around zero, not your data",
                "guarantee": _readings(preview.guarantee),
                "stays_here": {"clipped": preview.clipped, "columns_not_read": preview.ignored_columns},
            }
        )
        return
    typer.echo(
        "DRY RUN: nothing is spent, nothing is written. These bytes would leave, and nothing else;\n"
        "the statistic shown is noise around zero, because your own perturbed numbers would be a release:\n"
    )
    typer.echo(sample.to_json().decode())
    deviations = layout.noise_deviations(preview.guarantee)
    print_table(
        "What each part reveals",
        ("part", "content", "reveals"),
        [
            ("agreement", sample.agreement[:12] + "…", "which agreement this is for; public"),
            ("party, public_key, signature", sample.party, "who you are"),
            ("id", "hash of the ledger entry", "nothing; it contains a random number"),
            ("count", f"{sample.count:,}", "your exact number of rows, unprotected"),
            (
                "guarantee",
                f"order {preview.guarantee.order:g}, epsilon {preview.guarantee.epsilon:g}",
                f"how much privacy you chose: {_in_words(preview.guarantee)}",
            ),
            ("statistic", f"{len(layout)} integers", "sums over rows, protected by noise as below"),
        ],
        numeric_from=9,
    )
    shown = list(zip(layout.entries, deviations, strict=True))
    rows = [(f"sum of {entry.name}", f"{deviation:.4g}") for entry, deviation in shown[:12]]
    more = [(f"… and {len(shown) - 12} more", "")] if len(shown) > 12 else []
    print_table("Noise on each sum (each row adds between -1 and 1)", ("sum", "standard deviation"), rows + more)
    typer.echo("For your eyes only (not private, never sent):")
    if preview.ignored_columns:
        typer.echo(f"- columns never read: {', '.join(preview.ignored_columns)}")
    for name, share in preview.clipped.items():
        if share > 0:
            hint = "  <- many: is the column in the agreed unit?" if share > _CLIPPED_IS_MANY else ""
            typer.echo(f"- {name}: {share:.1%} of the first rows lie outside the agreed bounds and are clipped{hint}")
    if not any(preview.clipped.values()):
        typer.echo("- no value of the first rows lies outside the agreed bounds")


def show_history(history: History, path: Path, *, order: float, delta: float, as_json: bool) -> None:
    """Show a verified ledger."""
    total = history.total_zcdp
    totals = {
        "epsilon": total * order,
        "order": order,
        "zcdp": total,
        "epsilon_delta": epsilon_of(total, delta),
        "delta": delta,
    }
    if as_json:
        print_json(
            {
                "ledger": str(path),
                "family": history.family,
                "cap_zcdp": history.cap_zcdp,
                "total": totals,
                "remaining_zcdp": max(0.0, history.cap_zcdp - total),
                "spends": [asdict(spend) for spend in history.spends],
                "amendments": history.amendments,
            }
        )
        return
    family = f" for {history.family}" if history.family else ""
    typer.echo(f"Ledger {path}{family}: {len(history.spends)} spends, chain intact.\n")
    headers = (
        "time (UTC)",
        "party",
        "agreement",
        "rows",
        f"epsilon (order {order:g})",
        "zCDP",
        f"(eps, {delta:g})",
        "",
    )
    rows = [
        (
            spend.time[:19].replace("T", " "),
            spend.party,
            spend.agreement[:8],
            f"{spend.count:,}",
            f"{spend.zcdp * order:.4g}",
            f"{spend.zcdp:.4g}",
            f"{epsilon_of(spend.zcdp, delta):.3g}",
            "" if spend.finished else "never finished; counts",
        )
        for spend in history.spends
    ]
    summary = (
        "total",
        "",
        "",
        "",
        f"{totals['epsilon']:.4g}",
        f"{total:.4g}",
        f"{totals['epsilon_delta']:.3g}",
        "",
    )
    cap = (
        "cap",
        "",
        "",
        "",
        f"{history.cap_zcdp * order:.4g}",
        f"{history.cap_zcdp:.4g}",
        f"{epsilon_of(history.cap_zcdp, delta):.3g}",
        "",
    )
    print_table("Privacy spent", headers, [*rows, summary, cap], numeric_from=3)
    for amendment in history.amendments:
        typer.echo(f"amended {amendment['time'][:10]}: {amendment['reason']}")


def _readings(guarantee: Guarantee) -> dict[str, float]:
    return {
        "order": guarantee.order,
        "epsilon": guarantee.epsilon,
        "zcdp": guarantee.zcdp,
        "epsilon_delta": guarantee.epsilon_at(DEFAULT_DELTA),
        "delta": DEFAULT_DELTA,
    }


def _in_words(guarantee: Guarantee) -> str:
    return (
        f"Rényi epsilon {guarantee.epsilon:g} at order {guarantee.order:g}, that is zCDP {guarantee.zcdp:g}, "
        f"that is ({guarantee.epsilon_at(DEFAULT_DELTA):.3g}, {DEFAULT_DELTA:g})-DP"
    )
