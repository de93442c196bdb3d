"""How a settlement is shown on a terminal."""

from typing import Any

from equipoise._util.text import short
from equipoise.cli.output import echo, print_alarm, print_lines, print_table
from equipoise.estimate import Estimate
from equipoise.guarantee import DEFAULT_DELTA, Guarantee
from equipoise.mediation.settlement import Settlement
from equipoise.mediation.what_if import WhatIf

EXPONENTS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)

LOSSES = {"prior": "without data", "alone": "alone", "reward": "with its reward", "team": "whole team"}


def show_settlement(settlement: Settlement) -> None:
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
        ("party", f"(eps, {short(DEFAULT_DELTA)})", "Rényi eps", "rows", "similarity"),
        [
            (
                award.party,
                f"{_stated(settlement, award.party).epsilon_at(DEFAULT_DELTA):.3g}",
                f"{settlement.contributions[award.party].epsilon:g}",
                f"{settlement.contributions[award.party].rows:,}",
                _short(award.similarity),
            )
            for award in awards
        ],
    )
    if tested:
        print_table(
            "Loss on rows nobody released (mean negative log probability ± its standard error; lower is better)",
            ("party", *LOSSES.values()),
            [(award.party, *(_loss(award.losses, name) for name in LOSSES)) for award in awards],
        )
    for line in _bounds(settlement):
        print_lines(line, bullet=True)
    for award in awards:
        for note in award.notes:
            print_lines(f"{award.party}: {note}", bullet=True)
    echo()
    print_table(
        "Audit of the paper's promises",
        ("", "promise", "verdict"),
        [(finding.code, finding.promise, finding.verdict) for finding in settlement.audit],
        numeric_from=9,
    )
    for finding in settlement.audit:
        print_lines(f"{finding.code} {finding.verdict}: {finding.reason}", bullet=True)
    for ranking in settlement.audit.rankings:
        print_lines(
            f"{ranking.higher} contributes more than {ranking.lower} with probability {ranking.probability:.3f}",
            bullet=True,
        )
    for remark in settlement.remarks:
        print_lines(f"worth a look: {remark.message}", bullet=True)
    echo()
    for one in settlement.deviations:
        print_alarm(f"The agreement was not kept: {one.words}.")


def _bounds(settlement: Settlement) -> list[str]:
    """What is to be said beside the tables."""
    awards = settlement.awards.values()
    bounds = [
        f"largest exponent that leaves nobody worse off than alone: {_number(settlement.rational_rho)}",
        f"largest with which no coalition's best member would rather leave: {_number(settlement.stable_rho)}",
        f"largest standard error of a target or a reward: {settlement.precision:.3f} nats",
    ]
    if settlement.shapley_repair > 1:  # by a version up to 0.6
        bounds.append(
            "a negative Shapley value was repaired: contributions to nobody count "
            f"{settlement.shapley_repair:.2f} times as much"
        )
    if settlement.nothing:
        bounds.append(f"cannot be told from bringing nothing, and counted so: {', '.join(settlement.nothing)}")
    if own := [award.party for award in awards if award.falls_back]:
        bounds.append(f"no share would do, so the reward is its own posterior, as agreed: {', '.join(own)}")
    if settlement.absent:
        bounds.insert(0, f"settled without {', '.join(settlement.absent)}, who took no part")
    return bounds


def sweep(settlement: Settlement) -> list[dict[str, Any]]:
    """Everybody's target at several fairness exponents, and who would be worse off than alone."""
    found = []
    for rho in sorted({*EXPONENTS, settlement.rho, *filter(None, (settlement.rational_rho, settlement.stable_rho))}):
        targets = settlement.targets_at(rho)
        worse = [party for party in settlement.parties if targets[party] < settlement.value(party).value - 1e-9]
        found.append({"rho": rho, "targets": targets, "worse_off_than_alone": worse})
    return found


def show_sweep(settlement: Settlement) -> None:
    """The same as a table."""
    marks = {
        "chosen": settlement.rho,
        "rationality bound": settlement.rational_rho,
        "stability bound": settlement.stable_rho,
    }

    def remark(rho: float, worse: list[str]) -> str:
        marked = [name for name, where in marks.items() if where == rho]
        return "; ".join([*marked, *([f"{', '.join(worse)} better off alone"] if worse else [])])

    print_table(
        "Targets in nats at other fairness exponents",
        ("rho", *settlement.parties, "note"),
        [
            (
                f"{one['rho']:.3g}",
                *(f"{one['targets'][party]:.2f}" for party in settlement.parties),
                remark(one["rho"], one["worse_off_than_alone"]),
            )
            for one in sweep(settlement)
        ],
        numeric_from=0,
    )


def show_other_priors(found: dict[str, Any]) -> None:
    """Who brings and gets how much under each prior."""
    parties = list(next(iter(found.values()))["shapley"])
    print_table(
        "Had the prior been another: Shapley value → target, in nats",
        ("prior", "all together", "rho", *parties),
        [
            (
                name,
                f"{one['team']['value']:.2f}",
                f"{one['rho']:.3g}",
                *(f"{one['shapley'][party]['value']:.2f} → {one['targets'][party]['value']:.2f}" for party in parties),
            )
            for name, one in found.items()
        ],
    )
    orders = {name: " > ".join(one["order"]) for name, one in found.items()}
    if len(set(orders.values())) == 1:
        print_lines(f"the order of the parties does not depend on it: {next(iter(orders.values()))}", bullet=True)
    else:
        for name, order in orders.items():
            print_lines(f"{name}: {order}", bullet=True)
    echo()


def show_what_if(found: WhatIf) -> None:
    """What would have been."""
    changed = ", ".join(f"{party} at epsilon {epsilon:g}" for party, epsilon in found.changes.items())
    print_table(
        f"What if: {changed}. Values in nats, as settled → as it would be, mean of {found.realisations} draws of the "
        "noise",
        ("party", "epsilon", "alone", "Shapley value", "target"),
        [
            (
                party,
                _change(before.epsilon, after.epsilon, "g"),
                _moved(before.alone, after.alone),
                _moved(before.shapley, after.shapley),
                _moved(before.target, after.target),
            )
            for party, before, after in ((name, found.before[name], found.after[name]) for name in found.before)
        ],
    )
    print_lines(
        f"all together: {found.team_before.value:.2f} → {found.team_after.value:.2f} ± {found.team_after.error:.2f} "
        f"nats; fairness exponent {_change(found.rho_before, found.rho_after, '.3g')}",
        bullet=True,
    )
    for note in found.notes:
        print_lines(note, bullet=True)
    echo()


def _moved(before: Estimate, after: Estimate) -> str:
    if before.value == after.value:
        return f"{before.value:.2f}"
    return f"{before.value:.2f} → {after.value:.2f}±{after.error:.2f}"


def _change(before: float, after: float, form: str) -> str:
    return f"{before:{form}}" if before == after else f"{before:{form}} → {after:{form}}"


def _stated(settlement: Settlement, party: str) -> Guarantee:
    one = settlement.contributions[party]
    return Guarantee(order=one.order, epsilon=one.epsilon)


def _short(estimate: Estimate) -> str:
    return f"{estimate.value:.2f} ± {estimate.error:.2f}"


def _loss(losses: dict[str, Estimate], name: str) -> str:
    return f"{losses[name].value:.3f} ± {losses[name].error:.3f}" if name in losses else ""


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3g}"
