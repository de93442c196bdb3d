"""Every model and sampler is calibrated; ignoring the noise is not."""

import numpy as np
import pytest
from scipy import stats

from equipoise.agreement import Agreement
from equipoise.inference.pooling import ReleasedSums
from equipoise.inference.released import family_of
from problems import Simulated, agree, simulate_linear
from statistical.calibration import LEAST_PVALUE, RANKED, REPLICATIONS, Floats, Replication, ranks, uniformity

pytestmark = [pytest.mark.slow, pytest.mark.engine]

COUNTS = [300, 500, 400]
LARGE, SMALL = [20.0, 10.0, 5.0], [0.3, 0.1, 0.2]

# Rows are scaled to about [−1, 1]; beliefs are strong enough for the rows to stay there.
PRIOR = "shape = 5.0\nscale = 0.4\nweight_precision = 2.0"
FEATURES = f"covariance = {0.5 / 9!r}\ndegrees_of_freedom = 12.0\nmean_strength = 2.0"


def linear(shared: bool) -> Agreement:
    return agree(3, prior=PRIOR, features=FEATURES, shared=shared)


def members(number: int) -> Floats:
    """One, two or three parties in turn."""
    member = np.zeros(3)
    member[[number % 3, *(range(number % 3))]] = 1
    return member


def replication(simulated: Simulated, number: int) -> Replication:
    return Replication(simulated.model, simulated.sums, members(number), simulated.truth)


def model_parameters(values: dict[str, Floats]) -> Floats:
    parts = [np.atleast_1d(values[name]) for name in sorted(values) if not name.startswith("feature")]
    return np.concatenate(parts)


def all_parameters(values: dict[str, Floats]) -> Floats:
    """Model and shared data parameters; a per-party distribution of a party that is out is not interesting."""
    extra = []
    if np.ndim(values["feature_mean"]) == 1:
        extra = [values["feature_mean"], values["feature_covariance"][np.tril_indices(len(values["feature_mean"]))]]
    return np.concatenate([model_parameters(values), *extra])


@pytest.mark.parametrize(
    ("shared", "epsilons"),
    [
        pytest.param(True, LARGE, id="shared, little noise"),
        pytest.param(False, SMALL, id="per party, much noise", marks=pytest.mark.exhaustive),
    ],
)
def test_gibbs_sampling_is_calibrated(shared: bool, epsilons: list[float]) -> None:
    def replicate(number: int) -> Replication:
        simulated = simulate_linear(number, agreement=linear(shared), counts=COUNTS, epsilons=epsilons)
        return replication(simulated, number)

    pvalues = uniformity(ranks(replicate, all_parameters, "gibbs"), "gibbs")
    assert pvalues.min() > LEAST_PVALUE, pvalues


@pytest.mark.parametrize(
    ("width", "shift", "least"), [(1.0, 0.0, 0.0), (0.7, 0.0, 0.8), (0.6, 0.0, 0.98), (1.0, 0.5, 0.85)]
)
def test_the_power_of_the_test_itself(width: float, shift: float, least: float) -> None:
    """How often posteriors that are too narrow or shifted are noticed; true ones hardly ever fail."""
    rng = np.random.default_rng(5)
    quantile = stats.norm.cdf((rng.normal(size=(REPLICATIONS, 1_000)) - shift) / width)
    found = rng.binomial(RANKED["moments"], quantile).astype(float)
    noticed = np.mean(uniformity(found, "moments") < LEAST_PVALUE)
    assert noticed < 0.005 if least == 0 else noticed > least


def test_ignoring_the_noise_is_not_calibrated() -> None:
    def replicate(number: int) -> Replication:
        simulated = simulate_linear(number, agreement=linear(True), counts=COUNTS, epsilons=SMALL)
        return replication(simulated, number)

    pvalues = uniformity(ranks(replicate, model_parameters, "naive"), "naive")
    assert pvalues.max() < 1e-6, pvalues


def family_rows(name: str, rng: np.random.Generator, values: dict[str, Floats], count: int) -> Floats:
    """Statistics of one clipped row each [count, entries]."""
    if name == "bernoulli":
        return (rng.random((count, 1)) < values["probability"]).astype(float)
    if name == "categorical":
        return rng.multinomial(1, values["probabilities"], size=count).astype(float)
    if name == "poisson":
        return (np.clip(rng.poisson(values["rate"], (count, 1)), 0, 12) - 6) / 6
    if name == "exponential":
        return (np.clip(rng.exponential(1 / values["rate"], (count, 1)), 0, 4) - 2) / 2
    z = np.clip(rng.normal(values["mean"], np.sqrt(values["variance"]), (count, 1)), -1, 1)
    return np.column_stack([z, z**2])


FAMILIES = {
    "bernoulli": ("labels = [0, 1]", "positive = 2.0\nnegative = 3.0"),
    "categorical": ('categories = ["a", "b", "c", "d"]', "concentration = [1.0, 2.0, 3.0, 1.5]"),
    "poisson": ("bounds = [0, 12]", "shape = 4.0\nrate = 0.6"),
    "exponential": ("bounds = [0, 4]", "shape = 4.0\nrate = 4.0"),
    "gaussian": ("bounds = [-1, 1]", "shape = 4.0\nscale = 0.6\nmean = 0.0\nmean_strength = 2.0"),
}


@pytest.mark.parametrize(
    "epsilons", [pytest.param(LARGE, marks=pytest.mark.exhaustive), SMALL], ids=["little noise", "much noise"]
)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in ("categorical", "gaussian") else pytest.mark.exhaustive)
        for name in FAMILIES
    ],
)
def test_families_are_calibrated_although_rows_are_clipped(name: str, epsilons: list[float]) -> None:
    target, prior = FAMILIES[name]
    agreement = Agreement.parse(
        f'format = 2\n[model]\nkind = "{name}"\ntarget = {{ name = "y", {target} }}\n[model.prior]\n{prior}\n'
        '[privacy]\nmax_epsilon = 4.0\n[[parties]]\nname = "a"\n[[parties]]\nname = "b"\n[[parties]]\nname = "c"\n'
    )
    model = family_of(agreement.model)
    agreed = model.agreed

    def replicate(number: int) -> Replication:
        rng = np.random.default_rng(number)
        drawn = agreed.at_coordinates(rng.normal(size=(1, len(agreed.coordinate_names()))))
        truth = {name: values[0] for name, values in drawn.items()}
        exact = np.stack([family_rows(name, rng, truth, count).sum(axis=0) for count in COUNTS])
        variance = np.broadcast_to(4 / np.asarray(epsilons)[:, None], exact.shape)
        noisy = exact + rng.normal(size=exact.shape) * np.sqrt(variance)
        sums = ReleasedSums(noisy, np.asarray(COUNTS, float), variance, np.zeros(exact.shape))
        return Replication(model, sums, members(number), truth)

    pvalues = uniformity(ranks(replicate, model_parameters, "moments"), "moments")
    assert pvalues.min() > LEAST_PVALUE, pvalues
