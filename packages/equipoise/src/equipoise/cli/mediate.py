"""`equipoise mediate` and `equipoise report`: settle a round from submission files, ask what if, write the reports."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from equipoise.agreement import Agreement
from equipoise.cli.interrupt import exit_on_interrupt
from equipoise.cli.options import AgreementArgument, JsonOption
from equipoise.cli.output import echo, print_json, print_lines
from equipoise.cli.predict import test_rows
from equipoise.cli.settings import settlement_options
from equipoise.cli.settlement_output import show_other_priors, show_settlement, show_sweep, show_what_if, sweep
from equipoise.errors import MediationError
from equipoise.mediation.audit import audited
from equipoise.mediation.cost import estimate_cost
from equipoise.mediation.folders import REPORT, SETTLEMENT, folder_of
from equipoise.mediation.mediator import JOURNAL
from equipoise.mediation.mediator import mediate as settle
from equipoise.mediation.other_priors import UnderPrior, to_json
from equipoise.mediation.other_priors import other_priors as value_under_priors
from equipoise.mediation.settings import SettlementSettings
from equipoise.mediation.settlement import Settlement
from equipoise.mediation.task import Task, task_of
from equipoise.mediation.what_if import WhatIf
from equipoise.mediation.what_if import what_if as ask_what_if
from equipoise.protocol.submission import Submission
from equipoise.report import write_report, write_reports


@settlement_options(
    "rho", "mechanism", "teams", "seed", "precision", "draws", "coalitions", "budget", "partial", "deviate", "force"
)
def mediate(
    agreement: AgreementArgument,
    submissions: Annotated[
        list[Path], typer.Argument(help="Submission files, one of each party.", metavar="SUBMISSION...", readable=False)
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the settlement, rewards, reports and the journal.")
    ],
    settings: SettlementSettings,
    test: Annotated[
        Path | None, typer.Option(help="Rows nobody released, to see how well rewards predict.", readable=False)
    ] = None,
    what_if: Annotated[
        list[str] | None,
        typer.Option(
            help="Afterwards, see what stronger privacy would have changed; repeat for more questions.",
            metavar="party=NAME,epsilon=E",
        ),
    ] = None,
    rho_sweep: Annotated[
        bool, typer.Option("--rho-sweep", help="Also show everybody's target at other fairness exponents.")
    ] = False,
    other_priors: Annotated[
        bool,
        typer.Option(
            "--other-priors",
            help="Also value the round under priors half and twice as wide, for the report; triples the run time.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Settle a round: value what each submission brings, make every party's reward, write the reports.

    How long it will take is said first, from a short measurement. A run that was interrupted, as by Ctrl-C, goes on
    where it was when started again with the same files and options; with another --rho, the values in the folder are
    used again. With --what-if or --other-priors, a settlement that is in the folder already is used as it is, and with
    --rho-sweep, one with these options.

    Example: equipoise mediate agreement.toml north.submission.json south.submission.json -o out
    """
    agreed = Agreement.load(agreement)
    received = [Submission.load(path) for path in submissions]
    task = _Task(agreed, received, settings, test, output, quiet=as_json)
    with exit_on_interrupt(f"What is finished is kept in {output}; the same command goes on."):
        questions = [_changes(text) for text in what_if or ()]
        settlement = _settle_or_reuse(task, follow_up=bool(questions) or other_priors, rho_sweep=rho_sweep)
        by_prior = _under_other_priors(task, settlement) if other_priors else {}
        answers = [
            ask_what_if(settlement, received, changes, folder=output, progress=not as_json) for changes in questions
        ]
        if as_json:
            print_json(_document(settlement, answers, by_prior, output, rho_sweep=rho_sweep))
        else:
            _show(settlement, answers, by_prior, output, rho_sweep=rho_sweep)


@dataclass(frozen=True)
class _Task:
    """A round to settle, and the folder that keeps its settlement; `quiet` prints no estimate and no progress bar."""

    agreement: Agreement
    submissions: list[Submission]
    settings: SettlementSettings
    test: Path | None
    folder: Path
    quiet: bool

    def check(self) -> Task:
        """Refuse a round that cannot be settled; return its options and contributions."""
        return task_of(self.agreement, self.submissions, self.settings, folder=self.folder)


def _settle_or_reuse(task: _Task, *, follow_up: bool, rho_sweep: bool) -> Settlement:
    """Return the settlement in the folder if it answers this call; otherwise settle, and write the reports.

    A follow-up (a what-if question, other priors) is about whatever settlement the folder holds; a sweep over exponents
    needs one with the same options and contributions.
    """
    settlement = None
    if follow_up or (rho_sweep and task.test is None):
        settlement = _settled_before(task)
    if settlement is not None and not follow_up:
        checked = task.check()
        if (settlement.options, settlement.contributions) != (checked.options, checked.contributions):
            settlement = None
    if settlement is None:
        settlement = _settle(task)
        write_reports(settlement, task.folder)
    elif not (task.folder / REPORT).exists():
        write_reports(settlement, task.folder)
    return settlement


def _settled_before(task: _Task) -> Settlement | None:
    """Load the settlement in the folder, if there is one; refuse one of another agreement."""
    if not (task.folder / SETTLEMENT).exists():
        return None
    settlement = Settlement.load(task.folder)
    if settlement.agreement.identity != task.agreement.identity:
        raise MediationError(
            f"{str(task.folder)!r} holds a settlement of another agreement, {settlement.agreement.identity[:12]}…, "
            f"not of {task.agreement.identity[:12]}…; choose another folder"
        )
    return settlement


def _settle(task: _Task) -> Settlement:
    rows = None if task.test is None else test_rows(task.test, task.agreement)
    if not task.quiet:
        # Refuse what cannot be settled before anybody waits for the estimate.
        task.check()
        journal = task.folder / JOURNAL
        cost = estimate_cost(task.agreement, task.settings, parties=len(task.submissions), journal=journal)
        print_lines(cost.words, err=True)
    return settle(
        task.agreement, task.submissions, task.settings, test=rows, folder=task.folder, progress=not task.quiet
    )


def _under_other_priors(task: _Task, settlement: Settlement) -> dict[str, UnderPrior]:
    """Value the round under other priors, and add that to the operator's report."""
    by_prior = value_under_priors(settlement, task.submissions, folder=task.folder, progress=not task.quiet)
    write_report(settlement, task.folder / REPORT, priors=by_prior)
    return by_prior


def _document(
    settlement: Settlement, answers: list[WhatIf], by_prior: dict[str, UnderPrior], folder: Path, *, rho_sweep: bool
) -> dict[str, Any]:
    """Return the results for `--json`."""
    document = {
        **settlement.to_json(),
        "absent": list(settlement.absent),
        "audit": settlement.audit.to_json(),
        "folder": str(folder),
    }
    if answers:
        document["what_if"] = [answer.to_json() for answer in answers]
    if by_prior:
        document["other_priors"] = to_json(by_prior)
    if rho_sweep:
        document["rho_sweep"] = sweep(settlement)
    return document


def _show(
    settlement: Settlement, answers: list[WhatIf], by_prior: dict[str, UnderPrior], folder: Path, *, rho_sweep: bool
) -> None:
    """Print the answers to follow-up questions, or the settlement if there were none; then where the files are."""
    if not answers and not by_prior:
        show_settlement(settlement)
    if by_prior:
        show_other_priors(by_prior)
    if rho_sweep:
        show_sweep(settlement)
    for answer in answers:
        show_what_if(answer)
    echo(
        f"Reward and report of each party are in {folder_of(folder, 'PARTY')}: give it that folder, and nobody else's. "
        f"All else in {folder} is yours.\nReport: {folder / REPORT}"
    )


def _changes(text: str) -> dict[str, float]:
    """Parse the parties and their ε in a text like party=north,epsilon=0.05,party=south,epsilon=0.1."""
    changes: dict[str, float] = {}
    parts = [part.partition("=") for part in text.split(",")]
    try:
        for (first, _, party), (second, _, epsilon) in zip(parts[::2], parts[1::2], strict=True):
            if (first.strip(), second.strip()) != ("party", "epsilon"):
                raise ValueError(first)
            changes[party.strip()] = float(epsilon)
    except ValueError:
        raise MediationError(
            f"--what-if {text!r} is not of the form party=NAME,epsilon=E, as in party=north,epsilon=0.05"
        ) from None
    return changes


def report(
    folder: Annotated[
        Path, typer.Argument(help="Folder of a settlement, as mediation left it.", metavar="FOLDER", readable=False)
    ],
    party: Annotated[
        str | None, typer.Option(help="Make the edition of this party, which holds nothing of the others'.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write [FOLDER/report.html, or FOLDER/for/PARTY/report.html]."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write the report of a settlement: one HTML file that needs nothing else.

    The operator's edition has everybody's numbers. Give a party only its own edition.

    Example: equipoise report out --party north -o north.html
    """
    # The audit is repeated on the draws in the folder.
    settlement = audited(Settlement.load(folder))
    usual = folder / REPORT if party is None else folder_of(folder, party) / REPORT
    path = usual if output is None else output
    write_report(settlement, path, party=party)
    if as_json:
        audit = {finding.code: finding.verdict for finding in settlement.audit}
        print_json({"report": str(path), "party": party, "decisions": settlement.decisions, "audit": audit})
        return
    whose = "the operator" if party is None else party
    echo(f"The report for {whose} is {path}. Open it in a browser, or print it.")
