"""The operator's edition: everything that was decided, and what it was decided from."""

from typing import TYPE_CHECKING

from equipoise._util.text import short
from equipoise.guarantee import DEFAULT_DELTA, Guarantee, guess_percent
from equipoise.report.control import curves, exponent
from equipoise.report.evidence import diagnostics, digests, remarks
from equipoise.report.glossary import glossary
from equipoise.report.learning import beliefs, predictions, under_other_priors
from equipoise.report.outcome import awards, coalitions, shapley
from equipoise.report.page import Page, Section, Table
from equipoise.report.promises import agreement_section, audit_section, conclusion
from equipoise.report.wording import absence, compared, listed, nats, number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from equipoise.mediation.other_priors import UnderPrior
    from equipoise.mediation.settlement import Settlement

NAMED = 6  # parties that the summary goes through one by one


def operator_page(settlement: "Settlement", priors: "Mapping[str, UnderPrior] | None" = None) -> Page:
    """The whole report; `priors` is the round under other priors."""
    findings = settlement.audit.findings
    sign, words = conclusion(findings)
    sections = [
        contributions(settlement),
        awards(settlement),
        coalitions(settlement),
        shapley(settlement),
        curves(settlement),
        exponent(settlement),
        under_other_priors(priors) if priors else None,
        beliefs(settlement),
        predictions(settlement),
        audit_section(findings, reasons=True),
        remarks(settlement),
        diagnostics(settlement),
        digests(settlement),
        agreement_section(settlement.agreement),
        glossary(),
    ]
    return Page(
        title=settlement.agreement.title or "Settlement",
        edition="Operator’s edition: holds every party’s numbers, and is not for the parties",
        summary=summary(settlement),
        sign=sign,
        conclusion=words,
        sections=[section for section in sections if section is not None],
        footer=f"Made by Equipoise {settlement.environment.get('equipoise', '')}; decisions {settlement.decisions}",
        alarms=[one.words for one in settlement.deviations],
    )


def summary(settlement: "Settlement") -> list[str]:
    """Who takes part, and how much each gains over going alone."""
    parties = settlement.parties
    without = [absence(settlement.absent)] if settlement.absent else []
    if len(parties) == 1:
        opening = f"Only {parties[0]} took part, so there is nobody to learn from or to share with."
    else:
        names = f": {listed(parties)}" if len(parties) <= NAMED else ""
        opening = (
            f"{len(parties)} parties took part{names}. Each released a noisy summary of its table, once, and gets back "
            "a model as good as what it brought."
        )
    worth = "; ".join(
        f"{'all' if team == parties else listed(team) if len(team) <= NAMED else f'{len(team)} parties'} together know "
        f"{nats(settlement.value(*team).value)} nats"
        for team in settlement.teams[:NAMED]
        if len(team) > 1
    )
    gains = {party: award.attained.value - award.alone.value for party, award in settlement.awards.items()}
    order = sorted(gains, key=lambda party: -gains[party])
    told = order if len(parties) <= NAMED else [order[0], order[-1]]
    words = "; ".join(f"{party} {compared(gains[party])}" for party in told)
    if told != order:
        words = f"the gains lie between these two: {words}"
    return [
        opening,
        *without,
        f"In units of information (nats, see the glossary): {worth + '; ' if worth else ''}{words}.",
    ]


def contributions(settlement: "Settlement") -> Section:
    """Who contributed what, and at which privacy."""
    orders = {one.order for one in settlement.contributions.values()}
    order = f" (order λ = {number(next(iter(orders)))})" if len(orders) == 1 else ""
    rows = []
    for party, one in settlement.contributions.items():
        guarantee = Guarantee(order=one.order, epsilon=one.epsilon)
        rows.append(
            (
                party,
                f"{one.rows:,}",
                number(guarantee.epsilon_at(DEFAULT_DELTA)),
                guess_percent(guarantee.zcdp),
                number(one.epsilon, 4) + ("" if order else f" at λ = {number(one.order)}"),
                number(guarantee.zcdp, 4),
            )
        )
    return Section(
        "contributions",
        "Who contributed what",
        [
            "Each party chose its own privacy: the smaller ε, the more noise hides each single row, and the less its "
            "release tells. The columns on the right are readings of the same guarantee. The guess is how often "
            "somebody who knows all other rows can tell which of two values the last one has; a coin is right 50 % of "
            "the time."
        ],
        tables=[
            Table(
                "Releases and their guarantees",
                ("party", "rows", f"ε at δ = {short(DEFAULT_DELTA)}", "guess", f"Rényi ε{order}", "zCDP"),
                rows,
            )
        ],
    )
