"""The network that makes CaliH's features: it learns, repeats itself, and leaves no unit silent."""

import numpy as np
import pytest
from numpy.typing import NDArray

from equipoise.errors import ExperimentError
from equipoise_paper import network

pytestmark = [pytest.mark.engine, pytest.mark.slow]

Floats = NDArray[np.float64]


@pytest.fixture(scope="module")
def rows() -> tuple[Floats, Floats]:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(2_000, 3))
    return features, np.abs(features[:, 0]) + features[:, 1] * features[:, 2] + 0.1 * rng.normal(size=2_000)


@pytest.fixture(scope="module")
def layers(rows: tuple[Floats, Floats]) -> network.Layers:
    return network.train(*rows, seed=1)


def test_it_predicts_better_than_the_mean(rows: tuple[Floats, Floats], layers: network.Layers) -> None:
    features, target = rows
    weights, bias = layers[-1]
    predicted = (network.hidden(layers, features) @ np.asarray(weights) + np.asarray(bias))[:, 0]
    assert np.mean((predicted - target) ** 2) < 0.5 * np.var(target)


def test_every_unit_of_the_last_layer_says_something(rows: tuple[Floats, Floats], layers: network.Layers) -> None:
    found = network.hidden(layers, rows[0])
    assert found.shape == (2_000, 6)
    assert found.dtype == np.float64
    assert np.all(found.std(axis=0) > 1e-3)
    assert np.all(found >= 0)


def test_the_same_seed_gives_the_same_features(rows: tuple[Floats, Floats], layers: network.Layers) -> None:
    found = network.hidden(layers, rows[0])
    np.testing.assert_array_equal(network.hidden(network.train(*rows, seed=1), rows[0]), found)
    assert np.any(network.hidden(network.train(*rows, seed=2), rows[0]) != found)


def test_features_that_say_nothing_are_refused_in_the_end() -> None:
    with pytest.raises(ExperimentError, match="after 20 trainings some unit of the last layer is always silent"):
        network.train(np.zeros((64, 3)), np.ones(64), seed=1)
