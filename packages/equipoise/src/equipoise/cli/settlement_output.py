"""A settlement's tables and remarks, for a terminal."""

from typing import Any

from equipoise._util.display import Table
from equipoise.cli.output import echo, print_alarm, print_lines, print_table
from equipoise.estimate import Estimate
from equipoise.mediation.other_priors import UnderPrior
from equipoise.mediation.settlement import Settlement
from equipoise.mediation.what_if import WhatIf
from equipoise.report import tables


def show_settlement(settlement: Settlement) -> None:
    """Print tables of the decisions and of the audit."""
    awards = settlement.awards
    errors = tables.errors(settlement.agreement.model, settlement.errors, tables.yardstick(settlement))
    losses = {party: award.losses for party, award in awards.items() if award.losses}
    if errors:
        print_table(errors)
    print_table(tables.awards(settlement, similarity=False))
    if losses:
        print_table(tables.losses(losses))
    print_table(tables.contributions(settlement))
    for line in _bounds(settlement):
        print_lines(line, bullet=True)
    for award in awards.values():
        for note in award.notes:
            print_lines(f"{award.party}: {note}", bullet=True)
    echo()
    print_table(tables.audit(settlement.audit.checked, reasons=False))
    for finding in settlement.audit.checked:
        print_lines(f"{finding.code} {finding.verdict}: {finding.reason}", bullet=True)
    for ranking in settlement.audit.rankings:
        print_lines(
            f"{ranking.higher} contributes more than {ranking.lower} with probability {ranking.probability:.3f}",
            bullet=True,
        )
    for remark in settlement.remarks:
        print_lines(f"worth a look: {remark.message}", bullet=True)
    echo()
    for deviation in settlement.deviations:
        print_alarm(f"The agreement was not kept: {deviation.words}.")


def _bounds(settlement: Settlement) -> list[str]:
    """Return remarks that belong beside the tables."""
    bounds = [
        f"largest exponent that leaves nobody worse off than alone: {_number(settlement.rational_rho)}",
        f"largest with which no coalition's best member would rather leave: {_number(settlement.stable_rho)}",
        f"largest standard error of a target or a reward: {settlement.precision:.3f} nats",
    ]
    # Versions up to 0.6 repaired negative Shapley values.
    if settlement.shapley_repair > 1:
        bounds.append(
            "a negative Shapley value was repaired: contributions to nobody count "
            f"{settlement.shapley_repair:.2f} times as much"
        )
    if settlement.nothing:
        bounds.append(f"cannot be told from bringing nothing, and counted so: {', '.join(settlement.nothing)}")
    if own := [award.party for award in settlement.awards.values() if award.falls_back]:
        why = "its share would be less" if settlement.terms.own_is_whole else "no share would do"
        bounds.append(f"{why}, so the reward is its own posterior, as agreed: {', '.join(own)}")
    if settlement.absent:
        bounds.insert(0, f"settled without {', '.join(settlement.absent)}, who took no part")
    return bounds


def show_sweep(settlement: Settlement) -> None:
    """Print everybody's target at several fairness exponents, and the error of a model of that value."""
    print_table(tables.sweep(settlement))
    if errors := tables.errors_by_exponent(settlement):
        print_table(errors)


def sweep(settlement: Settlement) -> list[dict[str, Any]]:
    """Return targets, errors and who would be worse off than alone at several fairness exponents, for `--json`."""
    return [
        {"rho": rho, "targets": targets, "errors": settlement.errors_at(rho), "worse_off_than_alone": worse}
        for rho, targets, worse in tables.exponents(settlement)
    ]


def show_other_priors(by_prior: dict[str, UnderPrior]) -> None:
    """Print what each party contributes and gets under each prior."""
    print_table(tables.under_other_priors(by_prior))
    orders = {name: " > ".join(valued.order) for name, valued in by_prior.items()}
    if len(set(orders.values())) == 1:
        print_lines(f"the order of the parties does not depend on it: {next(iter(orders.values()))}", bullet=True)
    else:
        for name, order in orders.items():
            print_lines(f"{name}: {order}", bullet=True)
    echo()


def show_what_if(answer: WhatIf) -> None:
    """Print the what-if comparison."""
    changed = ", ".join(f"{party} at epsilon {epsilon:g}" for party, epsilon in answer.changes.items())
    table = Table(
        f"What if: {changed}. Values in nats, as settled → as it would be, mean of {answer.realisations} draws of the "
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
            for party, before, after in ((name, answer.before[name], answer.after[name]) for name in answer.before)
        ],
    )
    print_table(table)
    print_lines(
        f"all together: {answer.team_before.value:.2f} → {answer.team_after.value:.2f} ± {answer.team_after.error:.2f} "
        f"nats; fairness exponent {_change(answer.rho_before, answer.rho_after, '.3g')}",
        bullet=True,
    )
    for note in answer.notes:
        print_lines(note, bullet=True)
    echo()


def _moved(before: Estimate, after: Estimate) -> str:
    if before.value == after.value:
        return f"{before.value:.2f}"
    return f"{before.value:.2f} → {after.value:.2f}±{after.error:.2f}"


def _change(before: float, after: float, form: str) -> str:
    return f"{before:{form}}" if before == after else f"{before:{form}} → {after:{form}}"


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3g}"
