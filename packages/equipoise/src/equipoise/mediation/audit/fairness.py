"""F1 to F4, the axioms of fairness (paper App. D.2), on the values as estimated and on the rewards as attained.

Each axiom is about many coalitions at once. In a party's contributions v(C + i) − v(C), and in the differences of two
parties' contributions, every coalition's value occurs only once. Their errors are therefore independent, and one test
covers all of them (`AllZero`): with 12 parties, all 2,048 contributions of a useless party may be 0 although a hundred
are two standard errors away.
"""

import itertools
from collections.abc import Iterator

from equipoise.estimate import SURE, UNSURE, Estimate
from equipoise.mediation.audit.verdict import SAME, AllZero, Found, critical
from equipoise.mediation.findings import NOTHING_TO_COMPARE
from equipoise.mediation.settings import fits_enumeration
from equipoise.mediation.settlement import Settlement

# Pairs to name in a finding at most.
MOST_NAMED = 100


def useless_get_nothing(settlement: Settlement) -> Found:
    """Check F1: a party that adds nothing to any coalition gets nothing."""
    suspects, settled = [], []
    finest = 0.0
    for party, award in settlement.awards.items():
        brought = AllZero.of(contributions(settlement, party))
        finest = max(finest, brought.detectable)
        if not brought.possible:
            continue
        if award.target.value <= 0 or award.target.z_score <= UNSURE:
            settled.append(party)
        elif brought.exactly:
            return "fails", f"{party} adds nothing to any coalition and gets {award.target} nats"
        else:
            suspects.append(f"{party} may add nothing to any coalition, and gets {award.target} nats")
    power = f"a contribution of {finest:.2g} nats to every coalition would be seen in 9 of 10 rounds"
    if suspects:
        return "cannot tell", f"{'; '.join(suspects)} ({power})"
    if settled:
        return "holds", f"{', '.join(settled)} may add nothing to any coalition, and gets nothing ({power})"
    return "holds", f"everybody adds to some coalition ({power})"


def equals_get_alike(settlement: Settlement) -> Found:
    """Check F2: parties that add the same to every coalition get the same."""
    alike: list[str] = []
    doubtful: list[str] = []
    finest = 0.0
    for first, second, differences in pairs(settlement):
        if first > second or not _together(settlement, first, second) or not differences:
            continue
        one, other = settlement.awards[first], settlement.awards[second]
        difference = AllZero.of(differences)
        finest = max(finest, difference.detectable)
        if not difference.possible:
            continue
        gap = one.target - other.target
        if difference.exactly and abs(gap.value) > SAME * one.target.value:
            return "fails", f"{first} and {second} bring the same and get {one.target} and {other.target} nats"
        (alike if abs(gap.z_score) <= UNSURE or gap.value == 0 else doubtful).append(f"{first} and {second}")
    alike, doubtful = _named(alike), _named(doubtful)
    power = f"a difference of {finest:.2g} nats in every coalition would be seen in 9 of 10 rounds"
    if doubtful:
        which = "; ".join(doubtful)
        return "cannot tell", f"{which} may bring the same to every coalition and get different rewards ({power})"
    if alike:
        which = "; ".join(alike)
        return "holds", f"{which} cannot be told apart, neither by what they bring nor by what they get ({power})"
    return "holds", f"no two parties bring the same to every coalition ({power})"


def better_get_more(settlement: Settlement) -> Found:
    """Check F3: a party that adds more to some coalition, and less to none, gets more."""
    if not settlement.exact:
        return "cannot tell", "not all coalitions were valued, and the others may say otherwise"
    checked, doubtful = 0, []
    for first, second, differences in pairs(settlement):
        dominates = all(one.value >= 0 for one in differences) and any(one.value > 0 for one in differences)
        if not dominates or not _together(settlement, first, second) or _shares_nothing(settlement, second):
            continue
        checked += 1
        one, other = settlement.awards[first], settlement.awards[second]
        words = f"{first} brings no less than {second} anywhere and gets {one.attained}, {second} {other.attained} nats"
        if one.target.value <= other.target.value:
            if AllZero.of(differences).possible:
                doubtful.append(words)
                continue
            return "fails", f"{words} for targets of {one.target} and {other.target}"
        if one.attained.value <= other.attained.value:
            if abs((one.attained - other.attained).z_score) > SURE:
                return "fails", words
            doubtful.append(words)
    if doubtful:
        return "cannot tell", "; ".join(doubtful)
    return "holds", f"{checked} orders follow from the values, and all are kept" if checked else "no order follows"


def more_than_before(settlement: Settlement, reference: Settlement | None) -> Found:
    """Check F4: a party that adds more than in the reference settlement, all else equal, gets more than there."""
    if reference is None:
        return "cannot tell", NOTHING_TO_COMPARE
    if set(reference.parties) != set(settlement.parties):
        return "cannot tell", "the reference is among other parties"
    changes = {
        members: value - reference.values[members]
        for members, value in settlement.values.items()
        if members in reference.values
    }
    kept = []
    for party in settlement.parties:
        own = [change for members, change in changes.items() if party in members]
        others = [change for members, change in changes.items() if party not in members]
        if not own or (others and not AllZero.of(others).possible) or not _rose(own):
            continue
        before, after = reference.awards[party], settlement.awards[party]
        if settlement.value(*after.team).value <= before.target.value:
            # The party already got everything that the team has now.
            continue
        words = f"{party} brings more than before and gets {after.target} instead of {before.target} nats"
        if after.target.value <= before.target.value:
            sure = (before.target - after.target).z_score > UNSURE
            return ("fails" if sure else "cannot tell"), words
        kept.append(words)
    if kept:
        return "holds", "; ".join(kept)
    return "cannot tell", "from the reference to here nobody's values rose while everything else stayed the same"


def _named(pairs: list[str]) -> list[str]:
    """Limit a list of pairs to the first `MOST_NAMED`, and say how many more there are."""
    more = len(pairs) - MOST_NAMED
    return [*pairs[:MOST_NAMED], f"{more:,} pairs more"] if more > 0 else pairs


def _rose(changes: list[Estimate]) -> bool:
    """Return True if values rose and no single one significantly fell."""
    found = AllZero.of(changes)
    lowest = min(change.z_score for change in changes)
    return not found.possible and found.mean.value > 0 and lowest >= -critical(len(changes))


def contributions(settlement: Settlement, party: str) -> list[Estimate]:
    """Return marginal contributions of a party to coalitions that were valued with and without it.

    If there are too many parties to value all coalitions, these are the contributions to the empty coalition and to all
    other parties: a sample has hardly any others.
    """
    if not fits_enumeration(len(settlement.parties)):
        everybody = frozenset(settlement.parties)
        return [settlement.value(party), settlement.values[everybody] - settlement.values[everybody - {party}]]
    found = []
    for members, value in settlement.values.items():
        if party in members:
            without = members - {party}
            if not without or without in settlement.values:
                found.append(value - settlement.value(*without))
    return found


def pairs(settlement: Settlement) -> Iterator[tuple[str, str, list[Estimate]]]:
    """Yield ordered pairs with the differences v(C + first) − v(C + second), over coalitions valued with either.

    In a sampled game, C is empty or has all other parties, because those coalitions were all valued.
    """
    values = settlement.values
    if not settlement.exact:
        everybody = frozenset(settlement.parties)
        single = {party: values[frozenset((party,))] for party in everybody}
        missing = {party: values[everybody - {party}] for party in everybody}
        for first, second in itertools.permutations(settlement.parties, 2):
            yield first, second, [single[first] - single[second], missing[second] - missing[first]]
        return
    for first, second in itertools.permutations(settlement.parties, 2):
        differences = []
        for members, value in values.items():
            if first in members and second not in members:
                other = values.get((members - {first}) | {second})
                if other is not None:
                    differences.append(value - other)
        yield first, second, differences


def _shares_nothing(settlement: Settlement, party: str) -> bool:
    """Return True if a party has no comparable share: it brings nothing, or falls back to its own posterior."""
    return party in (settlement.nothing or ()) or settlement.awards[party].falls_back


def _together(settlement: Settlement, first: str, second: str) -> bool:
    """Return True if two parties are in one team, and so share its value."""
    return settlement.awards[first].team == settlement.awards[second].team
