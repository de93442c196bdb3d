"""Intervals of degraded rewards, and of models at home with them, cover as they say: over data, releases and paths."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats


@pytest.mark.exhaustive
@pytest.mark.engine
@pytest.mark.parametrize("kind", ["bernoulli", "linear"])
def test_intervals_cover(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds are whole settlements, so that the search for τ, which looks at less noisy copies, is covered as well."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    from mechanisms import settle

    found = [one for number in range(40) for one in settle(kind, 1_000 + number, ["degraded"])]
    rounds = len({one["round"] for one in found})
    assert len(found) > 40
    for name in ("covered_given", "covered_home"):
        share = float(np.mean([one[name] for one in found]))
        # Parameters and parties of a round are not independent: as if each round were one.
        low, high = stats.binom(rounds, 0.9).ppf([0.001, 0.999]) / rounds
        assert low <= share <= high
