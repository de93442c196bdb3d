"""F1 to F4, the axioms of fairness (paper App. D.2), on the values as estimated and on the rewards as attained."""

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from equipoise.audit.verdict import SAME, Found
from equipoise.estimate import SURE, UNSURE, Estimate

if TYPE_CHECKING:
    from equipoise.settlement import Settlement


def useless_get_nothing(settlement: "Settlement") -> Found:
    """F1: who brings nothing to any coalition gets nothing."""
    suspects = []
    for party, award in settlement.awards.items():
        contributions = _contributions(settlement, party)
        if all(one.value == 0 for one in contributions) and award.target.value != 0:
            return "fails", f"{party} adds nothing to any coalition and gets {award.target} nats"
        if all(abs(one.in_errors) <= UNSURE for one in contributions):
            suspects.append(f"{party} may add nothing to any coalition, and gets {award.target} nats")
    if suspects:
        return "cannot tell", "; ".join(suspects)
    return "holds", "everybody adds to some coalition"


def equals_get_alike(settlement: "Settlement") -> Found:
    """F2: who brings the same to every coalition gets the same."""
    alike: list[str] = []
    doubtful: list[str] = []
    for first, second, differences in _pairs(settlement):
        if first > second or not _together(settlement, first, second):
            continue
        one, other = settlement.awards[first], settlement.awards[second]
        gap = abs(one.target.value - other.target.value)
        if all(difference.value == 0 for difference in differences) and gap > SAME * one.target.value:
            return "fails", f"{first} and {second} bring the same and get {one.target} and {other.target} nats"
        if all(abs(difference.in_errors) <= UNSURE for difference in differences):
            names = f"{first} and {second}"
            (alike if abs((one.target - other.target).in_errors) <= UNSURE else doubtful).append(names)
    if doubtful:
        return "cannot tell", f"{'; '.join(doubtful)} may bring the same to every coalition and get different rewards"
    if alike:
        return "holds", f"{'; '.join(alike)} cannot be told apart, neither by what they bring nor by what they get"
    return "holds", "no two parties bring the same to every coalition"


def better_get_more(settlement: "Settlement") -> Found:
    """F3: who brings more somewhere and less nowhere gets more."""
    if not settlement.exact:
        return "cannot tell", "not all coalitions were valued, and the others may say otherwise"
    checked, doubtful = 0, []
    for first, second, differences in _pairs(settlement):
        dominates = all(one.value >= 0 for one in differences) and any(one.value > 0 for one in differences)
        if not dominates or not _together(settlement, first, second):
            continue
        checked += 1
        one, other = settlement.awards[first], settlement.awards[second]
        words = f"{first} brings no less than {second} anywhere and gets {one.attained}, {second} {other.attained} nats"
        if one.target.value <= other.target.value:
            return "fails", f"{words} for targets of {one.target} and {other.target}"
        if one.attained.value <= other.attained.value:
            if abs((one.attained - other.attained).in_errors) > SURE:
                return "fails", words
            doubtful.append(words)
    if doubtful:
        return "cannot tell", "; ".join(doubtful)
    return "holds", f"{checked} orders follow from the values, and all are kept" if checked else "no order follows"


def more_than_before(settlement: "Settlement", reference: "Settlement | None") -> Found:
    """F4: who brings more than in the reference, all else equal, gets more than there."""
    if reference is None:
        return "cannot tell", "nothing to compare with: give a reference settlement"
    if set(reference.parties) != set(settlement.parties):
        return "cannot tell", "the reference is among other parties"
    shared = [members for members in settlement.values if members in reference.values]
    changed = {
        members
        for members in shared
        if abs((settlement.values[members] - reference.values[members]).in_errors) > UNSURE
    }
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


def _contributions(settlement: "Settlement", party: str) -> list[Estimate]:
    """Marginal contributions of a party to coalitions that were valued with and without it."""
    found = []
    for members, value in settlement.values.items():
        if party in members:
            without = members - {party}
            if not without or without in settlement.values:
                found.append(value - settlement.value(*without))
    return found


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
                    differences.append(value - other)
        yield first, second, differences


def _together(settlement: "Settlement", first: str, second: str) -> bool:
    """Only members of one team share one value."""
    return settlement.awards[first].team == settlement.awards[second].team
