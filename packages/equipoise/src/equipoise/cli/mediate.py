"""`equipoise mediate` and `equipoise report`: settle a round from submission files, ask what if, write the reports."""

from pathlib import Path
from typing import Annotated

import typer

from equipoise.agreement import Agreement
from equipoise.cli.interrupt import ending_at_once
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
from equipoise.mediation.other_priors import UnderPrior, other_priors, to_json
from equipoise.mediation.settings import SettlementSettings
from equipoise.mediation.settlement import Settlement
from equipoise.mediation.task import task_of
from equipoise.mediation.what_if import WhatIf, what_if
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
    with ending_at_once(f"What is finished is kept in {output}; the same command goes on."):
        _mediate(agreed, received, output, settings, test, what_if or [], rho_sweep, other_priors, as_json)


def _mediate(
    agreed: Agreement,
    received: list[Submission],
    output: Path,
    settings: SettlementSettings,
    test: Path | None,
    what_if: list[str],
    rho_sweep: bool,
    other_priors: bool,
    as_json: bool,
) -> None:
    questions = [_changes(text) for text in what_if]
    settlement = _settled_before(output, agreed) if questions or other_priors or (rho_sweep and test is None) else None
    if settlement is not None and not (questions or other_priors):
        task = task_of(agreed, received, settings, folder=output)
        if (settlement.options, settlement.contributions) != (task.options, task.contributions):
            settlement = None
    if settlement is None:
        settlement = _settle(agreed, received, output, test, settings, quiet=as_json)
        write_reports(settlement, output)
    elif not (output / REPORT).exists():
        write_reports(settlement, output)
    under = _under_other_priors(settlement, received, output, quiet=as_json) if other_priors else {}
    answers = [_answer(settlement, received, changes, output, quiet=as_json) for changes in questions]
    if as_json:
        document = {
            **settlement.to_json(),
            "absent": list(settlement.absent),
            "audit": settlement.audit.to_json(),
            "folder": str(output),
        }
        if questions:
            document["what_if"] = [one.to_json() for one in answers]
        if under:
            document["other_priors"] = to_json(under)
        if rho_sweep:
            document["rho_sweep"] = sweep(settlement)
        print_json(document)
        return
    if not questions and not under:
        show_settlement(settlement)
    if under:
        show_other_priors(under)
    if rho_sweep:
        show_sweep(settlement)
    for one in answers:
        show_what_if(one)
    echo(
        f"Reward and report of each party are in {folder_of(output, 'PARTY')}: give it that folder, and nobody else's. "
        f"All else in {output} is yours.\nReport: {output / REPORT}"
    )


def _settle(
    agreed: Agreement,
    received: list[Submission],
    output: Path,
    test: Path | None,
    settings: SettlementSettings,
    *,
    quiet: bool,
) -> Settlement:
    rows = None if test is None else test_rows(test, agreed)
    if not quiet:
        task_of(agreed, received, settings, folder=output)  # refuses what cannot be settled, before anybody waits
        cost = estimate_cost(agreed, settings, parties=len(received), journal=output / JOURNAL)
        print_lines(cost.words, err=True)
    return settle(agreed, received, settings, test=rows, folder=output, progress=not quiet)


def _settled_before(folder: Path, agreed: Agreement) -> Settlement | None:
    if not (folder / SETTLEMENT).exists():
        return None
    settlement = Settlement.load(folder)
    if settlement.agreement.identity != agreed.identity:
        raise MediationError(
            f"{str(folder)!r} holds a settlement of another agreement, {settlement.agreement.identity[:12]}…, not of "
            f"{agreed.identity[:12]}…; choose another folder"
        )
    return settlement


def _answer(
    settlement: Settlement, received: list[Submission], changes: dict[str, float], folder: Path, *, quiet: bool
) -> WhatIf:
    return what_if(settlement, received, changes, folder=folder, progress=not quiet)


def _under_other_priors(
    settlement: Settlement, received: list[Submission], folder: Path, *, quiet: bool
) -> dict[str, UnderPrior]:
    """The round under other priors; the operator's report has it from now on."""
    found = other_priors(settlement, received, folder=folder, progress=not quiet)
    write_report(settlement, folder / REPORT, priors=found)
    return found


def _changes(text: str) -> dict[str, float]:
    """Parties and their ε, from a text like party=north,epsilon=0.05,party=south,epsilon=0.1."""
    found: dict[str, float] = {}
    parts = [part.partition("=") for part in text.split(",")]
    try:
        for (first, _, party), (second, _, epsilon) in zip(parts[::2], parts[1::2], strict=True):
            if (first.strip(), second.strip()) != ("party", "epsilon"):
                raise ValueError(first)
            found[party.strip()] = float(epsilon)
    except ValueError:
        raise MediationError(
            f"--what-if {text!r} is not of the form party=NAME,epsilon=E, as in party=north,epsilon=0.05"
        ) from None
    return found


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
    settlement = audited(Settlement.load(folder))  # by the very draws that are there
    usual = folder / REPORT if party is None else folder_of(folder, party) / REPORT
    path = usual if output is None else output
    write_report(settlement, path, party=party)
    if as_json:
        audit = {finding.code: finding.verdict for finding in settlement.audit}
        print_json({"report": str(path), "party": party, "decisions": settlement.decisions, "audit": audit})
        return
    whose = "the operator" if party is None else party
    echo(f"The report for {whose} is {path}. Open it in a browser, or print it.")
