"""Errors of each party's model at other fairness exponents, in the target's own unit.

A reward is held back until it is worth its target, so what it predicts follows from its value. Errors are read off
between posteriors of known value. Many are there anyway: rewards, what the team knows, and the prior or, of degraded
rewards, what the party knows alone. A few are sampled for this: of tempered rewards some of the curve r(κ), down to the
lowest target at ρ = 1; of degraded ones some with less and with more noise than the party's own reward has. Rewards by
noise that each party has drawn for itself do not lie on one curve, and nothing is said of them.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

import numpy as np

from equipoise._util.arrays import Floats
from equipoise.agreement import Agreement
from equipoise.inference.posterior import Posterior
from equipoise.inference.released_features import rows_like
from equipoise.mediation.appraisal import Evaluator
from equipoise.mediation.coalitions import Coalitions
from equipoise.mediation.requests import Request
from equipoise.mediation.rewards import RewardMaker
from equipoise.mediation.settlement import Award, Settlement
from equipoise.models.base import Draws, Rows
from equipoise.models.regression import Regression
from equipoise.protocol.submission import Submission
from equipoise.reward.scoring import LIKELY_ROWS, LIKELY_SEED, error_curve
from equipoise.reward.tempering import FIRST_LOOK

NOISIER = (1 / 64, 1 / 8, 8.0)  # times the noise of a degraded reward

Known = tuple[float, Draws]  # value in nats, and draws


def likely_rows(agreement: Agreement, release: Submission) -> Floats | None:
    """Simulate rows like those that a party is believed to have by its release; None of a model without features."""
    if not isinstance(agreement.model, Regression):
        return None
    return rows_like(agreement, release, LIKELY_ROWS, np.random.default_rng(LIKELY_SEED))


def with_error_curves(
    settlement: Settlement,
    submissions: Sequence[Submission],
    appraiser: Evaluator,
    coalitions: Coalitions,
    maker: RewardMaker,
    prior: Posterior,
    rows: Rows | None,
) -> Settlement:
    """Return the settlement with an error curve in each award, if the posterior of every party alone is known."""
    mechanism, model = settlement.settings.mechanism, settlement.agreement.model
    if mechanism == "noise" or not all(coalitions.is_shown((party,)) for party in settlement.parties):
        return settlement

    def valued(requests: Sequence[Request]) -> list[Known]:
        """Return values and draws of those posteriors that have converged."""
        answers = appraiser.answers(requests, what="other exponents", keep=requests)
        sampled = zip(answers, appraiser.posteriors(requests), strict=True)
        appraiser.drop(requests)
        return [(answer.value.value, posterior.draws) for answer, posterior in sampled if not answer.problems]

    awards = dict(settlement.awards)
    for team in settlement.teams:
        if len(team) == 1:
            continue
        whole: Known = settlement.value(*team).value, appraiser.posterior(coalitions.request(team)).draws
        sharing = [award for award in settlement.awards_of(team) if not award.falls_back]
        tempered: list[Known] = []
        if mechanism == "tempering":
            tempered += [(0.0, prior.draws), whole, *((one.attained.value, one.posterior.draws) for one in sharing)]
            tempered += valued([maker.on_curve(team, kappa) for kappa in _kappas(settlement, sharing)])
        for award in settlement.awards_of(team):
            (release,) = (one for one in submissions if one.party == award.party)
            alone = award.alone.value, appraiser.posterior(coalitions.request((award.party,))).draws
            own = [alone, whole, (award.attained.value, award.posterior.draws)]
            if mechanism == "degraded" and not award.gets_all:
                about = award.tau or 1 / release.stated.epsilon
                own += valued([maker.degraded(team, award.party, factor * about) for factor in NOISIER])
            # A party that falls back stays at what it knows alone, where rewards are tempered.
            held_back = tempered if tempered and not award.falls_back else own
            likely = None if rows else likely_rows(settlement.agreement, release)
            curve = error_curve(model, alone[1], held_back, whole[1], rows, likely)
            awards[award.party] = replace(award, error_curve=curve)
    return replace(settlement, awards=awards)


def _kappas(settlement: Settlement, sharing: Sequence[Award]) -> list[float]:
    """Choose κ on the curve r(κ) of a team, from its end to below the lowest target at ρ = 1."""
    strict = settlement.targets_at(1.0)
    lowest = min((strict[award.party] for award in sharing if settlement.ratio(award.party) > 0), default=0.0)
    values = {one.kappa: one.value.value for one in settlement.curve if sharing and one.team == sharing[0].team}
    places = [kappa for kappa in FIRST_LOOK if kappa in values]
    above = sum(1 for _ in takewhile(lambda kappa: values[kappa] > lowest, places))
    return places[: above + 1]
