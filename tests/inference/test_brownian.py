"""Paths of degraded rewards: Brownian, nested, and as secret as they should be."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import rounds
from equipoise._util.canonical import sha256_hex
from equipoise.inference import brownian
from equipoise.inference.released import noises_of

SECRET = "5a" * 32
TIMES = (0.01, 0.3, 0.7, 1.0, 5.0, 1e4)
MANY = 20_000


def test_increments_are_independent_and_normal_with_the_variance_of_brownian_motion() -> None:
    path = np.stack([brownian.position(SECRET, "one", time, MANY) for time in TIMES])
    grid = np.array([brownian.on_grid(time) for time in TIMES])
    steps = np.diff(path, axis=0, prepend=0.0) / np.sqrt(np.diff(grid, prepend=0.0))[:, None]
    for step in steps:
        assert stats.kstest(step, "norm").pvalue > 1e-3
    correlations = np.asarray(np.corrcoef(steps))[np.triu_indices(len(TIMES), 1)]
    assert np.max(np.abs(correlations)) < 4.5 / np.sqrt(MANY)


def test_a_time_has_one_place_whatever_else_was_asked() -> None:
    again = [brownian.position(SECRET, "one", time, 3) for time in reversed(TIMES)]
    for first, second in zip([brownian.position(SECRET, "one", time, 3) for time in TIMES], again[::-1], strict=True):
        np.testing.assert_array_equal(first, second)
    assert not brownian.position(SECRET, "one", 0.0, 3).any()


def test_paths_of_other_names_and_secrets_have_nothing_in_common() -> None:
    paths = [
        brownian.position(secret, name, 1.0, MANY)
        for secret, name in itertools.product((SECRET, "5b" * 32), ("one", "two", "one "))
    ]
    correlations = np.asarray(np.corrcoef(paths))[np.triu_indices(len(paths), 1)]
    assert np.max(np.abs(correlations)) < 4.5 / np.sqrt(MANY)


def test_every_bit_of_a_secret_changes_the_path() -> None:
    found = {brownian.position(f"{1 << place:064x}", "one", 1.0, 4).tobytes() for place in range(256)}
    assert len(found) == 256


def test_close_times_are_close_places() -> None:
    """The curve that leads to a party alone has no gaps: a root lies between any two values."""
    for time in (0.37, 2.0, 1000.0):
        near = brownian.position(SECRET, "one", time, MANY) - brownian.position(SECRET, "one", time * (1 + 1e-4), MANY)
        assert 0 < np.std(near) < 3e-2 * np.sqrt(time)


@pytest.mark.parametrize("time", [1e-25, 1e40, np.nan, -1.0])
def test_a_time_where_no_path_is_known_is_refused(time: float) -> None:
    with pytest.raises(ValueError, match="a path is known"):
        brownian.position(SECRET, "one", time, 1)


@pytest.mark.engine
def test_copies_of_a_release_are_of_one_path(tmp_path: Path) -> None:
    agreement = rounds.agreement("bernoulli")
    sent = rounds.submissions(agreement, tmp_path, (1.0, 1.0, 1.0))
    tau = np.array([[0.0, 0.5, 0.0], [0.0, 2.0, 0.5], [0.0, 2.0, 0.0]])
    roots = np.sqrt(tau)[:, :, None]
    noise = roots * np.asarray(noises_of(agreement, sent, tau, [SECRET, SECRET, "5b" * 32]))
    assert not noise[tau == 0].any()
    assert np.all(noise[1, 1] != noise[2, 1])  # another secret
    assert np.all(noise[1, 1] != 2 * noise[0, 1])  # not one draw times √τ, which two copies would give away
    np.testing.assert_allclose(
        noise[0, 1], brownian.position(SECRET, sha256_hex(sent[1].to_json()), 0.5, noise.shape[2]), rtol=1e-12
    )
    anew = roots * np.asarray(noises_of(agreement, sent[1:], tau, [SECRET] * 3))
    np.testing.assert_array_equal(anew[0, 1], noise[0, 1])  # whoever else takes part
