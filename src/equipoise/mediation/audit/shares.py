"""P3: targets are the agreed shares, and rewards are worth their targets; everything recomputed that can be."""

import math
from dataclasses import replace

import numpy as np

from equipoise.estimate import SURE, UNSURE, Estimate
from equipoise.mediation.audit.verdict import Found, same
from equipoise.mediation.settlement import Award, Settlement
from equipoise.reward.targets import Targets, decide, decide_from, every_coalition
from equipoise.valuation.shapley import ShapleyValues
from equipoise.valuation.surprise import surprise

ALLOWED = 0.5  # nats by which rewards may miss their targets, whatever tolerance the operator chose
NEIGHBOURS_OFF = 0.2  # share of a value that nearest neighbours may miss of what weights tell; 16 % was seen


def shares_as_agreed(settlement: Settlement) -> Found:
    """P3: targets are the agreed shares, and rewards are worth their targets."""
    awards = settlement.awards.values()
    broken = _left_the_agreement(settlement)
    broken = broken or _wrong_decision(settlement)
    broken = broken or next(filter(None, (_wrong_reward(settlement, award) for award in awards)), "")
    if broken:
        return "fails", broken
    if absent := [award.party for award in awards if award.reward is None]:
        return "cannot tell", f"the rewards of {', '.join(absent)} were not there to be looked at"
    shares = ", ".join(
        f"{award.party} {_share(award.target.value, settlement.value(*award.team).value)}" for award in awards
    )
    miss = max(map(_missed, awards))
    words = f"rho = {settlement.rho:.3g}, shares {shares}; largest miss {miss:.3f} nats"
    if coarse := [award.party for award in awards if _missed(award) > ALLOWED + UNSURE * award.attained.error]:
        allowed = f"the operator allowed {settlement.options['tolerance']:g} nats, and more than {ALLOWED:g} is much"
        return "cannot tell", f"{words}, of {', '.join(coarse)}: {allowed}"
    if _earlier(settlement):
        return "cannot tell", f"{words}; an earlier version set these targets, by other rules for errors: settle again"
    if settlement.exact:
        return "holds", words
    return "cannot tell", f"{words}; Shapley values of a sample of coalitions are taken as stated"


def _missed(award: Award) -> float:
    return abs(award.attained.value - award.target.value)


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.0%}" if whole > 0 else "all of nothing"


def _left_the_agreement(settlement: Settlement) -> str:
    """What was chosen otherwise than agreed, and whose reward does not say so."""
    found = [one.words for one in settlement.deviations]
    told = tuple(one.for_parties for one in settlement.deviations)
    rewards = [award.reward for award in settlement.awards.values() if award.reward is not None]
    if unsaid := [reward.party for reward in rewards if reward.deviations != told]:
        found.append(f"the rewards of {', '.join(unsaid)} tell otherwise")
    return "; ".join(found)


def _wrong_reward(settlement: Settlement, award: Award) -> str:
    """What is wrong with a reward: whose it is, what its draws are worth, how far from the target."""
    reward = award.reward
    if reward is not None:
        if reward.party != award.party or reward.digest != award.digest:
            return f"the reward file of {award.party} holds another reward (made for {reward.party})"
        again = surprise(
            reward.agreement,
            reward.posterior,
            estimator=settlement.options["estimator"],
            seed=reward.posterior.seed,
            force=True,
        )
        # A coalition's own posterior is valued by weights that are not handed out, and nearest neighbours among its
        # draws say less where it is wide and bent; all others are the same numbers.
        if award.kappa == 1 and award.tau == 0:
            whose = (award.party,) if award.falls_back else award.team
            if award.attained != settlement.value(*whose):
                return f"{award.party} gets {{{', '.join(whose)}}}'s own posterior, stated as {award.attained} nats"
            allowed = SURE * again.error + NEIGHBOURS_OFF * award.attained.value
            wrong = abs(again.value - award.attained.value) > allowed
        else:
            wrong = not (same(again.value, award.attained.value) and same(again.error, award.attained.error))
        if wrong:
            return f"the draws {award.party} gets are worth {again}, not {award.attained} nats"
    if _missed(award) > settlement.options["tolerance"] + UNSURE * award.attained.error:
        return f"{award.party} gets {award.attained} nats for a target of {award.target}"
    return ""


def _wrong_decision(settlement: Settlement) -> str:
    """What is wrong with Shapley values, exponent or targets: all follow from the values of coalitions."""
    if stated_otherwise := _other_exponent(settlement) or _other_values_alone(settlement):
        return stated_otherwise
    parties, stated = settlement.parties, settlement.shapley
    if _earlier(settlement) and settlement.shapley_repair > 1:
        return ""
    complete = len(settlement.values) == 2 ** len(parties) - 1
    if settlement.exact and not complete:
        return f"only {len(settlement.values)} of {2 ** len(parties) - 1:.4g} coalitions have a value"
    if complete:  # then nothing has to be taken as stated, also if they are said to be a sample
        values = [settlement.value(*members) for members in every_coalition(parties)]
        shapley, targets = decide(parties, settlement.teams, values, settlement.terms)
        for place, party in enumerate(parties):
            right = shapley[place] if settlement.exact else replace(shapley[place], error=stated[party].error)
            if not _alike(stated[party], right):
                return f"the Shapley value of {party} is stated as {stated[party]}, and is {right}"
    if _earlier(settlement):
        return ""
    if not complete:
        targets = decide_from(
            parties,
            settlement.teams,
            ShapleyValues(
                np.array([stated[party].value for party in parties]),
                np.array(settlement.shapley_covariance),
                settlement.values.get(frozenset(parties), Estimate(0.0, 0.0)),
                np.zeros(len(parties)),  # which errors of targets depend on, and nothing else
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
    """Whether two estimates agree, in their errors to what linear algebra keeps on any machine."""
    return same(one.value, other.value) and math.isclose(one.error, other.error, rel_tol=1e-6, abs_tol=1e-9)


def _other_exponent(settlement: Settlement) -> str:
    """Whether the exponent is not the one that was asked for."""
    asked = settlement.options["rho"]
    if asked in ("max", settlement.rho):
        return ""
    return f"rho is stated as {settlement.rho:g}, and {asked:g} was asked for"


def _other_targets(settlement: Settlement, targets: Targets) -> str:
    """Where the settlement differs from the targets as they should be."""
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
    """Whether it was settled by a version that counted otherwise."""
    return settlement.nothing is None
