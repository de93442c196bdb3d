"""Estimates: how they read, and how probable it is that one is above another."""

import pytest

from equipoise.estimate import Estimate


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (Estimate(7.0712, 0.0123), "7.071 ± 0.012"),
        (Estimate(123.4, 25.0), "123 ± 25"),
        (Estimate(1234.0, 250.0), "1234 ± 250"),
        (Estimate(2.0, 0.0), "2 ± 0"),
        (Estimate(1.0, float("inf")), "1 ± inf"),
    ],
)
def test_text_shows_two_figures_of_the_error(estimate: Estimate, text: str) -> None:
    assert str(estimate) == text


def test_probability_above() -> None:
    assert Estimate(1.0, 3.0).probability_above(Estimate(1.0, 4.0)) == pytest.approx(0.5)
    assert Estimate(5.0, 3.0).probability_above(Estimate(0.0, 4.0)) == pytest.approx(0.8413447)  # one deviation
    assert Estimate(1.0, 0.0).probability_above(0.5) == 1
    assert Estimate(0.5, 0.0).probability_above(0.5) == 0.5
    assert Estimate(0.4, 0.0).probability_above(0.5) == 0


@pytest.mark.parametrize("error", [-0.1, float("nan")])
def test_an_impossible_error_is_refused(error: float) -> None:
    with pytest.raises(ValueError, match="standard error"):
        Estimate(1.0, error)


def test_a_z_score_is_the_value_in_standard_errors() -> None:
    assert Estimate(-3.0, 1.5).z_score == -2
    assert Estimate(0.0, 0.0).z_score == 0
    assert Estimate(1.0, 0.0).z_score == float("inf")
