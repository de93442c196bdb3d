"""Syn, CaliH and Diab are what the paper says, and their priors mean the same in the library's units."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special

from equipoise.inference.posterior import Posterior
from equipoise.valuation.surprise import surprise
from equipoise_paper.posteriors import prior_draws
from equipoise_paper.settings import PARTIES, Setting
from reproduction.small import exact_posterior

pytestmark = pytest.mark.engine

Floats = NDArray[np.float64]
DRAWS = 20_000


def together(setting: Setting) -> tuple[Floats, Floats]:
    """Everybody's features with a last column of ones, and targets, in the data's own units."""
    features, targets = (np.concatenate(part) for part in zip(*setting.tables.values(), strict=True))
    return np.column_stack([features, np.ones(len(targets))]), targets


class Conjugate:
    """The posterior by the textbook, in the data's own units."""

    def __init__(self, setting: Setting) -> None:
        rows, targets = together(setting)
        self.precision0 = np.asarray(setting.prior["weight_precision"], float)
        self.shape0, self.scale0 = (float(str(setting.prior[name])) for name in ("shape", "scale"))
        self.precision = self.precision0 + rows.T @ rows
        self.mean = np.linalg.solve(self.precision, rows.T @ targets)
        self.shape = self.shape0 + len(targets) / 2
        self.scale = self.scale0 + 0.5 * (targets @ targets - self.mean @ self.precision @ self.mean)

    def surprise(self) -> float:
        """Its divergence from the prior: that of the variance, and the mean one of the weights given the variance."""
        of_variance = (
            (self.shape - self.shape0) * special.digamma(self.shape)
            - special.gammaln(self.shape)
            + special.gammaln(self.shape0)
            + self.shape0 * np.log(self.scale / self.scale0)
            + self.shape * (self.scale0 - self.scale) / self.scale
        )
        of_weights = 0.5 * (
            np.trace(self.precision0 @ np.linalg.inv(self.precision))
            - len(self.mean)
            + self.mean @ self.precision0 @ self.mean * self.shape / self.scale
            + np.linalg.slogdet(self.precision)[1]
            - np.linalg.slogdet(self.precision0)[1]
        )
        return float(of_variance + of_weights)


@pytest.fixture(scope="module")
def odd() -> Setting:
    """Bounds of all sizes, and a prior with no zeros in its matrices."""
    rng = np.random.default_rng(4)
    bounds, target_bound = np.array([0.5, 30.0]), 7.0
    tables = {}
    for party, rows in zip(PARTIES, (10, 20, 30), strict=True):
        features = bounds * rng.uniform(-1, 1, size=(rows, 2))
        tables[party] = features, features @ [3.0, -0.1] + 0.8 + 0.4 * rng.normal(size=rows)
    prior = {
        "shape": 2.5,
        "scale": 1.7,
        "weight_precision": np.array([[2.0, 0.3, 0.1], [0.3, 40.0, -0.2], [0.1, -0.2, 0.5]]),
        "scope": "shared",
        "mean_strength": 0.5,
        "covariance": np.array([[0.1, 1.5], [1.5, 400.0]]),
        "degrees_of_freedom": 9.0,
    }
    return Setting("Odd", tables, tables["1"], bounds, target_bound, prior)


@pytest.fixture(scope="module")
def odd_posterior(odd: Setting) -> Posterior:
    return exact_posterior(odd, DRAWS)


def test_the_surprise_is_that_of_the_data_in_their_own_units(odd: Setting, odd_posterior: Posterior) -> None:
    found = surprise(odd.agreement(PARTIES), odd_posterior)
    assert found.value == pytest.approx(Conjugate(odd).surprise(), abs=4 * found.error)


def test_weights_and_variance_are_those_of_the_data_in_their_own_units(odd: Setting, odd_posterior: Posterior) -> None:
    expected = Conjugate(odd)
    weights = odd_posterior.draws["weights"] * odd.target_bound / np.append(odd.bounds, 1.0)
    assert np.all(np.abs(weights.mean(axis=0) - expected.mean) < 5 * weights.std(axis=0) / np.sqrt(DRAWS))
    covariance = expected.scale / (expected.shape - 1) * np.linalg.inv(expected.precision)
    np.testing.assert_allclose(weights.std(axis=0), np.sqrt(np.diag(covariance)), rtol=0.03)
    variance = odd_posterior.draws["variance"] * odd.target_bound**2
    assert variance.mean() == pytest.approx(expected.scale / (expected.shape - 1), rel=0.01)


def test_feature_distributions_are_those_of_the_data_in_their_own_units(odd: Setting, odd_posterior: Posterior) -> None:
    features = together(odd)[0][:, :2]
    rows, width = features.shape
    strength, degrees = 0.5, 9.0
    sums = features.sum(axis=0)
    scatter = np.asarray(odd.prior["covariance"], float) * (degrees - width - 1) + features.T @ features
    scatter -= np.outer(sums, sums) / (strength + rows)
    expected = scatter / (degrees + rows - width - 1)
    found = odd_posterior.draws["feature_covariance"].mean(axis=0) * np.outer(odd.bounds, odd.bounds)
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    np.testing.assert_allclose(found / scale, expected / scale, atol=0.01)


def test_syn_is_worth_what_the_textbook_says(syn: Setting) -> None:
    found = surprise(syn.agreement(PARTIES), exact_posterior(syn, DRAWS))
    assert found.value == pytest.approx(Conjugate(syn).surprise(), abs=4 * found.error)


def test_syn(syn: Setting) -> None:
    assert [len(targets) for _, targets in syn.tables.values()] == [100, 200, 400]
    assert syn.tables["2"][0].shape == (200, 2)
    assert 990 <= len(syn.test[1]) <= 1_000
    features = np.concatenate([features for features, _ in syn.tables.values()])
    np.testing.assert_array_equal(np.abs(features).max(axis=0), syn.bounds)  # nothing is clipped


def test_parts_of_a_setting_keep_its_bounds_and_test_rows(syn: Setting) -> None:
    halved = syn.halved()
    assert [len(targets) for _, targets in halved.tables.values()] == [50, 100, 200]
    limit = float(np.median(syn.tables["3"][0][:, 0]))
    covered = syn.up_to(limit)
    assert max(features[:, 0].max() for features, _ in covered.tables.values()) <= limit
    assert len(covered.tables["3"][1]) == 200
    for part in (halved, covered):
        assert part.agreement(PARTIES).identity == syn.agreement(PARTIES).identity
        assert part.test is syn.test


def test_diab(diab: Setting) -> None:
    counts = [len(targets) for _, targets in diab.tables.values()]
    assert sum(counts) == 614
    np.testing.assert_allclose(np.array(counts) / 614, (0.2, 0.3, 0.5), atol=0.002)
    features, labels = (np.concatenate(part) for part in zip(*diab.tables.values(), strict=True))
    assert features.shape == (614, 4)
    assert np.abs(features).max() == 2.2
    assert np.mean(np.abs(features) == 2.2) < 0.1
    np.testing.assert_allclose(features.mean(axis=0), 0, atol=0.1)
    assert np.all(features.std(axis=0) < 1)
    assert np.all(features.std(axis=0) > 0.8)  # before clipping it was 1
    assert set(labels) == {-1.0, 1.0}
    assert len(diab.test[1]) == 154
    assert np.abs(diab.test[0]).max() > 2.2  # test rows stay as they are


def test_the_prior_of_diab_is_the_papers_in_its_own_units(diab: Setting) -> None:
    """Norms are up to 2.5 times the best."""
    draws = prior_draws(diab, DRAWS)
    coefficients = draws["weights"] / np.array([2.2] * 4 + [1.0])
    norms = np.sum(coefficients**2, axis=1)
    limit = float(str(diab.prior["max_squared_norm"]))
    assert 0.99 * limit < norms.max() <= limit * (1 + 1e-9)
    expected = 4 * special.gammainc(3, limit / 2) / special.gammainc(2, limit / 2)  # of χ² with 4 degrees, cut there
    assert norms.mean() == pytest.approx(expected, rel=0.02)


def test_calih(calih: Setting) -> None:
    counts = [len(targets) for _, targets in calih.tables.values()]
    private = sum(counts) + len(calih.test[1])
    assert 0.98 * 0.4 * 20_640 < private <= 0.4 * 20_640  # without the public rows, and without outliers
    np.testing.assert_allclose(np.array(counts) / sum(counts), (0.2, 0.3, 0.5), atol=0.001)
    features, targets = (np.concatenate(part) for part in zip(*calih.tables.values(), strict=True))
    assert features.shape[1] == calih.test[0].shape[1] == 6
    assert max(np.abs(features).max(), np.abs(calih.test[0]).max()) <= 4
    np.testing.assert_allclose(features.mean(axis=0), 0, atol=0.1)
    assert targets.std() == pytest.approx(1, abs=0.1)


def test_every_feature_of_calih_varies(calih: Setting) -> None:
    features = np.concatenate([features for features, _ in calih.tables.values()])
    np.testing.assert_allclose(features.std(axis=0), 1, atol=0.1)


def test_the_features_of_calih_predict(calih: Setting) -> None:
    """Half of the variance or more, though the network has not seen these rows."""
    features, targets = calih.test
    rows, wanted = together(calih)
    weights = np.linalg.lstsq(rows, wanted, rcond=None)[0]
    residual = targets - np.column_stack([features, np.ones(len(targets))]) @ weights
    assert residual.var() < 0.5 * targets.var()
