"""Features with a distribution of their own for every party: the density is a product over parties."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import equipoise as eq
from equipoise.inference.pooling import Releases
from equipoise.inference.regression import posterior
from equipoise.inference.regression import problem as problem_module
from equipoise.inference.regression.model import RegressionModel
from equipoise.inference.regression.problem import build_problem
from regressions import COLUMNS, Floats, agree, draw_rows, draw_targets, model_of, release_tables, sums_of

PER_PARTY = '[model.data_prior]\nscope = "per-party"'
WEIGHTS = np.array([0.3, -0.2, 0.25, 0.15, -0.1, 0.05])
TWO_NUMBERS = """
  { name = "age", bounds = [-1, 1], typical = [-0.98, 0.98] },
  { name = "bmi", bounds = [-1, 1], typical = [-0.98, 0.98] },
  { name = "smoker", kind = "binary", labels = ["no", "yes"] },
"""
MEANS = np.array([[-0.5, 0.3], [0.5, -0.3]])  # of the numbers, by party
DEVIATIONS = np.array([[0.2, 0.35], [0.35, 0.15]])
SMOKERS = np.array([0.2, 0.7])
EPSILONS = (0.1, 4.0)


def both_models(kind: str, columns: str = COLUMNS) -> tuple[RegressionModel, RegressionModel]:
    """Prepare the same regression with features of one distribution, and with one for each party."""
    return model_of(agree(kind, columns)), model_of(agree(kind, columns, PER_PARTY))


def release(kind: str, parties: int = 2) -> Releases:
    """Sum rows of each party, and add noise of different variances."""
    model, rng = model_of(agree(kind)), np.random.default_rng(7)
    weights, sums = WEIGHTS if kind == "linear" else 5 * WEIGHTS, []
    rows, variances = np.array([800.0, 400.0][:parties]), np.array([25.0, 100.0][:parties])
    for number, variance in zip(rows, variances, strict=True):
        table = draw_rows(int(number), rng)
        exact = sums_of(model, table, draw_targets(kind, table, weights, 0.25, rng))
        sums.append(exact + np.sqrt(variance) * rng.normal(size=len(exact)))
    return Releases(np.array(sums), rows, variances, np.ones(len(sums[0])))


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_of_one_party_it_is_the_shared_posterior(kind: str) -> None:
    shared, per_party = (
        posterior.sample_posterior(model, release(kind, 1), np.random.default_rng(1), 500, power=0.5)
        for model in both_models(kind)
    )
    np.testing.assert_array_equal(per_party.coordinates, shared.coordinates)
    assert per_party.divergence == shared.divergence


@pytest.mark.parametrize(("power", "sampling"), [(1.0, 1.0), (0.3, 1.0), (1.0, 2.5)])
def test_it_is_the_product_of_the_parties_joint_densities(
    power: float, sampling: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A party's sums and its own feature moments are jointly normal given the parameters of a linear regression."""
    _, model = both_models("linear")
    moments, prior, releases = model.moments, model.feature_prior, release("linear")
    rng, split = np.random.default_rng(2), moments.features
    entries = split + moments.targets
    root = rng.normal(size=(entries, entries)) / 10
    covariance = root @ root.T + 0.05 * np.eye(entries)
    fixed = lambda _model, _likelihood, _centre: (covariance, None)  # noqa: E731
    monkeypatch.setattr(problem_module, "_row_covariance_and_change", fixed)
    problem, mode = build_problem(model, releases, power=power, sampling=sampling)
    coordinates = mode.centre + rng.normal(size=(5, model.dimension)) @ mode.root.T
    parameters = model.parameters(coordinates)

    def expect(features: Floats, place: int) -> Floats:
        theta = parameters.weights[place]
        products = moments.second_moments(features) @ theta
        return np.concatenate([features, products, [theta @ products + parameters.variance[place]]])

    def log_density(place: int, party: int) -> float:
        constant, number = expect(np.zeros(split), place), releases.rows[party]
        slopes = number * np.stack([expect(one, place) - constant for one in np.eye(split)], axis=1)
        spread = number * sampling * covariance + releases.scale[party] * np.diag(releases.shape)
        spread = spread / power + (slopes * prior.variance) @ slopes.T
        mean = number * constant + slopes @ prior.mean
        return float(stats.multivariate_normal.logpdf(releases.statistic[party], mean, spread))

    found = problem.log_likelihood(coordinates)
    expected = np.array([log_density(place, 0) + log_density(place, 1) for place in range(5)])
    np.testing.assert_allclose(found - found[0], expected - expected[0], atol=1e-6)


@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_slopes_are_sums_over_parties(kind: str) -> None:
    _, model = both_models(kind)
    problem, mode = build_problem(model, release(kind))
    points = mode.centre + np.random.default_rng(1).normal(size=(5, model.dimension)) @ mode.root.T
    slopes = problem.slopes(points)
    steps = 1e-6 * np.eye(model.dimension)
    differences = [problem.log_posterior(points + one) - problem.log_posterior(points - one) for one in steps]
    # Slopes of logistic regression leave out those of the covariance.
    tolerance = 1e-3 if kind == "linear" else 0.15 * np.abs(differences).max() / 2e-6
    np.testing.assert_allclose(slopes, np.stack(differences, axis=1) / 2e-6, rtol=1e-4, atol=tolerance)


@pytest.mark.engine
@pytest.mark.statistical
def test_scenarios_of_parties_with_features_of_their_own(tmp_path: Path) -> None:
    agreed = agree("linear", more=PER_PARTY)
    sent = release_tables(agreed, "linear", WEIGHTS, tmp_path)
    asked = [eq.Scenario(), eq.Scenario(tau={"south": 3.0}), eq.Scenario(["north"]), eq.Scenario(kappa=0.2)]
    asked += [eq.Scenario(kappa=0.2), eq.Scenario(kappa=0)]
    rules = ["power"] * 4 + ["scaled", "power"]
    values = []
    for scenario, rule in zip(asked, rules, strict=True):
        found = eq.infer_batch(agreed, sent, [scenario], method="moments", draws=2_000, rule=rule)[0]  # type: ignore[arg-type]
        assert found.converged
        values.append(eq.surprise(agreed, found).value)
    whole, noisier, north, tempered, scaled, prior = values
    assert whole > noisier > north > prior == 0
    assert whole > max(tempered, scaled)
    assert min(tempered, scaled) > 0


def draw_apart(party: int, number: int, rng: np.random.Generator) -> Floats:
    """Draw terms of `TWO_NUMBERS` and a constant from a party's own distribution."""
    normal = rng.normal(size=(number, 2)) @ np.array([[1.0, 0.4], [0.0, np.sqrt(1 - 0.16)]])
    numbers = np.clip(MEANS[party] + DEVIATIONS[party] * normal, -1, 1)
    smokes = rng.uniform(size=number) < SMOKERS[party] + 0.2 * np.tanh(normal[:, 0])
    return np.column_stack([numbers, smokes, np.ones(number)]).astype(float)


def measure_coverage(kind: str, number: int, rounds: int) -> tuple[float, float]:
    """Coverage of 90 % intervals where parties' features differ, with features of one distribution and of two."""
    models = both_models(kind, TWO_NUMBERS)
    model, agreed = models[0], agree(kind, TWO_NUMBERS)
    deviations = [
        model.moments.ordered(agreed.layout.noise_deviations(agreed.guarantee(epsilon=one))) for one in EPSILONS
    ]
    scale = np.array([(one[0] / deviations[0][0]) ** 2 for one in deviations])
    rng, covered = np.random.default_rng(0), np.zeros(2)
    for _ in range(rounds):
        tables = [draw_apart(party, number, rng) for party in range(2)]
        while True:
            truth = model.parameters(rng.normal(size=(1, model.dimension)))
            deviation = float(np.sqrt(truth.variance[0]))
            targets = [draw_targets(kind, table, truth.weights[0], deviation, rng) for table in tables]
            if np.mean(np.abs(np.concatenate(targets)) <= 1) >= 0.99:
                break
        sums = np.stack([sums_of(model, *both) for both in zip(tables, targets, strict=True)])
        sums += np.stack(deviations) * rng.normal(size=sums.shape)
        releases = Releases(sums, np.full(2, float(number)), scale, deviations[0] ** 2)
        for place, one in enumerate(models):
            draws = posterior.sample_posterior(one, releases, rng, 1_000).coordinates
            low, high = np.quantile(one.parameters(draws).weights, [0.05, 0.95], axis=0)
            covered[place] += np.mean((low < truth.weights[0]) & (truth.weights[0] < high)) / rounds
    return float(covered[0]), float(covered[1])


@pytest.mark.slow
@pytest.mark.first
@pytest.mark.statistical
def test_intervals_cover_where_features_differ() -> None:
    """With one distribution for both parties they would not: a pooled mean belongs to neither."""
    shared, per_party = measure_coverage("linear", 30_000, 60)
    assert shared < 0.80
    assert 0.84 < per_party < 0.97
