"""The doctor finds what is wrong, says what to do, and never falls ill itself."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

import rounds
from equipoise.cli import doctor
from equipoise.party.ledger import Ledger
from program import run, spawn


def results(*checks: doctor.Check) -> dict[str, str]:
    return {check.name: check.status for check in checks}


def test_a_healthy_machine(tmp_path: Path) -> None:
    agreed = rounds.agreement("bernoulli")
    rounds.submissions(agreed, tmp_path, (1.0,))
    found = doctor.examine([tmp_path / "north.ledger"])
    assert "failed" not in results(*found).values(), found
    assert found[-1].found == "chain intact, 1 spend, zCDP 0.5 of 0.5 for one row"
    libraries = next(check for check in found if check.name == "libraries")
    assert "opendp 0." in libraries.found


def test_broken_ledgers(tmp_path: Path) -> None:
    agreed = rounds.agreement("bernoulli")
    rounds.submissions(agreed, tmp_path, (1.0, 1.0))
    path = tmp_path / "north.ledger"
    path.write_text(path.read_text().replace('"epsilon":1.0', '"epsilon":0.5', 1))
    broken, missing = doctor.examine([path, tmp_path / "none.ledger"])[-2:]
    assert (broken.status, missing.status) == ("failed", "failed")
    assert "line 1" in broken.found
    assert "backup" in broken.remedy
    assert "there is no ledger" in missing.found


def test_a_spend_that_was_cut_off(tmp_path: Path) -> None:
    agreed = rounds.agreement("bernoulli")
    Ledger(tmp_path / "l").spend(agreed, "north", agreed.guarantee(epsilon=1.0), count=10)
    found = doctor.check_ledger(tmp_path / "l")
    assert found.status == "warning"
    assert "1 spend cut off" in found.found


def test_a_mechanism_that_does_not_draw_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(statistic: Sequence[int], *, sensitivity: int, zcdp: float) -> list[int]:
        return [int(value) for value in statistic]

    monkeypatch.setattr("equipoise.party.mechanism.perturb", silent)
    found = doctor.check_noise()
    assert found.status == "failed"
    assert "release nothing" in found.remedy


def test_generators_that_repeat_themselves_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secrets.token_bytes", lambda size: b"\x55" * size)
    assert doctor.check_randomness().status == "failed"


def test_libraries_that_cannot_be_imported_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(doctor.LIBRARIES, "numpy", ("numpy_that_is_not_there", "everything"))
    found = doctor.check_libraries(["numpy", "scipy"])
    assert found.status == "failed"
    assert "numpy (for everything): No module named" in found.found


def test_a_clock_that_is_years_off() -> None:
    assert doctor.check_clock(datetime(1970, 1, 1, tzinfo=UTC)).status == "warning"
    assert doctor.check_clock().status == "ok"


def test_a_check_that_breaks_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> doctor.Check:
        raise OSError("out of order")

    monkeypatch.setattr(doctor, "check_disk", broken)
    monkeypatch.setattr(doctor, "check_memory", broken)
    found = results(*doctor.examine())
    assert found["disk"] == found["memory"] == "failed"
    assert found["clock"] == "ok"


def test_what_it_says(tmp_path: Path) -> None:
    rounds.submissions(rounds.agreement("bernoulli"), tmp_path, (1.0,))
    said = " ".join(run("doctor", "--ledger", "north.ledger", cwd=tmp_path).stdout.split())
    assert "chain intact, 1 spend" in said
    assert "clock ok" in said
    (tmp_path / "file").write_text("")
    found = json.loads(run("doctor", "--ledger", "file", "--json", cwd=tmp_path, code=1).stdout)
    assert not found["fit"]


@pytest.mark.process
@pytest.mark.slow
def test_the_program(tmp_path: Path) -> None:
    """A ledger that is none makes the exit code 1."""
    (tmp_path / "file").write_text("")
    assert "libraries ok" in " ".join(spawn("doctor", cwd=tmp_path).stdout.split())
    said = spawn("doctor", "--ledger", "file", "--json", cwd=tmp_path, code=1).stdout
    assert '"fit": false' in said
