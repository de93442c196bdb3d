"""Sections on how rewards were set and made: the fairness exponent, and the curve that says what a reward is worth."""

from typing import TYPE_CHECKING

from equipoise.mediation.settings import WITH_NOISE
from equipoise.report import charts
from equipoise.report.outcome import BARS, MOST_ROWS
from equipoise.report.page import Figure, Section
from equipoise.report.wording import listed, number

if TYPE_CHECKING:
    from equipoise.mediation.settlement import Settlement


def curves(settlement: "Settlement") -> Section | None:
    """r(κ), or r(τ) for each recipient, with the rewards on it."""
    noise = settlement.settings.mechanism in WITH_NOISE
    figures = []
    for team in settlement.teams:
        points = [one for one in settlement.curve if one.team == team]
        if not points:
            continue
        marks = [
            charts.Mark(award.party, award.tau if noise else award.kappa, award.attained)
            for award in settlement.awards_of(team)[:MOST_ROWS]
            if not award.falls_back
        ]
        recipients = dict.fromkeys(one.recipient for one in points)
        lines = [
            charts.Line(
                [(one.tau if noise else one.kappa, one.value) for one in points if one.recipient == recipient],
                recipient,
            )
            for recipient in recipients
        ]
        what = {
            "noise": "more noise is added, drawn anew for each party",
            "degraded": "more noise is added to the others’ releases, the same for all parties",
        }.get(str(settlement.settings.mechanism), "less of the evidence is used")
        figures.append(
            Figure(
                charts.reward_curve(lines, marks, control="tau" if noise else "kappa"),
                f"What the posterior is worth when {what}; marks are the rewards. {BARS}",
                _team_title(settlement, team),
            )
        )
    if not figures:
        return None
    words = (
        "A reward that should be worth less than everything is made from the same releases with more noise"
        + (", but for the party’s own" if settlement.settings.mechanism == "degraded" else "")
        + ". The chart shows how much noise brings the value down to each party’s target."
        if noise
        else "A reward that should be worth less than everything is made by using only a part κ of the evidence. The "
        "chart shows how the value grows with κ, and which κ each party’s target came to."
    )
    return Section("curve", "How rewards are made", [words], figures)


def exponent(settlement: "Settlement") -> Section:
    """Targets against the fairness exponent."""
    figures = []
    for team in settlement.teams:
        shares = [
            charts.Share(
                party,
                settlement.awards[party].alone.value,
                settlement.value(*team).value,
                settlement.ratio(party),
                settlement.awards[party].alone.value if settlement.terms.own_is_whole else 0.0,
                settlement.awards[party].alone.value if settlement.terms.shares_surplus else 0.0,
            )
            for party in team  # so that a party looks the same here and on the curve
        ]
        figures.append(
            Figure(
                charts.exponent_sweep(
                    shares, chosen=settlement.rho, rational=settlement.rational_rho, stable=settlement.stable_rho
                ),
                "Targets against ρ. A ring marks where a party would be no better off than alone; the shaded "
                "part is where nobody is worse off.",
                _team_title(settlement, team),
            )
        )
    rational, stable = settlement.rational_rho, settlement.stable_rho
    if settlement.terms.shares_surplus:
        return Section("exponent", "How fairness was set", _of_surplus(settlement), figures)
    words = [
        "The fairness exponent ρ says how much of the differences between parties is handed on: ρ = 1 rewards in "
        "proportion to Shapley values, smaller ρ is kinder to those who bring less.",
        f"Chosen is ρ = {number(settlement.rho)}"
        + (
            ", the largest that leaves everybody better off than alone, with a margin for errors. "
            if settlement.settings.rho == "max"
            else ". "
        )
        + (
            "Nobody gets less than it knows alone, whatever ρ is."
            if settlement.terms.own_is_whole
            else "There is no ρ that leaves everybody as well off as alone."
            if rational is None
            else f"Up to {number(rational)} nobody is worse off than alone."
        )
        + ("" if stable is None else f" Up to {number(stable)} no coalition’s best member would rather leave with it."),
    ]
    most = sum(settlement.targets_at(0.0).values())
    chosen = sum(settlement.targets_at(settlement.rho).values())
    least = "" if rational is None else f", and {number(sum(settlement.targets_at(rational).values()))} at the bound"
    words.append(
        f"A larger ρ hands out less: together the targets are worth {number(chosen)} nats, up to {number(most)} as ρ "
        f"goes to 0{least}. The largest ρ that is rational is the one with the smallest sum."
    )
    return Section("exponent", "How fairness was set", words, figures)


def _of_surplus(settlement: "Settlement") -> list[str]:
    stable = settlement.stable_rho
    most, chosen, least = (sum(settlement.targets_at(rho).values()) for rho in (0.0, settlement.rho, 1.0))
    return [
        "A party’s target is what it knows alone, and a share of what it can gain: (φ/φ_max)^ρ, where φ is its Shapley "
        "value. So everybody who brings anything gains, whatever ρ is. Near ρ = 0 all get nearly everything, and with "
        "ρ = 1 these shares are in proportion to Shapley values.",
        f"Chosen is ρ = {number(settlement.rho)}."
        + ("" if stable is None else f" Up to {number(stable)} no coalition’s best member would rather leave with it."),
        f"A larger ρ hands out less: together the targets are worth {number(chosen)} nats, between {number(most)} as ρ "
        f"goes to 0 and {number(least)} at ρ = 1.",
    ]


def _team_title(settlement: "Settlement", team: tuple[str, ...]) -> str:
    """Which team a chart is about, where there are several."""
    if len(settlement.teams) == 1:
        return ""
    return "Team of " + (listed(team) if len(team) <= 4 else f"{team[0]}, {team[1]} and {len(team) - 2} others")
