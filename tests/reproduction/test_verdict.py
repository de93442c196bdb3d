"""Verdicts: what holds, what does not, and what nobody can tell from such numbers."""

import math

import pytest

from equipoise.estimate import Estimate
from equipoise_paper.verdict import (
    Verdict,
    alike,
    below,
    fact,
    falls,
    generally_falls,
    mean_of_runs,
    negated,
    rises,
)


def estimates(*values: float, error: float = 0.1) -> list[Estimate]:
    return [Estimate(value, error) for value in values]


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ((1, 2, 3), "holds"),
        ((1, 3, 2.9, 4), "holds"),  # a fall of less than an error is chance
        ((1, 3, 2, 4), "does not hold"),
        ((3, 2, 1), "does not hold"),
        ((1, 3, 2.6, 4), "cannot tell"),  # a fall of three errors may be chance
        ((1, 1.1, 1.2), "cannot tell"),  # hardly a rise at all
        ((1, 1, 1), "cannot tell"),
    ],
)
def test_numbers_rise_or_not_and_their_mirror_image_falls(values: tuple[float, ...], word: str) -> None:
    assert rises("up", estimates(*values)).word == word
    assert falls("down", estimates(*(-value for value in values))).word == word


def test_exact_numbers_rise_if_they_do() -> None:
    assert rises("up", estimates(1, 1.001, 1.002, error=0)).word == "holds"
    assert rises("up", estimates(1, 1.001, 1.000, error=0)).word == "does not hold"
    assert "the least step is +0.001" in rises("up", estimates(1, 1.001, 1.002, error=0)).reason


def test_the_reason_names_both_ends_and_the_worst_step() -> None:
    found = rises("up", estimates(1, 3, 2, 4))
    assert found.claim == "up"
    assert found.reason == "from 1.00 ± 0.10 to 4.00 ± 0.10; the least step is -1.00 ± 0.14 (-7.1 standard errors)"
    assert "from 4.00 ± 0.10 to 1.00 ± 0.10; the highest step is 1.00 ± 0.14" in falls("", estimates(4, 2, 3, 1)).reason


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ((5, 4, 3, 2, 1), "holds"),
        ((5, 4, 3, 1, 2), "holds"),  # nine of ten pairs fall
        ((4, 5, 3, 1, 2), "holds"),  # eight
        ((4, 5, 1, 2, 3), "does not hold"),  # six
        ((1, 2, 3), "does not hold"),
        ((1.3, 1.2, 1.1), "cannot tell"),
    ],
)
def test_numbers_generally_fall(values: tuple[float, ...], word: str) -> None:
    assert generally_falls("down", estimates(*values)).word == word


@pytest.mark.parametrize(
    ("first", "second", "word"),
    [
        ((1, 2), (2, 3), "holds"),
        ((1, 3), (2, 3), "holds"),  # the same somewhere
        ((1, 3.1), (2, 3), "holds"),
        ((1, 4), (2, 3), "does not hold"),
        ((1, 3.4), (2, 3), "cannot tell"),
        ((1, 2), (1.1, 2.1), "cannot tell"),
    ],
)
def test_one_line_is_below_another(first: tuple[float, ...], second: tuple[float, ...], word: str) -> None:
    assert below("lower", list(zip(estimates(*first), estimates(*second), strict=True))).word == word


def test_a_single_comparison_names_its_two_numbers() -> None:
    reason = below("lower", [(Estimate(1, 0.1), Estimate(2, 0.1))]).reason
    assert reason == "1.00 ± 0.10 against 2.00 ± 0.10; the gap is 1.00 ± 0.14 (+7.1 standard errors)"


@pytest.mark.parametrize(
    ("gap", "word"), [(0.0, "holds"), (-0.3, "holds"), (0.5, "cannot tell"), (-1, "does not hold")]
)
def test_numbers_are_alike(gap: float, word: str) -> None:
    pairs = [(Estimate(1, 0.1), Estimate(1, 0.1)), (Estimate(1, 0.1), Estimate(1 + gap, 0.1))]
    assert alike("equal", pairs).word == word


def test_facts_and_negations() -> None:
    assert fact("so", True, "3 of 3").word == "holds"
    assert fact("so", False, "2 of 3") == Verdict("so", "does not hold", "2 of 3")
    for word, other in (("holds", "does not hold"), ("does not hold", "holds"), ("cannot tell", "cannot tell")):
        assert negated("not so", Verdict("so", word, "because")) == Verdict("not so", other, "because")  # type: ignore[arg-type]


def test_the_error_of_a_mean_is_what_runs_differ_by() -> None:
    (found,) = mean_of_runs([[1.0, 2.0, 3.0]])
    assert found.value == 2.0
    assert found.error == pytest.approx(1 / math.sqrt(3))


def test_runs_that_agree_by_luck_are_not_trusted() -> None:
    """They differ elsewhere, so they could have differed here."""
    lucky, usual = mean_of_runs([[1.0, 1.0, 1.0], [4.0, 5.0, 6.0]])
    assert lucky.error == pytest.approx(math.sqrt(0.5 / 3))  # half of the other place's variance
    assert usual.error == pytest.approx(math.sqrt(1 / 3))


def test_the_error_is_never_below_what_runs_say_of_their_own() -> None:
    (found,) = mean_of_runs([[Estimate(1.0, 0.3), Estimate(1.0, 0.3), Estimate(1.0, 0.3), Estimate(1.0, 0.3)]])
    assert found.value == 1
    assert found.error == pytest.approx(0.15)
    (single,) = mean_of_runs([[Estimate(1.0, 0.3)]])
    assert single.error == pytest.approx(0.3)
