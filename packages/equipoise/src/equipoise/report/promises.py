"""The audit in words, and the agreement, which both editions show."""

from collections.abc import Sequence

from equipoise._util.text import counted
from equipoise.agreement import Agreement
from equipoise.agreement.explanation import explain
from equipoise.mediation.findings import Finding
from equipoise.report import tables
from equipoise.report.page import Section
from equipoise.report.tables import Verdict
from equipoise.report.wording import listed


def conclusion(findings: Sequence[Finding]) -> tuple[Verdict, str]:
    """What all findings come to."""
    failed = [one.code for one in findings if one.verdict == "fails"]
    open_ = [one.code for one in findings if one.verdict == "cannot tell"]
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
    return Section("audit", "Are the promises kept?", words, tables=[tables.audit(findings, reasons=reasons)])


def agreement_section(agreement: Agreement) -> Section:
    """What was agreed, in words."""
    explained = explain(agreement)
    return Section(
        "agreement",
        "What was agreed",
        [f"All of this was fixed before any data was released. The agreement's identity is {explained.identity}."],
        items=explained.sentences,
        tables=[explained.column_table(), explained.noise_table()],
    )
