"""What pages say of a guarantee and of time."""

import re

import pytest

from equipoise._util.text import duration
from equipoise.models.guarantee import Guarantee, delta_of
from equipoise_service.web.pages.wording import guarantee_readings, guessing


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 2.313, 8.0])
def test_guessing_is_what_the_certified_profile_allows(epsilon: float) -> None:
    # The best guess between two equally likely tables is right with probability (1 + total variation) / 2, and δ at
    # ε = 0 is the total variation.
    variation = delta_of(0.0, Guarantee(order=2, epsilon=epsilon).zcdp)
    percent = float(re.findall(r"at most ([\d.]+) %", guessing(2.0, epsilon))[0])
    allowed = 50 * (1 + variation)
    assert allowed <= percent + 1e-6
    assert percent <= allowed + 0.1001


def test_weak_guarantees_are_not_dressed_up() -> None:
    assert "hides single rows badly" in guessing(2.0, 100.0)


def test_readings_are_of_one_guarantee() -> None:
    names, values = zip(*guarantee_readings(2.0, 0.1), strict=True)
    assert values == ("1.37", "0.1", "0.05")  # what guidelines are written in comes first
    assert "δ = 1e-6" in names[0]
    assert "Rényi" in names[1]


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.2, "1 second"), (59, "59 seconds"), (200, "3 minutes"), (7200, "2 hours")]
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words
