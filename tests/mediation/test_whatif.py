"""What if a party had chosen stronger privacy: only that is computed anew, and never weaker privacy."""

from dataclasses import replace
from pathlib import Path

import pytest

import equipoise as eq
from equipoise.errors import MediationError
from equipoise.mediation.what_if import JOURNAL, what_if

pytestmark = [pytest.mark.engine, pytest.mark.group("rounds")]


@pytest.mark.slow
def test_stronger_privacy_costs_the_party(settled: eq.Settlement, sent: list[eq.Submission], tmp_path: Path) -> None:
    found = what_if(settled, sent, {"north": 0.05}, folder=tmp_path, processes=1, progress=False)
    before, after = found.before["north"], found.after["north"]
    assert (before.epsilon, after.epsilon) == (8.0, 0.05)
    assert before.alone == settled.value("north")
    assert before.target == settled.awards["north"].target
    for name in ("alone", "shapley", "target"):
        assert getattr(after, name).value < getattr(before, name).value - 4 * getattr(after, name).error, name
    # Coalitions without the party are those of the settlement.
    assert found.after["south"].alone.value == pytest.approx(settled.value("south").value, abs=1e-12)
    assert found.after["south"].alone.error == pytest.approx(settled.value("south").error)
    assert found.team_after.value < found.team_before.value

    lines = (tmp_path / JOURNAL).read_text().splitlines()
    assert len(lines) == 1 + 3 * 4  # three draws of the noise, four coalitions with north
    again = what_if(settled, sent, {"north": 0.05}, folder=tmp_path, processes=1, progress=False)
    assert again == found
    assert (tmp_path / JOURNAL).read_text().splitlines() == lines  # nothing was computed twice


def test_a_little_more_noise_changes_little(settled: eq.Settlement, sent: list[eq.Submission]) -> None:
    found = what_if(settled, sent, {"south": 1.999}, realisations=2, processes=1, progress=False)
    for party in settled.parties:
        change = found.after[party].target - found.before[party].target
        assert abs(change.value) < 4 * change.error + 0.05, party
    assert found.rho_after == pytest.approx(found.rho_before, abs=0.1)


def test_what_cannot_be_asked(settled: eq.Settlement, sent: list[eq.Submission]) -> None:
    with pytest.raises(MediationError, match="epsilon = 9 for north is not below the 8 it released with"):
        what_if(settled, sent, {"north": 9.0})
    with pytest.raises(MediationError, match="strengthened afterwards by more noise, never weakened"):
        what_if(settled, sent, {"north": 8.0})
    with pytest.raises(MediationError, match="'mars' took no part; the parties are north"):
        what_if(settled, sent, {"mars": 1.0})
    with pytest.raises(MediationError, match="nothing is changed"):
        what_if(settled, sent, {})
    with pytest.raises(MediationError, match="not the submissions that were settled"):
        what_if(settled, sent[:2], {"north": 1.0})
    with pytest.raises(MediationError, match="coalitions were sampled"):
        what_if(replace(settled, exact=False), sent, {"north": 1.0})
    with pytest.raises(MediationError, match="ask for 2 or more"):
        what_if(settled, sent, {"north": 1.0}, realisations=1)
