"""Plausibility checks of submissions: advice to the operator, never a reason to reject by itself.

They answer four questions that need no raw data:

* could this party's rows and all the others' be of one population, or do their sums differ by more than chance?
* are two parties' statistics closer than independent rows would make them, as if they shared their data?
* can sums of so many rows within the agreed bounds be that large, noise included?
* do releases and prior contradict each other?

An honest party from an unusual population looks implausible too; a careful liar does not.

**Why no model is asked.** A posterior knows the covariance of a party's sums only if rows are normal: that of sums of
products needs third and fourth moments, which nobody released. Of a column of zeros and ones the normal ones are far
off (its squares are a function of itself), and honest parties were accused. What is used instead holds for all rows
within the agreed bounds. Let u be what a row adds to an entry, e = E[u], and |x| ≤ 1 for every scaled column x:

    Var(x) = E[x²] − e²,   Var(x²) ≤ E[x²] − e²,   Var(xy) ≤ min(E[x²], E[y²]) − e²

by x⁴ ≤ x² and x²y² ≤ min(x², y²). The second moments on the right are among the sums of the others, or follow from the
codes of a column, or are at most 1. The difference of two parties' sums is then a sum of independent bounded terms and
normal noise, to which Bernstein's inequality applies (its proof bounds the moment generating function, to which noise
of variance s² adds a factor e^{λ²s²/2}, less than it allows to terms of variance s²), and the smallest of K p-values is
multiplied by K. So the p-value is too large rather than too small.
"""

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from equipoise._util.arrays import Floats
from equipoise.agreement import Agreement
from equipoise.inference.models import conjugate_of
from equipoise.inference.posterior import Posterior
from equipoise.inference.released import family_of
from equipoise.inference.released_features import deviations_of, row_covariance_of
from equipoise.mediation.findings import Remark
from equipoise.models import Layout, layout_of
from equipoise.models.regression import Regression
from equipoise.protocol.submission import Submission

# P-value below which a party is remarked upon.
SUSPICIOUS = 0.001
# Log odds of a copy against independent rows.
SURELY_CLOSER = math.log(1_000)
# Standard deviations of the noise beyond the possible sums.
FAR = 6.0
# Standard deviations of the prior from its middle.
FAR_FROM_PRIOR = 3.0
# Standard errors by which estimated moments are taken to be worse than they look.
SAFE = 3.0
_WIDEN = "state a prior that allows for it, or check bounds and units"
_COLUMN = "give the column tighter bounds or a `typical` range in the next agreement"


def same_population_probability(
    agreement: Agreement, others: Sequence[Submission], submission: Submission
) -> float | None:
    """Bound the probability that one population gives sums as different as this party's and all the others'.

    The result is an upper bound of a p-value (module docstring). It is None if the agreement expects every party's
    features to have a distribution of their own, so that different sums are no surprise.
    """
    if not _one_population(agreement):
        return None
    return _same_population(layout_of(agreement), _sums_of(agreement, others), _sums_of(agreement, [submission]))[0]


def _one_population(agreement: Agreement) -> bool:
    """Return True if the agreement expects all parties' features to have one distribution."""
    return bool(getattr(getattr(agreement.model, "data_prior", None), "scope", "shared") == "shared")


@dataclass(frozen=True)
class _Sums:
    """Rows, statistics and variances of their noise, of one party or added up over several."""

    rows: int
    values: Floats
    noise: Floats

    @property
    def means(self) -> Floats:
        """Means of the entries over rows."""
        return self.values / self.rows

    def __sub__(self, other: "_Sums") -> "_Sums":
        return _Sums(self.rows - other.rows, self.values - other.values, self.noise - other.noise)


def _sums_of(agreement: Agreement, submissions: Sequence[Submission]) -> _Sums:
    layout = layout_of(agreement)
    return _Sums(
        sum(submission.count for submission in submissions),
        np.sum([submission.values(agreement) for submission in submissions], axis=0),
        np.sum([np.square(layout.noise_deviations(submission.stated)) for submission in submissions], axis=0),
    )


def _same_population(layout: Layout, others: _Sums, party: _Sums) -> tuple[float, int]:
    """Bound the p-value, and return the index of the entry that differs most."""
    rows = others.rows
    mean, noise = others.values / rows, others.noise / rows**2
    ratio = party.rows / rows
    difference = np.abs(party.values - party.rows * mean)
    variance = party.rows * (1 + ratio) * _largest_variances(layout, mean, noise, rows)
    variance += party.noise + party.rows**2 * noise
    most = np.array([high - low for low, high in layout.row_limits]) * max(1.0, ratio)  # that one row can be off
    exponent = difference**2 / (2 * (variance + most * difference / 3))
    entry = int(np.argmax(exponent))
    return min(1.0, 2 * len(layout) * math.exp(-float(exponent[entry]))), entry


def _largest_variances(layout: Layout, mean: Floats, noise: Floats, rows: int) -> Floats:
    """Bound the variance of a row's contribution to each entry, given noisy means of all entries."""
    limits = np.array(layout.row_limits)
    low, high = limits[:, 0], limits[:, 1]
    inside = np.clip(mean, low, high)
    errors = SAFE * np.sqrt(noise + (high - inside) * (inside - low) / rows)  # Bhatia & Davis 2000: no variance exceeds
    squares = {entry.first: index for index, entry in enumerate(layout.entries) if entry.first == entry.second}
    singles = {entry.first: index for index, entry in enumerate(layout.entries) if entry.second is None}

    def second_moment(column: int) -> float:
        """Bound E[x²] of a column from above."""
        index = squares.get(column)
        if layout.row_limits[singles[column]] == (0, 1) and index is None:
            index = singles[column]  # x² = x of zeros and ones
        return 1.0 if index is None else float(np.clip(mean[index] + errors[index], 0.0, 1.0))

    moments = [second_moment(column) for column in range(len(layout.columns))]
    most = np.array([
        min(moments[entry.first], moments[entry.first if entry.second is None else entry.second])
        for entry in layout.entries
    ])  # fmt: skip
    least = np.maximum(np.abs(mean) - errors, 0.0)  # that |e| may be
    return np.asarray(np.clip(most - least**2, 0.0, None))


def unlike_the_others(agreement: Agreement, submissions: Sequence[Submission]) -> list[Remark]:
    """Remark on parties that do not seem to be of the others' population, the surest first.

    The others are then compared without that party, which could make them look odd too. If only two parties are left,
    nobody can tell which of them is odd, so both are remarked upon.
    """
    if not _one_population(agreement):
        return []
    layout, rest, remarks = layout_of(agreement), list(submissions), []
    sums = {submission.party: _sums_of(agreement, [submission]) for submission in rest}
    while len(rest) > 1:
        together = _sums_of(agreement, rest)
        odd = []
        for submission in rest:
            own, others = sums[submission.party], together - sums[submission.party]
            probability, entry = _same_population(layout, others, own)
            if probability < SUSPICIOUS:
                means = own.means[entry], others.means[entry]
                odd.append(_unlike(agreement, submission.party, probability, entry, means))
        if not odd:
            break
        if len(rest) == 2:
            remarks += odd
            break
        remarks.append(min(odd, key=lambda remark: remark.probability or 0.0))
        rest = [submission for submission in rest if submission.party not in remarks[-1].parties]
    return remarks


def _unlike(agreement: Agreement, party: str, probability: float, index: int, means: tuple[float, float]) -> Remark:
    """Remark on a party, naming the entry of its sums that differs most."""
    layout = layout_of(agreement)
    entry, target = layout.entries[index], len(layout.columns) - 1
    own, others = means
    remedy = "ask whether its columns, units and population are the agreed ones"
    if isinstance(agreement.model, Regression) and target not in (entry.first, entry.second):
        remedy += '; where parties may differ in whom they have, agree on model.data_prior.scope = "per-party"'
    return Remark(
        "unlike the others",
        (party,),
        f"what {party} sent is hard to reconcile with what the others sent (p-value at most {probability:.2g}); "
        f"{entry.name} differs most, {own:.2g} on average against {others:.2g} in scaled units: {remedy}",
        probability,
    )


def near_duplicates(agreement: Agreement, submissions: Sequence[Submission], everybody: Posterior) -> list[Remark]:
    """Remark on pairs whose statistics differ by little more than noise, although independent rows would differ."""
    # Sums over different numbers of rows cannot be copies.
    by_rows: dict[int, list[Submission]] = {}
    for submission in submissions:
        by_rows.setdefault(submission.count, []).append(submission)
    pairs = [pair for alike in by_rows.values() for pair in itertools.combinations(alike, 2)]

    @functools.cache
    def of_a_row(whose: Submission | None) -> Floats:
        return _row_covariance(agreement, submissions if whose is None else [whose], everybody)

    if not pairs:
        return []
    from scipy import stats  # takes a second to load

    remarks, shared = [], _one_population(agreement)
    sums = {first.party: _sums_of(agreement, [first]) for pair in pairs for first in pair}
    for first, second in pairs:
        difference = sums[first.party].values - sums[second.party].values
        noise = sums[first.party].noise + sums[second.party].noise
        spread = np.diag(noise) + sum(each.count * of_a_row(None if shared else each) for each in (first, second))
        copies = float(np.sum(stats.norm.logpdf(difference, scale=np.sqrt(noise))))
        independent = stats.multivariate_normal.logpdf(difference, cov=spread, allow_singular=True)
        if copies - independent > SURELY_CLOSER:
            odds = math.exp(min(float(copies - independent), 700.0))
            remarks.append(
                Remark(
                    "near duplicates",
                    (first.party, second.party),
                    f"{first.party} and {second.party} have {first.count:,} rows each and sent nearly the same "
                    f"statistic: the same rows would explain it {odds:.1e} times better than independent ones",
                )
            )
    return remarks


def _row_covariance(agreement: Agreement, submissions: Sequence[Submission], posterior: Posterior) -> Floats:
    """Estimate the covariance of the contribution of one row of these parties to the statistic."""
    if isinstance(agreement.model, Regression):
        return row_covariance_of(agreement, submissions)
    draws = {name: values[::50] for name, values in posterior.draws.items()}
    return np.asarray(family_of(agreement.model).row_moments(draws).covariance.mean(axis=0))


def impossible_magnitudes(agreement: Agreement, submissions: Sequence[Submission]) -> list[Remark]:
    """Remark on entries that no rows within the bounds could sum to, by more than the noise explains."""
    layout = layout_of(agreement)
    remarks = []
    for submission in submissions:
        values = submission.values(agreement)
        beyond = layout.beyond_rows(values, submission.count, layout.noise_deviations(submission.stated))
        worst = int(np.argmax(beyond))
        if beyond[worst] > FAR:
            low, high = (submission.count * limit for limit in layout.row_limits[worst])
            remarks.append(
                Remark(
                    "impossible magnitude",
                    (submission.party,),
                    f"{submission.party} sent {values[worst]:.4g} for {layout.entries[worst].name!r}, which for "
                    f"{submission.count:,} rows must lie between {low:.4g} and {high:.4g}: "
                    f"{beyond[worst]:.0f} standard deviations of its noise outside",
                )
            )
    return remarks


def prior_conflicts(agreement: Agreement, submissions: Sequence[Submission], everybody: Posterior) -> list[Remark]:
    """Remark on parameters whose posterior is far from what the prior expects.

    In coordinates where the prior is N(0, I), it expects a posterior mean beyond 3 once in 370 times. The check covers
    the model's own parameters and the features' standard deviations: the most frequent conflict is a column that fills
    little of its bounds. The posterior is then a compromise, and may fit neither prior nor data.
    """
    own, agreed = everybody.coordinates, agreement.model
    if own is None and agreed.is_conjugate:
        own = conjugate_of(agreed).own_of_draws(everybody.draws)
    remarks = [] if own is None else _far(agreed.coordinate_names(), own.mean(axis=0), _WIDEN)
    if isinstance(agreed, Regression) and agreed.number_names and submissions:
        groups = [submissions] if _one_population(agreement) else [[submission] for submission in submissions]
        coordinates = np.stack([_nearest_coordinates(agreement, agreed, group) for group in groups])
        furthest = coordinates[np.argmax(np.abs(coordinates), axis=0), np.arange(coordinates.shape[1])]
        columns = [f"the standard deviation of {name}" for name in agreed.number_names]
        remarks += _far(columns, furthest, _COLUMN)
    return remarks


def _nearest_coordinates(agreement: Agreement, agreed: Regression, submissions: Sequence[Submission]) -> Floats:
    """Return coordinates of numbers' deviations: within two standard errors, those nearest to the prior's middle."""
    least, most = (agreed.deviation_coordinates(end) for end in deviations_of(agreement, submissions))
    return np.where(least > 0, least, np.where(most < 0, most, 0.0))


def _far(names: list[str], coordinates: Floats, remedy: str) -> list[Remark]:
    return [
        Remark(
            "prior conflict",
            (),
            f"what was released puts {name} {abs(coordinate):.1f} standard deviations of the prior "
            f"{'above' if coordinate > 0 else 'below'} its middle: values and rewards lean on a belief that the data "
            f"contradict; {remedy}",
        )
        for name, coordinate in zip(names, coordinates, strict=True)
        if abs(coordinate) > FAR_FROM_PRIOR
    ]
