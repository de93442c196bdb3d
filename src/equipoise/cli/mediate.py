"""`equipoise mediate`: values, targets, rewards and an audit from submissions."""

from pathlib import Path
from typing import Annotated, Any

import typer

from equipoise.cli.options import AgreementArgument, JsonOption


def mediate(
    agreement: AgreementArgument,
    submissions: Annotated[
        list[Path], typer.Argument(help="Submission files, one of each party.", metavar="SUBMISSION...", readable=False)
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for settlement.json, rewards and the journal.")
    ],
    rho: Annotated[str | None, typer.Option(help='Fairness exponent up to 1, or "max" [the agreement\'s].')] = None,
    mechanism: Annotated[
        str | None, typer.Option(help="How rewards are made: tempering or noise [the agreement's].")
    ] = None,
    team: Annotated[
        list[str] | None, typer.Option(help="Parties that team up, as a,b,c; repeat for each team [one team].")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same decisions.")] = 0,
    precision: Annotated[float, typer.Option(help="Standard error wanted of targets and rewards, in nats.")] = 0.05,
    draws: Annotated[int, typer.Option(help="Draws of a posterior, to begin with.")] = 4_000,
    budget: Annotated[
        int | None, typer.Option(help="Coalitions to value, when there are too many to value all.")
    ] = None,
    force: Annotated[bool, typer.Option(help="Settle even with posteriors that have not converged.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Settle a round: value what each submission brings and make every party's reward.

    A run that was interrupted goes on where it was when started again with the same files and options.

    Example: equipoise mediate agreement.toml north.submission.json south.submission.json -o out
    """
    from equipoise.agreement import Agreement
    from equipoise.cli.output import print_json
    from equipoise.cli.settlement_output import show_settlement
    from equipoise.errors import MediationError
    from equipoise.mediator import mediate as settle
    from equipoise.wire import Submission

    agreed = Agreement.load(agreement)
    received = [Submission.load(path) for path in submissions]
    choices: dict[str, Any] = {"mechanism": mechanism}  # checked below
    try:
        choices["rho"] = rho if rho in (None, "max") else float(rho)
    except ValueError:
        raise MediationError(f'rho = {rho!r} is not a fairness exponent; give a number up to 1, or "max"') from None
    settlement = settle(
        agreed,
        received,
        **choices,
        seed=seed,
        teams=[names.split(",") for names in team] if team else None,
        draws=draws,
        precision=precision,
        budget=budget,
        folder=output,
        force=force,
    )
    if as_json:
        print_json({**settlement.to_json(), "audit": settlement.audit.to_json(), "folder": str(output)})
        return
    show_settlement(settlement)
    typer.echo(f"Rewards are in {output / 'rewards'}, everything that was decided in {output / 'settlement.json'}.")
