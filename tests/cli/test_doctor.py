"""The doctor finds what is wrong, says what to do, and never falls ill itself."""

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

import rounds
from equipoise.cli import doctor
from equipoise.party.ledger import Ledger
from program import run, spawn


def results(*checks: doctor.Check) -> dict[str, str]:
    return {check.name: check.status for check in checks}


@pytest.mark.engine
def test_a_healthy_machine(tmp_path: Path) -> None:
    agreed = rounds.agreement("bernoulli")
    rounds.submissions(agreed, tmp_path, (1.0,))
    found = doctor.examine([tmp_path / "north.ledger"])
    assert "failed" not in results(*found).values(), found
    assert found[-1].found == "chain intact, 1 spend, zCDP 0.5 of 0.5 for one row"
    libraries = next(check for check in found if check.name == "libraries")
    assert "opendp 0." in libraries.found


@pytest.mark.engine
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


@pytest.mark.engine
def test_a_check_that_breaks_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> doctor.Check:
        raise OSError("out of order")

    monkeypatch.setattr(doctor, "check_disk", broken)
    monkeypatch.setattr(doctor, "check_device", broken)
    found = results(*doctor.examine())
    assert found["disk"] == found["device"] == "failed"
    assert found["clock"] == "ok"


@pytest.mark.engine
def test_what_it_says(tmp_path: Path) -> None:
    rounds.submissions(rounds.agreement("bernoulli"), tmp_path, (1.0,))
    said = " ".join(run("doctor", "--ledger", "north.ledger", cwd=tmp_path).stdout.split())
    assert "chain intact, 1 spend" in said
    assert "compilation cache ok" in said
    (tmp_path / "file").write_text("")
    found = json.loads(run("doctor", "--ledger", "file", "--json", cwd=tmp_path, code=1).stdout)
    assert not found["fit"]


@pytest.mark.process
@pytest.mark.slow
def test_the_program(tmp_path: Path) -> None:
    """A cache that cannot be written is a warning; a ledger that is none makes the exit code 1."""
    (tmp_path / "file").write_text("")
    said = spawn(
        "doctor", cwd=tmp_path, JAX_COMPILATION_CACHE_DIR=None, EQUIPOISE_CACHE_DIR=str(tmp_path / "file" / "cache")
    ).stdout
    assert "compilation cache warning: cannot write into" in said
    assert "choose another with EQUIPOISE_CACHE_DIR" in " ".join(said.split())
    said = spawn("doctor", "--ledger", "file", "--json", cwd=tmp_path, code=1).stdout
    assert '"fit": false' in said


def test_a_cache_that_others_can_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o777)
    settings = SimpleNamespace(values={"jax_compilation_cache_dir": None})
    monkeypatch.setattr("jax.config", settings)
    monkeypatch.setenv("EQUIPOISE_CACHE_DIR", str(tmp_path / "cache"))
    found = doctor.check_cache()
    assert found.status == "warning"
    assert "not used: others can write" in found.found


@pytest.mark.process
@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="nothing is read-only to root")
def test_a_read_only_cache(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir(mode=0o500)
    said = spawn(
        "doctor", cwd=tmp_path, JAX_COMPILATION_CACHE_DIR=None, EQUIPOISE_CACHE_DIR=str(tmp_path / "cache")
    ).stdout
    assert "compilation cache warning: cannot write into" in said
