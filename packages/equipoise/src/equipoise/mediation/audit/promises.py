"""Checks of V1 and of the promises P1, P2, P4, P5 and P6 (paper §3, §4)."""

import itertools
import math

from equipoise.estimate import ABOVE_ZERO, SURE, UNSURE, Estimate
from equipoise.mediation.audit.verdict import SAME, Found, critical
from equipoise.mediation.settlement import Award, Settlement


def values_not_negative(settlement: Settlement) -> Found:
    """Check V1: no coalition's value is negative."""
    lowest = min(settlement.coalitions, key=lambda one: one.value.z_score)
    who = ", ".join(lowest.members)
    numbers = f"least sure to be above 0, of {len(settlement.coalitions)}, is {{{who}}} with {lowest.value} nats"
    if lowest.value.z_score > UNSURE:
        return "holds", numbers
    if lowest.value.z_score >= -max(SURE, critical(len(settlement.coalitions))):
        return "cannot tell", f"{numbers}, which may be 0"
    return "fails", f"{numbers}; a divergence cannot be negative, so its estimate is wrong"


def guarantees_kept(settlement: Settlement) -> Found:
    """Check P1: no party's guarantee is weaker in any reward than it was released with."""
    older = False
    for award in settlement.awards.values():
        if not 0 <= award.kappa <= 1 or award.tau < 0:
            return "fails", f"the reward of {award.party} has kappa = {award.kappa:g} and tau = {award.tau:g}"
        if set(_made_from(award)) != set(award.epsilons) or not set(award.team) <= set(settlement.parties):
            return "fails", f"the reward of {award.party} does not state the guarantee of everybody it is made from"
        for party, epsilon in award.epsilons.items():
            released = settlement.contributions[party].epsilon
            if math.isclose(epsilon, released, rel_tol=SAME):
                continue
            # Up to version 0.6, awards stated the stronger guarantee against a reader of the reward alone.
            stronger = released / (1 + award.tau * released)
            if settlement.nothing is not None or not (award.tau and math.isclose(epsilon, stronger, rel_tol=SAME)):
                return "fails", (
                    f"the reward of {award.party} states epsilon = {epsilon:g} for {party}, which released at "
                    f"{released:g}"
                )
            older = True
        if award.reward is not None and (problem := _made_otherwise(settlement, award)):
            return "fails", problem
    kept = "every reward is computed from the releases alone, so each guarantee stands as released"
    if older:
        return "holds", (
            f"{kept}; the smaller epsilons that this settlement states for rewards with added noise are an older "
            "version's, and do not hold together with what else a party is told: rely on those that were released"
        )
    return "holds", kept


def _made_from(award: Award) -> tuple[str, ...]:
    """Return the parties whose releases are in a reward."""
    return (award.party,) if award.falls_back else award.team


def _made_otherwise(settlement: Settlement, award: Award) -> str:
    """Say how a reward's draws differ from its award; return an empty string if they do not."""
    assert award.reward is not None
    scenario = award.reward.posterior.scenario
    # In a degraded reward, the party's own release has no added noise.
    without_noise = award.party if settlement.settings.mechanism == "degraded" else None
    stated = {party: award.tau for party in _made_from(award) if award.tau and party != without_noise}
    if award.reward.agreement.identity_digest != settlement.agreement.identity_digest:
        return f"the reward of {award.party} belongs to another agreement"
    if set(scenario.coalition or ()) != set(_made_from(award)):
        return f"the reward of {award.party} was made from other releases than stated"
    if scenario.kappa != award.kappa or dict(scenario.tau) != stated:
        return f"the reward of {award.party} was not made with kappa = {award.kappa:g} and tau = {award.tau:g}"
    return ""


def whole_posterior_handed_out(settlement: Settlement) -> Found:
    """Check P2: in every team, a party receives the team's whole posterior."""
    names = []
    for team in settlement.teams:
        whole = settlement.value(*team)
        awards = settlement.awards_of(team)
        best = [award for award in awards if award.gets_all]
        if not best:
            alone = [award.party for award in awards if award.falls_back]
            why = f": {', '.join(alone)} would be worth less with it than alone" if alone else ""
            return "fails", f"nobody of {{{', '.join(team)}}} gets its posterior untempered{why}"
        award = best[0]
        if abs((award.attained - whole).z_score) > SURE:
            return "fails", f"{award.party} gets it, but worth {award.attained}, not {whole} nats"
        names.append(f"{award.party} gets all {whole} nats")
    return "holds", "; ".join(names)


def nobody_loses(settlement: Settlement) -> Found:
    """Check P4: no reward, by its target or as it was made, is worth less than the party's own release alone.

    A party whose value alone is not significantly above 0 has nothing to lose. A party that gets its own posterior
    loses nothing.
    """
    gains: dict[str, Estimate] = {}
    for party, award in settlement.awards.items():
        alone = settlement.value(party)
        if alone.z_score > ABOVE_ZERO and not award.falls_back and award.team != (party,):
            gains[party] = min(award.attained - alone, award.target - alone, key=lambda gain: gain.z_score)
    own = [party for party, award in settlement.awards.items() if award.falls_back]
    why = "its share would be less" if settlement.terms.own_is_whole else "no share would do"
    fallen = f"; {', '.join(own)}: {why}, so the reward is its own posterior, as agreed" if own else ""
    if not gains:
        return "holds", f"nobody has anything to lose{fallen}"
    worst = min(gains, key=lambda party: gains[party].z_score)
    award, alone = settlement.awards[worst], settlement.value(worst)
    numbers = (
        f"least sure is the gain of {worst}: target {award.target}, reward {award.attained}, alone {alone} nats{fallen}"
    )
    if gains[worst].z_score > UNSURE:
        return "holds", numbers
    bound = "none" if settlement.rational_rho is None else f"{settlement.rational_rho:.3g}"
    words = f"{numbers}; rho = {settlement.rho:.3g}, and the largest that leaves nobody worse off is {bound}"
    return ("cannot tell" if gains[worst].z_score >= -critical(len(gains)) else "fails"), words


def similar_in_order(settlement: Settlement) -> Found:
    """Check P5: of possible rewards of equal value, the mediator makes the one most like the team's posterior.

    Tempering has just one reward of each value, so the check is that more valuable rewards are closer. Among degraded
    rewards of equal value, the one with the least noise should be made.
    """
    if settlement.options["mechanism"] == "degraded":
        return _least_noise(settlement)
    if settlement.options["mechanism"] != "tempering":
        return "cannot tell", "with added noise, similarity depends on the noise drawn; tempering would be closer"
    doubtful, closest = [], []
    for team in settlement.teams:
        shared = [award for award in settlement.awards_of(team) if not award.falls_back]
        if not shared:
            continue
        awards = sorted(shared, key=lambda award: award.kappa)
        for low, high in itertools.pairwise(awards):
            if high.similarity.value < low.similarity.value and low.kappa < high.kappa:
                words = f"{high.party}'s reward ({high.similarity}) is not closer than {low.party}'s ({low.similarity})"
                if abs((high.similarity - low.similarity).z_score) > SURE:
                    return "fails", words
                doubtful.append(words)
        closest.append(f"from {awards[0].similarity.value:.2f} to {awards[-1].similarity.value:.2f} nats")
    if doubtful:
        return "cannot tell", "; ".join(doubtful)
    spans = ", ".join(closest) or "nobody gets a share"
    return "holds", f"tempering makes one reward of each value, and worthier ones are closer: {spans}"


def _least_noise(settlement: Settlement) -> Found:
    """Check that no reward was already down to its target with less noise than was added."""
    doubtful, least = [], []
    for party, award in settlement.awards.items():
        if not award.tau:
            continue
        less = [one.value for one in settlement.curve if one.recipient == party and 0 < one.tau < award.tau]
        enough = [value for value in less if value.value <= award.target.value]
        words = f"with less noise {party}'s reward was worth no more than its target"
        if any((award.target.value - value.value) > SURE * value.error for value in enough):
            return "fails", words
        doubtful += [words] if enough else []
        least.append(f"{party} {award.similarity.value:.2f}")
    if doubtful:
        return "cannot tell", f"{'; '.join(doubtful)}, as far as can be told"
    spans = f"; to the team's posterior, in nats: {', '.join(least)}" if least else ", as nothing was held back"
    return "holds", f"no reward has more noise than its target asks for{spans}"


def nothing_withheld(settlement: Settlement) -> Found:
    """Check P6: rewards are worth as much together as the agreed fairness allows."""
    errors = [award.attained.error for award in settlement.awards.values()]
    attained = Estimate(sum(award.attained.value for award in settlement.awards.values()), math.hypot(*errors))
    targets = sum(award.target.value for award in settlement.awards.values())
    words = (
        f"rewards are worth {attained} nats together; at rho = {settlement.rho:.3g} fairness allows {targets:.2f}, "
        f"with a smaller exponent up to {sum(settlement.targets_at(0.0).values()):.2f}"
    )
    if settlement.rational_rho is not None:
        least = sum(settlement.targets_at(settlement.rational_rho).values())
        largest = (
            "rho = 1" if settlement.terms.shares_surplus else "the largest that leaves nobody worse off than alone"
        )
        words += f", and with {largest} {least:.2f}"
    short = targets - attained.value
    if short <= len(settlement.awards) * settlement.options["tolerance"]:
        return "holds", words
    return ("cannot tell" if short <= SURE * attained.error else "fails"), words
