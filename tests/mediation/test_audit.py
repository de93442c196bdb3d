"""The audit holds on an honest settlement and fails on planted violations, each under the promise it breaks."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import equipoise as eq
import rounds
from equipoise.estimate import Estimate
from equipoise.mediation.audit import PROMISES, audit
from equipoise.mediation.settlement import CoalitionValue
from equipoise.reward.targets import targets_from_shapley
from equipoise.valuation.shapley import ShapleyValues

pytestmark = [pytest.mark.engine, pytest.mark.group("rounds")]


def with_award(settlement: eq.Settlement, party: str, **changes: Any) -> eq.Settlement:
    award = replace(settlement.awards[party], **changes)
    return replace(settlement, awards=settlement.awards | {party: award})


def with_values(settlement: eq.Settlement, change: dict[tuple[str, ...], Estimate]) -> eq.Settlement:
    coalitions = tuple(
        replace(one, value=change[one.members]) if one.members in change else one for one in settlement.coalitions
    )
    return replace(settlement, coalitions=coalitions)


def test_an_honest_settlement_keeps_every_promise(settled: eq.Settlement) -> None:
    found = {finding.code: finding.verdict for finding in settled.audit}
    assert list(found) == list(PROMISES)
    assert found.pop("F4") == "cannot tell"  # nothing to compare with
    assert set(found.values()) == {"holds"}, settled.audit
    assert [(one.higher, one.lower) for one in settled.audit.rankings] == [("north", "south"), ("south", "west")]
    assert all(one.probability > 0.9 for one in settled.audit.rankings)


def test_swapped_rewards(settled: eq.Settlement) -> None:
    """South's file under west's name and the other way round, or south's draws relabelled."""
    south, west = settled.awards["south"].reward, settled.awards["west"].reward
    assert south is not None
    assert west is not None
    swapped = with_award(with_award(settled, "south", reward=west), "west", reward=south)
    assert "holds another reward" in audit(swapped)["P3"].reason
    relabelled = replace(west, party="south")
    forged = with_award(settled, "south", reward=relabelled, digest=relabelled.digest)
    assert audit(forged)["P3"].verdict != "holds"
    assert "are worth" in audit(forged)["P3"].reason


def test_swapped_awards(settled: eq.Settlement) -> None:
    """All that belongs to a reward is swapped, as if the wrong party had been given it."""
    north, west = settled.awards["north"], settled.awards["west"]
    swapped = {"north": replace(west, party="north", alone=north.alone), "west": replace(north, party="west")}
    forged = replace(settled, awards=settled.awards | swapped)
    assert audit(forged)["P3"].verdict == "fails"
    assert audit(forged)["F3"].verdict == "fails"


def test_a_target_edited_by_hand(settled: eq.Settlement) -> None:
    award = settled.awards["west"]
    kinder = with_award(settled, "west", target=Estimate(award.target.value + 0.2, award.target.error))
    assert audit(kinder)["P3"].verdict == "fails"
    assert "is stated as" in audit(kinder)["P3"].reason


def test_an_exponent_too_large(settled: eq.Settlement) -> None:
    """Targets follow it consistently: somebody would do better alone, and the audit says what would be better."""
    whole = settled.value(*settled.parties).value
    best = max(one.value for one in settled.shapley.values())
    harsh = replace(settled, rho=4.0)
    for party, phi in settled.shapley.items():
        target = settled.awards[party].target
        harsh = with_award(harsh, party, target=Estimate(whole * (phi.value / best) ** 4.0, target.error))
    assert audit(harsh)["P4"].verdict == "fails"
    assert "the largest that leaves nobody worse off" in audit(harsh)["P4"].reason
    # Nor does it go unnoticed if only the stated exponent is changed.
    assert audit(replace(settled, rho=0.5 * settled.rho))["P3"].verdict == "fails"


def test_targets_below_what_parties_have_alone(settled: eq.Settlement) -> None:
    award = settled.awards["west"]
    poorer = with_award(settled, "west", target=Estimate(award.alone.value - 1, 0.02))
    assert audit(poorer)["P4"].verdict == "fails"
    doubtful = with_award(settled, "west", target=Estimate(award.alone.value - 0.01, 0.02))
    assert audit(doubtful)["P4"].verdict == "cannot tell"


def test_negative_values(settled: eq.Settlement) -> None:
    assert audit(with_values(settled, {("west",): Estimate(-0.01, 0.02)}))["V1"].verdict == "cannot tell"
    assert audit(with_values(settled, {("west",): Estimate(-1.0, 0.02)}))["V1"].verdict == "fails"


def test_a_guarantee_that_was_weakened(settled: eq.Settlement) -> None:
    epsilons = settled.awards["north"].epsilons
    assert audit(with_award(settled, "north", epsilons=epsilons | {"west": 5.0}))["P1"].verdict == "fails"
    assert audit(with_award(settled, "north", epsilons={}))["P1"].verdict == "fails"
    assert audit(with_award(settled, "north", kappa=2.0))["P1"].verdict == "fails"


def test_a_guarantee_stated_as_stronger_than_released(settled: eq.Settlement) -> None:
    """Only as older versions computed it, and then with words that it is not to be relied on."""
    epsilons = settled.awards["west"].epsilons
    halved = {party: epsilon / 2 for party, epsilon in epsilons.items()}
    assert "which released at" in audit(with_award(settled, "west", epsilons=halved))["P1"].reason
    old = {party: epsilon / (1 + 0.3 * epsilon) for party, epsilon in epsilons.items()}
    stated = with_award(settled, "west", kappa=1.0, tau=0.3, epsilons=old, reward=None)
    assert audit(stated)["P1"].verdict == "fails"
    found = audit(replace(stated, nothing=None))["P1"]
    assert found.verdict == "holds"
    assert "rely on those that were released" in found.reason


def test_nobody_with_the_whole_posterior(settled: eq.Settlement) -> None:
    assert audit(with_award(settled, "north", kappa=0.9))["P2"].verdict == "fails"
    less = Estimate(settled.awards["north"].attained.value - 1, 0.02)
    assert audit(with_award(settled, "north", attained=less))["P2"].verdict == "fails"


def test_rewards_worth_less_than_their_targets(settled: eq.Settlement) -> None:
    award = settled.awards["south"]
    short = with_award(settled, "south", attained=Estimate(award.attained.value - 3.0, 0.02), reward=None)
    assert audit(short)["P3"].verdict == "fails"
    assert audit(short)["P6"].verdict == "fails"


def test_rewards_that_are_not_there_cannot_be_checked(settled: eq.Settlement) -> None:
    assert audit(with_award(settled, "south", reward=None))["P3"].verdict == "cannot tell"


def test_a_less_valuable_reward_that_is_closer(settled: eq.Settlement) -> None:
    far = with_award(settled, "north", similarity=Estimate(-9.0, 0.1))
    assert audit(far)["P5"].verdict == "fails"


def test_equals_and_useless_parties(settled: eq.Settlement) -> None:
    values = {frozenset(one.members): one.value for one in settled.coalitions}
    # West brings what south brings, to every coalition.
    alike = {
        ("west",): values[frozenset(["south"])],
        ("north", "west"): values[frozenset(["north", "south"])],
    }
    assert audit(with_values(settled, alike))["F2"].verdict == "fails"
    # West brings nothing.
    nothing = {
        ("west",): Estimate(0.0, 0.01),
        ("north", "west"): values[frozenset(["north"])],
        ("south", "west"): values[frozenset(["south"])],
        ("north", "south", "west"): values[frozenset(["north", "south"])],
    }
    assert audit(with_values(settled, nothing))["F1"].verdict == "fails"


def test_bringing_more_than_before(settled: eq.Settlement) -> None:
    """F4: with west's values lower before and all others the same, west must get more now."""
    lower = {
        one.members: Estimate(one.value.value - 0.3, one.value.error)
        for one in settled.coalitions
        if "west" in one.members
    }
    target = settled.awards["west"].target
    before = with_award(with_values(settled, lower), "west", target=Estimate(target.value - 0.2, target.error))
    assert audit(settled, before)["F4"].verdict == "holds"
    generous = with_award(before, "west", target=Estimate(target.value + 0.3, target.error))
    assert audit(settled, generous)["F4"].verdict == "fails"
    hardly = with_award(before, "west", target=Estimate(target.value + 0.01, target.error))
    assert audit(settled, hardly)["F4"].verdict == "cannot tell"
    assert audit(settled, settled)["F4"].verdict == "cannot tell"


def test_a_missing_coalition(settled: eq.Settlement) -> None:
    fewer: tuple[CoalitionValue, ...] = tuple(one for one in settled.coalitions if len(one.members) != 2)
    with pytest.raises(eq.MediationError, match="was not valued"):
        replace(settled, coalitions=fewer).value("north", "south")
    assert audit(replace(settled, coalitions=fewer))["P3"].verdict == "fails"


def test_conclusions_are_not_taken_as_stated(settled: eq.Settlement) -> None:
    """A value alone lowered by hand, another exponent than asked for, a reward of other making."""
    award = settled.awards["west"]
    lowered = with_award(settled, "west", alone=Estimate(award.alone.value - 1, award.alone.error))
    assert audit(lowered)["P3"].verdict == "fails"
    assert audit(lowered)["P4"].verdict == settled.audit["P4"].verdict
    other = replace(settled, options=settled.options | {"rho": 0.01})
    assert "was asked for" in audit(other)["P3"].reason
    assert "was not made with kappa" in audit(with_award(settled, "west", kappa=0.9 * award.kappa))["P1"].reason
    assert "another agreement" in audit(replace(settled, agreement=rounds.agreement("gaussian")))["P1"].reason


def test_the_worst_party_is_judged_by_its_own_error(settled: eq.Settlement) -> None:
    """A sure small loss is not hidden by a large uncertain one."""
    south, west = settled.value("south"), settled.value("west")
    both = with_award(settled, "south", target=Estimate(south.value - 0.2, 0.001))
    both = with_award(both, "west", target=Estimate(west.value - 0.3, 5.0))
    values: dict[tuple[str, ...], Estimate] = {("south",): Estimate(south.value, 0.001), ("west",): west}
    assert audit(with_values(both, values))["P4"].verdict == "fails"
    negative = with_values(settled, {("west",): Estimate(-3.0, 1.0), ("south",): Estimate(-0.41, 0.1)})
    assert audit(negative)["V1"].verdict == "fails"


def test_useless_parties_are_no_order(settled: eq.Settlement) -> None:
    """Two that bring nothing get nothing, whichever of them seems to bring more by luck."""
    nothing = with_award(with_award(settled, "south", target=Estimate(0.0, 0.0)), "west", target=Estimate(0.0, 0.0))
    assert audit(nothing)["F3"].verdict == "fails"  # they bring much
    assert "brings no less" not in audit(replace(nothing, nothing=("south", "west")))["F3"].reason


def test_errors_are_not_taken_as_stated(settled: eq.Settlement) -> None:
    """Large ones would make every verdict a doubtful one."""
    award = settled.awards["west"]
    for changes in (
        {"target": replace(award.target, error=50.0)},
        {"attained": replace(award.attained, error=50.0)},
    ):
        assert audit(with_award(settled, "west", **changes))["P3"].verdict == "fails"
    north = settled.awards["north"]
    assert audit(with_award(settled, "north", attained=replace(north.attained, error=0.5)))["P3"].verdict == "fails"
    shapley = settled.shapley | {"west": replace(settled.shapley["west"], error=9.0)}
    assert audit(replace(settled, shapley=shapley))["P3"].verdict == "fails"
    assert audit(replace(settled, rational_rho=0.123))["P3"].verdict == "fails"


def test_a_settlement_cannot_pose_as_another_kind(settled: eq.Settlement) -> None:
    """As sampled, where all coalitions are there; as of an earlier version, with other Shapley values."""
    shapley = settled.shapley | {"west": Estimate(9.0, 0.1)}
    assert audit(replace(settled, shapley=shapley, nothing=None))["P3"].verdict == "fails"
    # With targets, exponent and all that follow from the forged values as from a sample.
    parties, teams = settled.parties, settled.teams
    made_up = ShapleyValues(
        np.array([shapley[party].value for party in parties]),
        np.array(settled.shapley_covariance),
        settled.value(*parties),
        np.zeros(3),
    )
    alone = [settled.value(party) for party in parties]
    targets = targets_from_shapley(parties, teams, made_up, alone, [settled.value(*parties)], settled.terms)
    forged = replace(settled, shapley=shapley, exact=False, rho=targets.rho, rational_rho=targets.rational_rho)
    for place, party in enumerate(parties):
        forged = with_award(forged, party, target=targets[place], attained=targets[place], reward=None)
    assert "the Shapley value of west is stated as 9.00" in audit(forged)["P3"].reason
    document = settled.to_json()
    with pytest.raises(eq.MediationError, match="does not say who counts"):
        eq.Settlement.parse({**document, "nothing": None})
    with pytest.raises(eq.MediationError, match="just once"):
        eq.Settlement.parse({**document, "teams": [["north", "south"]]})
