"""Tempering against added noise, on posteriors made up so that the answer is known."""

from pathlib import Path

import pytest

from equipoise.estimate import Estimate
from equipoise_paper.control import KAPPAS, TAUS, Controlled, at_equal_value, control, read_tempered
from equipoise_paper.posteriors import Found

RUNS = 3


def made_up(*, behaved: bool = True, worse: float = 1.0) -> list[Controlled]:
    """Values from 1 to 8 nats; noise that does not behave is worth most in the middle."""
    found = []
    for run in range(RUNS):
        for place, kappa in enumerate(KAPPAS):
            value = 1.5 + place + 0.01 * run
            found.append(Controlled("tempering", kappa, run, one(value, value - 9, 0.01 * run)))
        for place, tau in enumerate(TAUS):
            value = 8.0 - (place if behaved else abs(place - 4)) - 0.01 * run
            found.append(Controlled("added noise", tau, run, one(value, value - 9 - worse, 0.05 * run + worse)))
    return found


def numbers(controlled: Controlled) -> dict[str, float]:
    return {name: cell for name, cell in controlled.row().items() if not isinstance(cell, str)}


def one(value: float, similarity: float, more: float) -> Found:
    return Found(Estimate(value, 0.02), 10 - value + more, similarity, 1.01)


def test_claims_on_noise_that_behaves(tmp_path: Path) -> None:
    found = control("control", made_up(), tmp_path)
    assert [verdict.word for verdict in found.verdicts] == ["holds"] * 5
    assert len(found.pictures) == 8
    assert all(path.is_file() for path in found.pictures)
    assert len(found.rows) == len(KAPPAS) + len(TAUS)
    assert len(found.runs) == RUNS * len(found.rows)


def test_noise_that_does_not_behave_is_noticed(tmp_path: Path) -> None:
    words = {one.claim: one.word for one in control("control", made_up(behaved=False), tmp_path).verdicts}
    assert words["r grows with κ"] == "holds"
    assert words["r falls as τ grows (for this realisation of the noise)"] == "does not hold"


def test_what_tempering_does_not_better_is_not_claimed() -> None:
    assert at_equal_value(made_up(worse=-1.0), "similarity", higher=True).word == "does not hold"
    assert at_equal_value(made_up(worse=-1.0), "loss", higher=False).word == "does not hold"
    beyond = [one for one in made_up() if one.mechanism == "tempering" or one.amount == TAUS[-1]]
    found = at_equal_value(beyond, "loss", higher=False)  # worth less than any tempered posterior
    assert (found.word, found.reason) == (
        "cannot tell",
        "no noise-added posterior has a value that tempering reaches",
    )


def test_tempered_posteriors_are_read_as_they_were_written(tmp_path: Path) -> None:
    control("control", made_up(), tmp_path).save(tmp_path)
    before = [one for one in made_up() if one.mechanism == "tempering"]
    for old, new in zip(before, read_tempered(tmp_path / "control-runs.csv"), strict=True):
        assert new.mechanism == old.mechanism
        assert numbers(new) == pytest.approx(numbers(old), rel=1e-5)
