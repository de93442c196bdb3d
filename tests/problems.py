"""Inference problems simulated from priors and models as textbooks write them: rows, exact statistics, noise."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from equipoise.agreement import Agreement
from equipoise.inference.batch import Asked
from equipoise.inference.models import conjugate_of
from equipoise.inference.models.linear import ConjugateRegression
from equipoise.inference.pooling import ReleasedSums

Floats = NDArray[np.float64]

SYN = "shape = 5.0\nscale = 0.1\nweight_precision = 0.025"
WITHIN_BOUNDS = "shape = 5.0\nscale = 0.1\nweight_precision = 5.0"  # where targets nearly always lie
SYN_FEATURES = f"covariance = {1 / 47!r}\ndegrees_of_freedom = 50.0\nmean_strength = 1.0"


@dataclass(frozen=True)
class Simulated:
    """A problem whose true parameters are known."""

    model: ConjugateRegression
    sums: ReleasedSums
    truth: dict[str, Floats]
    rows: list[Floats]
    exact: Floats


def agree(parties: int, *, prior: str = SYN, features: str = SYN_FEATURES, shared: bool = True) -> Agreement:
    """Agree on a linear regression of two features with a conjugate prior, in units that are scaled already."""
    names = "".join(f'[[parties]]\nname = "party{number}"\n' for number in range(parties))
    return Agreement.parse(
        'format = 2\n[model]\nkind = "linear"\n'
        'features = [{ name = "a", bounds = [-1, 1] }, { name = "b", bounds = [-1, 1] }]\n'
        'target = { name = "y", bounds = [-1, 1] }\n'
        f'[model.prior]\nkind = "conjugate"\n{prior}\n'
        f'[model.data_prior]\nkind = "conjugate"\nscope = "{"shared" if shared else "per-party"}"\n{features}\n'
        f"[privacy]\nmax_epsilon = 4.0\n{names}"
    )


def asked(simulated: Simulated, *, kappa: float = 1.0, members: list[int] | None = None, draws: int = 4_000) -> Asked:
    """One scenario with all (or the given) parties."""
    parties = len(simulated.sums.rows)
    member = np.zeros(parties)
    member[members if members is not None else slice(None)] = 1
    return Asked(member, kappa, np.zeros(parties), None, draws, 0)


def linear_entries(columns: Floats) -> Floats:
    """Statistic of one party: sums, then the upper triangle of products of all columns."""
    i, j = np.triu_indices(columns.shape[1])
    return np.concatenate([columns.sum(axis=0), (columns.T @ columns)[i, j]])


def draw_truth(model: ConjugateRegression, parties: int, rng: np.random.Generator) -> dict[str, Floats]:
    """Draw all parameters from the prior, as textbooks write it."""
    prior = model.prior
    variance = np.asarray(stats.invgamma.rvs(prior.shape, scale=prior.scale, random_state=rng))
    weights = rng.multivariate_normal(prior.weight_mean, variance * np.linalg.inv(prior.weight_precision))
    groups = 1 if model.shared else parties
    covariance = stats.invwishart.rvs(prior.degrees_of_freedom, prior.scatter, size=groups, random_state=rng)
    covariance = np.asarray(covariance).reshape(groups, model.width, model.width)
    means = np.stack([rng.multivariate_normal(prior.feature_mean, one / prior.mean_strength) for one in covariance])
    if model.shared:
        means, covariance = means[0], covariance[0]
    return {
        "weights": weights,
        "variance": np.asarray(variance),
        "feature_mean": means,
        "feature_covariance": covariance,
    }


def simulate_linear(
    seed: int,
    *,
    agreement: Agreement | None = None,
    counts: list[int] | None = None,
    epsilons: list[float] | None = None,
    shared: bool = True,
) -> Simulated:
    """Draw everything from the prior and the model; the paper's Syn by default. Rows are not clipped."""
    counts = counts or [100, 200, 400]
    epsilons = epsilons or [0.2, 0.1, 0.2]
    agreement = agreement or agree(len(counts), shared=shared)
    model = conjugate_of(agreement.model)
    assert isinstance(model, ConjugateRegression)
    rng = np.random.default_rng(seed)
    truth = draw_truth(model, len(counts), rng)
    tables = []
    for party, count in enumerate(counts):
        mean, covariance = (
            truth[name] if model.shared else truth[name][party] for name in ("feature_mean", "feature_covariance")
        )
        x = rng.multivariate_normal(mean, covariance, size=count)
        noise = rng.normal(size=count) * np.sqrt(truth["variance"])
        tables.append(np.column_stack([x, x @ truth["weights"][:-1] + truth["weights"][-1] + noise]))
    exact = np.stack([linear_entries(table) for table in tables])
    i, j = np.triu_indices(model.width + 1)
    is_square = np.concatenate([np.zeros(model.width + 1, bool), i == j])
    # ½(λ/ε)Δ² at λ = 2, and less of it for squares.
    variance = (2 + model.width) ** 2 / np.asarray(epsilons)[:, None] / np.where(is_square, (model.width + 4) / 2, 1.0)
    noisy = exact + rng.normal(size=exact.shape) * np.sqrt(variance)
    added = np.sqrt(variance * np.asarray(epsilons)[:, None])
    return Simulated(model, ReleasedSums(noisy, np.asarray(counts, float), variance, added), truth, tables, exact)
