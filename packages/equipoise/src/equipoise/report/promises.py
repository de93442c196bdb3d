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
    """Return the overall verdict of all findings, and a sentence that states it."""
    failed = [finding.code for finding in findings if finding.verdict == "fails"]
    open_ = [finding.code for finding in findings if finding.verdict == "cannot tell"]
    held = sum(finding.verdict == "holds" for finding in findings)
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
    """Build the section of all promises with their verdicts; `reasons` carry numbers of all parties."""
    words = [
        "What the mediator promises, and what a check of its own numbers found. “Cannot tell” means that the errors of "
        "the estimates allow both answers; it is no complaint.",
    ]
    return Section("audit", "Are the promises kept?", words, tables=[tables.audit(findings, reasons=reasons)])


def agreement_section(agreement: Agreement) -> Section:
    """Build the section that explains the agreement in words."""
    explained = explain(agreement)
    return Section(
        "agreement",
        "What was agreed",
        [f"All of this was fixed before any data was released. The agreement's identity is {explained.identity}."],
        items=explained.sentences,
        tables=[explained.column_table(), explained.noise_table()],
    )
