"""What the paper claims of Syn, with quick effort: the claims that must hold whatever the random numbers."""

from pathlib import Path

import pytest

from equipoise_paper.catalogue import Bench, reproduce
from equipoise_paper.contents import chosen
from equipoise_paper.effort import QUICK

pytestmark = [pytest.mark.slow, pytest.mark.engine]


def verdicts(name: str, folder: Path) -> dict[str, str]:
    (item,) = chosen([name])
    found = reproduce(item, Bench(QUICK, folder))
    assert (folder / f"{name}.csv").is_file()
    assert all(path.stat().st_size > 10_000 for path in found.pictures)
    return {one.claim: one.word for one in found.verdicts}


@pytest.mark.exhaustive
def test_less_privacy_brings_more(tmp_path: Path) -> None:
    found = verdicts("tradeoff-syn", tmp_path)
    for claim in ("v2 grows with ε2", "φ2 grows with ε2", "r2 grows with ε2"):
        assert found[claim] == "holds", claim
    assert found["party 2's reward predicts better than its own model"] == "holds"


@pytest.mark.exhaustive  # `test_a_figure_is_reproduced` makes the figure with less effort
def test_who_does_not_know_of_the_noise_sees_no_trade_off(tmp_path: Path) -> None:
    found = verdicts("naive-syn", tmp_path)
    for name in ("v2", "φ2"):
        assert found[f"without noise-aware inference, {name} does not grow with ε2 throughout"] == "holds", name


@pytest.mark.exhaustive
def test_more_evidence_is_worth_more(tmp_path: Path) -> None:
    assert verdicts("control-syn", tmp_path)["r grows with κ"] == "holds"


def test_tempering_stays_on_the_way_from_the_prior(tmp_path: Path) -> None:
    found = verdicts("contours", tmp_path)
    assert found["the tempered posterior's mean lies closer to the line from the prior's to everybody's"] == "holds"
