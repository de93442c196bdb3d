"""The operator's edition of the report: all decisions, and the numbers behind them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from equipoise.report import tables
from equipoise.report.evidence import diagnostics, digests, remarks
from equipoise.report.glossary import glossary
from equipoise.report.losses import beliefs, predictions, under_other_priors
from equipoise.report.mechanism_sections import curves, exponent
from equipoise.report.outcome import awards, coalitions, shapley
from equipoise.report.page import Page, Section
from equipoise.report.promises import agreement_section, audit_section, conclusion
from equipoise.report.wording import absence, compared, listed, nats

if TYPE_CHECKING:
    from collections.abc import Mapping

    from equipoise.mediation.other_priors import UnderPrior
    from equipoise.mediation.settlement import Settlement

# Up to this many parties, the summary names each one.
NAMED = 6


def operator_page(settlement: "Settlement", priors: "Mapping[str, UnderPrior] | None" = None) -> Page:
    """Build the whole report; `priors` is the round under other priors."""
    findings = settlement.audit.checked
    sign, words = conclusion(findings)
    sections = [
        awards(settlement),
        contributions(settlement),
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
        glossary(settlement.agreement.reward.rule),
    ]
    return Page(
        title=settlement.agreement.title or "Settlement",
        edition="Operator’s edition: holds every party’s numbers, and is not for the parties",
        summary=summary(settlement),
        sign=sign,
        conclusion=words,
        sections=[section for section in sections if section is not None],
        footer=f"Made by Equipoise {settlement.environment.get('equipoise', '')}; decisions {settlement.decisions}",
        alarms=[deviation.words for deviation in settlement.deviations],
    )


def summary(settlement: "Settlement") -> list[str]:
    """Say in sentences which parties take part, and how much each gains over going alone."""
    parties = settlement.parties
    without = [absence(settlement.absent)] if settlement.absent else []
    if len(parties) == 1:
        opening = f"Only {parties[0]} took part, so there is nobody to learn from or to share with."
    else:
        names = f": {listed(parties)}" if len(parties) <= NAMED else ""
        opening = (
            f"{len(parties)} parties took part{names}. Each released a noisy summary of its table, once, and gets back "
            "a model that is worth the more, the more it brought."
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
        *_errors(settlement, order[:NAMED]),
        f"In units of information (nats, see the glossary): {worth + '; ' if worth else ''}{words}.",
    ]


def _errors(settlement: "Settlement", parties: Sequence[str]) -> list[str]:
    """Say how large the models' errors are before and after, in the target's unit."""
    model, errors = settlement.agreement.model, settlement.errors
    known = [party for party in parties if {"alone", "reward"} <= set(errors[party])]
    told = "; ".join(f"{party} {tables.before_and_after(model, errors[party])}" for party in known)
    return [f"{model.error_name}, alone → with the reward: {told}."] if told else []


def contributions(settlement: "Settlement") -> Section:
    """Build the section on each party's release and its privacy."""
    words = (
        "Each party chose its own privacy: the smaller ε, the more noise hides each single row, and the less its "
        "release tells. The columns on the right are readings of the same guarantee. The guess is how often somebody "
        "who knows all other rows can tell which of two values the last one has; a coin is right 50 % of the time."
    )
    return Section("contributions", "Who contributed what", [words], tables=[tables.contributions(settlement)])
