"""Errors at other exponents: what a settlement reads off is what a round with that exponent would have had."""

from pathlib import Path
from typing import Any

import pytest

import equipoise as eq
import rounds
from equipoise.mediation.settlement import Settlement
from equipoise.report.view import view_of
from mediation.conftest import QUICK

pytestmark = [pytest.mark.engine, pytest.mark.group("rounds")]

SETTINGS: dict[str, Any] = {**QUICK, "draws": 2_000, "precision": 0.05, "seed": 3, "rho": 0.5, "coalitions": "all"}


@pytest.fixture(scope="module")
def unequal(agreed: eq.Agreement, tmp_path_factory: pytest.TempPathFactory) -> list[eq.Submission]:
    """Releases with so much noise that a party alone predicts badly."""
    return rounds.submissions(agreed, tmp_path_factory.mktemp("ledgers"), (1.0, 0.4, 0.15), rows=60)


@pytest.mark.parametrize(
    ("mechanism", "measured"),
    [
        ("tempering", False),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in (("tempering", True), ("degraded", False))),
    ],
)
def test_errors_are_those_of_a_round_with_that_exponent(
    mechanism: Any, measured: bool, agreed: eq.Agreement, unequal: list[eq.Submission], tmp_path: Path
) -> None:
    """Within a tenth of what there is to gain, and what rewards and targets differ by."""
    table = rounds.table("linear", 200, 9)
    test: Any = (table["x"][:, None], table["y"]) if measured else None
    options = {**SETTINGS, "mechanism": mechanism, "test": test}
    options |= {"noise_secret": "0" * 64} if mechanism == "degraded" else {}
    settled = eq.mediate(agreed, unequal, folder=tmp_path, **options)
    for rho in (0.1, 1.0):
        other = eq.mediate(agreed, unequal, folder=tmp_path, **options | {"rho": rho})
        for party, error in settled.errors_at(rho).items():
            there, whole = other.errors[party], settled.errors[party]["team"]
            assert settled.errors[party]["alone"] == there["alone"]
            assert abs(error - there["reward"]) < 0.1 * abs(there["alone"] - whole) + 0.01 * whole, party


def test_curves_are_kept_for_the_operator_alone(settled: Settlement, out: Path, tmp_path: Path) -> None:
    assert Settlement.load(out).errors_at(0.3) == settled.errors_at(0.3)
    assert set(settled.errors_at(0.3)) == set(settled.parties)
    shown = repr([view_of(settled, party) for party in settled.parties])
    assert all(str(award.error_curve) not in shown for award in settled.awards.values())
    # Decisions are those of versions that did not state them.
    plain = settled.to_document()
    for award in plain["awards"].values():
        del award["error_curve"]
    earlier = Settlement.parse(plain)
    assert earlier.errors_at(0.3) == {}
    assert earlier.decisions == settled.decisions
    assert earlier.errors == {party: award.errors for party, award in settled.awards.items()}


@pytest.mark.parametrize("curve", [{"alone": 1.0, "points": []}, {"alone": 1.0, "points": [[1.0, "2"]]}, [], {}])
def test_a_damaged_curve_is_refused(curve: Any, settled: Settlement) -> None:
    document = settled.to_document()
    document["awards"]["north"]["error_curve"] = curve
    with pytest.raises(eq.MediationError, match="cannot be read as a settlement"):
        Settlement.parse(document)


def test_noise_that_each_party_has_for_itself_tells_nothing(agreed: eq.Agreement, sent: list[eq.Submission]) -> None:
    noised = eq.mediate(agreed, sent, seed=3, mechanism="noise", noise_secret="0" * 64, **QUICK)
    assert noised.errors_at(0.5) == {}
