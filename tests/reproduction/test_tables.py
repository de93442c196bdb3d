"""Tables and contours: their pure parts on draws whose distribution is known, and coverage of Syn."""

import numpy as np
import pytest
from numpy.typing import NDArray

from equipoise.errors import ExperimentError
from equipoise_paper.contours import NOISES, Cloud, _first_crossing, _from_line
from equipoise_paper.posteriors import Drawn
from equipoise_paper.settings import Setting
from equipoise_paper.tables import PAPER_SAMPLES, PAPER_THINNING, Thinned, _subsets, both, coverage
from reproduction.small import TINY

MEAN, DEVIATION = 1.0, 0.5
TRUTH = 3 * (0.5 * (DEVIATION**2 + MEAN**2 - 1) - np.log(DEVIATION))  # of three normal coordinates


def drawn(chains: int, length: int, correlation: float = 0.0) -> Drawn:
    """Autoregressive draws of three coordinates N(1, ¼)."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(chains, length, 3))
    found: NDArray[np.float64] = np.empty_like(noise)
    found[:, 0] = noise[:, 0]
    for place in range(1, length):
        found[:, place] = correlation * found[:, place - 1] + np.sqrt(1 - correlation**2) * noise[:, place]
    return Drawn(MEAN + DEVIATION * found, {}, 1.0)


def test_both_estimators_are_about_right_on_independent_draws() -> None:
    theirs, ours = both(drawn(16, 200))
    assert theirs == pytest.approx(TRUTH, abs=0.4)
    assert ours.value == pytest.approx(TRUTH, abs=4 * ours.error)


def test_thinning_independent_draws_changes_nothing() -> None:
    found = Thinned(1_600)(drawn(16, 100 * max(PAPER_THINNING)))
    assert list(found) == list(PAPER_THINNING)
    for theirs, ours in found.values():
        assert theirs == pytest.approx(TRUTH, abs=0.4)  # one sample of the prior has a noise of its own
        assert ours == pytest.approx(TRUTH, abs=0.15)


def test_draws_that_hang_together_look_like_a_narrow_posterior_until_they_are_thinned() -> None:
    found = Thinned(1_600)(drawn(16, 100 * max(PAPER_THINNING), correlation=0.995))
    for place in (0, 1):
        assert found[1][place] > found[4][place] > found[30][place]
        assert found[1][place] > TRUTH + 1
        assert found[30][place] == pytest.approx(TRUTH, abs=0.4)


def test_subsets_of_independent_draws_are_alike() -> None:
    found = _subsets(drawn(25, 1_600))
    assert list(found) == list(PAPER_SAMPLES)
    for theirs, ours in found.values():
        assert theirs == pytest.approx(TRUTH, abs=0.4)
        assert ours == pytest.approx(TRUTH, abs=0.2)
    assert found["first", 1_000] != found["thinned", 1_000]


@pytest.mark.engine
@pytest.mark.usefixtures("one_process")
@pytest.mark.slow
def test_more_of_the_input_space_is_worth_more(syn: Setting) -> None:
    found = coverage("coverage", [syn], TINY)
    assert [row["percentile"] for row in found.rows] == [25, 50, 75, 100]
    assert [row["rows"] for row in found.rows] == [175, 350, 525, 700]
    exact = [row["exact"] for row in found.rows]
    assert exact == sorted(exact)
    for row in found.rows:
        assert 0 < row["perturbed"] < row["exact"]  # noise costs value
        assert 0 < row["perturbed_paper_estimator"] < row["exact"]
    assert found.verdicts[0].word == "holds"


def test_noise_is_found_where_the_reward_first_meets_its_target() -> None:
    values = [4.0, 3.0, 2.0, 2.5, *[0.5] * (len(NOISES) - 4)]
    assert _first_crossing(values, 2.0) == NOISES[2]
    assert _first_crossing(values, 2.5) == pytest.approx(np.sqrt(NOISES[1] * NOISES[2]))  # on the way down, not later
    assert _first_crossing(values, 1.5) == pytest.approx(np.sqrt(NOISES[3] * NOISES[4]))
    for impossible in (4.5, 0.1):  # less noise than the least looked at, and more than the most
        with pytest.raises(ExperimentError, match=f"makes a reward of {impossible:.3f} nats"):
            _first_crossing(values, impossible)


def test_distances_from_a_line_are_shares_of_its_length() -> None:
    start, end, beside = (Cloud(np.array([point, point], float), 0.0) for point in ([0, 0], [4, 0], [1, 1]))
    assert _from_line(beside, start, end) == pytest.approx(0.25)
    assert _from_line(end, start, end) == 0
