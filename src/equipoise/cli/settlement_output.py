"""How a settlement is shown on a terminal."""

from typing import TYPE_CHECKING

import typer

from equipoise.cli.output import print_lines, print_table

if TYPE_CHECKING:
    from equipoise.estimate import Estimate
    from equipoise.settlement import Settlement

LOSSES = {"prior": "without data", "alone": "alone", "reward": "with its reward", "team": "whole team"}


def show_settlement(settlement: "Settlement") -> None:
    """Tables of what was decided, and the audit."""
    awards = settlement.awards.values()
    noise = any(award.tau for award in awards)
    tested = any(award.losses for award in awards)
    print_table(
        f"Settlement: values in nats ± standard error, fairness exponent {settlement.rho:.3g}",
        ("party", "value alone", "Shapley value", "target", "attained", "tau" if noise else "kappa"),
        [
            (
                award.party,
                _short(award.alone),
                _short(settlement.shapley[award.party]),
                _short(award.target),
                _short(award.attained),
                f"{award.tau if noise else award.kappa:.3g}",
            )
            for award in awards
        ],
    )
    print_table(
        "What went in, and how the reward compares with the posterior of everybody in the team",
        ("party", "epsilon", "rows", "similarity"),
        [
            (
                award.party,
                f"{settlement.contributions[award.party].epsilon:g}",
                f"{settlement.contributions[award.party].rows:,}",
                _short(award.similarity),
            )
            for award in awards
        ],
    )
    if tested:
        print_table(
            "Loss on rows nobody released (mean negative log probability; lower is better)",
            ("party", *LOSSES.values()),
            [(award.party, *(_loss(award.losses, name) for name in LOSSES)) for award in awards],
        )
    bounds = [
        f"largest exponent that leaves nobody worse off than alone: {_number(settlement.rational_rho)}",
        f"largest with which no coalition's best member would rather leave: {_number(settlement.stable_rho)}",
        f"largest standard error of a target or a reward: {settlement.precision:.3f} nats",
    ]
    if settlement.shapley_repair > 1:
        bounds.append(
            "a negative Shapley value was repaired: contributions to nobody count "
            f"{settlement.shapley_repair:.2f} times as much"
        )
    for line in bounds:
        print_lines(line, bullet=True)
    for award in awards:
        for note in award.notes:
            print_lines(f"{award.party}: {note}", bullet=True)
    typer.echo()
    print_table(
        "Audit of the paper's promises",
        ("", "promise", "verdict"),
        [(finding.code, finding.promise, finding.verdict) for finding in settlement.audit],
        numeric_from=9,
    )
    for finding in settlement.audit:
        if finding.verdict != "holds" and finding.code != "F4":  # which needs another settlement
            print_lines(f"{finding.code} {finding.verdict}: {finding.reason}", bullet=True)
    for ranking in settlement.audit.rankings:
        print_lines(
            f"{ranking.higher} contributes more than {ranking.lower} with probability {ranking.probability:.3f}",
            bullet=True,
        )
    for remark in settlement.remarks:
        print_lines(f"worth a look: {remark.message}", bullet=True)
    typer.echo()


def _short(estimate: "Estimate") -> str:
    return f"{estimate.value:.2f} ± {estimate.error:.2f}"


def _loss(losses: dict[str, float], name: str) -> str:
    return f"{losses[name]:.3f}" if name in losses else ""


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3g}"
