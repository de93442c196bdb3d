"""`equipoise party ledger`, `spend` and `amend`: show what has been spent, and record spends and decisions."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from equipoise._util.display import Table
from equipoise._util.text import counted, short
from equipoise.agreement import Agreement
from equipoise.cli.options import CohortOption, DeltaOption, JsonOption, LedgerArgument
from equipoise.cli.output import echo, print_json, print_lines, print_table
from equipoise.errors import BudgetError, LedgerError
from equipoise.models.guarantee import DEFAULT_DELTA, Guarantee, epsilon_of, guess_percent, guessing
from equipoise.party.history import History, OtherSpend, Spend
from equipoise.party.ledger import ADD_OR_REMOVE, ROUNDING, Ledger, domains_of, zcdp_of_pure
from equipoise.party.units import ONE_ROW, Account, Unit
from equipoise.protocol.submission import Submission

CUT_OFF = "cut off; counts"


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
    book = Ledger(path)
    history = book.read()
    for submission_path in check or ():
        if not book.accounts_for(Submission.load(submission_path)):
            raise LedgerError(
                f"{str(path)!r} does not account for {str(submission_path)!r}: another ledger paid for it, or this one "
                "was rewritten or rolled back"
            )
    show_history(history, path, order=order, delta=delta, as_json=as_json)


def amend(
    path: LedgerArgument,
    reason: Annotated[str, typer.Option(help="Why; it stays in the ledger.")],
    cap_zcdp: Annotated[float | None, typer.Option(help="The new cap on everything spent.")] = None,
    accept_bounds: Annotated[
        Path | None, typer.Option(help="Accept this agreement's bounds where they differ from earlier ones.")
    ] = None,
    rows_per_individual: Annotated[
        int | None,
        typer.Option(
            help="The most rows that anybody has in a table of which single rows were protected; such spends then "
            "count so many times squared, and totals are for individuals."
        ),
    ] = None,
    lower: Annotated[
        bool, typer.Option("--lower", help="Correct an earlier --rows-per-individual that was too large.")
    ] = False,
    same_individuals: Annotated[
        str | None, typer.Option(help="A column that names the same individuals as that of earlier spends.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Record a decision in the ledger: a new cap, changed bounds, or how many rows an individual has.

    Bounds may change for a reason other than the data.

    Example: equipoise party amend north.ledger --cap-zcdp 0.5 --reason "board decision of 3 May"
    """
    if all(given is None for given in (cap_zcdp, accept_bounds, rows_per_individual, same_individuals)):
        raise LedgerError(
            "nothing to amend; give --cap-zcdp, --accept-bounds, --rows-per-individual or --same-individuals"
        )
    book = Ledger(path)
    known = book.read().domains
    agreed = domains_of(Agreement.load(accept_bounds)) if accept_bounds else {}
    changed = {name: values for name, values in agreed.items() if name in known and known[name] != values}
    if accept_bounds is not None and not changed:
        raise LedgerError(f"no bounds of {str(accept_bounds)!r} differ from those in the ledger; nothing to accept")
    book.amend(
        reason=reason, cap_zcdp=cap_zcdp, domains=changed, rows_per_individual=rows_per_individual,
        lower=lower, same_individuals=same_individuals,
    )  # fmt: skip
    history = book.read()
    if as_json:
        bounds = {name: {"before": known[name], "now": values} for name, values in changed.items()}
        print_json({"ledger": str(path), **_totals(history), "bounds": bounds, "reason": reason})
        return
    if cap_zcdp is not None:
        echo(f"The cap is now zCDP {cap_zcdp:g}.")
    if rows_per_individual is not None or same_individuals is not None:
        print_lines(_total_in_words(history))
    for name, values in changed.items():
        echo(f"{name}: {known[name]} is now {values}.")


def spend(
    path: LedgerArgument,
    why: Annotated[str, typer.Option(help="What it was spent on; it stays in the ledger.")],
    zcdp: Annotated[float | None, typer.Option(help="What was spent, as zCDP rho.")] = None,
    pure: Annotated[float | None, typer.Option(help="What was spent, as epsilon of pure DP, instead.")] = None,
    add_remove: Annotated[
        bool,
        typer.Option(
            "--add-remove", help="The guarantee is for adding or removing a row; replacing one costs four times."
        ),
    ] = False,
    individual: Annotated[
        str | None,
        typer.Option(help="The guarantee protects all rows of one value of this column; by default, one row."),
    ] = None,
    rows_per_individual: Annotated[
        int | None, typer.Option(min=1, help="With --individual: it counted at most so many rows of each.")
    ] = None,
    cohort: CohortOption = "",
    cap_zcdp: Annotated[float | None, typer.Option(help="For a new ledger: the most it may ever spend.")] = None,
    family: Annotated[str, typer.Option(help="For a new ledger: which individuals it covers.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Record privacy that something else spent on the same individuals: another tool, a published table.

    Guarantees of (epsilon, delta) alone cannot be converted to zCDP; give the one of the mechanism behind them.

    Example: equipoise party spend north.ledger --pure 0.1 --add-remove --why "counts in the annual report"
    """
    if individual is None and rows_per_individual is not None:
        raise BudgetError("--rows-per-individual needs --individual, the column that says whose row it is")
    given = [value for value in (zcdp, pure) if value is not None]
    if len(given) != 1 or not given[0] > 0:
        raise BudgetError("say what was spent in one way: --zcdp RHO or --pure EPSILON, above 0")
    spent = given[0] if zcdp is not None else zcdp_of_pure(given[0])
    spent *= ADD_OR_REMOVE if add_remove else 1
    book = Ledger(path)
    unit = ONE_ROW if individual is None else Unit(individual, rows_per_individual)
    book.record_other(zcdp=spent, why=why, unit=unit, cohort=cohort, cap_zcdp=cap_zcdp, family=family)
    history = book.read()
    if as_json:
        recorded = {"zcdp": spent, "why": why, "unit": asdict(unit), "cohort": cohort}
        print_json({"ledger": str(path), **recorded, **_totals(history)})
        return
    print_lines(f"Recorded zCDP {spent:g}, which protects {unit}. {_total_in_words(history)}")


def _totals(history: History) -> dict[str, object]:
    """Return totals for `--json`; an infinite one, of units that do not add up, becomes null."""
    account, total = history.account, history.total_zcdp
    return {
        "total_unit": account.unit,
        "total_zcdp": total if math.isfinite(total) else None,
        "cap_zcdp": history.cap_zcdp,
        "rows_per_individual": history.rows_per_individual,
        "obstacle": account.obstacle or None,
    }


def _total_in_words(history: History) -> str:
    if obstacle := history.account.obstacle:
        return f"The total is not known: {obstacle}."
    sentence = f"Spent in all, for {history.unit}: zCDP {history.total_zcdp:g} of the cap {history.cap_zcdp:g}."
    if history.total_zcdp > history.cap_zcdp * ROUNDING:
        sentence += " That is above the cap: nothing more can be released unless it is raised."
    return sentence


def show_history(history: History, path: Path, *, order: float, delta: float, as_json: bool) -> None:
    """Print a verified ledger, as JSON or as a table with explanations."""
    total = history.total_zcdp
    # An invalid order is refused here, before anything is printed, whether the total is known or not.
    stated = Guarantee.from_zcdp(total if math.isfinite(total) else history.cap_zcdp, order=order)
    if as_json:
        print_json({"ledger": str(path), **_history_as_json(history, stated, delta)})
        return
    individual = history.account.individual
    family = f" for {history.family}" if history.family else ""
    print_lines(f"Ledger {path}{family}: {counted(len(history.spends), 'spend')}, chain intact.")
    echo()
    print_table(_spending_table(history, order, delta))
    if math.isfinite(total):
        print_lines(guessing(total, released="all that was released", individual=individual))
    else:
        print_lines(_total_in_words(history))
    if individual is None:
        print_lines("This is for one row: somebody with k rows has lost k² times the zCDP.")
    for amendment in history.amendments:
        print_lines(f"Amended {amendment['time'][:10]}: {', '.join(_changes(amendment))} ({amendment['reason']})")


def _history_as_json(history: History, stated: Guarantee, delta: float) -> dict[str, object]:
    """Return a ledger's content for `--json`; `stated` is its total, if that is known."""
    account, known = history.account, math.isfinite(history.total_zcdp)
    return {
        "family": history.family,
        **_totals(history),
        "total": readings(stated, delta) if known else None,
        "remaining_zcdp": max(0.0, history.cap_zcdp - history.total_zcdp),
        "spends": [_spend_as_json(spend, account) for spend in history.spends],
        "other_spends": [_spend_as_json(other, account) for other in history.others],
        "cohorts": {name: history.spent_on(name) for name in history.cohorts if name} if known else None,
        "amendments": history.amendments,
    }


def _spending_table(history: History, order: float, delta: float) -> Table:
    """Tabulate every spend, the totals of cohorts, and the total beside the cap; without notes if there are none."""
    account = history.account

    def row_of(label: str, zcdp: float, note: str = "", *, middle: Sequence[str] = ("", "", "")) -> tuple[str, ...]:
        return label, *middle, *_privacy_cells(zcdp, order, delta), note

    rows = []
    for spend in history.spends:
        notes = _notes(spend, account) + ([] if spend.finished else [CUT_OFF])
        middle = (spend.party, spend.agreement[:8], f"{spend.count:,}")
        rows.append(row_of(_minute(spend.time), spend.zcdp, "; ".join(notes), middle=middle))
    for other in history.others:
        note = "; ".join([*_notes(other, account), other.why])
        rows.append(row_of(_minute(other.time), other.zcdp, note, middle=("", "other", "")))
    rows += [row_of(f"cohort {name}, with everybody", history.spent_on(name)) for name in history.cohorts if name]
    rows += [row_of("total", history.total_zcdp), row_of("cap", history.cap_zcdp)]
    privacy = (f"(eps, {short(delta)})", "guess", "Rényi eps", "zCDP")
    headers = ("time (UTC)", "party", "agreement", "rows", *privacy, "note")
    width = len(headers) if any(row[-1] for row in rows) else len(headers) - 1
    title = f"Privacy spent; total and cap are for {account.unit}; Rényi eps at order {order:g}"
    return Table(title, headers[:width], [row[:width] for row in rows], numeric_from=3)


def _privacy_cells(zcdp: float, order: float, delta: float) -> tuple[str, str, str, str]:
    """Return a cost as (ε, δ), guess, Rényi ε and zCDP; an infinite one comes from units that do not add up."""
    if not math.isfinite(zcdp):
        return "not known", "", "", ""
    return f"{epsilon_of(zcdp, delta):.3g}", guess_percent(zcdp), f"{zcdp * order:.4g}", f"{zcdp:.4g}"


def _minute(time: str) -> str:
    return time[:16].replace("T", " ")


def _notes(spend: Spend | OtherSpend, account: Account) -> list[str]:
    """Return notes on a spend: its unit, if the ledger counts individuals, and its cohort."""
    notes = []
    if account.individual is not None:
        times = account.times(spend.unit)
        counts = "" if times == 1 else f", counts {times:g} times" if math.isfinite(times) else ", cannot be added"
        notes.append(f"{spend.unit}{counts}")
    return [*notes, f"cohort {spend.cohort}"] if spend.cohort else notes


def _changes(amendment: dict[str, Any]) -> list[str]:
    changes = [f"cap zCDP {amendment['cap']:g}"] if amendment["cap"] is not None else []
    changes += [f"bounds of {name} {values}" for name, values in amendment["domains"].items()]
    if "rows_per_individual" in amendment:
        changes.append(f"nobody has more than {counted(amendment['rows_per_individual'], 'row')}")
    if "same_individuals" in amendment:
        changes.append(" and ".join(amendment["same_individuals"]) + " name the same individuals")
    return changes


def _spend_as_json(spend: Spend | OtherSpend, account: Account) -> dict[str, object]:
    times = account.times(spend.unit)
    return {**asdict(spend), "charged_zcdp": times * spend.zcdp if math.isfinite(times) else None}


def readings(guarantee: Guarantee, delta: float = DEFAULT_DELTA) -> dict[str, float]:
    """Return a guarantee in all its readings, for `--json`."""
    return {
        "order": guarantee.order,
        "epsilon": guarantee.epsilon,
        "zcdp": guarantee.zcdp,
        "epsilon_delta": guarantee.epsilon_at(delta),
        "delta": delta,
        "guess": guarantee.guess,
    }
