"""The part of a settlement that one party may know: the only source of its edition of the report.

A party may know the agreement, the names of those that submitted, its own contribution and award, and the value of its
team. It may not know what the others sent, contribute or get, nor the posterior of its team, unless that is its own
reward. Numbers that would give these away are left out as well:

* ρ as chosen, where the agreement does not fix it: own target, own Shapley value, the team's value and ρ give the
  largest Shapley value;
* seed and noise secret: the secret would let the party take added noise away again;
* points of the curve r(κ) that were chosen for others' targets: the curve is drawn through points that are the same in
  every settlement, or follow from the party's own;
* similarity to the team's posterior, unless that is the reward: together with own draws and the team's value it would
  tell where that posterior is;
* points of the curve r(τ), whose spacing told the largest ε up to version 0.6, and the notes that named them;
* of a degraded reward, the value of the whole team, the party's Shapley value, and the curve with less noise than its
  own: each is a number about releases without that noise, and tells where they are (docs/attacks.md says how much).

docs/privacy.md lists what still follows by arithmetic.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from equipoise.agreement import Agreement
from equipoise.estimate import Estimate
from equipoise.mediation.findings import Finding
from equipoise.mediation.settings import WITH_NOISE
from equipoise.mediation.settlement import CurvePoint
from equipoise.reward.noising import EARLIER_ROOT, NO_ROOT
from equipoise.reward.summary import Summary
from equipoise.reward.tempering import FIRST_LOOK, FURTHER

if TYPE_CHECKING:
    from equipoise.mediation.settlement import Award, Contribution, Settlement

OWN_BELIEFS = ("alone", "reward")
OWN_LOSSES = ("prior", "alone", "reward")
# Multiples of the party's own τ at which its curve is drawn.
NOISE_LEVELS = tuple(2.0**power for power in range(-6, 3))

Points = tuple[tuple[float, Estimate], ...]


@dataclass(frozen=True)
class PartyView:
    """One party's share of a settlement; `findings` have no reasons, and `curve` no places chosen for others."""

    party: str
    agreement: Agreement
    team: tuple[str, ...]
    contribution: "Contribution"
    whole: Estimate | None  # None, with the next, where a reward is degraded
    shapley: Estimate | None
    alone: Estimate
    target: Estimate
    attained: Estimate
    similarity: Estimate | None  # of the team's own posterior alone
    kappa: float
    tau: float
    mechanism: str
    within_tolerance: bool
    digest: str
    prior: Summary
    posteriors: dict[str, Summary]
    losses: dict[str, Estimate]
    errors: dict[str, float]
    errors_are_measured: bool
    notes: tuple[str, ...]
    remarks: tuple[str, ...]
    curve: Points
    findings: tuple[Finding, ...]
    version: str
    deviations: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    falls_back: bool = False
    brings_nothing: bool = False

    @property
    def gets_all(self) -> bool:
        """True if the reward is the team's posterior itself."""
        return self.kappa == 1 and self.tau == 0 and not self.falls_back


def whole_told(settlement: "Settlement", party: str) -> Estimate | None:
    """Return the value of a party's team if the party may know it, else None.

    With degraded rewards, only a party that gets the team's own posterior may.
    """
    award = settlement.awards[party]
    return settlement.value(*award.team) if award.gets_all or settlement.settings.mechanism != "degraded" else None


def view_of(settlement: "Settlement", party: str) -> PartyView:
    """Select what `party` may know of a settlement."""
    award = settlement.awards[party]
    whole = whole_told(settlement, party)
    # A Shapley value is about everybody's releases, whatever the team.
    knows_all = whole is not None and (len(settlement.teams) == 1 or settlement.settings.mechanism != "degraded")
    return PartyView(
        party=party,
        agreement=settlement.agreement,
        team=award.team,
        contribution=settlement.contributions[party],
        whole=whole,
        shapley=settlement.shapley[party] if knows_all else None,
        alone=award.alone,
        target=award.target,
        attained=award.attained,
        similarity=award.similarity if award.gets_all else None,
        kappa=award.kappa,
        tau=award.tau,
        mechanism=str(settlement.settings.mechanism),
        within_tolerance=award.within_tolerance,
        digest=award.digest,
        prior=settlement.prior,
        posteriors={name: award.posteriors[name] for name in OWN_BELIEFS if name in award.posteriors},
        losses={name: award.losses[name] for name in OWN_LOSSES if name in award.losses},
        errors={name: award.errors[name] for name in OWN_BELIEFS if name in award.errors},
        errors_are_measured=award.errors_are_measured,
        notes=tuple(map(_in_words, award.notes)),
        remarks=tuple(one.message for one in settlement.remarks if one.parties == (party,)),
        curve=_own_curve(settlement, award),
        findings=tuple(Finding(one.code, one.promise, one.verdict, "") for one in settlement.audit.checked),
        version=settlement.environment.get("equipoise", ""),
        deviations=tuple(one.for_parties for one in settlement.deviations),
        absent=settlement.absent,
        falls_back=award.falls_back,
        brings_nothing=party in (settlement.nothing or ()),
    )


def _in_words(note: str) -> str:
    """Return a note, in words without values of τ if it is an older settlement's note on the search for τ."""
    if note.startswith("even at tau = "):
        return NO_ROOT
    return EARLIER_ROOT if note.startswith("at tau = ") else note


def _own_curve(settlement: "Settlement", award: "Award") -> Points:
    if award.falls_back or award.kappa == 0:
        return ()
    whole = settlement.value(*award.team)
    points = [one for one in settlement.curve if one.team == award.team and one.recipient in (None, award.party)]
    if settlement.settings.mechanism in WITH_NOISE:
        own_only = settlement.settings.mechanism == "degraded"
        return _levels(points, award, own_only=own_only) if award.tau > 0 else ()
    further = [FIRST_LOOK[-1] * FURTHER**step for step in range(1, 21)]
    allowed = {*FIRST_LOOK, *(kappa for kappa in further if 0 < FURTHER * award.kappa <= kappa)}
    own = [] if award.kappa in (0.0, 1.0) else [(award.kappa, award.attained)]
    common = [(one.kappa, one.value) for one in points if one.kappa in allowed]
    return (*common, *own, (1.0, whole)) if common else ()


def _levels(points: Sequence[CurvePoint], award: "Award", *, own_only: bool) -> Points:
    """Interpolate r(τ) at multiples of the party's own τ; for a degraded reward, only at larger ones."""
    known = sorted((one.tau, one.value.value) for one in points if one.tau > (award.tau if own_only else 0))
    if own_only:
        known.insert(0, (award.tau, award.attained.value))
    if len(known) < 2:
        return ()
    taus, values = (np.array(column) for column in zip(*known, strict=True))
    levels = [award.tau * level for level in NOISE_LEVELS]
    inside = [tau for tau in levels if taus[0] <= tau <= taus[-1]]
    read = np.interp(np.log(inside), np.log(taus), values) if inside else np.array([])
    return tuple((tau, Estimate(float(value), 0.0)) for tau, value in zip(inside, read, strict=True))
