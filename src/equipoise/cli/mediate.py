"""`equipoise mediate`: values, targets, rewards, an audit and reports from submissions; and what if."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from equipoise.cli.options import (
    AgreementArgument,
    BudgetOption,
    DeviateOption,
    DrawsOption,
    ForceOption,
    JsonOption,
    MechanismOption,
    PartialOption,
    PrecisionOption,
    RhoOption,
    SeedOption,
    TeamOption,
)
from equipoise.cli.output import echo

if TYPE_CHECKING:
    from equipoise.agreement import Agreement
    from equipoise.mediation.settlement import Settlement
    from equipoise.mediation.what_if import WhatIf
    from equipoise.protocol.submission import Submission


def mediate(
    agreement: AgreementArgument,
    submissions: Annotated[
        list[Path], typer.Argument(help="Submission files, one of each party.", metavar="SUBMISSION...", readable=False)
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the settlement, rewards, reports and the journal.")
    ],
    rho: RhoOption = None,
    mechanism: MechanismOption = None,
    team: TeamOption = None,
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
            help="Also value the round under priors half and twice as wide, for the report; takes as long twice again.",
        ),
    ] = False,
    seed: SeedOption = None,
    precision: PrecisionOption = 0.05,
    draws: DrawsOption = 4_000,
    budget: BudgetOption = None,
    partial: PartialOption = False,
    deviate: DeviateOption = False,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Settle a round: value what each submission brings, make every party's reward, write the reports.

    A run that was interrupted goes on where it was when started again with the same files and options. With --what-if
    or --other-priors, a settlement that is in the folder already is used as it is.

    Example: equipoise mediate agreement.toml north.submission.json south.submission.json -o out
    """
    from equipoise.agreement import Agreement
    from equipoise.cli.output import print_json
    from equipoise.cli.settlement_output import show_other_priors, show_settlement, show_sweep, show_what_if, sweep
    from equipoise.mediation.folders import folder_of
    from equipoise.protocol.submission import Submission
    from equipoise.report import FILE, write_reports

    agreed = Agreement.load(agreement)
    received = [Submission.load(path) for path in submissions]
    questions = [_changes(text) for text in what_if or ()]
    settlement = _settled_before(output, agreed) if questions or other_priors else None
    if settlement is None:
        choices: dict[str, Any] = {
            "rho": exponent(rho),
            "mechanism": mechanism,
            "teams": [names.split(",") for names in team] if team else None,
            "seed": seed,
            "draws": draws,
            "precision": precision,
            "budget": budget,
            "partial": partial,
            "deviate": deviate,
            "force": force,
        }
        settlement = _settle(agreed, received, output, test, choices, quiet=as_json)
        write_reports(settlement, output)
    elif not (output / FILE).exists():
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
            document["other_priors"] = under
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
        f"All else in {output} is yours.\nReport: {output / FILE}"
    )


def _settle(
    agreed: "Agreement",
    received: "list[Submission]",
    output: Path,
    test: Path | None,
    choices: dict[str, Any],
    *,
    quiet: bool,
) -> "Settlement":
    from equipoise.cli.rows import test_rows
    from equipoise.mediation.mediator import mediate as settle

    rows = None if test is None else test_rows(test, agreed)
    return settle(agreed, received, **choices, test=rows, folder=output, progress=False if quiet else None)


def _settled_before(folder: Path, agreed: "Agreement") -> "Settlement | None":
    from equipoise.errors import MediationError
    from equipoise.mediation.settlement import FILE, Settlement

    if not (folder / FILE).exists():
        return None
    settlement = Settlement.load(folder)
    if settlement.agreement.identity != agreed.identity:
        raise MediationError(
            f"{str(folder)!r} holds a settlement of another agreement, {settlement.agreement.identity[:12]}…, not of "
            f"{agreed.identity[:12]}…; choose another folder"
        )
    return settlement


def _answer(
    settlement: "Settlement", received: "list[Submission]", changes: dict[str, float], folder: Path, *, quiet: bool
) -> "WhatIf":
    from equipoise.mediation.what_if import what_if

    return what_if(settlement, received, changes, folder=folder, progress=False if quiet else None)


def _under_other_priors(
    settlement: "Settlement", received: "list[Submission]", folder: Path, *, quiet: bool
) -> dict[str, Any]:
    """The round under other priors, as plain values; the operator's report has it from now on."""
    from equipoise.mediation.other_priors import other_priors, to_json
    from equipoise.report import FILE, write_report

    found = other_priors(settlement, received, folder=folder, progress=False if quiet else None)
    write_report(settlement, folder / FILE, priors=found)
    return to_json(found)


def exponent(text: str | None) -> Any:
    """A number, or "max"; whether it is a fairness exponent is checked later."""
    from equipoise.errors import MediationError

    try:
        return text if text in (None, "max") else float(text)
    except ValueError:
        raise MediationError(f'rho = {text!r} is not a fairness exponent; give a number up to 1, or "max"') from None


def _changes(text: str) -> dict[str, float]:
    """Parties and their ε, from a text like party=north,epsilon=0.05,party=south,epsilon=0.1."""
    from equipoise.errors import MediationError

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
