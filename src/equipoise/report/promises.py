"""The audit in words, and the agreement, which both editions show."""

from collections.abc import Sequence

from equipoise._util.text import counted, short
from equipoise.agreement import Agreement
from equipoise.agreement.explanation import explain
from equipoise.guarantee import guess_percent
from equipoise.mediation.findings import Finding
from equipoise.report.page import Section, Table, Verdict
from equipoise.report.wording import listed, number

NEEDS_ANOTHER = "F4"  # compares with an earlier settlement


def conclusion(findings: Sequence[Finding]) -> tuple[Verdict, str]:
    """What all findings come to."""
    failed = [one.code for one in findings if one.verdict == "fails"]
    open_ = [one.code for one in findings if one.verdict == "cannot tell" and one.code != NEEDS_ANOTHER]
    held = sum(one.verdict == "holds" for one in findings)
    if failed:
        verb = "is" if len(failed) == 1 else "are"
        return Verdict("fails"), f"{counted(len(failed), 'promise')} {verb} broken: {listed(failed)}. See the audit."
    if open_:
        return (
            Verdict("cannot tell"),
            f"No promise is broken. {held} of {held + len(open_)} hold; {listed(open_)} cannot be told either way.",
        )
    return Verdict("holds"), f"All {held} promises that could be checked hold."


def audit_section(findings: Sequence[Finding], *, reasons: bool) -> Section:
    """Every promise with its verdict; reasons carry numbers of all parties."""
    words = [
        "What the mediator promises, and what a check of its own numbers found. “Cannot tell” means that the errors of "
        "the estimates allow both answers; it is no complaint.",
    ]
    if any(one.code == NEEDS_ANOTHER and one.verdict == "cannot tell" for one in findings):
        words.append(f"{NEEDS_ANOTHER} compares with an earlier settlement, and none was given.")
    rows: list[Sequence[str | Verdict]] = []
    for one in findings:
        start: list[str | Verdict] = [one.code, one.promise, Verdict(one.verdict)]
        rows.append([*start, one.reason] if reasons else start)
    headers = ["code", "promise", "verdict", *(["why"] if reasons else [])]
    return Section("audit", "Are the promises kept?", words, tables=[Table("Audit", headers, rows, numeric_from=9)])


def agreement_section(agreement: Agreement) -> Section:
    """What was agreed, in words."""
    explained = explain(agreement)
    noise = [
        (
            number(row.epsilon_delta),
            guess_percent(row.zcdp),
            number(row.epsilon, 4),
            number(row.zcdp, 4),
            number(row.deviation),
            f"{row.rows_needed:,}",
        )
        for row in explained.noise
    ]
    delta = short(explained.noise[0].delta)
    return Section(
        "agreement",
        "What was agreed",
        [f"All of this was fixed before any data was released. The agreement's identity is {explained.identity}."],
        items=explained.sentences,
        tables=[
            Table("Columns", ("column", "role", "values"), explained.columns, numeric_from=9),
            Table(
                f"Noise for a choice of ε. Each row of a table adds {explained.contribution} to a sum; noise is its "
                "standard deviation on a sum, and the last column says how many rows make it small beside a mean.",
                (f"ε at δ = {delta}", "guess", "Rényi ε", "zCDP", "noise", "rows needed"),
                noise,
            ),
        ],
    )
