"""Noise addition: the smallest root that can be certified, for curves that fall, dip, or never come down."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from equipoise.estimate import Estimate
from equipoise.reward.noising import EARLIER_ROOT, FINEST, FIRST, NO_ROOT, Noised, add_noise

ERROR = 0.01


def search(
    curve: Callable[[float], float],
    target: float,
    *,
    error: float = ERROR,
    scale: float = 1.0,
    luck: float = 1.0,
    off: Callable[[float], float] = lambda _tau: 0.0,
) -> Noised:
    rng = np.random.default_rng(0)

    def at(taus: Sequence[float]) -> list[Estimate]:
        return [Estimate(curve(tau) + luck * error * rng.normal(), error) for tau in taus]

    def approximate(taus: Sequence[float]) -> list[float]:
        """Off by an amount that changes slowly, as approximations by normal distributions are."""
        return [off(tau / scale) + curve(tau) for tau in taus]

    whole = Estimate(curve(0.0), error)
    return add_noise(whole, target, scale, at, lambda tau: at([tau])[0], approximate, tolerance=0.05)


def growing(tau: float) -> float:
    return float(0.3 + 0.1 * np.log1p(tau))


@pytest.mark.parametrize("target", [0.3, 2.0, 4.5])
@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("off", [growing, lambda tau: -4 * tau / (1 + tau), lambda _tau: np.nan], ids=["0", "-", "nan"])
def test_a_falling_curve_has_one_root(target: float, scale: float, off: Callable[[float], float]) -> None:
    """Also where the approximation is far off, or there is none."""
    found = search(lambda tau: 5 / (1 + tau / scale), target, scale=scale, off=off)
    assert found.within_tolerance
    assert found.doubt == ""
    assert 5 / (1 + found.tau / scale) == pytest.approx(target, abs=0.08)


def test_the_first_of_several_roots_is_taken() -> None:
    """The curve comes down to 2 near τ = 1, goes up again, and comes down for good near τ = 8."""

    def curve(tau: float) -> float:
        x = np.log2(tau + 1e-9)
        return float(5 - 4 * np.exp(-(x**2)) - 3 / (1 + np.exp(-4 * (x - 3))))

    found = search(curve, 2.5)
    assert found.within_tolerance
    assert found.tau < 1.5


def test_a_dip_that_may_be_a_root_is_reported() -> None:
    """Just above the target at τ = 1, by less than can be told, and above it again before the root found."""

    def curve(tau: float) -> float:
        x = np.log2(tau + 1e-9)
        return float(5 - 2.98 * np.exp(-(x**2)) - 4 / (1 + np.exp(-4 * (x - 4))))

    found = search(curve, 2.0, error=0.02, luck=0.0)
    assert found.tau > 8
    assert found.doubt == EARLIER_ROOT


@pytest.mark.parametrize("falls", [True, False])
def test_a_verification_may_undo_the_bracket(falls: bool) -> None:
    """The one τ below the target was so by luck, which fresh draws show: the search goes on with more noise."""
    asked: list[float] = []

    def curve(tau: float) -> float:
        return 2.35 / (1 + (tau / 20) ** 2) if falls else 2.35

    def at(taus: Sequence[float]) -> list[Estimate]:
        found = [
            Estimate(curve(tau) - (0.2 if len(asked) + place == 2 else 0.0), 0.03) for place, tau in enumerate(taus)
        ]
        asked.extend(taus)
        return found

    def verify(tau: float) -> Estimate:
        return Estimate(curve(tau), 0.001)

    found = add_noise(Estimate(2.35, 0.03), 2.2, 1.0, at, verify, lambda taus: [curve(tau) for tau in taus], 0.01)
    assert found.within_tolerance == falls
    assert not falls or curve(found.tau) == pytest.approx(2.2, abs=0.02)


@pytest.mark.parametrize("scale", [0.01, 1.0])
def test_a_target_that_hardly_differs_from_everything_gets_hardly_any_noise(scale: float) -> None:
    """Estimates with noise are below the target by luck, however little it is: the search ends all the same."""
    seen: list[float] = []

    def curve(tau: float) -> float:
        seen.append(tau)
        return 5.0 if tau == 0 else 4.9

    found = search(curve, 4.99, scale=scale, luck=0.0)
    assert 0 < found.tau <= 2 * FIRST * scale
    assert min(tau for tau in seen if tau) > 1e-6 * scale
    assert found.attained.value == 4.9


def test_a_good_approximation_saves_evaluations() -> None:
    """The bracket, one place within it, and the reward itself, where the steps alone would take five times as many."""
    seen: list[float] = []

    def curve(tau: float) -> float:
        return 5 / (1 + tau)

    def at(taus: Sequence[float]) -> list[Estimate]:
        seen.extend(taus)
        return [Estimate(curve(tau), ERROR) for tau in taus]

    def approximate(taus: Sequence[float]) -> list[float]:
        return [curve(tau) + growing(tau) for tau in taus]

    found = add_noise(Estimate(5.0, ERROR), 2.0, 1.0, at, lambda tau: at([tau])[0], approximate, 0.05)
    assert found.within_tolerance
    assert len(seen) <= 5


def test_a_floor_next_to_the_target_meets_it() -> None:
    """A degraded reward with all noise there is: what the party knows alone."""
    found = search(lambda tau: 2.06 + 4 / (1 + tau), 2.05, luck=0.0)
    assert found.within_tolerance
    assert found.doubt == ""


def test_a_curve_that_stays_up_is_reported() -> None:
    found = search(lambda _tau: 3.0, 1.0)
    assert not found.within_tolerance
    assert found.doubt == NO_ROOT


@pytest.mark.parametrize("epsilon", [0.0317, 0.2, 0.7123])
def test_what_a_recipient_is_told_is_of_a_public_grid_or_words(epsilon: float) -> None:
    """Curves of the same shape, further left for larger ε: every τ tried is of the grid that the agreement gives."""
    tried: list[float] = []

    def curve(tau: float) -> float:
        tried.append(tau)
        return 5 / (1 + tau * epsilon)

    assert search(curve, 2.0, scale=1 / 0.9).within_tolerance
    places = FINEST * np.log2(np.array([tau for tau in tried if tau > 0]) * 0.9 / FIRST)
    np.testing.assert_allclose(places, np.round(places), atol=1e-6)
    assert not any(letter.isdigit() for letter in NO_ROOT + EARLIER_ROOT)
