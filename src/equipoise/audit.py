"""The paper's promises, checked on one settlement: V1, P1 to P6, F1 to F4 (paper §3, §4, App. D.2).

Decisions are made from estimates. A promise that is a statement about decisions (targets follow from values) is checked
exactly; one about true values is checked as far as their errors allow. Each finding holds, fails, or cannot be told at
this precision, and says so with numbers. Nothing is taken from the settlement's own conclusions that can be recomputed:
Shapley values and targets from coalition values, attained values from the very draws of the rewards.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from equipoise.estimate import Estimate
from equipoise.reward.targets import rationality_bound
from equipoise.valuation.shapley import exact_shapley
from equipoise.valuation.surprise import surprise

if TYPE_CHECKING:
    from equipoise.settlement import Award, Settlement

Verdict = Literal["holds", "fails", "cannot tell"]

UNSURE = 2.0  # standard errors, within which a comparison of estimates may be luck
SURE = 4.0  # beyond which it is not, however many comparisons an audit makes
SAME = 1e-9  # relative; for numbers that were computed from the same ones

PROMISES = {
    "V1": "No coalition's value is negative",
    "P1": "Nobody's privacy guarantee is weaker in any reward than it was released with",
    "P2": "In every team somebody receives the team's whole posterior",
    "P3": "Targets are the agreed shares, and rewards are worth their targets",
    "F1": "Who brings nothing to any coalition gets nothing",
    "F2": "Who brings the same to every coalition gets the same",
    "F3": "Who brings more somewhere and less nowhere gets more",
    "F4": "Who brings more than before, all else equal, gets more than before",
    "P4": "Nobody's target is below its value alone",
    "P5": "More valuable rewards are closer to the team's posterior",
    "P6": "No value that fairness allows is withheld",
}


@dataclass(frozen=True)
class Finding:
    """What was found about one promise."""

    code: str
    promise: str
    verdict: Verdict
    reason: str


@dataclass(frozen=True)
class Ranking:
    """How probable it is that the first party's Shapley value is truly above the second's."""

    higher: str
    lower: str
    probability: float


@dataclass(frozen=True)
class Audit:
    """All findings, and how sure the order of the parties is."""

    findings: tuple[Finding, ...]
    rankings: tuple[Ranking, ...]

    def __getitem__(self, code: str) -> Finding:
        return next(finding for finding in self.findings if finding.code == code)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    @property
    def failures(self) -> tuple[Finding, ...]:
        """Promises that are broken."""
        return tuple(finding for finding in self.findings if finding.verdict == "fails")

    def to_json(self) -> dict[str, Any]:
        """As plain strings and numbers."""
        return {"findings": [asdict(one) for one in self.findings], "rankings": [asdict(one) for one in self.rankings]}


_Found = tuple[Verdict, str]


def audit(settlement: "Settlement", reference: "Settlement | None" = None) -> Audit:
    """Check a settlement; F4 compares with `reference`, another settlement of the same parties."""
    checks: dict[str, Callable[[], _Found]] = {
        "V1": lambda: _values_not_negative(settlement),
        "P1": lambda: _guarantees_kept(settlement),
        "P2": lambda: _whole_posterior_handed_out(settlement),
        "P3": lambda: _shares_as_agreed(settlement),
        "F1": lambda: _useless_get_nothing(settlement),
        "F2": lambda: _equals_get_the_same(settlement),
        "F3": lambda: _better_get_more(settlement),
        "F4": lambda: _more_than_before(settlement, reference),
        "P4": lambda: _nobody_loses(settlement),
        "P5": lambda: _similar_in_order(settlement),
        "P6": lambda: _nothing_withheld(settlement),
    }
    findings = [Finding(code, PROMISES[code], *check()) for code, check in checks.items()]
    return Audit(tuple(findings), _rankings(settlement))


def _rankings(settlement: "Settlement") -> tuple[Ranking, ...]:
    order = sorted(settlement.parties, key=lambda party: settlement.shapley[party].value, reverse=True)
    return tuple(
        Ranking(higher, lower, settlement.probability_above(higher, lower))
        for higher, lower in itertools.pairwise(order)
    )


def _values_not_negative(settlement: "Settlement") -> _Found:
    lowest = min(settlement.coalitions, key=lambda one: _above_nothing(one.value))
    who = ", ".join(lowest.members)
    numbers = f"nearest to 0, of {len(settlement.coalitions)}, is {{{who}}} with {lowest.value} nats"
    if lowest.value.value >= 0:
        return "holds", f"{numbers}"
    if _above_nothing(lowest.value) >= -SURE:
        return "cannot tell", f"{numbers}, which may be 0"
    return "fails", f"{numbers}; a divergence cannot be negative, so its estimate is wrong"


def _guarantees_kept(settlement: "Settlement") -> _Found:
    strengthened = []
    for award in settlement.awards.values():
        if not 0 <= award.kappa <= 1 or award.tau < 0:
            return "fails", f"the reward of {award.party} has kappa = {award.kappa:g} and tau = {award.tau:g}"
        if set(award.team) != set(award.epsilons) or not set(award.team) <= set(settlement.parties):
            return "fails", f"the reward of {award.party} does not state the guarantee of everybody it is made from"
        for party, epsilon in award.epsilons.items():
            released = settlement.contributions[party].epsilon
            promised = released / (1 + award.tau * released)
            if epsilon > released * (1 + SAME) or epsilon < promised * (1 - SAME):
                return "fails", (
                    f"the reward of {award.party} states epsilon = {epsilon:g} for {party}, which released at "
                    f"{released:g} and has {promised:g} in it"
                )
            if epsilon < released:
                strengthened.append(epsilon / released)
        if award.reward is not None and (problem := _made_otherwise(settlement, award)):
            return "fails", problem
    kept = "every reward is computed from the releases alone, so each guarantee stands as released"
    if strengthened:
        return "holds", f"{kept}; added noise strengthens them to {min(strengthened):.0%} to {max(strengthened):.0%}"
    return "holds", kept


def _made_otherwise(settlement: "Settlement", award: "Award") -> str:
    """How the draws of a reward differ from what the award says they are."""
    assert award.reward is not None
    scenario = award.reward.posterior.scenario
    stated = {party: award.tau for party in award.team if award.tau}
    if award.reward.agreement.identity != settlement.agreement:
        return f"the reward of {award.party} belongs to another agreement"
    if set(scenario.coalition or ()) != set(award.team):
        return f"the reward of {award.party} was made from another coalition than its team"
    if scenario.kappa != award.kappa or dict(scenario.tau) != stated:
        return f"the reward of {award.party} was not made with kappa = {award.kappa:g} and tau = {award.tau:g}"
    return ""


def _whole_posterior_handed_out(settlement: "Settlement") -> _Found:
    names = []
    for team in settlement.teams:
        whole = settlement.value(*team)
        best = [award for award in _awards(settlement, team) if award.kappa == 1 and award.tau == 0]
        if not best:
            return "fails", f"nobody of {{{', '.join(team)}}} gets its posterior untempered"
        award = best[0]
        if _apart(award.attained, whole) > SURE:
            return "fails", f"{award.party} gets it, but worth {award.attained}, not {whole} nats"
        names.append(f"{award.party} gets all {whole} nats")
    return "holds", "; ".join(names)


def _shares_as_agreed(settlement: "Settlement") -> _Found:
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
        if _apart(again, award.attained) > SURE if pooled else not _same(again.value, award.attained.value):
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
    try:
        shapley = exact_shapley([one.value for one in values], [one.error for one in values])
    except ValueError as error:
        return str(error)
    for i, party in enumerate(parties):
        stated = settlement.shapley[party].value
        if not _same(stated, float(shapley.values[i])):
            return f"the Shapley value of {party} is stated as {stated:.4f}, and is {shapley.values[i]:.4f}"
    return ""


def _wrong_exponent(settlement: "Settlement") -> str:
    """What is wrong with the exponent: it is the one asked for, or the largest that leaves nobody worse off."""
    asked = settlement.options["rho"]
    if asked != "max":
        return "" if asked == settlement.rho else f"rho is stated as {settlement.rho:g}, and {asked:g} was asked for"
    bounds = []
    for team in settlement.teams:
        whole = settlement.value(*team)
        alone = [settlement.value(party) for party in team]
        bounds.append(
            rationality_bound(
                np.array([settlement.shapley[party].value for party in team]),
                np.array([one.value for one in alone]),
                whole.value,
                slack=UNSURE * np.hypot([one.error for one in alone], whole.error),
            )
        )
    if None in bounds:
        return "no exponent leaves everybody as well off as alone, and one was chosen all the same"
    bound = min(one for one in bounds if one is not None)
    if not _same(bound, settlement.rho):
        return f"rho is stated as {settlement.rho:.4g}, and the largest that leaves nobody worse off is {bound:.4g}"
    return ""


def _wrong_targets(settlement: "Settlement") -> str:
    for team in settlement.teams:
        whole, best = settlement.value(*team).value, max(settlement.shapley[party].value for party in team)
        for award in _awards(settlement, team):
            if award.alone != settlement.value(award.party):
                return (
                    f"{award.party} is stated to be worth {award.alone} alone, and is {settlement.value(award.party)}"
                )
            share = max(settlement.shapley[award.party].value, 0.0) / best if best > 0 else 1.0
            target = whole * share**settlement.rho
            if not _same(award.target.value, target):
                return f"the target of {award.party} is stated as {award.target.value:.4f}, and is {target:.4f}"
    return ""


def _contributions(settlement: "Settlement", party: str) -> list[Estimate]:
    """Marginal contributions of a party to coalitions that were valued with and without it."""
    found = []
    for members, value in settlement.values.items():
        if party in members:
            without = members - {party}
            if not without or without in settlement.values:
                other = settlement.value(*without)
                found.append(Estimate(value.value - other.value, math.hypot(value.error, other.error)))
    return found


def _useless_get_nothing(settlement: "Settlement") -> _Found:
    suspects = []
    for party, award in settlement.awards.items():
        contributions = _contributions(settlement, party)
        if all(one.value == 0 for one in contributions) and award.target.value != 0:
            return "fails", f"{party} adds nothing to any coalition and gets {award.target} nats"
        if all(abs(one.value) <= UNSURE * one.error for one in contributions):
            suspects.append(f"{party} may add nothing to any coalition, and gets {award.target} nats")
    if suspects:
        return "cannot tell", "; ".join(suspects)
    return "holds", "everybody adds to some coalition"


def _pairs(settlement: "Settlement") -> Iterator[tuple[str, str, list[Estimate]]]:
    """Ordered pairs with the differences v(C + first) − v(C + second), over coalitions valued with either.

    Of a sampled game only the largest and the smallest coalitions, which were all valued.
    """
    values = settlement.values
    if not settlement.exact:
        ends = (1, len(settlement.parties) - 1)
        values = {members: value for members, value in values.items() if len(members) in ends}
    for first, second in itertools.permutations(settlement.parties, 2):
        differences = []
        for members, value in values.items():
            if first in members and second not in members:
                other = values.get((members - {first}) | {second})
                if other is not None:
                    differences.append(Estimate(value.value - other.value, math.hypot(value.error, other.error)))
        yield first, second, differences


def _together(settlement: "Settlement", first: str, second: str) -> bool:
    """Only members of one team share one value."""
    return settlement.awards[first].team == settlement.awards[second].team


def _equals_get_the_same(settlement: "Settlement") -> _Found:
    alike: list[str] = []
    doubtful: list[str] = []
    for first, second, differences in _pairs(settlement):
        if first > second or not _together(settlement, first, second):
            continue
        one, other = settlement.awards[first], settlement.awards[second]
        gap = abs(one.target.value - other.target.value)
        if all(difference.value == 0 for difference in differences) and gap > SAME * one.target.value:
            return "fails", f"{first} and {second} bring the same and get {one.target} and {other.target} nats"
        if all(abs(difference.value) <= UNSURE * difference.error for difference in differences):
            names = f"{first} and {second}"
            (alike if _apart(one.target, other.target) <= UNSURE else doubtful).append(names)
    if doubtful:
        return "cannot tell", f"{'; '.join(doubtful)} may bring the same to every coalition and get different rewards"
    if alike:
        return "holds", f"{'; '.join(alike)} cannot be told apart, neither by what they bring nor by what they get"
    return "holds", "no two parties bring the same to every coalition"


def _better_get_more(settlement: "Settlement") -> _Found:
    checked, doubtful = 0, []
    for first, second, differences in _pairs(settlement):
        dominates = all(one.value >= 0 for one in differences) and any(one.value > 0 for one in differences)
        if not dominates or not _together(settlement, first, second):
            continue
        checked += 1
        one, other = settlement.awards[first], settlement.awards[second]
        words = f"{first} brings no less than {second} anywhere and gets {one.attained}, {second} {other.attained} nats"
        if not settlement.exact:
            continue  # what was not valued may say otherwise
        if one.target.value <= other.target.value:
            return "fails", f"{words} for targets of {one.target} and {other.target}"
        if one.attained.value <= other.attained.value:
            if _apart(one.attained, other.attained) > SURE:
                return "fails", words
            doubtful.append(words)
    if doubtful:
        return "cannot tell", "; ".join(doubtful)
    if not settlement.exact:
        return "cannot tell", "not all coalitions were valued"
    return "holds", f"{checked} orders follow from the values, and all are kept" if checked else "no order follows"


def _more_than_before(settlement: "Settlement", reference: "Settlement | None") -> _Found:
    if reference is None:
        return "cannot tell", "nothing to compare with: give a reference settlement"
    if set(reference.parties) != set(settlement.parties):
        return "cannot tell", "the reference is among other parties"
    shared = [members for members in settlement.values if members in reference.values]
    changed = {members for members in shared if _apart(settlement.values[members], reference.values[members]) > UNSURE}
    kept = []
    for party in settlement.parties:
        if not changed or any(party not in members for members in changed):
            continue
        gains = [settlement.values[one].value - reference.values[one].value for one in changed]
        before, after = reference.awards[party], settlement.awards[party]
        if min(gains) < 0 or settlement.value(*after.team).value <= before.target.value:
            continue
        words = f"{party} brings more than before and gets {after.target} instead of {before.target} nats"
        if after.target.value <= before.target.value:
            return "fails", words
        kept.append(words)
    if kept:
        return "holds", "; ".join(kept)
    return "cannot tell", "from the reference to here nobody's values rose while everything else stayed the same"


def _nobody_loses(settlement: "Settlement") -> _Found:
    gains = {}
    for party, award in settlement.awards.items():
        alone = settlement.value(party)
        gains[party] = Estimate(award.target.value - alone.value, math.hypot(award.target.error, alone.error))
    worst = min(gains, key=lambda party: min(0.0, _above_nothing(gains[party])) or gains[party].value)
    gain, error = gains[worst].value, gains[worst].error
    numbers = f"least gained by {worst}: target {settlement.awards[worst].target}, alone {settlement.value(worst)} nats"
    if gain >= -SAME:
        return "holds", numbers
    bound = "none" if settlement.rational_rho is None else f"{settlement.rational_rho:.3g}"
    words = f"{numbers}; rho = {settlement.rho:.3g}, and the largest that leaves nobody worse off is {bound}"
    return ("cannot tell" if gain >= -UNSURE * error else "fails"), words


def _similar_in_order(settlement: "Settlement") -> _Found:
    if settlement.options["mechanism"] != "tempering":
        return "cannot tell", "with added noise, similarity depends on the noise drawn, and is not chosen"
    doubtful, closest = [], []
    for team in settlement.teams:
        awards = sorted(_awards(settlement, team), key=lambda award: award.kappa)
        for low, high in itertools.pairwise(awards):
            if high.similarity.value < low.similarity.value and low.kappa < high.kappa:
                words = f"{high.party}'s reward ({high.similarity}) is not closer than {low.party}'s ({low.similarity})"
                if _apart(high.similarity, low.similarity) > SURE:
                    return "fails", words
                doubtful.append(words)
        closest.append(f"from {awards[0].similarity.value:.2f} to {awards[-1].similarity.value:.2f} nats")
    if doubtful:
        return "cannot tell", "; ".join(doubtful)
    return "holds", f"similarity grows with what is earned, {', '.join(closest)}"


def _nothing_withheld(settlement: "Settlement") -> _Found:
    attained = _sum(award.attained for award in settlement.awards.values())
    targets = sum(award.target.value for award in settlement.awards.values())
    alone = sum(award.alone.value for award in settlement.awards.values())
    most = sum(settlement.value(*award.team).value for award in settlement.awards.values())
    words = (
        f"rewards are worth {attained} nats together, targets {targets:.2f}, everybody alone {alone:.2f}, and the most "
        f"that could be handed out {most:.2f}"
    )
    short = targets - attained.value
    if short <= len(settlement.awards) * settlement.options["tolerance"]:
        return "holds", words
    return ("cannot tell" if short <= SURE * attained.error else "fails"), words


def _awards(settlement: "Settlement", team: Sequence[str]) -> list["Award"]:
    return [settlement.awards[party] for party in team]


def _sum(estimates: Iterator[Estimate]) -> Estimate:
    every = list(estimates)
    errors = [one.error for one in every]
    return Estimate(sum(one.value for one in every), float(np.sqrt(np.sum(np.square(errors)))))


def _above_nothing(estimate: Estimate) -> float:
    """How many standard errors an estimate is above 0."""
    return estimate.value / estimate.error if estimate.error > 0 else math.copysign(math.inf, estimate.value + SAME)


def _same(first: float, second: float) -> bool:
    return math.isclose(first, second, rel_tol=SAME, abs_tol=SAME)


def _apart(first: Estimate, second: Estimate) -> float:
    """Distance in standard errors."""
    error = math.hypot(first.error, second.error)
    gap = abs(first.value - second.value)
    return gap / error if error > 0 else (math.inf if gap > SAME else 0.0)
