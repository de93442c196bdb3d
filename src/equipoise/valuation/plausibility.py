"""Is what parties sent plausible? Advice to the operator, never a reason to reject by itself.

Three questions that need no raw data:

* given what all the others sent, how probable is a statistic at least as far off as this party's (a
  posterior-predictive p-value: the squared distance is χ² at each draw of the others' posterior)?
* are two parties' statistics closer than independent rows would make them, as if they shared their data?
* can sums of so many rows within the agreed bounds be that large, noise included?

An honest party from an unusual population looks implausible too; a careful liar does not.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special, stats

from equipoise.agreement import Agreement
from equipoise.inference.posterior import Posterior
from equipoise.inference.predictive import rows_of_posterior
from equipoise.inference.problem import model_of
from equipoise.models import layout_of
from equipoise.wire import Submission

MOST_DRAWS = 400  # of a posterior, for a p-value
WORK = 2e10  # multiplications spent on one
SUSPICIOUS = 0.001
SURELY_CLOSER = math.log(1_000)  # odds for a copy against independent rows
FAR = 6.0  # standard deviations of the noise


@dataclass(frozen=True)
class Remark:
    """Something the operator should look at; `probability` is a p-value where there is one."""

    kind: str
    parties: tuple[str, ...]
    message: str
    probability: float | None = None


def predictive_probability(agreement: Agreement, others: Posterior, submission: Submission) -> float:
    """Posterior-predictive p-value of a party's statistic given the posterior of others."""
    model, prior = model_of(agreement)
    layout = layout_of(agreement)
    entries = len(layout)
    number = int(np.clip(WORK / entries**3, 20, MOST_DRAWS))
    total = len(next(iter(others.draws.values())))
    chosen = np.unique(np.linspace(0, total - 1, number).astype(int))
    slot = agreement.party_names.index(submission.party)
    mean, covariance = rows_of_posterior(model, prior, others, slot, chosen)
    noise = np.diag(np.square(layout.noise_deviations(submission.stated)))
    residual = np.asarray(submission.values(agreement)) - submission.count * mean
    spread = submission.count * covariance + noise
    distance = np.einsum("di,di->d", residual, np.linalg.solve(spread, residual[..., None])[..., 0])
    return float(np.mean(special.chdtrc(entries, distance)))


def unlikely_party(party: str, probability: float) -> Remark | None:
    """A remark on a small p-value."""
    if probability >= SUSPICIOUS:
        return None
    return Remark(
        "unlike the others",
        (party,),
        f"what {party} sent is hard to reconcile with what all the others sent (predictive p-value "
        f"{probability:.2g}): ask whether its columns, units and population are the agreed ones",
        probability,
    )


def near_duplicates(agreement: Agreement, submissions: Sequence[Submission], everybody: Posterior) -> list[Remark]:
    """Pairs whose statistics differ by little more than their noise, where independent rows would differ more."""
    model, prior = model_of(agreement)
    layout = layout_of(agreement)
    found = []
    for one, other in itertools.combinations(submissions, 2):
        if one.count != other.count:
            continue  # sums over different numbers of rows are not copies
        difference = np.subtract(one.values(agreement), other.values(agreement))
        noise = sum(np.square(layout.noise_deviations(each.stated)) for each in (one, other))
        spread = np.diag(np.asarray(noise))
        for each in (one, other):
            slot = agreement.party_names.index(each.party)
            _, covariance = rows_of_posterior(model, prior, everybody, slot, np.arange(0, len(everybody), 50))
            spread = spread + each.count * covariance.mean(axis=0)
        copies = float(np.sum(stats.norm.logpdf(difference, scale=np.sqrt(noise))))
        independent = stats.multivariate_normal.logpdf(difference, cov=spread, allow_singular=True)
        if copies - independent > SURELY_CLOSER:
            odds = math.exp(min(float(copies - independent), 700.0))
            found.append(
                Remark(
                    "near duplicates",
                    (one.party, other.party),
                    f"{one.party} and {other.party} have {one.count:,} rows each and sent nearly the same statistic: "
                    f"the same rows would explain it {odds:.1e} times better than independent ones",
                )
            )
    return found


def impossible_magnitudes(agreement: Agreement, submissions: Sequence[Submission]) -> list[Remark]:
    """Entries beyond what any rows within the bounds could sum to, by more than the noise explains."""
    layout = layout_of(agreement)
    found = []
    for submission in submissions:
        values = submission.values(agreement)
        beyond = layout.beyond_rows(values, submission.count, submission.stated)
        worst = int(np.argmax(beyond))
        if beyond[worst] > FAR:
            low, high = (submission.count * limit for limit in layout.row_limits[worst])
            found.append(
                Remark(
                    "impossible magnitude",
                    (submission.party,),
                    f"{submission.party} sent {values[worst]:.4g} for {layout.entries[worst].name!r}, which for "
                    f"{submission.count:,} rows must lie between {low:.4g} and {high:.4g}: "
                    f"{beyond[worst]:.0f} standard deviations of its noise outside",
                )
            )
    return found
