"""Check of P3: targets are the agreed shares, and rewards are worth their targets, as far as can be recomputed."""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from equipoise.estimate import SURE, UNSURE, Estimate
from equipoise.mediation.audit.verdict import Found, same
from equipoise.mediation.settlement import Award, Settlement
from equipoise.reward.targets import Targets, every_coalition, targets_from_shapley, targets_from_values
from equipoise.valuation.shapley import ShapleyValues
from equipoise.valuation.surprise import surprise

# Nats by which rewards may miss their targets, whatever tolerance the operator chose.
ALLOWED = 0.5
# The mediator's values come from importance weights, which are not handed out; the audit uses nearest neighbours among
# the draws. Of a wide and curved posterior these were seen to give up to 16 % less, and of others 1 % less. If they
# differ by more than the first share of the value, the audit cannot tell; by more than the second, the stated value is
# wrong.
UNTOLD, IMPOSSIBLE = 0.05, 0.2
# An attained value's standard error may be this multiple of that of nearest neighbours.
LARGEST_ERROR = 3.0


def shares_as_agreed(settlement: Settlement) -> Found:
    """Check P3: targets are the agreed shares, and rewards are worth their targets."""
    awards = settlement.awards.values()
    again = {award.party: _value_of_draws(settlement, award) for award in awards}
    broken = _left_the_agreement(settlement)
    broken = broken or _wrong_decision(settlement)
    broken = broken or next(
        filter(None, (_wrong_reward(settlement, award, again[award.party]) for award in awards)), ""
    )
    if broken:
        return "fails", broken
    if absent := [award.party for award in awards if award.reward is None]:
        return "cannot tell", f"the rewards of {', '.join(absent)} were not there to be looked at"
    shares = ", ".join(
        f"{award.party} {_share(award.target.value, settlement.value(*award.team).value)}" for award in awards
    )
    miss = max(map(_missed, awards))
    words = f"rho = {settlement.rho:.3g}, shares {shares}; largest miss {miss:.3f} nats"
    if doubt := _doubt(settlement, again):
        return "cannot tell", f"{words}{doubt}"
    return "holds", words


def _doubt(settlement: Settlement, again: Mapping[str, Estimate]) -> str:
    """Say why the audit cannot tell if rewards are worth their targets; `again` are recomputed values of the draws."""
    awards = settlement.awards.values()
    if coarse := [award.party for award in awards if _missed(award) > ALLOWED + UNSURE * award.attained.error]:
        allowed = f"the operator allowed {settlement.options['tolerance']:g} nats, and more than {ALLOWED:g} is much"
        return f", of {', '.join(coarse)}: {allowed}"
    if untold := [award for award in awards if not _is_near(award, again[award.party], UNTOLD)]:
        told = ", ".join(f"{award.party} {again[award.party]} where {award.attained} is stated" for award in untold)
        return (
            f"; by nearest neighbours the draws are worth {told}, and neighbours say less where a posterior is wide "
            "and bent: with the submissions, `equipoise verify --again` tells"
        )
    if _earlier(settlement):
        return "; an earlier version set these targets, by other rules for errors: settle again"
    return "" if settlement.exact else "; Shapley values of a sample of coalitions are taken as stated"


def _missed(award: Award) -> float:
    return abs(award.attained.value - award.target.value)


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.0%}" if whole > 0 else "all of nothing"


def _left_the_agreement(settlement: Settlement) -> str:
    """Name deviations from the agreement, and the parties whose rewards do not state them."""
    found = [one.words for one in settlement.deviations]
    told = tuple(one.for_parties for one in settlement.deviations)
    rewards = [award.reward for award in settlement.awards.values() if award.reward is not None]
    if unsaid := [reward.party for reward in rewards if reward.deviations != told]:
        found.append(f"the rewards of {', '.join(unsaid)} tell otherwise")
    return "; ".join(found)


def _value_of_draws(settlement: Settlement, award: Award) -> Estimate:
    """Recompute a reward's value from its draws by nearest neighbours; if it is not there, return the stated value."""
    reward = award.reward
    if reward is None:
        return award.attained
    estimator, seed = settlement.options["estimator"], reward.posterior.seed
    return surprise(reward.agreement, reward.posterior, estimator=estimator, seed=seed, force=True)


def _is_near(award: Award, again: Estimate, share: float) -> bool:
    """Return True if the recomputed value is the stated one, apart from chance and a share of the value."""
    allowed = SURE * math.hypot(again.error, award.attained.error) + share * abs(award.attained.value)
    return abs(again.value - award.attained.value) <= allowed


def _wrong_reward(settlement: Settlement, award: Award, again: Estimate) -> str:
    """Say what is wrong with a reward: its party, the value of its draws, or the distance from its target."""
    reward, attained = award.reward, award.attained
    if reward is not None:
        if reward.party != award.party or reward.digest != award.digest:
            return f"the reward file of {award.party} holds another reward (made for {reward.party})"
        if award.kappa == 1 and award.tau == 0:
            whose = (award.party,) if award.falls_back else award.team
            if attained != settlement.value(*whose):
                return f"{award.party} gets {{{', '.join(whose)}}}'s own posterior, stated as {attained} nats"
        elif attained.error > max(settlement.options["precision"], LARGEST_ERROR * again.error):
            return f"{award.party} gets {attained} nats, an error far larger than its draws have ({again})"
        if not _is_near(award, again, IMPOSSIBLE):
            return f"the draws {award.party} gets are worth {again}, not {attained} nats"
    if _missed(award) > settlement.options["tolerance"] + UNSURE * attained.error:
        return f"{award.party} gets {attained} nats for a target of {award.target}"
    return ""


def _wrong_decision(settlement: Settlement) -> str:
    """Say what is wrong with Shapley values, exponent or targets, which all follow from the values of coalitions."""
    if stated_otherwise := _other_exponent(settlement) or _other_values_alone(settlement):
        return stated_otherwise
    parties, stated = settlement.parties, settlement.shapley
    if _earlier(settlement) and settlement.shapley_repair > 1:
        return ""
    complete = len(settlement.values) == 2 ** len(parties) - 1
    if settlement.exact and not complete:
        return f"only {len(settlement.values)} of {2 ** len(parties) - 1:.4g} coalitions have a value"
    if complete:
        # Everything can be recomputed, even if the settlement says that coalitions were sampled.
        values = [settlement.value(*members) for members in every_coalition(parties)]
        shapley, targets = targets_from_values(parties, settlement.teams, values, settlement.terms)
        for place, party in enumerate(parties):
            right = shapley[place] if settlement.exact else replace(shapley[place], error=stated[party].error)
            if not _alike(stated[party], right):
                return f"the Shapley value of {party} is stated as {stated[party]}, and is {right}"
    if _earlier(settlement):
        return ""
    if not complete:
        targets = targets_from_shapley(
            parties,
            settlement.teams,
            ShapleyValues(
                np.array([stated[party].value for party in parties]),
                np.array(settlement.shapley_covariance),
                settlement.values.get(frozenset(parties), Estimate(0.0, 0.0)),
                # The covariance with the grand coalition only affects errors of targets, which are not compared.
                np.zeros(len(parties)),
            ),
            [settlement.value(party) for party in parties],
            [settlement.value(*team) for team in settlement.teams],
            settlement.terms,
        )
    return _other_targets(settlement, targets)


def _other_values_alone(settlement: Settlement) -> str:
    for award in settlement.awards.values():
        if award.alone != settlement.value(award.party):
            return f"{award.party} is stated to be worth {award.alone} alone, and is {settlement.value(award.party)}"
    return ""


def _alike(one: Estimate, other: Estimate) -> bool:
    """Return True if two estimates agree; errors may differ as much as linear algebra does between machines."""
    return same(one.value, other.value) and math.isclose(one.error, other.error, rel_tol=1e-6, abs_tol=1e-9)


def _other_exponent(settlement: Settlement) -> str:
    """Say how the stated exponent differs from the one that was asked for, if it does."""
    asked = settlement.options["rho"]
    if asked in ("max", settlement.rho):
        return ""
    return f"rho is stated as {settlement.rho:g}, and {asked:g} was asked for"


def _other_targets(settlement: Settlement, targets: Targets) -> str:
    """Say where the settlement differs from recomputed targets."""
    if not same(settlement.rho, targets.rho):
        largest = f"the largest that leaves everybody better off is {targets.rho:.4g}"
        return f"rho is stated as {settlement.rho:.4g}, and {largest}"
    for place, (party, award) in enumerate(settlement.awards.items()):
        nothing = bool(targets.nothing[place])
        if nothing != (party in (settlement.nothing or ())):
            found = f"{settlement.shapley[party]} nats, which {'cannot' if nothing else 'can'} be told from nothing"
            return f"{party} brings {found}, and is counted otherwise"
        if award.falls_back != bool(targets.falls_back[place]):
            return f"{party} should {'' if targets.falls_back[place] else 'not '}get its own posterior"
        right = targets[place] if settlement.exact else Estimate(float(targets.values[place]), award.target.error)
        if not _alike(award.target, right):
            return f"the target of {party} is stated as {award.target}, and is {right}"
    rational = (settlement.rational_rho, targets.rational_rho)
    if rational[0] != rational[1] and not same(rational[0] or 0.0, rational[1] or 0.0):
        return f"the largest rational exponent is stated as {rational[0]}, and is {rational[1]}"
    return ""


def _earlier(settlement: Settlement) -> bool:
    """Return True if a version up to 0.6, with other rules for errors, made the settlement."""
    return settlement.nothing is None
