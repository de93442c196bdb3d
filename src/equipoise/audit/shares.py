"""P3: targets are the agreed shares, and rewards are worth their targets; everything recomputed that can be."""

from typing import TYPE_CHECKING

import numpy as np

from equipoise.audit.verdict import Found, same
from equipoise.estimate import SURE, UNSURE
from equipoise.reward.targets import rationality_bound
from equipoise.valuation.shapley import exact_shapley
from equipoise.valuation.surprise import surprise

if TYPE_CHECKING:
    from equipoise.settlement import Award, Settlement


def shares_as_agreed(settlement: "Settlement") -> Found:
    """P3: targets are the agreed shares, and rewards are worth their targets."""
    awards = settlement.awards.values()
    broken = _wrong_shapley(settlement) or _wrong_exponent(settlement) or _wrong_targets(settlement)
    broken = broken or next(filter(None, (_wrong_reward(settlement, award) for award in awards)), "")
    if broken:
        return "fails", broken
    if absent := [award.party for award in awards if award.reward is None]:
        return "cannot tell", f"the rewards of {', '.join(absent)} were not there to be looked at"
    shares = ", ".join(
        f"{award.party} {award.target.value / settlement.value(*award.team).value:.0%}" for award in awards
    )
    miss = max(abs(award.attained.value - award.target.value) for award in awards)
    words = f"rho = {settlement.rho:.3g}, shares {shares}; largest miss {miss:.3f} nats"
    if settlement.exact:
        return "holds", words
    return "cannot tell", f"{words}; Shapley values of a sample of coalitions are taken as stated"


def _wrong_reward(settlement: "Settlement", award: "Award") -> str:
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
        # The whole posterior is valued from more draws than are handed out; all others are the same numbers.
        pooled = award.kappa == 1 and award.tau == 0
        if abs((again - award.attained).in_errors) > SURE if pooled else not same(again.value, award.attained.value):
            return f"the draws {award.party} gets are worth {again}, not {award.attained} nats"
    miss = abs(award.attained.value - award.target.value)
    if miss > settlement.options["tolerance"] + UNSURE * award.attained.error:
        return f"{award.party} gets {award.attained} nats for a target of {award.target}"
    return ""


def _wrong_shapley(settlement: "Settlement") -> str:
    """What is wrong with the Shapley values, if all coalitions are there to recompute them from."""
    if not settlement.exact:
        return ""
    parties = settlement.parties
    coalitions = [[party for i, party in enumerate(parties) if mask >> i & 1] for mask in range(2 ** len(parties))]
    if missing := [members for members in coalitions[1:] if frozenset(members) not in settlement.values]:
        return f"the value of {{{', '.join(missing[0])}}} is missing"
    values = [settlement.value(*members) for members in coalitions]
    shapley = exact_shapley([one.value for one in values], [one.error for one in values])
    for i, party in enumerate(parties):
        stated = settlement.shapley[party].value
        if not same(stated, float(shapley.values[i])):
            return f"the Shapley value of {party} is stated as {stated:.4f}, and is {shapley.values[i]:.4f}"
    return ""


def _wrong_exponent(settlement: "Settlement") -> str:
    """What is wrong with the exponent: it is the one asked for, or the largest that leaves nobody worse off."""
    asked = settlement.options["rho"]
    if asked != "max":
        return "" if asked == settlement.rho else f"rho is stated as {settlement.rho:g}, and {asked:g} was asked for"
    bounds = [
        rationality_bound(
            np.array([settlement.shapley[party].value for party in team]),
            [settlement.value(party) for party in team],
            settlement.value(*team),
        )
        for team in settlement.teams
    ]
    if None in bounds:
        return "no exponent leaves everybody as well off as alone, and one was chosen all the same"
    bound = min(one for one in bounds if one is not None)
    if not same(bound, settlement.rho):
        return f"rho is stated as {settlement.rho:.4g}, and the largest that leaves nobody worse off is {bound:.4g}"
    return ""


def _wrong_targets(settlement: "Settlement") -> str:
    """What is wrong with the targets, given Shapley values and exponent."""
    for team in settlement.teams:
        whole, best = settlement.value(*team).value, max(settlement.shapley[party].value for party in team)
        for award in settlement.awards_of(team):
            if award.alone != settlement.value(award.party):
                return (
                    f"{award.party} is stated to be worth {award.alone} alone, and is {settlement.value(award.party)}"
                )
            share = max(settlement.shapley[award.party].value, 0.0) / best if best > 0 else 1.0
            target = whole * share**settlement.rho
            if not same(award.target.value, target):
                return f"the target of {award.party} is stated as {award.target.value:.4f}, and is {target:.4f}"
    return ""
