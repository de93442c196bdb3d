"""Sections on the mechanism of rewards: the fairness exponent, and the curve of a reward's value."""

from typing import TYPE_CHECKING

from equipoise.mediation.settings import WITH_NOISE
from equipoise.report import charts, tables
from equipoise.report.outcome import BARS, MOST_ROWS
from equipoise.report.page import Figure, Section
from equipoise.report.wording import listed, number

if TYPE_CHECKING:
    from equipoise.mediation.settlement import Settlement


def curves(settlement: "Settlement") -> Section | None:
    """Build the section on r(κ), or r(τ) for each recipient, with the rewards on the curve; None without a curve."""
    noise = settlement.settings.mechanism in WITH_NOISE
    figures = []
    for team in settlement.teams:
        points = [point for point in settlement.curve if point.team == team]
        if not points:
            continue
        marks = [
            charts.Mark(award.party, award.tau if noise else award.kappa, award.attained)
            for award in settlement.awards_of(team)[:MOST_ROWS]
            if not award.falls_back
        ]
        recipients = dict.fromkeys(point.recipient for point in points)
        lines = [
            charts.Line(
                [
                    (point.tau if noise else point.kappa, point.value)
                    for point in points
                    if point.recipient == recipient
                ],
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
    """Build the section on targets against the fairness exponent, also in the target's unit."""
    figures = [figure for team in settlement.teams for figure in _sweeps(settlement, team)]
    words = _of_surplus(settlement) if settlement.terms.shares_surplus else _of_proportional(settlement)
    errors = tables.errors_by_exponent(settlement)
    if errors:
        words.append(
            "The same in the unit of the target: by how much the error of each party’s model would be smaller than "
            "that of the party alone, read off between models that were made."
        )
        if settlement.settings.mechanism == "tempering":
            words.append(
                "Tempering takes away certainty: a tempered model predicts nearly the same and is less sure of it, so "
                "its error may hardly grow with ρ. At home, combined with own rows, it still counts for less."
            )
    return Section("exponent", "How fairness was set", words, figures, tables=[errors] if errors else [])


def _sweeps(settlement: "Settlement", team: tuple[str, ...]) -> list[Figure]:
    """Draw the charts of one team: targets in nats and, if errors are known, gains over going alone."""
    terms, model, title = settlement.terms, settlement.agreement.model, _team_title(settlement, team)
    targets = [settlement.targets_at(rho) for rho in charts.EXPONENTS]
    worth = [
        charts.Sweep(
            party,
            [each[party] for each in targets],
            None if terms.shares_surplus else settlement.awards[party].alone.value,
        )
        for party in team  # so that a party looks the same here and on the curve
    ]
    chart = charts.exponent_sweep(
        worth,
        unit="target (nats)",
        chosen=settlement.rho,
        rational=None if terms.shares_surplus else settlement.rational_rho,
        stable=settlement.stable_rho,
    )
    caption = "What each reward should be worth, for every ρ."
    if any(one.crossing for one in worth):
        caption += " A ring marks where a party would be no better off than alone."
    if not terms.shares_surplus and settlement.rational_rho is not None:
        caption += " The shaded part is where nobody is worse off."
    figures = [Figure(chart, caption, title)]
    errors = [settlement.errors_at(rho) for rho in charts.EXPONENTS]
    scale, unit = (100, " (percentage points)") if model.errors_are_shares else (1, "")
    gains = [
        charts.Sweep(party, [scale * (settlement.errors[party]["alone"] - each[party]) for each in errors])
        for party in team
        if party in errors[0]
    ]
    if gains:
        chart = charts.exponent_sweep(gains, unit=f"gain over alone{unit}", chosen=settlement.rho)
        caption = f"{model.error_name}: by how much it would be less than alone, {tables.yardstick(settlement)}."
        figures.append(Figure(chart, caption, title))
    return figures


def _of_proportional(settlement: "Settlement") -> list[str]:
    rational = settlement.rational_rho
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
        + _stability(settlement),
    ]
    most = sum(settlement.targets_at(0.0).values())
    chosen = sum(settlement.targets_at(settlement.rho).values())
    least = "" if rational is None else f", and {number(sum(settlement.targets_at(rational).values()))} at the bound"
    words.append(
        f"A larger ρ hands out less: together the targets are worth {number(chosen)} nats, up to {number(most)} as ρ "
        f"goes to 0{least}. The largest ρ that is rational is the one with the smallest sum."
    )
    return words


def _of_surplus(settlement: "Settlement") -> list[str]:
    most, chosen, least = (sum(settlement.targets_at(rho).values()) for rho in (0.0, settlement.rho, 1.0))
    return [
        "A party’s target is what it knows alone, and a share of what it can gain: (φ/φ_max)^ρ, where φ is its Shapley "
        "value. So everybody who brings anything gains, whatever ρ is. Near ρ = 0 all get nearly everything, and with "
        "ρ = 1 these shares are in proportion to Shapley values.",
        f"Chosen is ρ = {number(settlement.rho)}." + _stability(settlement),
        f"A larger ρ hands out less: together the targets are worth {number(chosen)} nats, between {number(most)} as ρ "
        f"goes to 0 and {number(least)} at ρ = 1.",
    ]


def _stability(settlement: "Settlement") -> str:
    """Say up to which ρ no coalition would leave, if that is known."""
    stable = settlement.stable_rho
    if stable is None:
        return ""
    where = f"Up to {number(stable)}" if stable < 1 else "At any ρ,"
    return f" {where} no coalition’s best member would rather leave with it."


def _team_title(settlement: "Settlement", team: tuple[str, ...]) -> str:
    """Return a title that names a chart's team, if there are several teams."""
    if len(settlement.teams) == 1:
        return ""
    return "Team of " + (listed(team) if len(team) <= 4 else f"{team[0]}, {team[1]} and {len(team) - 2} others")
